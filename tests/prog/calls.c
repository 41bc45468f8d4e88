/* SPDX-License-Identifier: MIT */
/*
 * N calls of work() on T threads. `calls N T` runs once and prints N; `calls serve T` serves
 * commands (prog.h). The sum of what work() returned is checked: a lost or doubled call shows.
 */
#include "prog.h"

static int threads = 1;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

struct share {
	pthread_t id;
	unsigned long n, sum;
};

static void *worker(void *arg)
{
	struct share *s = arg;
	unsigned long i;

	for (i = 0; i < s->n; i++)
		s->sum += work(i);
	return NULL;
}

static unsigned long expected(unsigned long n)
{
	return n ? 3 * (n * (n - 1) / 2) + n : 0;
}

static void run(long n)
{
	struct share s[256] = { { 0 } };
	int i;

	for (i = 0; i < threads; i++) {
		s[i].n = (unsigned long)(n / threads + (i < n % threads));
		if (pthread_create(&s[i].id, NULL, worker, &s[i]))
			exit(4);
	}
	for (i = 0; i < threads; i++) {
		pthread_join(s[i].id, NULL);
		if (s[i].sum != expected(s[i].n))
			bad("thread %d: sum %lu", i, s[i].sum);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	threads = atoi(argv[2]);
	if (threads < 1 || threads > 256)
		return 2;
	if (!strcmp(argv[1], "serve")) {
		serve(run, NULL);
		return verdict();
	}
	run(atol(argv[1]));
	printf("%ld\n", atol(argv[1]));
	return bad_why[0] ? 3 : 0;
}
