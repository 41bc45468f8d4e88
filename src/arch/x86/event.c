/* SPDX-License-Identifier: MIT */
/*
 * The code in a pad that writes an event. Like the counting code it keeps every register, the flags and the red
 * zone, and assumes nothing of them.
 *
 *	hot	save; process_state.fast?	0: locked
 *		arm the sequence
 *	start	ring = table[cpu]; pid, tid	one of them is 0: slow
 *		room in the ring?		no: full
 *		write the event at head; head += len		<- the one store that commits
 *	end	disarm
 *	out	restore; jump over the cold part
 *	cold	descriptor
 *	slow	disarm
 *	locked	check the stack; take a locked ring; none: lost
 *		room in the ring?		no: release it; lost
 *		write the event at head; the second routine sets the time, commits and unlocks; out
 *	full	disarm; count it as lost in the ring of the CPU that we are on by now; it has none: lost
 *	lost	count it for all rings together
 *
 * Preemption, a move to another CPU and signals between start and end lead to `slow`, with nothing committed. The
 * sequence is not tried again: aborts are rare, and a debugger that single-steps through it aborts it every time.
 * Without rseq, `locked` is in the place of the sequence.
 */
#include "arch/x86/x86.h"

#include "arch/x86/frame.h"
#include "arch/rseq.h"
#include "base/err.h"

/*
 * The reader has had the cache lines of the ring since they were last written, and a store that waits for its line
 * delays all later stores. So the line that is needed a few events later is requested now, which saves 2 to 4 ns
 * per event. A prefetch after the end of a ring does no harm, and a CPU without prefetchw treats it as a nop.
 */
#define AHEAD 512

/* The code being written, and the branches in it whose target comes later. */
struct body {
	const struct event_spec *spec;
	uint8_t *base;
	uint8_t *p;
	uint64_t at;		/* address of base */
	uint32_t len;		/* of the event */
	uint8_t *to_descriptor;
	uint8_t *to_slow[3], *to_locked;
	int nslow;
	uint8_t *to_full, *to_full_locked, *to_lost[2], *no_stack;
	int nlost;
	uint8_t *start, *end, *out;
};

/* A rel32 that is still 0; returns its address, for land(). */
static uint8_t *put_later(uint8_t **p)
{
	put32(p, 0);
	return *p - 4;
}

static void land(uint8_t *branch, const uint8_t *target)
{
	int32_t rel = target - (branch + 4);

	memcpy(branch, &rel, sizeof(rel));
}

static void put_disarm(struct body *b)
{
	put(&b->p, 0x64, 0x48, 0xc7, 0x04, 0x25);	/* movq $0,%fs:rseq_cs */
	put32(&b->p, b->spec->rseq_off + RSEQ_CS);
	put32(&b->p, 0);
}

static void put_jz_slow(struct body *b)
{
	put(&b->p, 0x0f, 0x84);			/* jz   slow */
	b->to_slow[b->nslow++] = put_later(&b->p);
}

static void put_jz_lost(struct body *b)
{
	put(&b->p, 0x0f, 0x84);			/* jz   lost */
	b->to_lost[b->nlost++] = put_later(&b->p);
}

/* Comes before anything relative to the thread pointer. */
static void put_is_fast(struct body *b)
{
	uint8_t **p = &b->p;

	put(p, 0x48, 0xb9);			/* movabs $fast,%rcx */
	put64(p, b->spec->fast);
	put(p, 0x83, 0x39, 0, 0x0f, 0x84);	/* cmpl $0,(%rcx); je locked */
	b->to_locked = put_later(p);
}

/* eax = pid, edx = tid */
static void put_ids(uint8_t **p, uint64_t pid_cell, int32_t tid_off)
{
	put(p, 0xa1);				/* movabs pid_cell,%eax */
	put64(p, pid_cell);
	put(p, 0x64, 0x8b, 0x14, 0x25);		/* mov  %fs:tid,%edx */
	put32(p, tid_off);
}

/*
 * Arms the sequence and finds this CPU's ring: rcx. A thread block without a tid is not libc's, and the CPU number
 * in it is not valid either.
 */
static void put_find(struct body *b)
{
	const struct event_spec *spec = b->spec;
	uint8_t **p = &b->p;

	put(p, 0x48, 0x8d, 0x05);		/* lea  descriptor(%rip),%rax */
	b->to_descriptor = put_later(p);
	put(p, 0x64, 0x48, 0x89, 0x04, 0x25);	/* mov  %rax,%fs:rseq_cs */
	put32(p, spec->rseq_off + RSEQ_CS);

	/* No instruction may be between that store and the start, or a signal there would disarm the sequence unnoticed. */
	b->start = *p;
	put_cpu(p, spec->rseq_off + RSEQ_CPU_ID, spec->many_cpus);
	put(p, 0x48, 0xb8);			/* movabs $table,%rax */
	put64(p, spec->ring_table);
	put(p, 0x48, 0x8b, 0x0c, 0xc8);		/* mov  (%rax,%rcx,8),%rcx */
	put(p, 0x48, 0x85, 0xc9);		/* test %rcx,%rcx */
	put_jz_slow(b);
	put_ids(p, spec->pid_cell, spec->tid_off);
	put(p, 0x85, 0xc0);			/* test %eax,%eax */
	put_jz_slow(b);
	put(p, 0x85, 0xd2);			/* test %edx,%edx */
	put_jz_slow(b);
}

/*
 * Checks that the event fits after the head in rsi, which changes. Returns the branch taken if it does not. The
 * load of tail is plain and pairs with the release store in set_tail() (ring/ring.c): x86 does not move the stores
 * of the event before it.
 */
static uint8_t *put_check(struct body *b)
{
	uint8_t **p = &b->p;

	put(p, 0x48, 0x2b, 0x71, offsetof(struct ring_head, tail));	/* sub  tail(%rcx),%rsi */
	put(p, 0x48, 0x81, 0xfe);		/* cmp  $size - len,%rsi */
	put32(p, b->spec->ring_size - b->len);
	put(p, 0x0f, 0x87);			/* ja   full */
	return put_later(p);
}

/*
 * If the event ends in another stretch than it begins in, the next event is the first one there: sets that
 * stretch's mark. Head in rdx, which is kept.
 */
static void put_mark(struct body *b)
{
	uint32_t stretch = ring_stretch(b->spec->ring_size);
	uint8_t **p = &b->p, *skip;

	put(p, 0x48, 0x8d, 0x82);		/* lea  len(%rdx),%rax */
	put32(p, b->len);
	put(p, 0x48, 0x31, 0xd0);		/* xor  %rdx,%rax */
	put(p, 0x48, 0xa9);			/* test $-stretch,%rax */
	put32(p, -stretch);
	put(p, 0x74, 0);			/* jz   1f */
	skip = *p;
	put(p, 0x48, 0x81, 0xc2);		/* add  $len,%rdx */
	put32(p, b->len);
	put(p, 0x48, 0x89, 0xd0);		/* mov  %rdx,%rax */
	put(p, 0x48, 0xc1, 0xe8, __builtin_ctz(stretch));	/* shr  $log2(stretch),%rax */
	put(p, 0x25);				/* and  $marks - 1,%eax */
	put32(p, b->spec->ring_size / stretch - 1);
	put(p, 0x48, 0x89, 0x94, 0xc1);		/* mov  %rdx,marks(%rcx,%rax,8) */
	put32(p, offsetof(struct ring_head, marks));
	put(p, 0x48, 0x81, 0xea);		/* sub  $len,%rdx */
	put32(p, b->len);
	skip[-1] = *p - skip;			/* 1: */
}

/* mov %reg,off(%rsi) */
static void put_store(uint8_t **p, int reg, uint32_t off)
{
	put(p, reg & 8 ? 0x4c : 0x48, 0x89);
	if (off < 128) {
		put(p, 0x46 | (reg & 7) << 3, off);
	} else {
		put(p, 0x86 | (reg & 7) << 3);
		put32(p, off);
	}
}

static void put_register(uint8_t **p, int reg, uint32_t off)
{
	static const uint8_t saved[] = {
		[RAX] = SAVED_RAX, [RCX] = SAVED_RCX, [RDX] = SAVED_RDX, [RSI] = SAVED_RSI,
	};

	if (reg == RSP) {
		put(p, 0x48, 0x8d, 0x84, 0x24);	/* lea  SITE_RSP(%rsp),%rax */
		put32(p, SITE_RSP);
	} else if (reg <= RSI && saved[reg]) {
		put(p, 0x48, 0x8b, 0x44, 0x24, saved[reg]);	/* mov saved(%rsp),%rax */
	} else {
		put_store(p, reg, off);
		return;
	}
	put_store(p, RAX, off);
}

/* movq %xmm,off(%rsi) */
static void put_xmm(uint8_t **p, int reg, uint32_t off)
{
	put(p, 0x66);
	if (reg & 8)
		put(p, 0x44);
	put(p, 0x0f, 0xd6, 0x86 | (reg & 7) << 3);
	put32(p, off);
}

/* rax = f->size bytes at the address f->value */
static void put_absolute(uint8_t **p, const struct event_field *f)
{
	if (f->size < 4)
		put(p, 0x31, 0xc0);		/* xor  %eax,%eax */
	if (f->size == 2)
		put(p, 0x66);
	else if (f->size == 8)
		put(p, 0x48);
	put(p, f->size == 1 ? 0xa0 : 0xa1);	/* movabs value,%al %ax %eax %rax */
	put64(p, f->value);
}

static void put_field(uint8_t **p, const struct event_field *f, uint32_t off)
{
	switch (f->kind) {
	case EVENT_REG:
		put_register(p, f->reg, off);
		return;
	case EVENT_IMM:
		put(p, 0x48, 0xb8);		/* movabs $value,%rax */
		put64(p, f->value);
		break;
	case EVENT_STACK:
		put(p, 0x48, 0x8b, 0x84, 0x24);	/* mov  value(%rsp),%rax */
		put32(p, SITE_RSP + f->value);
		break;
	case EVENT_VECTOR:
		put_xmm(p, f->reg, off);
		return;
	case EVENT_ABS:
		put_absolute(p, f);
		break;
	}
	put_store(p, RAX, off);
}

static void put_time(uint8_t **p)
{
	put(p, 0x0f, 0x31);			/* rdtsc */
	put(p, 0x48, 0xc1, 0xe2, 0x20);		/* shl  $32,%rdx */
	put(p, 0x48, 0x09, 0xc2);		/* or   %rax,%rdx */
	put_store(p, RDX, offsetof(struct event_head, time));
}

/* rsi = address of the event whose position is in rsi */
static void put_place(struct body *b)
{
	uint8_t **p = &b->p;

	put(p, 0x81, 0xe6);			/* and  $size - 1,%esi */
	put32(p, b->spec->ring_size - 1);
	put(p, 0x48, 0x8d, 0xb4, 0x31);		/* lea  data(%rcx,%rsi),%rsi */
	put32(p, RING_HEAD_SIZE);
	put(p, 0x0f, 0x0d, 0x8e);		/* prefetchw AHEAD(%rsi) */
	put32(p, AHEAD);
}

/* Only rax changes. */
static void put_payload(struct body *b)
{
	const struct event_spec *spec = b->spec;
	uint8_t **p = &b->p;

	put(p, 0x48, 0xb8);			/* movabs $id and len,%rax */
	put64(p, (uint64_t)b->len << 32 | spec->id);
	put_store(p, RAX, 0);
	for (uint32_t i = 0; i < spec->nfields; i++)
		put_field(p, &spec->fields[i], event_len(i));
}

/* Writes the event. Ring in rcx, pid in eax, tid in edx. */
static void put_write(struct body *b)
{
	uint8_t **p = &b->p;

	put(p, 0x48, 0x8b, 0x31);		/* mov  (%rcx),%rsi */
	put_place(b);
	put(p, 0x89, 0x46, offsetof(struct event_head, pid));	/* mov  %eax,pid(%rsi) */
	put(p, 0x89, 0x56, offsetof(struct event_head, tid));	/* mov  %edx,tid(%rsi) */
	if (b->spec->overwrite) {
		put(p, 0x48, 0x8b, 0x11);	/* mov  (%rcx),%rdx */
		put_mark(b);
	}
	put_time(p);
	put_payload(b);
}

/* The addq is the commit. It pairs with the acquire load of head in ring_peek_some(); x86 keeps the order of stores. */
static void put_sequence(struct body *b)
{
	uint8_t **p = &b->p;

	put_is_fast(b);
	put_find(b);
	if (!b->spec->overwrite) {
		put(p, 0x48, 0x8b, 0x31);	/* mov  (%rcx),%rsi */
		b->to_full = put_check(b);
	}
	put_write(b);
	put(p, 0x48, 0x81, 0x01);		/* addq $len,(%rcx) */
	put32(p, b->len);
	b->end = *p;
	put_disarm(b);				/* the descriptor may be unmapped later */
}

/*
 * Writes the event at the head read when the lock was taken (rsi): in a copy of the owner (see ring_lock_owner())
 * the current head could belong to another event. So a copy writes the same bytes once more, at the same position.
 * Pid in eax, tid in edx. Out: rsi is the address of the event, rdx the head.
 */
static void put_write_locked(struct body *b)
{
	uint8_t **p = &b->p;

	put(p, 0x89, 0x44, 0x24, SAVED_PID);	/* mov  %eax,pid(%rsp) */
	put(p, 0x48, 0x89, 0xf0);		/* mov  %rsi,%rax */
	if (!b->spec->overwrite)
		b->to_full_locked = put_check(b);
	put(p, 0x89, 0xc6);			/* mov  %eax,%esi */
	put_place(b);
	put(p, 0x89, 0x56, offsetof(struct event_head, tid));	/* mov  %edx,tid(%rsi) */
	put(p, 0x8b, 0x54, 0x24, SAVED_PID);	/* mov  pid(%rsp),%edx */
	put(p, 0x89, 0x56, offsetof(struct event_head, pid));	/* mov  %edx,pid(%rsi) */
	put(p, 0x48, 0x89, 0xc2);		/* mov  %rax,%rdx */
	if (b->spec->overwrite)
		put_mark(b);
	put_payload(b);
}

/* Writes the event to a ring with a lock. The routines it calls need stack. */
static void put_locked(struct body *b)
{
	uint8_t **p = &b->p;

	if (b->spec->no_stack)
		b->no_stack = put_ask_room(p, b->spec->slow, b->spec->no_stack, EVENT_STACK_NEED);
	put(p, 0x48, 0xb8);			/* movabs $slow,%rax */
	put64(p, b->spec->slow);
	put(p, 0xff, 0xd0);			/* call *%rax */
	put(p, 0x48, 0x85, 0xc9);		/* test %rcx,%rcx */
	put_jz_lost(b);
	put(p, 0x48, 0x8b, 0x09);		/* mov  (%rcx),%rcx: ring_ref.ring */
	put_write_locked(b);
	put(p, 0x48, 0xb8);			/* movabs $slow + EVENT_FINISH,%rax */
	put64(p, b->spec->slow + EVENT_FINISH);
	put(p, 0xff, 0xd0);			/* call *%rax */
}

static void put_jump(struct body *b, const uint8_t *to)
{
	put(&b->p, 0xe9);
	land(put_later(&b->p), to);
}

/* The slow path, after the signature: the address at which an aborted sequence continues. */
static void put_slow(struct body *b)
{
	for (int i = 0; i < b->nslow; i++)
		land(b->to_slow[i], b->p);
	put_disarm(b);
	land(b->to_locked, b->p);
	put_locked(b);
	put_jump(b, b->out);
}

static void put_lost(struct body *b)
{
	uint8_t **p = &b->p;

	for (int i = 0; i < b->nlost; i++)
		land(b->to_lost[i], *p);
	put(p, 0x48, 0xb9);			/* movabs $lost_shared,%rcx */
	put64(p, b->spec->lost_shared);
	put(p, 0xf0, 0x48, 0xff, 0x01);		/* lock incq (%rcx) */
	put_jump(b, b->out);
}

/*
 * Counts an event that found the ring full. Both increments are locked: the thread may be on another CPU by now,
 * and then counts in that CPU's ring and counters. The probe's counter is incremented first: the ring's counter
 * says that there is something to read.
 */
static void put_full(struct body *b)
{
	uint8_t **p = &b->p;

	land(b->to_full, *p);
	put_disarm(b);
	put_cpu(p, b->spec->rseq_off + RSEQ_CPU_ID, b->spec->many_cpus);
	put(p, 0x48, 0xb8);			/* movabs $ring_table,%rax */
	put64(p, b->spec->ring_table);
	put(p, 0x48, 0x8b, 0x34, 0xc8);		/* mov  (%rax,%rcx,8),%rsi */
	put(p, 0x48, 0xb8);			/* movabs $lost_table,%rax */
	put64(p, b->spec->lost_table);
	put(p, 0x48, 0x8b, 0x0c, 0xc8);		/* mov  (%rax,%rcx,8),%rcx */
	put(p, 0x48, 0x85, 0xf6);		/* test %rsi,%rsi */
	put_jz_lost(b);
	put(p, 0xf0, 0x48, 0xff, 0x81);		/* lock incq 8*index(%rcx) */
	put32(p, 8 * b->spec->lost_index);
	put(p, 0xf0, 0x48, 0xff, 0x46, offsetof(struct ring_head, lost));	/* lock incq lost(%rsi) */
	put_jump(b, b->out);
}

/*
 * The locked ring is full: releases it, then falls through to put_lost(). A copy of the owner has no ring to
 * release and has lost nothing: it leaves.
 */
static void put_full_locked(struct body *b)
{
	uint8_t **p = &b->p;

	land(b->to_full_locked, *p);
	put(p, 0x8b, 0x54, 0x24, SAVED_PID);	/* mov  pid(%rsp),%edx */
	put(p, 0x48, 0xb8);			/* movabs $slow + EVENT_GIVE_BACK,%rax */
	put64(p, b->spec->slow + EVENT_GIVE_BACK);
	put(p, 0xff, 0xd0);			/* call *%rax */
	put(p, 0x0f, 0x85);			/* jnz  out */
	land(put_later(p), b->out);
}

static uint64_t address_of(const struct body *b, const uint8_t *p)
{
	return b->at + (p - b->base);
}

/* Aligned by its address. The room for the alignment is always taken, so that the length does not depend on `at`. */
static void put_descriptor(struct body *b)
{
	uint8_t *room_end = b->p + RSEQ_DESCRIPTOR_ALIGN - 1 + sizeof(struct rseq_descriptor);
	uint8_t *here = b->p + (-address_of(b, b->p) & (RSEQ_DESCRIPTOR_ALIGN - 1));
	struct rseq_descriptor d = {
		.start_ip = address_of(b, b->start),
		.post_commit_offset = b->end - b->start,
		.abort_ip = address_of(b, room_end + 4),
	};

	memset(b->p, 0xcc, room_end - b->p);
	memcpy(here, &d, sizeof(d));
	land(b->to_descriptor, here);
	b->p = room_end;
	put32(&b->p, b->spec->rseq_sig);
}

/*
 * Branches if a field on the stack is not in the page of the stack pointer. rax changes. Returns the branch, or
 * NULL if no check is needed.
 */
static uint8_t *put_is_near(struct body *b)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < b->spec->nfields; i++)
		if (b->spec->fields[i].kind == EVENT_STACK && b->spec->fields[i].value > most)
			most = b->spec->fields[i].value;
	if (!b->spec->far || !most)
		return NULL;
	put(&b->p, 0x8d, 0x84, 0x24);		/* lea  SITE_RSP(%rsp),%eax */
	put32(&b->p, SITE_RSP);
	put(&b->p, 0x25);			/* and  $4095,%eax */
	put32(&b->p, 4095);
	put(&b->p, 0x3d);			/* cmp  $4096 - 8 - most,%eax */
	put32(&b->p, 4096 - 8 - most);
	put(&b->p, 0x0f, 0x87);			/* ja   far */
	return put_later(&b->p);
}

static void put_far(struct body *b, uint8_t *from)
{
	land(from, b->p);
	put_leave(&b->p);
	put(&b->p, 0xe9);			/* jmp  there */
	put32(&b->p, b->spec->far - (address_of(b, b->p) + 4));
}

int x86_emit_event(uint8_t *out, uint64_t at, const struct event_spec *spec)
{
	uint8_t scratch[EVENT_CODE_MAX];
	struct event_spec own = *spec;
	struct body b = { .spec = &own, .at = at, .len = event_len(spec->nfields) };
	uint8_t *over, *far;
	int r = event_spec_check(spec, 16, EVENT_STACK_MIN);

	if (r < 0)
		return r;
	own.has_rseq = spec->has_rseq && spec->has_tid;	/* without a tid in the thread block the slow path asks the kernel */
	b.base = b.p = out ? out : scratch;
	put_enter(&b.p);
	far = put_is_near(&b);
	if (own.has_rseq)
		put_sequence(&b);
	else
		put_locked(&b);
	b.out = b.p;
	put_leave(&b.p);
	put(&b.p, 0xe9);			/* jmp  over the cold part */
	over = put_later(&b.p);
	if (own.has_rseq) {
		put_descriptor(&b);
		put_slow(&b);
	}
	if (b.to_full)
		put_full(&b);
	if (b.to_full_locked)
		put_full_locked(&b);
	put_lost(&b);
	if (b.no_stack)
		land(b.no_stack - 4, b.out);
	if (far)
		put_far(&b, far);
	land(over, b.p + spec->behind);
	return b.p - b.base;
}
