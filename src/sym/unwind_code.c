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
#include "sym/unwind_priv.h"

#include "arch/arch.h"

enum { RBX = 3, RSP = 4, RBP = 5 };

#define UNKNOWN INT32_MIN
#define MOST_CODE (4u << 20)	/* most bytes of a module that are analysed in this way: a tenth of a second */

#define POINTED_TO 4096		/* bytes of code from which on pointers to functions are searched */

enum mark { MARK_ENTRY = 1, MARK_MAYBE = 2, MARK_JUMP = 4 };

/* The CFA is `depth` above rsp and `fp` above rbp; rbp and rbx are saved at CFA + bp and CFA + bx (0: not saved). */
struct height {
	int32_t depth, fp;
	int16_t bp, bx;
	uint8_t kind;		/* not 0: all rows from here on are of this kind */
};

struct work { uint32_t off, state; };

struct flow {
	const struct arch *arch;
	uint64_t lo;
	uint32_t len;
	const uint8_t *code;
	uint32_t *at;		/* by offset: number of the state + 1, where an instruction begins */
	uint8_t *size, *mark;
	VEC(struct height) states;
	VEC(struct work) work;
};

static const struct height entry_height = { .depth = 8, .fp = UNKNOWN };

static struct unwind_rule rule_of(const struct height *h)
{
	struct unwind_rule rule = { .kind = UNWIND_CFA, .reg = RSP, .off = h->depth, .ra = -8 };

	if (h->kind)
		return (struct unwind_rule){ .kind = h->kind };
	if (h->depth == UNKNOWN) {
		rule.reg = RBP;
		rule.off = h->fp;
	}
	if (rule.off == UNKNOWN)
		return (struct unwind_rule){ .kind = UNWIND_NONE };
	if (rule.off < 8)	/* code that has popped the return address does not return */
		return (struct unwind_rule){ .kind = UNWIND_END };
	rule.flags = (h->bp ? UNWIND_BP_CFA : 0) | (h->bx ? UNWIND_BX_CFA : 0);
	rule.bp = h->bp;
	rule.bx = h->bx;
	return rule;
}

static void move_sp(struct height *h, int64_t by)
{
	if (h->depth == UNKNOWN || h->depth - by < 0 || h->depth - by > 1 << 24)
		h->depth = UNKNOWN;
	else
		h->depth -= by;
}

static void set_sp(struct height *h, int64_t depth)
{
	h->depth = depth < 0 || depth > 1 << 24 ? UNKNOWN : depth;
}

static int16_t saved_here(const struct height *h, int16_t before)
{
	return !before && h->depth != UNKNOWN && h->depth < 32768 ? -h->depth : before;
}

static void push_reg(struct height *h, int reg)
{
	move_sp(h, -8);
	if (reg == RBP)
		h->bp = saved_here(h, h->bp);
	if (reg == RBX)
		h->bx = saved_here(h, h->bx);
}

static void pop_reg(struct height *h, int reg)
{
	move_sp(h, 8);
	if (reg == RSP)
		h->depth = UNKNOWN;
	if (reg == RBX)
		h->bx = 0;
	if (reg == RBP) {
		h->bp = 0;
		h->fp = UNKNOWN;
	}
}

static void copy_reg(struct height *h, int from, int to)
{
	if (to == RBP)
		h->fp = from == RSP ? h->depth : UNKNOWN;
	if (to == RSP)
		h->depth = from == RBP ? h->fp : UNKNOWN;
}

static int64_t immediate(const uint8_t *p, bool wide)
{
	return wide ? (int32_t)get32(p) : (int8_t)*p;
}

/* lea disp(%rsp or %rbp),%rsp; p is at the ModRM byte */
static void lea_sp(struct height *h, const uint8_t *p, uint8_t rex)
{
	int mod = p[0] >> 6, rm = p[0] & 7;

	if (rm == RSP && p[1] == 0x24 && mod < 3 && !(rex & 3))
		move_sp(h, mod ? immediate(p + 2, mod == 2) : 0);
	else if (rm == RBP && (mod == 1 || mod == 2) && !(rex & 1) && h->fp != UNKNOWN)
		set_sp(h, h->fp - immediate(p + 1, mod == 2));
	else
		h->depth = UNKNOWN;
}

/* Instructions of 64 bits with a ModRM byte at p. */
static void wide_op(struct height *h, uint8_t op, const uint8_t *p, uint8_t rex)
{
	int reg = (p[0] >> 3 & 7) | (rex & 4) << 1, rm = (p[0] & 7) | (rex & 1) << 3;
	bool direct = p[0] >> 6 == 3;

	switch (op) {
	case 0x81: case 0x83:
		if (!direct || rm != RSP || (reg & 7) == 7)
			break;
		if ((reg & 7) == 0)
			move_sp(h, immediate(p + 1, op == 0x81));
		else if ((reg & 7) == 5)
			move_sp(h, -immediate(p + 1, op == 0x81));
		else
			h->depth = UNKNOWN;
		break;
	case 0x8d:
		if (reg == RSP)
			lea_sp(h, p, rex);
		break;
	case 0x89:
		if (direct)
			copy_reg(h, reg, rm);
		break;
	case 0x8b:
		copy_reg(h, direct ? rm : -1, reg);
		break;
	case 0x01: case 0x21: case 0x29: case 0x31: case 0x87:
		if (direct && rm == RSP)
			h->depth = UNKNOWN;
		break;
	case 0x03: case 0x23: case 0x2b: case 0x33:
		if (reg == RSP)
			h->depth = UNKNOWN;
		break;
	}
}

/* Applies the effect of an instruction on the stack; n bytes, which the decoder has accepted. */
static void apply(struct height *h, const uint8_t *p, size_t n)
{
	uint8_t rex = 0, op;

	if ((p[0] & 0xf0) == 0x40 && n > 1) {
		rex = *p++;
		n--;
	}
	op = p[0];
	if (op >= 0x50 && op <= 0x57)
		push_reg(h, (op & 7) | (rex & 1) << 3);
	else if (op >= 0x58 && op <= 0x5f)
		pop_reg(h, (op & 7) | (rex & 1) << 3);
	else if (op == 0x6a || op == 0x68 || op == 0x9c || (op == 0xff && n > 1 && (p[1] >> 3 & 7) == 6))
		move_sp(h, -8);
	else if (op == 0x9d || op == 0x8f)
		move_sp(h, 8);
	else if (op == 0xc8 || op == 0xbc)
		h->depth = UNKNOWN;
	else if (op == 0xc9 && h->fp != UNKNOWN) {
		set_sp(h, h->fp);
		pop_reg(h, RBP);
	} else if (op == 0xc9) {
		h->depth = UNKNOWN;
	} else if (rex & 8 && n > 1) {
		wide_op(h, op, p + 1, rex);
	}
}

static uint32_t state_number(struct flow *f, const struct height *h)
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
	struct height h = f->states.v[*state], before = h;
	struct insn in;

	if (f->arch->decode(f->code + off, MIN(f->len - off, (uint32_t)INSN_MAX), f->lo + off, &in) < 0)
		return false;
	f->at[off] = *state + 1;
	f->size[off] = in.len;
	if (in.kind == INSN_PLAIN && in.flags & INSN_USES_SP)
		apply(&h, f->code + off, in.len);
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

static bool is_padding(const uint8_t *p)
{
	return *p == 0x90 || *p == 0xcc || *p == 0 || *p == 0x66 || (p[0] == 0x0f && p[1] == 0x1f);
}

static void follow_cases(struct flow *f)
{
	uint32_t off = 0, jump = 0;

	while (off + 1 < f->len) {
		if (f->mark[off] & MARK_ENTRY)
			jump = 0;
		if (!f->at[off] && jump && !is_padding(f->code + off))
			follow(f, off, jump - 1);
		if (f->mark[off] & MARK_JUMP)
			jump = f->at[off];
		off += f->at[off] && f->size[off] ? f->size[off] : 1;
	}
}

/* Starts at the program's entry point and at the signal return trampolines. */
static void seed_special(struct flow *f, const struct module *m)
{
	static const uint8_t syscall_15[] = { 0x0f, 0, 0, 0, 0x0f, 0x05 };
	const uint8_t *at = f->code, *end = f->code + f->len;
	struct height h = entry_height;

	if (m->entry - f->lo < f->len) {
		h.kind = UNWIND_END;
		follow(f, m->entry - f->lo, state_number(f, &h));
	}
	h.kind = UNWIND_SIGNAL;
	while ((at = memmem(at, end - at, syscall_15, sizeof(syscall_15)))) {
		uint32_t off = at - f->code;

		at += sizeof(syscall_15);
		if (off >= 3 && is_sigreturn(at - 9, 9))
			follow(f, off - 3, state_number(f, &h));
		else if (off >= 1 && is_sigreturn(at - 7, 7))
			follow(f, off - 1, state_number(f, &h));
	}
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
		struct unwind_rule rule = state ? rule_of(&f->states.v[state - 1]) : none;

		row_add(w, f->lo + off - (rule.kind == UNWIND_SIGNAL && off), &rule);
		off += state ? f->size[off] : 1;
	}
}

static void run(struct flow *f, struct module *m)
{
	f->states.n = 0;
	memset(f->at, 0, f->len * sizeof(*f->at));
	state_number(f, &entry_height);		/* state 0 */
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
