/* SPDX-License-Identifier: MIT */
/*
 * Functions that end in every way C knows: several returns, tail calls, recursion, longjmp through
 * them. `returns N` runs N rounds and prints for each function "name entries returns", counted by
 * the caller's side, never by the function itself.
 */
#include <setjmp.h>
#include "prog.h"

static jmp_buf env;
static volatile unsigned long sink;

struct tally { const char *name; unsigned long entries, returns; };
static struct tally many_t = { .name = "many" }, tail_t = { .name = "tail" }, leaf_t = { .name = "leaf" },
	recur_t = { .name = "recur" }, jumper_t = { .name = "jumper" }, deep_t = { .name = "deep" },
	early_t = { .name = "early" }, threaded_t = { .name = "threaded" };

noinline unsigned long many(unsigned long i)
{
	switch (i % 7) {
	case 0: return i + 1;
	case 1: sink += i; return i ^ 5;
	case 2: if (i & 8) return 3; sink -= i; return 4;
	case 3: return i * i;
	case 4: for (unsigned k = 0; k < 3; k++) if (sink == i + k) return k; return 9;
	case 5: sink ^= i; return sink;
	}
	return 0;
}

noinline unsigned long leaf(unsigned long i)
{
	sink += i;
	return i / 3;
}

/* Both ways out are tail jumps, one of them usually a conditional one. */
noinline unsigned long tail(unsigned long i)
{
	if (i & 1)
		return leaf(i);
	return leaf(i + 2);
}

/* The empty asm keeps the compiler from turning one of the calls into a loop. */
noinline unsigned long recur(unsigned long n)
{
	unsigned long a, b;

	if (n < 2)
		return n;
	a = recur(n - 1);
	b = recur(n - 2);
	__asm__ volatile("" : "+r"(a), "+r"(b));
	return a + b;
}

noinline void deep(unsigned long i)
{
	sink += i;
	if (i % 3 == 0)
		longjmp(env, 1);
	sink++;
}

noinline unsigned long jumper(unsigned long i)
{
	sink++;
	deep(i);
	sink++;
	return i;
}

/* A return in the middle of a loop, and void. */
noinline void early(unsigned long i)
{
	while (i--) {
		if (sink == i)
			return;
		sink += i;
	}
}

/* Computed jumps stay inside, however the compiler fetches the address. */
noinline unsigned long threaded(unsigned long i)
{
	static const void *const ops[] = { &&add, &&mul, &&done };
	unsigned long acc = i;

	goto *ops[i % 2];
add:
	acc += 7;
	goto *ops[1 + acc % 2];
mul:
	acc = acc * 3 + 1;
	i /= 2;
	goto *ops[i ? i % 2 : 2];
done:
	return acc;
}

static unsigned long recur_calls(unsigned long n)
{
	return n < 2 ? 1 : 1 + recur_calls(n - 1) + recur_calls(n - 2);
}

static void round_of(volatile unsigned long i)
{
	many(i);
	many_t.entries++, many_t.returns++;
	tail(i);
	tail_t.entries++, tail_t.returns++, leaf_t.entries++, leaf_t.returns++;
	recur(i % 12);
	recur_t.entries += recur_calls(i % 12), recur_t.returns += recur_calls(i % 12);
	jumper_t.entries++, deep_t.entries++;
	if (!setjmp(env)) {
		jumper(i);
		jumper_t.returns++, deep_t.returns++;
	}
	early(i % 5);
	early_t.entries++, early_t.returns++;
	threaded(i);
	threaded_t.entries++, threaded_t.returns++;
}

int main(int argc, char **argv)
{
	struct tally *all[] = { &many_t, &tail_t, &leaf_t, &recur_t, &jumper_t, &deep_t, &early_t,
				&threaded_t };
	long i, n = argc > 1 ? atol(argv[1]) : 1000;

	for (i = 0; i < n; i++)
		round_of((unsigned long)i);
	for (i = 0; i < (long)(sizeof(all) / sizeof(all[0])); i++)
		printf("%s %lu %lu\n", all[i]->name, all[i]->entries, all[i]->returns);
	return 0;
}
