/* SPDX-License-Identifier: MIT */
/*
 * Following a thread through its exec. It is traced from before the call until the new program is
 * held; our death in between lets it go on, and it runs without probes. If the call fails (a search
 * along PATH does that often), the stop at its end tells, and the thread is let go.
 */
#include "proc/exec.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)
#define PATIENCE_NS 1000000000ull

int proc_may_follow(struct proc *p, pid_t tid, int dir, const char *path)
{
	char full[PATH_MAX + 128];
	struct stat st;
	char caps[64];

	if (path[0] == '/')
		snprintf(full, sizeof(full), "/proc/%d/root%s", tid, path);
	else if (dir == AT_FDCWD)
		snprintf(full, sizeof(full), "/proc/%d/cwd/%s", tid, path);
	else
		snprintf(full, sizeof(full), "/proc/%d/fd/%d%s%s", tid, dir, *path ? "/" : "", path);
	if (stat(full, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	if (geteuid() != 0 && ((st.st_mode & (S_ISUID | S_ISGID)) ||
			       getxattr(full, "security.capability", caps, sizeof(caps)) > 0))
		return fail(-EPERM, "%s has privileges that it would lose under a tracer: not followed", path);
	return 0;
}

/* A non-leader that executes becomes the leader: its stop comes under the other number. */
static pid_t wait_for(pid_t pid, pid_t tid, uint64_t until, int *ret_status)
{
	for (;;) {
		pid_t got = waitpid(tid, ret_status, __WALL | WNOHANG);

		if (got <= 0 && pid != tid)
			got = waitpid(pid, ret_status, __WALL | WNOHANG);
		if (got > 0)
			return got;
		if (now_ns() > until)
			return 0;
		sleep_ns(30000);
	}
}

static bool exec_has_failed(pid_t tid)
{
	struct user_regs_struct regs;
	struct { uint8_t op; uint8_t pad[3]; uint32_t arch; uint64_t ip, sp; int64_t rval; uint8_t is_error, rest[63]; } info;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) < 0)
		return true;
	if (regs.orig_rax != SYS_execve && regs.orig_rax != SYS_execveat)
		return false;
	memset(&info, 0, sizeof(info));
	/* 2: the end of a call */
	return ptrace(0x420e, tid, sizeof(info), &info) > 0 && info.op == 2 && info.is_error;
}

/* 1: the new program is there, under *ret_pid; 0: it is not coming. */
static int wait_for_exec(pid_t pid, pid_t tid, void (*go)(void *arg), void *arg)
{
	uint64_t until = now_ns() + PATIENCE_NS;
	bool went = false;
	int status;
	pid_t got;

	while ((got = wait_for(pid, tid, until, &status)) > 0) {
		int event = status >> 16, sig = 0;

		if (!WIFSTOPPED(status))
			return 0;
		if (event == PTRACE_EVENT_EXEC)
			return 1;
		if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
			ptrace(PTRACE_LISTEN, got, 0, 0);
			continue;
		}
		if (!event && WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			if (exec_has_failed(got)) {
				ptrace(PTRACE_DETACH, got, 0, 0);
				return 0;
			}
		} else if (!event) {
			sig = WSTOPSIG(status);
		}
		if (!went)
			go(arg);
		went = true;
		ptrace(PTRACE_SYSCALL, got, 0, sig);
	}
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	if (wait_for(pid, tid, now_ns() + PATIENCE_NS, &status) > 0 && WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, tid, 0, 0);
	return 0;
}

int proc_adopt(pid_t pid, pid_t tid, struct proc **ret_proc)
{
	struct proc *p = proc_alloc(pid);
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	p->mem = open(path, O_RDWR | O_CLOEXEC);
	r = p->mem < 0 ? fail(-errno, "the memory of process %d can't be opened", pid) : proc_fill(p);
	if (!r)
		r = proc_read_maps(p);
	if (!r)
		r = gadget_find(p);
	if (!r)
		r = hold_thread(p, tid);
	if (r < 0) {
		ptrace(PTRACE_DETACH, tid, 0, 0);
		proc_close(p);
		return r;
	}
	*ret_proc = p;
	return 0;
}

int proc_follow_exec(pid_t pid, pid_t tid, void (*go)(void *arg), void *arg, struct proc **ret_proc)
{
	if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS) < 0)
		return fail(-errno, "thread %d can't be followed through its exec: %s", tid, strerror(errno));
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	if (!wait_for_exec(pid, tid, go, arg))
		return -ENOENT;
	return proc_adopt(pid, pid, ret_proc);
}
