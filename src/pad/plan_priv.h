/* SPDX-License-Identifier: MIT */
/*
 * The planner's own data:
 *
 *- slots, one per want, sorted from high to low;
 *- windows: runs of whole instructions that are executed in a pad instead of in place. No two of them
 *  overlap, so every slot in a window's run belongs to that window;
 *- a cell for every byte of text: its final value, whether the plan writes it, and how many windows
 *  lean on it (use it as part of their jump's displacement, so that it must not change any more).
 *
 * Addresses are link addresses, except those of pads, which are live.
 */
#ifndef JAB_PAD_PLAN_PRIV_H
#define JAB_PAD_PLAN_PRIV_H

#include "pad/plan.h"

enum slot_state { SLOT_OPEN, SLOT_PLACED, SLOT_BAD /* no instruction there: can't be placed */ };

struct slot {
	uint64_t at;		/* the body runs before this instruction: want->addr, or after an endbr64 there */
	struct want *want;
	uint32_t order;		/* position in the caller's array */
	uint8_t state;
};

/* The kind of branch at a window's start. */
enum shape {
	SHAPE_JUMP,		/* a jump; its displacement may include bytes that the plan does not write */
	SHAPE_HOP,		/* a short jump to a long one at `land` */
	SHAPE_CALL,		/* the original direct call, to the pad */
	SHAPE_CALL_SLOT,	/* a call to where a word leads, replaced by a direct call to the pad */
	SHAPE_JCC,		/* the original conditional jump, to the pad: observes only the taken branch */
};

struct window {
	uint64_t start, end;	/* instructions executed in the pad */
	uint64_t land;		/* SHAPE_HOP: address of the long jump */
	uint64_t pad;		/* live */
	uint64_t tramp;		/* live address of a second jump that leads to the pad; 0: there is none, the first one does */
	uint32_t pad_size;
	uint8_t shape;
	uint8_t n;		/* bytes written at start */
	uint8_t rel;		/* offset of the displacement in them */
	uint8_t head[12];	/* the bytes before the displacement */
	bool tail;		/* bodies of wants at `end` are in this pad, too, before the jump back */
	bool may_fault;
};

/* Why a run of instructions can't be extended. */
enum stop {
	STOP_NONE, STOP_TARGET, STOP_CALL, STOP_CALL_IND, STOP_SYSCALL, STOP_ENDBR, STOP_END, STOP_CODE, STOP_WINDOW,
	STOP_ONE, STOP_FORBIDDEN, STOP_BAD, STOP_BUSY, STOP_LONG, STOP_PAGE, STOP_FAULT,
};

struct why {
	uint8_t stop;		/* enum stop */
	uint8_t target;		/* enum target_why */
	uint32_t off;		/* bytes into the run */
	const char *text;	/* STOP_FORBIDDEN */
};

/* The address that is being planned and its constraints. */
struct site {
	uint64_t at;
	const struct fcode *f;	/* NULL: a plain entry without inner targets, see code_window_is_quiet() */
	struct insn insn;	/* the instruction at `at` */
	bool one;		/* never overwrite the start of a second instruction (Go, doubt) */
	bool exact;		/* runs neither begin before the site nor merge with windows: other code may be entered in
				   unknown ways (doubt) */
	bool is_entry;
	bool only_exits;	/* all wants here are exits */
	int flags;		/* enum line_flags: what its runs may contain */
	struct why why;		/* why a plain jump was not possible */
};

#define LINE_MAX 32
#define MERGE_MAX 6

/* A run of whole instructions in the text. */
struct line {
	uint64_t start, end;	/* the instructions */
	uint64_t last;		/* address of the last instruction */
	uint64_t room;		/* end of the bytes that may be overwritten: end, or the end of filler after it */
	uint32_t reloc;		/* size of the relocated copies */
	uint16_t n;
	bool goes_on;		/* the last instruction continues with the next one */
	bool call_ind, nops;
	bool may_fault;		/* an instruction may fault, and the program could see at which pc */
	uint8_t nmerged;
	struct window *merged[MERGE_MAX];	/* windows that become part of this one */
	struct why why;
};

enum line_flags { LINE_CALL_IND = 1, LINE_NO_MERGE = 2, LINE_TAIL = 4 };

struct plan {
	struct code *code;
	struct module *m;
	const struct arch *arch;
	struct room *room;
	uint64_t bias;
	size_t body;
	uint64_t text_lo, text_hi;
	uint16_t *cells;	/* low byte: the final value; high byte: CELL_* and the number of windows that lean on it */
	uint64_t reach_lo, reach_hi;	/* live range from which all of the module can be reached */
	gap_list spots;			/* gaps in that range */
	uint64_t spots_size;
	struct slot *slots;
	size_t nslots;
	VEC(struct window *) windows;	/* from high to low */
	VEC(char *) texts;
	VEC(struct span) foreign;	/* ascending */
	uint32_t avoid;
	bool may_cross;		/* bytes that are written together may be in two pages: if nothing else fits */
};

static inline size_t jump_len(const struct plan *p)
{
	return p->arch->jumps->len;
}

static inline size_t hop_len(const struct plan *p)
{
	return p->arch->jumps->short_len;
}

static inline size_t body_of(const struct plan *p, const struct slot *s)
{
	return s->want->body ? s->want->body : p->body;
}

/* plan_bytes.c */
uint8_t plan_byte(const struct plan *p, uint64_t addr);		/* its final value */
bool plan_has_bytes(const struct plan *p, uint64_t addr, size_t n);
bool plan_is_foreign(const struct plan *p, uint64_t lo, uint64_t hi);
const char *plan_forbidden(struct plan *p, uint64_t lo, uint64_t hi);	/* the reason, or NULL */
bool plan_is_free(const struct plan *p, uint64_t addr, size_t n);	/* neither written nor leaned on */
bool plan_is_written(const struct plan *p, uint64_t addr);
bool plan_is_leaned_on(const struct plan *p, uint64_t addr, size_t n);
void plan_write_byte(struct plan *p, uint64_t addr, uint8_t byte);
void plan_unwrite(struct plan *p, uint64_t addr, size_t n);
void plan_lean(struct plan *p, uint64_t addr, size_t n, int by);	/* by: +1 or -1 */

bool plan_same_page(const struct plan *p, uint64_t lo, uint64_t hi);	/* whether all of [lo, hi) is in one page, or pages
									   don't matter */

/* plan_effective.c */
bool plan_is_stack_check(const struct plan *p, uint64_t at, const struct insn *in);

/* plan_fault.c: whether the program could see that an instruction faulted in a pad */
bool plan_fault_is_seen(struct plan *p, uint64_t at, const struct insn *in);

/* plan_line.c */
bool line_insn(const struct plan *p, const struct fcode *f, uint64_t addr, struct insn *ret_insn);
bool insn_goes_on(const struct insn *in);
bool line_walk(struct plan *p, const struct site *s, uint64_t start, size_t over, uint64_t through, int flags,
	       struct line *ret_line);
bool line_before(const struct plan *p, const struct site *s, uint64_t addr, uint64_t *ret_addr);
const char *why_text(struct plan *p, const struct why *why);

/* plan_window.c */
struct window *window_at(const struct plan *p, uint64_t addr);		/* the window that begins at addr */
struct window *window_over(const struct plan *p, uint64_t lo, uint64_t hi);	/* the highest window that overlaps */
size_t slots_in(const struct plan *p, uint64_t lo, uint64_t hi, size_t *ret_first);
uint8_t window_own(const struct window *w);	/* number of low bytes of the displacement that the window writes itself */
uint64_t window_dest(const struct window *w);
struct window *window_new(struct plan *p, const struct line *l, enum shape shape);
bool window_may_stand(const struct plan *p, const struct window *w, bool will_change);
bool window_place_near(struct plan *p, struct window *w);
bool window_lean_range(const struct plan *p, const struct window *w, uint64_t *ret_lo, uint64_t *ret_hi);
bool window_place_lean(struct plan *p, struct window *w);
void window_unplace(struct plan *p, struct window *w);
void window_write(struct plan *p, const struct window *w);
void window_unwrite(struct plan *p, const struct window *w);
void window_add(struct plan *p, struct window *w);
void window_drop(struct plan *p, struct window *w);
bool window_commit(struct plan *p, const struct line *l, struct window *w, bool near);
void window_settle(struct plan *p, struct window *w, const struct site *s, enum tactic t, uint64_t neighbour);

/* plan_one.c: where a jump replaces one instruction */
void plan_group_one(struct plan *p, size_t first, size_t n);

/* plan_entry.c */
bool plan_entry_quickly(struct plan *p, const struct slot *slot);

/* tactic_*.c: true if the site was placed. */
bool tactic_retarget(struct plan *p, struct site *s);
bool tactic_jump(struct plan *p, struct site *s);
bool tactic_back(struct plan *p, struct site *s);
bool tactic_before(struct plan *p, struct site *s);
bool tactic_hop(struct plan *p, struct site *s);
bool tactic_hop_neighbour(struct plan *p, struct site *s);
bool tactic_evict(struct plan *p, struct site *s);
bool tactic_pun(struct plan *p, struct site *s);
struct window *window_retarget(struct plan *p, uint64_t at, const struct insn *in, bool jcc);
void plan_refuse(struct plan *p, size_t first, size_t n, bool bad, const char *reason);
bool plan_site_at(struct plan *p, uint64_t at, struct site *ret_site);
char *plan_text(struct plan *p, char *text);
uint64_t plan_effective(struct plan *p, const struct want *w);

#endif
