/* SPDX-License-Identifier: MIT */
/*
 * Planning: sorts the wants from high to low; gives each the first tactic that fits, together with all other wants
 * that are in its window; finally checks whether code elsewhere branches into a window, and if so plans again with
 * these targets.
 *
 * From high to low because a short jump may use the bytes after it as its displacement: they must be final.
 */
#include "pad/plan_priv.h"

#include <string.h>
#include <sys/mman.h>

#include "base/err.h"

#define TEXT_MAX (4ull << 30)
#define ROUNDS 6

const char *tactic_name(enum tactic t)
{
	static const char *const names[] = {
		[TACTIC_NONE] = "none", [TACTIC_NOP] = "nop", [TACTIC_JUMP] = "jump", [TACTIC_SLACK] = "slack",
		[TACTIC_BACK] = "back", [TACTIC_RETARGET] = "retarget", [TACTIC_HOP] = "hop",
		[TACTIC_EVICT] = "evict", [TACTIC_PUN] = "pun", [TACTIC_HOP_NEIGHBOUR] = "hop-neighbour",
		[TACTIC_SHARED] = "shared", [TACTIC_TRAP] = "trap",
	};

	return t < ARRAY_SIZE(names) ? names[t] : "?";
}

const char *tactic_cost(enum tactic t)
{
	switch (t) {
	case TACTIC_NONE:
		return "-";
	case TACTIC_HOP:
		return "jump+hop";
	case TACTIC_EVICT:
		return "jump, neighbour +jump";
	case TACTIC_HOP_NEIGHBOUR:
		return "jump+hop, neighbour +jump";
	case TACTIC_TRAP:
		return "trap";
	default:
		return "jump";
	}
}

char *plan_text(struct plan *p, char *text)
{
	*vec_add(&p->texts) = text;
	return text;
}

static void text_span(struct plan *p)
{
	p->text_lo = UINT64_MAX;
	for (size_t i = 0; i < p->m->segments.n; i++) {
		const struct segment *s = &p->m->segments.v[i];

		if (!(s->prot & PROT_EXEC) || !s->filesz)
			continue;
		p->text_lo = MIN(p->text_lo, s->addr);
		p->text_hi = MAX(p->text_hi, s->addr + s->filesz);
	}
}

static size_t cells_size(const struct plan *p)
{
	return (p->text_hi - p->text_lo) * sizeof(*p->cells);
}

int plan_create(struct code *c, struct room *room, uint64_t bias, size_t body_size, struct plan **ret_plan)
{
	struct plan *p = xcalloc(1, sizeof(*p));

	p->code = c;
	p->m = c->m;
	p->arch = c->arch;
	p->room = room;
	p->bias = bias;
	p->body = body_size;
	text_span(p);
	if (p->text_lo >= p->text_hi || p->text_hi - p->text_lo > TEXT_MAX) {
		free(p);
		return fail(-ENOEXEC, "%s has no text that could be probed", c->m->path);
	}
	p->cells = code_take_cells(c, cells_size(p));
	if (!p->cells) {
		free(p);
		return fail(-ENOMEM, "no memory for a plan of %s", c->m->path);
	}
	p->reach_lo = p->m->hi + bias > p->arch->jumps->reach ? p->m->hi + bias - p->arch->jumps->reach : 4096;
	p->reach_hi = p->m->lo + bias + p->arch->jumps->reach;
	room_gaps_in(room, p->reach_lo, p->reach_hi, &p->spots);
	for (size_t i = 0; i < p->spots.n; i++)
		p->spots_size += p->spots.v[i].hi - p->spots.v[i].lo;
	*ret_plan = p;
	return 0;
}

void plan_reset(struct plan *p)
{
	while (p->windows.n) {
		struct window *w = p->windows.v[p->windows.n - 1];

		window_unwrite(p, w);
		window_drop(p, w);
	}
	for (size_t i = 0; i < p->texts.n; i++)
		free(p->texts.v[i]);
	p->texts.n = 0;
	free(p->slots);
	p->slots = NULL;
	p->nslots = 0;
}

/* What was written there is taken back, so that they are all zero. */
void plan_done(struct plan *p)
{
	if (!p || !p->cells)
		return;
	for (size_t i = p->windows.n; i-- > 0;)
		window_unwrite(p, p->windows.v[i]);
	code_give_cells(p->code, p->cells, cells_size(p));
	p->cells = NULL;
}

/* The pads may be in use: the room keeps them. */
void plan_free(struct plan *p)
{
	if (!p)
		return;
	plan_done(p);
	for (size_t i = 0; i < p->windows.n; i++)
		free(p->windows.v[i]);
	for (size_t i = 0; i < p->texts.n; i++)
		free(p->texts.v[i]);
	vec_free(&p->windows);
	vec_free(&p->texts);
	vec_free(&p->foreign);
	vec_free(&p->spots);
	free(p->slots);
	free(p);
}

/* The constraints at an instruction, independent of wants. */
bool plan_site_at(struct plan *p, uint64_t at, struct site *ret_site)
{
	const struct fcode *f = code_func(p->code, at);
	struct site s = { .at = at, .f = f };

	if (!f || f->broken || !line_insn(p, f, at, &s.insn))
		return false;
	s.one = f->uncertain || p->m->runtime->parks_anywhere;
	s.exact = f->uncertain;
	*ret_site = s;
	return true;
}

/* Marks all wants at one address as refused, with the reason. */
void plan_refuse(struct plan *p, size_t first, size_t n, bool bad, const char *reason)
{
	for (size_t i = first; i < first + n; i++) {
		struct slot *s = &p->slots[i];

		s->state = bad ? SLOT_BAD : SLOT_OPEN;
		s->want->tactic = TACTIC_NONE;
		s->want->reason = reason;
		s->want->neighbour = 0;
	}
}

static const char *inside_text(struct plan *p, const struct fcode *f, uint64_t at)
{
	uint64_t lo = at, hi = at;

	while (lo > f->lo && f->index[lo - f->lo] == UINT32_MAX)
		lo--;
	while (hi < f->hi && f->index[hi - f->lo] == UINT32_MAX)
		hi++;
	return plan_text(p, xasprintf("inside an instruction; try +%llu or +%llu",
				      (unsigned long long)(lo - f->lo), (unsigned long long)(hi - f->lo)));
}

/* Why no tactic was possible. */
static const char *refusal_text(struct plan *p, const struct site *s)
{
	const char *why = why_text(p, &s->why), *never = code_never(p->code, s->at);

	if (never)
		return never;	/* this reason takes precedence */
	if (!p->spots.n)
		return "no room for a pad: every address in reach of a jump is in use";
	if (room_full(p->room))
		return plan_text(p, xasprintf("%s; too many separate mappings are needed already", why));
	if (plan_fault_is_seen(p, s->at, &s->insn))
		return why_text(p, &(struct why){ .stop = STOP_FAULT });
	if (s->why.stop == STOP_FORBIDDEN || s->insn.kind == INSN_ENDBR || s->insn.kind == INSN_SYSCALL)
		return why;
	return plan_text(p, xasprintf("%s; %sthe next instruction can't be moved away, and its bytes lead to no "
				      "free address", why, p->m->runtime->parks_anywhere ? "" : "no filler in reach, "));
}

void plan_avoid(struct plan *p, uint32_t tactics)
{
	p->avoid = tactics;
}

/*
 * A hop's second jump is at an address where the program has no instruction. Go looks up every pc in its tables
 * when it interrupts or profiles a goroutine: in filler it finds no entry and aborts, inside another instruction it
 * finds the wrong one; and a goroutine parked there would continue in the original bytes after the removal.
 */
static uint32_t avoided(const struct plan *p)
{
	const struct jump_abi *jumps = p->arch->jumps;
	uint32_t avoid = p->avoid;

	if (p->m->runtime->parks_anywhere || !jumps->short_len)
		avoid |= 1u << TACTIC_HOP | 1u << TACTIC_HOP_NEIGHBOUR;
	if (!jumps->opcode)
		avoid |= 1u << TACTIC_EVICT | 1u << TACTIC_PUN;
	return avoid;
}

/* The tactics in the order of their cost. */
static bool place_cheaply(struct plan *p, struct site *s)
{
	static const struct { enum tactic t; bool (*try)(struct plan *p, struct site *s); } tactics[] = {
		{ TACTIC_JUMP, tactic_jump }, { TACTIC_BACK, tactic_back }, { TACTIC_HOP, tactic_hop },
		{ TACTIC_EVICT, tactic_evict }, { TACTIC_PUN, tactic_pun },
		{ TACTIC_HOP_NEIGHBOUR, tactic_hop_neighbour },
	};
	uint32_t avoid = avoided(p);

	for (size_t i = 0; i < ARRAY_SIZE(tactics); i++)
		if (!(avoid >> tactics[i].t & 1) && tactics[i].try(p, s))
			return true;
	return false;
}

static bool place_by_any(struct plan *p, struct site *s)
{
	if (tactic_retarget(p, s))
		return true;
	/* A moved indirect call costs a misprediction elsewhere: it is left in place if possible. */
	if (s->insn.kind == INSN_CALL_IND && tactic_before(p, s))
		return true;
	if (place_cheaply(p, s) || tactic_before(p, s))
		return true;
	s->flags = LINE_CALL_IND;
	return place_cheaply(p, s);
}

/* A more expensive tactic is better than bytes in two pages, and these are better than no place. */
static bool place(struct plan *p, struct site *s)
{
	const struct site first = *s;
	bool placed = false;

	for (int i = 0; i < 2 && !placed; i++) {
		*s = first;
		p->may_cross = i;
		placed = place_by_any(p, s);
	}
	p->may_cross = false;
	return placed;
}

static void plan_group(struct plan *p, size_t first, size_t n)
{
	bool entries = true, exits = true;
	struct site s;
	struct slot *slot = &p->slots[first];

	for (size_t i = first; i < first + n; i++) {
		entries &= p->slots[i].want->kind == WANT_ENTRY;
		exits &= p->slots[i].want->kind == WANT_EXIT;
	}
	if (entries && !p->avoid && plan_entry_quickly(p, slot))
		return;
	if (!plan_site_at(p, slot->at, &s)) {
		const struct fcode *f = code_func(p->code, slot->at);

		plan_refuse(p, first, n, true, !f ? "no function is known there" :
		       f->broken ? "the function holds bytes that are no instructions" : inside_text(p, f, slot->at));
		return;
	}
	s.only_exits = exits;
	s.is_entry = entries && slot->want->addr == s.f->lo;
	if (s.is_entry && !p->m->runtime->parks_anywhere)
		s.one = false;
	if (!place(p, &s))
		plan_refuse(p, first, n, false, refusal_text(p, &s));
}

static void plan_all(struct plan *p)
{
	size_t n;

	for (size_t i = 0; i < p->nslots; i += n) {
		for (n = 1; i + n < p->nslots && p->slots[i + n].at == p->slots[i].at; n++)
			;
		if (p->slots[i].state == SLOT_OPEN)
			(p->arch->one_insn ? plan_group_one : plan_group)(p, i, n);
	}
}

static int slot_order(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	int exits = (x->want->kind == WANT_EXIT) - (y->want->kind == WANT_EXIT);

	if (x->at != y->at)
		return x->at < y->at ? 1 : -1;
	if (exits)	/* at a lone ret: first the entry, then the exit */
		return exits;
	return (x->order > y->order) - (x->order < y->order);
}

static void make_slots(struct plan *p, struct want *wants, size_t n)
{
	bool sorted = true;

	p->slots = xcalloc(n, sizeof(*p->slots));
	p->nslots = n;
	for (size_t i = 0; i < n; i++) {
		/* Callers mostly pass them from low to high. */
		struct slot *s = &p->slots[n - 1 - i];

		*s = (struct slot){ .at = plan_effective(p, &wants[i]), .want = &wants[i], .order = i };
		s->want->tactic = TACTIC_NONE;
		s->want->reason = NULL;
		s->want->neighbour = 0;
		if (i && slot_order(s, s + 1) > 0)
			sorted = false;
	}
	if (!sorted)
		qsort(p->slots, n, sizeof(*p->slots), slot_order);
}

/*
 * Whether code elsewhere branches into a window. Compilers never make such branches, but assembler programmers do:
 * glibc's mempcpy jumps three bytes into memcpy.
 */
static bool is_hit_from_outside(struct plan *p)
{
	struct span *spans;
	uint8_t *hit;
	bool any;

	if (!p->windows.n || p->arch->one_insn)	/* an instruction has no inside */
		return false;
	spans = xcalloc(p->windows.n, sizeof(*spans));
	hit = xcalloc(p->windows.n, 1);
	for (size_t i = 0; i < p->windows.n; i++) {
		const struct window *w = p->windows.v[i];

		spans[i] = (struct span){ w->start, MAX(w->end, w->start + w->n) };
	}
	any = code_window_hit_from_outside(p->code, spans, p->windows.n, hit);
	free(spans);
	free(hit);
	return any;
}

int plan_solve(struct plan *p, struct want *wants, size_t n)
{
	bool hit = true;
	int missed = 0;

	for (int round = 0; hit && round < ROUNDS; round++) {
		plan_reset(p);
		make_slots(p, wants, n);
		plan_all(p);
		hit = is_hit_from_outside(p);
	}
	if (hit) {	/* each round adds targets, so this does not happen; if it does, nothing is placed */
		plan_reset(p);
		make_slots(p, wants, n);
		plan_refuse(p, 0, n, true, "code elsewhere branches into every place that was tried");
	}
	for (size_t i = 0; i < n; i++)
		missed += wants[i].tactic == TACTIC_NONE;
	return missed;
}
