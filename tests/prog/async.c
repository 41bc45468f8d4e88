/* SPDX-License-Identifier: MIT */
/*
 * `async T`: T threads call noise() without end, and whatever can look at a thread between any two
 * instructions does so: a timer whose handler walks the stack, and asynchronous cancellation, which
 * ends a thread wherever it is and must run its clean-up. `run N` calls work() N times, and
 * meanwhile ends N / 1000 further threads in that way.
 */
#include <execinfo.h>
#include <stdatomic.h>
#include <sys/time.h>
#include "prog.h"

static atomic_int quit;
static atomic_ulong looked, cleaned;
static unsigned long ended;
static volatile unsigned long sink;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

noinline unsigned long noise(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x & 1 ? x * 5 : x + 3;
}

static void on_timer(int sig)
{
	int saved = errno;
	void *at[64];

	(void)sig;
	if (backtrace(at, 64) < 2)
		bad("a handler without a frame above it");
	looked++;
	errno = saved;
}

static void *spin(void *arg)
{
	unsigned long x = 0;

	(void)arg;
	while (!quit)
		x = noise(x);
	sink = x;
	return NULL;
}

static void clean(void *arg)
{
	(void)arg;
	cleaned++;
}

/* No library call while it can be ended: only our own functions can bear that. */
static void *spin_until_ended(void *arg)
{
	atomic_int *ready = arg;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	pthread_cleanup_push(clean, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	*ready = 1;
	for (;;)
		sink = noise(sink);
	pthread_cleanup_pop(0);
	return NULL;
}

static void end_one(void)
{
	atomic_int ready = 0;
	pthread_t t;
	void *how;

	if (pthread_create(&t, NULL, spin_until_ended, &ready))
		exit(4);
	while (!ready)
		;
	pthread_cancel(t);
	pthread_join(t, &how);
	if (how != PTHREAD_CANCELED)
		bad("a thread ended otherwise");
	ended++;
}

static void run(long n)
{
	unsigned long sum = 0, want = 0;
	long i;

	for (i = 0; i < n; i++) {
		sum += work((unsigned long)i);
		want += (unsigned long)i * 3 + 1;
		if (i % 1000 == 999)
			end_one();
	}
	if (sum != want)
		bad("sum %lu instead of %lu", sum, want);
}

int main(int argc, char **argv)
{
	struct itimerval often = { { 0, 500 }, { 0, 500 } };
	int i, threads = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t t[64];
	void *first[2];

	if (threads < 1 || threads > 64)
		return 2;
	backtrace(first, 2);            /* the first call loads the unwinder */
	signal(SIGPROF, on_timer);
	for (i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, spin, NULL))
			return 4;
	setitimer(ITIMER_PROF, &often, NULL);
	serve(run, NULL);
	quit = 1;
	for (i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	if (!looked || cleaned != ended)
		bad("%lu looks; %lu of %lu threads cleaned up", looked, cleaned, ended);
	return verdict();
}
