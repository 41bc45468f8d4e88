/* SPDX-License-Identifier: MIT */
/*
 * Everything that event code needs around it, in this process: rings mapped twice, their tables, lost
 * counters, a pid cell that a fork wipes, and a place for the code.
 */
#ifndef JAB_TESTS_EVENT_RINGS_H
#define JAB_TESTS_EVENT_RINGS_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/arch.h"
#include "ring/ring.h"

#define MAX_CPUS (CPU_TABLE_FEW - 2)
#define NSLOW 4
#define MAX_RINGS (MAX_CPUS + NSLOW)
#define LOST_INDEX 3
#define CODE_SIZE 131072
#define BODY_OFF 1024		/* bodies behind the slow routine */

struct shared {
	uint64_t table[CPU_TABLE_FEW], lost_table[CPU_TABLE_FEW];
	struct ring_ref slow_table[NSLOW];
	struct process_state state;
	uint64_t epoch;
	uint64_t lost[MAX_RINGS][8];
	uint64_t lost_shared;
	uint64_t no_stack;
	uint64_t pages[STACK_PAGES];
};

static struct shared *shared;
static uint32_t *pid_cell;
static uint8_t *code_rw, *code_rx;
static struct ring rings[MAX_RINGS];	/* of the CPUs, then those behind a lock */
static uint64_t ring_size;
static int ncpus;

static inline void *map_or_die(size_t size, int prot, int flags, int fd)
{
	void *p = mmap(NULL, size, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static inline void make_areas(void)
{
	int fd = memfd_create("code", 0);

	if (fd < 0 || ftruncate(fd, CODE_SIZE) < 0)
		abort();
	code_rw = map_or_die(CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	code_rx = map_or_die(CODE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
	close(fd);
	shared = map_or_die(sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	pid_cell = map_or_die(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (madvise(pid_cell, 4096, MADV_WIPEONFORK) < 0)
		abort();
	ncpus = sysconf(_SC_NPROCESSORS_CONF);
}

/* Head page, data, the same data again. */
static inline uint8_t *map_ring(uint64_t size)
{
	int fd = memfd_create("ring", 0), rw = PROT_READ | PROT_WRITE;
	uint8_t *at = map_or_die(RING_HEAD_SIZE + 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (fd < 0 || ftruncate(fd, RING_HEAD_SIZE + size) < 0 ||
	    mmap(at, RING_HEAD_SIZE + size, rw, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
	    mmap(at + RING_HEAD_SIZE + size, size, rw, MAP_SHARED | MAP_FIXED, fd,
		 RING_HEAD_SIZE) == MAP_FAILED)
		abort();
	close(fd);
	return at;
}

static inline int nrings(void)
{
	return ncpus + NSLOW;
}

/* Can threads be told apart? */
static inline void set_fast(bool known)
{
	shared->state.fast = known;
}

static inline void note_pid(void)
{
	*pid_cell = getpid();
}

/* New, empty rings. */
static inline void reset_rings(uint64_t size)
{
	for (int i = 0; i < nrings() && ring_size; i++)
		munmap(rings[i].head, RING_HEAD_SIZE + 2 * ring_size);
	ring_size = size;
	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < nrings(); i++) {
		uint8_t *at = map_ring(size);

		if (ring_attach(&rings[i], at, at + RING_HEAD_SIZE, size) < 0)
			abort();
		if (i >= ncpus) {
			shared->slow_table[i - ncpus] = (struct ring_ref){ .ring = (uint64_t)at, .lost = (uint64_t)shared->lost[i] };
		} else {
			shared->table[i] = (uint64_t)at;
			shared->lost_table[i] = (uint64_t)shared->lost[i];
		}
	}
	set_fast(true);
	note_pid();
}

/* Where glibc keeps the tid, found as it will be found in a target. */
static inline int32_t find_tid_off(void)
{
	const uint8_t *fs = __builtin_thread_pointer();
	int32_t tid = gettid();

	for (int32_t off = 0; off < 2048; off += 4)
		if (!memcmp(fs + off, &tid, 4))
			return off;
	abort();
}

static inline struct event_spec make_spec(bool has_rseq, const struct event_field *fields, int n)
{
	return (struct event_spec){
		.rseq_off = __rseq_offset,
		.rseq_sig = RSEQ_SIG,
		.has_rseq = has_rseq,
		.has_tid = true,
		.tid_off = find_tid_off(),
		.ring_table = (uint64_t)shared->table,
		.lost_table = (uint64_t)shared->lost_table,
		.fast = (uint64_t)&shared->state.fast,
		.pid_cell = (uint64_t)pid_cell,
		.slow = (uint64_t)code_rx,
		.lost_shared = (uint64_t)&shared->lost_shared,
		.no_stack = (uint64_t)&shared->no_stack,
		.lost_index = LOST_INDEX,
		.ring_size = ring_size,
		.id = 42,
		.nfields = n,
		.fields = fields,
	};
}

static inline struct event_slow_spec make_slow_spec(void)
{
	return (struct event_slow_spec){
		.fast = (uint64_t)&shared->state.fast,
		.pid_cell = (uint64_t)pid_cell,
		.tid_off = find_tid_off(),
		.has_tid = true,
		.may_call = true,
		.rings = (uint64_t)shared->slow_table,
		.nrings = NSLOW,
		.ring_size = ring_size,
		.pages = (uint64_t)shared->pages,
		.epoch = (uint64_t)&shared->epoch,
		.quiet = (uint64_t)&shared->state.quiet,
		.timeless = (uint64_t)&shared->state.timeless,
	};
}

static inline void emit_slow(const struct event_slow_spec *spec)
{
	int len = arch_x86_64.emit_event_slow(code_rw, spec);

	if (len <= 0 || len > EVENT_SLOW_MAX || arch_x86_64.emit_event_slow(NULL, spec) != len)
		abort();
}

/* The body at BODY_OFF + off, and something behind it to come back by. */
static inline uint8_t *emit_body(int off, const struct event_spec *spec, const uint8_t *tail,
				 size_t tail_len)
{
	uint8_t *at = code_rx + BODY_OFF + off;
	int len = arch_x86_64.emit_event(code_rw + BODY_OFF + off, (uint64_t)at, spec);

	if (len <= 0 || len > EVENT_CODE_MAX || arch_x86_64.emit_event(NULL, 0, spec) != len)
		abort();
	memcpy(code_rw + BODY_OFF + off + len, tail, tail_len);
	return at;
}

static inline uint64_t lost_of_rings(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < nrings(); i++)
		sum += ring_lost(&rings[i]);
	return sum;
}

/* This probe's. */
static inline uint64_t lost_of_probe(void)
{
	uint64_t sum = shared->lost_shared;

	for (int i = 0; i < nrings(); i++)
		sum += shared->lost[i][LOST_INDEX];
	return sum;
}

typedef void event_fn(int ring, const struct event_head *e, const uint64_t *fields);

/* Read what is there. Returns how many events. */
static inline uint64_t drain(event_fn *look)
{
	uint64_t n = 0;

	for (int i = 0; i < nrings(); i++) {
		uint64_t off = 0, at = 0, len;
		const uint8_t *span = NULL;
		struct event_head e;

		len = ring_peek(&rings[i], &span);
		while (ring_next(&rings[i], span, len, &off, &e)) {
			look(i, &e, (const uint64_t *)(span + at + sizeof(e)));
			at = off;
			n++;
		}
		if (len)
			ring_consume(&rings[i], len);
	}
	return n;
}

#endif
