/* SPDX-License-Identifier: MIT */
/*
 * Decodes a function, once, at its first use. The decoding is linear: x86 compilers keep data out of functions, and
 * a byte that is no instruction marks the function as broken. This file collects what the function's own bytes say;
 * code_link.c adds what needs the rest of the module.
 */
#include "pad/code_priv.h"

#include <string.h>
#include <sys/mman.h>

#include "base/err.h"

/* Control flow of a run time that is not in the code. */
static void learn_runtime(struct code *c)
{
	const struct runtime *r = c->m->runtime;
	const struct module *m = c->m;

	for (size_t i = 0; r->entered_at_call && i < m->names.n; i++) {
		const char *name = m->names.v[i].name;
		uint64_t addr = m->funcs.v[m->names.v[i].func].addr;

		if (!strcmp(name, r->entered_at_call))
			priv(c)->entered_at_call = addr;
		else if (!strcmp(name, r->returned_to[0]) || !strcmp(name, r->returned_to[1]))
			code_add_target(c, addr + c->arch->jumps->insn_least, TARGET_RETURN);
	}
}

uint16_t *code_take_cells(struct code *c, size_t size)
{
	uint16_t *cells = priv(c)->cells;

	priv(c)->cells = NULL;
	if (cells && priv(c)->cells_size == size)
		return cells;
	if (cells)
		munmap(cells, priv(c)->cells_size);
	cells = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return cells == MAP_FAILED ? NULL : cells;
}

void code_give_cells(struct code *c, uint16_t *cells, size_t size)
{
	if (priv(c)->cells)
		munmap(priv(c)->cells, priv(c)->cells_size);
	priv(c)->cells = cells;
	priv(c)->cells_size = size;
}

int code_open(struct module *m, struct code **ret_code)
{
	struct code_priv *pr;
	struct code *c;

	pr = xcalloc(1, sizeof(*pr));
	pr->bodies = xcalloc(m->funcs.n, sizeof(*pr->bodies));
	c = xcalloc(1, sizeof(*c));
	c->m = m;
	c->arch = m->arch;
	c->priv = pr;
	learn_runtime(c);
	*ret_code = c;
	return 0;
}

void code_forget(struct code *c, size_t num)
{
	struct body *b = priv(c)->bodies[num];

	if (!b)
		return;
	priv(c)->bodies[num] = NULL;
	vec_free(&b->f.insns);
	vec_free(&b->f.exits);
	free(b->f.index);
	free(b->f.target);
	free(b->at);
	vec_free(&b->outs);
	vec_free(&b->inds);
	vec_free(&b->stays);
	vec_free(&b->leas);
	vec_free(&b->parts);
	vec_free(&b->filler);
	vec_free(&b->orphans);
	free(b);
}

void code_close(struct code *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->m->funcs.n; i++)
		code_forget(c, i);
	free(priv(c)->bodies);
	vec_free(&priv(c)->pointers);
	vec_free(&priv(c)->cross);
	vec_free(&priv(c)->extra);
	if (priv(c)->cells)
		munmap(priv(c)->cells, priv(c)->cells_size);
	free(priv(c));
	free(c);
}

/* Cold parts that were decoded only for this function are freed with it. */
void code_drop(struct code *c, const struct fcode *f)
{
	struct body *b = (struct body *)f;

	if (!f)
		return;
	for (size_t i = 0; i < b->parts.n; i++) {
		struct body *part = priv(c)->bodies[b->parts.v[i]];

		if (part && part != b && !part->linked)
			code_forget(c, b->parts.v[i]);
	}
	code_forget(c, b->num);
}

const struct segment *code_text_at(struct code *c, uint64_t addr)
{
	for (size_t i = 0; i < c->m->segments.n; i++) {
		const struct segment *s = &c->m->segments.v[i];

		if ((s->prot & PROT_EXEC) && addr >= s->addr && addr - s->addr < s->filesz)
			return s;
	}
	return NULL;
}

size_t code_starts_up_to(struct code *c, uint64_t addr)
{
	size_t lo = 0, hi = c->m->funcs.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->m->funcs.v[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t code_next_start(struct code *c, uint64_t addr)
{
	size_t i = addr ? code_starts_up_to(c, addr - 1) : 0;

	return i < c->m->funcs.n ? c->m->funcs.v[i].addr : UINT64_MAX;
}

/* The symbol table may have any size for a function: limited to the text; without a size the function ends at the next one. */
uint64_t code_func_end(struct code *c, size_t num)
{
	const struct func *f = &c->m->funcs.v[num];
	const struct segment *s = code_text_at(c, f->addr);
	uint64_t limit, next;

	if (!s)
		return f->addr;
	limit = s->addr + s->filesz;
	if (!f->size) {
		next = code_next_start(c, f->addr + 1);
		return MIN(limit, next);
	}
	return f->size < limit - f->addr ? f->addr + f->size : limit;
}

/* A function may contain the entry of another one: then the inner one may end first, and functions before it are tried. */
size_t code_find(struct code *c, uint64_t addr)
{
	size_t n = code_starts_up_to(c, addr);

	for (size_t back = 0; back < 8 && back < n; back++)
		if (addr < code_func_end(c, n - 1 - back))
			return n - 1 - back;
	return NO_FUNC;
}

void body_mark(struct body *b, uint64_t addr, enum target_why why)
{
	if (addr < b->f.lo || addr >= b->f.hi)
		return;
	if (b->f.target[addr - b->f.lo] == TARGET_NONE)
		b->f.target[addr - b->f.lo] = why;
}

static bool is_pad_byte(const struct insn *in)
{
	return in->kind == INSN_NOP || in->kind == INSN_INT3;
}

/* Decodes the instructions of the function, then the filler after it up to `limit`. */
static void decode_range(struct code *c, struct body *b, uint64_t limit)
{
	struct fcode *f = &b->f;
	size_t room = limit - f->lo, at = 0;

	f->insns.cap = (f->end - f->lo) / 3 + 8;
	f->insns.v = xrealloc(NULL, f->insns.cap * sizeof(*f->insns.v));
	while (at < room) {
		struct insn in;
		bool behind = f->lo + at >= f->end;

		if (c->arch->decode(b->bytes + at, MIN(room - at, (size_t)INSN_MAX), f->lo + at, &in) < 0)
			break;
		if (behind ? !is_pad_byte(&in) : f->lo + at + in.len > f->end)
			break;
		*vec_add(&f->insns) = in;
		at += in.len;
	}
	f->hi = MAX(f->lo + at, f->end);
	f->broken = f->lo + at < f->end;
	f->insns.v = xrealloc(f->insns.v, MAX(f->insns.n, (size_t)1) * sizeof(*f->insns.v));
	f->insns.cap = MAX(f->insns.n, (size_t)1);
}

static void fill_index(struct body *b)
{
	struct fcode *f = &b->f;
	size_t size = f->hi - f->lo, at = 0;

	f->index = xrealloc(NULL, (size + 1) * sizeof(*f->index));
	memset(f->index, 0xff, (size + 1) * sizeof(*f->index));
	f->target = xcalloc(size + 1, 1);
	b->at = xrealloc(NULL, f->insns.n * sizeof(*b->at));
	for (size_t i = 0; i < f->insns.n; i++) {
		f->index[at] = i;
		b->at[i] = at;
		at += f->insns.v[i].len;
	}
}

static void add_out(struct body *b, uint64_t from, uint64_t to, uint8_t kind)
{
	*vec_add(&b->outs) = (struct out_edge){ from, to, kind };
}

static void note_plain(struct code *c, struct body *b, const struct insn *in, uint64_t at)
{
	const uint8_t *p = b->bytes + (at - b->f.lo);
	uint64_t value;

	if (c->arch->one_insn) {
		for (int i = 0; in->flags & INSN_LITERAL && i < 8; i += 4)
			body_mark(b, in->target + i, TARGET_DATA);
		return;
	}
	if (in->flags & INSN_PCREL) {
		if (!c->arch->idioms->takes_address(p, in->len))
			return;
		*vec_add(&b->leas) = in->target;
		body_mark(b, in->target, TARGET_LEA);
	} else if (c->m->is_exec && c->arch->idioms->takes_immediate(p, in->len, &value)) {
		body_mark(b, value, TARGET_LEA);
	}
}

/* Marks the targets of one instruction. */
static void note_insn(struct code *c, struct body *b, const struct insn *in, uint64_t at)
{
	bool inside = in->target >= b->f.lo && in->target < b->f.hi;

	switch (in->kind) {
	case INSN_JMP:
	case INSN_JCC:
	case INSN_LOOP:
		if (inside)
			body_mark(b, in->target, TARGET_BRANCH);
		else
			add_out(b, at, in->target, in->kind);
		break;
	case INSN_XBEGIN:
		body_mark(b, in->target, TARGET_BRANCH);
		break;
	case INSN_CALL:
		body_mark(b, in->target, TARGET_BRANCH);
		if (priv(c)->entered_at_call && in->target == priv(c)->entered_at_call)
			body_mark(b, at, TARGET_LANDING);
		break;
	case INSN_SYSCALL:
		/* A thread may sleep in the call with its pc there, or start there. */
		body_mark(b, at + in->len, TARGET_RETURN);
		break;
	case INSN_JMP_IND:
		*vec_add(&b->inds) = (struct ind_jump){ at, IND_TAIL };
		break;
	default:
		note_plain(c, b, in, at);
		break;
	}
}

static void note_insns(struct code *c, struct body *b)
{
	uint64_t at = b->f.lo;

	body_mark(b, at, TARGET_ENTRY);
	for (size_t i = 0; i < b->f.insns.n; i++) {
		note_insn(c, b, &b->f.insns.v[i], at);
		at += b->f.insns.v[i].len;
	}
}

struct body *code_raw(struct code *c, size_t num)
{
	const struct func *func = &c->m->funcs.v[num];
	struct body *b = priv(c)->bodies[num];
	const struct segment *s;
	uint64_t limit = 0;

	if (b)
		return b;
	b = priv(c)->bodies[num] = xcalloc(1, sizeof(*b));
	b->num = num;
	b->f.func = func;
	b->f.lo = func->addr;
	b->f.end = b->f.hi = code_func_end(c, num);
	s = code_text_at(c, func->addr);
	if (s) {
		limit = MIN(s->addr + s->filesz, code_next_start(c, b->f.end));
		b->bytes = module_bytes(c->m, func->addr, limit - func->addr);
	}
	if (b->bytes && b->f.end > b->f.lo)
		decode_range(c, b, limit);
	else
		b->f.broken = true;
	fill_index(b);
	note_insns(c, b);
	return b;
}

struct body *code_linked(struct code *c, size_t num)
{
	struct body *b = code_raw(c, num);

	if (!b->linked) {
		b->linked = true;
		code_link(c, b);
	}
	return b;
}

const struct fcode *code_func(struct code *c, uint64_t addr)
{
	size_t num = code_find(c, addr);

	if (num == NO_FUNC) {
		fail(-ENOENT, "%s: no function is known at 0x%llx", c->m->path, (unsigned long long)addr);
		return NULL;
	}
	return &code_linked(c, num)->f;
}

uint64_t fcode_addr(const struct fcode *f, uint32_t insn)
{
	const struct body *b = (const struct body *)f;

	return f->lo + b->at[insn];
}
