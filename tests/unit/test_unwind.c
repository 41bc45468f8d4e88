/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables and the walker, without a process: call frame instructions to rows, rows to the bytes of a
 * table, and walks over stacks made by hand, good and bad ones.
 */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "blob/unwind.c"
#include "elfmake.h"
#include "sym/unwind/unwind.h"

#define CODE_LEN 0x800

/* A file with one CIE and one FDE of TEXT...; programs are hex digits. */
static struct module *make_module(const char *augmentation, const char *cie_program, const char *program)
{
	static struct made e;
	struct module *m;
	size_t at = FRAMES + 8, fde;
	const char *s;

	made_start(&e);
	e.p[at++] = 1;
	strcpy((char *)e.p + at, augmentation);
	at += strlen(augmentation) + 1;
	memcpy(e.p + at, "\x01\x78\x10\x01\x1b", 5);	/* alignments 1 and -8, rip, pc-relative */
	for (at += 5, s = cie_program; *s; s += 2, at++)
		e.p[at] = strtoul((char[]){ s[0], s[1], 0 }, NULL, 16);
	at = (at + 3) & ~3ul;
	made_put32(&e, FRAMES, at - FRAMES - 4);
	fde = at;
	made_put32(&e, fde + 4, fde + 4 - FRAMES);
	made_put32(&e, fde + 8, TEXT - (fde + 8));
	made_put32(&e, fde + 12, CODE_LEN);
	for (at = fde + 17, s = program; *s; s += 2, at++)
		e.p[at] = strtoul((char[]){ s[0], s[1], 0 }, NULL, 16);
	at = (at + 3) & ~3ul;
	made_put32(&e, fde, at - fde - 4);
	made_section(&e, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, FRAMES, at - FRAMES);
	e.frames = at;
	made_finish(&e, ET_DYN);
	assert_int_equal(module_open_memory(e.p, e.end, "made", &m), 0);
	return m;
}

static const char *reg_name(int reg)
{
	static const char *const names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15" };

	return names[reg & 15];
}

static int put_rule(char *out, const struct unwind_rule *r)
{
	static const char *const kinds[] = { "none", "end", "stop", "", "", "", "signal" };
	int n = 0;

	if (kinds[r->kind][0])
		return sprintf(out, "%s", kinds[r->kind]);
	if (r->kind == UNWIND_DEREF)
		n += sprintf(out, "[%s%+d]%+d", reg_name(r->reg), r->off, r->add);
	else
		n += sprintf(out, "%s%+d", reg_name(r->reg), r->off);
	if (r->kind == UNWIND_PLT)
		n += sprintf(out + n, " plt%d", r->add);
	if (r->flags & UNWIND_RA_REG)
		n += sprintf(out + n, " ra=%s", reg_name(r->ra));
	else if (r->ra != -8)
		n += sprintf(out + n, " ra%+d", r->ra);
	if (r->flags & (UNWIND_FP_CFA | UNWIND_FP_FP))
		n += sprintf(out + n, " bp%s%+d", r->flags & UNWIND_FP_FP ? "@bp" : "", r->fp);
	if (r->flags & (UNWIND_EXTRA_CFA | UNWIND_EXTRA_FP))
		n += sprintf(out + n, " bx%s%+d", r->flags & UNWIND_EXTRA_FP ? "@bp" : "", r->extra);
	if (r->flags & UNWIND_FP_LOST)
		n += sprintf(out + n, " bp?");
	if (r->flags & UNWIND_EXTRA_LOST)
		n += sprintf(out + n, " bx?");
	return n;
}

/* "0 rsp+8; 1 rsp+16 bp-16": places from the start of the code, each rule where it begins to hold */
static void dump(const struct unwind_data *d, char *out)
{
	const struct unwind_rule *rules = (const void *)((const char *)d + d->rules);
	const uint32_t *rows = (const void *)((const char *)d + d->rows);
	uint32_t b, i, last = 0;

	*out = 0;
	for (b = 0; b < d->nblocks; b++) {
		assert_int_equal(rows[d->index[b]] % UNWIND_BLOCK, 0);
		for (i = d->index[b]; i < d->index[b + 1]; i++) {
			uint32_t rule = rows[i] / UNWIND_BLOCK;

			assert_true(rule < d->nrules);
			assert_true(i == d->index[b] || rows[i] % UNWIND_BLOCK > rows[i - 1] % UNWIND_BLOCK);
			if (rule == last)
				continue;
			last = rule;
			out += sprintf(out, "%s%x ", *out || b || i ? "; " : "", b * UNWIND_BLOCK + rows[i] % UNWIND_BLOCK);
			out += put_rule(out, &rules[rule]);
		}
	}
}

struct row_case { const char *what, *cie, *program, *rows; };

#define NORMAL "0c07089001"	/* CFA = rsp+8, return address at CFA-8 */

static const struct row_case cases[] = {
	{ "nothing but the CIE", NORMAL, "", "0 rsp+8; 800 none" },
	{ "push %rbp; mov; leave; ret", NORMAL, "410e108602430d0642" "0c0708", "0 rsp+8; 1 rsp+16 bp-16; 4 rbp+16 bp-16; "
		"6 rsp+8 bp-16; 800 none" },
	{ "rbx saved", NORMAL, "410e108302", "0 rsp+8; 1 rsp+16 bx-16; 800 none" },
	{ "r12-r15 make no rows", NORMAL, "428c02418d03418e04", "0 rsp+8; 800 none" },
	{ "advance by 1, 2 and 4 bytes", NORMAL, "02700e1003f0010e18" "0400020000" "0e20",
		"0 rsp+8; 70 rsp+16; 260 rsp+24; 460 rsp+32; 800 none" },
	{ "to an address", NORMAL, "01dfefffff0e10", "0 rsp+8; 9 rsp+16; 800 none" },
	{ "backwards: nothing from there on", NORMAL, "440e100100e0ffff0e20", "0 rsp+8; 4 stop; 800 none" },
	{ "behind the end", NORMAL, "410e1004000800000e20", "0 rsp+8; 1 rsp+16; 800 none" },
	{ "remember and restore", NORMAL, "410e10860244" "0a" "0e08c641" "0b", "0 rsp+8; 1 rsp+16 bp-16; 5 rsp+8; "
		"6 rsp+16 bp-16; 800 none" },
	{ "restore without remember", NORMAL, "410b", "0 rsp+8; 1 stop; 800 none" },
	{ "remember nine times", NORMAL, "410a0a0a0a0a0a0a0a0a", "0 rsp+8; 1 stop; 800 none" },
	{ "extended forms", NORMAL, "410e1005060241" "060641" "11067e41" "0806", "0 rsp+8; 1 rsp+16 bp-16; 2 rsp+16; "
		"3 rsp+16 bp+16; 4 rsp+16; 800 none" },
	{ "signed forms", NORMAL, "4112077e4113" "7d", "0 rsp+8; 1 rsp+16; 2 rsp+24; 800 none" },
	{ "another base", NORMAL, "410c0a00410d00410c1000", "0 rsp+8; 1 r10+0; 2 rax+0; 3 stop; 800 none" },
	{ "numbers of DWARF are not the machine's", NORMAL, "410d01410d02410d04410d05", "0 rsp+8; 1 rdx+8; 2 rcx+8; 3 rsi+8; "
		"4 rdi+8; 800 none" },
	{ "realigned by way of r10", NORMAL, "450c0a00" "481006027600" "430f037678" "06", "0 rsp+8; 5 r10+0; "
		"d r10+0 bp@bp+0; 10 [rbp-8]+0 bp@bp+0; 800 none" },
	{ "rbx counted from rbp", NORMAL, "411003027668", "0 rsp+8; 1 rsp+8 bx@bp-24; 800 none" },
	{ "kept on the stack, and more", NORMAL, "410f0577c8000623" "08", "0 rsp+8; 1 stop; 800 none" },
	{ "kept on the stack", NORMAL, "410f0677c800062308", "0 rsp+8; 1 [rsp+72]+8; 800 none" },
	{ "an expression without deref", NORMAL, "410f027718", "0 rsp+8; 1 rsp+24; 800 none" },
	{ "one of another kind", NORMAL, "410f0377081c", "0 rsp+8; 1 stop; 800 none" },
	{ "an empty one", NORMAL, "410f00", "0 rsp+8; 1 stop; 800 none" },
	{ "a new CFA after an expression", NORMAL, "410f00410c0710", "0 rsp+8; 1 stop; 2 rsp+16; 800 none" },
	{ "PLT", NORMAL, "0e10460e184a0f0b770880003f1a3b2a332422", "0 rsp+16; 6 rsp+24; 10 rsp+8 plt11; 800 none" },
	{ "PLT, cut", NORMAL, "4a0f0a770880003f1a3b2a3324", "0 rsp+8; a stop; 800 none" },
	{ "outermost", NORMAL, "0710", "0 end; 800 none" },
	{ "return address in a register", NORMAL, "41091002", "0 rsp+8; 1 rsp+8 ra=rcx; 800 none" },
	{ "return address elsewhere", NORMAL, "419003", "0 rsp+8; 1 rsp+8 ra-24; 800 none" },
	{ "another stack pointer", NORMAL, "41090708", "0 rsp+8; 1 stop; 800 none" },
	{ "rbp in a register, rbx by value", NORMAL, "41090609" "411403014108" "03", "0 rsp+8; 1 rsp+8 bp?; 2 rsp+8 bp? bx?; "
		"3 rsp+8 bp?; 800 none" },
	{ "size of arguments", NORMAL, "412e20410e10", "0 rsp+8; 2 rsp+16; 800 none" },
	{ "unknown instruction", NORMAL, "410e1041300e18", "0 rsp+8; 1 rsp+16; 2 stop; 800 none" },
	{ "ends in the middle", NORMAL, "410e1004", "0 rsp+8; 1 stop; 800 none" },
	{ "large frames", NORMAL, "410e88808004", "0 rsp+8; 1 rsp+8388616; 800 none" },
	{ "larger than any", NORMAL, "410e8080808080808001", "0 rsp+8; 1 stop; 800 none" },
	{ "saved too far away", NORMAL, "4186808001", "0 rsp+8; 1 rsp+8 bp?; 800 none" },
	{ "no CFA in the CIE", "", "410e10", "0 stop; 800 none" },
};

static void rows(void **state)
{
	char text[2000];
	uint64_t lo, hi;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct module *m = make_module("zR", cases[i].cie, cases[i].program);
		const struct unwind_data *d = module_unwind(m, &lo, &hi);

		assert_non_null(d);
		assert_int_equal(lo, TEXT);
		dump(d, text);
		if (strcmp(text, cases[i].rows) != 0)
			print_error("%s:\n  is     %s\n  wanted %s\n", cases[i].what, text, cases[i].rows);
		assert_string_equal(text, cases[i].rows);
		assert_ptr_equal(module_unwind(m, &lo, &hi), d);
		module_close(m);
	}
}

static void signal_frames(void **state)
{
	struct module *m = make_module("zRS", NORMAL, "");
	char text[200];
	uint64_t lo, hi;

	dump(module_unwind(m, &lo, &hi), text);
	assert_string_equal(text, "0 signal; 800 none");
	module_close(m);
}

struct code_case { const char *what, *code, *rows; };

/* Functions without call frame information: the first begins at 10, the second (if called) where it says. */
static const struct code_case code_cases[] = {
	{ "push, pop, ret", "535bc3", "10 rsp+8; 11 rsp+16 bx-16; 12 rsp+8; 13 none" },
	{ "frame pointer and leave", "554889e54883ec2090c9c3", "10 rsp+8; 11 rsp+16 bp-16; 18 rsp+48 bp-16; 1a rsp+8; 1b none" },
	{ "large frame", "4881ec0001000090" "4881c400010000c3", "10 rsp+8; 17 rsp+264; 1f rsp+8; 20 none" },
	{ "realigned", "554889e54883e4e090488d65f85b5dc3", "10 rsp+8; 11 rsp+16 bp-16; 18 rbp+16 bp-16; 1d rsp+24 bp-16; "
		"1e rsp+16 bp-16; 1f rsp+8; 20 none" },
	{ "dynamic without a frame pointer", "534829c490c3", "10 rsp+8; 11 rsp+16 bx-16; 14 none" },
	{ "lea", "488d6424e890488d642418c3", "10 rsp+8; 15 rsp+32; 1b rsp+8; 1c none" },
	{ "r12 is not rsp", "41544983ec08415cc3", "10 rsp+8; 12 rsp+16; 18 rsp+8; 19 none" },
	{ "both ways of a branch", "507403585bc3585dc3", "10 rsp+8; 11 rsp+16; 14 rsp+8; 15 end; 16 rsp+16; 17 rsp+8; 18 end; "
		"19 none" },
	{ "a loop", "6a0190ebfd", "10 rsp+8; 12 rsp+16; 15 none" },
	{ "call, and the callee", "50e802000000" "58c3" "53c3", "10 rsp+8; 11 rsp+16; 17 rsp+8; 19 rsp+16 bx-16; 1a none" },
	{ "a call that does not return", "50e800000000" "5bc3", "10 rsp+8; 11 rsp+16; 16 rsp+8; 17 end; 18 none" },
	{ "cases of a switch", "50ffe0" "58c3" "90" "59c3", "10 rsp+8; 11 rsp+16; 14 rsp+8; 15 none; 16 rsp+16; 17 rsp+8; 18 none" },
	{ "back from a signal", "48c7c00f0000000f05", "f signal; 19 none" },
	{ "no instruction", "500606", "10 rsp+8; 11 none" },
};

static void code_without_frames(void **state)
{
	const struct made_symbol first = { "first", TEXT + 16, 64, STT_FUNC, STB_GLOBAL };
	char text[2000];
	uint64_t lo, hi;

	for (size_t i = 0; i < ARRAY_SIZE(code_cases); i++) {
		static struct made e;
		struct module *m;
		size_t at = TEXT + 16;

		made_start(&e);
		memset(e.p + TEXT, 0x06, 0x1000);
		for (const char *s = code_cases[i].code; *s; s += 2)
			e.p[at++] = strtoul((char[]){ s[0], s[1], 0 }, NULL, 16);
		made_symbols(&e, SHT_SYMTAB, &first, 1);
		made_finish(&e, ET_DYN);
		memset(e.p + offsetof(Elf64_Ehdr, e_entry), 0, 8);
		assert_int_equal(module_open_memory(e.p, e.end, "made", &m), 0);
		assert_non_null(module_unwind(m, &lo, &hi));
		dump(module_unwind(m, &lo, &hi), text);
		if (strcmp(text + 2 * (text[0] == ';'), code_cases[i].rows) != 0)
			print_error("%s:\n  is     %s\n  wanted %s\n", code_cases[i].what, text, code_cases[i].rows);
		assert_string_equal(text + 2 * (text[0] == ';'), code_cases[i].rows);
		module_close(m);
	}
}

/* Two modules, one of them mapped twice: sorted, its table there once. */
static void directory(void **state)
{
	struct module *a = make_module("zR", NORMAL, ""), *b = make_module("zR", NORMAL, "410e10");
	struct unwind_place places[] = { { b, 0x700000 }, { a, 0x500000 }, { b, 0x300000 } };
	uint64_t lo, hi;
	size_t size = unwind_size(places, 3);
	struct unwind_dir *dir = calloc(1, size);
	struct unwind_state s = { 0 };
	struct unwind_walk w = { .s = &s, .dir = dir };

	assert_int_equal(size % 8, 0);
	assert_int_equal(size, 8 + 3 * sizeof(struct unwind_span) + module_unwind(a, &lo, &hi)->size +
			 module_unwind(b, &lo, &hi)->size);
	unwind_write(places, 3, dir);
	assert_int_equal(dir->n, 3);
	assert_int_equal(dir->span[0].lo, 0x300000 + lo);
	assert_int_equal(dir->span[2].hi, 0x700000 + hi);
	assert_int_equal(dir->span[0].data, dir->span[2].data);
	assert_int_equal(find_rule(&w, 0x300000 + TEXT)->off, 8);
	assert_int_equal(find_rule(&w, 0x300000 + TEXT + 1)->off, 16);
	assert_int_equal(find_rule(&w, 0x500000 + TEXT + 0x7ff)->off, 8);
	assert_int_equal(find_rule(&w, 0x700000 + TEXT + 0x7ff)->off, 16);
	assert_int_equal(find_rule(&w, 0x700000 + TEXT + 0x800)->kind, UNWIND_NONE);
	assert_null(find_rule(&w, 0x300000 + TEXT - 1));
	assert_null(find_rule(&w, 0x600000));
	assert_null(find_rule(&w, 0));
	assert_null(find_rule(&w, UINT64_MAX));
	assert_int_equal(unwind_size(NULL, 0), 8);
	free(dir);
	module_close(a);
	module_close(b);
}

/* A stack of 64 KiB at STACK; everything else can't be read. */
#define STACK 0x7ffe00000000ull
#define STACK_SIZE 65536
static uint64_t stack[STACK_SIZE / 8];
static int reads;

static uint32_t read_stack(void *arg, uint64_t from, void *to, uint32_t len)
{
	uint64_t off = from - STACK;

	reads++;
	if (off >= STACK_SIZE)
		return 0;
	len = len < STACK_SIZE - off ? len : STACK_SIZE - off;
	memcpy(to, (char *)stack + off, len);
	return len;
}

#define BIAS 0x10000ull
#define CODE (BIAS + TEXT)

/* A walk in code with the rows of that program (NULL: without a table). */
static uint32_t walk(const char *program, uint64_t ip, uint64_t sp, uint64_t bp, uint32_t room, uint64_t *frames,
		     uint32_t limit, enum unwind_end *end)
{
	struct module *m = make_module(program && program[0] == 'S' ? "zRS" : "zR", NORMAL, program && *program != 'S' ?
				       program : "");
	struct unwind_place place = { m, BIAS };
	struct unwind_dir *dir = calloc(1, unwind_size(&place, 1));
	struct unwind_state s = { .ip = ip, .regs = { [REG_SP] = sp, [REG_FP] = bp } };
	struct unwind_walk w = { .s = &s, .dir = program ? dir : NULL, .read = read_stack, .copy = malloc(room), .copy_room = room };
	uint32_t n;

	unwind_write(&place, 1, dir);
	reads = 0;
	n = unwind_walk(&w, frames, limit, end);
	free(w.copy);
	free(dir);
	module_close(m);
	return n;
}

static void set(uint64_t addr, uint64_t value)
{
	stack[(addr - STACK) / 8] = value;
}

static void walks_rows(void **state)
{
	uint64_t f[8], i;
	enum unwind_end end;

	memset(stack, 0, sizeof(stack));
	for (i = 0; i < 5; i++)		/* five frames of 32 bytes, then 0 */
		set(STACK + 24 + 32 * i, CODE + 0x100 + i);
	assert_int_equal(walk("410e20", CODE + 0x50, STACK, 0, 256, f, 8, &end), 6);
	assert_int_equal(end, UNWIND_OUTERMOST);
	assert_int_equal(f[0], CODE + 0x50);
	for (i = 1; i < 6; i++)
		assert_int_equal(f[i], CODE + 0x100 + i - 1);
	assert_int_equal(reads, 1);
	assert_int_equal(walk("410e20", CODE + 0x50, STACK, 0, 256, f, 4, &end), 4);
	assert_int_equal(end, UNWIND_LIMIT);
	assert_int_equal(walk("410e20", CODE + 0x50, STACK, 0, 256, f, 1, &end), 1);
	assert_int_equal(end, UNWIND_LIMIT);
	assert_int_equal(walk("410e20", CODE + 0x50, STACK, 0, 256, f, 0, &end), 0);
	/* at the first instruction the return address is on top */
	set(STACK, CODE + 0x200);
	assert_int_equal(walk("410e20", CODE, STACK, 0, 256, f, 2, &end), 2);
	assert_int_equal(f[1], CODE + 0x200);
	/* a return address at the start of code belongs to the call before it */
	set(STACK, CODE);
	set(STACK + 8, CODE + 0x300);
	assert_int_equal(walk("410e20", CODE, STACK, 1, 256, f, 3, &end), 2);
	assert_int_equal(end, UNWIND_LOST);
}

static void walks_far(void **state)
{
	uint64_t f[70], i;
	enum unwind_end end;

	/* frames of 1016 bytes, more than one copy holds; the last is at the very end */
	memset(stack, 0, sizeof(stack));
	for (i = 1; i <= STACK_SIZE / 1016; i++)
		set(STACK + 1016 * i - 8, CODE + 16 + i);
	assert_int_equal(walk("410ef807", CODE + 1, STACK, 0, 1024, f, 70, &end), 65);
	assert_int_equal(end, UNWIND_FAULT);
	for (i = 1; i < 65; i++)
		assert_int_equal(f[i], CODE + 16 + i);
}

static void walks_chain(void **state)
{
	uint64_t f[8];
	enum unwind_end end;

	memset(stack, 0, sizeof(stack));
	set(STACK + 0x40, STACK + 0x80);
	set(STACK + 0x48, 0x401000);
	set(STACK + 0x80, 0);
	set(STACK + 0x88, 0x402000);
	assert_int_equal(walk(NULL, 0x400000, STACK, STACK + 0x40, 256, f, 8, &end), 3);
	assert_int_equal(end, UNWIND_OUTERMOST);
	assert_int_equal(f[1], 0x401000);
	assert_int_equal(f[2], 0x402000);
	/* to itself, backwards, unaligned, too far, elsewhere */
	static const uint64_t bad[] = { STACK + 0x40, STACK + 0x38, STACK + 0x81, STACK + 0x40000000, 0x601000, UINT64_MAX - 7 };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		set(STACK + 0x40, bad[i]);
		assert_int_equal(walk(NULL, 0x400000, STACK, STACK + 0x40, 256, f, 8, &end), 2);
		assert_int_equal(end, UNWIND_LOST);
	}
	/* what can't be read, and what is no address of code */
	assert_int_equal(walk(NULL, 0x400000, STACK, STACK + STACK_SIZE, 256, f, 8, &end), 1);
	assert_int_equal(end, UNWIND_FAULT);
	set(STACK + 0x48, 77);
	assert_int_equal(walk(NULL, 0x400000, STACK, STACK + 0x40, 256, f, 8, &end), 1);
	assert_int_equal(end, UNWIND_LOST);
	set(STACK + 0x48, 0xffffffff81000000);
	assert_int_equal(walk(NULL, 0x400000, STACK, STACK + 0x40, 256, f, 8, &end), 1);
}

/* The handler's frame leads back to a stack elsewhere, and to an instruction that called nobody. */
static void walks_signal(void **state)
{
	static const int order[] = { 8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4 };
	uint64_t f[8], context = STACK + 0x8000, i;
	enum unwind_end end;

	memset(stack, 0, sizeof(stack));
	for (i = 0; i < 16; i++)
		set(context + 40 + 8 * i, order[i] == REG_SP ? STACK : 0x1000ull + order[i]);
	set(context + 40 + 8 * REG_FP, 0);
	set(context + 168, CODE);
	assert_int_equal(walk("S", CODE + 0x80, context, 0, 256, f, 2, &end), 2);
	assert_int_equal(f[1], CODE);
	set(context + 168, 0x400000);
	set(context + 40 + 8 * 10, STACK + 0x40);
	set(STACK + 0x48, 0x401000);
	assert_int_equal(walk("S", CODE + 0x80, context, 0, 256, f, 8, &end), 3);
	assert_int_equal(f[2], 0x401000);
	assert_int_equal(end, UNWIND_OUTERMOST);
}

/* Signal frames may lead anywhere: also back. That ends at the limit. */
static void walks_in_a_circle(void **state)
{
	uint64_t f[UNWIND_FRAMES_MAX], context = STACK + 0x8000;
	enum unwind_end end;

	memset(stack, 0, sizeof(stack));
	set(context + 160, context);
	set(context + 168, CODE + 5);
	assert_int_equal(walk("S", CODE + 0x80, context, 0, 256, f, UNWIND_FRAMES_MAX, &end), UNWIND_FRAMES_MAX);
	assert_int_equal(end, UNWIND_LIMIT);
}

/* Registers that a frame did not keep are not used for its caller. */
static void walks_lost(void **state)
{
	uint64_t f[8];
	enum unwind_end end;

	memset(stack, 0, sizeof(stack));
	set(STACK, CODE + 9);
	/* rsp+8 with rbp lost up to 8, then counted from rbp */
	assert_int_equal(walk("090609480c0610", CODE + 1, STACK, STACK + 0x40, 256, f, 8, &end), 2);
	assert_int_equal(end, UNWIND_LOST);
	/* rax is known in the first frame only */
	set(STACK + 0x40 - 8, CODE + 9);
	assert_int_equal(walk("480d00", CODE + 9, STACK, 0, 256, f, 8, &end), 1);
	assert_int_equal(end, UNWIND_LOST);	/* rax is 0: below the stack pointer */
}

static void entry_without_rows(void **state)
{
	uint64_t frames[4], copy[32];
	struct unwind_state s = { .ip = 0x400000, .entry = 1, .regs = { [REG_SP] = STACK, [REG_FP] = STACK + 0x40 } };
	struct unwind_walk w = { .s = &s, .read = read_stack, .copy = (uint8_t *)copy, .copy_room = sizeof(copy) };
	enum unwind_end end;

	memset(stack, 0, sizeof(stack));
	set(STACK, 0x401000);
	set(STACK + 0x48, 0x402000);
	assert_int_equal(unwind_walk(&w, frames, 4, &end), 3);
	assert_int_equal(frames[1], 0x401000);
	assert_int_equal(frames[2], 0x402000);
	assert_int_equal(end, UNWIND_OUTERMOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),
		cmocka_unit_test(signal_frames),
		cmocka_unit_test(code_without_frames),
		cmocka_unit_test(directory),
		cmocka_unit_test(walks_rows),
		cmocka_unit_test(walks_far),
		cmocka_unit_test(walks_chain),
		cmocka_unit_test(walks_signal),
		cmocka_unit_test(walks_in_a_circle),
		cmocka_unit_test(walks_lost),
		cmocka_unit_test(entry_without_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
