/* SPDX-License-Identifier: MIT */
/*
 * `contexts K`: K coroutines on stacks of their own, switched by swapcontext. Between commands they
 * sleep in the middle of a function, with a setjmp made there: their stack pointers and return
 * addresses are kept in memory that no tracer knows of, and must be good after it came or went.
 * `run N` resumes them round about until work() was called N times.
 */
#include <setjmp.h>
#include <ucontext.h>
#include "prog.h"

enum { STACK = 65536, MOST = 64 };

struct routine {
	ucontext_t here, back;
	jmp_buf again;
	unsigned long turns, jumps, sum, want;
	char *stack;
};

static struct routine all[MOST];
static int routines;
static volatile int quit;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

noinline void pause_here(struct routine *r)
{
	swapcontext(&r->here, &r->back);
}

/* Jumps back over a frame to a setjmp that was made before the pause. */
noinline void jump_back(struct routine *r, int depth)
{
	volatile char room[64] = { 0 };

	if (!depth)
		longjmp(r->again, 5 + room[3]);
	if (depth > 0)
		jump_back(r, depth - 1);
	r->sum++;       /* nobody comes here */
}

noinline unsigned long one_turn(struct routine *r, unsigned long x)
{
	volatile unsigned long kept = x * 7;
	int came = setjmp(r->again);

	if (!came) {
		pause_here(r);
		jump_back(r, (int)(x % 5));
	}
	if (came != 5 || kept != x * 7)
		bad("setjmp gave %d, kept %lu of %lu", came, kept, x);
	r->jumps++;
	return work(x);
}

static void body(int i)
{
	struct routine *r = &all[i];

	while (!quit) {
		r->sum += one_turn(r, r->turns);
		r->want += r->turns * 3 + 1;
		r->turns++;
	}
}

static void resume(struct routine *r)
{
	swapcontext(&r->back, &r->here);
}

static void begin(int i)
{
	struct routine *r = &all[i];

	r->stack = malloc(STACK);
	getcontext(&r->here);
	r->here.uc_stack.ss_sp = r->stack;
	r->here.uc_stack.ss_size = STACK;
	r->here.uc_link = &r->back;
	makecontext(&r->here, (void (*)(void))body, 1, i);
	resume(r);
}

static void run(long n)
{
	static int next;

	while (n--)
		resume(&all[next++ % routines]);
}

int main(int argc, char **argv)
{
	int i;

	routines = argc > 1 ? atoi(argv[1]) : 4;
	if (routines < 1 || routines > MOST)
		return 2;
	for (i = 0; i < routines; i++)
		begin(i);
	serve(run, NULL);
	quit = 1;
	for (i = 0; i < routines; i++) {
		resume(&all[i]);
		if (all[i].sum != all[i].want || all[i].jumps != all[i].turns)
			bad("routine %d: %lu of %lu, %lu jumps", i, all[i].sum, all[i].want, all[i].jumps);
	}
	return verdict();
}
