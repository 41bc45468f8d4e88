/* SPDX-License-Identifier: MIT */
/*
 * Arguments and places that hurt a careless reader. The program itself follows none of the pointers and does
 * none of the divisions; it says at the end what a careful one must have seen.
 *
 *	harsh reads N		look(p, n): p is good every ninth time; else NULL, small, unmapped, closed, not canonical,
 *				the kernel's, the last address, or good but cut off after four bytes
 *	harsh divide		part(a, b) with all pairs of edge values
 *	harsh endless N		look(p, n): a million letters without an end
 *	harsh keys N		look(NULL, n): N different numbers
 *	harsh stack N LEFT	N calls of look() on a thread with about LEFT bytes of stack left
 *	harsh first N LEFT	the same on the first thread, whose stack grows to its limit (set a low one)
 *	harsh overflow N	N times sink_down(p, n) calls itself until the stack of a thread is at its end, and a handler goes on
 *	harsh storm N		N calls of look() while a timer's handler calls it, too, at any instruction
 *	harsh signal N		N calls of look() from a handler on an alternate stack that is hardly large enough
 */
#include "prog.h"
#include <alloca.h>
#include <setjmp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/auxv.h>

#define PAGE 4096

struct node { struct node *next; long value; char text[16]; };

static char *unmapped, *closed, *edge;
static struct node good, second;
static volatile long sink;
static volatile sig_atomic_t signals;
static long calls, left_bytes;
static char *stack_end;

noinline long look(struct node *p, long n)
{
	__asm__ volatile("" : "+r"(p), "+r"(n));
	return n ^ (n << 3);
}

noinline long part(long a, long b)
{
	__asm__ volatile("" : "+r"(a), "+r"(b));
	return a + b;
}

static char *pages(size_t n, int prot)
{
	char *p = mmap(NULL, n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(4);
	return p;
}

static void prepare(void)
{
	unmapped = pages(1, PROT_READ);
	munmap(unmapped, PAGE);
	closed = pages(1, PROT_NONE);
	edge = pages(2, PROT_READ | PROT_WRITE) + PAGE - 4;
	memcpy(edge, "edge", 4);
	munmap(edge + 4, PAGE);
	good = (struct node){ &second, 3, "good" };
	second = (struct node){ NULL, 4, "second" };
}

static void reads(long n)
{
	void *p[] = { &good, NULL, (void *)8, unmapped, closed, (void *)0x1234567890abcdef, (void *)0xffffffff81000000, (void *)-1,
		      edge };
	long fine = 0, sum = 0;

	for (long i = 0; i < n; i++) {
		sum += look(p[i % 9], i);
		fine += i % 9 == 0;
	}
	say("calls %ld", n);
	say("good %ld", fine);
	say("result %ld", sum);
}

static void divide(void)
{
	static const long v[] = { 0, 1, -1, 2, -2, 7, -7, 0x7fffffffffffffff, -0x7fffffffffffffff - 1, 0x7fffffff, -0x80000000l };
	long n = 0, zero = 0, over = 0;
	unsigned long q = 0, r = 0;

	for (int i = 0; i < 11; i++)
		for (int k = 0; k < 11; k++) {
			sink = part(v[i], v[k]);
			n++;
			if (!v[k])
				zero++;
			else if (v[k] == -1 && v[i] == -0x7fffffffffffffff - 1)
				over++;
			else
				q += (unsigned long)(v[i] / v[k]), r += (unsigned long)(v[i] % v[k]);
		}
	say("calls %ld", n);
	say("bad %ld", zero + over);
	say("quotients %ld", (long)q);
	say("rests %ld", (long)r);
}

static void endless(long n)
{
	char *p = pages(257, PROT_READ | PROT_WRITE);
	long sum = 0;

	munmap(p + 256 * PAGE, PAGE);
	memset(p, 'x', 256 * PAGE);
	for (long i = 0; i < n; i++)
		sum += look((struct node *)p, i);
	say("calls %ld", n);
	say("result %ld", sum);
}

static void keys(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += look(NULL, i);
	say("calls %ld", n);
	say("result %ld", sum);
}

/* Goes down until only so many bytes are left, then calls. */
static noinline void down(void)
{
	char here;
	long room = &here - stack_end - left_bytes;
	volatile char *space = alloca(room > 0 ? (size_t)room : 1);
	long sum = 0;

	space[0] = 1;
	for (long i = 0; i < calls; i++)
		sum += look(&good, i);
	sink = sum;
}

static void *with_little(void *arg)
{
	pthread_attr_t a;
	void *base;
	size_t size;

	if (pthread_getattr_np(pthread_self(), &a) || pthread_attr_getstack(&a, &base, &size))
		exit(4);
	stack_end = base;
	down();
	return NULL;
}

static void on_thread(long n, long left)
{
	pthread_attr_t a;
	pthread_t t;

	calls = n;
	left_bytes = left;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	if (pthread_create(&t, &a, with_little, NULL))
		exit(4);
	pthread_join(t, NULL);
	say("calls %ld", n);
	say("result %ld", sink);
}

static void on_first(long n, long left)
{
	calls = n;
	left_bytes = left;
	with_little(NULL);
	say("calls %ld", n);
	say("result %ld", sink);
}

static void handler(int sig)
{
	long sum = 0;

	for (long i = 0; i < calls; i++)
		sum += look(&good, i);
	sink = sum;
	signals++;
}

/* Below it nothing is mapped. */
static void on_signal_stack(long n)
{
	size_t size = (getauxval(AT_MINSIGSTKSZ) + 1024 + PAGE - 1) & ~(size_t)(PAGE - 1);
	char *p = pages(size / PAGE + 1, PROT_READ | PROT_WRITE);
	stack_t ss = { .ss_sp = p + PAGE, .ss_size = size };
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

	munmap(p, PAGE);
	calls = n;
	if (sigaltstack(&ss, NULL) || sigaction(SIGUSR1, &sa, NULL) || raise(SIGUSR1))
		exit(4);
	say("calls %ld", n);
	say("result %ld", sink);
}

static sigjmp_buf surface;

noinline long sink_down(struct node *p, long n)
{
	volatile char room[40];

	room[0] = (char)n;
	return sink_down(p, n + 1) + room[0];
}

static void on_overflow(int sig)
{
	signals++;
	siglongjmp(surface, 1);
}

static void *until_overflow(void *n)
{
	static char alternate[65536];
	stack_t ss = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction sa = { .sa_handler = on_overflow, .sa_flags = SA_ONSTACK };

	if (sigaltstack(&ss, NULL) || sigaction(SIGSEGV, &sa, NULL))
		exit(4);
	for (volatile long i = 0; i < (long)n; i++)
		if (!sigsetjmp(surface, 1))
			sink = sink_down(&good, 0);
	return NULL;
}

static void overflow(long n)
{
	pthread_attr_t a;
	pthread_t t;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 64 * 1024);
	if (pthread_create(&t, &a, until_overflow, (void *)n))
		exit(4);
	pthread_join(t, NULL);
	say("signals %d", (int)signals);
}

static volatile long from_handler;
static timer_t timer;

/* Once more, but the program itself must get on. */
static void interrupt(int sig)
{
	static const struct itimerspec soon = { .it_value = { 0, 30000 } };

	for (int i = 0; i < 3; i++)
		sink = look(&second, 1000 + i);
	from_handler += 3;
	timer_settime(timer, 0, &soon, NULL);
}

static void storm(long n)
{
	struct sigaction sa = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	long sum = 0;

	sigaction(SIGUSR2, &sa, NULL);
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer))
		exit(4);
	raise(SIGUSR2);
	for (long i = 0; i < n; i++)
		sum += look(&good, i % 100);
	timer_delete(timer);
	sink = sum;
	say("calls %ld", n + from_handler);
	say("good %ld", n);
	say("second %ld", from_handler);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long n = argc > 2 ? atol(argv[2]) : 0, m = argc > 3 ? atol(argv[3]) : 0;

	prepare();
	if (!strcmp(what, "reads"))
		reads(n);
	else if (!strcmp(what, "divide"))
		divide();
	else if (!strcmp(what, "endless"))
		endless(n);
	else if (!strcmp(what, "keys"))
		keys(n);
	else if (!strcmp(what, "stack"))
		on_thread(n, m);
	else if (!strcmp(what, "first"))
		on_first(n, m);
	else if (!strcmp(what, "overflow"))
		overflow(n);
	else if (!strcmp(what, "storm"))
		storm(n);
	else if (!strcmp(what, "signal"))
		on_signal_stack(n);
	else
		return 2;
	return 0;
}
