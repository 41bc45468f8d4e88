/* SPDX-License-Identifier: MIT */
/*
 * Call frame instructions, executed once in the tracer so that the target does not have to. Of all registers only
 * those are followed that a CFA is ever based on at a call: the stack pointer, the frame pointer and one more (on x86-64 that of the loader's resolver). Other
 * registers may be the base of a CFA in the innermost frame only, where their values are known anyway.
 */
#include "sym/unwind/unwind_priv.h"

enum {
	OP_DEREF = 0x06, OP_AND = 0x1a, OP_PLUS = 0x22, OP_PLUS_UCONST = 0x23, OP_SHL = 0x24, OP_GE = 0x2a,
	OP_LIT0 = 0x30, OP_BREG0 = 0x70,
};

/* Compilers nest these once; code with deeper nesting gets no rows from there on. */
#define MOST_REMEMBERED 8
/* A CIE is run for many FDEs; real ones have a dozen bytes. */
#define MOST_CIE 256

struct cfi {
	const struct arch *arch;
	const struct frame_cie *cie;
	const struct cfi_state *start;
	struct cfi_state now, remembered[MOST_REMEMBERED];
	int nremembered;
	struct reader r;
	uint64_t loc, hi;
	bool signal;
	struct row_writer *w;
};

static bool fits16(int64_t n)
{
	return n == (int16_t)n;
}

/* Puts one callee-saved register into the rule; `shift` is 0 for the frame pointer, 2 for the extra one. */
static void rule_place(struct unwind_rule *rule, const struct cfi_place *p, int shift, int16_t *n)
{
	uint8_t lost = shift ? UNWIND_EXTRA_LOST : UNWIND_FP_LOST;

	*n = 0;
	if (p->how == CFI_SAME)
		return;
	if ((p->how == CFI_AT_CFA || p->how == CFI_AT_FP) && fits16(p->n)) {
		rule->flags |= (p->how == CFI_AT_CFA ? UNWIND_FP_CFA : UNWIND_FP_FP) << shift;
		*n = p->n;
	} else {
		rule->flags |= lost;
	}
}

/* Without a rule it is still in its register, where calls don't push it. */
static bool rule_ra(const struct arch *arch, struct unwind_rule *rule, const struct cfi_place *ra)
{
	int reg = ra->how == CFI_IN_REG ? reg_of_dwarf(arch->regs, ra->n) : ra->how == CFI_SAME && !arch->c_call->pushes ? arch->c_call->link : -1;

	if (ra->how == CFI_AT_CFA && fits16(ra->n)) {
		rule->ra = ra->n;
		return true;
	}
	if (reg < 0)
		return false;
	rule->flags |= UNWIND_RA_REG;
	rule->ra = reg;
	return true;
}

static struct unwind_rule rule_of(const struct cfi *c)
{
	const struct cfi_state *s = &c->now;
	struct unwind_rule rule = { .kind = s->kind };

	if (c->signal)
		return (struct unwind_rule){ .kind = UNWIND_SIGNAL };
	if (s->ra.how == CFI_UNDEFINED)
		return (struct unwind_rule){ .kind = UNWIND_END };
	if (s->kind == UNWIND_STOP || reg_of_dwarf(c->arch->regs, s->reg) < 0 || s->off != (int32_t)s->off || !fits16(s->add) ||
	    s->sp.how != CFI_SAME || !rule_ra(c->arch, &rule, &s->ra))
		return (struct unwind_rule){ .kind = UNWIND_STOP };
	rule.reg = reg_of_dwarf(c->arch->regs, s->reg);
	rule.off = s->off;
	rule.add = s->add;
	rule_place(&rule, &s->fp, 0, &rule.fp);
	rule_place(&rule, &s->extra, 2, &rule.extra);
	return rule;
}

static struct reader sub_reader(struct reader *r)
{
	uint64_t n = read_uleb(r);
	struct reader e = *r;

	read_skip(r, n);
	e.end = r->bad ? e.p : r->p;
	return e;
}

/* The stack pointer + 8, and 8 more in the second half of a 16-byte entry: what linkers emit for .plt */
static bool is_plt(const struct arch *arch, struct reader e, struct cfi_state *s)
{
	uint8_t limit;

	if (read_u8(&e) != OP_BREG0 + arch->regs->dwarf_pc || read_sleb(&e) != 0 || read_u8(&e) != OP_LIT0 + 15 ||
	    read_u8(&e) != OP_AND)
		return false;
	limit = read_u8(&e) - OP_LIT0;
	if (limit > 15 || read_u8(&e) != OP_GE || read_u8(&e) != OP_LIT0 + 3 || read_u8(&e) != OP_SHL ||
	    read_u8(&e) != OP_PLUS || e.p != e.end || e.bad)
		return false;
	s->kind = UNWIND_PLT;
	s->add = limit;
	return true;
}

static void cfa_expression(const struct arch *arch, struct cfi_state *s, struct reader e)
{
	uint8_t op = read_u8(&e);

	s->kind = UNWIND_STOP;
	if (op < OP_BREG0 || op > OP_BREG0 + 31)
		return;
	s->reg = op - OP_BREG0;
	s->off = read_sleb(&e);
	s->add = 0;
	if (e.bad || is_plt(arch, e, s))
		return;
	if (e.p == e.end) {
		s->kind = UNWIND_CFA;
		return;
	}
	if (read_u8(&e) != OP_DEREF)
		return;
	if (e.p < e.end) {
		if (read_u8(&e) != OP_PLUS_UCONST)
			return;
		s->add = read_uleb(&e);
	}
	if (e.p == e.end && !e.bad)
		s->kind = UNWIND_DEREF;
}

/* The only register expression in common use: frames realigned with the help of the frame pointer. */
static struct cfi_place place_expression(const struct arch *arch, struct reader e)
{
	uint8_t op = read_u8(&e);
	int64_t n = read_sleb(&e);

	if (op >= OP_BREG0 && op <= OP_BREG0 + 31 && reg_of_dwarf(arch->regs, op - OP_BREG0) == arch->regs->fp && e.p == e.end && !e.bad)
		return (struct cfi_place){ CFI_AT_FP, n };
	return (struct cfi_place){ .how = CFI_OTHER };
}

static struct cfi_place *place_of(const struct arch *arch, struct cfi_state *s, uint64_t reg)
{
	int r = reg_of_dwarf(arch->regs, reg);

	if (reg == arch->regs->dwarf_pc)
		return &s->ra;
	return r < 0 ? NULL : r == arch->regs->sp ? &s->sp : r == arch->regs->fp ? &s->fp : r == arch->unwind->extra ? &s->extra : NULL;
}

static void set_place(struct cfi *c, uint64_t reg, uint8_t how, int64_t n)
{
	struct cfi_place *p = place_of(c->arch, &c->now, reg);

	if (p)
		*p = (struct cfi_place){ how, n };
}

static void restore(struct cfi *c, uint64_t reg)
{
	struct cfi_place *p = place_of(c->arch, &c->now, reg);
	struct cfi_state start;

	if (!p || !c->start)
		return;
	start = *c->start;
	*p = *place_of(c->arch, &start, reg);
}

static int64_t factored(const struct cfi *c, uint64_t n)
{
	return n * (uint64_t)c->cie->data_align;
}

/* Adds the complete row, and continues at a later address. */
static void move_to(struct cfi *c, uint64_t loc)
{
	struct unwind_rule rule;

	if (loc == c->loc)
		return;
	if (loc < c->loc || !c->w) {
		c->r.bad = true;
		return;
	}
	rule = rule_of(c);
	row_add(c->w, c->loc, &rule);
	c->loc = loc;
}

static void move_by(struct cfi *c, uint64_t delta)
{
	move_to(c, c->loc + delta * c->cie->code_align);
}

static void remember(struct cfi *c)
{
	if (c->nremembered == MOST_REMEMBERED)
		c->r.bad = true;
	else
		c->remembered[c->nremembered++] = c->now;
}

static void restore_state(struct cfi *c)
{
	if (c->nremembered == 0)
		c->r.bad = true;
	else
		c->now = c->remembered[--c->nremembered];
}

/* Instructions that define where a register is saved; false if op is none of them. */
static bool place_op(struct cfi *c, uint8_t op)
{
	struct reader *r = &c->r, e;
	struct cfi_place p;
	uint64_t reg;

	if (op < 0x05 || op == 0x0a || op == 0x0b || (op > 0x0b && op < 0x10) || op == 0x12 || op == 0x13 ||
	    (op > 0x16 && op != 0x2f))
		return false;
	reg = read_uleb(r);
	switch (op) {
	case 0x05: set_place(c, reg, CFI_AT_CFA, factored(c, read_uleb(r))); break;
	case 0x06: restore(c, reg); break;
	case 0x07: set_place(c, reg, CFI_UNDEFINED, 0); break;
	case 0x08: set_place(c, reg, CFI_SAME, 0); break;
	case 0x09: set_place(c, reg, CFI_IN_REG, read_uleb(r)); break;
	case 0x11: set_place(c, reg, CFI_AT_CFA, factored(c, read_sleb(r))); break;
	case 0x2f: set_place(c, reg, CFI_AT_CFA, -factored(c, read_uleb(r))); break;
	case 0x14: read_uleb(r); set_place(c, reg, CFI_OTHER, 0); break;
	case 0x15: read_sleb(r); set_place(c, reg, CFI_OTHER, 0); break;
	case 0x10:
		e = sub_reader(r);
		p = place_expression(c->arch, e);
		set_place(c, reg, p.how, p.n);
		break;
	case 0x16: sub_reader(r); set_place(c, reg, CFI_OTHER, 0); break;
	}
	return true;
}

/* Instructions that define the CFA. After an expression only a complete new definition counts. */
static bool cfa_op(struct cfi *c, uint8_t op)
{
	struct cfi_state *s = &c->now;
	struct reader *r = &c->r;

	switch (op) {
	case 0x0c: s->reg = read_uleb(r); s->off = read_uleb(r); break;
	case 0x12: s->reg = read_uleb(r); s->off = factored(c, read_sleb(r)); break;
	case 0x0d: s->reg = read_uleb(r); return true;
	case 0x0e: s->off = read_uleb(r); return true;
	case 0x13: s->off = factored(c, read_sleb(r)); return true;
	case 0x0f: cfa_expression(c->arch, s, sub_reader(r)); return true;
	default: return false;
	}
	s->kind = UNWIND_CFA;
	s->add = 0;
	return true;
}

static void one_op(struct cfi *c)
{
	struct reader *r = &c->r;
	uint8_t op = read_u8(r);

	switch (op >> 6) {
	case 1: move_by(c, op & 0x3f); return;
	case 2: set_place(c, op & 0x3f, CFI_AT_CFA, factored(c, read_uleb(r))); return;
	case 3: restore(c, op & 0x3f); return;
	}
	if (cfa_op(c, op) || place_op(c, op))
		return;
	switch (op) {
	case 0x00: break;
	case 0x01: move_to(c, read_encoded(r, c->cie->fde_enc, 0)); break;
	case 0x02: move_by(c, read_u8(r)); break;
	case 0x03: move_by(c, read_u16(r)); break;
	case 0x04: move_by(c, read_u32(r)); break;
	case 0x0a: remember(c); break;
	case 0x0b: restore_state(c); break;
	case 0x2d: break;		/* register windows of another CPU */
	case 0x2e: read_uleb(r); break;	/* size of arguments: already part of CFAs based on the stack pointer */
	default: r->bad = true;
	}
}

void cfi_start(const struct arch *arch, const struct frame_cie *cie, struct cfi_state *ret)
{
	struct cfi c = { .arch = arch, .cie = cie, .r = cie->program, .now = { .kind = UNWIND_STOP } };

	c.r.end = c.r.p + MIN(c.r.end - c.r.p, MOST_CIE);
	while (c.r.p < c.r.end && !c.r.bad)
		one_op(&c);
	if (c.r.bad || cie->ra != arch->regs->dwarf_pc)
		c.now.kind = UNWIND_STOP;
	*ret = c.now;
}

void cfi_run(const struct arch *arch, const struct frame_fde *fde, const struct cfi_state *start, struct row_writer *w)
{
	struct cfi c = { .arch = arch, .cie = fde->cie, .start = start, .now = *start, .r = fde->program,
		.loc = fde->lo, .hi = fde->hi, .signal = fde->cie->signal, .w = w };
	struct unwind_rule rule;

	while (c.r.p < c.r.end && !c.r.bad && c.loc < c.hi)
		one_op(&c);
	if (c.loc >= c.hi)
		return;
	rule = c.r.bad ? (struct unwind_rule){ .kind = UNWIND_STOP } : rule_of(&c);
	row_add(w, c.loc, &rule);
}
