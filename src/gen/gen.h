/* SPDX-License-Identifier: MIT */
/*
 * The native back end: compiles one clause program (lang/ir.h) to the body of a pad. The code preserves every register,
 * the flags and the red zone, continues at its end, and uses at most GEN_STACK_MAX bytes below the site's stack pointer.
 *
 *	lang_compile()				compiles a script to clause programs
 *	gen_measure() for each program		upper limit of its code size; needs no target
 *	maps_layout_new(unit, ncpus)		gen/maps.h: the layout of the maps; then memory is allocated, and maps_init()
 *	struct gen_env is filled		with what is known of the target
 *	gen_emit() for each site
 *	maps_reader_new()			implements struct map_ops (lang/store.h) on that memory, for printing
 *
 * The code generator has no side effects: addresses are the target's and are not dereferenced.
 */
#ifndef JAB_GEN_H
#define JAB_GEN_H

#include "arch/arch.h"
#include "blob/leave.h"
#include "lang/ir.h"

#define GEN_STACK_MAX 768	/* few clauses need half of it; Go keeps 800 bytes free below a frame */
#define GEN_CODE_MAX (256u << 10)

/*
 * The tables of open calls (pairs.c): one with 2^bits slots of GEN_PAIR_SIZE bytes, for calls that save few values; then one
 * of about the same size with longer and fewer slots, for calls that save more.
 */
#define GEN_PAIR_SIZE 64
#define GEN_PAIR_MANY 3		/* a slot of the second table is 2^3 times as long */
#define GEN_PAIR_WAYS 4
#define GEN_PAIR_BITS_MIN (GEN_PAIR_MANY + 1)
#define GEN_PAIR_BITS_MAX 20
#define GEN_SAVED_MAX 32
#define GEN_PAIRS_FEW(bits) (((1ull << (bits)) + GEN_PAIR_WAYS) * GEN_PAIR_SIZE)
#define GEN_PAIRS_TABLES(bits) (GEN_PAIRS_FEW(bits) + (((1ull << (bits)) + (GEN_PAIR_WAYS << GEN_PAIR_MANY)) * GEN_PAIR_SIZE))
/* After the tables: a mark for each slot, at slot + GEN_PAIRS_TABLES, then bitmaps for the search of slots; see blob/leave.h. */
#define GEN_PAIRS_MAP_WORDS(bits) ((GEN_PAIRS_TABLES(bits) / GEN_PAIR_SIZE + 4095) / 4096 * 64)
#define GEN_PAIRS_SUMS(bits) (2 * GEN_PAIRS_TABLES(bits) + 8ull * LEAVE_MAPS * GEN_PAIRS_MAP_WORDS(bits))	/* offset of the bitmaps' sums */
#define GEN_PAIRS_SIZE(bits) (GEN_PAIRS_SUMS(bits) + LEAVE_MAPS * GEN_PAIRS_MAP_WORDS(bits) / 8)

struct maps_layout;		/* gen/maps.h */

/*
 * Address ranges that stay mapped and readable as long as the traced program runs (session/watches/good.c says why). A load from
 * such a range is a plain load; any other address is read by a system call. The struct is in memory that is private to a
 * process and copied by a fork. Ranges can be withdrawn at any time, in any order, by setting len to 0; nothing else
 * changes after code has been generated. range[0] is checked first.
 */
#define GEN_GOOD 16
#define GEN_GOOD_STACK GEN_GOOD	/* the first thread's stack: readable from the stack pointer up, if that is in the range, too */
#define GEN_GOOD_SHORT 7	/* len is less by this than the memory: a load of 8 bytes that begins in the range ends in it */

struct gen_good {
	struct { uint64_t lo, len; } range[GEN_GOOD + 1];
};

/*
 * The switch of a clause, a u32. Byte 0: 1 if scripts have it enabled. Byte GEN_THINNED: not 0 while the tracer keeps it off
 * to limit overhead. Upper half: number of changes of either. A call probe pairs an entry and an exit only if no change came
 * between them; otherwise an exit could be paired with the entry of an earlier call.
 */
#define GEN_ON 1
#define GEN_THINNED 1		/* number of the byte */
#define GEN_SWITCHED (1u << 16)	/* one change */

#define GEN_ID_OF_SITE UINT32_MAX

/* The target, as far as code depends on it. All addresses are live ones. */
struct gen_env {
	/*
	 * As for events without clause code (session's rings.spec): rseq, tid, pid cell, ring table, slow routine, ring size,
	 * overwrite, lost counters. id and fields are not used. While event.fast is 0 no code uses restartable sequences or
	 * reads the thread block. A CPU whose number is not below layout->ncpus has no part of its own in the maps.
	 */
	struct event_spec event;
	const uint32_t *ids;		/* the event id of each record of the unit; GEN_ID_OF_SITE: the number of the site */

	uint64_t maps;			/* layout->size bytes, shared with the tracer, 64-aligned */
	const struct maps_layout *layout;
	uint64_t cells;			/* u64[unit->ncells], zeroed, shared: EVERY, LIMIT, RATE */
	uint64_t errors;		/* u64[clauses][IR_ERRORS], shared; locked increments */
	uint64_t enabled;		/* u32[clauses], see GEN_ON; 0: clauses are always on */
	uint64_t nclauses;
	uint64_t blob;			/* address of the blob's image */
	uint32_t scratch_size;		/* bytes of scratch memory of each locked ring; see struct ring_ref and gen_scratch() */
	bool may_call;			/* no seccomp filter: code may make system calls, while process_state.quiet is 0 */
	uint64_t quiet;			/* address of process_state.quiet; 0: none */
	uint64_t timeless;		/* address of process_state.timeless: while that is not 0 no code reads the clock; 0: none */
	bool has_thread_insn;		/* the thread pointer can be read by an instruction; else by a system call */
	uint64_t good;			/* address of struct gen_good; 0: none */
	uint64_t known;			/* address of struct known (arch/known.h), with room for known_cpus; 0: none */
	uint32_t known_cpus;
	uint32_t known_delay;		/* for tests: rounds that a reader turns between look and load; 0: none */

	/* ns = ns0 + ((tsc - tsc0) * mult >> 32), CLOCK_MONOTONIC; start_ns: when the run began */
	uint64_t tsc0, mult, ns0, start_ns;

	/*
	 * Call probes. pairs: address of GEN_PAIRS_SIZE(pair_bits) bytes, zeroed, private to the process and wiped by a fork;
	 * pair_bits is GEN_PAIR_BITS_MIN to _MAX. unpaired: address of u64[clauses], exits whose entry was not found; u64,
	 * entries that evicted another open call from its slot; u64[clauses], calls that ended without an exit that was seen,
	 * as found by the next call of the same function with the same stack pointer.
	 */
	uint64_t pairs, unpaired;
	uint32_t pair_bits;

	uint32_t uid, gid;
	uint32_t online_cpus;		/* IR_CTX_NCPUS */
	uint32_t cpid;
	uint64_t ids_table;		/* the target is in another pid namespace: table of tracer's pids, see ID_TABLE; 0: it is not */
	uint64_t keeper;		/* struct park_keeper, to ask the tracer for pids that the table lacks; 0: it can't be asked */
	int32_t stack_max;		/* limit of stack in bytes, instead of GEN_STACK_MAX; 0: GEN_STACK_MAX */
	uint64_t unwind;		/* unwind tables for stacks, as in struct bulk_desc; 0: frame pointers only */
};

struct gen_site {
	uint64_t addr;			/* live address of the site: its pc */
	uint64_t number;		/* IR_CTX_SITE */
	int8_t pushed;			/* 1: a call has already pushed its return address (SP is 8 too low); -1: a return has popped it */
	bool tail;			/* an exit by a jump to another function (tail call) */
	uint64_t func;			/* call probes: the same number at the entry and all exits of a function */
	int32_t g_off;			/* call probes of Go functions: offset from the thread pointer of the address of g; 0: not Go */
	uint32_t leaver;		/* entry of a call probe: number + 1 of its leaver; 0: none */
	uint64_t missed;		/* call probes: address of u32, entries that were skipped for lack of stack; 0: none are */
	int32_t need;			/* bytes of stack to check for, the same at entry and exits; 0: what the clause code uses */
	uint64_t no_stack;		/* address of u64: hits that were skipped for lack of stack */
	bool at_entry;			/* the first instruction of a function: the unwinder needs no table for this frame */
	size_t size;			/* the code is filled up to this length and continues there; 0: continues at its end */
};

/*
 * Upper limit of the length of gen_emit()'s code, for any target. -ENOTSUP: the program has an operation that is not
 * implemented here; err_text() names it. -EINVAL: ir_verify() rejects the program.
 */
int gen_measure(const struct ir_unit *u, const struct ir_prog *p);

/*
 * gen_scratch(): bytes of scratch memory that each locked ring must have for this program; 0: none. gen_event_max(): length
 * of the longest event it can write; above EVENT_LEN_MAX the reader must allow it (ring_allow()), and rings must be longer.
 */
int gen_scratch(const struct ir_unit *u, const struct ir_prog *p);
uint32_t gen_event_max(const struct ir_unit *u, const struct ir_prog *p);
int gen_stack_need(const struct ir_unit *u, const struct ir_prog *p);	/* bytes below the site's stack pointer */
uint32_t gen_open_calls(const struct ir_prog *p, uint32_t pair_bits);	/* about how many calls can be open at once */

/*
 * Writes the code for execution at address `at`; out has gen_measure() bytes. Returns its length. -ENOTSUP: not possible in
 * this target (not enough scratch memory, events longer than its rings).
 */
int gen_emit(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env,
	     const struct gen_site *site, uint64_t at, uint8_t *out);

static inline uint32_t gen_event_id(const struct gen_env *env, const struct gen_site *site, uint32_t record)
{
	return !env->ids ? 0 : env->ids[record] == GEN_ID_OF_SITE ? site->number : env->ids[record];
}

#define GEN_PLAIN_STACK 256	/* bytes of stack that event code may need */

/*
 * plain.c: a program that writes one event of registers, constants and words of the stack, and does nothing else, needs no frame.
 * It has no switch (gen_env.enabled is not looked at). gen_emit_plain() is for programs for which gen_is_plain().
 */
bool gen_is_plain(const struct ir_unit *u, const struct ir_prog *p, bool *ret_framed);	/* framed: the code with a frame is behind it */
int gen_measure_plain(const struct ir_unit *u, const struct ir_prog *p);
int gen_emit_plain(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env, const struct gen_site *site, uint64_t at,
		   uint8_t *out);

/*
 * A program with is_left becomes a routine (leaver), not the body of a pad: blob_leave() calls it with two arguments on the
 * stack, the stack pointer of a call and enum call_left. gen_leaver_end() writes the return instruction after its code, in
 * GEN_LEAVER_MORE bytes.
 */
#define GEN_LEAVER_MORE 1
void gen_leaver_end(const struct arch *arch, uint8_t *out);	/* arch as in struct ir_unit */

/* The body of a pad at a landing: passes the stack pointer and a register to blob_leave(). Returns its length. */
#define GEN_LANDING_MAX 256
struct gen_landing {
	uint8_t how;			/* enum leave_how */
	uint64_t blob;			/* address of the blob's image */
	uint64_t desc;			/* address of struct leave_desc */
	uint64_t slow;			/* address of the code of emit_event_slow() */
	const struct arch *arch;	/* NULL: the one that jab runs on */
};
int gen_landing(const struct gen_landing *l, uint8_t *out);

#endif
