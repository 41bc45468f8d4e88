/* SPDX-License-Identifier: MIT */
/*
 * What a probe adds to a call: a site of five bytes jumps to a pad, the pad does its work and
 * jumps back. The figure is the best of many rounds minus the same calls with a nop at the site. Part
 * of the work hides behind the latency of the call itself, as it does in real programs; the second
 * column shows it without that help. An event is measured against the time stamp in it, which nobody
 * can have for less.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/mem.h"

#define CALLS 200000
#define ROUNDS 60
#define CODE_SIZE (1 << 18)
#define SITE_STEP 64
#define PAD_OFF 4096
#define PAD_STEP 512
#define SLOW_OFF (CODE_SIZE - 4096)	/* the routine for threads without rseq */
#define MAX_CPUS (CPU_TABLE_FEW - 2)

static uint8_t *code;			/* read, write, execute: our own process only */
static uint64_t table[CPU_TABLE_FEW];
static uint64_t counters[MAX_CPUS][8] __attribute__((aligned(64)));
static uint64_t shared __attribute__((aligned(64)));

#define RING_SIZE (16u << 20)

static uint64_t ring_table[CPU_TABLE_FEW], lost_table[CPU_TABLE_FEW];
static struct ring_ref locked_rings[1];
static struct process_state state = { .fast = 1 };
static struct ring_head *all_rings[MAX_CPUS + 1];
static int nrings;
static struct pid_page own __attribute__((aligned(8)));
static uint64_t lost[8];

static struct count_spec make_spec(bool has_rseq)
{
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		table[cpu] = (uint64_t)counters[cpu];
	return (struct count_spec){
		.rseq_off = __rseq_offset,
		.rseq_sig = RSEQ_SIG,
		.has_rseq = has_rseq,
		.cpu_table = (uint64_t)table,
		.fast = (uint64_t)&state.fast,
		.shared = (uint64_t)&shared,
		.index = 3,
	};
}

/* Mapped twice, and touched: a page fault is not what we want to know. */
static struct ring_head *make_ring(void)
{
	int fd = memfd_create("ring", 0), rw = PROT_READ | PROT_WRITE;
	uint8_t *at = mmap(NULL, RING_HEAD_SIZE + 2 * RING_SIZE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || ftruncate(fd, RING_HEAD_SIZE + RING_SIZE) || at == MAP_FAILED ||
	    mmap(at, RING_HEAD_SIZE + RING_SIZE, rw, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
	    mmap(at + RING_HEAD_SIZE + RING_SIZE, RING_SIZE, rw, MAP_SHARED | MAP_FIXED, fd,
		 RING_HEAD_SIZE) == MAP_FAILED)
		return NULL;
	close(fd);
	memset(at, 0, RING_HEAD_SIZE + 2 * RING_SIZE);
	all_rings[nrings++] = (struct ring_head *)at;
	return (struct ring_head *)at;
}

/* Where the thread block has our tid. */
static int32_t find_tid_off(void)
{
	const uint8_t *fs = __builtin_thread_pointer();
	int32_t tid = gettid(), off = 0;

	while (off < 4096 && memcmp(fs + off, &tid, 4))
		off += 4;
	return off;
}

static int make_rings(void)
{
	int ncpus = MIN(sysconf(_SC_NPROCESSORS_CONF), MAX_CPUS);
	struct event_slow_spec slow = {
		.fast = (uint64_t)&state.fast,
		.pid_cell = (uint64_t)&own,
		.tid_off = find_tid_off(),
		.has_tid = true,
		.may_call = true,
		.rings = (uint64_t)locked_rings,
		.nrings = 1,
		.ring_size = RING_SIZE,
	};

	for (int cpu = 0; cpu < ncpus; cpu++) {
		if (!(ring_table[cpu] = (uint64_t)make_ring()))
			return -1;
		lost_table[cpu] = (uint64_t)lost;
	}
	locked_rings[0] = (struct ring_ref){ .ring = (uint64_t)make_ring(), .lost = (uint64_t)lost };
	if (!locked_rings[0].ring)
		return -1;
	own.pid = getpid();
	return arch_x86_64.emit_event_slow(code + SLOW_OFF, &slow);
}

/* What a reader would do: the next round finds room. */
static void empty_rings(void)
{
	for (int i = 0; i < nrings; i++)
		all_rings[i]->tail = all_rings[i]->head;
}

/* Time stamp, pid, tid and two arguments. */
static struct event_spec make_event(bool has_rseq, bool overwrite)
{
	static const struct event_field args[] = { { EVENT_REG, 7, 8, 0 }, { EVENT_REG, 6, 8, 0 } };

	return (struct event_spec){
		.rseq_off = __rseq_offset,
		.rseq_sig = RSEQ_SIG,
		.has_rseq = has_rseq,
		.has_tid = true,
		.overwrite = overwrite,
		.tid_off = find_tid_off(),
		.ring_table = (uint64_t)ring_table,
		.lost_table = (uint64_t)lost_table,
		.fast = (uint64_t)&state.fast,
		.pid_cell = (uint64_t)&own,
		.slow = (uint64_t)code + SLOW_OFF,
		.lost_shared = (uint64_t)&lost[0],
		.lost_index = 1,
		.ring_size = RING_SIZE,
		.nfields = 2,
		.fields = args,
	};
}

/* site: nop or jump, then ret. Returns the address to call. */
static uint8_t *make_site(int n, const uint8_t *body, int len)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	uint8_t *site = code + n * SITE_STEP;
	uint8_t *pad = code + PAD_OFF + n * PAD_STEP;

	memcpy(site, nop5, 5);
	site[5] = 0xc3;
	if (!body)
		return site;
	memcpy(pad, body, len);
	arch_x86_64.jump(pad + len, (uint64_t)pad + len, (uint64_t)site + 5);
	arch_x86_64.jump(site, (uint64_t)site, (uint64_t)pad);
	return site;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double ns_per_call(uint8_t *site, int calls)
{
	void (*call)(void) = (void (*)(void))site;
	double best = 1e9;

	for (int r = 0; r < ROUNDS; r++) {
		double start;

		empty_rings();
		start = now_ns();

		for (int i = 0; i < calls; i++)
			call();
		double ns = (now_ns() - start) / calls;

		if (ns < best)
			best = ns;
	}
	return best;
}

/* A pad with nothing but `times` copies of the work: what one more costs when nothing hides it. */
#define TIMES 16

/* What goes into the pad: one of the generators and its spec. */
struct work {
	const char *what;
	const struct count_spec *count;
	const struct event_spec *event;
};

static int emit(const struct work *w, uint8_t *out, uint64_t at)
{
	if (w->count)
		return arch_x86_64.emit_count(out, at, w->count);
	return arch_x86_64.emit_event(out, at, w->event);
}

static double ns_in_a_row(int *n, const struct work *w)
{
	uint8_t body[TIMES * EVENT_CODE_MAX];
	uint64_t pad = (uint64_t)code + PAD_OFF + *n * PAD_STEP;
	int len = 0;

	for (int i = 0; i < TIMES; i++)
		len += emit(w, body + len, pad + len);

	double ns = ns_per_call(make_site(*n, body, len), CALLS / TIMES);

	*n += len / PAD_STEP + 1;
	return ns / TIMES;
}

static void report(const struct work *w, int *n, double base)
{
	uint8_t body[EVENT_CODE_MAX];
	int len = emit(w, body, (uint64_t)code + PAD_OFF + *n * PAD_STEP);
	double ns = ns_per_call(make_site((*n)++, body, len), CALLS) - base;

	printf("%-24s %6.2f ns   %6.2f ns   %d bytes\n", w->what, ns, ns_in_a_row(n, w), len);
}

static void report_all(int *n, double base)
{
	struct count_spec per_cpu = make_spec(true), locked = make_spec(false);
	struct event_spec event = make_event(true, false), newest = make_event(true, true);
	struct event_spec behind_lock = make_event(false, false);
	const struct work with_rseq[] = {
		{ "count with rseq", &per_cpu, NULL },
		{ "event with rseq", NULL, &event },
		{ "event, overwriting", NULL, &newest },
	}, without[] = {
		{ "count with lock", &locked, NULL },
		{ "event with lock", NULL, &behind_lock },
	};

	if (!__rseq_size)
		puts("with rseq: this thread is not registered");
	for (size_t i = 0; __rseq_size && i < ARRAY_SIZE(with_rseq); i++)
		report(&with_rseq[i], n, base);
	for (size_t i = 0; i < ARRAY_SIZE(without); i++)
		report(&without[i], n, base);
}

/* Each call must have made its event, or the figures say nothing. */
static void check_events(void)
{
	unsigned long want = (__rseq_size ? 3 : 1) * 2ul * ROUNDS * (CALLS / TIMES * TIMES), bytes = 0;

	for (int i = 0; i < nrings; i++)
		bytes += all_rings[i]->head;
	if (bytes != want * event_len(2) || lost[0] || lost[1])
		printf("%lu events of %lu, %lu lost: THE FIGURES ARE WRONG\n", bytes / event_len(2), want,
		       (unsigned long)(lost[0] + lost[1]));
}

int main(void)
{
	static const uint8_t rdtsc[] = { 0x50, 0x52, 0x0f, 0x31, 0x5a, 0x58 };
	double base;
	int n = 0;

	code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return perror("mmap"), 1;

	if (make_rings() < 0)
		return perror("rings"), 1;

	base = ns_per_call(make_site(n++, NULL, 0), CALLS);
	printf("call of a nop and ret    %6.2f ns\n", base);
	printf("added by                  a pad     %d in a row, each\n", TIMES);
	printf("jump and back            %6.2f ns\n", ns_per_call(make_site(n++, rdtsc, 0), CALLS) - base);
	report_all(&n, base);
	check_events();
	printf("push, rdtsc, pop         %6.2f ns\n",
	       ns_per_call(make_site(n++, rdtsc, sizeof(rdtsc)), CALLS) - base);
	return 0;
}
