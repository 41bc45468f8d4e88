/* SPDX-License-Identifier: MIT */
/*
 * Thread-local variables, of the program and of libraries that it was linked with, and of one that it loads.
 *
 *	local serve LIBRARY [bare]	commands: prog.h, and with what each thread has in front of the call of the function
 *		own		calls of look() in four threads: "N mine wide pair.b errno &mine"
 *		linked, early	the same of libraries: NAME_probe(), "N mine open[3] zeros[999] &mine"
 *		late		of the one that was loaded
 *		bare		one call of look() in a thread that has no thread pointer: "N", nothing can be read
 *	each ends with "told"
 */
#include "prog.h"
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/futex.h>

struct pair { char a; long b; };

static __thread int mine = 3;
__thread double wide = 1.5;
__thread struct pair pair __attribute__((aligned(64))) = { 1, 2 };

long linked_call(long n);
long early_call(long n);
static long (*late_call)(long n);
static int wanted, done;		/* by the bare thread */

noinline long look(long n)
{
	__asm__ volatile("" : "+r"(n) : : "memory");
	return n + 1;
}

static long own_call(long n)
{
	mine = (int)n * 7;
	wide += (double)n / 2;
	pair.b = -n;
	printf("%ld %d %f %ld %d %p\n", n, mine, wide, pair.b, (int)n + 100, (void *)&mine);
	fflush(stdout);
	errno = (int)n + 100;
	return look(n);
}

struct work { long (*call)(long); long n; };

static void *one_thread(void *arg)
{
	struct work *w = arg;

	w->call(w->n);
	return NULL;
}

static void in_threads(long (*call)(long))
{
	struct work w = { call, 1 };

	call(w.n);
	for (w.n = 2; w.n < 5; w.n++) {
		pthread_t t;

		if (pthread_create(&t, NULL, one_thread, &w) || pthread_join(t, NULL))
			exit(4);
	}
	call(w.n);
	say("told");
}

static long raw(long nr, void *a, long b, long c)
{
	register long r10 __asm__("r10") = 0;
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return r;
}

/* No libc in here. */
static int bare_thread(void *arg)
{
	for (;;) {
		while (!__atomic_load_n(&wanted, __ATOMIC_ACQUIRE))
			raw(SYS_futex, &wanted, FUTEX_WAIT, 0);
		look(9);
		__atomic_store_n(&wanted, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
		raw(SYS_futex, &done, FUTEX_WAKE, 1);
	}
}

static void start_bare(void)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || clone(bare_thread, stack + 65536, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
					 CLONE_SYSVSEM | CLONE_SETTLS, NULL, NULL, NULL, NULL) < 0)
		exit(4);
}

static void call_bare(void)
{
	puts("9");
	__atomic_store_n(&wanted, 1, __ATOMIC_RELEASE);
	raw(SYS_futex, &wanted, FUTEX_WAKE, 1);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		raw(SYS_futex, &done, FUTEX_WAIT, 0);
	done = 0;
	say("told");
}

static int other(const char *line)
{
	if (!strcmp(line, "own"))
		in_threads(own_call);
	else if (!strcmp(line, "linked"))
		in_threads(linked_call);
	else if (!strcmp(line, "early"))
		in_threads(early_call);
	else if (!strcmp(line, "late"))
		in_threads(late_call);
	else if (!strcmp(line, "bare"))
		call_bare();
	else
		return 1;
	return 0;
}

static void run(long n)
{
	while (n--)
		look(n);
}

int main(int argc, char **argv)
{
	void *lib = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;

	late_call = lib ? (long (*)(long))(uintptr_t)dlsym(lib, "late_call") : NULL;
	if (!late_call)
		return 4;
	if (argc > 3)
		start_bare();
	serve(run, other);
	return verdict();
}
