/* SPDX-License-Identifier: MIT */
/* Our side of the door; the child's is door_child.c. */
#include "proc/door.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/err.h"
#include "base/mem.h"

struct doorman {
	pid_t pid;
	int sock;
	bool gone;
	struct door_page *page;
};

static int init_group(bool exact, int *ret_fan)
{
	unsigned int flags = FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID | FAN_UNLIMITED_QUEUE |
			     (exact ? FAN_CLASS_CONTENT : FAN_CLASS_NOTIF);
	int fan = fanotify_init(flags, O_RDONLY | O_CLOEXEC | O_LARGEFILE);

	if (fan < 0)
		return fail(-errno, "%s", errno == EPERM ? "only root (CAP_SYS_ADMIN) can be told of them" : strerror(errno));
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
		r = add_marks(fan, files, n, exact);
	if (!r)
		r = start(d, fan, exact);
	/* The child has the only descriptor: with it goes whatever we wait for. */
	close(fan);
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
	if (d->sock >= 0)
		close(d->sock);
	if (d->pid > 0) {
		kill(d->pid, SIGKILL);
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

	if (d->gone)
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

	/* There is room for all that can be asked at a time; and who gets no answer goes on after a while. */
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

uint32_t *doorman_bell(struct doorman *d)
{
	return &d->page->bell;
}

void doorman_get_counts(const struct doorman *d, struct door_counts *ret_counts)
{
	*ret_counts = d->page->counts;
}
