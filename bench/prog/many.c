/* SPDX-License-Identifier: MIT */
/*
 * A program with thousands of functions, and threads that would notice a pause. `many THREADS`
 * obeys lines on its standard input:
 *
 *	call TIMES	-> calls every function so often; the sum of the results
 *	where INDEX	-> the address of a function
 *	gap		-> the longest gaps since the last `gap`, in ns: seen, and seen minus waited
 *
 * With more than one thread, the second one does nothing but read the clock and keeps the longest
 * distance between two readings. On a busy machine most of that is another program having the CPU.
 * The kernel counts how long a thread was ready and had to wait; a thread stopped by a tracer is
 * not ready. So the gap minus that time is what the tracer did (and a hypervisor, if there is one).
 * The other threads sleep, wake and work a little, as those of a server do. `many 0` has one thread, which
 * reads the clock between two looks at its input.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

typedef uint64_t (*many_fn)(uint64_t);
extern const many_fn many_table[], many_end[];

#define LOOK_NS 5000		/* only gaps of this length are worth asking the kernel about */

static _Atomic uint64_t longest, longest_net;
static double ticks_per_ns;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void calibrate(void)
{
	double start = now();
	uint64_t ticks = __rdtsc();

	while (now() - start < 50e6)
		;
	ticks_per_ns = (__rdtsc() - ticks) / (now() - start);
}

/* The second number is the time that this thread was ready and had no CPU. */
static uint64_t waited(int fd)
{
	char text[80] = "";
	unsigned long long ran, wait;

	if (fd < 0 || pread(fd, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%llu %llu", &ran, &wait) != 2)
		return 0;
	return wait;
}

static void keep_longest(_Atomic uint64_t *to, uint64_t ns)
{
	if (ns > atomic_load_explicit(to, memory_order_relaxed))
		atomic_store_explicit(to, ns, memory_order_relaxed);
}

struct eye { int fd; uint64_t last, waited, look; };

static struct eye open_eye(void)
{
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	return (struct eye){ fd, __rdtsc(), waited(fd), LOOK_NS * ticks_per_ns };
}

static void look(struct eye *e)
{
	uint64_t t = __rdtsc(), gap = t - e->last, ns, wait;

	e->last = t;
	if (gap < e->look)
		return;
	ns = gap / ticks_per_ns;
	wait = waited(e->fd);
	keep_longest(&longest, ns);
	keep_longest(&longest_net, ns > wait - e->waited ? ns - (wait - e->waited) : 0);
	e->waited = wait;
	e->last = __rdtsc();
}

static void *spin(void *arg)
{
	struct eye e = open_eye();

	(void)arg;
	for (;;)
		look(&e);
	return NULL;
}

static void *live(void *arg)
{
	size_t n = many_end - many_table;
	uint64_t sum = 0;

	for (size_t i = (uintptr_t)arg; ; i += 97) {
		struct timespec t = { 0, 1000000 + 100000 * (uintptr_t)arg };

		/* A library function and not one of ours, so that counts of ours are exact. */
		sum += strlen(i % n & 1 ? "odd" : "even");
		nanosleep(&t, NULL);
	}
	return (void *)(uintptr_t)sum;
}

static void call(long times)
{
	size_t n = many_end - many_table;
	uint64_t sum = 0;

	for (long t = 0; t < times; t++)
		for (size_t i = 0; i < n; i++)
			sum = sum * 31 + many_table[i](t + i % 3);
	printf("%llu\n", (unsigned long long)sum);
}

static void tell_gap(void)
{
	uint64_t seen = atomic_exchange(&longest, 0), net = atomic_exchange(&longest_net, 0);

	printf("%llu %llu\n", (unsigned long long)seen, (unsigned long long)net);
}

static void obey(const char *word, long n)
{
	if (!strcmp(word, "call"))
		call(n);
	else if (!strcmp(word, "where") && n >= 0 && n < many_end - many_table)
		printf("%p\n", (void *)many_table[n]);
	else if (!strcmp(word, "gap"))
		tell_gap();
	else
		puts("what?");
}

static void obey_line(const char *line)
{
	char word[16];
	long n = 0;

	if (sscanf(line, "%15s %ld", word, &n) >= 1)
		obey(word, n);
}

/* One thread that does all: it looks at the clock, and at its input now and then. */
static void alone(void)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	struct eye e = open_eye();
	char line[128];

	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		for (int i = 0; i < 20000; i++)
			look(&e);
		if (poll(&in, 1, 0) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return;
		obey_line(line);
		e.last = __rdtsc();
		e.waited = waited(e.fd);
	}
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	char line[128];

	setvbuf(stdout, NULL, _IOLBF, 0);
	calibrate();
	if (!threads)
		alone();
	for (int i = 1; i < threads; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, i == 1 ? spin : live, (void *)(uintptr_t)i))
			return 1;
	}
	while (threads && fgets(line, sizeof(line), stdin))
		obey_line(line);
	return 0;
}
