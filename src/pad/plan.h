/* SPDX-License-Identifier: MIT */
/*
 * From wanted places to bytes. All wants of a module are planned together, from high addresses to
 * low, because a short jump may lean on the final bytes behind it. Pure: works on a file alone.
 */
#ifndef JAB_PAD_PLAN_H
#define JAB_PAD_PLAN_H

#include "pad/code.h"
#include "pad/room.h"
#include "proc/text.h"

enum tactic {
	TACTIC_NONE, TACTIC_NOP, TACTIC_JUMP, TACTIC_SLACK, TACTIC_BACK, TACTIC_RETARGET, TACTIC_HOP,
	TACTIC_EVICT, TACTIC_PUN, TACTIC_HOP_NEIGHBOUR, TACTIC_SHARED, TACTIC_TRAP,
};
const char *tactic_name(enum tactic t);
const char *tactic_cost(enum tactic t);	/* cost class: "jump", "jump+hop", "jump, neighbour +jump", "trap", "-" */

enum want_kind { WANT_INSN, WANT_ENTRY, WANT_EXIT };

/* One place that a probe wants to see. Two wants may be at one address. */
struct want {
	uint64_t addr;		/* link address of an instruction */
	uint8_t kind;
	uint8_t exit_kind;	/* WANT_EXIT: of a jcc only the taken way counts */
	uint16_t body;		/* bytes that its body takes; 0: as many as plan_create() was told */
	uint32_t id;		/* the caller's; its body is emitted for this want */
	/* out: */
	uint8_t tactic;
	const char *reason;	/* why none (or why not a better tactic); static or owned by the plan */
	uint64_t neighbour;	/* address of an instruction that got slower for it; 0: none */
	bool pushed;		/* the body runs when the call that is wanted has pushed its return address */
};

struct plan;

/* body_size: bytes that the body of a want takes if it doesn't say. bias: live - link. */
int plan_create(struct code *c, struct room *room, uint64_t bias, size_t body_size, struct plan **ret_plan);
void plan_done(struct plan *p);	/* it was written: from now on only the reasons that it gave are kept */
void plan_free(struct plan *p);

/* Plan all wants (any order; sorted inside, results written into them). Returns how many got no place. */
int plan_solve(struct plan *p, struct want *wants, size_t n);

/* Leave out some tactics (bits 1 << enum tactic): to try the others where they would not be needed. */
void plan_avoid(struct plan *p, uint32_t tactics);

/* Bytes that are not as the file says (link addresses, ascending): nothing is moved there, nothing leans on them. */
void plan_foreign(struct plan *p, uint64_t lo, uint64_t hi);

/* Forget the results of plan_solve(): what its pads took of the room is free again. */
void plan_reset(struct plan *p);

/*
 * Write the pads and the patch. body(arg, want, at, out) writes exactly as many bytes as the want has for its body, as
 * it will run at live address `at`. here(arg, at) gives our own view of live address `at` of the room.
 * Edits and moves (live addresses) are appended to patch, unsorted.
 */
struct plan_output {
	void *arg;
	void (*body)(void *arg, const struct want *want, uint64_t at, uint8_t *out);
	uint8_t *(*here)(void *arg, uint64_t at);
};
int plan_emit(struct plan *p, const struct plan_output *out, struct text_patch *patch);

#endif
