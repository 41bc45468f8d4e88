/* SPDX-License-Identifier: MIT */
/*
 * Decodes a word to struct insn: where control goes, whether the instruction depends on its own address, and whether it begins
 * or ends an exclusive access. Every instruction has four bytes.
 *
 * The compiler may put constants between functions, and older ones inside: any word is taken for an instruction here, and the
 * words that the function itself loads from are known by these loads (TARGET_DATA in pad/code.h).
 */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/encode.h"
#include "base/err.h"

/*
 * Landing marks of indirect branches. paciasp and pacibsp are such marks, too: where pages are guarded (BTI) an indirect branch
 * to any other instruction faults, so a jump may not replace them.
 */
static bool is_landing(uint32_t hint)
{
	return hint == 25 || hint == 27 || (hint & ~6u) == 32;
}

static enum insn_kind system_kind(uint32_t w)
{
	if ((w & 0xfffff01f) == 0xd503201f) {
		uint32_t hint = w >> 5 & 0x7f;

		return !hint ? INSN_NOP : is_landing(hint) ? INSN_ENDBR : INSN_PLAIN;
	}
	if ((w & 0xff000000) != 0xd4000000)
		return INSN_PLAIN;
	return (w & 0xffe0001f) == A64_SVC ? INSN_SYSCALL : INSN_STOP;	/* brk, hlt, hvc, smc */
}

/* Branches to the address in a register, with and without authentication. */
static enum insn_kind register_branch(uint32_t w)
{
	switch (w >> 21 & 15) {
	case 0:
	case 8:
		return INSN_JMP_IND;
	case 1:
	case 9:
		return INSN_CALL_IND;
	case 2:
		return INSN_RET;
	default:
		return INSN_STOP;	/* eret, drps */
	}
}

static enum insn_kind kind_of(uint32_t w)
{
	if (w >> 26 == 0x05)
		return INSN_JMP;
	if (w >> 26 == 0x25)
		return INSN_CALL;
	if ((w & 0xff000000) == 0x54000000 || (w & 0x7e000000) == 0x34000000 || (w & 0x7e000000) == 0x36000000)
		return INSN_JCC;
	if ((w & 0xfe000000) == 0xd6000000)
		return register_branch(w);
	if (!(w >> 16))
		return INSN_STOP;	/* udf */
	return system_kind(w);
}

/* Sets the target if there is one: branches, adr, adrp, and loads from a distance. */
static void set_target(uint32_t w, uint64_t addr, struct insn *insn)
{
	uint64_t target;

	if (insn->kind == INSN_JMP || insn->kind == INSN_CALL)
		target = addr + 4 * a64_signed(w, 26);
	else if (insn->kind == INSN_JCC && (w & 0x7e000000) == 0x36000000)
		target = addr + 4 * a64_signed(w >> 5 & 0x3fff, 14);
	else if (insn->kind == INSN_JCC)
		target = addr + 4 * a64_signed(w >> 5 & 0x7ffff, 19);
	else if ((w & 0x9f000000) == 0x10000000)
		target = addr + a64_signed((w >> 5 & 0x7ffff) << 2 | (w >> 29 & 3), 21);
	else if ((w & 0x9f000000) == 0x90000000)
		target = (addr & ~4095ull) + 4096 * a64_signed((w >> 5 & 0x7ffff) << 2 | (w >> 29 & 3), 21);
	else if ((w & 0x3b000000) == 0x18000000)
		target = addr + 4 * a64_signed(w >> 5 & 0x7ffff, 19);
	else
		return;
	if ((w & 0x3b000000) == 0x18000000)
		insn->flags |= INSN_LITERAL;
	insn->flags |= INSN_PCREL;
	insn->target = target;
	insn->rel_size = 4;
}

/*
 * Between a load-exclusive and its store-exclusive no other memory may be written, or the store may fail each time, for ever.
 * Compare-and-swap (cas, casp) and plain acquire and release are in the same group, and complete in one instruction.
 */
static unsigned int exclusive_flags(uint32_t w)
{
	bool pair = w >> 21 & 1;

	if (w == A64_CLREX || (w & 0xfffff0ff) == (A64_CLREX & 0xfffff0ff))
		return INSN_EXCLUSIVE_END;
	if ((w & 0x3f800000) != 0x08000000 || (pair && !(w >> 31)))
		return 0;
	return w >> 22 & 1 ? INSN_EXCLUSIVE : INSN_EXCLUSIVE_END;
}

/* Memory at sp or the frame pointer is taken to be mapped, with a constant offset. */
static bool may_fault(uint32_t w)
{
	uint32_t base = w >> 5 & 31;
	bool indexed = (w & 0x3b200c00) == 0x38200800;

	if ((w >> 25 & 5) != 4 || (w & 0x3b000000) == 0x18000000)
		return false;
	return indexed || (base != A64_SP && base != 29);
}

int a64_decode(const uint8_t *code, size_t room, uint64_t addr, struct insn *ret_insn)
{
	struct insn insn = { .len = 4 };
	uint32_t w;

	if (room < 4 || addr & 3)
		return -EILSEQ;
	w = a64_word(code);
	insn.kind = kind_of(w);
	set_target(w, addr, &insn);
	insn.flags |= exclusive_flags(w);
	if (may_fault(w))
		insn.flags |= INSN_MAY_FAULT;
	*ret_insn = insn;
	return 0;
}

/*
 * Whether the `br` after these `before` bytes stays in its function: a switch. Compilers make its address by an addition, from a table of
 * distances. An address that was loaded, or is in x16 or x17 (the linker's registers), belongs to another function.
 */
bool a64_stays(const uint8_t *br, size_t before)
{
	uint32_t reg = a64_word(br) >> 5 & 31;

	if (reg == 16 || reg == 17)
		return false;
	for (size_t back = 4; back <= before && back <= 4 * 8; back += 4) {
		uint32_t w = a64_word(br - back), kind = kind_of(w);

		if (kind != INSN_PLAIN && kind != INSN_NOP && kind != INSN_ENDBR)
			return false;
		if ((w & 31) != reg)
			continue;
		/* add x, y, z with a shifted or an extended register */
		return (w & 0xff200000) == 0x8b000000 || (w & 0xffe00000) == 0x8b200000;
	}
	return false;
}
