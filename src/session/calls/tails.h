/* SPDX-License-Identifier: MIT */
/*
 * Calls that leave their function by a tail jump and end in another one (docs/why/tail-calls.md). A link is a function in which
 * calls of one row may end: its exits are sites of that row, too. Those sites have site.link; where a jump leads is site.next.
 *
 *	tails_resolve()		when the sites of rows are known: adds links and sites
 *	tails_room()		what their code takes beside that of an exit
 *	tails_emit()		the code
 *	tails_poll()		return addresses that pads have reported become sites
 */
#ifndef JAB_SESSION_TAILS_H
#define JAB_SESSION_TAILS_H

#include "session/session.h"

struct tail_link {
	uint64_t number;	/* tails_func() of that row */
	uint32_t loaded, func;	/* this function */
	uint32_t depth;		/* jumps to here, at least */
	bool self;		/* it is the row's function */
	bool guard;		/* likewise, and only its entry counts: no call of it goes on there */
	bool cut;		/* an exit of it would end calls of too many: calls don't go on to it, but end at the jump */
	bool bad;		/* likewise, since an exit of it got no place */
};

/* Sites from number `first` on. */
void tails_resolve(struct jab *j, size_t first);

/* The number by which entry, exits and notes of one row's calls are known in a target. */
uint64_t tails_func(const struct jab *j, const struct target *t, const struct site *s);

/* Memory for notes: the bytes needed (0: none); and, before there are pads, where it is. */
size_t tails_memory(const struct jab *j);
int tails_take_memory(struct jab *j, struct target *t);

void tails_not_placed(struct jab *j, const struct site *s);	/* the plan has no place for a site of a link */
void tails_forget_plan(struct target *t);

/* True if a call ends at this site although control is not back in its caller. */
bool tails_ends_early(const struct jab *j, const struct site *s);

/*
 * Code beside that of the exit itself: bytes of room for it, and what was put. `before` bytes are in front of the body, and after it,
 * with `after`, a jump to the begin of all. False: there is no body.
 */
struct tails_code { size_t before, after; };
size_t tails_room(const struct jab *j, const struct site *s);
bool tails_emit(const struct jab *j, const struct target *t, const struct want *w, uint8_t *out, struct tails_code *ret);

/* The code around an address of a module; NULL: not known. And where a jump or a call there leads; false: that is not known. */
struct tail_dest { uint32_t loaded, func; };
const struct fcode *tails_decoded(struct jab *j, uint32_t target, uint32_t loaded, uint64_t addr);
bool tails_dest(struct jab *j, uint32_t target, uint32_t loaded, uint64_t addr, uint8_t kind, struct tail_dest *ret);

/* returns.c: probes at return addresses that pads have reported. Returns how many there are more. */
int tails_poll(struct jab *j);

static inline uint64_t tails_known_at(const struct target *main)
{
	return main->notes_at + TAIL_TABLE_SIZE;
}

#endif
