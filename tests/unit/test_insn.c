/* SPDX-License-Identifier: MIT */
/*
 * Decoding and relocation, by the tables in tests/insn. Behind them stands a judge that knows
 * nothing of how we do it: it decodes both forms with all operands and compares what they mean,
 * for every instruction of real libraries and for many that no compiler would make.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "../insn/decode.h"
#include "../insn/relocate.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- tables ------------------------------------------------------------------------------- */

static int from_hex(const char *hex, uint8_t *out)
{
	int len = 0;
	char *end;

	for (;;) {
		unsigned long v = strtoul(hex, &end, 16);

		if (end == hex)
			return len;
		out[len++] = v;
		hex = end;
	}
}

static void to_hex(const uint8_t *bytes, int len, char *out)
{
	*out = '\0';
	for (int i = 0; i < len; i++)
		out += sprintf(out, "%s%02x", i ? " " : "", bytes[i]);
}

/* What a row's third column would be: bytes, or the name of the error. */
static void result_text(int r, const uint8_t *bytes, char *out)
{
	if (r == -ERANGE)
		strcpy(out, "-ERANGE");
	else if (r == -ENOTSUP)
		strcpy(out, "-ENOTSUP");
	else if (r < 0)
		sprintf(out, "%d", r);
	else
		to_hex(bytes, r, out);
}

static void flags_text(int flags, char *out)
{
	static const char letter[] = "PFSRW";

	for (int i = 0; i < 5; i++)
		if (flags >> i & 1)
			*out++ = letter[i];
	*out = '\0';
}

static void decode_table(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(decode_rows); i++) {
		const struct decode_row *row = &decode_rows[i];
		uint8_t code[32];
		char flags[8];
		struct insn insn;
		int len = from_hex(row->hex, code);

		if (arch_x86_64.decode(code, len, 0x1000, &insn) < 0)
			fail_msg("%s: does not decode", row->what);
		flags_text(insn.flags, flags);
		if (insn.len != row->len || insn.kind != row->kind || strcmp(flags, row->flags) ||
		    insn.target != row->target)
			fail_msg("%s: len %d kind %d flags %s target %#lx", row->what, insn.len,
				 insn.kind, flags, insn.target);
	}
}

static void decode_refuses(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(undecodable_rows); i++) {
		uint8_t code[32];
		struct insn insn = { .len = 77 };
		int len = from_hex(undecodable_rows[i], code);

		if (arch_x86_64.decode(code, len, 0x1000, &insn) != -EILSEQ)
			fail_msg("%s: decodes", undecodable_rows[i]);
		assert_int_equal(insn.len, 77);
	}
}

static void relocate_table(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(relocate_rows); i++) {
		const struct relocate_row *row = &relocate_rows[i];
		uint8_t code[32], out[RELOC_MAX];
		char text[3 * RELOC_MAX + 1];
		struct insn insn;
		int len = from_hex(row->in, code);

		if (arch_x86_64.decode(code, len, row->from, &insn) < 0 || insn.len != len)
			fail_msg("%s: is not one instruction", row->what);
		result_text(arch_x86_64.relocate(code, &insn, row->from, row->to, out), out, text);
		if (strcmp(text, row->out))
			fail_msg("%s:\n got %s\nwant %s", row->what, text, row->out);
	}
}

static void jump_table(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(jump_rows); i++) {
		const struct relocate_row *row = &jump_rows[i];
		uint8_t out[5];
		char text[32];
		int r = arch_x86_64.jump(out, row->from, row->to);

		result_text(r < 0 ? r : 5, out, text);
		if (strcmp(text, row->out))
			fail_msg("%s:\n got %s\nwant %s", row->what, text, row->out);
	}
}

/* ---- the judge ---------------------------------------------------------------------------- */

struct full {
	uint64_t at;
	ZydisDecodedInstruction z;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

static ZydisDecoder judge;

static bool decode_full(const uint8_t *code, size_t room, uint64_t at, struct full *ret_full)
{
	ret_full->at = at;
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&judge, code, room, &ret_full->z, ret_full->op));
}

/* Says whether an operand is relative to the PC, and what it comes to. */
static bool absolute_of(const struct full *f, const ZydisDecodedOperand *op, uint64_t *ret_addr)
{
	bool relative = op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative;

	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY)
		relative = op->mem.base == ZYDIS_REGISTER_RIP || op->mem.base == ZYDIS_REGISTER_EIP;
	return relative && ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&f->z, op, f->at, ret_addr));
}

static bool same_operand(const struct full *a, const struct full *b, int i)
{
	const ZydisDecodedOperand *x = &a->op[i], *y = &b->op[i];
	uint64_t ax, ay;

	if (x->type != y->type || x->visibility != y->visibility || x->actions != y->actions)
		return false;
	switch (x->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		return x->reg.value == y->reg.value;
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		if (x->imm.is_relative)
			return absolute_of(a, x, &ax) && absolute_of(b, y, &ay) && ax == ay;
		return x->imm.value.u == y->imm.value.u && x->size == y->size;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		if (x->mem.base != y->mem.base || x->mem.index != y->mem.index ||
		    x->mem.scale != y->mem.scale || x->mem.segment != y->mem.segment ||
		    x->size != y->size)
			return false;
		if (absolute_of(a, x, &ax))
			return absolute_of(b, y, &ay) && ax == ay;
		return x->mem.disp.value == y->mem.disp.value;
	default:
		return true;
	}
}

static bool same_meaning(const struct full *a, const struct full *b)
{
	ZydisInstructionAttributes kept = ZYDIS_ATTRIB_HAS_LOCK | ZYDIS_ATTRIB_HAS_REP |
		ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE | ZYDIS_ATTRIB_HAS_NOTRACK |
		ZYDIS_ATTRIB_HAS_SEGMENT;

	if (a->z.mnemonic != b->z.mnemonic || a->z.operand_count != b->z.operand_count ||
	    a->z.operand_width != b->z.operand_width || a->z.address_width != b->z.address_width ||
	    (a->z.attributes & kept) != (b->z.attributes & kept))
		return false;
	for (int i = 0; i < a->z.operand_count; i++)
		if (!same_operand(a, b, i))
			return false;
	return true;
}

/* What struct insn says, from the operands. Returns the first thing that is wrong, or NULL. */
static const char *judge_insn(const struct full *f, const struct insn *insn)
{
	bool sp = f->z.meta.category == ZYDIS_CATEGORY_CALL;	/* a far one hides its stack */
	bool pcrel = false;
	uint64_t target = 0;

	for (int i = 0; i < f->z.operand_count; i++) {
		const ZydisDecodedOperand *op = &f->op[i];
		ZydisRegister reg = ZYDIS_REGISTER_NONE;

		pcrel |= absolute_of(f, op, &target);
		if (op->type == ZYDIS_OPERAND_TYPE_REGISTER)
			reg = op->reg.value;
		else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY)
			reg = op->mem.base;
		sp |= ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) ==
		      ZYDIS_REGISTER_RSP;
	}
	if (insn->len != f->z.length)
		return "length";
	if (pcrel != !!(insn->flags & INSN_PCREL) || insn->target != target)
		return "target";
	if (insn->kind == INSN_NOP || insn->kind == INSN_INT3)
		return NULL;			/* (%rsp) of a nop means nothing */
	return sp == !!(insn->flags & INSN_USES_SP) ? NULL : "use of the stack";
}

/* A call became: [push operand] ... jmp. Its operand or target must be the same. */
static const char *judge_call(const struct full *f, const struct insn *insn, const uint8_t *out,
			      int len, uint64_t to)
{
	struct full first, last = { 0 };
	uint64_t want, got;

	for (int i = 0; i < len; i += last.z.length)
		if (!decode_full(out + i, len - i, to + i, &last))
			return "call does not decode";
	if (last.z.mnemonic != ZYDIS_MNEMONIC_JMP)
		return "call does not end with a jump";
	if (insn->kind == INSN_CALL) {
		if (!absolute_of(f, &f->op[0], &want) || !absolute_of(&last, &last.op[0], &got))
			return "call has no target";
		return want == got ? NULL : "call goes elsewhere";
	}
	if (last.op[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		return same_operand(f, &last, 0) ? NULL : "call of another register";
	if (!decode_full(out, len, to, &first) || first.z.mnemonic != ZYDIS_MNEMONIC_PUSH)
		return "call does not begin with a push";
	return same_operand(f, &first, 0) ? NULL : "call of another operand";
}

/* loop became: loop 1f; jmp 2f; 1: jmp target; 2: */
static const char *judge_loop(const struct full *f, const uint8_t *out, int len, uint64_t to)
{
	struct full loop, over, jump;
	uint64_t taken, end, target, want;
	int a, b;

	if (!decode_full(out, len, to, &loop))
		return "loop does not decode";
	a = loop.z.length;
	if (!decode_full(out + a, len - a, to + a, &over))
		return "loop does not decode";
	b = a + over.z.length;
	if (!decode_full(out + b, len - b, to + b, &jump) || b + jump.z.length != len)
		return "loop does not decode";
	if (loop.z.mnemonic != f->z.mnemonic || loop.z.address_width != f->z.address_width)
		return "another loop";
	if (!absolute_of(&loop, &loop.op[0], &taken) || taken != to + b ||
	    !absolute_of(&over, &over.op[0], &end) || end != to + len ||
	    !absolute_of(&jump, &jump.op[0], &target) || !absolute_of(f, &f->op[0], &want) ||
	    target != want)
		return "loop goes elsewhere";
	return NULL;
}

static const char *judge_moved(const struct full *f, const struct insn *insn, const uint8_t *out,
			       int len, uint64_t to)
{
	struct full moved;

	if (insn->kind == INSN_CALL || insn->kind == INSN_CALL_IND)
		return judge_call(f, insn, out, len, to);
	if (insn->kind == INSN_LOOP)
		return judge_loop(f, out, len, to);
	if (!decode_full(out, len, to, &moved) || moved.z.length != len)
		return "does not decode";
	return same_meaning(f, &moved) ? NULL : "means something else";
}

static struct {
	unsigned long insns, moved, refused;
} tally;

/* Judge the instruction there and say how long it is; 0 if it is none. */
static int judge_one(const uint8_t *code, size_t room, uint64_t from, uint64_t to)
{
	uint8_t out[RELOC_MAX + 16], again[RELOC_MAX];
	char text[64];
	const char *wrong;
	struct insn insn;
	struct full f;
	int len;

	if (!decode_full(code, room, from, &f)) {
		assert_int_equal(arch_x86_64.decode(code, room, from, &insn), -EILSEQ);
		return 0;
	}
	assert_int_equal(arch_x86_64.decode(code, room, from, &insn), 0);
	wrong = judge_insn(&f, &insn);
	if (!wrong) {
		memset(out, 0xa5, sizeof(out));
		len = arch_x86_64.relocate(code, &insn, from, to, out);
		assert_true(len <= RELOC_MAX && out[RELOC_MAX] == 0xa5);
		if (len > 0)
			wrong = judge_moved(&f, &insn, out, len, to);
		if (len > 0 && len != arch_x86_64.relocate(code, &insn, from, from + 1, again))
			wrong = "length depends on the address";
		tally.insns++;
		tally.moved += len > 0;
		tally.refused += len < 0;
	}
	to_hex(code, insn.len, text);
	if (wrong)
		fail_msg("%s at %#lx: %s", text, from, wrong);
	return insn.len;
}

static uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Up to 512 MB away, in either direction. */
static uint64_t somewhere_near(uint64_t from)
{
	return from + (int32_t)random_word() / 4;
}

static void judge_text(const uint8_t *text, size_t size)
{
	for (size_t i = 0; i < size;) {
		uint64_t from = (uint64_t)text + i;
		int len = judge_one(text + i, size - i, from, somewhere_near(from));

		i += len ? len : 1;
	}
}

static int judge_module(struct dl_phdr_info *info, size_t size, void *name)
{
	if (!strstr(info->dlpi_name, name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && ph->p_flags & PF_X)
			judge_text((const uint8_t *)info->dlpi_addr + ph->p_vaddr, ph->p_memsz);
	}
	return 1;
}

static void judge_library(const char *name)
{
	memset(&tally, 0, sizeof(tally));
	assert_int_equal(dl_iterate_phdr(judge_module, (void *)name), 1);
	print_message("    %s: %lu instructions, %lu moved, %lu refused\n", name, tally.insns,
		      tally.moved, tally.refused);
	assert_true(tally.moved > 100000);
	assert_true(tally.refused < tally.moved / 100);
}

static void every_instruction_of_libc(void **state)
{
	judge_library("libc.so");
}

/* Hand-written assembly in every vector extension there is. */
static void every_instruction_of_libcrypto(void **state)
{
	if (!dlopen("libcrypto.so.3", RTLD_NOW))
		skip();
	judge_library("libcrypto");
}

/* Random bytes behind random prefixes; the opcodes that matter are more frequent than by chance. */
static void random_instructions(void **state)
{
	static const uint8_t prefix[] = {
		0x66, 0x67, 0xf2, 0xf3, 0x3e, 0x2e, 0x64, 0x65, 0xf0, 0x48, 0x41, 0x45,
	};
	static const uint8_t opcode[] = {
		0xff, 0xe8, 0xe9, 0xeb, 0x74, 0xe2, 0xe3, 0x0f, 0xc7, 0xc4, 0xc5, 0x62, 0x8f, 0x8b,
	};
	uint8_t code[32];

	memset(&tally, 0, sizeof(tally));
	for (int i = 0; i < 1000000; i++) {
		uint64_t from = 0x7f0000000000 + (random_word() & 0xffffffff);
		int n = random_word() % 4;

		for (size_t k = 0; k < sizeof(code); k++)
			code[k] = random_word();
		for (int k = 0; k < n; k++)
			code[k] = prefix[random_word() % sizeof(prefix)];
		if (random_word() & 1)
			code[n] = opcode[random_word() % sizeof(opcode)];
		if (random_word() & 1)			/* a ModRM that means rip */
			code[n + 1 + random_word() % 5] = 0x05 | (random_word() & 0x38);
		judge_one(code, 15, from, somewhere_near(from));
	}
	print_message("    %lu instructions, %lu moved, %lu refused\n", tally.insns, tally.moved,
		      tally.refused);
	assert_true(tally.moved > 100000);
}

static int set_up(void **state)
{
	return !ZYAN_SUCCESS(ZydisDecoderInit(&judge, ZYDIS_MACHINE_MODE_LONG_64,
					      ZYDIS_STACK_WIDTH_64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decode_table),
		cmocka_unit_test(decode_refuses),
		cmocka_unit_test(relocate_table),
		cmocka_unit_test(jump_table),
		cmocka_unit_test(every_instruction_of_libc),
		cmocka_unit_test(every_instruction_of_libcrypto),
		cmocka_unit_test(random_instructions),
	};

	return cmocka_run_group_tests_name("insn", tests, set_up, NULL);
}
