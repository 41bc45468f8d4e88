/* SPDX-License-Identifier: MIT */
/*
 * Runs of whole instructions that may be moved into a pad together, and the reason if a run must end. What a run
 * may contain is decided here and nowhere else:
 *
 * - no byte of it but its first is a target: neither where an instruction begins, nor inside of
 *   one (some code jumps over a lock prefix), except in the last instruction after the overwritten bytes;
 * - endbr64, syscall and direct calls are never in it; an indirect call only as the last one;
 * - after an instruction that does not continue with the next one, only filler follows, which is not executed;
 * - an already planned window that begins in it becomes part of it, or ends it.
 */
#include "pad/plan_priv.h"

#include "base/err.h"

bool insn_goes_on(const struct insn *in)
{
	switch (in->kind) {
	case INSN_JMP:
	case INSN_JMP_IND:
	case INSN_RET:
	case INSN_STOP:
		return false;
	default:
		return true;
	}
}

/* The instruction at addr; decoded from the bytes if f is NULL. */
bool line_insn(const struct plan *p, const struct fcode *f, uint64_t addr, struct insn *ret_insn)
{
	const uint8_t *code;
	size_t room = INSN_MAX;

	if (f) {
		if (addr < f->lo || addr >= f->hi || f->index[addr - f->lo] == UINT32_MAX)
			return false;
		*ret_insn = f->insns.v[f->index[addr - f->lo]];
		return true;
	}
	while (room && !plan_has_bytes(p, addr, room))
		room--;
	code = room ? module_bytes(p->m, addr, room) : NULL;
	return code && p->arch->decode(code, room, addr, ret_insn) == 0;
}

static enum target_why target_at(struct plan *p, const struct site *s, uint64_t addr)
{
	return s->f ? code_target(p->code, s->f, addr) : TARGET_NONE;
}

static bool stop(struct line *l, enum stop what, uint64_t at, enum target_why target)
{
	l->why = (struct why){ .stop = what, .target = target, .off = at - l->start };
	return false;
}

/* The first target in [lo, hi) ends the run. */
static bool no_target(struct plan *p, const struct site *s, struct line *l, uint64_t lo, uint64_t hi)
{
	for (uint64_t at = lo; at < hi; at++) {
		enum target_why t = target_at(p, s, at);

		if (t != TARGET_NONE)
			return stop(l, STOP_TARGET, at, t);
	}
	return true;
}

/* Direct calls are retargeted where the CPU has that, see tactic_retarget(). */
static bool may_be_moved(const struct plan *p, const struct insn *in, int flags, bool last_wanted, struct line *l, uint64_t at)
{
	switch (in->kind) {
	case INSN_ENDBR:
		return stop(l, STOP_ENDBR, at, 0);
	case INSN_SYSCALL:
		return stop(l, STOP_SYSCALL, at, 0);
	case INSN_CALL:
		return (!p->arch->jumps->retarget && last_wanted) || stop(l, STOP_CALL, at, 0);
	case INSN_CALL_IND:
		if (!(flags & LINE_CALL_IND) || !last_wanted)
			return stop(l, STOP_CALL_IND, at, 0);
		return true;
	default:
		return true;
	}
}

/* Adds one instruction to the run. */
static bool take(struct plan *p, struct line *l, uint64_t at, const struct insn *in)
{
	const uint8_t *code = module_bytes(p->m, at, in->len);
	uint8_t out[RELOC_MAX];
	int len;

	if (!code || l->n == LINE_MAX)
		return stop(l, STOP_LONG, at, 0);
	len = p->arch->relocate(code, in, at, at, out);
	if (len < 0)
		return stop(l, STOP_BAD, at, 0);
	l->reloc += len;
	l->nops = (l->nops || !l->n) && in->kind == INSN_NOP;
	l->n++;
	l->last = at;
	l->end = l->room = at + in->len;
	l->goes_on = insn_goes_on(in);
	l->call_ind = in->kind == INSN_CALL_IND;
	l->may_fault |= plan_fault_is_seen(p, at, in);
	return true;
}

/* Merges a window that begins here, after the start of the run. */
static bool swallow(struct plan *p, const struct site *s, struct line *l, struct window *w, int flags)
{
	uint64_t at = w->start;
	struct insn in;

	if ((flags & LINE_NO_MERGE) || s->one || s->exact || l->nmerged == MERGE_MAX ||
	    (w->shape != SHAPE_JUMP && w->shape != SHAPE_HOP))
		return stop(l, STOP_WINDOW, at, 0);
	for (; at < w->end; at += in.len) {
		if (!line_insn(p, s->f, at, &in))
			return stop(l, STOP_WINDOW, w->start, 0);
		if (!may_be_moved(p, &in, LINE_CALL_IND, true, l, at) || !take(p, l, at, &in))
			return false;
	}
	l->merged[l->nmerged++] = w;
	return true;
}

/* Extends the run's room over unused filler, up to `want`. */
static void add_filler(struct plan *p, const struct site *s, struct line *l, uint64_t want)
{
	struct insn in;

	while (l->room < want) {
		if (!line_insn(p, s->f, l->room, &in) || (in.kind != INSN_NOP && in.kind != INSN_INT3))
			return;
		for (uint64_t at = l->room; at < l->room + in.len; at++)
			if (target_at(p, s, at) != TARGET_NONE || !plan_is_free(p, at, 1)) {
				l->room = at;
				return;
			}
		l->room += in.len;
	}
}

static bool end_of_line(struct plan *p, const struct site *s, struct line *l)
{
	struct insn in;
	uint64_t at = l->room;

	if (s->f && at < s->f->hi && !no_target(p, s, l, at, at + 1))
		return false;
	return stop(l, line_insn(p, s->f, at, &in) && plan_is_free(p, at, 1) ? STOP_CODE : STOP_END, at, 0);
}

/* Adds the next instruction at the end of the run. */
static bool step(struct plan *p, const struct site *s, struct line *l, size_t over, uint64_t through, int flags)
{
	uint64_t at = l->end, written = l->start + over;
	struct window *w;
	struct insn in;
	bool last;

	if (!line_insn(p, s->f, at, &in))
		return stop(l, STOP_END, at, 0);
	if (at > l->start && !no_target(p, s, l, l->last + 1, at + 1))
		return false;
	if (!no_target(p, s, l, at + 1, MIN(at + in.len, written)))
		return false;
	if (at > l->start && s->one && at < written)
		return stop(l, STOP_ONE, at, 0);
	w = at > l->start ? window_at(p, at) : NULL;
	if (w)
		return swallow(p, s, l, w, flags);
	last = at + in.len >= written && at + in.len > through;
	return may_be_moved(p, &in, flags, last, l, at) && take(p, l, at, &in);
}

/*
 * Finds the run from `start` that has at least `over` bytes to overwrite and includes the instruction at `through`
 * (with LINE_TAIL: everything before it). False: l->why has the reason.
 */
bool line_walk(struct plan *p, const struct site *s, uint64_t start, size_t over, uint64_t through, int flags,
	       struct line *l)
{
	const char *never;

	*l = (struct line){ .start = start, .end = start, .room = start, .goes_on = true };
	if (flags & LINE_TAIL)
		through--;
	while (l->end <= through || l->end < start + over) {
		if (!l->goes_on) {
			if (l->end <= through)
				return end_of_line(p, s, l);
			add_filler(p, s, l, start + over);
			if (l->room < start + over)
				return end_of_line(p, s, l);
			break;
		}
		if (l->call_ind)
			return stop(l, STOP_CALL_IND, l->end, 0);
		if (!step(p, s, l, over, through, flags))
			return false;
	}
	if ((flags & LINE_TAIL) && !no_target(p, s, l, l->last + 1, l->end + 1))
		return false;
	never = plan_forbidden(p, start, MAX(l->end, start + over));
	if (never) {
		l->why = (struct why){ .stop = STOP_FORBIDDEN, .text = never };
		return false;
	}
	return true;
}

/* Finds the instruction before addr, if addr is reached only from it. */
bool line_before(const struct plan *p, const struct site *s, uint64_t addr, uint64_t *ret_addr)
{
	const struct fcode *f = s->f;
	uint32_t i;

	if (!f || addr <= f->lo || addr >= f->hi || f->index[addr - f->lo] == UINT32_MAX)
		return false;
	i = f->index[addr - f->lo];
	if (!i || code_target(p->code, f, addr) != TARGET_NONE)
		return false;
	i--;
	if (!insn_goes_on(&f->insns.v[i]))
		return false;
	switch (f->insns.v[i].kind) {
	case INSN_CALL:
	case INSN_CALL_IND:
	case INSN_SYSCALL:
	case INSN_ENDBR:
		return false;
	default:
		*ret_addr = addr - f->insns.v[i].len;
		return true;
	}
}

static const char *target_text(uint8_t why)
{
	static const char *const names[] = {
		[TARGET_NONE] = "unknown", [TARGET_BRANCH] = "branch", [TARGET_TABLE] = "jump table",
		[TARGET_LANDING] = "landing pad", [TARGET_POINTER] = "pointer in data",
		[TARGET_ENTRY] = "function entry", [TARGET_LEA] = "address taken in code",
		[TARGET_RSEQ] = "restartable sequence", [TARGET_RETURN] = "return address",
		[TARGET_DATA] = "constant",
	};

	return why < ARRAY_SIZE(names) && names[why] ? names[why] : "unknown";
}

const char *why_text(struct plan *p, const struct why *why)
{
	unsigned int n = why->off;

	switch (why->stop) {
	case STOP_TARGET:
		return plan_text(p, xasprintf("branch target %u byte%s into it (%s)", n, n == 1 ? "" : "s",
					      target_text(why->target)));
	case STOP_CALL:
	case STOP_CALL_IND:
		return n ? plan_text(p, xasprintf("a call %u byte%s into it", n, n == 1 ? "" : "s")) : "is a call";
	case STOP_SYSCALL:
		return n ? plan_text(p, xasprintf("a syscall %u byte%s into it", n, n == 1 ? "" : "s")) :
			   "is a syscall";
	case STOP_ENDBR:
		return n ? "an endbr64 in it" : "is an endbr64, which is never displaced";
	case STOP_END:
		return plan_text(p, xasprintf("the function ends after %u byte%s and no filler follows", n,
					      n == 1 ? "" : "s"));
	case STOP_CODE:
		return plan_text(p, xasprintf("other code follows after %u byte%s", n, n == 1 ? "" : "s"));
	case STOP_WINDOW:
		return plan_text(p, xasprintf("another probe's jump %u byte%s behind it", n, n == 1 ? "" : "s"));
	case STOP_ONE:
		return p->m->runtime->parks_anywhere ? plan_text(p, xasprintf("in %s only one instruction may be replaced", p->m->runtime->name)) :
				     "not all branches of this function are known: only one instruction may be replaced";
	case STOP_FORBIDDEN:
		return why->text;
	case STOP_BAD:
		return "holds an instruction that can't be moved";
	case STOP_BUSY:
		return "other jumps use its bytes";
	case STOP_PAGE:
		return "its bytes lie in two pages, which can't be written at once";
	case STOP_FAULT:
		return "it may fault, and the program looks at where that happens";
	case STOP_LONG:
		return "the run of instructions is too long";
	default:
		return "no room for a pad in reach";
	}
}
