/* SPDX-License-Identifier: MIT */
/*
 * The routines of events that can't use the ring of their CPU: threads without rseq, aborted
 * sequences, processes that don't know their own number yet, strangers.
 *
 * The first gives back
 *
 *	rcx	the struct ring_ref of a ring whose lock is ours, or 0
 *	eax	pid
 *	edx	tid
 *	rsi	its head
 *
 * and changes only these and the flags, all of which its caller has saved. The lock has the owner's
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
 * The second one puts the time into an event, commits it and gives the lock back: rcx is the ring, rsi where
 * the event stands in it, rdx the head; the caller's stack is that of put_enter(), with the pid. It
 * changes all of these, rax and the flags. If we are the copy of an owner made by a fork since, it does
 * nothing; and if the fork comes behind that look, the two of them commit one event, with one time: see
 * ring_lock_owner(). (What the copy has written of the event itself was the same once more. A copy that
 * sleeps in the middle of that until the ring has been gone round spoils what is there by then. Only another
 * memory in its place could prevent that; the child of a handler that goes on in what its parent was interrupted in is
 * too rare to make every fork pay for it.)
 *
 * The third one gives the lock of rcx back without an event; edx is the pid. It changes rax, rdx and the flags, and
 * says NZ to the copy of an owner.
 *
 * The fourth one says whether there is stack down to the address in rdi: rcx is 0, or 1 if there is none. It is jumped
 * to, with the address to go on at in rdx, and changes rax, r11 and the flags; see STACK_PAGES.
 */
#include "arch/x86/x86.h"

#include "arch/x86/frame.h"
#include "base/err.h"

#define REF_SHIFT 5
_Static_assert(sizeof(struct ring_ref) == 1 << REF_SHIFT && offsetof(struct ring_ref, ring) == 0, "code knows it");

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

/* rcx changes. Returns the branch of threads that can't be told apart: they may not look into their blocks. */
static uint8_t *put_unless_fast(uint8_t **p, const struct event_slow_spec *spec)
{
	put(p, 0x48, 0xb9);			/* movabs $fast,%rcx */
	put64(p, spec->fast);
	put(p, 0x83, 0x39, 0x00);		/* cmpl $0,(%rcx) */
	return put_jump8(p, JZ);
}

/* eax, edx as noted. The three branches go to where the kernel is asked. */
static void put_noted(uint8_t **p, const struct event_slow_spec *spec, uint8_t *ret_unknown[3])
{
	ret_unknown[0] = put_unless_fast(p, spec);
	put(p, 0xa1);				/* movabs pid_cell,%eax */
	put64(p, spec->pid_cell);
	put(p, 0x85, 0xc0);			/* test %eax,%eax */
	ret_unknown[1] = put_jump8(p, JZ);
	put(p, 0x64, 0x8b, 0x14, 0x25);		/* mov  %fs:tid,%edx */
	put32(p, spec->tid_off);
	put(p, 0x85, 0xd2);			/* test %edx,%edx */
	ret_unknown[2] = put_jump8(p, JZ);
}

/* eax = what stands for us in `asking`: not 0, and another thread or a handler has another one */
static void put_asking(uint8_t **p)
{
	put(p, 0x8d, 0x44, 0x24, 0x01);		/* lea  1(%rsp),%eax */
}

/* Note eax, for who is edx in its thread block. rcx, rsi and r11 change. */
static void put_note(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *none = put_unless_fast(p, spec), *other;

	put(p, 0x64, 0x39, 0x14, 0x25);		/* cmp  %edx,%fs:tid */
	put32(p, spec->tid_off);
	other = put_jump8(p, JNZ);
	put(p, 0x89, 0xc6);			/* mov  %eax,%esi */
	put_asking(p);
	put(p, 0x48, 0xc1, 0xe0, 0x20);		/* shl  $32,%rax		asking, pid 0 */
	put(p, 0x4c, 0x8d, 0x1c, 0x30);		/* lea  (%rax,%rsi),%r11 */
	put(p, 0x48, 0xb9);			/* movabs $pid_cell,%rcx */
	put64(p, spec->pid_cell);
	put(p, 0x4c, 0x0f, 0xb1, 0x19);		/* cmpxchg %r11,(%rcx) */
	put(p, 0x89, 0xf0);			/* mov  %esi,%eax */
	land8(none, *p);
	land8(other, *p);
}

/* May the kernel still be asked? Returns the branch of those who may not, or NULL. eax changes. */
static uint8_t *put_quiet(uint8_t **p, const struct event_slow_spec *spec)
{
	if (!spec->quiet)
		return NULL;
	put(p, 0xa1);				/* movabs quiet,%eax */
	put64(p, spec->quiet);
	put(p, 0x85, 0xc0);			/* test %eax,%eax */
	return put_jump8(p, JNZ);
}

static void put_none(uint8_t **p)
{
	put(p, 0x31, 0xc9);			/* xor  %ecx,%ecx */
	put(p, 0xc3);				/* ret */
}

/* eax, edx from the kernel, which changes rcx and r11. Who may not ask gets no ring. */
static void put_asked(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *quiet = put_quiet(p, spec), *may;

	if (quiet) {
		may = put_jump8(p, JMP8);
		land8(quiet, *p);
		put_none(p);
		land8(may, *p);
	}
	put(p, 0x41, 0x53);			/* push %r11 */
	if (spec->has_tid) {
		put_asking(p);
		put(p, 0xa3);			/* movabs %eax,asking */
		put64(p, spec->pid_cell + offsetof(struct pid_page, asking));
	}
	put(p, 0xb8);				/* mov  $gettid,%eax */
	put32(p, NR_GETTID);
	put(p, 0x0f, 0x05);			/* syscall */
	put(p, 0x89, 0xc2);			/* mov  %eax,%edx */
	put(p, 0xb8);				/* mov  $getpid,%eax */
	put32(p, NR_GETPID);
	put(p, 0x0f, 0x05);			/* syscall */
	if (spec->has_tid)
		put_note(p, spec);
	put(p, 0x41, 0x5b);			/* pop  %r11 */
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
 * With the lock, and the pid on the stack: are we still who we were? Strangers are asked once more. Returns the branch
 * of those who are not; the others are behind it.
 */
static uint8_t *put_still(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *same = NULL, *other;

	if (spec->has_tid) {
		put(p, 0xa1);			/* movabs pid_cell,%eax */
		put64(p, spec->pid_cell);
		put(p, 0x3b, 0x04, 0x24);	/* cmp  (%rsp),%eax */
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

/* ZF if the lock of the ring in rcx is ours now. */
static void put_try(uint8_t **p)
{
	uint8_t *busy;

	put(p, 0x48, 0x8b, 0x41, offsetof(struct ring_head, lock));	/* mov  lock(%rcx),%rax */
	put(p, 0x85, 0xc0);			/* test %eax,%eax */
	busy = put_jump8(p, JNZ);
	put(p, 0x48, 0x8d, 0x34, 0x10);		/* lea  (%rax,%rdx),%rsi */
	put(p, 0xf0, 0x48, 0x0f, 0xb1, 0x71, offsetof(struct ring_head, lock));	/* lock cmpxchg %rsi,lock(%rcx) */
	land8(busy, *p);
}

/* rcx = a ring, each tried once, beginning with another one for each thread; or 0, by the branch that is returned. */
static uint8_t *put_search(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *again, *absent, *got, *none;

	put(p, 0x41, 0xb8);			/* mov  $nrings,%r8d */
	put32(p, spec->nrings);
	again = *p;
	put(p, 0x81, 0xe7);			/* and  $nrings - 1,%edi */
	put32(p, spec->nrings - 1);
	put(p, 0x48, 0xb9);			/* movabs $rings,%rcx */
	put64(p, spec->rings);
	put(p, 0x89, 0xf8, 0xc1, 0xe0, REF_SHIFT);	/* mov  %edi,%eax; shl $5,%eax */
	put(p, 0x48, 0x8b, 0x0c, 0x01);		/* mov  (%rcx,%rax),%rcx: ring_ref.ring */
	absent = put_jump8(p, 0xe3);		/* jrcxz next */
	put_try(p);
	got = put_jump8(p, JZ);
	land8(absent, *p);
	put(p, 0xff, 0xc7);			/* inc  %edi */
	put(p, 0x41, 0xff, 0xc8);		/* dec  %r8d */
	land8(put_jump8(p, JNZ), again);
	put(p, 0x31, 0xc9);			/* xor  %ecx,%ecx */
	none = put_jump8(p, JMP8);
	land8(got, *p);
	return none;
}

/* rcx = that which was found by put_search(), whose edi is still there */
static void put_ref(uint8_t **p, const struct event_slow_spec *spec)
{
	put(p, 0xc1, 0xe7, REF_SHIFT);		/* shl  $5,%edi */
	put(p, 0x48, 0xb9);			/* movabs $rings,%rcx */
	put64(p, spec->rings);
	put(p, 0x48, 0x01, 0xf9);		/* add  %rdi,%rcx */
}

/* `anew`: where the kernel is asked, or NULL. The head is read before the last look at who we are. */
static void put_lock(uint8_t **p, const struct event_slow_spec *spec, const uint8_t *anew)
{
	uint8_t *forked, *none;

	put(p, 0x57, 0x41, 0x50, 0x50);		/* push %rdi, %r8, %rax */
	put(p, 0x89, 0xd7);			/* mov  %edx,%edi */
	none = put_search(p, spec);
	put(p, 0x48, 0x8b, 0x31);		/* mov  (%rcx),%rsi */
	forked = put_still(p, spec);
	put_ref(p, spec);
	land8(none, *p);
	put(p, 0x58, 0x41, 0x58, 0x5f);		/* pop  %rax, %r8, %rdi */
	put(p, 0xc3);				/* ret */
	land8(forked, *p);
	put(p, 0x58, 0x41, 0x58, 0x5f);		/* pop  %rax, %r8, %rdi */
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

	if (spec->timeless) {
		put(&p, 0xa1);			/* movabs timeless,%eax */
		put64(&p, spec->timeless);
		put(&p, 0x85, 0xc0, 0x74, 3);	/* test %eax,%eax; jz 1f */
		put_none(&p);
	}
	if (spec->has_tid) {			/* 1: */
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
 * Is the pid at off(%rsp) ours? By the cell, and where that has another number, by the kernel: eax and the flags change.
 * Returns the branch of those who are another process.
 */
static uint8_t *put_own(uint8_t **p, const struct event_slow_spec *spec, uint8_t off)
{
	uint8_t *same = NULL, *other;

	if (spec->has_tid) {
		put(p, 0xa1);			/* movabs pid_cell,%eax */
		put64(p, spec->pid_cell);
		put(p, 0x3b, 0x44, 0x24, off);	/* cmp  off(%rsp),%eax */
		if (!spec->may_call)
			return put_jump8(p, JNZ);
		same = put_jump8(p, JZ);
	}
	put_call(p, NR_GETPID);
	put(p, 0x3b, 0x44, 0x24, off);		/* cmp  off(%rsp),%eax */
	other = put_jump8(p, JNZ);
	if (same)
		land8(same, *p);
	return other;
}

/* ring_lock_given_back() of rcx or rsi */
static void put_given_back(uint8_t **p, int reg)
{
	put(p, 0x48, 0xc1, 0xe8 | reg, 0x20);	/* shr  $32,%reg */
	put(p, 0x48, 0xff, 0xc0 | reg);		/* inc  %reg */
	put(p, 0x48, 0xc1, 0xe0 | reg, 0x20);	/* shl  $32,%reg */
}

/*
 * Lock and time are read before we look who we are: a copy made since has the same ones. Behind that look, each
 * step is either the same once more or can be done only once.
 */
static void put_finish(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *other;

	put(p, 0x57, 0x53, 0x52);		/* push %rdi, %rbx, %rdx */
	put(p, 0x48, 0x89, 0xcf);		/* mov  %rcx,%rdi */
	put(p, 0x48, 0x8b, 0x4f, offsetof(struct ring_head, lock));	/* mov  lock(%rdi),%rcx */
	put(p, 0x8b, 0x5e, offsetof(struct event_head, len));	/* mov  len(%rsi),%ebx */
	put(p, 0x0f, 0x31);			/* rdtsc */
	put(p, 0x48, 0xc1, 0xe2, 0x20);		/* shl  $32,%rdx */
	put(p, 0x48, 0x09, 0xc2);		/* or   %rax,%rdx */
	other = put_own(p, spec, 4 * 8 + SAVED_PID);
	put(p, 0x48, 0x89, 0x56, offsetof(struct event_head, time));	/* mov  %rdx,time(%rsi) */
	put(p, 0x58);				/* pop  %rax */
	put(p, 0x48, 0x01, 0xc3);		/* add  %rax,%rbx */
	put(p, 0x48, 0x89, 0xca);		/* mov  %rcx,%rdx */
	put_given_back(p, RCX);
	put(p, 0xf0, 0x48, 0x0f, 0xc7, 0x0f);	/* lock cmpxchg16b (%rdi) */
	put(p, 0x5b, 0x5f, 0xc3);		/* pop  %rbx, %rdi; ret */
	land8(other, *p);
	put(p, 0x5a, 0x5b, 0x5f, 0xc3);		/* pop  %rdx, %rbx, %rdi; ret */
}

static void put_give_back(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *other;

	put(p, 0x56, 0x52);			/* push %rsi, %rdx */
	put(p, 0x48, 0x8b, 0x71, offsetof(struct ring_head, lock));	/* mov  lock(%rcx),%rsi */
	other = put_own(p, spec, 0);
	put(p, 0x48, 0x89, 0xf0);		/* mov  %rsi,%rax */
	put_given_back(p, RSI);
	put(p, 0xf0, 0x48, 0x0f, 0xb1, 0x71, offsetof(struct ring_head, lock));	/* lock cmpxchg %rsi,lock(%rcx) */
	land8(other, *p);
	put(p, 0x5a, 0x5e, 0xc3);		/* pop  %rdx, %rsi; ret */
}

/* rcx = number of the page of rdi and the epoch, r11 = where it stands if it is good; rax changes */
static void put_page(uint8_t **p, const struct event_slow_spec *spec)
{
	put(p, 0x48, 0x89, 0xf9);		/* mov  %rdi,%rcx */
	put(p, 0x48, 0xc1, 0xe9, 0x0c);		/* shr  $12,%rcx */
	put(p, 0x89, 0xc8, 0x25);		/* mov  %ecx,%eax; and $STACK_PAGES - 1,%eax */
	put32(p, STACK_PAGES - 1);
	put(p, 0x49, 0xbb);			/* movabs $pages,%r11 */
	put64(p, spec->pages);
	put(p, 0x4d, 0x8d, 0x1c, 0xc3);		/* lea  (%r11,%rax,8),%r11 */
	put(p, 0x48, 0xb8);			/* movabs $epoch,%rax */
	put64(p, spec->epoch);
	put(p, 0x48, 0x03, 0x08);		/* add  (%rax),%rcx */
}

static void put_room(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *known, *quiet = NULL, *bad = NULL;

	put_page(p, spec);
	put(p, 0x49, 0x39, 0x0b);		/* cmp  %rcx,(%r11) */
	known = put_jump8(p, JZ);
	if (spec->may_call) {
		quiet = put_quiet(p, spec);
		put(p, 0xb8);			/* mov  $time,%eax */
		put32(p, NR_TIME);
		put(p, 0x0f, 0x05);		/* syscall */
		put(p, 0x48, 0x83, 0xf8, -EFAULT);	/* cmp  $-EFAULT,%rax */
		bad = put_jump8(p, JZ);
		put_page(p, spec);
		put(p, 0x49, 0x89, 0x0b);	/* mov  %rcx,(%r11) */
		if (quiet)
			land8(quiet, *p);
	}
	land8(known, *p);
	put(p, 0x31, 0xc9, 0xff, 0xe2);		/* xor  %ecx,%ecx; jmp *%rdx */
	if (!bad)
		return;
	land8(bad, *p);
	put(p, 0xb9);				/* mov  $1,%ecx */
	put32(p, 1);
	put(p, 0xff, 0xe2);			/* jmp  *%rdx */
}

/* Nobody jumps into what is left of it. */
static uint8_t *fill(uint8_t *p, uint8_t *to)
{
	assert(p <= to);
	memset(p, 0xcc, to - p);
	return to;
}

int x86_emit_event_slow(uint8_t *out, const struct event_slow_spec *spec)
{
	uint8_t scratch[EVENT_SLOW_MAX];
	uint8_t *base = out ? out : scratch, *p;

	if (!spec->nrings || spec->nrings & (spec->nrings - 1) || spec->ring_size < RING_SIZE_MIN ||
	    spec->ring_size > RING_SIZE_MAX || spec->ring_size & (spec->ring_size - 1))
		return -EINVAL;
	p = fill(base + put_take(base, spec), base + EVENT_FINISH);
	if (spec->has_tid || spec->may_call)		/* otherwise nobody ever gets a ring */
		put_finish(&p, spec);
	p = fill(p, base + EVENT_GIVE_BACK);
	if (spec->has_tid || spec->may_call)
		put_give_back(&p, spec);
	p = fill(p, base + EVENT_ROOM);
	put_room(&p, spec);
	return p - base;
}
