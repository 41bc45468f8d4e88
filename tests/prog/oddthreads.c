/* SPDX-License-Identifier: MIT */
/*
 * Threads that the C library would not make, and those that it is just making. One of them a run:
 *
 *	new N		threads that run nothing(), N times, on stacks that were used before
 *	again N		N threads on one stack, each on the other one of two CPUs than the one before
 *	bare		a thread whose thread pointer is 0
 *	own		one with a block of its own, right in front of memory that is not there
 *	moved, zeros	the first thread has another thread pointer for a while
 *	edge		the same, with a block right in front of memory that is not there
 *	shared		a child on its parent's memory and thread block, which is there before anything is asked of it
 *	fresh		a thread that is not registered, with the CPU of another one in its block
 *	clone3		calls with pointers that lead nowhere
 *	child		a forked child writes an address of the parent's over all memory that both share
 *
 * work() is called; all but the first two wait for a line on standard input before that, if a second argument is given. Prints
 * how often it was called, or nothing was run.
 */
#include "prog.h"

#include <asm/prctl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE 4096
#define CALLS 200000
#define plain noinline __attribute__((optimize("no-stack-protector")))

static volatile long done, calls;
static int waits;

plain long work(long n)
{
	__asm__ volatile("" ::: "memory");
	return n * 3;
}

plain void *nothing(void *arg)
{
	__asm__ volatile("" ::: "memory");
	return arg;
}

static void wait_for_word(void)
{
	char line[16];

	printf("ready\n");
	fflush(stdout);
	if (waits && !fgets(line, sizeof(line), stdin))
		exit(1);
}

/* ---- threads of the C library ---- */

#define CREATORS 4

static int rounds;

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *creator(void *arg)
{
	pthread_t t;

	stay_on((int)(long)arg);		/* the next thread finds a stack of one on another CPU */
	for (int i = 0; i < rounds; i++) {
		while (pthread_create(&t, NULL, nothing, NULL))
			;
		pthread_join(t, NULL);
	}
	return arg;
}

static int new_threads(int n)
{
	pthread_t t[CREATORS];

	rounds = n / CREATORS;
	for (long i = 0; i < CREATORS; i++)
		pthread_create(&t[i], NULL, creator, (void *)i);
	for (int i = 0; i < CREATORS; i++)
		pthread_join(t[i], NULL);
	printf("%d\n", CREATORS * rounds);
	return 0;
}

static int again(int n)
{
	pthread_t t;

	for (int i = 0; i < n; i++) {
		stay_on(i);
		pthread_create(&t, NULL, nothing, NULL);
		pthread_join(t, NULL);
	}
	printf("%d\n", n);
	return 0;
}

/* ---- threads of nobody ---- */

plain static void body(void)
{
	for (int i = 0; i < 1000; i++)
		calls += work(i) == 3 * i;
	done = 1;
	__asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall");
}

static int raw_thread(void *tls)
{
	long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS, r;
	char *stack = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long *top = (long *)(stack + 16 * PAGE - 64);
	register long r10 __asm__("r10") = 0;
	register void *r8 __asm__("r8") = tls;

	*--top = (long)body;
	__asm__ volatile("mov $56, %%eax; syscall; test %%rax, %%rax; jnz 1f; ret; 1:"
			 : "=a"(r) : "D"(flags), "S"(top), "d"(0L), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	while (!done)
		usleep(1000);
	printf("%ld\n", calls);
	return r <= 0;
}

static char *end_of_memory(void)
{
	char *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(two + PAGE, PAGE);
	return two + PAGE;
}

/* With the number loaded right before the call, or with another instruction in between. */
static inline __attribute__((always_inline)) void set_pointer(long to, int far)
{
	long r;

	if (far)
		__asm__ volatile("mov $158, %%eax; mov %%rsi, %%rsi; syscall" : "=a"(r) : "D"(ARCH_SET_FS), "S"(to) : "rcx", "r11", "memory");
	else
		__asm__ volatile("mov $158, %%eax; syscall" : "=a"(r) : "D"(ARCH_SET_FS), "S"(to) : "rcx", "r11", "memory");
}

/* The block that takes its place is full of a byte, which looks like no CPU's number; or of zeros, which do. */
plain static int moved_pointer(int fill, long room)
{
	unsigned char *block = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long changed = 0, n = 0;
	unsigned long old;

	memset(block, fill, 3 * PAGE);
	if (room < PAGE)
		mprotect(block + 2 * PAGE, PAGE, PROT_NONE);
	wait_for_word();
	__asm__ volatile("mov %%fs:0, %0" : "=r"(old));
	set_pointer((long)(block + 2 * PAGE - room), fill);
	for (int i = 0; i < CALLS; i++)
		n += work(i) == 3 * i;
	set_pointer((long)old, fill);
	mprotect(block + 2 * PAGE, PAGE, PROT_READ);
	for (int i = 0; i < 3 * PAGE; i++)
		changed += block[i] != fill;
	printf("%ld\n", n);
	return changed != 0;
}

/* ---- a child on its parent's block, and a thread that is not registered ---- */

static volatile int go, stop;
static volatile long of_others;

static int beside(void *arg)
{
	long n = 0;

	(void)arg;
	while (!go)
		usleep(1000);
	while (!stop)
		n += work(n) == 3 * n;
	of_others = n;
	return 0;
}

static long race(void)
{
	long n = 0;

	wait_for_word();
	go = 1;
	for (uint64_t end = now_ns() + 500000000; now_ns() < end;)
		for (int i = 0; i < 1000; i++)
			n += work(n) == 3 * n;
	stop = 1;
	return n;
}

static int shared_block(void)
{
	char *stack = mmap(NULL, 256 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid = clone(beside, stack + 256 * PAGE, CLONE_VM | SIGCHLD, NULL);
	long n = race();

	waitpid(pid, NULL, 0);
	printf("%ld\n", n + of_others);
	return 0;
}

/* As the C library leaves a block to the next thread: with the CPU of the last one, CPU 0. */
static void *unregistered(void *arg)
{
	struct rseq *r = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	stay_on(1);
	if (syscall(SYS_rseq, r, __rseq_size > 32 ? __rseq_size : 32, 1, RSEQ_SIG))
		exit(77);
	r->cpu_id = 0;
	done = 1;
	beside(arg);
	return NULL;
}

static int fresh_thread(void)
{
	pthread_t t;
	long n;

	if (!__rseq_size)
		return 77;
	stay_on(0);
	pthread_create(&t, NULL, unregistered, NULL);
	while (!done)
		usleep(1000);
	n = race();
	pthread_join(t, NULL);
	printf("%ld\n", n + of_others);
	return 0;
}

/* ---- calls that fail ---- */

plain static long raw_clone3(void *args, long size)
{
	long r;

	__asm__ volatile("mov $435, %%eax; syscall" : "=a"(r) : "D"(args), "S"(size) : "rcx", "r11", "memory");
	return r;
}

static int bad_calls(void)
{
	long raw = raw_clone3((void *)0x1000, 88), end = raw_clone3(end_of_memory() - 8, 88), null = raw_clone3(NULL, 0);
	long libc = syscall(SYS_clone3, (void *)0x1000, 88);

	printf("%d\n", work(1) == 3);
	return raw != -EFAULT || end != -EFAULT || null >= 0 || libc != -1;
}

/* ---- a child that has been taken over ---- */

static volatile uint64_t own_memory[1024];

static int is_shared_with_jab(const char *line)
{
	return strstr(line, "/SYSV6a6162") != NULL || strstr(line, "/memfd:jab") != NULL;
}

static void take_over(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], prot[8];
	unsigned long lo, hi;

	while (f && fgets(line, sizeof(line), f))
		if (is_shared_with_jab(line) && sscanf(line, "%lx-%lx %7s", &lo, &hi, prot) == 3 && prot[1] == 'w')
			for (volatile uint64_t *p = (uint64_t *)lo; p < (uint64_t *)hi; p++)
				*p = (uint64_t)(own_memory + 512);
	_exit(0);
}

static int hostile_child(void)
{
	int status = 1;
	pid_t pid;

	wait_for_word();
	for (int i = 0; i < 1000; i++)
		work(i);
	pid = fork();
	if (!pid)
		take_over();
	waitpid(pid, &status, 0);
	for (int i = 0; i < 1000; i++)
		work(i);
	for (int i = 0; i < 1024; i++)
		status |= own_memory[i] != 0;
	printf("%d\n", status);
	return status;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	waits = argc > 2;
	if (!strcmp(what, "again"))
		return again(argc > 2 ? atoi(argv[2]) : 100);
	if (!strcmp(what, "new"))
		return new_threads(argc > 2 ? atoi(argv[2]) : 1000);
	if (!strcmp(what, "bare"))
		return raw_thread(NULL);
	if (!strcmp(what, "own"))
		return raw_thread(end_of_memory() - 128);
	if (!strcmp(what, "moved"))
		return moved_pointer(0x5a, PAGE);
	if (!strcmp(what, "zeros"))
		return moved_pointer(0, PAGE);
	if (!strcmp(what, "edge"))
		return moved_pointer(0x5a, 256);
	if (!strcmp(what, "shared"))
		return shared_block();
	if (!strcmp(what, "fresh"))
		return fresh_thread();
	if (!strcmp(what, "clone3"))
		return bad_calls();
	return strcmp(what, "child") ? 2 : hostile_child();
}
