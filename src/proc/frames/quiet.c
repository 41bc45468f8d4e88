/* SPDX-License-Identifier: MIT */
/* Whether any thread or signal frame has a program counter in a pad. */
#include "proc/arena/arena.h"

static bool is_in(const struct arena *a, uint64_t pc, const struct gap *ranges, size_t n)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].kind == PIECE_CODE && pc - a->pieces[i].at.v < a->pieces[i].len)
			return true;
	for (size_t i = 0; i < n; i++)
		if (pc - ranges[i].lo < ranges[i].hi - ranges[i].lo)
			return true;
	return false;
}

bool arena_is_quiet(struct arena *a, const struct gap *ranges, size_t n)
{
	for (size_t i = 0; i < a->p->threads.n; i++) {
		const struct thread *t = &a->p->threads.v[i];

		if (!t->gone && is_in(a, t->regs.cpu.pc, ranges, n))
			return false;
	}
	if (sigframes_find(&a->frames, a->p) < 0)
		return false;
	for (size_t i = 0; i < a->frames.saved.n; i++)
		if (is_in(a, a->frames.saved.v[i].pc, ranges, n))
			return false;
	return true;
}
