/* SPDX-License-Identifier: MIT */
/*
 * Static tracepoints as programs have them, with <sys/sdt.h>: some behind a semaphore, some at several places, with
 * values that a test can compute. Serves commands; "semaphore" answers with the values of the semaphores.
 */
#include "prog.h"

#include <sys/wait.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

void operands(long n);

__extension__ unsigned short app_guarded_semaphore __attribute__((unused, section(".probes"), visibility("hidden")));
__extension__ unsigned short app_both_semaphore __attribute__((unused, section(".probes"), visibility("hidden")));
__extension__ unsigned short app_plain_semaphore __attribute__((unused, section(".probes"), visibility("hidden")));

static long asked;	/* times that a semaphore was found raised */
volatile double ratio = 1.5;
volatile signed char small = -3;
volatile unsigned short middle = 60000;

noinline static void one(long i)
{
	char name[32];

	snprintf(name, sizeof(name), "item-%ld", i);
	STAP_PROBE5(app, plain, i, small, middle, ratio, name);
	if (__builtin_expect(app_guarded_semaphore, 0)) {
		asked++;
		STAP_PROBE2(app, guarded, i, name);
	}
}

noinline static void two(int i)
{
	if (app_both_semaphore) {
		asked++;
		STAP_PROBE2(app, both, 1, i);
		STAP_PROBE2(app, both, 2L, i + 1);
	}
}

noinline static void work(long n)
{
	for (long i = 0; i < n; i++) {
		one(i);
		two((int)i);
	}
	if (n)
		operands(n);
}

/* A child works, and answers for its own semaphores. */
static void child(long n, const char *self)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		if (self)
			execl(self, self, "work", (char *)NULL);
		asked = 0;
		work(n);
		_exit(asked == 2 * n ? 7 : asked ? 9 : 0);
	}
	waitpid(pid, &status, 0);
	say("child %d", WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
}

static pid_t sleeper;
static int to[2], from[2];

/* A child that stays, and says its semaphores when asked. */
static void start_sleeper(void)
{
	unsigned short v[2];
	char c;

	if (pipe(to) < 0 || pipe(from) < 0)
		exit(2);
	sleeper = fork();
	if (sleeper)
		return;
	while (read(to[0], &c, 1) == 1) {
		v[0] = app_guarded_semaphore;
		v[1] = app_both_semaphore;
		if (write(from[1], v, sizeof(v)) < 0)
			_exit(1);
	}
	_exit(0);
}

static void ask_sleeper(void)
{
	unsigned short v[2] = { 0 };

	if (write(to[1], "x", 1) != 1 || read(from[0], v, sizeof(v)) != sizeof(v))
		exit(2);
	say("%u %u", v[0], v[1]);
}

static int other(const char *line)
{
	unsigned int a, b;
	long n;

	if (!strcmp(line, "semaphore")) {
		say("%u %u", *(volatile unsigned short *)&app_guarded_semaphore, *(volatile unsigned short *)&app_both_semaphore);
	} else if (sscanf(line, "set %u %u", &a, &b) == 2) {
		*(volatile unsigned short *)&app_guarded_semaphore = a;
		*(volatile unsigned short *)&app_both_semaphore = b;
		say("set");
	} else if (sscanf(line, "fork %ld", &n) == 1) {
		child(n, NULL);
	} else if (sscanf(line, "exec %ld", &n) == 1) {
		child(n, "/proc/self/exe");
	} else if (!strcmp(line, "keep")) {
		start_sleeper();
		say("kept %d", sleeper);
	} else if (!strcmp(line, "kept")) {
		ask_sleeper();
	} else {
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "work")) {
		long n = argc > 2 ? atol(argv[2]) : 3;

		work(n);
		return asked == 2 * n ? 7 : asked ? 9 : 0;
	}
	serve(work, other);
	if (sleeper)
		kill(sleeper, SIGKILL);
	return verdict();
}
