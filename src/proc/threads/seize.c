/* SPDX-License-Identifier: MIT */
/*
 * PTRACE_SEIZE waits for a lock that a thread in execve holds for as long as the call takes. Here the wait is ended after
 * a moment, by the signal of a timer.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"

#define SEIZE_NS 2000000ull
#define SIGNAL (SIGRTMAX - 3)

static sigjmp_buf out;
static volatile sig_atomic_t armed;

static void on_timer(int sig)
{
	(void)sig;
	if (armed)
		siglongjmp(out, 1);
}

static int try_to_seize(timer_t timer, pid_t tid, unsigned long options)
{
	struct itimerspec t = { .it_value.tv_nsec = SEIZE_NS };
	int r;

	if (sigsetjmp(out, 1)) {	/* the signal may have come after PTRACE_SEIZE was done */
		armed = 0;
		return status_of(tid, "TracerPid") == (uint64_t)getpid() ? 0 : -EAGAIN;
	}
	armed = 1;
	timer_settime(timer, 0, &t, NULL);
	r = ptrace(PTRACE_SEIZE, tid, 0, options) < 0 ? -errno : 0;
	armed = 0;
	return r;
}

int seize_soon(pid_t tid, unsigned long options)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL };
	struct sigaction sa = { .sa_handler = on_timer }, before;
	timer_t timer;
	int r;

	ev._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer) < 0)
		return -errno;
	sigaction(SIGNAL, &sa, &before);
	r = try_to_seize(timer, tid, options);
	timer_delete(timer);
	sigaction(SIGNAL, &before, NULL);
	return r;
}

uint64_t status_of(pid_t tid, const char *name)
{
	char path[64], status[4096];
	uint64_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (file_read(path, status, sizeof(status)) > 0)
		status_field(status, name, 10, &n);
	return n;
}
