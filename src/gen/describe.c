/* SPDX-License-Identifier: MIT */
/* Descriptions of blob operations that need more than their operands: events, stacks, aggregations, loads. */
#include "gen/emit.h"

#include "base/err.h"
#include "gen/agg_words.h"

bool g_reads_agg(const struct gen *g, const struct ir_ins *i)
{
	return i->op >= IR_MAP_GET && i->op <= IR_MAP_LEN && i->op != IR_MAP_AGG && g->u->maps.v[i->map].kind != IR_MAP_VALUE;
}

uint32_t g_event_len(const struct gen *g, const struct ir_ins *i)
{
	return sizeof(struct event_head) + ir_record_room(&g->u->records.v[i->record]);
}

bool g_fits_ring(struct gen *g, uint32_t len)
{
	const struct event_spec *e = &g->env->event;

	if (len > EVENT_LONG_MAX)
		g->error = fail(-ENOTSUP, "an event of up to %u bytes; %u are possible", len, EVENT_LONG_MAX);
	else if (g->env->ids && e->overwrite && len > EVENT_LEN_MAX)
		g->error = fail(-ENOTSUP, "an event of up to %u bytes; %u are possible in overwrite mode", len, EVENT_LEN_MAX);
	else if (g->env->ids && len > e->ring_size / 2)
		g->error = fail(-ENOTSUP, "an event of up to %u bytes needs buffers of twice that; these have %u", len, e->ring_size);
	return !g->error;
}

void g_describe_stack(const struct gen *g, const struct ir_ins *i, struct prog_op *d)
{
	d->a = g->keep;
	d->b = g_site_sp(g);
	d->cap2 = (g->env->scratch_size ? g->env->scratch_size : g->scratch) - g->area;
	d->imm = g->site->addr;
	d->flags |= g->site->at_entry ? PROG_AT_ENTRY : 0;
	if (i->op == IR_FRAMES) {
		d->table = g->env->unwind;
		return;
	}
	d->cap = MIN(MAX(i->imm, 1), PROG_STACKS_FRAMES);
	d->table = g->env->maps + (g->layout ? g->layout->stacks : 0);
	d->shape = g->layout ? (uint64_t)g->layout->stack_words << 32 | g->layout->stack_index : 0;
	d->slot = g->env->unwind;
}

struct prog_agg g_describe_agg(const struct gen *g, const struct ir_ins *i)
{
	static const uint8_t numbers[] = { [IR_MAP_SUM] = AGG_IS_SUM, [IR_MAP_AVG] = AGG_IS_AVG, [IR_MAP_MIN] = AGG_IS_MIN,
					   [IR_MAP_MAX] = AGG_IS_MAX, [IR_MAP_QUANTILE] = AGG_IS_COUNT };
	const struct ir_map *m = &g->u->maps.v[i->map];
	const struct maps_layout *l = g->layout;
	const struct map_place *p = l ? &l->maps[i->map] : NULL;
	uint32_t first = p && !p->percpu ? l->ncpus : 0;
	struct prog_agg a = {
		.ncounters = agg_counters(m), .counters = agg_has_flip(m) ? AGG_SIZE : 0, .flip = agg_has_flip(m),
		.number = numbers[m->kind], .is_float = m->num == IR_F64, .is_unsigned = m->num == IR_U64,
	};

	if (!l)
		return a;
	a.parts = g->env->maps + l->parts + l->part_size * first + p->values;
	a.part_size = l->part_size;
	a.nparts = l->ncpus + 1 - first;
	a.value_size = p->value_size;
	a.base = g->env->maps + p->base;
	a.cleared = g->env->maps + p->cleared;
	a.before = p->before ? g->env->maps + p->before + 8ull * first * a.ncounters : 0;
	return a;
}

static bool is_checked_load(const struct ir_ins *i)
{
	return i->op == IR_LOAD && !(i->flags & IR_GOOD);
}

/* An instruction after which execution may branch or end, so that those after it may not be executed exactly once. */
static bool is_fork(const struct ir_ins *i)
{
	return (i->op >= IR_LABEL && i->op <= IR_RET) || i->op == IR_EXIT;
}

/* Finds the loads to be read ahead with this one (struct prog_ahead). Returns how many. */
uint32_t g_describe_load(const struct gen *g, const struct ir_ins *i, struct prog_op *d, struct prog_ahead *ret_ahead)
{
	const struct ir_ins *end = g->p->ins.v + g->p->ins.n;
	uint32_t number = 0, n = 0;

	for (const struct ir_ins *x = g->p->ins.v; x < i; x++)
		number += is_checked_load(x);
	d->slot = g->a.at;
	d->cap = number;
	for (const struct ir_ins *x = i + 1; x < end && !is_fork(x) && n < PROG_AHEAD; x++) {
		if (!is_checked_load(x))
			continue;
		if (++number >= PROG_LOADS)
			break;
		ret_ahead[n++] = (struct prog_ahead){ x->imm, ir_size(x->type), number, x->a == i->a && g->defs[x->a] == 1 };
	}
	return d->n = n;
}
