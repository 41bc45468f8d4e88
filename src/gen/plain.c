/* SPDX-License-Identifier: MIT */
/*
 * Plain events: a clause program that does nothing but write one event of values that need no work (constants, the site's machine
 * registers, words of its stack) becomes the event code alone, without a frame. A value of a typed event that is narrower than its
 * register needs no work either, since a reader takes the low bytes of a field; that of printf() takes all of them. What is known of a site (that it ends in another function, that
 * a function returns nothing) decides here which values are missing, so the code does not ask.
 *
 * A word above the stack pointer may be in the next page, which may not be mapped: then the event code jumps to code with a frame
 * behind it, which has such words read by the kernel.
 */
#include "gen/emit.h"

#include <string.h>

#include "base/addr.h"
#include "base/err.h"
#include "lang/type.h"

enum kind { UNKNOWN, NUMBER, REGISTER, VECTOR, STACK };

struct known {
	uint8_t kind;
	uint8_t width;		/* the low bits that are those of the value */
	uint32_t reg;
	int64_t value;		/* NUMBER; STACK: offset from the stack pointer */
};

struct plain {
	const struct arch *arch;
	const struct ir_unit *u;
	const struct ir_prog *p;
	const struct gen_site *site;
	struct known *known;	/* by IR register */
	uint64_t faults, address[64];
	struct event_field fields[EVENT_FIELDS_MAX + 1];
	uint32_t n, record;
	bool done, above;
};

/* Addresses that are none: they say why a value is missing (base/addr.h). */
static bool is_reason(int64_t address)
{
	return address == (int64_t)ADDR_TAIL_CALL || address == (int64_t)ADDR_NO_RESULT || address == (int64_t)ADDR_NOT_KEPT;
}

static struct known site_register(const struct plain *x, uint64_t reg)
{
	const struct arch_regs *regs = x->arch->regs;

	if (reg == reg_pc(regs))
		return (struct known){ NUMBER, 64, 0, x->site->addr };
	return reg == reg_flags(regs) ? (struct known){ 0 } : (struct known){ REGISTER, 64, reg, 0 };
}

static struct known context(const struct plain *x, int64_t what)
{
	if (what == IR_CTX_SITE)
		return (struct known){ NUMBER, 64, 0, x->site->number };
	return what == IR_CTX_TAIL ? (struct known){ NUMBER, 64, 0, x->site->tail ? ADDR_TAIL_CALL : 0 } : (struct known){ 0 };
}

static struct known cast(const struct known *a, uint8_t type)
{
	struct known v = *a;
	unsigned int unused = 64 - 8 * ir_size(type);

	if (v.kind != NUMBER && type == IR_BOOL)	/* all bits decide: that takes a comparison */
		return (struct known){ 0 };
	if (v.kind != NUMBER)
		v.width = MIN(v.width, 64 - unused);
	if (v.kind == NUMBER && type == IR_BOOL)
		v.value = v.value != 0;
	else if (v.kind == NUMBER)
		v.value = ir_is_unsigned(type) ? (int64_t)((uint64_t)v.value << unused >> unused) : (int64_t)((uint64_t)v.value << unused) >> unused;
	return v.kind == VECTOR ? (struct known){ 0 } : v;
}

/* False: it takes a read that is no plain one. */
static bool load(struct plain *x, const struct ir_ins *i, struct known *ret_value)
{
	const struct known *a = &x->known[i->a];
	int64_t pushes = x->arch->c_call->pushes;	/* a call that is observed may have done so, or a return the reverse */

	if (i->mask & x->faults)
		return false;
	if (a->kind == NUMBER && is_reason(a->value) && !i->imm) {
		x->faults |= 1ull << i->bit;
		x->address[i->bit] = a->value;
		return true;
	}
	if (a->kind != REGISTER || a->reg != x->arch->regs->sp || i->type == IR_F32 || i->type == IR_BOOL || i->imm - pushes < EVENT_STACK_MIN ||
	    i->imm + pushes > EVENT_STACK_MAX)
		return false;
	*ret_value = (struct known){ STACK, 8 * ir_size(i->type), 0, i->imm };
	return true;
}

static int64_t pushed(const struct plain *x)
{
	return x->site->pushed * x->arch->c_call->pushes;
}

static struct event_field field_of(const struct plain *x, const struct known *v)
{
	switch (v->kind) {
	case NUMBER:	return (struct event_field){ EVENT_IMM, 0, 8, v->value };
	case VECTOR:	return (struct event_field){ EVENT_VECTOR, v->reg, 8, 0 };
	case STACK:	return (struct event_field){ EVENT_STACK, x->arch->regs->sp, v->width / 8, v->value + pushed(x) };
	default:	return (struct event_field){ EVENT_REG, v->reg, v->width / 8, v->reg == x->arch->regs->sp ? pushed(x) : 0 };
	}
}

static unsigned int bits_read(const struct ir_unit *u, const struct ir_record *r, uint32_t k)
{
	return r->kind == IR_RECORD_EVENT ? v_field_bits(u, &r->fields[k]) : 64;
}

static bool take_event(struct plain *x, const struct ir_ins *i)
{
	const struct ir_record *r = &x->u->records.v[i->record];

	if (x->done || i->n + r->faulty > EVENT_FIELDS_MAX)
		return false;
	x->done = true;
	x->record = i->record;
	if (r->faulty)
		x->fields[x->n++] = (struct event_field){ EVENT_IMM, 0, 8, 0 };
	for (uint32_t k = 0; k < i->n; k++) {
		const struct ir_arg *a = &x->p->args.v[i->first + k];
		uint64_t met = a->mask & x->faults;
		const struct known *v = ir_in_slot(a->type) ? NULL : &x->known[a->reg];

		if (met) {
			x->fields[0].value |= 1ull << k;
			x->fields[x->n++] = (struct event_field){ EVENT_IMM, 0, 8, x->address[__builtin_ctzll(met)] };
			continue;
		}
		if (!v || v->kind == UNKNOWN || v->width < bits_read(x->u, r, k))
			return false;
		x->above |= v->kind == STACK && v->value > 0;
		x->fields[x->n++] = field_of(x, v);
	}
	return true;
}

/* An instruction that jumps, and whether it does; false: nobody knows. */
static bool jumps(const struct plain *x, const struct ir_ins *i, bool *ret_jumps)
{
	*ret_jumps = i->op == IR_JMP || (x->known[i->a].value != 0) == (i->op == IR_JNZ);
	return i->op == IR_JMP || x->known[i->a].kind == NUMBER;
}

/* One instruction that does not jump. */
static bool follow(struct plain *x, const struct ir_ins *i)
{
	struct known v = { 0 };
	bool good = true;

	switch (i->op) {
	case IR_NOP: case IR_LABEL: return true;
	case IR_CONST: case IR_FCONST: v = (struct known){ NUMBER, 64, 0, i->imm }; break;
	case IR_REG:	v = site_register(x, i->imm); break;
	case IR_VECTOR:	v = i->type == IR_F64 ? (struct known){ VECTOR, 64, i->imm, 0 } : v; break;
	case IR_CTX:	v = context(x, i->imm); break;
	case IR_CAST:	v = cast(&x->known[i->a], i->type); break;
	case IR_LOAD:	good = load(x, i, &v); break;
	case IR_EMIT:	return take_event(x, i);
	default:	return false;
	}
	x->known[i->dst] = v;
	return good;
}

/* Goes through the program as it runs at this site. */
static bool is_event(struct plain *x)
{
	const struct ir_prog *p = x->p;
	bool good = p->where == IR_WHERE_SITE && !p->is_left, to;
	size_t n = 0;

	x->known = xcalloc(p->regs.n + 1, sizeof(*x->known));
	for (; good && n < p->ins.n && p->ins.v[n].op != IR_RET; n++) {
		const struct ir_ins *i = &p->ins.v[n];

		if (i->op != IR_JMP && i->op != IR_JZ && i->op != IR_JNZ) {
			good = follow(x, i);
			continue;
		}
		good = jumps(x, i, &to);
		while (good && to && !(p->ins.v[n].op == IR_LABEL && p->ins.v[n].label == i->label))	/* all jumps go forward */
			n++;
	}
	free(x->known);
	x->known = NULL;
	return good && x->done;
}

static struct plain new_plain(const struct ir_unit *u, const struct ir_prog *p, const struct gen_site *site)
{
	return (struct plain){ .arch = u->arch ? u->arch : arch_host(), .u = u, .p = p, .site = site };
}

/* The same at exits that go on in another function and at others. */
bool gen_is_plain(const struct ir_unit *u, const struct ir_prog *p, bool *ret_framed)
{
	*ret_framed = false;
	for (int tail = 0; tail < 2; tail++) {
		struct gen_site site = { .tail = tail };
		struct plain x = new_plain(u, p, &site);

		if (!is_event(&x))
			return false;
		*ret_framed |= x.above;
	}
	return true;
}

static int emit_event(const struct plain *x, const struct gen_env *env, uint64_t at, uint8_t *out, uint64_t far, uint32_t behind)
{
	struct event_spec spec = env->event;

	spec.id = gen_event_id(env, x->site, x->record);
	spec.fields = x->fields;
	spec.nfields = x->n;
	spec.no_stack = x->site->no_stack;
	spec.far = far;
	spec.behind = behind;
	return x->arch->emit_event(out, at, &spec);
}

int gen_measure_plain(const struct ir_unit *u, const struct ir_prog *p)
{
	struct gen_env env = { 0 };
	int most = 0, more = 0;

	for (int way = 0; way < 16; way++) {
		struct gen_site site = { .addr = 0x123456789abcdef, .number = 0x123456789abcdef, .tail = way & 8, .no_stack = 1, .pushed = 1 };
		struct plain x = new_plain(u, p, &site);
		int n;

		env.event.has_rseq = env.event.has_tid = way & 1;
		env.event.overwrite = way & 2;
		env.event.ring_size = way & 4 ? RING_SIZE_MAX : RING_SIZE_MIN;
		if (!is_event(&x))
			return fail(-EINVAL, "a clause program is no plain event");
		n = emit_event(&x, &env, 0, NULL, x.above, 0);
		if (n < 0)
			return n;
		if (x.above && !more)
			more = gen_measure(u, p);
		if (more < 0)
			return more;
		most = MAX(most, n);
	}
	return most + more;
}

int gen_emit_plain(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env, const struct gen_site *site, uint64_t at,
		   uint8_t *out)
{
	struct plain x = new_plain(u, p, site);
	struct gen_site behind = *site;
	int n, m;

	if (!is_event(&x))
		return fail(-EINVAL, "a clause program is no plain event");
	if (!x.above)
		return emit_event(&x, env, at, out, 0, 0);
	n = emit_event(&x, env, at, out, at, 0);
	if (n < 0)
		return n;
	behind.size = site->size ? site->size - n : 0;
	m = gen_emit(u, p, env, &behind, at + n, out + n);
	if (m < 0)
		return m;
	n = emit_event(&x, env, at, out, at + n, m);
	return n < 0 ? n : n + m;
}
