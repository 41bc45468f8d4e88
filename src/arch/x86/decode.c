/* SPDX-License-Identifier: MIT */
/*
 * Decodes bytes to struct insn. Zydis finds the length and the fields; this file says what matters for moving the
 * instruction: where control goes, which four bytes hold a distance, whether the stack or the flags are used.
 *
 * Operands cost as much to decode as the rest, so they are decoded only for the few instructions whose raw fields
 * leave open whether rsp is used (register number 4 is also xmm4, ah and "/4").
 */
#include "arch/x86/x86.h"

#include <Zydis/Zydis.h>

#include "base/err.h"

#define STATUS_FLAGS (ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | \
		      ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)

struct decoded {
	ZydisDecoder decoder;
	ZydisDecoderContext context;
	ZydisDecodedInstruction z;
};

static bool is_relative(const ZydisDecodedInstruction *z)
{
	return z->raw.imm[0].is_relative;
}

static bool is_far(const ZydisDecodedInstruction *z)
{
	return z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
}

static bool never_goes_on(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_UIRET:
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_SYSEXIT:
	case ZYDIS_MNEMONIC_RSM:
		return true;
	default:
		return false;
	}
}

/* By mnemonic: Zydis' categories call xabort a jump and xbegin a conditional one. */
static enum insn_kind kind_of(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_JMP:
		if (is_far(z))
			return INSN_STOP;
		return is_relative(z) ? INSN_JMP : INSN_JMP_IND;
	case ZYDIS_MNEMONIC_CALL:
		if (is_far(z))
			return INSN_STOP;
		return is_relative(z) ? INSN_CALL : INSN_CALL_IND;
	case ZYDIS_MNEMONIC_RET:
		return is_far(z) ? INSN_STOP : INSN_RET;
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE:
	case ZYDIS_MNEMONIC_JRCXZ:
	case ZYDIS_MNEMONIC_JECXZ:
	case ZYDIS_MNEMONIC_JCXZ:
		return INSN_LOOP;
	case ZYDIS_MNEMONIC_XBEGIN:
		return INSN_XBEGIN;
	case ZYDIS_MNEMONIC_ENDBR32:
	case ZYDIS_MNEMONIC_ENDBR64:
		return INSN_ENDBR;
	case ZYDIS_MNEMONIC_INT3:
		return INSN_INT3;
	case ZYDIS_MNEMONIC_SYSCALL:
	case ZYDIS_MNEMONIC_SYSENTER:
		return INSN_SYSCALL;
	case ZYDIS_MNEMONIC_INT:
		return z->raw.imm[0].value.u == 0x80 ? INSN_SYSCALL : INSN_STOP;
	default:
		break;
	}
	if (never_goes_on(z))
		return INSN_STOP;
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return is_relative(z) ? INSN_JCC : INSN_PLAIN;
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
		return z->mnemonic == ZYDIS_MNEMONIC_NOP ? INSN_NOP : INSN_PLAIN;
	default:
		return INSN_PLAIN;
	}
}

static bool has_modrm(const ZydisDecodedInstruction *z)
{
	return z->attributes & ZYDIS_ATTRIB_HAS_MODRM;
}

/* Moves to control registers have mod 0 and no memory operand, hence the check of disp. */
static bool is_rip_relative(const ZydisDecodedInstruction *z)
{
	return has_modrm(z) && z->raw.modrm.mod == 0 && z->raw.modrm.rm == 5 &&
	       z->raw.disp.size == 32;
}

/* Sets the offset of the distance and its target. A 16-bit distance (66 xbegin) can't be expressed. */
static void set_target(const ZydisDecodedInstruction *z, uint64_t addr, struct insn *insn)
{
	uint64_t next = addr + z->length;

	if (is_relative(z)) {
		insn->flags |= INSN_PCREL;
		insn->target = next + z->raw.imm[0].value.s;
		if (z->raw.imm[0].size != 16) {
			insn->rel_off = z->raw.imm[0].offset;
			insn->rel_size = z->raw.imm[0].size / 8;
		}
	} else if (is_rip_relative(z)) {
		insn->flags |= INSN_PCREL;
		insn->target = next + z->raw.disp.value;
		if (z->address_width == 32)
			insn->target = (uint32_t)insn->target;
		insn->rel_off = z->raw.disp.offset;
		insn->rel_size = 4;
	}
}

/* Instructions that access memory without a ModRM operand. */
static bool has_hidden_memory(const ZydisDecodedInstruction *z)
{
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_STRINGOP:
	case ZYDIS_CATEGORY_IOSTRINGOP:
		return true;
	default:
		break;
	}
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_XLAT:
	case ZYDIS_MNEMONIC_MASKMOVQ:
	case ZYDIS_MNEMONIC_MASKMOVDQU:
	case ZYDIS_MNEMONIC_VMASKMOVDQU:
	case ZYDIS_MNEMONIC_CLZERO:
	case ZYDIS_MNEMONIC_MONITORX:
	case ZYDIS_MNEMONIC_UMONITOR:
	case ZYDIS_MNEMONIC_MOVDIR64B:
	case ZYDIS_MNEMONIC_ENQCMD:
		return true;
	case ZYDIS_MNEMONIC_MOV:
		return !has_modrm(z) && z->raw.disp.size;	/* a0..a3: the address is in the bytes */
	default:
		return false;
	}
}

/* Has a ModRM operand in memory that is not read or written. */
static bool only_computes_address(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_LEA:
	case ZYDIS_MNEMONIC_NOP:
	case ZYDIS_MNEMONIC_CLDEMOTE:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
		return true;
	default:
		return z->meta.category == ZYDIS_CATEGORY_PREFETCH;
	}
}

/* Bits that make r8..r15 of a base or index. All prefixes but REX store them inverted. */
static void high_bits(const ZydisDecodedInstruction *z, bool *ret_base, bool *ret_index)
{
	switch (z->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		*ret_base = !z->raw.vex.B;
		*ret_index = !z->raw.vex.X;
		break;
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		*ret_base = !z->raw.evex.B;
		*ret_index = !z->raw.evex.X;
		break;
	case ZYDIS_INSTRUCTION_ENCODING_XOP:
		*ret_base = !z->raw.xop.B;
		*ret_index = !z->raw.xop.X;
		break;
	default:
		*ret_base = z->raw.rex.B;
		*ret_index = z->raw.rex.X;
	}
}

/*
 * Memory at a fixed offset from rsp, rbp or rip is taken to be mapped, and so is thread-local data at a fixed %fs
 * offset. An index register may lead away from any of them.
 */
static bool is_trusted_address(const ZydisDecodedInstruction *z)
{
	bool fs = z->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS;
	bool gs = z->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS;
	unsigned int mod = z->raw.modrm.mod, rm = z->raw.modrm.rm, base = z->raw.sib.base;
	bool high_base, high_index;

	high_bits(z, &high_base, &high_index);
	if (z->address_width != 64 || gs)
		return false;
	if (rm == 5)
		return !fs && (mod == 0 || !high_base);
	if (rm != 4 || z->raw.sib.index != 4 || high_index)
		return false;
	if (base == 5 && mod == 0)
		return fs;
	return !fs && !high_base && (base == 4 || base == 5);
}

static bool may_fault(const ZydisDecodedInstruction *z)
{
	if (z->mnemonic == ZYDIS_MNEMONIC_DIV || z->mnemonic == ZYDIS_MNEMONIC_IDIV)
		return true;
	if (z->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
		return true;
	if (has_hidden_memory(z))
		return true;
	if (!has_modrm(z) || z->raw.modrm.mod == 3 || only_computes_address(z))
		return false;
	return !is_trusted_address(z);
}

/* A register field has the number 4: it may be rsp. */
static bool may_name_sp(const ZydisDecodedInstruction *z)
{
	if (has_modrm(z))
		return z->raw.modrm.reg == 4 || z->raw.modrm.rm == 4 ||
		       z->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	return true;
}

static bool is_sp(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) ==
	       ZYDIS_REGISTER_RSP;
}

static bool operands_use_sp(struct decoded *d)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeOperands(&d->decoder, &d->context, &d->z, ops,
						     d->z.operand_count)))
		return true;
	for (int i = 0; i < d->z.operand_count; i++) {
		if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER && is_sp(ops[i].reg.value))
			return true;
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY && is_sp(ops[i].mem.base))
			return true;
	}
	return false;
}

static bool uses_sp(struct decoded *d, enum insn_kind kind)
{
	switch (kind) {
	case INSN_CALL:
	case INSN_CALL_IND:
	case INSN_RET:
		return true;
	case INSN_JMP:
	case INSN_JCC:
	case INSN_LOOP:
	case INSN_NOP:
	case INSN_ENDBR:
	case INSN_INT3:
		return false;
	default:
		break;
	}
	switch (d->z.meta.category) {
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_CALL:		/* far */
		return true;
	default:
		return may_name_sp(&d->z) && operands_use_sp(d);
	}
}

/* With a count of zero these instructions leave the flags unchanged. */
static bool writes_flags_maybe(const ZydisDecodedInstruction *z)
{
	if (z->meta.category == ZYDIS_CATEGORY_SHIFT || z->meta.category == ZYDIS_CATEGORY_ROTATE)
		return true;
	return z->meta.category == ZYDIS_CATEGORY_STRINGOP;
}

static unsigned int flag_use(const ZydisDecodedInstruction *z)
{
	const ZydisAccessedFlags *f = z->cpu_flags;
	unsigned int all, use = 0;

	if (!f)
		return 0;
	if (f->tested & STATUS_FLAGS)
		use |= INSN_READS_FLAGS;
	all = f->modified | f->set_0 | f->set_1 | f->undefined;
	if ((all & STATUS_FLAGS) == STATUS_FLAGS && !writes_flags_maybe(z))
		use |= INSN_WRITES_FLAGS;
	return use;
}

int x86_decode(const uint8_t *code, size_t room, uint64_t addr, struct insn *ret_insn)
{
	struct decoded d;
	struct insn insn = { 0 };

	ZydisDecoderInit(&d.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&d.decoder, &d.context, code, room, &d.z)))
		return -EILSEQ;

	insn.len = d.z.length;
	insn.kind = kind_of(&d.z);
	set_target(&d.z, addr, &insn);
	insn.flags |= flag_use(&d.z);
	if (may_fault(&d.z))
		insn.flags |= INSN_MAY_FAULT;
	if (uses_sp(&d, insn.kind))
		insn.flags |= INSN_USES_SP;
	*ret_insn = insn;
	return 0;
}
