/* SPDX-License-Identifier: MIT */
/*
 * Starting a program and holding it before code of it or of its libraries runs. The child waits until it is seized,
 * then executes; at the stop that follows, the kernel has mapped the program and its loader. The loader is followed from one
 * system call to the next until libraries are ready and constructors have not run (loading.h). A loader that makes no such call
 * gets a breakpoint where it reports to debuggers. In any case there is a breakpoint on the program's entry, where a static
 * program begins, and musl's programs before constructors. The breakpoints are removed before anything else is done; until
 * then the death of the tracer kills the child.
 */
#include "proc/internal.h"
#include "proc/exec/loading.h"
#include "proc/threads/near.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS_BEFORE (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

/* Signal mask and ignored signals as they were when jab was started: the child gets these, not jab's own. */
static sigset_t start_mask;
static uint64_t start_ignored;

__attribute__((constructor)) static void remember_signals(void)
{
	struct sigaction sa;
	int i;

	sigprocmask(SIG_SETMASK, NULL, &start_mask);
	for (i = 1; i < 65; i++)
		if (sigaction(i, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			start_ignored |= 1ull << (i - 1);
}

static void signals_as_at_start(void)
{
	struct sigaction sa = { 0 };
	int i;

	for (i = 1; i < 65; i++) {
		sa.sa_handler = start_ignored >> (i - 1) & 1 ? SIG_IGN : SIG_DFL;
		sigaction(i, &sa, NULL);
	}
	sigprocmask(SIG_SETMASK, &start_mask, NULL);
}

static bool may_execute(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The path that execvp() would execute: the first hit in PATH that is executable. */
static int find_program(const char *name, char *ret_path, size_t len)
{
	const char *path = getenv("PATH"), *next;

	if (!name[0])
		return fail(-ENOENT, "no program is given");
	if (strchr(name, '/')) {
		if ((size_t)snprintf(ret_path, len, "%s", name) >= len)
			return fail(-ENAMETOOLONG, "%.60s...: the name is too long", name);
		return access(name, F_OK) == 0 ? 0 : fail(-errno, "%s: no such program", name);
	}
	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; path; path = next) {
		int n = strcspn(path, ":");

		next = path[n] ? path + n + 1 : NULL;
		if ((size_t)snprintf(ret_path, len, "%.*s/%s", n ? n : 1, n ? path : ".", name) < len &&
		    may_execute(ret_path))
			return 0;
	}
	return fail(-ENOENT, "%s: no such program in PATH", name);
}

/* Under a tracer without privilege a set-user-id program runs without its privilege, and would only fail later. */
static int refuse_privileged(const char *path)
{
	struct stat st;

	if (geteuid() != 0 && stat(path, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)))
		return fail(-EPERM, "%s is a set-user-id program and would lose its privilege under a tracer: "
			    "run jab as root", path);
	return 0;
}

__attribute__((noreturn)) static void child(char *const argv[], const char *path, int go, int result)
{
	extern char **environ;
	char byte;
	int err;

	signals_as_at_start();
	if (read(go, &byte, 1) == 1) {
		execve(path, argv, environ);
		err = errno;
		if (write(result, &err, sizeof(err)) < 0)
			_exit(126);
	}
	_exit(127);
}

static int exec_failed(const char *path, int err)
{
	if (err == ENOENT)
		return fail(-ENOENT, "%s: its interpreter does not exist (see its first line, or its loader)", path);
	if (err == ENOEXEC)
		return fail(-ENOEXEC, "%s is no program that can be executed (a script needs #! in its first "
			    "line)", path);
	return fail(-err, "%s can't be executed: %s", path, strerror(err));
}

static int ended_early(const char *path, int status)
{
	if (WIFSIGNALED(status))
		return fail(-ECHILD, "%s was ended by signal %d (%s) before its first instruction", path,
			    WTERMSIG(status), strsignal(WTERMSIG(status)));
	return fail(-ECHILD, "%s ended before its first instruction, with exit status %d", path,
		    WEXITSTATUS(status));
}

struct trap { uint64_t at; struct code_bytes old; bool set; };

/* The places at which the new program is held: at the first that it reaches. */
struct begin {
	struct loading loading;
	bool loads;		/* its loader is followed from call to call */
	struct trap entry;	/* the program's entry point */
	struct trap loaded;	/* the function that the loader calls when libraries are ready, if no system call shows that */
};

static int set_trap(struct proc *p, struct trap *t, uint64_t at)
{
	const struct code_bytes *trap = &p->arch->thread->trap;
	int r = proc_read(p, TADDR(at), t->old.bytes, trap->len);

	if (r == 0)
		r = proc_write(p, TADDR(at), trap->bytes, trap->len);
	t->old.len = trap->len;
	t->at = at;
	t->set = r == 0;
	return r;
}

static int clear_traps(struct proc *p, struct begin *b)
{
	struct trap *traps[] = { &b->entry, &b->loaded };
	int r = 0;

	for (int i = 0; i < 2 && !r; i++) {
		if (traps[i]->set)
			r = proc_write(p, TADDR(traps[i]->at), traps[i]->old.bytes, traps[i]->old.len);
		traps[i]->set = false;
	}
	return r;
}

/* After an exec: the address space is new, so /proc/PID/mem is opened again and everything is read anew. */
static int at_exec(struct proc *p, struct begin *b)
{
	char path[64];
	uint64_t at;
	int r = proc_check_machine(p);

	if (r < 0)
		return r;
	if (p->mem >= 0)
		close(p->mem);
	snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
	p->mem = open(path, O_RDWR | O_CLOEXEC);
	if (p->mem < 0)
		return fail(-EIO, "the started program can't be read");
	at = loading_auxv(p->pid, AT_ENTRY);
	if (!at)
		return fail(-EIO, "the started program has no entry point");
	*b = (struct begin){ .loads = loading_shows() && loading_base(p->pid) };
	if (b->loads)
		near_to(p->pid, p->pid);
	return set_trap(p, &b->entry, at);
}

/* Returns 1 if its libraries are ready and none of their constructors has run. */
static int at_call(struct proc *p, struct begin *b)
{
	struct thread_regs regs;
	enum loading_at at;
	uint64_t brk;

	if (!b->loads || p->arch->thread->get(p->pid, &regs) < 0)
		return 0;
	at = loading_look(&b->loading, p->pid, &regs);
	b->loads = at == LOADING_ON;
	if (at == LOADING_READY)
		return clear_traps(p, b) ?: 1;
	if (at == LOADING_UNSEEN && loading_reports(p, &brk))
		set_trap(p, &b->loaded, brk);
	return 0;
}

/* Returns 1 if this stop is one of the traps: then they are removed, and the PC is set to the trap's address. */
static int at_trap(struct proc *p, struct begin *b, int sig)
{
	const uint64_t after = p->arch->thread->trap_pc;
	struct thread_regs regs;
	int r;

	if (sig != SIGTRAP || p->arch->thread->get(p->pid, &regs) < 0 ||
	    !((b->entry.set && regs.cpu.pc == b->entry.at + after) || (b->loaded.set && regs.cpu.pc == b->loaded.at + after)))
		return 0;
	r = clear_traps(p, b);
	if (r < 0)
		return r;
	regs.cpu.pc -= after;
	if (p->arch->thread->put(p->pid, &regs) < 0)
		return fail(-errno, "registers of process %d: %s", p->pid, strerror(errno));
	return 1;
}

/* One stop. 1: the program is where it is to be held; 0: it goes on, and gets the signals sent to it. */
static int at_stop(struct proc *p, struct begin *b, int status)
{
	int sig = 0, r = 0;

	if (status >> 16 == PTRACE_EVENT_EXEC) {
		r = at_exec(p, b);
	} else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
		r = at_call(p, b);
	} else if (!(status >> 16)) {
		sig = WSTOPSIG(status);
		r = at_trap(p, b, sig);
	} else if (WSTOPSIG(status) != SIGTRAP) {
		ptrace(PTRACE_LISTEN, p->pid, 0, 0);	/* a group stop: until SIGCONT */
		return 0;
	}
	if (!r)
		ptrace(b->loads ? PTRACE_SYSCALL : PTRACE_CONT, p->pid, 0, sig);
	return r;
}

static int run_to_begin(struct proc *p, const char *path)
{
	struct begin begin = { 0 };
	int status, r;

	do {
		r = waitpid(p->pid, &status, __WALL);
		if (r < 0 && errno == EINTR) {
			r = 0;
			continue;
		}
		if (r < 0)
			return fail(-errno, "waiting for %s: %s", path, strerror(errno));
		if (!WIFSTOPPED(status)) {
			p->gone = true;
			return ended_early(path, status);
		}
		r = at_stop(p, &begin, status);
	} while (!r);
	return r < 0 ? r : 0;
}

/* From any stop to the kind that proc_stop() makes; from now on the death of the tracer does not kill the process. */
int hold_thread(struct proc *p, pid_t tid)
{
	int status, sig = 0, r;

	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	do {
		ptrace(PTRACE_CONT, tid, 0, sig);
		while ((r = waitpid(tid, &status, __WALL)) < 0 && errno == EINTR)
			;
		if (r < 0 || !WIFSTOPPED(status)) {
			p->gone = true;
			return fail(-ESRCH, "process %d has ended", p->pid);
		}
		sig = status >> 16 ? 0 : WSTOPSIG(status);
	} while (status >> 16 != PTRACE_EVENT_STOP);
	/* Not earlier: if the tracer died, the process would run into a trap. */
	if (ptrace(PTRACE_SETOPTIONS, tid, 0, PTRACE_O_TRACESYSGOOD) < 0)
		return fail(-errno, "process %d: %s", p->pid, strerror(errno));
	return threads_adopt(p, tid);
}

int hold_here(struct proc *p)
{
	return hold_thread(p, p->pid);
}

static int start(struct proc *p, const char *path, int go, int result)
{
	int err, r;

	if (ptrace(PTRACE_SEIZE, p->pid, 0, OPTIONS_BEFORE) < 0)
		return fail(-errno, "jab may not trace its own child: %s", strerror(errno));
	if (write(go, "", 1) != 1)
		return fail(-errno, "%s can't be started: %s", path, strerror(errno));
	/* The pipe is closed by the exec, or delivers its error. */
	while ((r = read(result, &err, sizeof(err))) < 0 && errno == EINTR)
		;
	if (r == sizeof(err))
		return exec_failed(path, err);
	r = run_to_begin(p, path);
	near_leave();
	if (r == 0)
		r = proc_fill(p);
	if (r == 0)
		r = proc_read_maps(p);
	if (r == 0)
		r = gadget_find(p);
	return r < 0 ? r : hold_here(p);
}

static int spawn_failed(struct proc *p, int r)
{
	int status;

	if (!p->gone && p->pid > 0) {
		kill(p->pid, SIGKILL);
		while (waitpid(p->pid, &status, __WALL) == p->pid && WIFSTOPPED(status))
			;
	}
	p->gone = true;
	proc_close(p);
	return r;
}

int proc_spawn(char *const argv[], struct proc **ret_proc)
{
	int go[2], result[2], r;
	char path[4096];
	struct proc *p;
	pid_t pid;

	r = find_program(argv[0] ? argv[0] : "", path, sizeof(path));
	if (r == 0)
		r = refuse_privileged(path);
	if (r < 0)
		return r;
	if (pipe2(go, O_CLOEXEC) < 0)
		return fail(-errno, "no pipe: %s", strerror(errno));
	if (pipe2(result, O_CLOEXEC) < 0) {
		close(go[0]);
		close(go[1]);
		return fail(-EMFILE, "no pipe: %s", strerror(errno));
	}
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		child(argv, path, go[0], result[1]);
	}
	r = pid < 0 ? fail(-errno, "no new process: %s", strerror(errno)) : 0;
	close(go[0]);
	close(result[1]);
	p = proc_alloc(pid);
	p->started_by_us = true;
	if (r == 0)
		r = start(p, path, go[1], result[0]);
	close(go[1]);
	close(result[0]);
	if (r < 0)
		return spawn_failed(p, r);
	*ret_proc = p;
	return 0;
}
