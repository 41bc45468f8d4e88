/* SPDX-License-Identifier: MIT */
/*
 * Addresses for the pieces that may be anywhere. The kernel could choose them, but it does not know
 * the code pieces, which are still to be mapped at addresses that jumps already contain, and
 * would at times choose just these.
 */
#include "proc/arena/arena.h"

#include "base/err.h"

static bool overlaps(uint64_t lo, size_t len, taddr at, size_t other)
{
	return at.v && lo < at.v + other && at.v < lo + len;
}

/* The end of the first piece in the way of [lo, lo+len); 0: none is. */
static uint64_t in_the_way(const struct arena *a, uint64_t lo, size_t len)
{
	if (overlaps(lo, len, a->record_at, a->record_len + a->desk_len))
		return a->record_at.v + a->record_len + a->desk_len;
	for (size_t i = 0; i < a->n; i++)
		if (overlaps(lo, len, a->pieces[i].at, piece_span(&a->pieces[i])))
			return a->pieces[i].at.v + piece_span(&a->pieces[i]);
	return 0;
}

/* First fit, from the highest gap down: there the program's own address space is emptiest. */
static uint64_t find_place(const struct arena *a, const gap_list *gaps, size_t len)
{
	for (size_t i = gaps->n; i-- > 0;) {
		uint64_t at = gaps->v[i].lo, next;

		while (at + len <= gaps->v[i].hi) {
			next = in_the_way(a, at, len);
			if (!next)
				return at;
			at = next;
		}
	}
	return 0;
}

int arena_place(struct arena *a)
{
	gap_list gaps = { 0 };
	int r = proc_gaps(a->p, &gaps);

	if (!r) {
		a->record_at = TADDR(find_place(a, &gaps, a->record_len + a->desk_len));
		if (!a->record_at.v)
			r = -ENOMEM;
	}
	for (size_t i = 0; !r && i < a->n; i++) {
		struct piece *c = &a->pieces[i];

		if (c->at.v)
			continue;
		c->at = TADDR(find_place(a, &gaps, piece_span(c)));
		if (!c->at.v)
			r = -ENOMEM;
	}
	vec_free(&gaps);
	if (r == -ENOMEM)
		return fail(r, "process %d has no free address range that is large enough for the shared memory", a->p->pid);
	return r;
}
