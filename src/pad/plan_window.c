/* SPDX-License-Identifier: MIT */
/*
 * Windows: made from a run of instructions, given a pad, written into the cells, and removed when an attempt fails
 * or a larger window replaces them.
 */
#include "pad/plan_priv.h"

#include <string.h>

/* Windows are sorted from high to low: the number of windows that begin at or above addr. */
static size_t windows_from(const struct plan *p, uint64_t addr)
{
	size_t lo = 0, hi = p->windows.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->windows.v[mid]->start >= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct window *window_at(const struct plan *p, uint64_t addr)
{
	size_t i = windows_from(p, addr);

	return i && p->windows.v[i - 1]->start == addr ? p->windows.v[i - 1] : NULL;
}

struct window *window_over(const struct plan *p, uint64_t lo, uint64_t hi)
{
	size_t i = windows_from(p, hi);

	return i < p->windows.n && p->windows.v[i]->end > lo ? p->windows.v[i] : NULL;
}

/* Finds the slots in [lo, hi); they are sorted from high to low, too. */
size_t slots_in(const struct plan *p, uint64_t lo, uint64_t hi, size_t *ret_first)
{
	size_t a = 0, b = p->nslots, n = 0;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (p->slots[mid].at >= hi)
			a = mid + 1;
		else
			b = mid;
	}
	*ret_first = a;
	while (a + n < p->nslots && p->slots[a + n].at >= lo)
		n++;
	return n;
}

uint8_t window_own(const struct window *w)
{
	return w->shape == SHAPE_HOP ? 4 : w->n - w->rel;
}

uint64_t window_dest(const struct window *w)
{
	return w->tramp ? w->tramp : w->pad;
}

static void measure(const struct plan *p, const struct line *l, struct window *w)
{
	size_t first, n = slots_in(p, w->start, w->end + w->tail, &first);

	w->pad_size = l->reloc + jump_len(p);
	for (size_t i = first; i < first + n; i++) {
		const struct slot *s = &p->slots[i];

		if (s->state == SLOT_BAD)
			continue;
		w->pad_size += body_of(p, s);
		if (s->want->kind == WANT_EXIT && s->want->exit_kind == EXIT_JCC)
			w->pad_size += jump_len(p);
	}
}

/* Makes a window for a run, as a plain jump; the caller changes what must differ. */
struct window *window_new(struct plan *p, const struct line *l, enum shape shape)
{
	struct window *w = xcalloc(1, sizeof(*w));

	w->start = l->start;
	w->end = l->end;
	w->shape = shape;
	w->may_fault = l->may_fault;
	w->n = jump_len(p);
	w->rel = jump_len(p) - 4;
	w->head[0] = p->arch->jumps->opcode;
	for (int i = 0; i < l->nmerged; i++)
		w->tail |= l->merged[i]->tail && l->merged[i]->end == w->end;
	measure(p, l, w);
	return w;
}

/*
 * Whether the window before this one runs the bodies of the wants at its start (tail): this one would run them a
 * second time.
 */
static bool start_is_served(const struct plan *p, const struct window *w)
{
	const struct window *before = window_over(p, w->start - 1, w->start);

	return before && before->tail && before->end == w->start;
}

/* Whether all bytes of its jump that change, or will, are in one page; and no instruction may fault in the pad. */
bool window_may_stand(const struct plan *p, const struct window *w, bool will_change)
{
	uint64_t hi = w->start + w->n;

	if (w->may_fault || start_is_served(p, w))
		return false;
	if (w->shape == SHAPE_HOP)
		return plan_same_page(p, MIN(w->start, w->land), MAX(hi, w->land + jump_len(p)));
	for (uint64_t at = hi; at < w->start + w->rel + 4; at++)
		if (will_change || plan_is_written(p, at))
			hi = at + 1;
	return plan_same_page(p, w->start, hi);
}

/*
 * Finds a pad in reach of the module. If there is a second jump (tramp), which may be on the other side of the
 * module, the pad must be in reach of that, too.
 */
bool window_place_near(struct plan *p, struct window *w)
{
	uint64_t lo = p->reach_lo, hi = p->reach_hi;

	if (w->tramp) {
		lo = MAX(lo, w->tramp > p->arch->jumps->reach ? w->tramp - p->arch->jumps->reach : 0);
		hi = MIN(hi, w->tramp + p->arch->jumps->reach);
	}
	w->pad = lo < hi ? room_alloc(p->room, w->pad_size, lo, hi) : 0;
	return w->pad != 0;
}

/* The range that the jump can reach, if the bytes after the window are the high bytes of its displacement. */
bool window_lean_range(const struct plan *p, const struct window *w, uint64_t *ret_lo, uint64_t *ret_hi)
{
	uint64_t base = w->start + w->rel + 4 + p->bias;
	unsigned int own = window_own(w);
	uint32_t disp = 0;

	if (!plan_has_bytes(p, w->start, w->rel + 4))
		return false;
	for (unsigned int i = own; i < 4; i++)
		disp |= (uint32_t)plan_byte(p, w->start + w->rel + i) << 8 * i;
	*ret_lo = base + (int64_t)(int32_t)disp;
	*ret_hi = *ret_lo + (1ull << 8 * own);
	*ret_lo = MAX(*ret_lo, p->reach_lo);
	*ret_hi = MIN(*ret_hi, p->reach_hi);
	return *ret_lo < *ret_hi && room_open(p->room, *ret_lo, *ret_hi + INSN_MAX);
}

/* Finds a pad where the bytes after the window lead. If the pad does not fit there, a jump to it may. */
bool window_place_lean(struct plan *p, struct window *w)
{
	uint64_t lo, hi;

	if (!window_lean_range(p, w, &lo, &hi))
		return false;
	w->pad = room_alloc_at(p->room, w->pad_size, lo, hi, 0, hi - lo > 4096 ? 16 : 1);
	if (w->pad)
		return true;
	w->tramp = room_alloc_at(p->room, jump_len(p), lo, hi, 0, 1);
	if (w->tramp && window_place_near(p, w))
		return true;
	window_unplace(p, w);
	return false;
}

void window_unplace(struct plan *p, struct window *w)
{
	room_release(p->room, w->pad, w->pad_size);
	room_release(p->room, w->tramp, jump_len(p));
	w->pad = w->tramp = 0;
}

static void write_disp(struct plan *p, uint64_t at, uint64_t next, uint64_t dest, size_t n)
{
	uint32_t disp = dest - (next + p->bias);

	for (size_t i = 0; i < n; i++)
		plan_write_byte(p, at + i, disp >> 8 * i);
}

/* A branch of one instruction, which is in the room's reach. */
static void write_insn(struct plan *p, const struct window *w)
{
	uint8_t bytes[INSN_MAX] = { 0 };

	(w->shape == SHAPE_CALL ? p->arch->call : p->arch->jump)(bytes, w->start + p->bias, w->pad);
	for (int i = 0; i < w->n; i++)
		plan_write_byte(p, w->start + i, bytes[i]);
}

/* Writes its bytes into the cells, and leans on those after it that are part of its displacement. */
void window_write(struct plan *p, const struct window *w)
{
	uint8_t own = window_own(w);

	if (p->arch->one_insn) {
		write_insn(p, w);
		return;
	}
	if (w->shape == SHAPE_HOP) {
		plan_write_byte(p, w->start, p->arch->jumps->short_opcode);
		plan_write_byte(p, w->start + 1, w->land - (w->start + hop_len(p)));
		plan_write_byte(p, w->land, p->arch->jumps->opcode);
		write_disp(p, w->land + 1, w->land + jump_len(p), window_dest(w), 4);
		return;
	}
	for (int i = 0; i < w->rel; i++)
		plan_write_byte(p, w->start + i, w->head[i]);
	write_disp(p, w->start + w->rel, w->start + w->rel + 4, window_dest(w), own);
	plan_lean(p, w->start + w->n, 4 - own, 1);
}

void window_unwrite(struct plan *p, const struct window *w)
{
	plan_unwrite(p, w->start, w->n);
	if (w->shape == SHAPE_HOP)
		plan_unwrite(p, w->land, jump_len(p));
	else
		plan_lean(p, w->start + w->n, 4 - window_own(w), -1);
}

void window_add(struct plan *p, struct window *w)
{
	size_t i = windows_from(p, w->start);

	vec_add(&p->windows);
	memmove(&p->windows.v[i + 1], &p->windows.v[i], (p->windows.n - 1 - i) * sizeof(w));
	p->windows.v[i] = w;
}

void window_drop(struct plan *p, struct window *w)
{
	size_t i = windows_from(p, w->start) - 1;

	p->windows.n--;
	memmove(&p->windows.v[i], &p->windows.v[i + 1], (p->windows.n - i) * sizeof(w));
	window_unplace(p, w);
	free(w);
}

static bool merged_are_free(const struct plan *p, const struct line *l)
{
	for (int i = 0; i < l->nmerged; i++) {
		const struct window *w = l->merged[i];

		if (plan_is_leaned_on(p, w->start, w->n) ||
		    (w->shape == SHAPE_HOP && plan_is_leaned_on(p, w->land, jump_len(p))))
			return false;
	}
	return true;
}

/*
 * Adds the window to the plan, in place of those it contains. near: its pad may be anywhere in reach; otherwise it
 * must be where the bytes after the window lead. False: nothing has changed and w was freed.
 */
bool window_commit(struct plan *p, const struct line *l, struct window *w, bool near)
{
	bool ok;

	for (int i = 0; i < l->nmerged; i++)
		window_unwrite(p, l->merged[i]);
	ok = window_may_stand(p, w, false) && merged_are_free(p, l) && plan_is_free(p, w->start, w->n) &&
	     (w->shape != SHAPE_HOP || plan_is_free(p, w->land, jump_len(p))) &&
	     (near ? window_place_near(p, w) : window_place_lean(p, w));
	if (!ok) {
		for (int i = 0; i < l->nmerged; i++)
			window_write(p, l->merged[i]);
		free(w);
		return false;
	}
	for (int i = 0; i < l->nmerged; i++)
		window_drop(p, l->merged[i]);
	window_write(p, w);
	window_add(p, w);
	return true;
}

/* Marks the wants of a window as placed. s is NULL for a window that was made only to help another one. */
void window_settle(struct plan *p, struct window *w, const struct site *s, enum tactic t, uint64_t neighbour)
{
	size_t first, n = slots_in(p, w->start, w->end + w->tail, &first);
	const char *why = NULL;

	if (s && t != TACTIC_NOP && t != TACTIC_JUMP && s->why.stop)
		why = why_text(p, &s->why);
	for (size_t i = first; i < first + n; i++) {
		struct slot *slot = &p->slots[i];

		if (slot->state == SLOT_BAD || (slot->state == SLOT_PLACED && !s))
			continue;
		slot->state = SLOT_PLACED;
		slot->want->tactic = slot->at == (s ? s->at : w->start) ? t : TACTIC_SHARED;
		slot->want->reason = slot->want->tactic == t ? why : "lies in the window of another probe";
		slot->want->neighbour = slot->want->tactic == t ? neighbour : 0;
	}
}
