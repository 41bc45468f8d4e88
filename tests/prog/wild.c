/* SPDX-License-Identifier: MIT */
/*
 * Calls look() with pointers that lead nowhere, which it does not follow, and says at the end how it went.
 *
 *	wild KIND DISPOSITION N
 *	KIND		null, unmapped, none (PROT_NONE), odd (not canonical), race (unmapped and mapped again by another
 *			thread all the time), cross (a text that runs into an unmapped page), kernel, all
 *	DISPOSITION	of SIGSEGV and SIGBUS: default, handled, ignored, blocked
 *
 * Says "N calls, H signals, sum S"; of H there must be none.
 */
#include "prog.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#define PAGE 4096

static volatile sig_atomic_t signals;
static char *moving, *unmapped, *closed, *edge;
static atomic_bool over;

noinline long look(long n, const char *text, const long *number, const char *good)
{
	__asm__ volatile("" : "+r"(n), "+r"(text), "+r"(number), "+r"(good));
	return n ^ (n << 3);
}

static void on_signal(int sig)
{
	signals++;
}

static void dispose(const char *how)
{
	struct sigaction sa = { .sa_handler = !strcmp(how, "handled") ? on_signal : SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	if (!strcmp(how, "blocked"))
		sigprocmask(SIG_BLOCK, &set, NULL);
	else if (strcmp(how, "default")) {
		sigaction(SIGSEGV, &sa, NULL);
		sigaction(SIGBUS, &sa, NULL);
	}
}

static void *pages(int n, int prot)
{
	void *p = mmap(NULL, n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static void *mover(void *arg)
{
	while (!over) {
		munmap(moving, PAGE);
		mmap(moving, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		memset(moving, 'm', 64);
		mprotect(moving, PAGE, PROT_NONE);
		mprotect(moving, PAGE, PROT_READ);
	}
	return NULL;
}

static const char *pointer(const char *kind)
{
	if (!strcmp(kind, "null"))
		return NULL;
	if (!strcmp(kind, "unmapped"))
		return unmapped + 24;
	if (!strcmp(kind, "none"))
		return closed + 8;
	if (!strcmp(kind, "odd"))
		return (char *)0x1234567890abcdefull;
	if (!strcmp(kind, "kernel"))
		return (char *)0xffffffff81000000ull;
	if (!strcmp(kind, "race"))
		return moving;
	return edge;
}

static void prepare(void)
{
	unmapped = pages(1, PROT_READ);
	munmap(unmapped, PAGE);
	closed = pages(1, PROT_NONE);
	moving = pages(1, PROT_READ | PROT_WRITE);
	edge = (char *)pages(2, PROT_READ | PROT_WRITE) + PAGE - 4;
	memcpy(edge, "edge", 4);
	munmap(edge + 4, PAGE);
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = { "null", "unmapped", "none", "odd", "kernel", "race", "cross" };
	const char *kind = argc > 3 ? argv[1] : "all";
	bool all = !strcmp(kind, "all"), moves = all || !strcmp(kind, "race");
	long n = argc > 3 ? atol(argv[3]) : 1000, sum = 0;
	pthread_t t;

	prepare();
	dispose(argc > 3 ? argv[2] : "default");
	if (moves && pthread_create(&t, NULL, mover, NULL))
		return 1;
	for (long i = 0; i < n; i++) {
		const char *p = pointer(all ? kinds[i % 7] : kind);

		sum += look(i, p, (const long *)p, "good");
	}
	over = true;
	if (moves)
		pthread_join(t, NULL);
	printf("%ld calls, %d signals, sum %ld\n", n, (int)signals, sum);
	return 0;
}
