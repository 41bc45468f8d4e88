/* SPDX-License-Identifier: MIT */
/*
 * Plans the jumps. All wants of a module are planned together, from high addresses to low, because a short jump may
 * use the final bytes after it as part of its displacement. Pure: needs only a file.
 */
#ifndef JAB_PAD_PLAN_H
#define JAB_PAD_PLAN_H

#include "pad/code.h"
#include "pad/room.h"
#include "proc/text/text.h"

enum tactic {
	TACTIC_NONE, TACTIC_NOP, TACTIC_JUMP, TACTIC_SLACK, TACTIC_BACK, TACTIC_RETARGET, TACTIC_HOP,
	TACTIC_EVICT, TACTIC_PUN, TACTIC_HOP_NEIGHBOUR, TACTIC_SHARED, TACTIC_TRAP,
};
const char *tactic_name(enum tactic t);
const char *tactic_cost(enum tactic t);	/* cost class: "jump", "jump+hop", "jump, neighbour +jump", "trap", "-" */

enum want_kind { WANT_INSN, WANT_ENTRY, WANT_EXIT };

/* One address that a probe wants to observe. Two wants may have the same address. */
struct want {
	uint64_t addr;		/* link address of an instruction */
	uint8_t kind;
	uint8_t exit_kind;	/* WANT_EXIT: of a jcc only the taken branch counts */
	uint16_t body;		/* size of its body in bytes; 0: that given to plan_create() */
	uint32_t id;		/* the caller's number; passed back when the body is emitted */
	/* out: */
	uint8_t tactic;
	const char *reason;	/* why there is no tactic (or no better one); static or owned by the plan */
	uint64_t neighbour;	/* address of an instruction that became slower because of it; 0: none */
	bool pushed;		/* the body runs after the observed call has pushed its return address */
};

struct plan;

/* body_size: size of the body of a want that does not specify it. bias: live - link. */
int plan_create(struct code *c, struct room *room, uint64_t bias, size_t body_size, struct plan **ret_plan);
void plan_done(struct plan *p);	/* it was written: from now on only the reasons that it gave are kept */
void plan_free(struct plan *p);

/* Plans all wants (in any order; sorted inside, results written into them). Returns how many could not be placed. */
int plan_solve(struct plan *p, struct want *wants, size_t n);

/* Excludes tactics (bits 1 << enum tactic): to test the others where they would not be needed. */
void plan_avoid(struct plan *p, uint32_t tactics);

/*
 * Bytes that differ from the file (link addresses, ascending): no instruction is moved from there, and no jump's
 * displacement includes them.
 */
void plan_foreign(struct plan *p, uint64_t lo, uint64_t hi);

/* Keep away from what another plan of the same text has written, moved or leans on. After the last plan_foreign(). */
void plan_beside(struct plan *p, const struct plan *other);

/* Forget the results of plan_solve(): what its pads took of the room is free again. */
void plan_reset(struct plan *p);

/*
 * Writes the pads and the patch. body(arg, want, at, out) writes exactly as many bytes as the want has for its
 * body, as it will run at live address `at`. here(arg, at) returns the tracer's own mapping of live address `at` of
 * the room. Edits and moves (live addresses) are appended to patch, unsorted.
 */
struct plan_output {
	void *arg;
	void (*body)(void *arg, const struct want *want, uint64_t at, uint8_t *out);
	uint8_t *(*here)(void *arg, uint64_t at);
};
int plan_emit(struct plan *p, const struct plan_output *out, struct text_patch *patch);

#endif
