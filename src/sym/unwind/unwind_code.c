/* SPDX-License-Identifier: MIT */
/*
 * Rows for code without any unwind information (a libc without unwind tables, hand-written assembly), from the
 * instructions. At a function's start only the return address is on the stack; from there on each instruction is
 * followed, and its changes of the stack pointer are summed up. Compilers keep the sum the same on all paths to an
 * instruction, so each is visited once.
 *
 * It is done twice: only after the first pass are all functions known by their callers, and only then can it be
 * seen that a function ended with a call that does not return. The cases of a switch are not reached by any known
 * branch; they are taken to have the stack of the last indirect jump before them.
 */
#include "sym/unwind/unwind_priv.h"

#include "arch/arch.h"

#define UNKNOWN HEIGHT_UNKNOWN
#define MOST_CODE (4u << 20)	/* most bytes of a module that are analysed in this way: a tenth of a second */

#define POINTED_TO 4096		/* bytes of code from which on pointers to functions are searched */

enum mark { MARK_ENTRY = 1, MARK_MAYBE = 2, MARK_JUMP = 4 };

struct work { uint32_t off, state; };

struct flow {
	const struct arch *arch;
	uint64_t lo;
	uint32_t len;
	const uint8_t *code;
	uint32_t *at;		/* by offset: number of the state + 1, where an instruction begins */
	uint8_t *size, *mark;
	VEC(struct stack_height) states;
	VEC(struct work) work;
};

struct stack_height height_at_entry(const struct arch *a)
{
	return (struct stack_height){ .depth = a->c_call->pushes, .fp = UNKNOWN, .saved_ra = -a->c_call->pushes };
}

struct unwind_rule rule_of_height(const struct arch *a, const struct stack_height *h)
{
	struct unwind_rule rule = { .kind = UNWIND_CFA, .reg = a->regs->sp, .off = h->depth, .ra = h->saved_ra };

	if (h->kind)
		return (struct unwind_rule){ .kind = h->kind };
	if (h->depth == UNKNOWN) {
		rule.reg = a->regs->fp;
		rule.off = h->fp;
	}
	if (rule.off == UNKNOWN)
		return (struct unwind_rule){ .kind = UNWIND_NONE };
	if (rule.off < a->c_call->pushes)	/* code that has popped the return address does not return */
		return (struct unwind_rule){ .kind = UNWIND_END };
	rule.flags = (h->saved_fp ? UNWIND_FP_CFA : 0) | (h->saved_extra ? UNWIND_EXTRA_CFA : 0);
	if (!h->saved_ra) {
		rule.flags |= UNWIND_RA_REG;
		rule.ra = a->c_call->link;
	}
	rule.fp = h->saved_fp;
	rule.extra = h->saved_extra;
	return rule;
}

static uint32_t state_number(struct flow *f, const struct stack_height *h)
{
	*vec_add(&f->states) = *h;
	return f->states.n - 1;
}

static void add_work(struct flow *f, uint64_t addr, uint32_t state)
{
	if (addr - f->lo < f->len && !f->at[addr - f->lo])
		*vec_add(&f->work) = (struct work){ addr - f->lo, state };
}

static void note(struct flow *f, uint64_t addr, uint8_t mark)
{
	if (addr - f->lo < f->len)
		f->mark[addr - f->lo] |= mark;
}

/* Visits one instruction; false if execution does not continue with the next one. */
static bool visit(struct flow *f, uint32_t off, uint32_t *state)
{
	struct stack_height h = f->states.v[*state], before = h;
	struct insn in;

	if (f->arch->decode(f->code + off, MIN(f->len - off, (uint32_t)INSN_MAX), f->lo + off, &in) < 0)
		return false;
	f->at[off] = *state + 1;
	f->size[off] = in.len;
	if (in.kind == INSN_PLAIN && in.flags & INSN_USES_SP)
		f->arch->unwind->follow(&h, f->code + off, in.len);
	if (memcmp(&h, &before, sizeof(h)) != 0)
		*state = state_number(f, &h);
	switch (in.kind) {
	case INSN_JMP:
		add_work(f, in.target, *state);
		return false;
	case INSN_JCC: case INSN_LOOP: case INSN_XBEGIN:
		add_work(f, in.target, *state);
		return true;
	case INSN_CALL:
		note(f, in.target, MARK_ENTRY);
		add_work(f, in.target, 0);
		return true;
	case INSN_JMP_IND:
		f->mark[off] |= MARK_JUMP;
		return false;
	case INSN_RET: case INSN_STOP: case INSN_INT3:
		return false;
	}
	if (in.flags & INSN_PCREL)
		note(f, in.target, MARK_MAYBE);
	return true;
}

static void follow(struct flow *f, uint32_t off, uint32_t state)
{
	*vec_add(&f->work) = (struct work){ off, state };
	while (f->work.n) {
		struct work w = f->work.v[--f->work.n];
		bool first = true;

		while (w.off < f->len && !f->at[w.off] && (first || !(f->mark[w.off] & MARK_ENTRY)) &&
		       visit(f, w.off, &w.state)) {
			w.off += f->size[w.off];
			first = false;
		}
	}
}

/* Follows all addresses with that mark as functions. */
static void follow_marked(struct flow *f, uint8_t mark)
{
	for (uint32_t i = 0; i < f->len; i++)
		if (f->mark[i] & mark && !f->at[i])
			follow(f, i, 0);
}

static void follow_cases(struct flow *f)
{
	uint32_t off = 0, jump = 0;

	while (off + 1 < f->len) {
		if (f->mark[off] & MARK_ENTRY)
			jump = 0;
		if (!f->at[off] && jump && !f->arch->unwind->is_padding(f->code + off))
			follow(f, off, jump - 1);
		if (f->mark[off] & MARK_JUMP)
			jump = f->at[off];
		off += f->at[off] && f->size[off] ? f->size[off] : 1;
	}
}

/* Starts at the program's entry point and at the signal return trampolines. */
static void seed_special(struct flow *f, const struct module *m)
{
	struct stack_height h = height_at_entry(f->arch);
	size_t off, len;

	if (m->entry - f->lo < f->len) {
		h.kind = UNWIND_END;
		follow(f, m->entry - f->lo, state_number(f, &h));
	}
	h.kind = UNWIND_SIGNAL;
	for (off = 0; find_sigreturn(f->arch, f->code, f->len, &off, &len); off += len)
		follow(f, off, state_number(f, &h));
}

static void seed_functions(struct flow *f, const struct module *m)
{
	for (size_t i = func_from(m, f->lo); i < m->funcs.n && m->funcs.v[i].addr < f->lo + f->len; i++)
		if (!(m->funcs.v[i].flags & FUNC_COLD))
			note(f, m->funcs.v[i].addr, MARK_ENTRY);
}

static void add_maybe(void *arg, uint64_t addr)
{
	note(arg, addr, MARK_MAYBE);
}

static void write_rows(struct flow *f, struct row_writer *w)
{
	static const struct unwind_rule none;
	uint32_t off = 0;

	while (off < f->len) {
		uint32_t state = f->at[off];
		struct unwind_rule rule = state ? rule_of_height(f->arch, &f->states.v[state - 1]) : none;

		row_add(w, f->lo + off - (rule.kind == UNWIND_SIGNAL && off), &rule);
		off += state ? f->size[off] : 1;
	}
}

static void run(struct flow *f, struct module *m)
{
	struct stack_height entry = height_at_entry(f->arch);

	f->states.n = 0;
	memset(f->at, 0, f->len * sizeof(*f->at));
	state_number(f, &entry);		/* state 0 */
	seed_special(f, m);
	follow_marked(f, MARK_ENTRY);
	follow_cases(f);
	follow_marked(f, MARK_MAYBE);
	follow_cases(f);
}

bool code_rows(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	struct flow f = { .arch = m->arch, .lo = lo, .len = hi - lo, .code = module_bytes(m, lo, hi - lo) };
	struct sym_priv *p = priv(m);

	if (!f.code || hi - lo > MOST_CODE || p->unwind_read + (hi - lo) > MOST_CODE)
		return false;
	p->unwind_read += hi - lo;
	f.at = xcalloc(f.len, sizeof(*f.at));
	f.size = xcalloc(f.len, 1);
	f.mark = xcalloc(f.len, 1);
	seed_functions(&f, m);
	if (f.len >= POINTED_TO)
		module_text_pointers(m, add_maybe, &f);
	run(&f, m);
	run(&f, m);
	write_rows(&f, w);
	free(f.at);
	free(f.size);
	free(f.mark);
	vec_free(&f.states);
	vec_free(&f.work);
	return true;
}
