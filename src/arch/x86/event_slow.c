/* SPDX-License-Identifier: MIT */
/*
 * The two routines of events that can't use the ring of their CPU: threads without rseq, aborted
 * sequences, processes that don't know their own number yet, strangers.
 *
 * The first gives back
 *
 *	rcx	a ring whose lock is ours, or 0
 *	eax	pid
 *	edx	tid
 *
 * and changes only these, rsi and the flags, all of which its caller has saved. The lock has the owner's
 * tid, so that the locks of the dead can be freed. It never waits: each ring is tried once. A signal
 * handler that interrupts an owner finds that ring taken and gets the next.
 *
 * pid and tid are those that the process has noted, while they can be believed; else the kernel is
 * asked. The answer is noted for next time only if the thread block has the same tid: a vfork child
 * and a bare clone run on somebody else's.
 *
 * Who was forked between these answers and the lock (by a signal handler) has taken it in its parent's
 * name, or its parent has; which of them can't be known. So it is left alone and the child begins
 * anew: a lock that nobody has is found by who reads the rings.
 *
 * The second one puts the time into the event, commits it and gives the lock back: rcx is the ring, rsi
 * where the event stands in it, edx its length. It changes all of these, rax and the flags. If we are
 * the copy of an owner made by a fork since, it does nothing. If the fork comes while it runs, the copy does no
 * harm either: each step can be done only once, and see struct pid_page. (What the copy has written of the
 * event itself was the same once more. A copy that sleeps in the middle of that until the ring has
 * been gone round spoils it; there is no remedy for threads without rseq.)
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"
#include "base/err.h"

#define NR_GETPID 39
#define NR_GETTID 186

/* rel8 for now 0; returns the byte behind it. */
static uint8_t *put_jump8(uint8_t **p, uint8_t opcode)
{
	put(p, opcode, 0);
	return *p;
}

static void land8(uint8_t *behind, const uint8_t *target)
{
	behind[-1] = target - behind;
}

#define JZ 0x74
#define JNZ 0x75
#define JMP8 0xeb

/* eax, edx as noted. The three branches go to where the kernel is asked. */
static void put_noted(uint8_t **p, const struct event_slow_spec *spec, uint8_t *ret_unknown[3])
{
	put(p, 0x48, 0xb9);			/* movabs $table,%rcx */
	put64(p, spec->ring_table);
	put(p, 0x48, 0x83, 0x39, 0x00);		/* cmpq $0,(%rcx) */
	ret_unknown[0] = put_jump8(p, JZ);
	put(p, 0xa1);				/* movabs pid_cell,%eax */
	put64(p, spec->pid_cell);
	put(p, 0x85, 0xc0);			/* test %eax,%eax */
	ret_unknown[1] = put_jump8(p, JZ);
	put(p, 0x64, 0x8b, 0x14, 0x25);		/* mov  %fs:tid,%edx */
	put32(p, spec->tid_off);
	put(p, 0x85, 0xd2);			/* test %edx,%edx */
	ret_unknown[2] = put_jump8(p, JZ);
}

/* eax, edx from the kernel, which changes rcx and r11. */
static void put_asked(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *other;

	put(p, 0x41, 0x53);			/* push %r11 */
	put(p, 0xb8);				/* mov  $gettid,%eax */
	put32(p, NR_GETTID);
	put(p, 0x0f, 0x05);			/* syscall */
	put(p, 0x89, 0xc2);			/* mov  %eax,%edx */
	put(p, 0xb8);				/* mov  $getpid,%eax */
	put32(p, NR_GETPID);
	put(p, 0x0f, 0x05);			/* syscall */
	put(p, 0x41, 0x5b);			/* pop  %r11 */
	if (!spec->has_tid)
		return;
	put(p, 0x64, 0x39, 0x14, 0x25);		/* cmp  %edx,%fs:tid */
	put32(p, spec->tid_off);
	other = put_jump8(p, JNZ);
	put(p, 0x89, 0xc6);			/* mov  %eax,%esi */
	put(p, 0x48, 0xb8);			/* movabs $RING_FREE,%rax */
	put64(p, RING_FREE);
	put(p, 0x48, 0xa3);			/* movabs %rax,free */
	put64(p, spec->pid_cell + offsetof(struct pid_page, free));
	put(p, 0x89, 0xf0);			/* mov  %esi,%eax */
	put(p, 0xa3);				/* movabs %eax,pid_cell */
	put64(p, spec->pid_cell);
	land8(other, *p);
}

static void put_none(uint8_t **p)
{
	put(p, 0x31, 0xc9);			/* xor  %ecx,%ecx */
	put(p, 0xc3);				/* ret */
}

/* eax = number; rcx and r11 stay */
static void put_call(uint8_t **p, uint32_t nr)
{
	put(p, 0x51, 0x41, 0x53);		/* push %rcx, %r11 */
	put(p, 0xb8);				/* mov  $nr,%eax */
	put32(p, nr);
	put(p, 0x0f, 0x05);			/* syscall */
	put(p, 0x41, 0x5b, 0x59);		/* pop  %r11, %rcx */
}

/*
 * With the lock: are we still who we were? Strangers are asked once more. Returns the branch of those
 * who are not; the others are behind it.
 */
static uint8_t *put_still(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *same = NULL, *other;

	if (spec->has_tid) {
		put(p, 0xa1);			/* movabs pid_cell,%eax */
		put64(p, spec->pid_cell);
		put(p, 0x39, 0xf0);		/* cmp  %esi,%eax */
		if (!spec->may_call)
			return put_jump8(p, JNZ);
		same = put_jump8(p, JZ);
	}
	put_call(p, NR_GETTID);
	put(p, 0x39, 0xd0);			/* cmp  %edx,%eax */
	other = put_jump8(p, JNZ);
	if (same)
		land8(same, *p);
	return other;
}

/* Each ring once, beginning with another one for each thread. `anew`: where the kernel is asked, or NULL. */
static void put_lock(uint8_t **p, const struct event_slow_spec *spec, const uint8_t *anew)
{
	uint8_t *again, *absent, *busy, *got, *forked, *none;

	put(p, 0x57, 0x41, 0x50);		/* push %rdi, %r8 */
	put(p, 0x89, 0xc6);			/* mov  %eax,%esi */
	put(p, 0x89, 0xd7);			/* mov  %edx,%edi */
	put(p, 0x48, 0xb8);			/* movabs $RING_FREE,%rax */
	put64(p, RING_FREE);
	put(p, 0x48, 0x09, 0xc2);		/* or   %rax,%rdx		as it is in the lock */
	put(p, 0x41, 0xb8);			/* mov  $nrings,%r8d */
	put32(p, spec->nrings);
	again = *p;
	put(p, 0x81, 0xe7);			/* and  $nrings - 1,%edi */
	put32(p, spec->nrings - 1);
	put(p, 0x48, 0xb9);			/* movabs $rings,%rcx */
	put64(p, spec->rings);
	put(p, 0x48, 0x8b, 0x0c, 0xf9);		/* mov  (%rcx,%rdi,8),%rcx */
	absent = put_jump8(p, 0xe3);		/* jrcxz next */
	put(p, 0x48, 0xb8);			/* movabs $RING_FREE,%rax */
	put64(p, RING_FREE);
	put(p, 0x48, 0x39, 0x81);		/* cmp  %rax,owner(%rcx) */
	put32(p, offsetof(struct ring_head, owner));
	busy = put_jump8(p, JNZ);
	put(p, 0xf0, 0x48, 0x0f, 0xb1, 0x91);	/* lock cmpxchg %rdx,owner(%rcx) */
	put32(p, offsetof(struct ring_head, owner));
	got = put_jump8(p, JZ);
	land8(absent, *p);
	land8(busy, *p);
	put(p, 0xff, 0xc7);			/* inc  %edi */
	put(p, 0x41, 0xff, 0xc8);		/* dec  %r8d */
	land8(put_jump8(p, JNZ), again);
	put(p, 0x31, 0xc9);			/* xor  %ecx,%ecx */
	none = put_jump8(p, JMP8);
	land8(got, *p);
	forked = put_still(p, spec);
	land8(none, *p);
	put(p, 0x89, 0xf0);			/* mov  %esi,%eax */
	put(p, 0x89, 0xd2);			/* mov  %edx,%edx */
	put(p, 0x41, 0x58, 0x5f);		/* pop  %r8, %rdi */
	put(p, 0xc3);				/* ret */
	land8(forked, *p);
	put(p, 0x41, 0x58, 0x5f);		/* pop  %r8, %rdi */
	if (!anew) {
		put_none(p);
		return;
	}
	put(p, 0xe9);				/* jmp  anew */
	put32(p, anew - (*p + 4));
}

static int put_take(uint8_t *base, const struct event_slow_spec *spec)
{
	uint8_t *unknown[3], *known = NULL, *p = base, *ask;

	if (spec->has_tid) {
		put_noted(&p, spec, unknown);
		known = put_jump8(&p, JMP8);
		for (int i = 0; i < 3; i++)
			land8(unknown[i], p);
	}
	ask = p;
	if (spec->may_call)
		put_asked(&p, spec);
	else
		put_none(&p);
	if (spec->has_tid)
		land8(known, p);
	if (spec->has_tid || spec->may_call)
		put_lock(&p, spec, spec->may_call ? ask : NULL);
	return p - base;
}

/*
 * The time goes where rdi stands now, and the head moves on if it is still where the event was written. Not
 * locked: it is for a copy of ourselves that may come here later, not at the same time. rdi changes; the
 * length is on the stack.
 */
static void put_commit(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *moved;

	put(p, 0x0f, 0x31);			/* rdtsc */
	put(p, 0x48, 0xc1, 0xe2, 0x20);		/* shl  $32,%rdx */
	put(p, 0x48, 0x09, 0xc2);		/* or   %rax,%rdx */
	put(p, 0x48, 0x89, 0xf8);		/* mov  %rdi,%rax */
	put(p, 0x48, 0x0f, 0xb1, 0x56, offsetof(struct event_head, time));	/* cmpxchg %rdx,time(%rsi) */
	put(p, 0x5a);				/* pop  %rdx */
	put(p, 0x48, 0x8b, 0x01);		/* mov  (%rcx),%rax */
	put(p, 0x48, 0x01, 0xc2);		/* add  %rax,%rdx */
	put(p, 0x89, 0xc7);			/* mov  %eax,%edi */
	put(p, 0x81, 0xe7);			/* and  $size - 1,%edi */
	put32(p, spec->ring_size - 1);
	put(p, 0x48, 0x8d, 0xbc, 0x39);		/* lea  data(%rcx,%rdi),%rdi */
	put32(p, RING_HEAD_SIZE);
	put(p, 0x48, 0x39, 0xfe);		/* cmp  %rdi,%rsi */
	moved = put_jump8(p, JNZ);
	put(p, 0x48, 0x0f, 0xb1, 0x11);		/* cmpxchg %rdx,(%rcx) */
	land8(moved, *p);
}

/* cmp %eax,pid of the event */
static void put_is_own(uint8_t **p)
{
	put(p, 0x39, 0x46, offsetof(struct event_head, pid));
}

static void put_end(uint8_t **p)
{
	put(p, 0x5f, 0xc3);			/* pop  %rdi; ret */
}

static void put_finish_known(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *other;

	put(p, 0xa1);				/* movabs pid_cell,%eax */
	put64(p, spec->pid_cell);
	put_is_own(p);
	other = put_jump8(p, JNZ);
	put_commit(p, spec);
	put(p, 0x48, 0x8d, 0xb9);		/* lea  owner(%rcx),%rdi */
	put32(p, offsetof(struct ring_head, owner));
	put(p, 0x48, 0xbe);			/* movabs $free,%rsi */
	put64(p, spec->pid_cell + offsetof(struct pid_page, free));
	put(p, 0x48, 0xa5);			/* movsq */
	put_end(p);
	land8(other, *p);
}

static void put_finish_asked(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *forked;

	put_call(p, NR_GETPID);
	put_is_own(p);
	forked = put_jump8(p, JNZ);
	put_commit(p, spec);
	put(p, 0xc7, 0x81);			/* movl $0,owner(%rcx) */
	put32(p, offsetof(struct ring_head, owner));
	put32(p, 0);
	put_end(p);
	land8(forked, *p);
}

/* What stands in the place of the time is read first: a copy made later finds something else there. */
static int put_finish(uint8_t *base, const struct event_slow_spec *spec)
{
	uint8_t *p = base;

	put(&p, 0x57, 0x52);			/* push %rdi, %rdx */
	put(&p, 0x48, 0x8b, 0x7e, offsetof(struct event_head, time));	/* mov  time(%rsi),%rdi */
	if (spec->has_tid)
		put_finish_known(&p, spec);
	if (spec->may_call)
		put_finish_asked(&p, spec);
	put(&p, 0x5a);				/* pop  %rdx */
	put_end(&p);
	return p - base;
}

int x86_emit_event_slow(uint8_t *out, const struct event_slow_spec *spec)
{
	uint8_t scratch[EVENT_SLOW_MAX];
	uint8_t *base = out ? out : scratch;
	int len;

	if (!spec->nrings || spec->nrings & (spec->nrings - 1) || spec->ring_size < RING_SIZE_MIN ||
	    spec->ring_size > RING_SIZE_MAX || spec->ring_size & (spec->ring_size - 1))
		return -EINVAL;
	len = put_take(base, spec);
	memset(base + len, 0xcc, EVENT_FINISH - len);
	return EVENT_FINISH + put_finish(base + EVENT_FINISH, spec);
}
