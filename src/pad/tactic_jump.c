/* SPDX-License-Identifier: MIT */
/*
 * The tactics that cost one jump and slow nothing else down: a plain jump (over nops, over instructions, into the
 * filler after them), a jump that begins earlier and includes the site, one that ends just before it, and branches
 * that keep their opcode and get another destination.
 */
#include "pad/plan_priv.h"

#include <string.h>

#define BACK_MAX 12		/* instructions to go back */

static enum tactic jump_name(const struct line *l)
{
	if (l->nops)
		return TACTIC_NOP;
	return l->room > l->end ? TACTIC_SLACK : TACTIC_JUMP;
}

/* Commits the pad of a run, entered by a plain jump at its start. */
static bool commit_jump(struct plan *p, struct site *s, const struct line *l, enum tactic t, bool tail)
{
	struct window *w = window_new(p, l, SHAPE_JUMP);

	if (tail) {
		size_t first, n = slots_in(p, w->end, w->end + 1, &first);

		w->tail = true;
		for (size_t i = first; i < first + n; i++)
			w->pad_size += body_of(p, &p->slots[i]) + jump_len(p);
	}
	if (!window_commit(p, l, w, true))
		return false;
	window_settle(p, w, s, t, 0);
	return true;
}

bool tactic_jump(struct plan *p, struct site *s)
{
	struct line l;

	if (!line_walk(p, s, s->at, jump_len(p), s->at, s->flags, &l)) {
		if (!s->why.stop)
			s->why = l.why;
		return false;
	}
	if (commit_jump(p, s, &l, jump_name(&l), false))
		return true;
	if (!s->why.stop)
		s->why.stop = l.may_fault ? STOP_FAULT :
			      plan_same_page(p, s->at, s->at + jump_len(p)) ? STOP_BUSY : STOP_PAGE;
	return false;
}

/* Begins at an earlier instruction of the straight line that leads to the site. */
bool tactic_back(struct plan *p, struct site *s)
{
	uint64_t start = s->at;
	struct line l;

	if (s->exact)
		return false;
	for (int i = 0; i < BACK_MAX; i++) {
		if (!line_before(p, s, start, &start) || window_over(p, start, start + 1))
			return false;
		if (line_walk(p, s, start, jump_len(p), s->at, s->flags, &l) &&
		    commit_jump(p, s, &l, TACTIC_BACK, false))
			return true;
	}
	return false;
}

/* Whether the taken branch of a conditional jump is observed here: its body can't run before the jump. */
static bool wants_taken_way(const struct plan *p, uint64_t at)
{
	size_t first, n = slots_in(p, at, at + 1, &first);

	for (size_t i = first; i < first + n; i++)
		if (p->slots[i].want->kind == WANT_EXIT && p->slots[i].want->exit_kind == EXIT_JCC)
			return true;
	return false;
}

/*
 * A window that ends where the site begins: its pad runs the site's bodies last and jumps to the unchanged
 * instruction. The site is reached in no other way, so no hit is missed.
 */
bool tactic_before(struct plan *p, struct site *s)
{
	uint64_t start = s->at;
	struct line l;

	if (s->exact || wants_taken_way(p, s->at))
		return false;
	for (int i = 0; i < BACK_MAX; i++) {
		if (!line_before(p, s, start, &start) || window_over(p, start, start + 1))
			return false;
		if (line_walk(p, s, start, jump_len(p), s->at, LINE_TAIL | LINE_NO_MERGE, &l) &&
		    l.end == s->at && l.goes_on && commit_jump(p, s, &l, TACTIC_BACK, true))
			return true;
	}
	return false;
}

/* Makes a window that keeps the branch at `at` and changes its destination; NULL if there is no such branch. */
struct window *window_retarget(struct plan *p, uint64_t at, const struct insn *in, bool jcc)
{
	struct line l = { .start = at, .end = at + in->len, .n = 1 };
	const uint8_t *code = module_bytes(p->m, at, in->len);
	static const uint8_t shapes[] = { [RETARGET_CALL] = SHAPE_CALL, [RETARGET_CALL_SLOT] = SHAPE_CALL_SLOT, [RETARGET_JCC] = SHAPE_JCC };
	const struct jump_abi *jumps = p->arch->jumps;
	uint8_t head[INSN_MAX];
	enum retarget r;
	struct window *w;

	if (!code || !jumps->retarget || plan_forbidden(p, at, at + in->len))
		return NULL;
	r = jumps->retarget(code, in, head);
	if (r == RETARGET_NONE || (r == RETARGET_JCC && !jcc))
		return NULL;
	l.reloc = r == RETARGET_CALL_SLOT ? jumps->slot_len - jumps->len : 0;	/* the pad ends with the longer jump */
	w = window_new(p, &l, shapes[r]);
	w->n = in->len;
	w->rel = in->len - 4;
	memcpy(w->head, head, w->rel);
	return w;
}

bool tactic_retarget(struct plan *p, struct site *s)
{
	struct window *w = window_retarget(p, s->at, &s->insn, s->only_exits);
	struct line l = { 0 };

	if (!w)
		return false;
	if (!window_commit(p, &l, w, true)) {
		s->why.stop = plan_same_page(p, s->at, s->at + s->insn.len) ? STOP_BUSY : STOP_PAGE;
		return false;
	}
	window_settle(p, w, s, TACTIC_RETARGET, 0);
	return true;
}
