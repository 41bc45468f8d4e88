/* SPDX-License-Identifier: MIT */
/*
 * A family with an enemy in it. The parent does work whose results it checks; children that have dropped their
 * privileges overwrite everything of jab's that they can write, with values made to mislead: ring heads, locks, marks,
 * heads of events, counters, map entries, parking slots. A child may spoil what is counted and recorded. It must not
 * reach the parent: that ends with "ok" and status 0.
 *
 *	hostile SECONDS SEED [exec]	exec: the parent executes itself once more after half of the time
 */
#include "prog.h"
#include "arch/event.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define THREADS 3
#define SPELL_US 60000		/* a child lives so long: the next one finds what was mapped since */

struct node { struct node *next; long value; const char *name; };
struct range { uint64_t *at; size_t words; };

static volatile int stop;

noinline long deed(long n, const char *text, const struct node *list)
{
	long sum = n;

	for (; list; list = list->next)
		sum += list->value;
	__asm__ volatile("" : "+r"(sum) : "r"(text));
	return sum;
}

noinline long outer(long n, const char *text, const struct node *list)
{
	return deed(n, text, list) + 1;
}

/* ---- the child ---- */

static uint64_t state;

static uint64_t dice(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static size_t find(struct range *v, size_t most)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;
	char line[512];
	size_t n = 0;

	while (f && n < most && fgets(line, sizeof(line), f))
		if ((strstr(line, "memfd:jab") || strstr(line, "SYSV6a6162")) && strstr(line, " rw-s ") &&
		    sscanf(line, "%lx-%lx", &lo, &hi) == 2)
			v[n++] = (struct range){ (uint64_t *)lo, (hi - lo) / 8 };
	if (f)
		fclose(f);
	return n;
}

static uint64_t value(const struct range *r, size_t at)
{
	uint64_t now = r->at[at];

	switch (dice() % 12) {
	case 0: return 0;
	case 1: return -1ull;
	case 2: return 0x7fffffff;
	case 3: return dice();
	case 4: return dice() % 4096;
	case 5: return r->at[dice() % r->words];
	case 6: return now + (dice() % 64) - 32;
	case 7: return (dice() % 70000) | (dice() % 70000) << 32;
	case 8: return 1ull << (dice() % 64);
	case 9: return (uint64_t)r->at + dice() % (8 * r->words);	/* a good address of jab's memory */
	case 10: return (uint64_t)(uintptr_t)&state;			/* and one of the family's own */
	default: return now ^ 1ull << (dice() % 64);
	}
}

/* What looks like a ring: its head is told lies about where the events are, and the events about their length. */
static void spoil_ring(const struct range *r)
{
	struct ring_head *h = (struct ring_head *)r->at;
	uint64_t size = 8 * r->words - RING_HEAD_SIZE;
	struct event_head *e;

	switch (dice() % 6) {
	case 0: h->head += 8 * (dice() % 64) - 128; return;
	case 1: h->head = value(r, 0); return;
	case 2: h->lock = value(r, 1); return;
	case 3: h->tail = dice() & 1 ? h->head - dice() % (2 * size) : value(r, 8); return;
	case 4: h->marks[dice() % RING_MARKS] = value(r, 0); return;
	}
	e = (struct event_head *)((uint8_t *)r->at + RING_HEAD_SIZE + (h->head & (size - 1) & ~7ull));
	if ((uint8_t *)(e + 1) > (uint8_t *)(r->at + r->words))
		return;
	*e = (struct event_head){ dice() % 40, dice() & 1 ? 8 * (dice() % 600) : dice(), dice(), dice() % 70000, dice() % 70000 };
	if (dice() & 1)
		h->head += e->len & 0xfff8;
}

static void spoil(const struct range *v, size_t n)
{
	const struct range *r = &v[dice() % n];
	size_t at = dice() % 4 ? dice() % (r->words < 1024 ? r->words : 1024) : dice() % r->words;

	if (8 * r->words > RING_HEAD_SIZE + RING_SIZE_MIN - 1 && dice() & 1)
		spoil_ring(r);
	else
		r->at[at] = value(r, at);
}

static void child(uint64_t seed)
{
	uint64_t end = now_ns() + 1000ull * SPELL_US;
	struct range v[512];
	size_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	state = seed * 0x9e3779b97f4a7c15ull | 1;
	n = find(v, 512);
	if (getuid() == 0 && (setgid(65534) || setuid(65534)))
		_exit(1);
	while (n && now_ns() < end) {
		for (int i = 0; i < 64; i++)
			spoil(v, n);
		if (dice() % 8 == 0)
			deed(dice() % 1000, "a child's", NULL);		/* its own hits find what it has done */
		usleep(200);
	}
	_exit(0);
}

/* ---- the parent ---- */

static void *worker(void *arg)
{
	struct node *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b)), *c = malloc(sizeof(*c));
	char text[32];

	*c = (struct node){ NULL, 3, "c" };
	*b = (struct node){ c, 2, "b" };
	*a = (struct node){ b, 1, "a" };
	for (long i = 0; !stop; i++) {
		snprintf(text, sizeof(text), "text %ld", i % 50);
		if (outer(i, text, a) != i + 7)
			bad("outer(%ld) is wrong", i);
		if (i % 512 == 0)
			usleep(100);
	}
	free(a);
	free(b);
	free(c);
	return NULL;
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 2, seed = argc > 2 ? atol(argv[2]) : 1;
	int again = argc > 3 && !strcmp(argv[3], "exec");
	uint64_t end = now_ns() + 1000000000ull * seconds / (again ? 2 : 1);
	pthread_t id[THREADS];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&id[i], NULL, worker, NULL);
	for (long i = 0; now_ns() < end; i++) {
		pid_t pid = fork();
		void *lib = i % 5 == 0 ? dlopen("libm.so.6", RTLD_NOW) : NULL;

		if (!pid)
			child(seed * 1000003 + i);
		waitpid(pid, NULL, 0);
		if (lib)
			dlclose(lib);
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	if (again && !bad_why[0]) {
		argv[1][0] = (char)(seconds / 2 < 9 ? 0x30 + seconds / 2 : 0x39);
		execl("/proc/self/exe", argv[0], argv[1], argv[2], NULL);
	}
	return verdict();
}
