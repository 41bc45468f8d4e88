/* SPDX-License-Identifier: MIT */
/*
 * The memory of a recording in one target:
 *
 *	rings		one per CPU that the target may run on, some behind a lock for everybody else
 *	data piece	behind the counters: lost counters of each ring, those
 *			of events that got no ring and of hits without enough stack
 *	table piece	behind the tables by CPU: the locked rings, tables for backtraces.
 *			The target can't write there
 *	private page	the pid cell, pages of stacks
 *	scratch piece	behind its first page: for who holds a locked ring
 *	code		the slow routine and the blob
 */
#ifndef JAB_SESSION_RINGS_H
#define JAB_SESSION_RINGS_H

#include "ring/ring.h"
#include "session/session.h"

struct own_ring {
	struct ring r;
	uint64_t at;		/* of its head, there */
	uint64_t *lost;		/* our view of its lost counters */
	uint64_t told;		/* lost, as the trace says */
	uint64_t cut;		/* events for which the trace had no room */
	uint64_t damaged, damaged_bytes;	/* of r, as far as the totals have it */
	uint64_t lost_hint;	/* if that has not changed, neither has the number of the lost */
	uint32_t cpu;		/* UINT32_MAX: behind a lock */
	uint32_t stream;
	uint32_t owner;		/* of its lock, as of the last look */
	bool stale;		/* it has had that one for long, for nothing: locks.c */
	uint64_t held_head, held_since;
	uint64_t before;	/* bytes taken out up to the last drain */
	bool live;		/* pads may find it */
	uint64_t touched;	/* bytes of it that are there */
};

struct rings {
	uint64_t size;		/* of each */
	uint32_t ncpu, nlocked;
	struct own_ring *v;	/* ncpu + nlocked */
	uint32_t cap;		/* lost counters per ring */
	uint64_t *lost_shared;	/* our view */
	uint64_t *no_stack;	/* likewise */
	uint64_t *epoch;	/* our view: STACK_EPOCH */
	struct ring_ref *locked;	/* our view of the table of locked rings */
	uint64_t lost_at, lost_shared_at, no_stack_at, pages_at, epoch_at, locked_at, scratch_at, pid_cell, slow_at;
	uint64_t *ring_table, *lost_table;	/* our views, by CPU */
	struct event_spec spec;	/* what all events of this target have in common */
	uint64_t private_size;	/* the page of the pid cell, and pairs of calls behind it */
	uint32_t scratch_size;	/* of each locked ring */
	uint32_t longest;	/* event that a program may write */
	bool bulk;		/* some event needs the blob */
	bool ready;		/* rings_init() was called: there are pads that record */
	bool in_parts;		/* rings_touch_rest() has something to do */
	bool may_call;
	bool may_read;		/* the kernel may be asked what stands somewhere, */
	uint64_t quiet_at;	/* unless process_state.quiet is not 0 any more, see arch.emit_hush */
	uint64_t timeless_at;	/* likewise: no events then */
	bool told_timeless;
	bool told_quiet;
	bool told_lost;
	uint64_t since;		/* ns: no event is older */
	uint64_t raised_at, lowered_at, lower_wait;	/* lower.c */
	uint64_t looked_at, look_wait;			/* locks.c */
	uint32_t ns_pid;	/* how the target calls itself */
	uint64_t unwind_at;	/* tables for backtraces; 0: none */
	VEC(uint32_t) lens;	/* by id: of events that its sites write, as ring_expect() takes it; never empty */
	struct id_map *ids;
	bool has_ids_table;	/* behind all else that is private: ID_TABLE of arch/event.h */
	uint64_t ids_table;
	struct walk_tables *walk;	/* NULL: no event has a backtrace */
	bool foreign_ids;	/* that is not our number for it: another pid namespace */
};

/* Before the arena is made: room for code, and how much of the data piece is wanted. */
int rings_plan(struct jab *j, struct target *t);
void rings_trim(struct target *t);	/* right before its memory is made */
size_t rings_data_size(const struct target *t);
size_t rings_tables_size(const struct target *t);

size_t rings_scratch_size(const struct target *t);

/* The pieces behind the data piece: how many, their description, what became of them. */
size_t rings_npieces(const struct target *t);
void rings_pieces(const struct target *t, struct piece *pieces);
int rings_take(struct jab *j, struct target *t, const struct piece *pieces, uint8_t *data, uint64_t data_at);
void rings_take_tables(struct target *t, uint8_t *here, uint64_t at);

/* When it is known how the threads can be told apart: fill the tables, write the slow routine. */
int rings_init(struct target *t);	/* once; nothing if it does not record */

/*
 * The target has a site that writes events of this id, of `len` bytes (0: any length). What else is in its rings it has
 * put there itself: that is no event (a script's system() in another clause, a probe of another process).
 */
void rings_accept(struct target *t, uint32_t id, uint32_t len);

int rings_touch_lost(struct target *t, uint32_t from);	/* see counters_touch() */

/*
 * Rings of programs that come and go are there in part at first: most of these end before they need more. The rest of them,
 * once the program has run for a moment. Returns whether there is more to do later.
 */
bool rings_touch_rest(struct target *t);

/* Likewise, and where it may take the memory that it touches: what is not used at once need not be there at once. */
bool rings_may_wait(const struct target *t);

/* CPUs that the target may run on by now get their ring. */
void rings_follow_cpus(struct target *t);

/*
 * What was lost is counted in memory that the target can write, too. A lost event takes its time: more of them than
 * all CPUs had time for are not believed (they count as none), and said once.
 */
uint64_t rings_lost(const struct target *t, uint32_t index);	/* of one counter */
/* Of one ring; the first locked one stands for events that got no ring, too. */
uint64_t rings_lost_in(const struct target *t, const struct own_ring *own);
uint64_t rings_no_stack(const struct target *t, uint32_t index);	/* those of them for which the stack had no room */
uint64_t rings_lost_hint(const struct target *t, const struct own_ring *own);	/* changes when that does */

/* Where a hit without enough stack counts; and an entry of a call, which is no hit. */
uint64_t rings_no_stack_at(const struct target *t, uint32_t index);
uint64_t rings_calls_without_stack(const struct target *t);

/* Notes of tail calls that took the place of another one: where they are counted, and how many. */
uint64_t rings_crowded_at(const struct target *t);
uint64_t rings_crowded(const struct target *t);
struct tail_asked *rings_asked(const struct target *t, uint64_t *ret_at);	/* what pads tell of return addresses */

bool rings_hold(const struct target *t);		/* is there anything that was not taken out? */

/* lower.c: strangers have been born; when they are gone, events go per CPU again */
void rings_lower(struct target *t);

bool rings_say_quiet(struct target *t);		/* once, if it has forbidden system calls (then true), or the clock */

/* Now and then: what was a thread's stack may be something else by now. */
void rings_forget_stacks(struct target *t);

/* locks.c: of the dead, and of those who have left their event in another way */
void rings_free_locks(struct target *t);

void rings_free(struct rings *r);

#endif
