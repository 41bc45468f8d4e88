/* SPDX-License-Identifier: MIT */
/*
 * `left_host LIBRARY TIMES`: loads it and unloads it again so often, and calls plug_top() 100 times each. Then plug_escape(), whose
 * call nobody sees ending; and when the library is gone, a jump over where it was.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static jmp_buf env;

static __attribute__((noinline)) void jump_over(void)
{
	volatile char room[4096];

	room[0] = 0;
	if (!room[0])
		longjmp(env, 1);
}

static __attribute__((noinline)) void escape(void *lib)
{
	void (*leave)(ucontext_t *) = (void (*)(ucontext_t *))dlsym(lib, "plug_escape");
	volatile int times = 0;
	ucontext_t here;

	getcontext(&here);
	if (!times++ && leave)
		leave(&here);
}

int main(int argc, char **argv)
{
	long sum = 0, times = argc > 2 ? atol(argv[2]) : 1;

	for (long n = 0; argc > 1 && n < times; n++) {
		void *lib = dlopen(argv[1], RTLD_NOW);
		long (*top)(long) = lib ? (long (*)(long))dlsym(lib, "plug_top") : NULL;

		if (!top)
			return 1;
		for (long i = 0; i < 100; i++)
			sum += n * top(i);
		escape(lib);
		dlclose(lib);
		if (!setjmp(env))
			jump_over();
	}
	printf("sum %ld\n", sum);
	return 0;
}
