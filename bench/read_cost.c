/* SPDX-License-Identifier: MIT */
/*
 * What it costs to record what a pointer points to, in each of the ways, beside a bare rdtsc and beside
 * events that need no check. The ways take turns in every round and the best round of each is shown, so that
 * the ratios hold on a busy machine, too.
 */
#include <stdio.h>
#include <sys/uio.h>
#include <time.h>
#include <x86intrin.h>

#include "../tests/unit/blob_rings.h"

#define CALLS 2000
#define ROUNDS 150
#define RING (4u << 20)

static uint64_t words[4] = { 1, 2, 3, 4 };
static char text_16[] = "fifteen letters", text_200[200];
static char *at_page_end;

enum by { BY_RDTSC, BY_CALL, BY_READV, BY_EVENT, BY_BULK };

#define GOOD(word) { .kind = EVENT_MEM, .reg = BULK_NO_REG, .size = 8, .flags = BULK_GOOD, \
		     .value = (uint64_t)&words[word] }
#define ASKED(n) { .kind = EVENT_MEM, .reg = 7, .size = 8, .value = 8 * (n) }
#define STRING(r) { .kind = EVENT_STRING, .reg = r, .limit = 64 }

struct way {
	const char *what;
	enum by by;
	bool has_rseq;
	uint32_t n;
	struct bulk_field fields[4];
	uint64_t first;		/* rdi */
	double best;
	bulk_fn *fn;
	struct bulk_desc *desc;
};

static struct way ways[] = {
	{ .what = "rdtsc", .by = BY_RDTSC },
	{ .what = "the cheapest system call", .by = BY_CALL },
	{ .what = "process_vm_readv itself, 8 bytes", .by = BY_READV },
	{ .what = "event, two registers", .by = BY_EVENT, .has_rseq = true },
	{ .what = "the same behind a lock", .by = BY_EVENT },
	{ .what = "bulk event, nothing to read", .by = BY_BULK },
	{ .what = "plain load, one field", .by = BY_BULK, .n = 1, .fields = { { 0 } } },
	{ .what = "plain load, four fields", .by = BY_BULK, .n = 4 },
	{ .what = "checked, one field", .by = BY_BULK, .n = 1, .fields = { ASKED(0) } },
	{ .what = "checked, four fields", .by = BY_BULK, .n = 4,
	  .fields = { ASKED(0), ASKED(1), ASKED(2), ASKED(3) } },
	{ .what = "checked, one bad field", .by = BY_BULK, .n = 1, .fields = { ASKED(0) }, .first = 16 },
	{ .what = "checked, four bad fields", .by = BY_BULK, .n = 4,
	  .fields = { ASKED(0), ASKED(1), ASKED(2), ASKED(3) }, .first = 16 },
	{ .what = "string of 16 bytes", .by = BY_BULK, .n = 1, .fields = { STRING(7) } },
	{ .what = "string cut at 64 bytes", .by = BY_BULK, .n = 1, .fields = { STRING(7) } },
	{ .what = "string across two pages", .by = BY_BULK, .n = 1, .fields = { STRING(7) } },
	{ .what = "string behind a pointer", .by = BY_BULK, .n = 1,
	  .fields = { { .kind = EVENT_STRING, .reg = 7, .limit = 64, .flags = BULK_DEREF } } },
};

#define NWAYS (sizeof(ways) / sizeof(ways[0]))

/* What can't stand in a constant. */
static void set_pointers(void)
{
	static char *pointer = text_16;
	char *pages = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	at_page_end = pages + 4096 - 8;
	memcpy(at_page_end, text_16, sizeof(text_16));
	memset(text_200, 'x', sizeof(text_200) - 1);
	for (int i = 0; i < 4; i++)
		ways[7].fields[i] = (struct bulk_field)GOOD(i);
	ways[6].fields[0] = (struct bulk_field)GOOD(0);
	ways[8].first = ways[9].first = (uint64_t)words;
	ways[12].first = (uint64_t)text_16;
	ways[13].first = (uint64_t)text_200;
	ways[14].first = (uint64_t)at_page_end;
	ways[15].first = (uint64_t)&pointer;
}

/* Each way has code and a description of its own. */
static void make_code(void)
{
	static const struct event_field two[] = { { EVENT_REG, 7, 8, 0 }, { EVENT_REG, 6, 8, 0 } };
	static const uint8_t ret[] = { 0xc3 };

	for (size_t i = 0; i < NWAYS; i++) {
		struct way *w = &ways[i];
		struct event_spec spec = make_spec(w->has_rseq, two, 2);

		if (w->by == BY_EVENT) {
			w->fn = (bulk_fn *)emit_body((EVENT_CODE_MAX + 64) * (i - 3), &spec, ret, sizeof(ret));	/* the first two of them */
		} else if (w->by == BY_BULK) {
			desc = map_or_die(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
			describe(w->fields, w->n, BULK_MAY_CALL);
			w->fn = (bulk_fn *)emit_bulk_body(1024 * (i - 5), ret, sizeof(ret));
		}
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void call(const struct way *w)
{
	struct iovec to = { &(uint64_t){ 0 }, 8 }, from = { words, 8 };
	pid_t pid = *pid_cell;

	for (int i = 0; i < CALLS; i++) {
		if (w->by == BY_RDTSC)
			__rdtsc();
		else if (w->by == BY_CALL)
			syscall(SYS_getppid);
		else if (w->by == BY_READV)
			process_vm_readv(pid, &to, 1, &from, 1, 0);
		else
			w->fn(w->first, 0, 0);
	}
}

static uint64_t total_head(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < nrings(); i++) {
		sum += rings[i].head->head;
		rings[i].head->tail = rings[i].head->head;
	}
	return sum;
}

static bool measure(struct way *w)
{
	uint64_t before = total_head(), start = now_ns(), took;

	call(w);
	took = now_ns() - start;
	if (!w->best || (double)took / CALLS < w->best)
		w->best = (double)took / CALLS;
	return !w->fn || total_head() - before >= CALLS * 32;
}

int main(void)
{
	make_blob_areas();
	set_pointers();
	reset_bulk_rings(RING, true);
	make_code();
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < NWAYS; i++)
			if (!measure(&ways[i]) || lost_of_probe()) {
				printf("events are missing: %s\n", ways[i].what);
				return 1;
			}
	printf("%-36s %8s %8s\n", "a call with", "ns", "x rdtsc");
	for (size_t i = 0; i < NWAYS; i++)
		printf("%-36s %8.1f %8.1f\n", ways[i].what, ways[i].best, ways[i].best / ways[0].best);
	return 0;
}
