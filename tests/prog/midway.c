/* SPDX-License-Identifier: MIT */
/*
 * A user-level thread that faults at the second instruction of spot(), and whose handler swaps contexts: its frame stays on a stack
 * that no thread uses, with a program counter inside the bytes that a probe of spot() replaces. `run N` makes it go
 * on there, N times, and leaves it there again each time.
 */
#include <sys/mman.h>
#include <ucontext.h>
#include "prog.h"

enum { STACK = 65536 };

static ucontext_t routine, back;
static volatile long passed;
static long *page;

long spot(long x, const long *from);	/* x + *from */
__asm__(".text; .globl spot; .type spot, @function; spot: mov %rdi, %rax; add (%rsi), %rax; ret; .size spot, . - spot");

static void on_fault(int sig)
{
	swapcontext(&routine, &back);
}

static void on_timer(int sig)		/* so that this is a program which preempts its threads */
{
}

static void body(void)
{
	for (;;) {
		mprotect(page, 4096, PROT_NONE);
		if (spot(passed, page) != passed + 7)
			bad("spot(%ld) is wrong", passed);
		passed++;
	}
}

static void run(long n)
{
	for (long end = passed + n; passed < end;) {
		mprotect(page, 4096, PROT_READ);
		swapcontext(&back, &routine);
	}
}

int main(void)
{
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_NODEFER }, timer = { .sa_handler = on_timer };

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGALRM, &timer, NULL);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page[0] = 7;
	getcontext(&routine);
	routine.uc_stack.ss_size = STACK;
	routine.uc_stack.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	makecontext(&routine, body, 0);
	swapcontext(&back, &routine);
	serve(run, NULL);
	return verdict();
}
