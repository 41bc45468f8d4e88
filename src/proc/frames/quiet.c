/* SPDX-License-Identifier: MIT */
/* Whether any thread or signal frame has a program counter in a pad. */
#include "proc/arena/arena.h"

static bool is_in(uint64_t pc, const struct gap *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pc - ranges[i].lo < ranges[i].hi - ranges[i].lo)
			return true;
	return false;
}

bool arena_nobody_in(struct arena *a, const struct gap *ranges, size_t n)
{
	for (size_t i = 0; i < a->p->threads.n; i++) {
		const struct thread *t = &a->p->threads.v[i];

		if (!t->gone && is_in(t->regs.cpu.pc, ranges, n))
			return false;
	}
	if (sigframes_find(&a->frames, a->p) < 0)
		return false;
	for (size_t i = 0; i < a->frames.saved.n; i++)
		if (is_in(a->frames.saved.v[i].pc, ranges, n))
			return false;
	return true;
}

bool arena_is_quiet(struct arena *a, const struct gap *ranges, size_t n)
{
	gap_list all = { 0 };
	bool quiet;

	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == PIECE_CODE)
			*vec_add(&all) = (struct gap){ a->pieces[i].at.v, a->pieces[i].at.v + a->pieces[i].len };
	for (size_t i = 0; i < n; i++)
		*vec_add(&all) = ranges[i];
	quiet = arena_nobody_in(a, all.v, all.n);
	vec_free(&all);
	return quiet;
}
