/* SPDX-License-Identifier: MIT */
/*
 * What the targets share. A target either runs once with its arguments, or serves commands that a
 * test writes to its standard input, one a line, and answers each with one line:
 *
 *	run N		call work() exactly N times, over all its threads    -> "done N"
 *	stop		check itself and end        -> "ok", status 0; or "bad: why", status 3
 *
 * End of input means stop. Whatever a target does in the background goes on between commands.
 */
#ifndef PROG_H
#define PROG_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define noinline __attribute__((noinline, noclone))
#if defined(__clang__)
#undef noinline
#define noinline __attribute__((noinline))
#endif

static char bad_why[1024];

/* What went wrong is collected, as long as there is room: the first one is usually the cause. */
static inline void bad(const char *fmt, ...)
{
	static char lock;
	size_t n;
	va_list ap;

	while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
		;
	n = strlen(bad_why);
	va_start(ap, fmt);
	if (n + 100 < sizeof(bad_why)) {
		if (n)
			n += (size_t)sprintf(bad_why + n, "; ");
		vsnprintf(bad_why + n, sizeof(bad_why) - n, fmt, ap);
	}
	va_end(ap);
	__atomic_clear(&lock, __ATOMIC_RELEASE);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The answer and the status that every target ends with. */
static inline int verdict(void)
{
	if (bad_why[0])
		printf("bad: %s\n", bad_why);
	else
		printf("ok\n");
	fflush(stdout);
	return bad_why[0] ? 3 : 0;
}

/* One line without its end; 0 at the end of input. Plain read(): no stdio buffer to fork. */
static inline int read_line(char *line, size_t room)
{
	size_t n = 0;
	char c;

	for (;;) {
		ssize_t r = read(0, &c, 1);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return 0;
		if (c == '\n')
			break;
		if (n + 1 < room)
			line[n++] = c;
	}
	line[n] = 0;
	return 1;
}

static inline void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

/* Serve commands until told to stop. other() may know more commands: 0 if it does. */
static inline int serve(void (*run)(long n), int (*other)(const char *line))
{
	char line[256];
	long n;

	say("ready");
	while (read_line(line, sizeof(line)) && strcmp(line, "stop")) {
		if (sscanf(line, "run %ld", &n) == 1) {
			run(n);
			say("done %ld", n);
		} else if (!other || other(line)) {
			say("what? %s", line);
		}
	}
	return 0;
}

#endif
