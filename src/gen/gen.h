/* SPDX-License-Identifier: MIT */
/*
 * The native back end: one program of the language becomes the body of a pad, which keeps every
 * register, the flags and the red zone, falls out at its end, and takes at most GEN_STACK_MAX bytes
 * below the site's stack pointer.
 *
 *	all programs are compiled		lang_compile()
 *	gen_measure() for each			how much code a pad must hold; needs no target
 *	maps_layout_new(unit, ncpus)		gen/maps.h: what the maps take; memory is made, maps_init()
 *	struct gen_env is filled		as far as the target is known
 *	gen_emit() for each site
 *	maps_reader_new()			maps as lang/store.h has them, for printing
 *
 * Everything here is pure: addresses are the target's and nothing is dereferenced.
 */
#ifndef JAB_GEN_H
#define JAB_GEN_H

#include "arch/arch.h"
#include "blob/leave.h"
#include "lang/ir.h"

#define GEN_STACK_MAX 768	/* few programs need half of it; Go has 800 */
#define GEN_CODE_MAX (256u << 10)

/* Open calls: a table of 2^bits slots for those that save few values, then as much for fewer ones that may save more. */
#define GEN_PAIR_SIZE 64
#define GEN_PAIR_MANY 3		/* slots there are 2^3 times as long */
#define GEN_PAIR_WAYS 4
#define GEN_PAIR_BITS_MIN (GEN_PAIR_MANY + 1)
#define GEN_PAIR_BITS_MAX 20
#define GEN_SAVED_MAX 32
#define GEN_PAIRS_FEW(bits) (((1ull << (bits)) + GEN_PAIR_WAYS) * GEN_PAIR_SIZE)
#define GEN_PAIRS_TABLES(bits) (GEN_PAIRS_FEW(bits) + (((1ull << (bits)) + (GEN_PAIR_WAYS << GEN_PAIR_MANY)) * GEN_PAIR_SIZE))
/* Behind them marks, as far from each slot as the tables are long, and maps of where to look for which of them: blob/leave.h. */
#define GEN_PAIRS_MAP_WORDS(bits) ((GEN_PAIRS_TABLES(bits) / GEN_PAIR_SIZE + 4095) / 4096 * 64)
#define GEN_PAIRS_SUMS(bits) (2 * GEN_PAIRS_TABLES(bits) + 8ull * LEAVE_MAPS * GEN_PAIRS_MAP_WORDS(bits))	/* where they begin */
#define GEN_PAIRS_SIZE(bits) (GEN_PAIRS_SUMS(bits) + LEAVE_MAPS * GEN_PAIRS_MAP_WORDS(bits) / 8)

struct maps_layout;		/* gen/maps.h */

/*
 * Memory that stays readable as long as the program runs (session/good.c says why): what a pointer finds there is
 * loaded plainly, anything else by the kernel. It is in memory that is private to a process and copied by a fork, and
 * can be taken back at any time: lengths become 0, in any order; nothing else is ever changed once code has been made.
 * The first range is the one that is looked at first.
 */
#define GEN_GOOD 16
#define GEN_GOOD_STACK GEN_GOOD	/* of the first thread: good from the stack pointer on, if that is in there as well */
#define GEN_GOOD_SHORT 7	/* a range is given shorter by that: no load of 8 bytes reaches beyond it */

struct gen_good {
	struct { uint64_t lo, len; } range[GEN_GOOD + 1];
};

/*
 * Is a clause on? A word for each: what scripts say (1: enabled), in the second byte whether the tracer keeps it off to
 * save time, and above how often that has changed: a call that was open then is not paired, or its exit might
 * be taken for that of one that nobody has seen come in.
 */
#define GEN_ON 1
#define GEN_THINNED 1		/* which byte of it */
#define GEN_SWITCHED (1u << 16)

/* What a program must know of the target it runs in. All addresses are live ones. */
struct gen_env {
	/*
	 * As for events without a program (session's rings.spec): rseq, tid, pid cell, ring table, slow
	 * routine, ring size, overwrite, lost counters. id and fields are not looked at. While event.fast is 0 no thread may
	 * use restartable sequences, nor anything else of its block; a CPU that the layout has no part for can't be used.
	 */
	struct event_spec event;
	const uint32_t *ids;		/* the event id of each record of the unit */

	uint64_t maps;			/* layout->size bytes, shared with us, 64-aligned */
	const struct maps_layout *layout;
	uint64_t cells;			/* u64[unit->ncells], zeroed, shared: EVERY, LIMIT, RATE */
	uint64_t errors;		/* u64[clauses][IR_ERRORS], shared; locked increments */
	uint64_t enabled;		/* u32[clauses], see GEN_ON; 0: nobody switches clauses, don't look */
	uint64_t nclauses;
	uint64_t blob;			/* where the image stands */
	uint32_t scratch_size;		/* of each locked ring; see struct ring_ref. gen_scratch() says how much */
	bool may_call;			/* no seccomp: the kernel may be asked, */
	uint64_t quiet;			/* unless process_state.quiet is not 0 any more; 0: no such word */
	uint64_t timeless;		/* process_state.timeless: while it is not 0 nobody asks for the time; 0: no such word */
	bool has_thread_insn;		/* the thread pointer can be read by an instruction; else the kernel is asked */
	uint64_t good;			/* struct gen_good; 0: nothing is known to be */

	/* ns = ns0 + ((tsc - tsc0) * mult >> 32), CLOCK_MONOTONIC; start_ns: when the run began */
	uint64_t tsc0, mult, ns0, start_ns;

	/*
	 * Call probes: memory of GEN_PAIRS_SIZE(pair_bits) bytes, zeroed, private to the process and wiped by
	 * a fork; of GEN_PAIR_BITS_MIN to _MAX. unpaired: u64[clauses + 1], exits whose entry was not found; the
	 * last one entries that took the place of another. Behind them u64[clauses]: calls that were left unseen, as the next one
	 * with their stack pointer has found.
	 */
	uint64_t pairs, unpaired;
	uint32_t pair_bits;

	uint32_t uid, gid;
	uint32_t online_cpus;		/* IR_CTX_NCPUS */
	uint32_t cpid;
	uint64_t ids_table;		/* the target's numbers are not ours: see ID_TABLE; 0: they are */
	uint64_t park;			/* struct park, to ask for those that are missing there; 0: nobody can be asked */
	int32_t stack_max;		/* bytes of stack, if GEN_STACK_MAX is too much here; 0: it is not */
	uint64_t unwind;		/* tables for stacks, as in struct bulk_desc; 0: frame pointers only */
};

struct gen_site {
	uint64_t addr;			/* live address of the site: its pc */
	uint64_t number;		/* IR_CTX_SITE */
	int8_t pushed;			/* 1: a call has pushed its return address already, the stack pointer is 8 too low; -1: a return has taken it away */
	bool tail;			/* an exit that goes on in another function */
	uint64_t func;			/* call probes: what entry and exits of a function have in common */
	int32_t g_off;			/* likewise: it is Go's, and there a thread has the address of g; 0: it is not */
	uint32_t leaver;		/* entry of a call: number + 1 of the code that ends it if its frame goes away; 0: none */
	uint64_t missed;		/* likewise: u32 that counts entries which were jumped over; 0: none are */
	int32_t need;			/* ask for so much stack (entry and exits for the same); 0: for what the program takes */
	uint64_t no_stack;		/* u64: hits that found less */
	bool at_entry;			/* it is the first instruction of a function: stacks need no table for it */
	size_t size;			/* of the room for the code, which goes on behind it; 0: behind the code */
};

/*
 * Bytes of code that gen_emit() takes at most, whatever the target is like. -ENOTSUP: this program has
 * something that can't be done here (yet); err_text() names it. -EINVAL: ir_verify() says no.
 */
int gen_measure(const struct ir_unit *u, const struct ir_prog *p);

/*
 * Bytes of scratch memory that each locked ring must have for this program; 0: none. Likewise the longest event
 * that it can write: above EVENT_LEN_MAX the reader must expect it (ring_allow()), and rings must be longer.
 */
int gen_scratch(const struct ir_unit *u, const struct ir_prog *p);
uint32_t gen_event_max(const struct ir_unit *u, const struct ir_prog *p);
int gen_stack_need(const struct ir_unit *u, const struct ir_prog *p);	/* bytes below the site's stack pointer */
uint32_t gen_open_calls(const struct ir_prog *p, uint32_t pair_bits);	/* how many there may be at once, about */

/*
 * Write the code as it runs at `at`; out has gen_measure() bytes. Returns its length. It can still fail
 * (-ENOTSUP) where this target can't do it: not enough scratch memory, events longer than its rings.
 */
int gen_emit(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env,
	     const struct gen_site *site, uint64_t at, uint8_t *out);

/*
 * A program with is_left is no body of a pad but a routine: blob_leave() calls it with the stack pointer of a call and how it
 * was left on the stack. A return, for which there must be GEN_LEAVER_MORE bytes, is written behind its code.
 */
#define GEN_LEAVER_MORE 1
void gen_leaver_end(const struct arch *arch, uint8_t *out);	/* writes that return; arch as in struct ir_unit */

/* The body of a pad where frames go away: hands the stack pointer and a register to blob_leave(). Returns its length. */
#define GEN_LANDING_MAX 256
struct gen_landing {
	uint8_t how;			/* enum leave_how */
	uint64_t blob;			/* where the image stands */
	uint64_t desc;			/* struct leave_desc */
	uint64_t slow;			/* where the code of emit_event_slow() stands */
	const struct arch *arch;	/* NULL: the one that jab runs on */
};
int gen_landing(const struct gen_landing *l, uint8_t *out);

#endif
