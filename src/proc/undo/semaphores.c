/* SPDX-License-Identifier: MIT */
/*
 * Semaphores of static tracepoints: 16-bit counters in the memory of a program, which prepares the arguments of a
 * tracepoint only while its counter is not 0. They are raised by one in the stop in which the jumps are written, and lowered in
 * the stop in which the text is restored. Others count in them as well, so a value is never stored but the sum.
 *
 * A tracer may die at any instruction, and a semaphore that is lowered twice would disable the tracepoint of somebody else. So the
 * record says of each how far it is:
 *
 *	SEMAPHORE_KEPT		not raised: it is not lowered either
 *	SEMAPHORE_RAISING	raised if its value is not `before`
 *	SEMAPHORE_RAISED
 *	SEMAPHORE_LOWERING	lowered if its value is not `before`	these two are about one process only, undo_head.lowering
 *	SEMAPHORE_LOWERED
 *
 * Forks have copies of the text and of the semaphores. Both change in one stop, in which nobody forks: a process with one of the
 * jumps of a semaphore's tracepoints has it raised.
 */
#include "proc/undo/semaphores.h"

#include <sys/mman.h>
#include "base/err.h"
#include "proc/internal.h"
#include "proc/text/spans.h"

static void mark(struct undo_book *b, size_t i, enum semaphore_state state, uint16_t before)
{
	undo_set_semaphore(b, i, state, before);
	proc_step("semaphore marked");
}

static int add(struct proc *p, taddr at, uint16_t *value, int by)
{
	uint16_t sum = *value + by;
	int r = proc_write(p, at, &sum, sizeof(sum));

	proc_step("semaphore written");
	return r;
}

static int raise(struct proc *p, struct undo_book *b, size_t i)
{
	taddr at = b->semaphores.v[i].at;
	uint16_t value;
	int r = proc_read(p, at, &value, sizeof(value));

	if (r < 0 || value == UINT16_MAX)
		return r;
	mark(b, i, SEMAPHORE_RAISING, value);
	r = add(p, at, &value, 1);
	mark(b, i, r < 0 ? SEMAPHORE_KEPT : SEMAPHORE_RAISED, 0);
	return r;
}

static void take_back(struct proc *p, struct undo_book *b, size_t i)
{
	taddr at = b->semaphores.v[i].at;
	uint16_t value;

	if (b->semaphores.v[i].state == SEMAPHORE_RAISED && proc_read(p, at, &value, sizeof(value)) == 0 && value)
		add(p, at, &value, -1);
	mark(b, i, SEMAPHORE_KEPT, 0);
}

int semaphores_raise(struct proc *p, struct undo_book *b, size_t first)
{
	size_t i;
	int r = 0;

	for (i = first; r == 0 && i < b->semaphores.n; i++)
		r = raise(p, b, i);
	while (r < 0 && i-- > first)
		take_back(p, b, i);
	return r;
}

/* Still memory of one process, which it can write? A library may be gone, and something else be there. */
static bool is_writable(const struct proc *p, taddr at)
{
	const struct map *first = proc_map_at(p, at.v), *last = proc_map_at(p, at.v + 1);

	return first && first == last && (first->prot & PROT_WRITE) && !first->shared;
}

static bool is_raised(const struct semaphore *s, bool interrupted, uint16_t value)
{
	switch ((enum semaphore_state)s->state) {
	case SEMAPHORE_KEPT:
		return false;
	case SEMAPHORE_RAISING:
		return value != s->before;
	case SEMAPHORE_LOWERING:
		return !interrupted || value == s->before;
	case SEMAPHORE_LOWERED:
		return !interrupted;
	case SEMAPHORE_RAISED:
		break;
	}
	return true;
}

static enum edit_state state_of(const struct undo *u, const uint8_t *states, const struct semaphore *s)
{
	const struct edit *e = edit_around(u->edits.v, u->edits.n, s->edit.v);

	return e ? states[e - u->edits.v] : EDIT_GONE;
}

void semaphores_begin(struct proc *p, const struct undo *u)
{
	struct undo_book *b = u->arena ? &u->arena->book : NULL;

	if (!b || !b->semaphores.n)
		return;
	undo_set_lowering(b, 0);
	for (size_t i = 0; i < b->semaphores.n; i++)
		if (b->semaphores.v[i].state > SEMAPHORE_RAISED)
			undo_set_semaphore(b, i, SEMAPHORE_RAISED, 0);
	undo_set_lowering(b, p->pid);
}

void semaphores_lower(struct proc *p, const struct undo *u, const uint8_t *states)
{
	struct undo_book *b = u->arena ? &u->arena->book : NULL;
	bool interrupted = !b && u->lowering == p->pid, own = b && u->arena->p == p;

	for (size_t i = 0; i < u->semaphores.n; i++) {
		const struct semaphore *s = &u->semaphores.v[i];
		enum edit_state state = state_of(u, states, s);
		uint16_t value;

		/* A jump that gave way to a breakpoint is old text. */
		if (state != EDIT_OURS && !(state == EDIT_OLD && (own || interrupted)))
			continue;
		if (!is_writable(p, s->at) || proc_read(p, s->at, &value, sizeof(value)) < 0 || !is_raised(s, interrupted, value) || !value)
			continue;
		if (b)
			mark(b, i, SEMAPHORE_LOWERING, value);
		add(p, s->at, &value, -1);
		if (b)
			mark(b, i, SEMAPHORE_LOWERED, 0);
	}
	if (b && b->semaphores.n)
		undo_set_lowering(b, 0);
}
