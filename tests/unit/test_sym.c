/* SPDX-License-Identifier: MIT */
/*
 * Modules: which functions a file has, by which names, and what is refused. Rules are checked on
 * small files made by hand (elfmake.h), then on this program itself and on libc.
 */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "elfmake.h"
#include "sym/priv.h"
#include "sym/sym.h"

/* Functions of this program that the tests look for. */
int known_entry(int x);
int known_alias(int x);
int known_picked(int x);

__attribute__((noinline, used)) int known_entry(int x)
{
	return x * 3 + 1;
}

int known_alias(int x) __attribute__((alias("known_entry")));

__attribute__((noinline, used)) static int known_static(int x)
{
	return x - 7;
}

/* Runs before anything is set up, so no sanitizer may be in it. */
__attribute__((used, no_sanitize("address", "undefined"), no_stack_protector))
static int (*known_resolver(void))(int)
{
	return known_static;
}

int known_picked(int x) __attribute__((ifunc("known_resolver")));

static int (*const volatile known_table[])(int) = { known_static, known_entry };

struct known_rseq { uint32_t version, flags; uint64_t start, len, abort; };
__attribute__((section("__rseq_cs"), aligned(32), used)) static struct known_rseq known_rseq = {
	0, 0, (uint64_t)known_static, 3, (uint64_t)known_entry,
};

static struct module *open_self(void)
{
	struct module *m;

	assert_int_equal(module_open("", "/proc/self/exe", &m), 0);
	return m;
}

static const struct func *find(struct module *m, const char *name)
{
	size_t i;

	for (i = 0; i < m->names.n; i++)
		if (strcmp(m->names.v[i].name, name) == 0)
			return &m->funcs.v[m->names.v[i].func];
	return NULL;
}

/* Live minus link address, from the program headers and not from the code under test. */
static uint64_t own_bias(void)
{
	const Elf64_Phdr *ph = (const void *)getauxval(AT_PHDR);
	size_t i;

	for (i = 0; i < getauxval(AT_PHNUM); i++)
		if (ph[i].p_type == PT_PHDR)
			return (uint64_t)ph - ph[i].p_vaddr;
	return 0;
}

/* ---- refusals ---- */

static const struct {
	const char *what;
	size_t at;
	uint8_t value;
	size_t size;		/* 0: all of it */
	int err;
	const char *says;
} refusals[] = {
	{ "not ELF", 0, 'X', 0, -ENOEXEC, "not an ELF file" },
	{ "empty", 0, 0x7f, 3, -ENOEXEC, "not an ELF file" },
	{ "ends inside the identification", 0, 0x7f, 10, -ENOEXEC, "truncated" },
	{ "ends inside the header", 0, 0x7f, 63, -ENOEXEC, "truncated" },
	{ "ends inside the program headers", 0, 0x7f, 100, -ENOEXEC, "truncated" },
	{ "ends inside a segment", 0, 0x7f, 0x2100, -ENOEXEC, "truncated" },
	{ "32-bit", EI_CLASS, ELFCLASS32, 0, -ENOTSUP, "32-bit" },
	{ "no class at all", EI_CLASS, 9, 0, -ENOEXEC, "damaged" },
	{ "big endian", EI_DATA, ELFDATA2MSB, 0, -ENOTSUP, "big-endian" },
	{ "AArch64", offsetof(Elf64_Ehdr, e_machine), EM_AARCH64, 0, -ENOTSUP, "AArch64" },
	{ "unheard-of CPU", offsetof(Elf64_Ehdr, e_machine), 199, 0, -ENOTSUP, "machine 199" },
	{ "object file", offsetof(Elf64_Ehdr, e_type), ET_REL, 0, -ENOTSUP, "object file" },
	{ "core dump", offsetof(Elf64_Ehdr, e_type), ET_CORE, 0, -ENOTSUP, "core dump" },
	{ "program headers of odd size", offsetof(Elf64_Ehdr, e_phentsize), 8, 0, -ENOEXEC, "damaged" },
	{ "no program headers", offsetof(Elf64_Ehdr, e_phnum), 0, 0, -ENOEXEC, "nothing to load" },
	{ "segment wraps around", 64 + offsetof(Elf64_Phdr, p_vaddr) + 7, 0xff, 0, -ENOEXEC, "damaged" },
	{ "more file than memory", 64 + offsetof(Elf64_Phdr, p_filesz) + 2, 0xff, 0, -ENOEXEC, "damaged" },
};

static void test_refusals(void **state)
{
	static struct made e;
	struct module *m = (void *)1;
	size_t i, size;

	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		made_start(&e);
		size = made_finish(&e, ET_DYN);
		e.p[refusals[i].at] = refusals[i].value;
		if (strcmp(refusals[i].what, "segment wraps around") == 0)
			memset(e.p + 64 + offsetof(Elf64_Phdr, p_vaddr), 0xff, 8);
		print_message("  %s\n", refusals[i].what);
		assert_int_equal(module_open_memory(e.p, refusals[i].size ? refusals[i].size : size, "x", &m),
				 refusals[i].err);
		assert_non_null(strstr(err_text(), refusals[i].says));
		assert_ptr_equal(m, (void *)1);
	}
	assert_int_equal(module_open("", "/nowhere/at/all", &m), -ENOENT);
	assert_int_equal(module_open("", "/tmp", &m), -EISDIR);
	assert_int_equal(module_open("", "/dev/null", &m), -ENOEXEC);
	module_close(NULL);
}

/* ---- which functions there are ---- */

struct rule {
	const char *what;
	struct made_symbol symbols[4];
	struct made_fde fdes[4];
	const char *expect;	/* name@addr+size[flags] ... */
};

static const struct rule rules[] = {
	{ "a symbol and its FDE are one function",
	  { { "f", 0x1000, 16, STT_FUNC, STB_GLOBAL } }, { { 0x1000, 16, 0, 0 } }, "f@1000+10" },
	{ "an FDE without symbol is a function",
	  { { 0 } }, { { 0x1040, 32, 0, 0 } }, "func_0x1040@1040+20" },
	{ "an FDE without symbol that does not start at rsp+8 is a cold part",
	  { { 0 } }, { { 0x1040, 32, LOW_TEXT_ROW, 0 } }, "func_0x1040@1040+20c" },
	{ "an FDE that starts inside a symbol is no function",
	  { { "clone", 0x1000, 0x40, STT_FUNC, STB_GLOBAL } }, { { 0x1000, 0x20, 0, 0 }, { 0x1020, 0x20, 0, 0 } },
	  "clone@1000+40" },
	{ "an FDE that starts a byte before a symbol is this symbol's",
	  { { "__restore_rt", 0x1011, 0, STT_FUNC, STB_LOCAL } }, { { 0x1010, 10, 0, 0 } },
	  "__restore_rt@1011+9g" },
	{ "so is one that starts in the filler before it",
	  { { "a", 0x1000, 5, STT_FUNC, STB_GLOBAL }, { "b", 0x1010, 14, STT_FUNC, STB_GLOBAL } },
	  { { 0x1000, 5, 0, 0 }, { 0x1005, 0x19, 0, 0 } }, "a@1000+5 b@1010+e" },
	{ "size 0: from the FDE",
	  { { "f", 0x1000, 0, STT_FUNC, STB_GLOBAL } }, { { 0x1000, 0x18, 0, 0 } }, "f@1000+18g" },
	{ "size 0 without FDE: up to the next function",
	  { { "f", 0x1000, 0, STT_FUNC, STB_GLOBAL }, { "g", 0x1030, 8, STT_FUNC, STB_GLOBAL } }, { { 0 } },
	  "f@1000+30g g@1030+8" },
	{ "size 0 without FDE, last: up to the section's end",
	  { { "f", 0x1ff0, 0, STT_FUNC, STB_GLOBAL } }, { { 0 } }, "f@1ff0+10g" },
	{ "size behind the section's end is cut",
	  { { "f", 0x1ff0, 0x5000, STT_FUNC, STB_GLOBAL } }, { { 0 } }, "f@1ff0+10" },
	{ "size that wraps around is cut",
	  { { "f", 0x1ff0, ~0ull, STT_FUNC, STB_GLOBAL } }, { { 0 } }, "f@1ff0+10" },
	{ "foo.cold is a cold part",
	  { { "foo", 0x1000, 16, STT_FUNC, STB_GLOBAL }, { "foo.cold", 0x1020, 16, STT_FUNC, STB_LOCAL },
	    { "a.isra.0.cold.7", 0x1040, 16, STT_FUNC, STB_LOCAL },
	    { "b.part.0", 0x1060, 16, STT_FUNC, STB_LOCAL } },
	  { { 0 } }, "foo@1000+10 foo.cold@1020+10c a.isra.0.cold.7@1040+10c b.part.0@1060+10" },
	{ "freeze.coldly is a function",
	  { { "freeze.coldly", 0x1000, 16, STT_FUNC, STB_GLOBAL } }, { { 0 } }, "freeze.coldly@1000+10" },
	{ "cgo's names for whole objects are ignored",
	  { { "net(.text)", 0x1000, 0x800, STT_FUNC, STB_LOCAL }, { "f", 0x1010, 16, STT_FUNC, STB_LOCAL } },
	  { { 0 } }, "f@1010+10" },
	{ "a label counts where an FDE begins",
	  { { "label", 0x1000, 0, STT_NOTYPE, STB_GLOBAL }, { "data", 0x1100, 0, STT_NOTYPE, STB_GLOBAL } },
	  { { 0x1000, 0x20, 0, 0 } }, "label@1000+20g" },
	{ "data and code elsewhere are no functions",
	  { { "table", 0x1000, 16, STT_OBJECT, STB_GLOBAL }, { "far", 0x9000, 16, STT_FUNC, STB_GLOBAL },
	    { "ro", 0x2100, 16, STT_FUNC, STB_GLOBAL } }, { { 0 } }, "" },
	{ "versions are cut off",
	  { { "memcpy@@GLIBC_2.14", 0x1000, 16, STT_FUNC, STB_GLOBAL } }, { { 0 } }, "memcpy@1000+10" },
	{ "global before local, then fewest underscores, then the shorter name",
	  { { "a", 0x1000, 16, STT_FUNC, STB_LOCAL }, { "__b", 0x1000, 16, STT_FUNC, STB_GLOBAL },
	    { "long_b", 0x1000, 16, STT_FUNC, STB_WEAK }, { "bee", 0x1000, 16, STT_FUNC, STB_GLOBAL } },
	  { { 0 } }, "bee=long_b=__b=a@1000+10" },
	{ "ifunc",
	  { { "pick", 0x1000, 16, STT_GNU_IFUNC, STB_GLOBAL } }, { { 0 } }, "pick@1000+10i" },
	{ "a function inside another stays",
	  { { "outer", 0x1000, 0x40, STT_FUNC, STB_GLOBAL }, { "inner", 0x1010, 8, STT_FUNC, STB_GLOBAL } },
	  { { 0 } }, "outer@1000+40 inner@1010+8" },
};

static void describe(struct module *m, char *out, size_t room)
{
	size_t i, k, n = 0;

	*out = 0;
	for (i = 0; i < m->funcs.n; i++) {
		const struct func *f = &m->funcs.v[i];

		n += snprintf(out + n, room - n, "%s%s", i ? " " : "", f->name ? f->name : func_name(m, f));
		for (k = 1; k < f->nalias; k++)
			n += snprintf(out + n, room - n, "=%s", m->names.v[f->alias + k].name);
		n += snprintf(out + n, room - n, "@%lx+%lx%s%s%s", (long)f->addr, (long)f->size,
			      f->flags & FUNC_COLD ? "c" : "", f->flags & FUNC_SIZE_GUESSED ? "g" : "",
			      f->flags & FUNC_IFUNC ? "i" : "");
	}
}

static struct module *make(const struct made_symbol *symbols, size_t ns, const struct made_fde *fdes, size_t nf)
{
	static struct made e;
	struct module *m;
	size_t size;

	made_start(&e);
	made_symbols(&e, SHT_SYMTAB, symbols, ns);
	made_frames(&e, fdes, nf);
	size = made_finish(&e, ET_DYN);
	assert_int_equal(module_open_memory(e.p, size, "made", &m), 0);
	return m;
}

static void test_rules(void **state)
{
	char got[512];
	size_t i, ns, nf;

	for (i = 0; i < ARRAY_SIZE(rules); i++) {
		struct module *m;

		for (ns = 0; ns < 4 && rules[i].symbols[ns].name; ns++)
			;
		for (nf = 0; nf < 4 && rules[i].fdes[nf].addr; nf++)
			;
		m = make(rules[i].symbols, ns, rules[i].fdes, nf);
		describe(m, got, sizeof(got));
		print_message("  %s\n", rules[i].what);
		assert_string_equal(got, rules[i].expect);
		module_close(m);
	}
}

/* A label right behind a section marks its end; one between two sections stops at the second. */
static void test_labels_outside_sections(void **state)
{
	static const struct made_symbol symbols[] = {
		{ "f", 0x17f0, 0x10, STT_FUNC, STB_GLOBAL }, { "etext", 0x1800, 0, STT_FUNC, STB_GLOBAL },
		{ "between", 0x1810, 0, STT_FUNC, STB_GLOBAL },
	};
	static struct made e;
	struct module *m;
	char got[512];

	made_start(&e);
	e.sh[1].sh_size = 0x800;
	made_section(&e, ".more", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1820, 0x100);
	made_symbols(&e, SHT_SYMTAB, symbols, ARRAY_SIZE(symbols));
	made_frames(&e, NULL, 0);
	assert_int_equal(module_open_memory(e.p, made_finish(&e, ET_DYN), "made", &m), 0);
	describe(m, got, sizeof(got));
	assert_string_equal(got, "f@17f0+10 between@1810+10g");
	module_close(m);
}

static void test_func_at(void **state)
{
	static const struct made_symbol s[] = {
		{ "outer", 0x1000, 0x100, STT_FUNC, STB_GLOBAL }, { "a", 0x1010, 8, STT_FUNC, STB_GLOBAL },
		{ "b", 0x1020, 8, STT_FUNC, STB_GLOBAL }, { "z", 0x1200, 8, STT_FUNC, STB_GLOBAL },
	};
	static const struct { uint64_t addr; const char *name; } rows[] = {
		{ 0xfff, NULL }, { 0x1000, "outer" }, { 0x1010, "a" }, { 0x1017, "a" }, { 0x1018, "outer" },
		{ 0x1020, "b" }, { 0x1028, "outer" }, { 0x10ff, "outer" }, { 0x1100, NULL }, { 0x1200, "z" },
		{ 0x1208, NULL }, { ~0ull, NULL }, { 0, NULL },
	};
	struct module *m = make(s, ARRAY_SIZE(s), NULL, 0);
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct func *f = module_func_at(m, rows[i].addr);

		if (rows[i].name)
			assert_string_equal(f ? f->name : "none", rows[i].name);
		else
			assert_null(f);
	}
	module_close(m);
}

static void test_bytes(void **state)
{
	struct module *m = make(NULL, 0, NULL, 0);

	assert_ptr_equal(module_bytes(m, 0x1000, 0x1000), m->image + 0x1000);
	assert_ptr_equal(module_bytes(m, 0x1fff, 1), m->image + 0x1fff);
	assert_null(module_bytes(m, 0x1fff, 2));	/* the next segment is another one */
	assert_null(module_bytes(m, 0x1000, SIZE_MAX));
	assert_null(module_bytes(m, 0xfff, 1));
	assert_null(module_bytes(m, ~0ull, 1));
	assert_int_equal(m->lo, 0x1000);
	assert_int_equal(m->hi, 0x3000);
	module_close(m);
}

/* ---- exception tables ---- */

typedef VEC(uint64_t) addr_list;

static void note(void *arg, uint64_t addr)
{
	*vec_add((addr_list *)arg) = addr;
}

static bool has(const addr_list *list, uint64_t addr)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (list->v[i] == addr)
			return true;
	return false;
}

static void test_landing_pads(void **state)
{
	/* no LPStart, no types, call sites in uleb128: (0,4)->0x20, (4,4)->none, (8,4)->0x210 (another FDE) */
	static const uint8_t table[] = { 0xff, 0xff, 1, 13, 0, 4, 0x20, 0, 4, 4, 0, 0, 8, 4, 0x90, 4, 0 };
	static const struct made_fde fdes[] = { { 0x1000, 0x40, 0, LSDA }, { 0x1200, 0x40, 0, 0 } };
	static struct made e;
	const struct fde_range *f;
	addr_list pads = { 0 };
	struct module *m;

	made_start(&e);
	made_frames(&e, fdes, 2);
	memcpy(e.p + LSDA, table, sizeof(table));
	assert_int_equal(module_open_memory(e.p, made_finish(&e, ET_DYN), "made", &m), 0);
	assert_int_equal(module_fdes(m, &f), 2);
	assert_int_equal(f[0].lsda, LSDA);
	assert_int_equal(f[1].lsda, 0);
	assert_true(f[0].first_cfa_is_entry);
	module_landing_pads(m, 0x1000, 0x1040, note, &pads);
	assert_true(has(&pads, 0x1020) && has(&pads, 0x1210));
	pads.n = 0;
	module_landing_pads(m, 0x1200, 0x1240, note, &pads);	/* a pad of the first one's table */
	assert_true(pads.n == 1 && has(&pads, 0x1210));
	pads.n = 0;
	module_landing_pads(m, 0x1300, 0x1340, note, &pads);
	assert_int_equal(pads.n, 0);
	vec_free(&pads);
	module_close(m);
}

/* Lengths and counts that lead just beyond the end, or around it. */
static void test_just_beyond(void **state)
{
	static const struct made_fde fdes[] = { { 0x1000, 0x40, 0, 0 }, { 0x1200, 0x40, 0, 0 } };
	static struct made e;
	const struct fde_range *f;
	struct module *m;
	struct image im;
	size_t size;

	made_start(&e);
	made_frames(&e, fdes, 2);
	size = made_finish(&e, ET_DYN);
	assert_int_equal(image_parse(&im, e.p, size, "made"), 0);
	assert_int_equal(im.nsh, e.nsh);
	assert_ptr_equal(image_at(&im, size - 8, 8), e.p + size - 8);
	assert_null(image_at(&im, size - 8, 9));
	assert_null(image_at(&im, size + 1, 0));
	assert_null(image_at(&im, 16, -8ull));
	image_release(&im);
	((Elf64_Ehdr *)e.p)->e_shnum++;			/* one section header more than there is */
	assert_int_equal(image_parse(&im, e.p, size, "made"), 0);
	assert_int_equal(im.nsh, 0);
	image_release(&im);
	((Elf64_Ehdr *)e.p)->e_shnum--;
	made_put32(&e, e.frames - 24, 20 + 4);		/* the last FDE ends after its section */
	assert_int_equal(module_open_memory(e.p, size, "made", &m), 0);
	assert_int_equal(module_fdes(m, &f), 1);
	module_close(m);
}

/* ---- this program and libc ---- */

static void test_self(void **state)
{
	struct module *m = open_self();
	const struct func *entry = find(m, "known_entry"), *stat = find(m, "known_static");
	const struct fde_range *fdes;
	addr_list pointers = { 0 };
	uint64_t bias = own_bias();

	assert_true(entry && stat);
	assert_int_equal(entry->addr + bias, (uint64_t)known_entry);
	assert_int_equal(stat->addr + bias, (uint64_t)known_static);
	assert_ptr_equal(find(m, "known_alias"), entry);
	assert_int_equal(entry->nalias, 2);
	assert_string_equal(entry->name, "known_alias");	/* same length, first in the alphabet */
	assert_memory_equal(module_bytes(m, stat->addr, stat->size), (void *)known_static, stat->size);
	assert_ptr_equal(module_func_at(m, stat->addr + stat->size - 1), stat);
	assert_true(m->entry >= m->lo && m->entry < m->hi);
	assert_true(module_fdes(m, &fdes) > 10);
	module_text_pointers(m, note, &pointers);
	assert_true(has(&pointers, stat->addr) && has(&pointers, entry->addr));
	assert_int_equal(known_table[0](8) + known_table[1](1), 5);
	vec_free(&pointers);
	module_close(m);
}

static void test_ifunc_slot(void **state)
{
	struct module *m = open_self();
	const struct func *picked = find(m, "known_picked");
	const struct irel *irels;
	size_t n = module_irelative(m, &irels), i, found = 0;

	assert_int_equal(known_picked(10), 3);
	assert_true(picked && (picked->flags & FUNC_IFUNC));
	assert_ptr_equal(picked, find(m, "known_resolver"));
	for (i = 0; i < n; i++) {
		if (irels[i].resolver != picked->addr)
			continue;
		assert_int_equal(*(uint64_t *)(irels[i].slot + own_bias()), (uint64_t)known_static);
		found++;
	}
	assert_true(found > 0);
	module_close(m);
}

static void test_rseq(void **state)
{
	struct module *m = open_self();
	const struct rseq_range *ranges;

	assert_int_equal(module_rseqs(m, &ranges), 1);
	assert_int_equal(ranges[0].start, find(m, "known_static")->addr);
	assert_int_equal(ranges[0].len, known_rseq.len);
	assert_int_equal(ranges[0].abort, find(m, "known_entry")->addr);
	module_close(m);
}

/*
 * Relocations of a section of sequences that reach beyond its end, or lie before it: the copy to which they are applied is
 * taken from between two blocks of ours, and the second one keeps its length.
 */
static void test_rseq_relocations_outside(void **state)
{
	enum { AT = FRAMES + 0x100, SIZE = 2040, RELOCS = FRAMES + 0xa00 };
	static const struct { uint64_t offset; bool inside; } relocs[] = {
		{ AT + 8, true }, { AT + 24, true }, { AT - 8, false }, { AT - 1, false }, { AT + SIZE - 8, true }, { AT + SIZE - 7, false },
		{ AT + SIZE, false }, { AT + SIZE + 8, false }, { UINT64_MAX, false }, { 0, false },
	};
	Elf64_Rela *rela;
	const struct rseq_range *ranges;
	const struct irel *irels;
	void *hole, *behind;
	struct module *m;
	struct made e;
	size_t size, i;

	made_start(&e);
	rela = (void *)(e.p + RELOCS);
	for (i = 0; i < ARRAY_SIZE(relocs); i++)
		rela[i] = (Elf64_Rela){ relocs[i].offset, ELF64_R_INFO(0, R_X86_64_RELATIVE), relocs[i].inside ? TEXT + 16 : -1 };
	memcpy(e.p + AT + 16, &(uint64_t){ 32 }, 8);
	made_section(&e, "__rseq_cs", SHT_PROGBITS, SHF_ALLOC, AT, SIZE);
	made_section(&e, ".rela.dyn", SHT_RELA, SHF_ALLOC, RELOCS, sizeof(relocs) / sizeof(*relocs) * sizeof(*rela))->sh_entsize = sizeof(*rela);
	size = made_finish(&e, ET_DYN);
	assert_int_equal(module_open_memory(e.p, size, "made", &m), 0);
	module_irelative(m, &irels);
	hole = malloc(SIZE);
	behind = malloc(SIZE);
	size = malloc_usable_size(behind);
	free(hole);
	assert_int_equal(module_rseqs(m, &ranges), 1);
	assert_int_equal(malloc_usable_size(behind), size);
	assert_int_equal(ranges[0].start, TEXT + 16);
	assert_int_equal(ranges[0].len, 32);
	assert_int_equal(ranges[0].abort, TEXT + 16);
	free(behind);
	module_close(m);
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *arg)
{
	if (!strstr(info->dlpi_name, "/" LIBC_SO))
		return 0;
	*(const char **)arg = info->dlpi_name;
	return 1;
}

static void test_libc(void **state)
{
	const char *path = NULL;
	const struct func *f;
	struct module *m;
	size_t i;

	if (!dl_iterate_phdr(find_libc, &path))
		skip();
	assert_int_equal(module_open("", path, &m), 0);
	f = find(m, "malloc");
	assert_true(f && f->size > 0);
	assert_string_equal(f->name, "malloc");
	assert_true(find(m, "strlen") && (find(m, "strlen")->flags & FUNC_IFUNC));
	assert_true(m->funcs.n > 2000 && m->build_id_len == 20 && m->runtime == &runtime_c && !m->is_exec);
	for (i = 0; i < m->funcs.n; i++) {
		f = &m->funcs.v[i];
		assert_true(f->size > 0 && module_bytes(m, f->addr, f->size));
		assert_true(i == 0 || f[-1].addr < f->addr);
		assert_true(f->nalias == 0 || m->names.v[f->alias].func == i);
	}
	module_close(m);
}

/* sstrip and the like remove all section headers; the loader needs none, nor do we. */
static void test_without_sections(void **state)
{
	addr_list with = { 0 }, without = { 0 };
	const struct fde_range *fdes;
	struct module *m, *bare;
	const char *path = NULL;
	Elf64_Ehdr *copy;

	if (!dl_iterate_phdr(find_libc, &path))
		skip();
	assert_int_equal(module_open("", path, &m), 0);
	copy = malloc(m->image_size);
	memcpy(copy, m->image, m->image_size);
	copy->e_shoff = copy->e_shnum = copy->e_shstrndx = 0;
	assert_int_equal(module_open_memory(copy, m->image_size, "bare", &bare), 0);
	assert_non_null(find(bare, "malloc"));
	assert_int_equal(find(bare, "malloc")->addr, find(m, "malloc")->addr);
	assert_int_equal(module_fdes(bare, &fdes), module_fdes(m, &fdes));
	module_text_pointers(m, note, &with);
	module_text_pointers(bare, note, &without);
	assert_int_equal(with.n, without.n);
	assert_memory_equal(bare->build_id, m->build_id, m->build_id_len);
	free(copy);
	vec_free(&with);
	vec_free(&without);
	module_close(bare);
	module_close(m);
}

/* The program's first instructions tell where main() is. */
static void test_main_of_stripped(void **state)
{
	struct module *m, *bare;
	const struct func *f;
	Elf64_Ehdr *copy;

	assert_int_equal(module_open("", "/proc/self/exe", &m), 0);
	copy = malloc(m->image_size);
	memcpy(copy, m->image, m->image_size);
	copy->e_shoff = copy->e_shnum = copy->e_shstrndx = 0;
	assert_int_equal(module_open_memory(copy, m->image_size, "bare", &bare), 0);
	f = find(bare, "main");
	assert_non_null(f);
	assert_int_equal(f->addr, find(m, "main")->addr);
	assert_int_equal(f->size, find(m, "main")->size);
	module_close(bare);
	copy->e_entry++;		/* then it tells nothing */
	assert_int_equal(module_open_memory(copy, m->image_size, "bare", &bare), 0);
	assert_null(find(bare, "main"));
	free(copy);
	module_close(bare);
	module_close(m);
}

/* Without relocations a word that looks like an address in text is one, but not inside code. */
static void test_fixed_address(void **state)
{
	static const uint64_t in_data = TEXT + 0x18, in_code = TEXT + 0x28;
	static struct made e;
	addr_list list = { 0 };
	struct module *m;
	int exec;

	for (exec = 0; exec < 2; exec++) {
		made_start(&e);
		memcpy(e.p + LSDA + 0x100, &in_data, 8);
		memcpy(e.p + LSDA + 0x124, &in_data, 8);	/* not aligned: by chance */
		memcpy(e.p + TEXT + 0x200, &in_code, 8);
		assert_int_equal(module_open_memory(e.p, made_finish(&e, exec ? ET_EXEC : ET_DYN), "m", &m), 0);
		assert_int_equal(m->is_exec, exec);
		list.n = 0;
		module_text_pointers(m, note, &list);
		assert_int_equal(list.n, 1 + exec);	/* e_entry always */
		assert_int_equal(has(&list, in_data), exec);
		assert_false(has(&list, in_code));
		module_close(m);
	}
	vec_free(&list);
}

static void test_vdso(void **state)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo = 0, hi = 0;
	struct module *m;
	char line[512];

	while (f && fgets(line, sizeof(line), f) && !strstr(line, "[vdso]"))
		;
	if (!f || sscanf(line, "%lx-%lx", &lo, &hi) != 2 || !strstr(line, "[vdso]"))
		skip();
	fclose(f);
	assert_int_equal(module_open_memory((void *)lo, hi - lo, "[vdso]", &m), 0);
	assert_non_null(find(m, "__vdso_clock_gettime"));
	module_close(m);
}

/* A file cut anywhere is refused or read, never more; with ASan this shows each read outside. */
static void test_cut_anywhere(void **state)
{
	static const struct made_symbol s[] = { { "f", 0x1000, 16, STT_FUNC, STB_GLOBAL } };
	static const struct made_fde f[] = { { 0x1000, 16, 0, LSDA } };
	static struct made e;
	addr_list pads = { 0 };
	struct module *m;
	size_t size, n;

	made_start(&e);
	made_symbols(&e, SHT_SYMTAB, s, 1);
	made_symbols(&e, SHT_DYNSYM, s, 1);
	made_frames(&e, f, 1);
	made_build_id(&e, "twenty bytes of an i");
	size = made_finish(&e, ET_DYN);
	for (n = 0; n < size; n += n < 0x2f00 ? 37 : 1) {
		if (module_open_memory(e.p, n, "cut", &m) < 0)
			continue;
		assert_true(n >= REST);
		module_landing_pads(m, 0, ~0ull, note, &pads);
		module_close(m);
	}
	vec_free(&pads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_rules),
		cmocka_unit_test(test_labels_outside_sections), cmocka_unit_test(test_func_at),
		cmocka_unit_test(test_bytes), cmocka_unit_test(test_landing_pads), cmocka_unit_test(test_just_beyond),
		cmocka_unit_test(test_self), cmocka_unit_test(test_ifunc_slot), cmocka_unit_test(test_rseq),
		cmocka_unit_test(test_rseq_relocations_outside),
		cmocka_unit_test(test_libc), cmocka_unit_test(test_without_sections), cmocka_unit_test(test_main_of_stripped),
		cmocka_unit_test(test_fixed_address), cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_cut_anywhere),
	};

	return cmocka_run_group_tests_name("sym", tests, NULL, NULL);
}
