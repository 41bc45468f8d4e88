/* SPDX-License-Identifier: MIT */
/*
 * Each case is a small program, made here as an ELF file in memory: text at TEXT, read-only data at
 * DATA, and a name for each function. The bytes stand beside their meaning.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "pad/code.h"
#include <cmocka.h>		/* last: it makes fail() a macro */

#define TEXT 0x401000ull
#define DATA 0x402000ull
#define PAGE 0x1000

struct image_func { const char *name; uint64_t off, size; };

struct program {
	const char *text;		/* hex */
	const char *data;		/* hex */
	struct image_func funcs[8];
	bool pie;
	const char *data_section;	/* name of the section that holds the data */
};

struct loaded { struct module *m; struct code *c; };

static size_t unhex(const char *hex, uint8_t *out, size_t room)
{
	size_t n = 0;
	unsigned int byte;
	int used;

	for (; hex && sscanf(hex, " %2x%n", &byte, &used) == 1; hex += used) {
		assert_true(n < room);
		out[n++] = byte;
	}
	return n;
}

/* Names of sections and symbols, one behind the other. */
struct strings { char *at; size_t n; };

static uint32_t add_string(struct strings *t, const char *s)
{
	uint32_t pos = t->n;

	strcpy(t->at + pos, s);
	t->n += strlen(s) + 1;
	return pos;
}

static size_t add_symbols(const struct program *p, Elf64_Sym *sym, struct strings *names)
{
	size_t n = 1;

	add_string(names, "");
	for (const struct image_func *f = p->funcs; f->name; f++)
		sym[n++] = (Elf64_Sym){ add_string(names, f->name), ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					0, 1, TEXT + f->off, f->size };
	return n * sizeof(*sym);
}

/* One page each: headers, text, data, symbols, strings, section headers. */
static size_t build(const struct program *p, uint8_t *file)
{
	Elf64_Ehdr *eh = (void *)file;
	Elf64_Phdr *ph = (void *)(file + sizeof(*eh));
	Elf64_Shdr *sh = (void *)(file + 5 * PAGE);
	struct strings str = { (char *)file + 4 * PAGE, 0 }, names = { str.at + PAGE / 2, 0 };
	size_t ntext = unhex(p->text, file + PAGE, PAGE), ndata = unhex(p->data, file + 2 * PAGE, PAGE);
	size_t nsym = add_symbols(p, (void *)(file + 3 * PAGE), &str);

	*eh = (Elf64_Ehdr){ .e_ident = ELFMAG "\2\1\1", .e_type = p->pie ? ET_DYN : ET_EXEC,
		.e_machine = EM_X86_64, .e_version = 1, .e_entry = TEXT, .e_phoff = sizeof(*eh),
		.e_shoff = 5 * PAGE, .e_ehsize = sizeof(*eh), .e_phentsize = sizeof(*ph), .e_phnum = 2,
		.e_shentsize = sizeof(*sh), .e_shnum = 6, .e_shstrndx = 5 };
	ph[0] = (Elf64_Phdr){ PT_LOAD, PF_R | PF_X, PAGE, TEXT, TEXT, ntext, ntext, PAGE };
	ph[1] = (Elf64_Phdr){ PT_LOAD, PF_R, 2 * PAGE, DATA, DATA, ndata, ndata, PAGE };
	add_string(&names, "");
	sh[1] = (Elf64_Shdr){ add_string(&names, ".text"), SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR,
			      TEXT, PAGE, ntext, 0, 0, 16, 0 };
	sh[2] = (Elf64_Shdr){ add_string(&names, p->data_section ? p->data_section : ".rodata"),
			      SHT_PROGBITS, SHF_ALLOC, DATA, 2 * PAGE, ndata, 0, 0, 32, 0 };
	sh[3] = (Elf64_Shdr){ add_string(&names, ".symtab"), SHT_SYMTAB, 0, 0, 3 * PAGE, nsym, 4, 1, 8,
			      sizeof(Elf64_Sym) };
	sh[4] = (Elf64_Shdr){ add_string(&names, ".strtab"), SHT_STRTAB, 0, 0, 4 * PAGE, str.n, 0, 0, 1, 0 };
	sh[5] = (Elf64_Shdr){ add_string(&names, ".shstrtab"), SHT_STRTAB, 0, 0, 4 * PAGE + PAGE / 2,
			      names.n, 0, 0, 1, 0 };
	return 5 * PAGE + 6 * sizeof(*sh);
}

static struct loaded load(const struct program *p)
{
	uint8_t *file = calloc(6, PAGE);
	struct loaded l;

	if (module_open_memory(file, build(p, file), "test", &l.m) < 0)
		fail_msg("%s", err_text());
	free(file);
	if (code_open(l.m, &l.c) < 0)
		fail_msg("%s", err_text());
	return l;
}

static void unload(struct loaded *l)
{
	code_close(l->c);
	module_close(l->m);
}

static const struct fcode *func(struct loaded *l, uint64_t off)
{
	const struct fcode *f = code_func(l->c, TEXT + off);

	if (!f)
		fail_msg("%s", err_text());
	return f;
}

static enum target_why why(struct loaded *l, const struct fcode *f, uint64_t off)
{
	return code_target(l->c, f, TEXT + off);
}

/* "ret@5 jmp@9": kinds and offsets of the exits. */
static void assert_exits(const struct fcode *f, const char *want)
{
	static const char *const names[] = { "ret", "jmp", "jcc", "ind" };
	char got[256] = "";

	for (size_t i = 0; i < f->exits.n; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s@%llx", i ? " " : "",
			 names[f->exits.v[i].kind], (unsigned long long)(f->exits.v[i].addr - TEXT));
	assert_string_equal(got, want);
}

static void branches_make_targets(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "74 01"			/* 0: je 3, behind the lock prefix */
			"f0 48 0f b1 0a"	/* 2: lock cmpxchg %rcx,(%rdx) */
			"85 c0"			/* 7: test */
			"0f 84 f1 ff ff ff"	/* 9: je 0 */
			"0f 05"			/* f: syscall */
			"c3"			/* 11: ret */
			"90 90 90",
		.funcs = { { "f", 0, 0x12 } } });
	const struct fcode *f = func(&l, 4);

	assert_int_equal(f->insns.n, 9);
	assert_int_equal(f->end, TEXT + 0x12);
	assert_int_equal(f->hi, TEXT + 0x15);
	assert_int_equal(fcode_addr(f, 2), TEXT + 7);
	assert_int_equal(f->index[7], 2);
	assert_int_equal(f->index[3], UINT32_MAX);
	assert_int_equal(why(&l, f, 3), TARGET_BRANCH);	/* inside an instruction */
	assert_int_equal(why(&l, f, 0), TARGET_ENTRY);
	assert_int_equal(why(&l, f, 2), TARGET_NONE);
	assert_int_equal(why(&l, f, 0x11), TARGET_RETURN);
	assert_exits(f, "jcc@9 ret@11");	/* to its entry: that is hit again */
	assert_false(f->uncertain);
	assert_false(f->broken);
	unload(&l);
}

static void jumps_to_the_entry_are_exits(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "85 ff"			/* 0: f: test */
			"74 fc"			/* 2: je f */
			"78 08"			/* 4: js e, next function */
			"ff 27"			/* 6: jmp *(%rdi) */
			"eb f6"			/* 8: jmp f */
			"90 90 90 90"
			"c3"			/* e: g: ret */
			"e9 ec ff ff ff"	/* f: h: jmp f */
			"c3",
		.funcs = { { "f", 0, 0xa }, { "g", 0xe, 1 }, { "h", 0xf, 6 } } });
	const struct fcode *f = func(&l, 0);

	/* Nobody reaches the last one, though. */
	assert_exits(f, "jcc@2 jcc@4 ind@6 jmp@8");
	assert_int_equal(f->orphans, 1);
	assert_true(f->uncertain);
	assert_exits(func(&l, 0xf), "jmp@f ret@14");
	unload(&l);
}

static void cold_parts_belong_to_who_jumps_in(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "85 ff"			/* 0: f: test */
			"0f 85 08 00 00 00"	/* 2: jne 10, the cold part */
			"31 c0"			/* 8: xor */
			"c3"			/* a: ret */
			"90 90 90 90 90"
			"e8 eb ff ff ff"	/* 10: call f */
			"74 f1"			/* 15: je 8, back */
			"78 01"			/* 17: js 1a */
			"c3"			/* 19: ret */
			"e9 01 00 00 00"	/* 1a: jmp 20 */
			"90"
			"c3",			/* 20: g */
		.funcs = { { "f", 0, 0xb }, { "f.cold", 0x10, 0xf }, { "g", 0x20, 1 } } });
	const struct fcode *f = func(&l, 0), *cold;

	assert_exits(f, "ret@a ret@19 jmp@1a");
	assert_int_equal(why(&l, f, 8), TARGET_BRANCH);
	cold = func(&l, 0x12);
	assert_true(cold->func->flags & FUNC_COLD);
	assert_exits(cold, "ret@19 jmp@1a");
	assert_false(cold->uncertain);
	unload(&l);
}

/* A switch as gcc and clang write it; entry 1 is LLVM's "never": the function's end. */
static void tables_are_followed(void **state)
{
	struct loaded l = load(&(struct program){
		.pie = true,
		.text = "48 8d 15 f9 0f 00 00"	/* 0: lea DATA(%rip),%rdx */
			"48 63 04 ba"		/* 7: movslq (%rdx,%rdi,4),%rax */
			"48 01 d0"		/* b: add %rdx,%rax */
			"3e ff e0"		/* e: notrack jmp *%rax */
			"31 c0"			/* 11: case 0 */
			"c3"
			"31 c9"			/* 14: case 2 */
			"c3",			/* 16 */
		.data = "11 f0 ff ff  17 f0 ff ff  14 f0 ff ff  00 00 00 00",
		.funcs = { { "f", 0, 0x17 } } });
	const struct fcode *f = func(&l, 0);

	assert_int_equal(why(&l, f, 0x11), TARGET_TABLE);
	assert_int_equal(why(&l, f, 0x14), TARGET_TABLE);
	assert_int_equal(why(&l, f, 0x16), TARGET_NONE);
	assert_exits(f, "ret@13 ret@16");
	assert_false(f->uncertain);
	unload(&l);
}

static void tables_of_addresses(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "ff 24 fd 00 20 40 00"	/* 0: jmp *DATA(,%rdi,8) */
			"c3"			/* 7 */
			"31 c0"			/* 8 */
			"c3"			/* a */
			"ff 24 fd 10 20 40 00"	/* b: g: jmp *DATA+16(,%rdi,8), a tail call */
			"c3",			/* 12: h */
		.data = "07 10 40 00 00 00 00 00  08 10 40 00 00 00 00 00  12 10 40 00 00 00 00 00",
		.funcs = { { "f", 0, 0xb }, { "g", 0xb, 7 }, { "h", 0x12, 1 } } });
	const struct fcode *f = func(&l, 0);

	assert_exits(f, "ret@7 ret@a");
	assert_int_not_equal(why(&l, f, 7), TARGET_NONE);
	assert_int_not_equal(why(&l, f, 8), TARGET_NONE);
	assert_false(f->uncertain);
	assert_exits(func(&l, 0xb), "ind@b");
	unload(&l);
}

/* glibc's printf: distances from a label in the function, which is taken with lea as well. */
static void tables_may_count_from_a_label(void **state)
{
	struct loaded l = load(&(struct program){
		.pie = true,
		.text = "48 8d 15 f9 0f 00 00"	/* 0: lea DATA(%rip),%rdx */
			"48 8d 35 09 00 00 00"	/* 7: lea 17(%rip),%rsi */
			"48 63 04 ba"		/* e: movslq (%rdx,%rdi,4),%rax */
			"48 01 f0"		/* 12: add %rsi,%rax */
			"ff e0"			/* 15: jmp *%rax */
			"31 c0 c3"		/* 17 */
			"31 c9 c3"		/* 1a */
			"31 d2 c3",		/* 1d */
		.data = "03 00 00 00 00 00 00 00 06 00 00 00 03 00 00 00 00 00 00 00 00 00 00 7f",
		.funcs = { { "f", 0, 0x20 } } });
	const struct fcode *f = func(&l, 0);

	assert_int_equal(why(&l, f, 0x17), TARGET_LEA);
	assert_int_equal(why(&l, f, 0x1a), TARGET_TABLE);
	assert_int_equal(why(&l, f, 0x1d), TARGET_TABLE);
	assert_false(f->uncertain);
	unload(&l);
}

static void doubt_has_limits(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "48 03 42 08"		/* 0: f: add 8(%rdx),%rax, base plus symbol */
			"5d"			/* 4: pop: the frame goes */
			"ff e0"			/* 5: jmp *%rax is a tail call */
			"f4"			/* 7: g: hlt, which compilers fall through */
			"31 c0 c3"		/* 8 */
			"eb 02"			/* b: h: jmp f */
			"0f 0b"			/* d: ud2, which nobody needs to reach */
			"c3",			/* f */
		.funcs = { { "f", 0, 7 }, { "g", 7, 4 }, { "h", 0xb, 5 } } });

	assert_exits(func(&l, 0), "ind@5");
	assert_false(func(&l, 0)->uncertain);
	assert_false(func(&l, 7)->uncertain);
	assert_false(func(&l, 0xb)->uncertain);
	unload(&l);
}

/* As GHC lays it out: a table between two blocks, in which a return seems to be. */
static void tables_between_blocks_are_left_alone(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "48 8d 05 11 00 00 00"		/* 0: f: lea 18(%rip),%rax, the block to go on at */
			"48 89 45 f8"			/* 7: mov %rax,-8(%rbp) */
			"ff 23"				/* b: jmp *(%rbx) */
			"66 90"				/* d */
			"90"
			"c2 00 00 00 00 00 00 00"	/* 10: a bitmap */
			"48 8b 45 08 c3",		/* 18: the block */
		.funcs = { { "f", 0, 0x1d } } });

	func(&l, 0);
	assert_null(code_forbidden(l.c, TEXT, TEXT + 7));
	for (uint64_t at = 0x10; at < 0x18; at++)
		assert_non_null(code_forbidden(l.c, TEXT + at, TEXT + at + 1));
	unload(&l);
}

static void doubt_is_seen(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "c3"			/* 0: f: ret */
			"66 90"			/* 1: filler is no doubt */
			"31 c0 c3"		/* 3: somebody must come here */
			"48 01 d0"		/* 6: g: add %rdx,%rax */
			"ff e0"			/* 9: jmp *%rax, but where is the table? */
			"31 c0"			/* b: h */
			"06"			/* d: no instruction */
			"c3",
		.funcs = { { "f", 0, 6 }, { "g", 6, 5 }, { "h", 0xb, 4 } } });

	assert_int_equal(func(&l, 0)->orphans, 1);
	assert_true(func(&l, 0)->uncertain);
	assert_null(code_forbidden(l.c, TEXT, TEXT + 1));
	assert_non_null(code_forbidden(l.c, TEXT + 5, TEXT + 6));	/* a return, or the end of a table */
	assert_non_null(code_forbidden(l.c, TEXT + 3, TEXT + 5));
	assert_int_equal(func(&l, 6)->lost_jumps, 1);
	assert_true(func(&l, 6)->uncertain);
	assert_exits(func(&l, 6), "");
	assert_true(func(&l, 0xb)->broken);
	assert_int_equal(func(&l, 0xb)->insns.n, 1);
	assert_null(code_func(l.c, TEXT + 0xf));
	unload(&l);
}

/* Nothing in the bytes says so, but a recovered panic arrives at the call of deferreturn. */
static void go_returns_to_deferreturn(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "e8 06 00 00 00"	/* 0: f: call panic */
			"e8 02 00 00 00"	/* 5: call deferreturn */
			"c3"			/* a */
			"c3"			/* b: panic */
			"c3"			/* c: deferreturn */
			"90 c3",		/* d: goexit, returned to one byte on */
		.data = "00",
		.data_section = ".go.buildinfo",
		.funcs = { { "f", 0, 0xb }, { "panic", 0xb, 1 }, { "runtime.deferreturn", 0xc, 1 },
			   { "runtime.goexit", 0xd, 2 } } });

	assert_ptr_equal(l.m->runtime, &runtime_go);
	assert_int_equal(why(&l, func(&l, 0), 5), TARGET_LANDING);
	assert_int_equal(why(&l, func(&l, 0), 0xa), TARGET_NONE);
	assert_int_equal(why(&l, func(&l, 0xd), 0xe), TARGET_RETURN);
	unload(&l);
}

static void other_functions_may_jump_in(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "31 c0 31 c9 31 d2 c3"	/* 0: f */
			"90"
			"b8 e9 f5 ff ff"	/* 8: g: mov $..: looks like jmp 3 one byte on */
			"ff c3"			/* d */
			"eb f1"			/* f: jmp 2 */
			"e9 f1 ff ff ff",	/* 11: jmp 7, the filler */
		.funcs = { { "f", 0, 7 }, { "g", 8, 0xe } } });
	struct span w[] = { { TEXT, TEXT + 6 }, { TEXT + 2, TEXT + 7 }, { TEXT + 7, TEXT + 8 } };
	uint8_t hit[3] = { 9, 9, 9 };
	const struct fcode *f = func(&l, 0);

	assert_int_equal(why(&l, f, 2), TARGET_NONE);
	assert_true(code_window_hit_from_outside(l.c, w, 3, hit));
	assert_int_equal(hit[0], 1);
	assert_int_equal(hit[1], 0);	/* only its first byte is hit, and 3 is not confirmed */
	assert_int_equal(hit[2], 0);
	assert_int_equal(why(&l, f, 2), TARGET_BRANCH);
	assert_int_equal(why(&l, f, 3), TARGET_NONE);
	assert_int_equal(why(&l, f, 7), TARGET_BRANCH);
	code_drop(l.c, f);
	f = func(&l, 0);
	assert_int_equal(f->target[2], TARGET_BRANCH);
	code_add_target(l.c, TEXT + 4, TARGET_LANDING);
	assert_int_equal(f->target[4], TARGET_LANDING);
	unload(&l);
}

struct quiet_row { const char *what, *text; uint64_t size; bool quiet; };

/* Is [0, 5) of a function free of inner targets? */
static void quiet_windows(void **state)
{
	static const struct quiet_row rows[] = {
		{ "plain code", "31 c0 31 c9 31 d2 31 db c3", 9, true },
		{ "rel8 to the window's inside", "31 c0 31 c9 31 d2 75 fa c3", 9, false },
		{ "rel8 to its begin", "31 c0 31 c9 31 d2 75 f8 c3", 9, true },
		{ "rel8 to its end", "31 c0 31 c9 90 31 d2 75 fc c3", 10, true },
		{ "rel32 to the inside", "31 c0 31 c9 31 d2 0f 85 f6 ff ff ff c3", 13, false },
		{ "lea of the inside", "31 c0 31 c9 31 d2 48 8d 05 f5 ff ff ff c3", 14, false },
		{ "absolute address of the inside", "31 c0 31 c9 31 d2 b8 02 10 40 00 c3", 12, false },
		{ "an indirect jump may have a table", "31 c0 31 c9 31 d2 ff e0", 8, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct loaded l = load(&(struct program){
			.text = rows[i].text, .funcs = { { "f", 0, rows[i].size } } });

		if (code_window_is_quiet(l.c, &l.m->funcs.v[0], TEXT, TEXT + 5) != rows[i].quiet)
			fail_msg("%s", rows[i].what);
		unload(&l);
	}
}

static void filler_is_found_on_both_sides(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "31 c0 c3"		/* 0: f */
			"0f 1f 44 00 00"	/* 3: nop */
			"31 c9"			/* 8: g: */
			"75 03"			/* a: jne f */
			"c3"			/* c */
			"90 90"			/* d */
			"31 c0 c3"		/* f: target */
			"cc cc cc cc cc cc"	/* 12 */
			"31 c0"			/* 18: h falls through its nops */
			"90 90 90 90 90 90"	/* 1a */
			"c3"			/* 20: i */
			"90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90 90"
			"06",			/* 34: what this is nobody knows */
		.funcs = { { "f", 0, 3 }, { "g", 8, 0xa }, { "h", 0x18, 2 }, { "i", 0x20, 1 } } });
	struct span s;

	assert_true(code_filler_near(l.c, TEXT + 8, 100, 2, &s));
	assert_int_equal(s.lo, TEXT + 0xd);
	assert_int_equal(s.hi, TEXT + 0xf);
	assert_true(code_filler_near(l.c, TEXT + 8, 100, 5, &s));
	assert_int_equal(s.lo, TEXT + 0x12);
	assert_int_equal(s.hi, TEXT + 0x18);
	assert_true(code_filler_near(l.c, TEXT + 0xf, -100, 5, &s));
	assert_int_equal(s.lo, TEXT + 3);
	assert_int_equal(s.hi, TEXT + 8);
	assert_true(code_filler_near(l.c, TEXT + 0xe, -100, 1, &s));
	assert_int_equal(s.lo, TEXT + 0xd);	/* cut at the address */
	assert_int_equal(s.hi, TEXT + 0xe);
	assert_true(code_filler_near(l.c, TEXT + 4, 0, 4, &s));
	assert_int_equal(s.lo, TEXT + 4);
	assert_false(code_filler_near(l.c, TEXT + 8, 9, 5, &s));	/* too far */
	assert_false(code_filler_near(l.c, TEXT + 8, -4, 5, &s));
	assert_true(code_filler_near(l.c, TEXT + 0x18, 100, 1, &s));	/* not h's: they run */
	assert_int_equal(s.lo, TEXT + 0x21);
	assert_int_equal(s.hi, TEXT + 0x30);	/* not up to the unknown */
	unload(&l);
}

static bool is_forbidden(struct loaded *l, uint64_t lo, uint64_t hi)
{
	return code_forbidden(l->c, TEXT + lo, TEXT + hi) != NULL;
}

static void some_bytes_are_forbidden(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "31 c0 c3"			/* 0: f */
			"90 90"
			"48 c7 c0 0f 00 00 00 0f 05"	/* 5: the signal's return */
			"c3"				/* e */
			"31 c0 31 c0"			/* f: r: */
			"31 c9 31 d2"			/* 13: sequence */
			"31 db 31 f6 c3"		/* 17 */
			"0f b9 53 30 05 53"		/* 1c: signature in front of 22 */
			"31 ff c3"			/* 22: abort */
			"31 c0 c3"			/* 25: SafeFetch32 */
			"68 65 6c 6c 6f",		/* 28: data */
		.data = "00 00 00 00 00 00 00 00  13 10 40 00 00 00 00 00"
			"04 00 00 00 00 00 00 00  22 10 40 00 00 00 00 00",
		.data_section = "__rseq_cs",
		.funcs = { { "f", 0, 3 }, { "s", 5, 0xa }, { "r", 0xf, 0x16 }, { "SafeFetch32_impl", 0x25, 3 } } });
	const struct fcode *r = func(&l, 0xf);

	assert_false(is_forbidden(&l, 0, 3));
	assert_false(is_forbidden(&l, 3, 4));
	assert_true(is_forbidden(&l, 4, 5));	/* the byte before belongs to it */
	assert_true(is_forbidden(&l, 0xd, 0xf));
	assert_false(is_forbidden(&l, 0xf, 0x12));
	assert_true(is_forbidden(&l, 0xf, 0x13));	/* ends at the sequence's start */
	assert_true(is_forbidden(&l, 0x15, 0x1a));
	assert_false(is_forbidden(&l, 0x17, 0x1b));
	assert_true(is_forbidden(&l, 0x1e, 0x1f));
	assert_false(is_forbidden(&l, 0x22, 0x24));
	assert_true(is_forbidden(&l, 0x25, 0x27));
	assert_true(is_forbidden(&l, 0x28, 0x2a));
	assert_true(is_forbidden(&l, 0x1000, 0x1004));
	assert_non_null(code_forbidden(l.c, 0xffffffffff600000ull, 0xffffffffff600005ull));
	assert_int_equal(why(&l, r, 0x13), TARGET_RSEQ);
	assert_int_equal(why(&l, r, 0x17), TARGET_RSEQ);
	assert_int_equal(why(&l, r, 0x22), TARGET_RSEQ);
	unload(&l);
}

/* musl's cancellable system call in a library without names: nothing of it may be touched, nor what is near. */
static void cancellation_without_names(void **state)
{
	static const char other[] = "49 89 fb 48 89 f0 48 89 d7 48 89 ce 4c 89 c2 4d 89 c8 4c 8b 44 24 08 0f 05 c3";
	static const char musl[] = "49 89 fb 48 89 f0 48 89 d7 48 89 ce 4c 89 c2 4d 89 ca 4c 8b 44 24 08 0f 05 c3";
	struct program p = { .text = musl, .funcs = { { "f", 0, 26 } } };
	struct loaded l = load(&p);

	assert_true(is_forbidden(&l, 0, 3));
	assert_true(is_forbidden(&l, 18, 23));
	assert_true(is_forbidden(&l, 23, 25));		/* the call itself */
	unload(&l);
	p.text = other;				/* one register differs: it is not that function */
	l = load(&p);
	assert_false(is_forbidden(&l, 0, 3));
	assert_false(is_forbidden(&l, 18, 23));
	unload(&l);
}

/* Ranges that a C library or a run time compares program counters with, by their names. */
static void cancellation_by_name(void **state)
{
	static const char *const names[] = { "__syscall_cancel_arch", "__syscall_cancel_arch_start", "__syscall_cp_asm", "__cp_begin",
					     "__cp_end", "__cp_cancel", "SafeFetchN", "ProbeMemory" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct program p = { .text = "31 c0 0f 05 c3", .funcs = { { names[i], 0, 5 } } };
		struct loaded l = load(&p);

		if (!is_forbidden(&l, 0, 2) || !is_forbidden(&l, 2, 4))
			fail_msg("%s", names[i]);
		unload(&l);
	}
}

/* Something in data leads to the middle of a function: a label whose address was taken. */
static void pointers_are_targets(void **state)
{
	struct loaded l = load(&(struct program){
		.text = "b8 01 00 00 00"		/* 0: f: mov */
			"31 c9"				/* 5 */
			"31 d2"				/* 7 */
			"c3",				/* 9 */
		.data = "07 10 40 00 00 00 00 00",
		.funcs = { { "f", 0, 10 } } });
	const struct fcode *f = func(&l, 0);

	assert_int_equal(why(&l, f, 5), TARGET_NONE);
	assert_int_equal(why(&l, f, 7), TARGET_POINTER);
	assert_int_equal(code_target(l.c, NULL, TEXT + 7), TARGET_POINTER);
	assert_true(code_window_is_quiet(l.c, &l.m->funcs.v[0], TEXT, TEXT + 5));
	assert_false(code_window_is_quiet(l.c, &l.m->funcs.v[0], TEXT + 5, TEXT + 10));
	unload(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(branches_make_targets),
		cmocka_unit_test(jumps_to_the_entry_are_exits),
		cmocka_unit_test(cold_parts_belong_to_who_jumps_in),
		cmocka_unit_test(tables_are_followed),
		cmocka_unit_test(tables_of_addresses),
		cmocka_unit_test(tables_may_count_from_a_label),
		cmocka_unit_test(tables_between_blocks_are_left_alone),
		cmocka_unit_test(doubt_is_seen),
		cmocka_unit_test(doubt_has_limits),
		cmocka_unit_test(go_returns_to_deferreturn),
		cmocka_unit_test(other_functions_may_jump_in),
		cmocka_unit_test(quiet_windows),
		cmocka_unit_test(filler_is_found_on_both_sides),
		cmocka_unit_test(some_bytes_are_forbidden),
		cmocka_unit_test(cancellation_without_names),
		cmocka_unit_test(cancellation_by_name),
		cmocka_unit_test(pointers_are_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
