/* SPDX-License-Identifier: MIT */
/*
 * A program to be traced: worker THREADS SECONDS, or until SIGUSR2 comes. Each thread calls functions of known numbers in rounds; at the end it says how often
 * each was called, and a sum over the results, which tracing must not change. SIGUSR1 is handled, so that frames of handlers are about.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile sig_atomic_t handled;
static atomic_ulong lock_word, total;
static volatile int over;

struct result { uint64_t rounds, sum; };

NOINLINE uint64_t leaf(uint64_t a, uint64_t b)
{
	return a * 31 + b;
}

/* A tail call, and loads from beside the code. */
NOINLINE uint64_t tail(uint64_t a)
{
	return leaf(a ^ 0x123456789abcdef0ull, a >> 7);
}

NOINLINE double floats(double x)
{
	return x * 1.000001 + 0.3333333333;
}

/* A switch with a table, and branches of all kinds. */
NOINLINE uint64_t branches(uint64_t a)
{
	switch (a % 9) {
	case 0: return a + 1;
	case 1: return a ^ 77;
	case 2: return leaf(a, 2);
	case 3: return a * 3;
	case 4: return a & 1 ? leaf(a, 4) : tail(a);
	case 5: return a < 100 ? 5 : leaf(a, 5);
	case 6: return ~a;
	case 7: return a << 3;
	default: return a >> 2;
	}
}

/* A loop of exclusive accesses, unless the compiler knows better. */
NOINLINE void atomic_step(uint64_t a)
{
	unsigned long old = atomic_load(&lock_word);

	while (!atomic_compare_exchange_weak(&lock_word, &old, old + (a & 1)))
		;
	atomic_fetch_add(&total, 1);
}

NOINLINE uint64_t by_pointer(uint64_t (*f)(uint64_t), uint64_t a)
{
	return f(a) + 1;
}

/* A loop that compilers make of vector instructions. */
NOINLINE uint64_t vectors(uint64_t n)
{
	static volatile uint32_t rounds = 64;
	uint32_t values[64], sum = 0, step = n * 2654435761u;

	for (unsigned int i = 0; i < 64; i++)
		values[i] = i;
	for (uint32_t k = rounds; k > 0; k--)	/* the values stay in registers, or are loaded and stored again and again */
		for (unsigned int i = 0; i < 64; i++)
			values[i] = (values[i] ^ step) * 3 + k;
	for (unsigned int i = 0; i < 64; i++)
		sum += values[i];
	return sum;
}

NOINLINE uint64_t round_of(uint64_t n)
{
	uint64_t sum = 0;
	char text[64];

	for (uint64_t i = 0; i < 20; i++)
		sum += branches(n + i);
	sum += tail(n);
	sum += (uint64_t)floats(n);
	sum += vectors(n);
	sum += by_pointer(tail, n);
	atomic_step(n);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return sum + strlen(text);
}

static void *work(void *arg)
{
	struct result *r = arg;

	for (; !over && r->rounds < 1u << 30; r->rounds++)
		r->sum += round_of(r->rounds);
	return NULL;
}

static void on_signal(int sig)
{
	over |= sig == SIGUSR2;
	handled++;
	leaf(handled, sig);
}

/* The same sum, computed once more without being traced. */
static uint64_t sum_of(uint64_t rounds)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < rounds; i++)
		sum += round_of(i);
	return sum;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, seconds = argc > 2 ? atoi(argv[2]) : 2;
	pthread_t threads[16];
	struct result results[16] = { { 0, 0 } };
	uint64_t rounds = 0;
	int bad = 0;

	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, work, &results[i]);
	if (!n)				/* the only thread works itself, until SIGUSR2 */
		work(&results[n++]);
	for (int i = 0; i < seconds * 100 && !over; i++)	/* short ones: the signal may come before the sleep, or to another thread */
		usleep(10000);
	over = 1;
	for (int i = 0; i < n; i++) {
		if (argc < 2 || atoi(argv[1]))
			pthread_join(threads[i], NULL);
		rounds += results[i].rounds;
	}
	printf("rounds %llu\n", (unsigned long long)rounds);
	if (atomic_load(&total) != rounds)
		bad = 1;
	if (argc > 3)
		sleep(atoi(argv[3]));	/* until the tracer is gone */
	for (int i = 0; i < n; i++)
		bad |= sum_of(results[i].rounds) != results[i].sum;
	printf("%s\n", bad ? "WRONG" : "right");
	return bad;
}
