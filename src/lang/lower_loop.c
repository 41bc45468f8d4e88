/* SPDX-License-Identifier: MIT */
/*
 * Loops. Each has a constant bound; running into it ends the loop and is counted. The condition stands in front of the
 * loop and again at its end, so that one that is over after exactly as many rounds as it may take has not run into it.
 */
#include "lang/lower.h"

#define MOST_TOTAL_ROUNDS (1u << 22)	/* a loop in a loop, with the usual bound */

static void taint(struct val *v, uint64_t mask)
{
	uint32_t i;

	v->mask |= mask;
	for (i = 0; v->kind == K_TUPLE && i < v->n; i++)
		taint(&v->elems[i], mask);
}

struct loop { uint32_t label, on_break, on_continue, bit; uint64_t rounds; };

/* ret: what was around it. */
static void open_loop(struct lower *w, struct loop *l, struct loop *ret, uint64_t most)
{
	uint64_t all = 0;
	size_t i;

	*ret = (struct loop){ .on_break = w->on_break, .on_continue = w->on_continue, .bit = w->loop_bit, .rounds = w->rounds };
	*l = (struct loop){ .label = lower_label(w), .on_break = lower_label(w), .on_continue = lower_label(w) };
	l->bit = w->next_bit < 63 ? w->next_bit++ : 63;
	w->on_break = l->on_break;
	w->on_continue = l->on_continue;
	w->loop_bit = l->bit;
	w->loop_depth++;
	w->rounds *= most;
	w->p->rounds = MAX(w->p->rounds, MIN(w->rounds, UINT32_MAX));
	if (w->rounds > MOST_TOTAL_ROUNDS && w->p->where != IR_WHERE_TRACER)
		lower_error(w, w->at, "these loops could take %llu rounds; at most %u are allowed (config: max_loop)",
			    (unsigned long long)w->rounds, MOST_TOTAL_ROUNDS);
	for (i = 0; i < w->c->vars.n; i++)
		all |= w->c->vars.v[i]->val ? val_mask(w->c->vars.v[i]->val) : 0;
	for (i = 0; i < w->c->vars.n; i++)
		if (w->c->vars.v[i]->val)
			taint(w->c->vars.v[i]->val, all | 1ull << l->bit);
	lower_forget_all(w);
}

static void end_loop(struct lower *w, const struct loop *l, const struct loop *around, uint8_t op)
{
	lower_ins(w, op)->label = l->label;
	lower_place_label(w, l->on_break);
	w->on_break = around->on_break;
	w->on_continue = around->on_continue;
	w->loop_bit = around->bit;
	w->rounds = around->rounds;
	w->loop_depth--;
	lower_forget_all(w);
}

/* Here a round is over, and those that were cut short, which have not computed everything. */
static void end_round(struct lower *w, const struct loop *l)
{
	lower_place_label(w, l->on_continue);
	lower_forget_all(w);
}

static void begin_rounds(struct lower *w, const struct loop *l, uint64_t most)
{
	struct ir_ins *i = lower_ins(w, IR_LOOP);

	i->label = l->label;
	i->imm = most;
	lower_forget_all(w);	/* what the first look at the condition has computed is old in the next round */
}

void lower_while(struct lower *w, const struct stmt *s)
{
	uint64_t most = w->l->config.max_loop;
	struct loop l, around;

	open_loop(w, &l, &around, most);
	lower_branch(w, s->a, false, l.on_break, l.on_break);
	begin_rounds(w, &l, most);
	lower_statements(w, s->body);
	end_round(w, &l);
	lower_branch(w, s->a, false, l.on_break, l.on_break);
	end_loop(w, &l, &around, IR_LOOP_END);
}

/* On to the end of the loop where nothing is left. */
static void leave_range(struct lower *w, const struct loop *l, const struct val *count, const struct val *end)
{
	uint32_t less;

	lower_if_fault(w, end->mask | count->mask, l->on_break);
	less = lower_pure(w, IR_LT, IR_I64, count->reg, end->reg, 0);
	lower_jump(w, IR_JZ, less, l->on_break);
}

/* for ($i : a..b): both ends are computed once. */
void lower_range(struct lower *w, const struct stmt *s)
{
	struct val from = lower_expr(w, s->a), to = lower_expr(w, s->b), end, count, one = val_const(&v_i64, 1), next;
	uint64_t most = w->l->config.max_loop;
	struct loop l, around;

	lower_variable(w, s->var);
	if (from.kind == K_CONST && to.kind == K_CONST)
		most = to.k.i > from.k.i ? (uint64_t)to.k.i - from.k.i : 1;
	most = MIN(most, (uint64_t)1 << 31);
	end = place_new(w, &v_i64, false);
	place_set(w, &end, &to, s->b);
	count = place_new(w, &v_i64, false);
	place_set(w, &count, &from, s->a);
	open_loop(w, &l, &around, most);
	leave_range(w, &l, &count, &end);
	begin_rounds(w, &l, most);
	place_set(w, ((struct variable *)s->var->ref)->val, &count, s->var);
	next = lower_math(w, '+', &v_i64, &count, &one);
	place_set(w, &count, &next, s->var);
	lower_statements(w, s->body);
	end_round(w, &l);
	leave_range(w, &l, &count, &end);
	end_loop(w, &l, &around, IR_LOOP_END);
}

void lower_for_map(struct lower *w, const struct stmt *s)
{
	struct map_info *m = s->a->ref;
	struct val var = lower_variable(w, s->var);
	struct loop l, around;
	arg_list args = { 0 };
	uint32_t map = lower_map_number(w, m);
	struct ir_ins *i;

	open_loop(w, &l, &around, w->u->maps.v[map].max_keys);
	arg_add(w, &args, &var);
	i = lower_ins(w, IR_EACH);
	i->label = l.label;
	i->map = map;
	args_set(w, i, &args, w->u->maps.v[i->map].nkeys);
	lower_statements(w, s->body);
	end_round(w, &l);
	end_loop(w, &l, &around, IR_EACH_END);
}
