/* SPDX-License-Identifier: MIT */
/*
 * Routines for events that can't use the ring of their CPU: in threads without rseq, after an aborted sequence, in
 * processes that have not noted their pid yet, in threads without a thread block of their own (strangers, see
 * docs/glossary.md).
 *
 * The first routine takes a ring and returns
 *
 *	rcx	the struct ring_ref of a ring that is now locked by this thread, or 0
 *	eax	pid
 *	edx	tid
 *	rsi	the ring's head
 *
 * It changes only these registers and the flags, all of which its caller has saved. The lock holds the owner's tid,
 * so that the locks of dead threads can be released. The routine never waits: each ring is tried once. A signal
 * handler that interrupts an owner finds that ring locked and takes the next one.
 *
 * pid and tid are the noted ones (pid cell, thread block) while these are known to be right; otherwise the kernel
 * is asked. Its answer is noted for the next time only if the thread block has the same tid: a vfork child and a
 * bare clone run on another thread's block.
 *
 * If a signal handler forks between these answers and the lock, either the child or the parent has taken the lock
 * with the parent's tid, and neither can know which. So the child leaves the lock alone and starts again; the
 * tracer finds and releases locks whose owner does not use them (session/watches/locks.c).
 *
 * The second routine puts the time into an event, commits it and releases the lock: rcx is the ring, rsi the
 * address of the event in it, rdx the head; the caller's stack is that of put_enter(), with the pid. It changes all
 * of these, rax and the flags. In a copy of the owner that was forked before its check it does nothing. If the fork
 * comes after the check, owner and copy commit one event with one time: see ring_lock_owner(). (The copy has
 * written the same bytes of the event once more. A copy that is suspended in the middle of that until the ring has
 * wrapped overwrites newer events. Only private memory could prevent that; a child forked by a handler that returns
 * into the interrupted code is too rare to make every fork pay for it.)
 *
 * The third routine releases the lock of rcx without an event; edx is the pid. It changes rax, rdx and the flags,
 * and returns NZ in a copy of the owner.
 *
 * The fourth routine checks that the stack is mapped down to the address in rdi: rcx is 0 if it is, 1 if not. It is
 * jumped to, with the address to continue at in rdx, and changes rax, r11 and the flags; see STACK_PAGES.
 */
#include "arch/x86/x86.h"

#include "arch/x86/frame.h"
#include "base/err.h"

#define REF_SHIFT 5
_Static_assert(sizeof(struct ring_ref) == 1 << REF_SHIFT && offsetof(struct ring_ref, ring) == 0, "code knows it");

#define NR_GETPID 39
#define NR_GETTID 186

/* A branch whose rel8 is still 0; returns the address after it, for land8(). */
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

/* Branches if process_state.fast is 0: then nothing in a thread block may be read. rcx changes. Returns the branch. */
static uint8_t *put_unless_fast(uint8_t **p, const struct event_slow_spec *spec)
{
	put(p, 0x48, 0xb9);			/* movabs $fast,%rcx */
	put64(p, spec->fast);
	put(p, 0x83, 0x39, 0x00);		/* cmpl $0,(%rcx) */
	return put_jump8(p, JZ);
}

/* eax = noted pid, edx = noted tid. The three branches go to the code that asks the kernel. */
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

/* eax = this thread's value for `asking`: not 0, and different in every other thread and signal handler */
static void put_asking(uint8_t **p)
{
	put(p, 0x8d, 0x44, 0x24, 0x01);		/* lea  1(%rsp),%eax */
}

/*
 * Notes the pid in eax if the thread block has the tid in edx and `asking` is unchanged: one cmpxchg of both halves
 * of struct pid_page. It is not locked: other threads of the process note the same pid. rcx, rsi and r11 change.
 */
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

/* Branches if system calls may be forbidden. Returns the branch, or NULL if there is no such flag. eax changes. */
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

/* eax = pid, edx = tid, from the kernel; rcx and r11 change. No ring where system calls may be forbidden. */
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

/* eax = result of system call nr; rcx and r11 are kept */
static void put_call(uint8_t **p, uint32_t nr)
{
	put(p, 0x51, 0x41, 0x53);		/* push %rcx, %r11 */
	put(p, 0xb8);				/* mov  $nr,%eax */
	put32(p, nr);
	put(p, 0x0f, 0x05);			/* syscall */
	put(p, 0x41, 0x5b, 0x59);		/* pop  %r11, %rcx */
}

/*
 * With the lock taken and the pid on the stack: checks that this is still the process that took it. Threads whose
 * pid is not in the cell ask the kernel again. Returns the branch taken by a forked child; the owner continues
 * after it.
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

/*
 * Tries to take the lock of the ring in rcx; ZF if it was taken. The lock cmpxchg pairs with the releases:
 * cmpxchg16b in put_finish(), cmpxchg in put_give_back(), unlock() in blob/record.c, ring_free() in ring/ring.c.
 */
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

/*
 * rcx = a locked ring. Each ring is tried once, beginning with the one that the tid in edi selects; if all are
 * locked rcx is 0 and the returned branch is taken.
 */
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

/* rcx = the ring_ref of the ring that put_search() found; its number is still in edi */
static void put_ref(uint8_t **p, const struct event_slow_spec *spec)
{
	put(p, 0xc1, 0xe7, REF_SHIFT);		/* shl  $5,%edi */
	put(p, 0x48, 0xb9);			/* movabs $rings,%rcx */
	put64(p, spec->rings);
	put(p, 0x48, 0x01, 0xf9);		/* add  %rdi,%rcx */
}

/* Takes a ring. `anew`: the code that asks the kernel, or NULL. The head is read before the last check for a fork. */
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
		assert(p == base + EVENT_UNTIMED);
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
 * Compares the pid at off(%rsp) with the pid cell, and if it differs, with the kernel's answer: eax and the flags
 * change. Returns the branch taken if it is another process's.
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

/* reg = ring_lock_given_back(reg), for rcx or rsi */
static void put_given_back(uint8_t **p, int reg)
{
	put(p, 0x48, 0xc1, 0xe8 | reg, 0x20);	/* shr  $32,%reg */
	put(p, 0x48, 0xff, 0xc0 | reg);		/* inc  %reg */
	put(p, 0x48, 0xc1, 0xe0 | reg, 0x20);	/* shl  $32,%reg */
}

/*
 * The second routine. Lock and time are read before the check for a fork, so a copy forked after the check has the
 * same values. Each step after the check either stores the same bytes once more or can succeed only once. The
 * cmpxchg16b pairs with the acquire load of head in ring_peek_some() and with the lock cmpxchg in put_try().
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

/* The third routine. Its cmpxchg pairs with the lock cmpxchg in put_try(). */
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

/* rcx = number of the page of rdi plus the epoch, r11 = its entry in the cache of mapped pages; rax changes */
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

/* The fourth routine: if the page is not in the cache, time() has the kernel write to it. */
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

/* Fills the unused bytes up to `to` with int3. */
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
	if (spec->has_tid || spec->may_call)		/* otherwise no thread ever gets a ring */
		put_finish(&p, spec);
	p = fill(p, base + EVENT_GIVE_BACK);
	if (spec->has_tid || spec->may_call)
		put_give_back(&p, spec);
	p = fill(p, base + EVENT_ROOM);
	put_room(&p, spec);
	return p - base;
}
