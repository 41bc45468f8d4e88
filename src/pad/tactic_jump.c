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
			w->pad_size += body_of(p, &p->slots[i]) + JUMP_LEN;
	}
	if (!window_commit(p, l, w, true))
		return false;
	window_settle(p, w, s, t, 0);
	return true;
}

bool tactic_jump(struct plan *p, struct site *s)
{
	struct line l;

	if (!line_walk(p, s, s->at, JUMP_LEN, s->at, s->flags, &l)) {
		if (!s->why.stop)
			s->why = l.why;
		return false;
	}
	if (commit_jump(p, s, &l, jump_name(&l), false))
		return true;
	if (!s->why.stop)
		s->why.stop = l.may_fault ? STOP_FAULT :
			      plan_same_page(p, s->at, s->at + JUMP_LEN) ? STOP_BUSY : STOP_PAGE;
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
		if (line_walk(p, s, start, JUMP_LEN, s->at, s->flags, &l) &&
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
		if (line_walk(p, s, start, JUMP_LEN, s->at, LINE_TAIL | LINE_NO_MERGE, &l) &&
		    l.end == s->at && l.goes_on && commit_jump(p, s, &l, TACTIC_BACK, true))
			return true;
	}
	return false;
}

/* call *slot(%rip), without a prefix that changes its meaning. */
static bool is_slot_call(const uint8_t *code, const struct insn *in)
{
	if (in->kind != INSN_CALL_IND || in->len < 6 || !(in->flags & INSN_PCREL))
		return false;
	for (int i = 0; i < in->len - 6; i++)
		if (code[i] == 0x67 || code[i] == 0x64 || code[i] == 0x65)
			return false;
	return code[in->len - 6] == 0xff && code[in->len - 5] == 0x15;
}

/* Makes a window that keeps the branch at `at` and changes its destination; NULL if there is no such branch. */
struct window *window_retarget(struct plan *p, uint64_t at, const struct insn *in, bool jcc)
{
	struct line l = { .start = at, .end = at + in->len, .n = 1 };
	const uint8_t *code = module_bytes(p->m, at, in->len);
	enum shape shape;
	struct window *w;

	if (!code || plan_forbidden(p, at, at + in->len))
		return NULL;
	if (in->kind == INSN_CALL && in->rel_size == 4)
		shape = SHAPE_CALL;
	else if (in->kind == INSN_JCC && in->rel_size == 4 && jcc)
		shape = SHAPE_JCC;
	else if (is_slot_call(code, in))
		shape = SHAPE_CALL_SLOT;
	else
		return NULL;
	l.reloc = shape == SHAPE_CALL_SLOT;	/* jmp *slot(%rip) is a byte longer than jmp */
	w = window_new(p, &l, shape);
	w->n = in->len;
	w->rel = in->len - 4;
	memcpy(w->head, code, w->rel);
	if (shape == SHAPE_CALL_SLOT) {
		memset(w->head, 0x67, w->rel - 1);
		w->head[w->rel - 1] = 0xe8;
	}
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
