/* SPDX-License-Identifier: MIT */
/*
 * The code in a pad that counts a hit. It keeps every register, the flags and the red zone, and assumes nothing of
 * them.
 *
 * First process_state.fast is checked. While it is 0 a thread pointer may be 0 or an arbitrary address, and nothing
 * relative to it is touched: the slow path.
 *
 * The fast path is a restartable sequence: load this CPU's counter, add one, store it. If the thread is preempted,
 * moved to another CPU or interrupted by a signal between `start` and the store, the kernel sets the pc to the
 * abort address. The store is the last instruction, so the hit was counted or it was not. lea and jrcxz do the
 * arithmetic and the branch without touching the flags.
 *
 * The slow path is a locked increment of one shared counter. Threads without rseq take it (their cpu_id is -1 or
 * -2; the table has an entry for each value of the bits that are loaded, and 0 in these two), and so does an
 * aborted sequence. The sequence is not tried again: aborts are rare, and under a debugger that single-steps it
 * would abort every time, for ever.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"
#include "arch/rseq.h"
#include "base/err.h"

/*
 * After the hot code: the slow path and the descriptor, which is aligned by its address. Code that leaves the
 * sequence disarms it first. At the abort address the kernel has already disarmed it. A thread that has not entered
 * it (fast is 0) must not disarm it.
 */
#define SLOW_LEN (13 + 2 + 4 + 21 + 2)
#define COLD_LEN (SLOW_LEN + RSEQ_DESCRIPTOR_ALIGN - 1 + sizeof(struct rseq_descriptor))

struct cold {
	uint64_t leave;		/* leaves the sequence */
	uint64_t slow;		/* after the signature */
	uint64_t descriptor;
};

static struct cold place_cold(uint64_t at)
{
	return (struct cold){
		.leave = at, .slow = at + 13 + 2 + 4,
		.descriptor = (at + SLOW_LEN + RSEQ_DESCRIPTOR_ALIGN - 1) & -(uint64_t)RSEQ_DESCRIPTOR_ALIGN,
	};
}

static void put_enter(uint8_t **p)
{
	put(p, 0x48, 0x8d, 0x64, 0x24, 0x80);	/* lea  -128(%rsp),%rsp */
	put(p, 0x50);				/* push %rax */
	put(p, 0x51);				/* push %rcx */
}

static void put_leave(uint8_t **p)
{
	put(p, 0x59);				/* pop  %rcx */
	put(p, 0x58);				/* pop  %rax */
	put(p, 0x48, 0x8d, 0xa4, 0x24);		/* lea  128(%rsp),%rsp */
	put32(p, 128);
}

/* inc writes flags: OF goes to al, the others to ah, and back. */
static void put_locked_inc(uint8_t **p, uint64_t counter)
{
	put(p, 0x9f);				/* lahf */
	put(p, 0x0f, 0x90, 0xc0);		/* seto %al */
	put(p, 0x48, 0xb9);			/* movabs $counter,%rcx */
	put64(p, counter);
	put(p, 0xf0, 0x48, 0xff, 0x01);		/* lock incq (%rcx) */
	put(p, 0x04, 0x7f);			/* add  $127,%al */
	put(p, 0x9e);				/* sahf */
}

/* The rel8 of a branch to `to`; *p is its byte, base[0] is at address `at`. */
static void put_rel8(uint8_t **p, const uint8_t *base, uint64_t at, uint64_t to)
{
	put(p, to - (at + (*p - base) + 1));
}

/* The descriptor may be unmapped later, so the sequence never stays armed. */
static void put_disarm(uint8_t **p, const struct count_spec *spec)
{
	put(p, 0x64, 0x48, 0xc7, 0x04, 0x25);	/* movq $0,%fs:rseq_cs */
	put32(p, spec->rseq_off + RSEQ_CS);
	put32(p, 0);
}

struct sequence {
	uint64_t start;
	uint64_t end;
	uint64_t out;		/* after the sequence is disarmed */
};

static struct sequence put_sequence(uint8_t **p, uint64_t at, const struct count_spec *spec,
				    const struct cold *cold)
{
	const uint8_t *base = *p;
	struct sequence seq;

	put(p, 0x48, 0xb9);			/* movabs $fast,%rcx */
	put64(p, spec->fast);
	put(p, 0x8b, 0x09, 0xe3);		/* mov  (%rcx),%ecx; jrcxz slow */
	put_rel8(p, base, at, cold->slow);
	put(p, 0x48, 0x8d, 0x05);		/* lea  descriptor(%rip),%rax */
	put32(p, cold->descriptor - (at + (*p - base) + 4));
	put(p, 0x64, 0x48, 0x89, 0x04, 0x25);	/* mov  %rax,%fs:rseq_cs */
	put32(p, spec->rseq_off + RSEQ_CS);

	/* No instruction may be between that store and the start, or a signal there would disarm the sequence unnoticed. */
	seq.start = at + (*p - base);
	put_cpu(p, spec->rseq_off + RSEQ_CPU_ID, spec->many_cpus);
	put(p, 0x48, 0xb8);			/* movabs $table,%rax */
	put64(p, spec->cpu_table);
	put(p, 0x48, 0x8b, 0x0c, 0xc8);		/* mov  (%rax,%rcx,8),%rcx */
	put(p, 0xe3);				/* jrcxz leave */
	put_rel8(p, base, at, cold->leave);
	put(p, 0x48, 0x8b, 0x81);		/* mov  8*index(%rcx),%rax */
	put32(p, 8 * spec->index);
	put(p, 0x48, 0x8d, 0x40, 0x01);		/* lea  1(%rax),%rax */
	put(p, 0x48, 0x89, 0x81);		/* mov  %rax,8*index(%rcx) */
	put32(p, 8 * spec->index);
	seq.end = at + (*p - base);
	put_disarm(p, spec);
	seq.out = at + (*p - base);
	return seq;
}

#define HOT_LEN 105		/* up to and including the jump over the cold part */

static void put_cold(uint8_t *base, uint64_t at, const struct count_spec *spec,
		     const struct cold *cold, const struct sequence *seq)
{
	struct rseq_descriptor d = {
		.start_ip = seq->start,
		.post_commit_offset = seq->end - seq->start,
		.abort_ip = cold->slow,
	};
	uint8_t *p = base + (cold->leave - at);

	memcpy(base + (cold->descriptor - at), &d, sizeof(d));
	put_disarm(&p, spec);
	put(&p, 0xeb, 4);			/* jmp  over the signature */
	put32(&p, spec->rseq_sig);
	put_locked_inc(&p, spec->shared);
	put(&p, 0xeb);				/* jmp  out */
	put_rel8(&p, base, at, seq->out);
}

static int count_per_cpu(uint8_t *out, uint64_t at, const struct count_spec *spec)
{
	struct cold cold = place_cold(at + HOT_LEN);
	struct sequence seq;
	uint8_t *p = out;

	memset(out, 0xcc, HOT_LEN + COLD_LEN);
	put_enter(&p);
	seq = put_sequence(&p, at + (p - out), spec, &cold);
	put_leave(&p);
	put(&p, 0xeb, COLD_LEN);		/* jmp  over the cold part */
	put_cold(out, at, spec, &cold, &seq);
	return HOT_LEN + COLD_LEN;
}

static int count_shared(uint8_t *out, const struct count_spec *spec)
{
	uint8_t *p = out;

	put_enter(&p);
	put_locked_inc(&p, spec->shared);
	put_leave(&p);
	return p - out;
}

_Static_assert(HOT_LEN + COLD_LEN <= COUNT_MAX, "does not fit");

int x86_emit_count(uint8_t *out, uint64_t at, const struct count_spec *spec)
{
	uint8_t scratch[COUNT_MAX];

	if (spec->index > INT32_MAX / 8)
		return -ERANGE;
	if (!out)
		out = scratch;
	if (spec->has_rseq)
		return count_per_cpu(out, at, spec);
	return count_shared(out, spec);
}
