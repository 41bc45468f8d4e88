/* SPDX-License-Identifier: MIT */
/* The tracer's side of the doorman; the child process is in door_child.c. */
#include "proc/doorman/door.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "proc/internal.h"

#define LOOK_NS 100000000ull
#define READY_NS 10000000000ull
#define FROZEN_NS 2000000000ull	/* a doorman that gets a CPU increments door_beat at least every 200 ms */

struct doorman {
	pid_t pid;
	int sock;
	bool gone;
	struct door_page *page;
	/* A thread of its own, since a write of the tracer's output may block for ever. */
	pthread_t guard;
	bool has_guard;
	uint32_t quit;		/* a futex */
	uint32_t failed;	/* the doorman does not work; the guard has answered its events */
};

static int init_group(bool exact, int *ret_fan)
{
	unsigned int flags = FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID | FAN_UNLIMITED_QUEUE |
			     (exact ? FAN_CLASS_CONTENT : FAN_CLASS_NOTIF);
	int fan = fanotify_init(flags, O_RDONLY | O_CLOEXEC | O_LARGEFILE);

	if (fan < 0)
		return fail(-errno, "%s", errno == EPERM ? "only root (CAP_SYS_ADMIN) can watch for them" : strerror(errno));
	*ret_fan = fan;
	return 0;
}

static int add_marks(int fan, const struct door_file *files, size_t n, bool exact)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t mask = 0;

		if (files[i].exec)
			mask |= exact ? FAN_OPEN_EXEC_PERM : FAN_OPEN_EXEC;
		if (files[i].open)
			mask |= exact ? FAN_OPEN_PERM : FAN_OPEN;
		if (fanotify_mark(fan, FAN_MARK_ADD, mask, AT_FDCWD, files[i].path) < 0)
			return fail(-errno, "%s can't be watched: %s", files[i].path, strerror(errno));
	}
	return 0;
}

static void start_child(struct door *door, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		door_keep(door);
	_exit(0);
}

static int start(struct doorman *d, int fan, bool exact)
{
	struct door door = { .fan = fan, .tracer = getpid(), .page = d->page, .exact = exact };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return fail(-errno, "no socket: %s", strerror(errno));
	door.cache = exact ? open(DOOR_CACHE, O_RDONLY | O_CLOEXEC) : -1;
	door.sock = pair[1];
	d->sock = pair[0];
	d->pid = fork();
	if (d->pid == 0)
		start_child(&door, door.tracer);
	close(pair[1]);
	if (door.cache >= 0)
		close(door.cache);
	return d->pid < 0 ? fail(-errno, "no new process: %s", strerror(errno)) : 0;
}

/* ---- the guard ---- */

/*
 * Answer the events of a frozen doorman. In a frozen cgroup (version 1) it can't even be killed. But any descriptor of its
 * fanotify group can be used for answers, and an event is identified by its descriptor number in the doorman: there are at most
 * DOOR_FDS, so all are answered. First the marks are removed; events that the doorman has not read are read and answered here.
 */
static void answer_for(pid_t pid)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	int fan = pidfd >= 0 ? syscall(SYS_pidfd_getfd, pidfd, 0, 0) : -1;
	struct fanotify_event_metadata m[16];
	struct fanotify_response r = { .response = FAN_ALLOW };
	ssize_t n;

	if (fan >= 0)
		fanotify_mark(fan, FAN_MARK_FLUSH, 0, AT_FDCWD, "/");
	for (r.fd = 0; fan >= 0 && r.fd < DOOR_FDS; r.fd++)
		n = write(fan, &r, sizeof(r));
	while (fan >= 0 && (n = read(fan, m, sizeof(m))) > 0)
		for (size_t i = 0; i < n / sizeof(m[0]); i++) {
			r.fd = m[i].fd;
			if (write(fan, &r, sizeof(r)) >= 0)
				close(m[i].fd);
		}
	if (fan >= 0)
		close(fan);
	if (pidfd >= 0)
		close(pidfd);
}

/* A process that waits for a CPU on a busy machine is neither stopped nor frozen. */
static bool is_running(pid_t pid)
{
	struct task_stat s;

	return task_stat(pid, pid, &s) == 0 && s.state == 'R';
}

/* Continue a stopped doorman. If it has not worked for FROZEN_NS, although the guard has, answer its events and kill it. */
static void look_at_doorman(struct doorman *d, uint32_t *last, uint64_t *works, uint64_t *looked)
{
	uint32_t beat = __atomic_load_n(&d->page->door_beat, __ATOMIC_RELAXED);
	uint64_t now = now_ns();
	siginfo_t info = { 0 };

	if (waitid(P_PID, d->pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid)
		kill(d->pid, SIGCONT);
	if (beat != *last || now - *looked > 3 * LOOK_NS || is_running(d->pid))
		*works = now;
	*last = beat;
	*looked = now;
	if (now - *works < FROZEN_NS)
		return;
	answer_for(d->pid);
	kill(d->pid, SIGKILL);
	__atomic_store_n(&d->failed, 1, __ATOMIC_RELEASE);
}

static void *guard(void *arg)
{
	struct doorman *d = arg;
	uint64_t works = now_ns(), looked = works;
	struct timespec t = { .tv_nsec = LOOK_NS };
	uint32_t last = 0;

	while (!__atomic_load_n(&d->quit, __ATOMIC_ACQUIRE) && !__atomic_load_n(&d->failed, __ATOMIC_RELAXED)) {
		look_at_doorman(d, &last, &works, &looked);
		syscall(SYS_futex, &d->quit, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
	}
	return NULL;
}

static int start_guard(struct doorman *d)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&d->guard, NULL, guard, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	d->has_guard = !r;
	return r ? fail(-r, "no thread: %s", strerror(r)) : 0;
}

static void stop_guard(struct doorman *d)
{
	if (!d->has_guard)
		return;
	__atomic_store_n(&d->quit, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &d->quit, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_join(d->guard, NULL);
}

/* ---- the whole ---- */

/* Files are marked only after this: the doorman answers from the first event on, and has left a cgroup that may be frozen. */
static int wait_until_it_works(struct doorman *d)
{
	uint64_t until = now_ns() + READY_NS;

	while (!__atomic_load_n(&d->page->door_beat, __ATOMIC_ACQUIRE)) {
		if (now_ns() > until)
			return fail(-ETIMEDOUT, "the helper process that answers the kernel (jab-door) does not start");
		sleep_ns(100000);
	}
	return 0;
}

int doorman_hire(const struct door_file *files, size_t n, bool exact, struct doorman **ret_doorman)
{
	struct doorman *d;
	int fan = -1, r = init_group(exact, &fan);

	if (r < 0)
		return r;
	d = xcalloc(1, sizeof(*d));
	d->sock = -1;
	d->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->page == MAP_FAILED)
		r = fail(-errno, "no memory");
	if (!r)
		r = start(d, fan, exact);
	if (!r)
		r = wait_until_it_works(d);
	if (!r)
		r = add_marks(fan, files, n, exact);
	/* The child has the only descriptor then: if it dies, the kernel allows all threads that wait. */
	close(fan);
	if (!r)
		r = start_guard(d);
	if (r < 0) {
		char *why = xstrdup(err_text());

		d->pid = MAX(d->pid, 0);
		doorman_dismiss(d);
		fail(r, "%s", why);
		free(why);
		return r;
	}
	*ret_doorman = d;
	return 0;
}

void doorman_open(struct doorman *d)
{
	__atomic_store_n(&d->page->open, 1, __ATOMIC_RELEASE);
}

void doorman_dismiss(struct doorman *d)
{
	if (!d)
		return;
	stop_guard(d);
	if (d->sock >= 0)
		close(d->sock);
	if (d->pid > 0)
		kill(d->pid, SIGKILL);
	/* A frozen child ends when it is thawed; then it is a zombie of ours until we end, and init reaps it. */
	if (d->pid > 0 && !d->failed) {
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (d->page != MAP_FAILED)
		munmap(d->page, 4096);
	free(d);
}

int doorman_next(struct doorman *d, struct caller *ret_caller)
{
	struct caller c;
	ssize_t n;

	if (d->gone || __atomic_load_n(&d->failed, __ATOMIC_ACQUIRE))
		return -ESRCH;
	n = recv(d->sock, &c, sizeof(c), MSG_DONTWAIT);
	if (n == sizeof(c)) {
		*ret_caller = c;
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	d->gone = true;
	return -ESRCH;
}

void doorman_answer(struct doorman *d, const struct caller *c, enum door_answer answer)
{
	struct door_verdict v = { c->id, answer };

	/* The socket has room for all answers that can be due at a time; and a thread without an answer goes on after a while. */
	if (c->kind != DOOR_LATE && send(d->sock, &v, sizeof(v), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		d->gone = true;
}

void doorman_beat(struct doorman *d, bool hold)
{
	__atomic_add_fetch(&d->page->beat, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&d->page->holding, hold, __ATOMIC_SEQ_CST);
	if (!hold && __atomic_exchange_n(&d->page->stop_again, 0, __ATOMIC_SEQ_CST))
		raise(SIGSTOP);
}

bool doorman_crowd(const struct doorman *d)
{
	return __atomic_load_n(&d->page->crowd, __ATOMIC_RELAXED);
}

uint32_t *doorman_bell(struct doorman *d)
{
	return &d->page->bell;
}

void doorman_get_counts(const struct doorman *d, struct door_counts *ret_counts)
{
	*ret_counts = d->page->counts;
}
