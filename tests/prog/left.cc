/* SPDX-License-Identifier: MIT */
/*
 * Calls that don't return. `left THREADS ROUNDS` prints for each function how often it was called, has returned and was
 * left by an exception, counted by itself and its caller; and a sum, which depends on all of it.
 */
#include <pthread.h>
#include <time.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define noinline __attribute__((noinline))

enum { BOTTOM, THROUGH, AGAIN, CATCHER, ITSELF, DEEP, TIDY, QUITS, FUNCTIONS };
static const char *const names[] = { "bottom", "through", "again", "catcher", "itself", "deep", "tidy", "quits" };
static std::atomic<long> called[FUNCTIONS], returned[FUNCTIONS], sum;
static const long work_ns = 20000;

static void work()
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	do
		clock_gettime(CLOCK_MONOTONIC, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000000l + b.tv_nsec - a.tv_nsec < work_ns);
}

extern "C" noinline void tidy(long i)
{
	called[TIDY]++;
	sum += i;
	returned[TIDY]++;
}

struct guard {
	long i;

	~guard() { tidy(i); }
};

extern "C" noinline long bottom(long i)
{
	called[BOTTOM]++;
	work();
	if (i % 4 == 0)
		throw i;
	if (i % 4 == 1)
		throw std::runtime_error("one");
	returned[BOTTOM]++;
	return i;
}

/* A cleanup, then the exception goes on. */
extern "C" noinline long through(long i)
{
	guard g = { i };
	long r;

	called[THROUGH]++;
	r = bottom(i) + 1;
	returned[THROUGH]++;
	return r;
}

/* Caught and thrown again. */
extern "C" noinline long again(long i)
{
	long r;

	called[AGAIN]++;
	try {
		r = through(i) * 2;
	} catch (long v) {
		sum += v;
		throw;
	}
	returned[AGAIN]++;
	return r;
}

extern "C" noinline long catcher(long i)
{
	long r;

	called[CATCHER]++;
	try {
		r = again(i);
	} catch (long v) {
		r = -v;
	} catch (const std::exception &) {
		r = -1;
	}
	returned[CATCHER]++;
	return r;
}

/* Its own frame stays. */
extern "C" noinline long itself(long i)
{
	long r = i;

	called[ITSELF]++;
	try {
		if (i % 2)
			throw i;
	} catch (long v) {
		r = v + 1;
	}
	returned[ITSELF]++;
	return r;
}

extern "C" noinline long deep(long n)
{
	volatile char room[64];
	long r;

	called[DEEP]++;
	room[n % 64] = n;
	if (!n)
		throw n;
	r = deep(n - 1) + room[n % 64];
	returned[DEEP]++;
	return r;
}

/* The thread ends in it. */
extern "C" noinline void quits(long i)
{
	guard g = { i };

	called[QUITS]++;
	if (i >= 0)
		pthread_exit(NULL);
	returned[QUITS]++;
}

static void *run(void *arg)
{
	long rounds = (long)arg;

	for (long i = 0; i < rounds; i++) {
		sum += catcher(i) + itself(i);
		if (i % 8 == 0) {
			try {
				deep(i % 64 + 1);
			} catch (long) {
				sum += 3;
			}
		}
	}
	quits(rounds);
	return NULL;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1, rounds = argc > 2 ? atol(argv[2]) : 8;
	pthread_t *threads = new pthread_t[n];

	for (long i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, run, (void *)rounds);
	for (long i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%s %ld %ld %ld\n", names[i], called[i].load(), returned[i].load(), called[i] - returned[i]);
	printf("sum %ld\n", sum.load());
	delete[] threads;
	return 0;
}
