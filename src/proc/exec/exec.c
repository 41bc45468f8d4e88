/* SPDX-License-Identifier: MIT */
/*
 * Following a thread through its exec. It is traced from before the call until the new program is
 * held; if the tracer dies in between, it goes on without probes. If the call fails (frequent in a search
 * along PATH), the stop after it shows that, and we detach. After the exec it goes on until its loader
 * is ready, so that one attach is enough: to a breakpoint in the loader (loadbreak.h), or else from one system call to the
 * next (loading.h).
 */
#include "proc/exec/exec.h"

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
#include "base/mem.h"
#include "proc/internal.h"
#include "proc/exec/loadbreak.h"
#include "proc/exec/loading.h"
#include "proc/threads/near.h"

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)
#define PATIENCE_NS 2000000000ull
#define LOADING_NS 1000000000ull	/* after so long the process is held as it is, and its loader gets a probe */
#define MOVES_NS 1000000ull
#define MOST_STOPS 16

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

struct exec_way {
	pid_t pid, tid;
	uint64_t since;		/* when exec_begin() was called, or when the new program began */
	uint64_t moved;		/* when its last stop was */
	struct loading loading;
	struct load_break brk;	/* if set, the loader is followed by this breakpoint instead of its system calls */
	bool ours;		/* it may be a child of the tracer */
	bool went;		/* go() was called */
	bool executed;		/* the new program is mapped, and its loader runs */
	bool loaded;		/* its libraries are ready, too */
	bool late;		/* its loader takes too long: the process is held at its next stop */
	bool ready;		/* it is in a stop and can be probed */
	bool leaving;		/* given up: we detach at its next stop */
};

/*
 * The exit status of a child of the tracer is left for proc_child_ended(). To be called before the thread is seized: until then
 * only children can be waited for.
 */
static bool may_be_our_child(pid_t pid)
{
	siginfo_t info;

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

static bool is_our_child(pid_t pid)
{
	struct task_stat s;

	return task_stat(pid, pid, &s) == 0 && s.ppid == getpid();
}

/* The next wait status of a thread. 0: none yet; -ECHILD: it is gone */
static pid_t stop_of(pid_t tid, bool ours, int *ret_status)
{
	siginfo_t info = { 0 };

	if (!ours) {
		pid_t got = waitpid(tid, ret_status, __WALL | WNOHANG);

		return got < 0 ? -ECHILD : got;
	}
	if (waitid(P_PID, tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0)
		return -ECHILD;
	if (!info.si_pid)
		return 0;
	if ((info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) && is_our_child(tid))
		return -ECHILD;
	return waitpid(tid, ret_status, __WALL | WNOHANG);
}

/* A thread that executes becomes the main thread: its stop is reported for that tid. */
static pid_t next_stop(const struct exec_way *w, int *ret_status)
{
	pid_t got = stop_of(w->tid, w->ours, ret_status), first = got;

	if (got <= 0 && w->pid != w->tid)
		got = stop_of(w->pid, w->ours, ret_status);
	return got > 0 ? got : MAX(got, first) < 0 ? -ECHILD : 0;
}

static bool exec_has_failed(pid_t tid)
{
	struct thread_regs regs;
	struct { uint8_t op; uint8_t pad[3]; uint32_t arch; uint64_t ip, sp; int64_t rval; uint8_t is_error, rest[63]; } info;

	if (arch_host()->thread->get(tid, &regs) < 0)
		return true;
	if (regs.call != SYS_execve && regs.call != SYS_execveat)
		return false;
	memset(&info, 0, sizeof(info));
	/* 2: the end of a call */
	return ptrace(0x420e, tid, sizeof(info), &info) > 0 && info.op == 2 && info.is_error;
}

static int let_go(struct exec_way *w, pid_t tid, int status, int r)
{
	int sig = status >> 16 || WSTOPSIG(status) & 0x80 ? 0 : WSTOPSIG(status);

	if (w->brk.set && sig == SIGURG)
		load_break_look(&w->brk, tid, &sig);
	load_break_clear(&w->brk);
	ptrace(PTRACE_DETACH, tid, 0, sig);
	return r;
}

static void go_on(const struct exec_way *w, pid_t tid, int sig)
{
	ptrace(w->brk.set ? PTRACE_CONT : PTRACE_SYSCALL, tid, 0, sig);
}

/* The new program is mapped, and its loader if it has one. */
static int at_exec(struct exec_way *w, pid_t got)
{
	uint64_t base = loading_base(w->pid);

	w->tid = w->pid;
	w->since = now_ns();
	w->executed = true;
	w->loading = (struct loading){ 0 };
	w->loaded = !base;
	load_break_clear(&w->brk);
	near_to(w->pid, w->pid);
	if (w->loaded)
		return 1;
	load_break_set(&w->brk, w->pid, base);
	go_on(w, got, 0);
	return 0;
}

/* In the stop before or after a system call. */
static int at_call(struct exec_way *w, pid_t got, int status)
{
	struct thread_regs regs;
	enum loading_at at;

	if (!w->executed)
		return exec_has_failed(got) ? let_go(w, got, status, -ENOENT) : 0;
	if (arch_host()->thread->get(got, &regs) < 0)
		return 0;	/* killed this moment */
	at = loading_look(&w->loading, w->pid, &regs);
	w->loaded = at == LOADING_READY;
	return at != LOADING_ON;
}

/* In the stop before the delivery of a SIGURG, which the breakpoint may have sent. */
static int at_break(struct exec_way *w, pid_t got, int *sig)
{
	enum loading_at at = load_break_look(&w->brk, got, sig);

	if (at == LOADING_UNSEEN)
		loading_begin_here(&w->loading, w->pid);
	if (at != LOADING_ON)
		load_break_clear(&w->brk);
	w->loaded = at == LOADING_READY;
	return w->loaded;
}

/* The stop by PTRACE_INTERRUPT, since the loader takes long or the breakpoint's signal does not come. */
static int at_late(struct exec_way *w)
{
	w->loaded = load_break_missed(&w->brk);
	load_break_clear(&w->brk);
	return 1;
}

/* One stop. 1: the new program is ready to be probed; 0: it goes on; <0: it is not followed any more */
static int at_stop(struct exec_way *w, pid_t got, int status, void (*go)(void *arg), void *arg)
{
	int event = status >> 16, sig = 0, r = 0;

	if (!WIFSTOPPED(status))
		return -ENOENT;
	if (w->leaving)
		return let_go(w, got, status, -ETIME);
	if (event == PTRACE_EVENT_EXEC)
		return at_exec(w, got);
	if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
		ptrace(PTRACE_LISTEN, got, 0, 0);
		return 0;
	}
	if (event == PTRACE_EVENT_STOP && w->late)
		return at_late(w);
	if (!event && WSTOPSIG(status) == (SIGTRAP | 0x80))
		r = at_call(w, got, status);
	else if (!event)
		sig = WSTOPSIG(status);
	if (sig == SIGURG && w->brk.set)
		r = at_break(w, got, &sig);
	if (r)
		return r;
	if (!w->went)
		go(arg);
	w->went = true;
	go_on(w, got, sig);
	return 0;
}

int proc_adopt(pid_t pid, pid_t tid, struct proc **ret_proc)
{
	struct proc *p = proc_alloc(pid);
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	p->mem = open(path, O_RDWR | O_CLOEXEC);
	r = p->mem < 0 ? fail(-errno, "the memory of process %d can't be opened", pid) : proc_open_task(p);
	if (!r)
		r = hold_thread(p, tid);
	if (r < 0)
		ptrace(PTRACE_DETACH, tid, 0, 0);
	/* Held first: what is read from /proc now is kept (maps.c). */
	if (!r)
		r = proc_fill(p);
	if (!r)
		r = proc_read_maps(p);
	if (!r)
		r = gadget_find(p);
	if (r < 0) {
		proc_close(p);
		return r;
	}
	*ret_proc = p;
	return 0;
}

int exec_begin(pid_t pid, pid_t tid, bool alone, struct exec_way **ret_way)
{
	bool ours = may_be_our_child(pid);
	int r = seize_soon(tid, OPTIONS);

	if (r < 0)
		return fail(r, "thread %d can't be followed through its exec: %s", tid, strerror(-r));
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	*ret_way = xcalloc(1, sizeof(**ret_way));
	**ret_way = (struct exec_way){ .pid = pid, .tid = tid, .since = now_ns(), .ours = ours };
	(*ret_way)->moved = alone ? (*ret_way)->since : 0;	/* alone, it stops at once: exec_moves() */
	return 0;
}

/* A loader that takes long (its files may be on a slow server) is not followed further: by a probe in it, it parks when ready. */
static void look_at_clock(struct exec_way *w, uint64_t now)
{
	if (w->leaving || now - w->since <= (w->executed ? LOADING_NS : PATIENCE_NS))
		return;
	if (!w->executed) {
		exec_leave(w);
	} else if (!w->late) {
		w->late = true;
		ptrace(PTRACE_INTERRUPT, w->pid, 0, 0);
	}
}

int exec_poll(struct exec_way *w, void (*go)(void *arg), void *arg)
{
	int status, r = w->ready;
	pid_t got = 0;

	if (w->ready && w->leaving)
		return -ETIME;
	/* Each signal is a stop: a limit, so that a thread that sends itself signals does not keep us here. */
	for (int i = 0; !r && i < MOST_STOPS && (got = next_stop(w, &status)) > 0; i++) {
		r = at_stop(w, got, status, go, arg);
		w->moved = now_ns();
	}
	w->ready = r > 0;
	if (!r && got < 0)
		return -ENOENT;
	if (!r)
		look_at_clock(w, now_ns());
	return r;
}

bool exec_is_ready(const struct exec_way *w)
{
	return w->ready;
}

bool exec_moves(const struct exec_way *w)
{
	return !w->ready && now_ns() - w->moved < MOVES_NS;
}

int exec_take(struct exec_way *w, struct proc **ret_proc, bool *ret_loaded)
{
	int r = proc_adopt(w->pid, w->pid, ret_proc), status;

	*ret_loaded = w->loaded;
	if (r == 0)
		priv(*ret_proc)->born_in = priv(*ret_proc)->stops;
	if (r < 0)
		stop_of(w->pid, w->ours, &status);	/* if it was killed meanwhile, its parent can reap it only after us */
	return r;
}

void exec_leave(struct exec_way *w)
{
	w->leaving = true;
	if (w->ready) {
		ptrace(PTRACE_DETACH, w->pid, 0, 0);
		return;
	}
	ptrace(PTRACE_INTERRUPT, w->tid, 0, 0);
	if (w->pid != w->tid)
		ptrace(PTRACE_INTERRUPT, w->pid, 0, 0);
}

void exec_free(struct exec_way *w)
{
	load_break_clear(&w->brk);
	free(w);
}
