/* SPDX-License-Identifier: MIT */
/*
 * A function that is given pointers, called in a loop that measures itself. It obeys lines on its standard input:
 *
 *	use heap|shared LENGTH STRINGS	new arguments: so many texts of that length, each with a list of three nodes -> "ok"
 *	measure MILLISECONDS [PAUSE]	-> median and best ns per call; PAUSE: microseconds between chunks of calls
 *	churn THREADS MILLISECONDS	-> median and best ns of: map 64 KiB, write to it, call the function with it, unmap
 *	call TIMES			-> "ok"
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct node {
	uint64_t v;
	struct node *next;
};

#define CALLS 1000		/* in a chunk */
#define SLOW_CALLS 40		/* where one call takes microseconds */
#define CHURNS 50
#define MAX_CHUNKS 20000
#define MAX_THREADS 64
#define STRINGS 4096
#define ROOM 1024		/* for one text and its nodes */
#define MAPPED (64 << 10)

static struct { struct node *n; char *text; } given[STRINGS];
static unsigned int ngiven, next;

__attribute__((noinline, noclone)) uint64_t follow(struct node *n, const char *text)
{
	__asm__ volatile("" : : "r"(n), "r"(text) : "memory");
	return (uintptr_t)n + 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *must(void *p)
{
	if (!p || p == MAP_FAILED)
		exit(1);
	return p;
}

static void *room(int shared)
{
	static uint8_t *all;
	static size_t used;

	if (!shared)
		return must(malloc(ROOM));
	if (!all || used + ROOM > (size_t)STRINGS * ROOM) {
		all = must(mmap(NULL, (size_t)STRINGS * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
		used = 0;
	}
	used += ROOM;
	return all + used - ROOM;
}

static void use(int shared, unsigned int len, unsigned int n)
{
	for (ngiven = 0; ngiven < n; ngiven++) {
		struct node *node = room(shared);

		for (int i = 0; i < 3; i++)
			node[i] = (struct node){ i, &node[i + 1] };
		given[ngiven].n = node;
		given[ngiven].text = (char *)&node[4];
		memset(given[ngiven].text, 'a' + ngiven % 23, len);
		snprintf(given[ngiven].text, 8, "%07u", ngiven);
		given[ngiven].text[7] = '-';
		given[ngiven].text[len] = 0;
	}
	next = 0;
	puts("ok");
}

static double one_chunk(int calls)
{
	double start = now();

	for (int i = 0; i < calls; i++) {
		follow(given[next].n, given[next].text);
		next = next + 1 < ngiven ? next + 1 : 0;
	}
	return (now() - start) / calls;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(double *all, int n)
{
	qsort(all, n, sizeof(*all), compare);
	printf("%.4f %.4f\n", all[n / 2], all[0]);
}

static void measure(double ms, int pause)
{
	static double chunk[MAX_CHUNKS];
	double end = now() + ms * 1e6;
	int n = 0, calls = one_chunk(SLOW_CALLS) > 3000 ? SLOW_CALLS : CALLS;

	do {
		chunk[n++] = one_chunk(calls);
		if (pause)
			usleep(pause);
	} while (n < MAX_CHUNKS && now() < end);
	report(chunk, n);
}

struct churn { pthread_t thread; double ms; int n; double chunk[MAX_CHUNKS / 10]; };

static void *churn(void *arg)
{
	struct churn *c = arg;
	double end = now() + c->ms * 1e6;

	c->n = 0;
	do {
		double start = now();

		for (int i = 0; i < CHURNS; i++) {
			struct node *n = must(mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

			*n = (struct node){ 1, n };
			follow(n, (const char *)n);
			munmap(n, MAPPED);
		}
		c->chunk[c->n++] = (now() - start) / CHURNS;
	} while (c->n < MAX_CHUNKS / 10 && now() < end);
	return NULL;
}

static void churn_all(int threads, double ms)
{
	static struct churn all[MAX_THREADS];
	static double chunk[MAX_THREADS * MAX_CHUNKS / 10];
	int n = 0;

	for (int i = 0; i < threads; i++) {
		all[i].ms = ms;
		if (i && pthread_create(&all[i].thread, NULL, churn, &all[i]))
			exit(1);
	}
	churn(&all[0]);
	for (int i = 0; i < threads; i++) {
		if (i)
			pthread_join(all[i].thread, NULL);
		memcpy(chunk + n, all[i].chunk, all[i].n * sizeof(*chunk));
		n += all[i].n;
	}
	report(chunk, n);
}

int main(void)
{
	char line[128], word[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned int len, n;
		double a = 0, b = 0;

		if (sscanf(line, "use %15s %u %u", word, &len, &n) == 3 && len >= 8 && len < ROOM - 4 * sizeof(struct node) && n && n <= STRINGS) {
			use(!strcmp(word, "shared"), len, n);
		} else if (sscanf(line, "measure %lf %lf", &a, &b) >= 1 && ngiven) {
			measure(a, b);
		} else if (sscanf(line, "churn %lf %lf", &a, &b) == 2 && a >= 1 && a <= MAX_THREADS) {
			churn_all(a, b);
		} else if (sscanf(line, "call %lf", &a) == 1 && ngiven) {
			one_chunk(a);
			puts("ok");
		} else {
			puts("what?");
		}
	}
	return 0;
}
