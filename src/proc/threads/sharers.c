/* SPDX-License-Identifier: MIT */
/*
 * Processes that share the target's memory without being threads of it: children of vfork and
 * posix_spawn before they execute, and bare clone(CLONE_VM). They could execute text while it is
 * written. They are found among the descendants of the target; kcmp() shows whether the memory is the same.
 */
#include "arch/syscalls.h"
#include "proc/internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"

#define MANY_PIDS 16		/* so many new pids are too many for one kcmp() each */
#define GRACE_NS 30000000ull	/* time that a new process has for its exec before it is seized, */
#define GRACE_RUN_NS 5000000ull	/* or CPU time, which on a busy machine takes longer, */
#define GRACE_MOST_NS 1000000000ull	/* but not more than this */

static bool is_known(struct proc *p, pid_t pid)
{
	size_t i;

	if (pid == p->pid)
		return true;
	for (i = 0; i < priv(p)->sharers.n; i++)
		if (priv(p)->sharers.v[i] == pid)
			return true;
	return false;
}

/* Without kcmp in the kernel every child counts as a sharer: to hold another process for a moment does no harm. */
static bool same_memory(struct proc *p, pid_t pid)
{
	long r = syscall(SYS_kcmp, priv(p)->via, pid, KCMP_VM, 0, 0);

	return r == 0 || (r < 0 && errno == ENOSYS);
}

static int add_children(struct proc *p, const char *list)
{
	int found = 0;
	char *end;
	long pid;

	while ((pid = strtol(list, &end, 10)) > 0 && end != list) {
		list = end;
		if (is_known(p, pid) || !same_memory(p, pid))
			continue;
		*vec_add(&priv(p)->sharers) = pid;
		found++;
	}
	return found;
}

static int children_of(struct proc *p, int dir, const char *tid)
{
	char path[64], *list;
	size_t len;
	int found;

	snprintf(path, sizeof(path), "%s/children", tid);
	list = file_load_at(dir, path, &len);
	found = list ? add_children(p, list) : 0;
	free(list);
	return found;
}

struct entry { uint64_t ino; int64_t off; unsigned short len; unsigned char type; char name[]; };

static int children_of_all(struct proc *p, int dir)
{
	char buf[32768];
	int found = 0;
	long n, at;

	lseek(dir, 0, SEEK_SET);
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (at = 0; at < n; at += ((struct entry *)(buf + at))->len) {
			const struct entry *e = (void *)(buf + at);

			if (isdigit((unsigned char)e->name[0]))
				found += children_of(p, dir, e->name);
		}
	return found;
}

/* The pid that was assigned last in the whole system; 0: unknown. */
static uint64_t newest_pid(struct proc *p)
{
	char buf[128], *last;
	ssize_t n = pread(priv(p)->loadavg, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		return 0;
	buf[n] = 0;
	last = strrchr(buf, ' ');
	return last ? strtoull(last, NULL, 10) : 0;
}

bool sharers_none_born(struct proc *p)
{
	uint64_t now = newest_pid(p);

	return now && now == priv(p)->newest_pid;
}

/* false also for a process that has ended; true if the kernel does not permit kcmp(). */
static bool may_share(struct proc *p, pid_t pid)
{
	long r = syscall(SYS_kcmp, priv(p)->via, pid, KCMP_VM, 0, 0);

	return r == 0 || (r < 0 && errno != ESRCH);
}

static bool comes_from_clone(const struct proc *p)
{
	for (size_t i = 0; i < p->threads.n; i++) {
		uint64_t nr = p->arch->thread->last_call(&p->threads.v[i].regs);

		if (nr == SYS_clone || nr == SYS_clone3 || nr == SYS_fork)
			return true;
	}
	return false;
}

/*
 * A search for children of all threads costs more than to stop them, so while they are stopped it is repeated only if there
 * can be a new sharer: a pid was assigned since the last search whose process may share the memory, or a thread is at the end
 * of a clone that was under way then. (A vfork can't be missed: its parent does not stop.)
 */
bool sharers_may_be_new(struct proc *p)
{
	uint64_t now = newest_pid(p), before = priv(p)->newest_pid, pid;

	if (comes_from_clone(p) || !now || !before || now < before || now - before > MANY_PIDS)
		return true;
	for (pid = before + 1; pid <= now; pid++)
		if (may_share(p, pid))
			return true;
	return false;
}

int sharers_find(struct proc *p)
{
	struct proc_priv *v = priv(p);
	int found, dir;
	char path[64];
	size_t i;

	v->newest_pid = newest_pid(p);
	found = children_of_all(p, v->task);

	/* Sharers may have children that share, too; the list grows during the loop. */
	for (i = 0; i < v->sharers.n; i++) {
		snprintf(path, sizeof(path), "/proc/%d/task", v->sharers.v[i]);
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			continue;
		found += children_of_all(p, dir);
		close(dir);
	}
	return found;
}

/* Call, stack pointer and program counter of a thread that sleeps in a system call, from /proc/PID/task/TID/syscall. */
static bool asleep_in(const struct thread *t, struct thread_regs *ret_regs)
{
	unsigned long long nr, a[6], sp, pc;
	char path[64], buf[256];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", t->pid, t->tid);
	if (file_read(path, buf, sizeof(buf)) <= 0)
		return false;
	if (sscanf(buf, "%llu %llx %llx %llx %llx %llx %llx %llx %llx", &nr, &a[0], &a[1], &a[2], &a[3],
		   &a[4], &a[5], &sp, &pc) != 9)
		return false;
	memset(ret_regs, 0, sizeof(*ret_regs));
	ret_regs->call = nr;
	regs_set_sp(arch_host(), ret_regs, sp);
	ret_regs->cpu.pc = pc;
	ret_regs->rest[0] = a[0];
	return true;
}

void call_look_before(struct thread *t)
{
	struct thread_regs regs;

	if (!asleep_in(t, &regs))
		return;
	t->before.nr = regs.call;
	t->before.arg0 = regs.rest[0];
	t->before.sp = regs_sp(arch_host(), &regs);
	t->before.pc = regs.cpu.pc;
}

/* Asleep in vfork, or in a clone that waits in the same way. */
bool in_vfork(const struct thread *t, struct thread_regs *ret_regs)
{
	struct thread_regs regs;
	struct task_stat s;

	if (task_stat(t->pid, t->tid, &s) < 0 || s.state != 'D' || !asleep_in(t, &regs))
		return false;
	if (regs.call != SYS_vfork && regs.call != SYS_clone && regs.call != SYS_clone3)
		return false;
	*ret_regs = regs;
	return true;
}

/* Whether it is runnable, and has had less than GRACE_RUN_NS of CPU time. */
static bool is_young(const struct thread *t)
{
	char path[64], text[128];
	struct task_stat s;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", t->pid, t->tid);
	return task_stat(t->pid, t->tid, &s) == 0 && s.state == 'R' && file_read(path, text, sizeof(text)) > 0 &&
	       strtoull(text, NULL, 10) < GRACE_RUN_NS;
}

/*
 * A sharer that is about to exec is not seized: under a tracer without privilege, a
 * set-user-id program would be executed without its privilege. Most sharers are created for an exec, and could get there
 * between PTRACE_SEIZE and their stop; so they are given some time first.
 */
bool is_about_to_exec(const struct thread *t)
{
	uint64_t known = now_ns() - t->seen;
	struct thread_regs regs;

	if (geteuid() != 0 && (known < GRACE_NS || (known < GRACE_MOST_NS && is_young(t))))
		return true;
	return asleep_in(t, &regs) && (regs.call == SYS_execve || regs.call == SYS_execveat);
}

static bool is_stopped(struct proc *p, pid_t pid)
{
	bool any = false;
	size_t i;

	for (i = 0; i < p->threads.n; i++) {
		const struct thread *t = &p->threads.v[i];

		if (t->pid != pid || t->gone)
			continue;
		if (!t->stopped)
			return false;
		any = true;
	}
	return any;
}

/* Whether a child of this very thread, which shares its memory, is in a ptrace stop. */
bool child_is_held(struct proc *p, const struct thread *t)
{
	char path[64], *list, *at, *end;
	bool found = false;
	size_t len;
	long pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", t->pid, t->tid);
	list = file_load(path, &len);
	for (at = list; at && !found && (pid = strtol(at, &end, 10)) > 0 && end != at; at = end)
		found = is_stopped(p, pid) && same_memory(p, pid);
	free(list);
	return found;
}

bool still_shares(struct proc *p, const struct thread *t)
{
	return t->pid == p->pid || same_memory(p, t->pid);
}
