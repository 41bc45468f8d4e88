/* SPDX-License-Identifier: MIT */
/*
 * Opening a process, and a message for each of the many reasons why that may fail. Permission to trace
 * is tested by opening /proc/PID/mem: the kernel applies the same rules there as for ptrace, and
 * nothing in the target is changed. The reason of a refusal is found afterwards, from files that anyone can read.
 */
#include "arch/page.h"
#include "proc/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"

#define EXEC_NS 1000000000ull	/* an exec does not take that long */

void (*proc_step_hook)(const char *step);

struct proc *proc_alloc(pid_t pid)
{
	struct proc *p = xcalloc(1, sizeof(*p));
	struct proc_priv *v = xcalloc(1, sizeof(*v));

	p->pid = v->via = pid;
	p->arch = arch_host();
	p->mem = v->task = v->pagemap = v->loadavg = -1;
	p->priv = v;
	v->chroot = xstrdup("");
	snprintf(p->root, sizeof(p->root), "/proc/%d/root", pid);
	return p;
}

static bool task_lives(pid_t pid, pid_t tid)
{
	struct task_stat s;

	return task_stat(pid, tid, &s) == 0 && s.state != 'Z' && s.state != 'X';
}

/* Any thread that has not ended; 0: there is none. */
static pid_t live_thread(pid_t pid)
{
	char path[64];
	struct dirent *e;
	pid_t tid = 0;
	DIR *d;

	if (task_lives(pid, pid))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !tid && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) && task_lives(pid, atoi(e->d_name)))
			tid = atoi(e->d_name);
	if (d)
		closedir(d);
	return tid;
}

int proc_path(struct proc *p, const char *name, char *buf, size_t len)
{
	pid_t via = priv(p)->via;
	const struct thread *t = proc_is_still(p) ? thread_find(p, via) : NULL;

	if (!(t && t->stopped) && !task_lives(p->pid, via)) {
		via = live_thread(p->pid);
		if (!via)
			return -ESRCH;
		priv(p)->via = via;
		snprintf(p->root, sizeof(p->root), "/proc/%d/task/%d/root", p->pid, via);
	}
	snprintf(buf, len, "/proc/%d/task/%d/%s", p->pid, via, name);
	return 0;
}

/* A descriptor of /proc/PID/mem belongs to the address space, not to the pid: reads fail after an exec. */
bool proc_memory_lives(struct proc *p)
{
	char byte;

	return pread(p->mem, &byte, 1, priv(p)->probe_at) == 1;
}

static int check_header(struct proc *p, const Elf64_Ehdr *eh)
{
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	if (eh->e_ident[EI_CLASS] == ELFCLASS32)
		return fail(-ENOTSUP, "process %d runs a 32-bit program: not supported yet; try a 64-bit build",
			    p->pid);
	if (arch_of_machine(eh->e_machine) != p->arch)
		return fail(-ENOTSUP, "process %d runs a program for another CPU (ELF machine %u): this jab traces only "
			    "processes of %s", p->pid, eh->e_machine, p->arch->name);
	return 0;
}

static uint64_t field(const char *status, const char *name, int base)
{
	uint64_t v = 0;

	status_field(status, name, base, &v);
	return v;
}

static int refuse_traced(pid_t pid, const char *status)
{
	pid_t tracer = field(status, "TracerPid", 10);
	char name[32];

	if (!tracer || (tracer == getpid() && limbo_has(pid)))
		return 0;
	task_comm(tracer, name);
	return fail(-EBUSY, "process %d is being traced already by process %d (%s): end that first", pid,
		    tracer, name);
}

static int yama_scope(void)
{
	char buf[16];

	return file_read("/proc/sys/kernel/yama/ptrace_scope", buf, sizeof(buf)) > 0 ? atoi(buf) : 0;
}

/* The kernel refuses: find the rule, the most specific first. */
static int refuse_permission(pid_t pid, const char *status, int err)
{
	uint64_t uid = field(status, "Uid", 10), caps = field(status, "CapPrm", 16), ours = 0;
	char path[64], self[4096];
	int scope = yama_scope();
	struct stat st;

	if (uid != geteuid())
		return fail(-EPERM, "process %d belongs to user %u and you are user %u: run as that user or "
			    "as root (CAP_SYS_PTRACE)", pid, (unsigned)uid, geteuid());
	if (file_read("/proc/self/status", self, sizeof(self)) > 0)
		ours = field(self, "CapPrm", 16);
	if (caps & ~ours)
		return fail(-EPERM, "process %d has capabilities that you lack (%#llx): run as root "
			    "(CAP_SYS_PTRACE)", pid, (unsigned long long)(caps & ~ours));
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);	/* belongs to root if the process is not dumpable */
	if (stat(path, &st) == 0 && st.st_uid != uid)
		return fail(-EPERM, "process %d has made itself private (not dumpable; set-user-id programs "
			    "and prctl do that): run as root (CAP_SYS_PTRACE)", pid);
	if (scope > 0)
		return fail(-EPERM, "process %d may not be traced: /proc/sys/kernel/yama/ptrace_scope is %d; %s",
			    pid, scope, scope >= 3 ? "it forbids tracing until the next boot" :
			    scope == 2 ? "run as root (CAP_SYS_PTRACE)" :
			    "let jab start the program, run as root, or set it to 0");
	return fail(-EPERM, "process %d may not be traced (%s): it may be in another user namespace or "
		    "guarded by a security module; run as root there (CAP_SYS_PTRACE)", pid, strerror(-err));
}

/* Reasons to refuse that are known before the memory is opened. Fills status for later checks. */
static int refuse_kind(pid_t pid, char *status, size_t len)
{
	char path[64];
	struct task_stat s;
	uint64_t tgid;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (pid <= 0 || file_read(path, status, len) <= 0)
		return fail(-ESRCH, "there is no process %d", pid);
	if (pid == getpid())
		return fail(-EINVAL, "process %d is jab itself", pid);
	if (status_field(status, "Tgid", 10, &tgid) < 0)
		tgid = pid;
	if (!tgid)			/* reaped while the kernel wrote the file */
		return fail(-ESRCH, "there is no process %d", pid);
	if ((pid_t)tgid != pid)
		return fail(-EINVAL, "%d is a thread of process %d: give the number of the process", pid, (pid_t)tgid);
	if (!live_thread(pid))
		return fail(-ESRCH, "process %d has ended already (a zombie: its parent has not waited for it)",
			    pid);
	if (task_stat(pid, pid, &s) < 0)
		return fail(-ESRCH, "there is no process %d", pid);
	if (s.flags & 0x00200000)	/* PF_KTHREAD */
		return fail(-EINVAL, "%d is a kernel thread: it has no program to trace", pid);
	return 0;
}

static int open_memory(struct proc *p, const char *status)
{
	char path[64];
	int r;

	if (proc_path(p, "mem", path, sizeof(path)) < 0)
		return fail(-ESRCH, "process %d has ended", p->pid);
	p->mem = open(path, O_RDWR | O_CLOEXEC);
	if (p->mem >= 0)
		return 0;
	r = -errno;
	if (r == -ESRCH || r == -ENOENT)
		return fail(-ESRCH, "process %d has ended", p->pid);
	if (field(status, "TracerPid", 10))
		return refuse_traced(p->pid, status);
	return refuse_permission(p->pid, status, r);
}

/* exe and root, in the target's own view of the file system. */
static int read_paths(struct proc *p)
{
	static const char deleted[] = " (deleted)";
	char path[64], top[4096];
	size_t cut;
	ssize_t n;

	if (proc_path(p, "root", path, sizeof(path)) < 0)
		return fail(-ESRCH, "process %d has ended", p->pid);
	n = readlink(path, top, sizeof(top) - 1);
	if (n > 1) {
		top[n] = 0;
		free(priv(p)->chroot);
		priv(p)->chroot = xstrdup(top);
	}
	proc_path(p, "exe", path, sizeof(path));
	n = readlink(path, p->exe, sizeof(p->exe) - 1);
	if (n < 0 && (errno == ENOENT || errno == ESRCH))	/* its memory is gone: it is ending */
		return fail(-ESRCH, "process %d has ended", p->pid);
	if (n < 0)
		return fail(-errno, "the program of process %d can't be found: %s", p->pid, strerror(errno));
	p->exe[n] = 0;
	if ((size_t)n > sizeof(deleted) && strcmp(p->exe + n - sizeof(deleted) + 1, deleted) == 0)
		p->exe[n - sizeof(deleted) + 1] = 0;
	cut = strlen(priv(p)->chroot);
	if (cut && strncmp(p->exe, priv(p)->chroot, cut) == 0 && p->exe[cut] == '/')
		memmove(p->exe, p->exe + cut, strlen(p->exe + cut) + 1);
	return 0;
}

int proc_check_machine(struct proc *p)
{
	char path[64];
	Elf64_Ehdr eh = { 0 };
	int fd, r;

	if (sysconf(_SC_PAGESIZE) != (long)PAGE)
		return fail(-ENOTSUP, "this kernel has pages of %ld bytes; only those of %llu are known", sysconf(_SC_PAGESIZE), PAGE);
	proc_path(p, "exe", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;	/* not checked: /proc/PID/mem could be opened, which is what matters */
	r = read(fd, &eh, sizeof(eh)) == sizeof(eh) ? check_header(p, &eh) : 0;
	close(fd);
	return r;
}

static ssize_t read_auxv(struct proc *p, void *buf, size_t len)
{
	char path[64];

	if (proc_path(p, "auxv", path, sizeof(path)) < 0)
		return -ESRCH;
	return file_read(path, buf, len);
}

/* In the middle of an exec the new address space exists and its auxv is still empty: wait until it is filled. */
static ssize_t await_auxv(struct proc *p, Elf64_auxv_t *buf, size_t len)
{
	uint64_t end = now_ns() + EXEC_NS;
	ssize_t n;

	while ((n = read_auxv(p, buf, len)) > 0 && buf->a_type == AT_NULL && now_ns() < end)
		sleep_ns(20000);
	return n > 0 && buf->a_type == AT_NULL ? 0 : n;
}

static int read_identity(struct proc *p)
{
	struct proc_priv *v = priv(p);
	Elf64_auxv_t *a = (void *)v->auxv;
	struct task_stat s;
	ssize_t n = await_auxv(p, a, sizeof(v->auxv));
	size_t i;

	if (task_stat(p->pid, p->pid, &s) < 0)
		return fail(-ESRCH, "process %d has ended", p->pid);
	p->start_time = s.start_time;
	v->parent = s.ppid;
	v->opened = wall_ns();
	v->heap = proc_is_still(p) ? s.start_brk : 0;
	v->auxv_len = n > 0 ? n : 0;
	for (i = 0; (i + 1) * sizeof(*a) <= v->auxv_len && a[i].a_type != AT_NULL; i++)
		if (a[i].a_type == AT_RANDOM)
			v->probe_at = a[i].a_un.a_val;
	if (!v->probe_at) {
		int r = maps_load(p, &v->maps);

		if (r < 0)
			return r;
		v->probe_at = v->maps.v[0].start;
	}
	return 0;
}

int proc_open_task(struct proc *p)
{
	char path[64];

	if (priv(p)->task >= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task", p->pid);
	priv(p)->task = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return priv(p)->task < 0 ? fail(-ESRCH, "process %d has ended", p->pid) : 0;
}

int proc_fill(struct proc *p)
{
	int r = proc_check_machine(p);

	if (r == 0)
		r = proc_open_task(p);
	if (r < 0)
		return r;
	proc_fills_pages(p);
	priv(p)->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	r = read_paths(p);
	return r < 0 ? r : read_identity(p);
}

static int try_open(pid_t pid, struct proc **ret_proc)
{
	char status[4096];
	struct proc *p;
	int r;

	limbo_has(pid);		/* detaches if it was in limbo and has stopped */
	r = refuse_kind(pid, status, sizeof(status));
	if (r < 0)
		return r;
	p = proc_alloc(pid);
	r = open_memory(p, status);
	if (r == 0)
		r = refuse_traced(pid, status);
	if (r == 0)
		r = proc_fill(p);
	if (r == 0)
		r = proc_read_maps(p);
	if (r < 0) {
		proc_close(p);
		return r;
	}
	*ret_proc = p;
	return 0;
}

static bool is_running(pid_t pid)
{
	struct task_stat s;

	return task_stat(pid, pid, &s) == 0 && s.state != 'Z' && s.state != 'X';
}

/* In the middle of an exec a process has no address space for a moment, as if it had ended: try again. */
int proc_open(pid_t pid, struct proc **ret_proc)
{
	uint64_t end = now_ns() + EXEC_NS;
	int r = try_open(pid, ret_proc);

	while (r == -ESRCH && is_running(pid) && now_ns() < end) {
		sleep_ns(20000);
		r = try_open(pid, ret_proc);
	}
	return r;
}

/* The pid may have been given to another process, and the process may run another program. */
bool proc_alive(struct proc *p)
{
	uint8_t auxv[sizeof(priv(p)->auxv)];
	struct task_stat s;
	ssize_t n;

	if (p->gone)
		return false;
	threads_settle(p);
	p->gone = !proc_memory_lives(p) || task_stat(p->pid, p->pid, &s) < 0 ||
		  s.start_time != p->start_time;
	if (!p->gone && priv(p)->auxv_len) {
		n = read_auxv(p, auxv, sizeof(auxv));
		/* A program that makes itself undumpable hides its auxv, and is still the same program. */
		p->gone = n != -EACCES && n != -EPERM &&
			  (n != (ssize_t)priv(p)->auxv_len || memcmp(auxv, priv(p)->auxv, n) != 0);
	}
	return !p->gone;
}

static void collect(struct proc *p, int status)
{
	if (!WIFSTOPPED(status))
		note_end(p, p->pid, status);
	else	/* a stop that came too late for proc_resume() */
		ptrace(PTRACE_DETACH, p->pid, 0, status >> 16 ? 0 : WSTOPSIG(status) & 0x7f);
}

int proc_child_ended(struct proc *p, int *ret_status)
{
	struct proc_priv *v = priv(p);
	int status;

	if (!p->started_by_us)
		return fail(-ECHILD, "process %d was not started by jab", p->pid);
	if (!v->exited && !v->depth) {
		pid_t r = waitpid(p->pid, &status, __WALL | WNOHANG);

		if (r < 0 && errno != EINTR)
			return fail(-errno, "waiting for process %d: %s", p->pid, strerror(errno));
		if (r > 0)
			collect(p, status);
	}
	if (!v->exited)
		return 0;
	p->gone = true;
	*ret_status = v->exit_status;
	return 1;
}

void proc_close(struct proc *p)
{
	struct proc_priv *v;

	if (!p)
		return;
	v = priv(p);
	while (v->depth > 0)
		proc_resume(p);
	threads_settle_for(p, 100000000);
	reaper_free(v->reaper);
	if (p->mem >= 0)
		close(p->mem);
	if (v->task >= 0)
		close(v->task);
	if (v->loadavg >= 0)
		close(v->loadavg);
	maps_free(&p->maps);
	maps_free(&v->maps);
	vec_free(&p->threads);
	vec_free(&v->sharers);
	limbo_leave(p);
	vec_free(&v->calls);
	vec_free(&v->searched);
	vec_free(&v->free_before);
	vec_free(&v->restless);
	proc_stirs(p);
	vec_free(&v->pristine);
	free(v->chroot);
	free(v->borrow.old);
	free(v);
	free(p);
}

bool proc_locks_memory(struct proc *p)
{
	char status[STATUS_MAX];
	uint64_t kb = 0;

	if (proc_read_status(p, status) < 0)
		return true;	/* not known */
	status_field(status, "VmLck", 10, &kb);
	return kb > 0;
}
