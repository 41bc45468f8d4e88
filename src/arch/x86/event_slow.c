/* SPDX-License-Identifier: MIT */
/*
 * The routine that event code calls when it can't use the ring of its CPU: threads without rseq,
 * aborted sequences, processes that don't know their own number yet, strangers. It gives back
 *
 *	rcx	a ring whose lock is ours, or 0
 *	eax	pid
 *	edx	tid
 *
 * and changes only these, rsi and the flags, all of which its caller has saved. The lock is a word
 * with the owner's tid, so that the locks of the dead can be freed. It never waits: each ring is tried
 * once. A signal handler that interrupts an owner finds that ring taken and gets the next.
 *
 * pid and tid are those that the process has noted, while they can be believed; else the kernel is
 * asked. The answer is noted for next time only if the thread block has the same tid: a vfork child
 * and a bare clone run on somebody else's.
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
	put(p, 0xa3);				/* movabs %eax,pid_cell */
	put64(p, spec->pid_cell);
	land8(other, *p);
}

static void put_none(uint8_t **p)
{
	put(p, 0x31, 0xc9);			/* xor  %ecx,%ecx */
	put(p, 0xc3);				/* ret */
}

/* Each ring once, beginning with another one for each thread. */
static void put_lock(uint8_t **p, const struct event_slow_spec *spec)
{
	uint8_t *again, *absent, *busy, *got;

	put(p, 0x57, 0x41, 0x50);		/* push %rdi, %r8 */
	put(p, 0x89, 0xc6);			/* mov  %eax,%esi */
	put(p, 0x89, 0xd7);			/* mov  %edx,%edi */
	put(p, 0x41, 0xb8);			/* mov  $nrings,%r8d */
	put32(p, spec->nrings);
	again = *p;
	put(p, 0x81, 0xe7);			/* and  $nrings - 1,%edi */
	put32(p, spec->nrings - 1);
	put(p, 0x48, 0xb9);			/* movabs $rings,%rcx */
	put64(p, spec->rings);
	put(p, 0x48, 0x8b, 0x0c, 0xf9);		/* mov  (%rcx,%rdi,8),%rcx */
	absent = put_jump8(p, 0xe3);		/* jrcxz next */
	put(p, 0x31, 0xc0);			/* xor  %eax,%eax */
	put(p, 0x39, 0x81);			/* cmp  %eax,owner(%rcx) */
	put32(p, offsetof(struct ring_head, owner));
	busy = put_jump8(p, JNZ);
	put(p, 0xf0, 0x0f, 0xb1, 0x91);		/* lock cmpxchg %edx,owner(%rcx) */
	put32(p, offsetof(struct ring_head, owner));
	got = put_jump8(p, JZ);
	land8(absent, *p);
	land8(busy, *p);
	put(p, 0xff, 0xc7);			/* inc  %edi */
	put(p, 0x41, 0xff, 0xc8);		/* dec  %r8d */
	land8(put_jump8(p, JNZ), again);
	put(p, 0x31, 0xc9);			/* xor  %ecx,%ecx */
	land8(got, *p);
	put(p, 0x89, 0xf0);			/* mov  %esi,%eax */
	put(p, 0x41, 0x58, 0x5f);		/* pop  %r8, %rdi */
	put(p, 0xc3);				/* ret */
}

int x86_emit_event_slow(uint8_t *out, const struct event_slow_spec *spec)
{
	uint8_t scratch[EVENT_SLOW_MAX];
	uint8_t *unknown[3], *known = NULL;
	uint8_t *base = out ? out : scratch, *p = base;

	if (!spec->nrings || spec->nrings & (spec->nrings - 1))
		return -EINVAL;
	if (spec->has_tid) {
		put_noted(&p, spec, unknown);
		known = put_jump8(&p, JMP8);
		for (int i = 0; i < 3; i++)
			land8(unknown[i], p);
	}
	if (spec->may_call)
		put_asked(&p, spec);
	else
		put_none(&p);
	if (spec->has_tid)
		land8(known, p);
	if (spec->has_tid || spec->may_call)
		put_lock(&p, spec);
	return p - base;
}
