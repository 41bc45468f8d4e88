/* SPDX-License-Identifier: MIT */
/*
 * From a checked clause to a program. The condition comes first, and nothing of the body is done
 * before it holds. What was computed once is not computed again below (`known`); where control
 * flow meets, what only one side knows is forgotten.
 *
 * A call probe becomes two programs. What belongs to the entry (arguments, registers) is computed
 * there and saved; the rest runs at the exit. A condition that needs neither the return value nor
 * the duration is decided at the entry, so calls that don't matter are not even watched.
 */
#include "lang/lower.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define MOST_INS 60000

void lower_error(struct lower *w, const struct expr *e, const char *fmt, ...)
{
	va_list ap;
	char *text;

	w->failed = true;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	diag_error(w->l->diags, e ? e->at : 0, e ? e->len : 1, "%s", text);
	free(text);
}

uint64_t lower_live(struct lower *w, uint64_t addr)
{
	w->p->placed = true;
	if (w->entry)
		w->entry->placed = true;
	return addr + w->c->site->bias;
}

struct ir_ins *lower_ins(struct lower *w, uint8_t op)
{
	struct ir_ins *i;

	if (w->p->ins.n >= MOST_INS) {
		if (!w->failed)
			lower_error(w, w->at, "this makes the program too large");
		w->p->ins.n = 0;	/* nobody will run it */
	}
	i = vec_add(&w->p->ins);
	i->op = op;
	i->type = IR_I64;
	i->dst = i->a = i->b = i->slot = i->slot2 = IR_NONE;
	i->at = w->at ? w->at->at : 0;
	return i;
}

uint32_t lower_reg(struct lower *w, uint8_t class)
{
	*vec_add(&w->p->regs) = class;
	return w->p->regs.n - 1;
}

/* text: a constant of cap bytes. */
uint32_t lower_slot(struct lower *w, uint32_t cap, const char *text)
{
	struct ir_slot *s;
	char *copy;
	size_t i;

	for (i = 0; text && i < w->p->slots.n; i++)
		if (w->p->slots.v[i].text && w->p->slots.v[i].cap == cap && memcmp(w->p->slots.v[i].text, text, cap) == 0)
			return i;
	s = vec_add(&w->p->slots);
	s->cap = cap;
	if (text) {
		copy = xcalloc(1, cap + 1);
		memcpy(copy, text, cap);
		s->text = copy;
	}
	return w->p->slots.n - 1;
}

uint32_t lower_label(struct lower *w)
{
	return w->p->nlabels++;
}

void lower_place_label(struct lower *w, uint32_t label)
{
	lower_ins(w, IR_LABEL)->label = label;
}

void lower_jump(struct lower *w, uint8_t op, uint32_t reg, uint32_t label)
{
	struct ir_ins *i = lower_ins(w, op);

	i->a = reg;
	i->label = label;
}

void lower_if_fault(struct lower *w, uint64_t mask, uint32_t label)
{
	struct ir_ins *i;

	if (!mask)
		return;
	i = lower_ins(w, IR_IF_FAULT);
	i->mask = mask;
	i->label = label;
}

static uint8_t result_class(uint8_t op, uint8_t type)
{
	if (op == IR_VECTOR || op == IR_I2F || op == IR_U2F || op == IR_F2F || op == IR_RAW2F)
		return IR_F;
	if (op >= IR_ADD && op <= IR_NEG)
		return ir_is_float(type) ? IR_F : IR_I;
	return IR_I;
}

/* An instruction whose result depends on its operands only; done once. */
uint32_t lower_pure(struct lower *w, uint8_t op, uint8_t type, uint32_t a, uint32_t b, int64_t imm)
{
	struct known *k;
	struct ir_ins *i;
	uint32_t dst;
	size_t n;

	for (n = 0; n < w->known.n; n++) {
		k = &w->known.v[n];
		if (k->op == op && k->type == type && k->a == a && k->b == b && k->imm == imm)
			return k->dst;
	}
	dst = lower_reg(w, result_class(op, type));
	i = lower_ins(w, op);
	i->type = type;
	i->a = a;
	i->b = b;
	i->imm = imm;
	i->dst = dst;
	*vec_add(&w->known) = (struct known){ .op = op, .type = type, .a = a, .b = b, .imm = imm, .dst = dst };
	return dst;
}

void lower_forget(struct lower *w, size_t mark)
{
	w->known.n = MIN(w->known.n, mark);
}

/* Their places are counted by whoever keeps a mark, so they stay. */
void lower_forget_all(struct lower *w)
{
	size_t i;

	for (i = 0; i < w->known.n; i++)
		w->known.v[i].op = IR_NOP;
}

/* In a loop all reads share one bit: what a later round reads may reach what stands above it. */
uint32_t lower_bit(struct lower *w)
{
	if (w->loop_depth)
		return w->loop_bit;
	while (w->next_bit < 63 && w->entry_bits >> w->next_bit & 1)
		w->next_bit++;
	return w->next_bit < 63 ? w->next_bit++ : 63;
}

/* ---- masks of variables where control flow splits and meets ---- */

struct mask { struct val *leaf; uint64_t mask; };
typedef VEC(struct mask) mask_list;

static void save_leaf(mask_list *list, struct val *v)
{
	uint32_t i;

	if (v->kind == K_TUPLE)
		for (i = 0; i < v->n; i++)
			save_leaf(list, &v->elems[i]);
	else
		*vec_add(list) = (struct mask){ v, v->mask };
}

static mask_list save_masks(struct lower *w)
{
	mask_list list = { 0 };
	size_t i;

	for (i = 0; i < w->c->vars.n; i++)
		if (w->c->vars.v[i]->val)
			save_leaf(&list, w->c->vars.v[i]->val);
	return list;
}

/* join: what either path may have read. */
static void put_masks(mask_list *list, bool join)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		list->v[i].leaf->mask = list->v[i].mask | (join ? list->v[i].leaf->mask : 0);
	vec_free(list);
}

/* ---- statements ---- */

static void lower_if(struct lower *w, const struct stmt *s)
{
	uint32_t no = lower_label(w), end = lower_label(w);
	size_t mark = w->known.n;
	mask_list before, after;

	lower_branch(w, s->a, false, no, no);
	before = save_masks(w);
	lower_statements(w, s->body);
	lower_forget(w, mark);
	after = save_masks(w);
	put_masks(&before, false);
	if (s->other)
		lower_jump(w, IR_JMP, IR_NONE, end);
	lower_place_label(w, no);
	lower_statements(w, s->other);
	lower_forget(w, mark);
	put_masks(&after, true);
	lower_place_label(w, end);
}

static void lower_unroll(struct lower *w, const struct stmt *s)
{
	int64_t n = 0;

	for (const_int(s->a, &n); n > 0 && !w->failed; n--)
		lower_statements(w, s->body);
}

static void lower_let(struct lower *w, const struct stmt *s)
{
	struct val place = lower_variable(w, s->var), v;

	if (!s->a) {
		place_zero(w, &place);
		return;
	}
	v = lower_expr(w, s->a);
	place_set(w, ((struct variable *)s->var->ref)->val, &v, s->a);
}

static void lower_stmt(struct lower *w, const struct stmt *s)
{
	bool around = w->steps;

	if (s->a)
		w->at = s->a;
	w->steps = lower_steps(s->a);
	switch ((enum stmt_kind)s->kind) {
	case S_EXPR:	lower_expr(w, s->a); break;
	case S_LET:	lower_let(w, s); break;
	case S_IF:	lower_if(w, s); break;
	case S_WHILE:	lower_while(w, s); break;
	case S_UNROLL:	lower_unroll(w, s); break;
	case S_FOR_MAP:	lower_for_map(w, s); break;
	case S_FOR_RANGE: lower_range(w, s); break;
	case S_BREAK:	lower_jump(w, IR_JMP, IR_NONE, w->on_break); break;
	case S_CONTINUE: lower_jump(w, IR_JMP, IR_NONE, w->on_continue); break;
	case S_RETURN:	lower_jump(w, IR_JMP, IR_NONE, w->end); break;
	case S_BLOCK:	lower_statements(w, s->body); break;
	}
	w->steps = around;
}

void lower_statements(struct lower *w, const struct stmt *s)
{
	for (; s && !w->failed; s = s->next)
		lower_stmt(w, s);
}

/* ---- clauses ---- */

/* Without fields: what the debug info knows of the function's parameters and result. */
static void default_fields(struct lower *w, arg_list *args, struct ir_record *r)
{
	static const struct { const char *name; int meaning; } more[] = { { "retval", B_RETVAL }, { "duration", B_DURATION } };
	uint8_t at = w->c->site->at;
	struct expr e = { .kind = E_NAME, .at = w->c->clause->probes[0]->at, .len = w->c->clause->probes[0]->len };
	const struct func_types *f;
	struct val v;
	size_t i;

	if (w->c->site->is_copy || (w->c->site->many && !w->c->clause->predicate && at != LANG_CALL))
		return;
	w->at = &e;
	if (at != LANG_RETURN && at != LANG_TRACER &&
	    (w->c->site->usdt || (w->c->site->types && types_func(w->c->site->types, w->c->site->entry, &f) == 0)))
		lower_params(w, args, r);
	for (i = 0; i < (at == LANG_CALL ? 2u : at == LANG_RETURN ? 1u : 0u); i++) {
		e.name = more[i].name;
		e.meaning = more[i].meaning;
		if (e.meaning == B_RETVAL && !lower_shows_result(w))
			continue;
		e.type = check_name(w->c, &e);
		if (e.type->kind == V_ERROR)
			continue;
		v = lower_name(w, &e);
		lower_some_fields(w, r, args, e.name, &v);
	}
	w->at = NULL;
}

/* Events of calls that did not return have a field more, which says so. */
static void add_left(struct lower *w, arg_list *args, struct ir_record *r)
{
	struct val v;

	for (uint32_t i = 0; i < r->nfields; i++)
		if (r->fields[i].name && !strcmp(r->fields[i].name, "left"))
			return;
	v = lower_left(w, v_text(w->pool, LEFT_LEN));
	lower_some_fields(w, r, args, "left", &v);
}

/* Numbers in memory that are one field; bytes of a length that is known. */
static bool is_array(const struct expr *e, const struct val *v)
{
	if (v->type->kind == V_BUF)
		return e->kind != E_CALL || e->prefix;
	return e->kind == E_CAST && e->prefix && v->type->kind == V_ARRAY && !v->type->held && v->kind == K_MEM &&
	       (v_is_number(v->type->to) || v->type->to->kind == V_PTR);
}

static void put_line_field(struct lower *w, struct ir_record *r, arg_list *args, const char *name, const struct expr *e)
{
	uint32_t before = r->nfields;
	struct val v;

	if (e->type->kind == V_STACK && (e->kind == E_NAME || e->kind == E_CALL)) {
		lower_frames(w, args, r, name, e->value ? e->value : 127);
		return;
	}
	v = lower_expr(w, e);
	if (w->failed)
		return;
	if (is_array(e, &v)) {
		lower_field(w, r, args, name, &v);
		args->v[before].type = r->fields[before].type = IR_ARRAY;
		args->v[before].show = r->fields[before].show = shown_number(w, v.type);
		return;
	}
	lower_fields(w, r, args, name, &v);
	if (r->nfields == before + 1 && r->fields[before].type >= IR_U8 && r->fields[before].type <= IR_U64 && e->type->kind == V_INT)
		r->fields[before].show = e->kind == E_NAME && e->type->is_raw ? IR_SHOW_RAW : e->type->base;
}

/* The fields of a probe line: one event. */
static void lower_line(struct lower *w)
{
	const struct clause *c = w->c->clause;
	struct ir_record *r = lower_record(w, IR_RECORD_EVENT, NULL);
	arg_list args = { 0 };
	uint32_t i;

	if (c->nfields == c->nmore)
		default_fields(w, &args, r);
	for (i = 0; i < c->nfields; i++) {
		const struct expr *f = c->fields[i], *e = f->kind == E_NAMED ? f->a : f, *in;
		char *name;

		w->at = e;
		if (e->kind == E_NAME && e->meaning == B_PARAMS) {
			lower_params(w, &args, r);
			continue;
		}
		if (e->kind == E_NAME && e->meaning == B_REGS) {
			lower_regs(w, &args, r);
			continue;
		}
		in = !e->prefix ? e : e->kind == E_CAST ? e->a : e->kind == E_CALL ? e->list[0] : e;
		name = f->kind == E_NAMED ? pool_text(w->pool, f->name, strlen(f->name)) :
		       pool_text(w->pool, w->l->script->source + in->at, in->len);
		put_line_field(w, r, &args, name[0] == '$' ? name + 1 : name, e);
	}
	if (w->p->is_left)
		add_left(w, &args, r);
	lower_emit(w, r, &args);
}

static bool needs_exit(const struct expr *e)
{
	uint32_t i;

	if (!e)
		return false;
	if (e->kind == E_NAME && (e->meaning == B_RETVAL || e->meaning == B_DURATION || e->meaning == B_LEFT))
		return true;
	for (i = 0; i < e->nlist; i++)
		if (needs_exit(e->list[i]))
			return true;
	return e->kind == E_BLOCK || needs_exit(e->a) || needs_exit(e->b) || needs_exit(e->c);
}

/* Variables that are first written in a block have a value before it. */
static void zero_variables(struct lower *w)
{
	size_t i;

	for (i = 0; i < w->c->vars.n; i++) {
		struct variable *v = w->c->vars.v[i];
		struct expr e = { .kind = E_VAR, .name = v->name, .ref = v };

		if (v->nested && !(v->type && v->type->kind == V_ERROR)) {
			struct val place = lower_variable(w, &e);

			place_zero(w, &place);
		}
	}
}

static void end_program(struct lower *w)
{
	lower_place_label(w, w->end);
	lower_ins(w, IR_RET);
}

static bool has_block(const struct expr *e)
{
	uint32_t i;

	for (i = 0; e && i < e->nlist; i++)
		if (has_block(e->list[i]))
			return true;
	return e && (e->kind == E_BLOCK || has_block(e->a) || has_block(e->b) || has_block(e->c));
}

static void lower_condition(struct lower *w)
{
	if (!w->c->clause->predicate)
		return;
	w->at = w->c->clause->predicate;
	if (has_block(w->c->clause->predicate))
		zero_variables(w);
	w->steps = lower_steps(w->c->clause->predicate);
	lower_branch(w, w->c->clause->predicate, false, w->end, w->end);
	w->steps = false;
}

static void lower_body(struct lower *w)
{
	if (!has_block(w->c->clause->predicate))	/* else it was done, and what it wrote stays */
		zero_variables(w);
	if (w->c->clause->is_line)
		lower_line(w);
	lower_statements(w, w->c->clause->body);
}

static void swap_programs(struct lower *w, struct ir_prog *p)
{
	known_list k = w->known;

	w->known = w->entry_known;
	w->entry_known = k;
	w->p = p;
}

static bool asks_duration(const struct ir_prog *p)
{
	for (size_t i = 0; i < p->ins.n; i++)
		if (ir_is_duration(&p->ins.v[i]))
			return true;
	return false;
}

/* What happens once control is back in the caller; `early`: the entry has decided whether it matters. */
static void lower_exit(struct lower *w, bool early)
{
	uint32_t end = w->end = lower_label(w);

	if (!early)
		lower_condition(w);
	lower_body(w);
	w->end = end;
	end_program(w);
}

/* Those that a read of the entry can have set. */
static uint64_t bits_of(const struct ir_prog *p)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < p->ins.n; i++)
		if (p->ins.v[i].op == IR_READ_STR || p->ins.v[i].op == IR_READ_BUF || p->ins.v[i].op == IR_FRAMES ||
		    p->ins.v[i].op == IR_LOAD)
			bits |= 1ull << p->ins.v[i].bit;
	return bits;
}

/*
 * The same once more, for calls that are left by an exception or by longjmp. Nothing is said of it: what was to be said, the
 * exit has said; and where it can't be done (more fields than an event has marks for), such calls stay open.
 */
static void lower_left_exit(struct lower *w, struct ir_prog *exit, bool early)
{
	struct diags *d = w->l->diags;
	size_t had = d->list.n;
	size_t nprogs = w->u->progs.n;
	struct ir_prog *left;

	if (w->failed)
		return;
	left = ir_prog_new(w->u, IR_WHERE_EXIT, exit->clause);
	left->is_left = true;
	left->choosy = early;
	for (size_t i = 0; i < w->c->vars.n; i++)
		w->c->vars.v[i]->val = NULL;
	w->known.n = 0;
	w->p = left;
	w->next_bit = 0;
	w->entry_bits = bits_of(w->entry);
	lower_exit(w, early);
	w->entry_bits = 0;
	free(diags_take_back(d, had));
	if (!w->failed && !ir_verify(w->u, left)) {
		exit->left = left;
		return;
	}
	w->failed = false;
	ir_progs_drop(w->u, nprogs);
}

static void lower_call_probe(struct lower *w, uint32_t clause)
{
	struct ir_prog *exit = ir_prog_new(w->u, IR_WHERE_EXIT, clause);
	bool early = w->c->clause->predicate && !needs_exit(w->c->clause->predicate);
	uint32_t no = 0, yes;

	/* While the entry program is written as a plain one, `entry` is not set: nothing is saved. */
	if (early) {
		no = w->end = lower_label(w);
		lower_condition(w);
	}
	exit->choosy = early;
	w->entry = w->p;
	swap_programs(w, exit);
	lower_exit(w, early);
	lower_left_exit(w, exit, early);
	swap_programs(w, w->entry);
	w->p->nsaved = exit->nsaved = w->saved.n;
	w->p->timed = exit->timed = asks_duration(exit);
	if (exit->left) {
		exit->left->nsaved = exit->nsaved;
		exit->left->timed = exit->timed;
	}
	yes = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 1);
	lower_ins(w, IR_RET)->a = yes;
	if (early) {
		lower_place_label(w, no);
		lower_forget_all(w);
		yes = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 0);
		lower_ins(w, IR_RET)->a = yes;
	}
}

static int verify(struct lower *w, const struct ir_prog *p)
{
	const char *wrong = w->failed ? NULL : ir_verify(w->u, p);

	if (wrong)
		lower_error(w, w->at, "this can't be compiled: %s", wrong);
	return w->failed ? fail(-EINVAL, "%s has errors", w->l->diags->name) : 0;
}

int lower_clause(struct checker *c, uint32_t clause, struct ir_prog *ret_progs[2])
{
	struct lower w = { .c = c, .l = c->l, .pool = c->l->pool, .u = &c->l->unit, .rounds = 1 };
	uint8_t at = c->site->at;
	size_t first = w.u->progs.n;
	int r;

	w.p = ir_prog_new(w.u, at == LANG_TRACER ? IR_WHERE_TRACER : at == LANG_CALL ? IR_WHERE_ENTRY : IR_WHERE_SITE, clause);
	if (at == LANG_CALL) {
		lower_call_probe(&w, clause);
	} else {
		w.end = lower_label(&w);
		lower_condition(&w);
		lower_body(&w);
		end_program(&w);
	}
	vec_free(&w.known);
	vec_free(&w.entry_known);
	vec_free(&w.saved);
	r = verify(&w, w.u->progs.v[first]);
	if (r == 0 && at == LANG_CALL)
		r = verify(&w, w.u->progs.v[first + 1]);
	if (r < 0) {
		ir_progs_drop(w.u, first);
		return r;
	}
	ret_progs[0] = w.u->progs.v[first];
	ret_progs[1] = at == LANG_CALL ? w.u->progs.v[first + 1] : NULL;
	return 0;
}
