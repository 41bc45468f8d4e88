/* SPDX-License-Identifier: MIT */
/*
 * Calls grind() amid trouble of all kinds, and tells who called it how often: "PID TID CALLS" lines.
 *
 *	mill storm THREADS CALLS	threads that are interrupted every 50 us by a handler that calls it, too, and
 *					sent from CPU to CPU all the time
 *	mill forks CHILDREN CALLS	children, up to 50 at a time
 *	mill execs TIMES CALLS		vfork and exec, posix_spawn, system, popen, in turn, of itself
 *	mill crash SIGNAL CALLS		ends by that signal, really (SIGSEGV: by a bad store)
 *	mill once 0 CALLS		only calls
 *
 * With a fourth argument, a file, how far each of its threads is can be seen there from outside: struct teller.
 */
#include "prog.h"
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define MOST_THREADS 256

static struct teller {
	int pid, tid;
	volatile long calls, done;
	volatile long since;	/* time stamp counter before the last one of these; written behind them */
} *board;
static __thread struct teller *me;
static atomic_int running, all_there;
static atomic_long nested;
static long calls;
static int pauses;	/* between calls, so that there is time for trouble */
static char own[4096];

noinline long grind(long n, long twice)
{
	__asm__ volatile("" : "+r"(n), "+r"(twice));
	return n + twice;
}

static void on_signal(int sig)
{
	if (!me)
		return;
	grind(-1, -2);
	__atomic_fetch_add(&me->calls, 1, __ATOMIC_RELAXED);
	nested++;
}

static void work(struct teller *t)
{
	t->pid = getpid();
	t->tid = syscall(SYS_gettid);
	__asm__ volatile("" ::: "memory");
	me = t;
	for (long i = 0; i < calls; i++) {
		long now = __builtin_ia32_rdtsc();

		grind(i, 2 * i);
		__atomic_fetch_add(&t->calls, 1, __ATOMIC_RELAXED);	/* a handler adds here, too */
		t->done = i + 1;
		t->since = now;
		for (int k = 0; k < pauses; k++)
			__builtin_ia32_pause();
	}
	me = NULL;
}

static void tell(const struct teller *t)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%d %d %ld\n", t->pid, t->tid, t->calls);

	if (write(1, line, n) != n)
		_exit(4);
}

static void *thread(void *arg)
{
	while (!all_there)
		sched_yield();
	work(arg);
	running--;
	return NULL;
}

static void send_around(pid_t tid, unsigned *seed, const cpu_set_t *all)
{
	int cpu = rand_r(seed) % CPU_COUNT(all);
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, all) && cpu-- == 0)
			CPU_SET(i, &one);
	sched_setaffinity(tid, sizeof(one), &one);
}

static void trouble(int n)
{
	unsigned seed = 7;
	cpu_set_t all;

	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; running; i = (i + 1) % n) {
		pid_t tid = board[i].tid;

		if (tid)
			send_around(tid, &seed, &all);
		usleep(50);
	}
}

static void storm(int n)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	pthread_t t[MOST_THREADS];
	sigset_t set;

	sigaction(SIGALRM, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	running = n;
	pauses = 400;
	for (int i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, thread, &board[i]))
			exit(1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);		/* for the others */
	all_there = 1;
	setitimer(ITIMER_REAL, &often, NULL);
	trouble(n);
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < n; i++) {
		pthread_join(t[i], NULL);
		tell(&board[i]);
	}
	fprintf(stderr, "%ld signals\n", (long)nested);
}

static void forks(int n)
{
	int alive = 0;

	for (int i = 0; i < n; i++) {
		if (alive == 50 && wait(NULL) > 0)
			alive--;
		alive++;
		if (fork() == 0) {
			work(board);
			tell(board);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	work(board);
	tell(board);
}

static void by_vfork(char **argv)
{
	if (vfork() == 0) {
		execv(own, argv);
		_exit(127);
	}
}

static void by_shell(bool with_pipe, const char *count)
{
	char line[8192], text[128];
	FILE *f;

	snprintf(line, sizeof(line), "'%s' once 0 %s", own, count);
	if (!with_pipe) {
		if (system(line))
			exit(1);
		return;
	}
	f = popen(line, "r");
	if (!f || !fgets(text, sizeof(text), f) || write(1, text, strlen(text)) < 0 || pclose(f))
		exit(1);
}

static void execs(int n, char *count)
{
	char *argv[] = { own, "once", "0", count, NULL };
	pid_t pid;

	for (int i = 0; i < n; i++) {
		if (i % 4 == 0)
			by_vfork(argv);
		else if (i % 4 == 1 && posix_spawn(&pid, own, NULL, NULL, argv, environ))
			exit(1);
		else if (i % 4 > 1)
			by_shell(i % 4 == 3, count);
	}
	while (wait(NULL) > 0)
		;
	work(board);
	tell(board);
}

static void crash(int sig)
{
	static volatile int *volatile nowhere;

	work(board);
	tell(board);
	if (sig == SIGSEGV)
		*nowhere = 1;
	else if (sig == SIGABRT)
		abort();
	raise(sig);
}

static struct teller *make_board(const char *path)
{
	size_t size = MOST_THREADS * sizeof(*board);
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *p;

	if (!path)
		return calloc(MOST_THREADS, sizeof(*board));
	p = fd < 0 || ftruncate(fd, size) ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		exit(1);
	return p;
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[2]) : 1;

	if (argc < 4 || n > 4096 || readlink("/proc/self/exe", own, sizeof(own) - 1) < 0)
		return 2;
	calls = atol(argv[3]);
	board = make_board(argv[4]);
	if (!strcmp(argv[1], "storm"))
		storm(n < MOST_THREADS ? n : MOST_THREADS);
	else if (!strcmp(argv[1], "forks"))
		forks(n);
	else if (!strcmp(argv[1], "execs"))
		execs(n, argv[3]);
	else if (!strcmp(argv[1], "crash"))
		crash(n);
	else {
		work(board);
		tell(board);
	}
	return 0;
}
