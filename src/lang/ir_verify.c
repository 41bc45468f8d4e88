/* SPDX-License-Identifier: MIT */
/*
 * Is a program what ir.h promises? One walk from top to bottom. Which registers are written on every
 * path is followed as a set: a branch leaves its set at the label it goes to, where sets meet.
 */
#include "lang/ir.h"

#include <string.h>

#define MOST_NESTED 8

struct state {
	const struct ir_unit *u;
	const struct ir_prog *p;
	size_t words;			/* of a set */
	uint64_t *live;			/* registers written here; bit 0 of dead: no path comes here */
	uint64_t *at_label;		/* sets, one a label */
	uint8_t *label_state;		/* 0 not seen, 1 branched to, 2 passed, 3 an open loop */
	bool dead;
	uint32_t loops[MOST_NESTED];
	uint32_t nloops;
};

enum { CLASS_ANY = 2 };

static bool reads(const struct state *s, uint32_t reg, int class)
{
	if (reg >= s->p->regs.n || (class != CLASS_ANY && s->p->regs.v[reg] != class))
		return false;
	return s->dead || (s->live[reg / 64] >> reg % 64 & 1);
}

static bool writes(struct state *s, uint32_t reg, int class)
{
	if (reg >= s->p->regs.n || (class != CLASS_ANY && s->p->regs.v[reg] != class))
		return false;
	s->live[reg / 64] |= 1ull << reg % 64;
	return true;
}

static bool slot_ok(const struct state *s, uint32_t slot, bool written)
{
	return slot < s->p->slots.n && !(written && s->p->slots.v[slot].text);
}

/* Leave what is known at a label further down. */
static const char *branch(struct state *s, uint32_t label)
{
	uint64_t *set;
	size_t i;

	if (label >= s->p->nlabels || s->label_state[label] >= 2)
		return "a branch goes up, or nowhere";
	if (s->dead)
		return NULL;
	set = s->at_label + label * s->words;
	for (i = 0; i < s->words; i++)
		set[i] = s->label_state[label] ? set[i] & s->live[i] : s->live[i];
	s->label_state[label] = 1;
	return NULL;
}

static const char *label(struct state *s, uint32_t l)
{
	const uint64_t *set;
	size_t i;

	if (l >= s->p->nlabels || s->label_state[l] >= 2)
		return "a label stands twice";
	set = s->at_label + l * s->words;
	if (s->label_state[l])
		for (i = 0; i < s->words; i++)
			s->live[i] = s->dead ? set[i] : s->live[i] & set[i];
	s->dead = s->dead && !s->label_state[l];
	s->label_state[l] = 2;
	return NULL;
}

static const char *args_ok(struct state *s, const struct ir_ins *i, uint32_t from, uint32_t to, bool written)
{
	uint32_t k;

	for (k = from; k < to; k++) {
		const struct ir_arg *a = &s->p->args.v[i->first + k];
		int class = ir_is_float(a->type) ? IR_F : IR_I;

		if (ir_in_slot(a->type) ? !slot_ok(s, a->reg, written) :
		    written ? !writes(s, a->reg, class) : !reads(s, a->reg, class))
			return "an argument is of the wrong class, or not set";
	}
	return NULL;
}

static const char *map_ins(struct state *s, const struct ir_ins *i)
{
	bool out = i->op == IR_MAP_GET || i->op == IR_EACH;
	const struct ir_map *m;
	const char *e;

	if (i->map >= s->u->maps.n)
		return "no such map";
	m = &s->u->maps.v[i->map];
	if (i->op != IR_MAP_LEN && i->nkeys != m->nkeys)
		return "wrong number of keys";
	if (i->op == IR_MAP_SET && (m->kind != IR_MAP_VALUE || i->n - i->nkeys != m->nvalues))
		return "wrong number of values";
	e = args_ok(s, i, 0, i->nkeys, i->op == IR_EACH);
	if (!e)
		e = args_ok(s, i, i->nkeys, i->n, out);
	if (!e && i->a != IR_NONE && !reads(s, i->a, i->op == IR_MAP_AGG ? CLASS_ANY : IR_I))
		e = "operand";
	if (!e && i->dst != IR_NONE && !writes(s, i->dst, i->op == IR_MAP_ADD ? CLASS_ANY : IR_I))
		e = "result";
	return e;
}

static const char *loop_head(struct state *s, const struct ir_ins *i)
{
	if (s->nloops == MOST_NESTED || i->label >= s->p->nlabels || s->label_state[i->label])
		return "loops are nested too deeply";
	if (i->op == IR_LOOP && (i->imm <= 0 || i->imm > UINT32_MAX))
		return "a loop has no bound";
	if (i->op == IR_EACH && s->p->where != IR_WHERE_TRACER)
		return "a loop over a map, in the target";
	s->label_state[i->label] = 3;
	s->loops[s->nloops++] = i->label;
	return NULL;
}

static const char *loop_end(struct state *s, const struct ir_ins *i)
{
	if (!s->nloops || s->loops[s->nloops - 1] != i->label)
		return "loops don't nest";
	s->label_state[i->label] = 2;
	s->nloops--;
	return NULL;
}

static const char *control(struct state *s, const struct ir_ins *i)
{
	const char *e = NULL;

	switch (i->op) {
	case IR_LABEL:
		return label(s, i->label);
	case IR_JZ: case IR_JNZ:
		return reads(s, i->a, IR_I) ? branch(s, i->label) : "condition";
	case IR_IF_FAULT:
		return branch(s, i->label);
	case IR_JMP:
		e = branch(s, i->label);
		s->dead = true;
		return e;
	case IR_LOOP:
		return loop_head(s, i);
	case IR_LOOP_END: case IR_EACH_END:
		return loop_end(s, i);
	case IR_RET:
		if (i->a != IR_NONE && !reads(s, i->a, IR_I))
			return "status";
		s->dead = true;
		return NULL;
	}
	return "unknown instruction";
}

/* dst, a, b by class: '-' not there, 'i', 'f', 'x' either, 't' as type says; lower case in, all must be. */
static const char *shape_of(uint8_t op)
{
	switch (op) {
	case IR_CONST: case IR_REG: case IR_CTX: case IR_STACK:	return "i--";
	case IR_FCONST: case IR_VECTOR:				return "f--";
	case IR_SAVED:						return "x--";
	case IR_MOV:						return "xx-";
	case IR_SAVE:						return "-x-";
	case IR_ADD: case IR_SUB: case IR_MUL: case IR_DIV:	return "ttt";
	case IR_MOD: case IR_AND: case IR_OR: case IR_XOR: case IR_SHL: case IR_SHR: return "iii";
	case IR_NEG:						return "tt-";
	case IR_NOT: case IR_CAST: case IR_BSWAP: case IR_BITS:	return "ii-";
	case IR_EQ: case IR_NE: case IR_LT: case IR_LE: case IR_GT: case IR_GE: return "itt";
	case IR_I2F: case IR_U2F: case IR_RAW2F:		return "fi-";
	case IR_F2F:						return "ff-";
	case IR_F2I: case IR_F2RAW:				return "if-";
	case IR_LOAD:						return "ti-";
	case IR_READ_STR: case IR_READ_BUF:			return "-iI";
	case IR_SLOT_LOAD:					return "tI-";
	case IR_STR_CMP: case IR_STR_LEN: case IR_STR_FIND:	return "i--";
	case IR_EVERY: case IR_LIMIT: case IR_RATE:		return "i--";
	case IR_ENABLE: case IR_EXIT:				return "-i-";
	case IR_NOP: case IR_COMM: case IR_FRAMES: case IR_SLOT_COPY: case IR_SLOT_AND: return "---";
	}
	return NULL;
}

static bool operand_ok(struct state *s, const struct ir_ins *i, char c, uint32_t reg, bool written)
{
	int class = c == 'f' ? IR_F : c == 'x' ? CLASS_ANY : c == 't' ? (ir_is_float(i->type) ? IR_F : IR_I) : IR_I;

	if (c == '-')
		return reg == IR_NONE;
	if (c == 'I' && reg == IR_NONE)
		return true;
	return written ? writes(s, reg, class) : reads(s, reg, class);
}

static const char *slots_ok(const struct state *s, const struct ir_ins *i)
{
	switch (i->op) {
	case IR_COMM: case IR_FRAMES: case IR_READ_STR: case IR_READ_BUF:
		return slot_ok(s, i->slot, true) ? NULL : "slot";
	case IR_SLOT_COPY: case IR_SLOT_AND:
		return slot_ok(s, i->slot, true) && slot_ok(s, i->slot2, false) ? NULL : "slot";
	case IR_SLOT_LOAD: case IR_STR_LEN:
		return slot_ok(s, i->slot, false) ? NULL : "slot";
	case IR_STR_CMP: case IR_STR_FIND:
		return slot_ok(s, i->slot, false) && slot_ok(s, i->slot2, false) ? NULL : "slot";
	}
	return NULL;
}

static const char *plain_ins(struct state *s, const struct ir_ins *i)
{
	const char *shape = shape_of(i->op), *e;

	if (!shape)
		return control(s, i);
	e = slots_ok(s, i);
	if (e)
		return e;
	if (!operand_ok(s, i, shape[1], i->a, false) || !operand_ok(s, i, shape[2], i->b, false))
		return "an operand is of the wrong class, or not set";
	if (i->op == IR_MOV && s->p->regs.v[i->a] != s->p->regs.v[i->dst])
		return "a copy between classes";
	if (!operand_ok(s, i, shape[0], i->dst, true))
		return "the result is of the wrong class";
	if (i->op == IR_EXIT)
		s->dead = true;
	return NULL;
}

static const char *one(struct state *s, const struct ir_ins *i)
{
	const struct ir_record *r;

	if (i->op >= IR_NOPS || i->nkeys > i->n || (i->n && i->first + (size_t)i->n > s->p->args.n))
		return "unknown instruction";
	if (i->op == IR_EACH) {
		const char *e = loop_head(s, i);

		return e ? e : map_ins(s, i);
	}
	if (i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN)
		return map_ins(s, i);
	if (i->op == IR_EMIT || i->op == IR_EXIT) {
		const char *e;

		if (i->record >= s->u->records.n)
			return "no such record";
		r = &s->u->records.v[i->record];
		if ((r->kind == IR_RECORD_EXIT) != (i->op == IR_EXIT))
			return "exit() and its record don't belong together";
		e = r->nfields == i->n ? args_ok(s, i, 0, i->n, false) : "wrong number of fields";
		return e || i->op == IR_EMIT ? e : plain_ins(s, i);
	}
	return plain_ins(s, i);
}

const char *ir_verify(const struct ir_unit *u, const struct ir_prog *p)
{
	struct state s = { .u = u, .p = p, .words = p->regs.n / 64 + 1 };
	const char *e = NULL;
	size_t i;

	s.live = xcalloc(s.words, 8);
	s.at_label = xcalloc((size_t)p->nlabels + 1, s.words * 8);
	s.label_state = xcalloc((size_t)p->nlabels + 1, 1);
	for (i = 0; i < p->ins.n && !e; i++)
		e = one(&s, &p->ins.v[i]);
	if (!e && (!p->ins.n || p->ins.v[p->ins.n - 1].op != IR_RET))
		e = "the last instruction does not end the program";
	if (!e && s.nloops)
		e = "a loop is not closed";
	for (i = 0; i < p->nlabels && !e; i++)
		if (s.label_state[i] == 1)
			e = "a label is missing";
	free(s.live);
	free(s.at_label);
	free(s.label_state);
	return e;
}
