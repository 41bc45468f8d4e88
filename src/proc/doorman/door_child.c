/* SPDX-License-Identifier: MIT */
/*
 * The doorman process (doorman.h). Whatever it does takes microseconds: it reads fanotify events, reads a few files of /proc
 * that need no lock which another process could hold for long, and writes answers. A thread that waits is allowed to go on when
 *
 *	the tracer answers; or the tracer need not be asked (not a loader that opens, traced already, a thread of the tracer)
 *	the tracer is stopped: checked each TICK_MS as long as a thread waits. If the tracer holds processes at that moment,
 *		it is continued, releases them, and stops itself
 *	the tracer gives no sign of work for SILENCE (then, until it does, no thread has to wait), or takes too long
 *	too many threads of its user wait already, see door_queue.c
 *	the tracer or the doorman dies: the kernel allows it
 *
 * A thread that executes a script causes an event when the kernel opens the interpreter, and on kernels before 6.8 so does
 * every exec: with a lock held that PTRACE_SEIZE needs as well. Such threads go on, and for a moment the loader's cache
 * is watched, too: they open it before they map a library.
 */
#include "proc/doorman/door.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "proc/doorman/door_queue.h"
#include "proc/exec/loading.h"

#define TICK_MS 20
#define SILENCE 700000000ull
#define LATER 300000000ull	/* the longest time from the event of an exec to the open of the loader's cache */
#define AT_ONCE 128		/* events in one read */
#define EVENT 24		/* size of an event */
#define MOST_LATER 1024

struct later { pid_t pid; uint64_t since; };

/* Static, not from the heap: the tracer may have had threads when it forked, so malloc's locks may be held. */
static struct later later[MOST_LATER];
static size_t nlater, most_waiting, at_once;
static uint32_t next_id;
static struct stat cache_stat;
static bool cache_marked, asleep, silent;	/* DOOR_CACHE is watched; the tracer is stopped; it gives no sign of work */
static uint32_t last_beat;
static uint64_t beat_at, ticked_at;

static ssize_t read_file(pid_t tid, const char *name, char *buf, size_t len)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, len - 1);
	close(fd);
	buf[n > 0 ? n : 0] = 0;
	return n;
}

static pid_t status_number(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? atoi(at + strlen(name)) : 0;
}

static void allow(const struct door *d, int fd)
{
	struct fanotify_response r = { .fd = fd, .response = FAN_ALLOW };

	while (d->exact && write(d->fan, &r, sizeof(r)) < 0 && errno == EINTR)
		;
	close(fd);
}

static void let_one_go(struct door *d, size_t i)
{
	allow(d, queue_at(i)->fd);
	queue_forget(i);
}

static void let_all_go(struct door *d, uint64_t *count)
{
	for (size_t i = queue_length(); i-- > 0;) {
		let_one_go(d, i);
		d->page->counts.unheard++;
		if (count)
			++*count;
	}
}

/*
 * Whether the program counter of a waiting thread (/proc/TID/syscall) is in the loader (AT_BASE). The thread may not be
 * asleep yet, and then the file does not show it: true, so that the tracer is asked.
 */
static bool is_loader(pid_t tid)
{
	unsigned long long a[6], sp, pc = 0, base = 0;
	Elf64_auxv_t auxv[32];
	char buf[256];
	long nr;
	ssize_t n;

	if (read_file(tid, "syscall", buf, sizeof(buf)) <= 0)
		return false;
	if (sscanf(buf, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
		   &sp, &pc) != 9)
		return true;
	n = read_file(tid, "auxv", (char *)auxv, sizeof(auxv));
	for (size_t i = 0; n > 0 && (i + 1) * sizeof(auxv[0]) <= (size_t)n; i++)
		if (auxv[i].a_type == AT_BASE)
			base = auxv[i].a_un.a_val;
	return !base || (pc >= base && pc - base < LOADER_MOST);
}

static bool is_stopped(const struct door *d)
{
	char buf[512], *at;

	if (read_file(d->tracer, "stat", buf, sizeof(buf)) <= 0)
		return true;
	at = strrchr(buf, ')');
	return at && (at[2] == 'T' || at[2] == 't');
}

/* ---- asking ---- */

static bool tell(struct door *d, uint32_t id, pid_t tid, enum door_kind kind, uint64_t since)
{
	struct caller c = { id, kind, tid, since };

	if (send(d->sock, &c, sizeof(c), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	__atomic_add_fetch(&d->page->bell, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &d->page->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
	return true;
}

static int later_index(pid_t pid)
{
	for (size_t i = 0; i < nlater; i++)
		if (later[i].pid == pid)
			return i;
	return -1;
}

static void watch_cache(struct door *d, bool on)
{
	if (on == cache_marked || d->cache < 0)
		return;
	/* NULL: the mark is for the file of the descriptor, without a path lookup */
	if (fanotify_mark(d->fan, on ? FAN_MARK_ADD : FAN_MARK_REMOVE, FAN_OPEN_PERM, d->cache, NULL) == 0)
		cache_marked = on;
}

static bool is_cache(int fd)
{
	struct stat st;

	return cache_marked && fstat(fd, &st) == 0 && st.st_ino == cache_stat.st_ino && st.st_dev == cache_stat.st_dev;
}

static bool is_ours(const struct door *d, pid_t tid)
{
	return tid <= 0 || syscall(SYS_tgkill, d->tracer, tid, 0) == 0 || syscall(SYS_tgkill, getpid(), tid, 0) == 0;
}

/* Whether the tracer is to be asked about the thread. is_loader() reads two more files: not for a user with too many waiting. */
static bool is_wanted(struct door *d, pid_t tid, int fd, enum door_kind kind, uint32_t *ret_uid)
{
	char status[2048];
	pid_t tracer;
	int i;

	if (!__atomic_load_n(&d->page->open, __ATOMIC_ACQUIRE) || is_ours(d, tid) ||
	    read_file(tid, "status", status, sizeof(status)) <= 0)
		return false;
	*ret_uid = status_number(status, "Uid:");
	if (kind == DOOR_OPEN && is_cache(fd)) {
		i = later_index(status_number(status, "Tgid:"));
		if (i < 0)
			return false;
		later[i] = later[--nlater];
	} else if (kind == DOOR_OPEN && d->exact && !queue_is_full(*ret_uid, most_waiting) && !is_loader(tid)) {
		return false;
	}
	tracer = status_number(status, "TracerPid:");
	d->page->counts.foreign += tracer && tracer != d->tracer;
	return !tracer;
}

/* Ask only about as many as the tracer can serve soon: so the threads of a user who comes later need not wait for all others. */
static void ask_next(struct door *d)
{
	struct waiting *w;

	while ((w = queue_next(now_ns())))
		if (!tell(d, w->id, w->tid, w->kind, w->since)) {
			d->page->counts.unheard++;
			queue_done(w->id, true, now_ns());
			let_one_go(d, w - queue_at(0));
			return;
		}
}

static void consider(struct door *d, pid_t tid, int fd, enum door_kind kind)
{
	struct waiting w = { .id = next_id, .kind = kind, .fd = fd, .tid = tid };

	if (asleep)
		asleep = is_stopped(d);
	if (silent)
		silent = __atomic_load_n(&d->page->beat, __ATOMIC_RELAXED) == last_beat;
	if (!is_wanted(d, tid, fd, kind, &w.uid)) {
		allow(d, fd);
		return;
	}
	w.since = now_ns();
	if (!d->exact) {
		tell(d, 0, tid, DOOR_LATE, 0);
		allow(d, fd);
	} else if (asleep || silent) {
		allow(d, fd);
		d->page->counts.unheard++;
		d->page->counts.asleep += asleep;
	} else if (!queue_add(&w, most_waiting)) {
		allow(d, fd);
		d->page->counts.flooded++;
	} else {
		next_id++;
	}
}

/* ---- answers ---- */

static void postpone(struct door *d, pid_t tid)
{
	char status[2048];

	if (nlater == MOST_LATER || read_file(tid, "status", status, sizeof(status)) <= 0) {
		d->page->counts.unheard++;
		return;
	}
	watch_cache(d, true);
	later[nlater++] = (struct later){ status_number(status, "Tgid:"), now_ns() };
}

/* false: the tracer is gone */
static bool read_answers(struct door *d)
{
	struct door_verdict v;
	ssize_t n;

	while ((n = recv(d->sock, &v, sizeof(v), MSG_DONTWAIT)) == sizeof(v)) {
		if (v.answer == DOOR_DONE || v.answer == DOOR_BAD) {
			queue_done(v.id, v.answer == DOOR_DONE, now_ns());
			continue;
		}
		for (size_t i = 0; i < queue_length(); i++)
			if (queue_at(i)->id == v.id) {
				d->page->counts.unheard += v.answer == DOOR_MISSED;
				if (v.answer == DOOR_LATER)
					postpone(d, queue_at(i)->tid);
				let_one_go(d, i);
				break;
			}
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* A program that has not opened the cache in time (static, or with another C library): it runs already. */
static void look_at_later(struct door *d, uint64_t now)
{
	for (size_t i = nlater; i-- > 0;)
		if (now - later[i].since > LATER) {
			tell(d, 0, later[i].pid, DOOR_LATE, 0);
			later[i] = later[--nlater];
		}
	if (!nlater)
		watch_cache(d, false);
}

/* Threads that have waited too long go on. While the tracer gives no sign of work, new ones don't wait at all (consider()). */
static void let_old_go(struct door *d, uint64_t now)
{
	for (size_t i = 0; i < queue_length(); i++)
		silent |= now - beat_at > SILENCE && now - queue_at(i)->since > SILENCE;
	if (silent)
		let_all_go(d, NULL);
	for (size_t i = queue_length(); i-- > 0;) {
		bool paused = queue_is_paused(i, now);

		if (!paused && !queue_is_old(i, now))
			continue;
		let_one_go(d, i);
		d->page->counts.flooded += paused;
		d->page->counts.unheard += !paused;
	}
}

static void look_at_tracer(struct door *d, uint64_t now)
{
	uint32_t beat = __atomic_load_n(&d->page->beat, __ATOMIC_RELAXED);

	if (now - ticked_at < TICK_MS * 1000000ull)
		return;
	ticked_at = now;
	if (beat != last_beat) {
		last_beat = beat;
		beat_at = now;
	}
	if (!is_stopped(d)) {
		let_old_go(d, now);
		return;
	}
	asleep = true;
	let_all_go(d, &d->page->counts.asleep);
	if (__atomic_load_n(&d->page->holding, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&d->page->stop_again, 1, __ATOMIC_SEQ_CST);
		kill(d->tracer, SIGCONT);
	}
}

/*
 * All work but events: read answers, ask about the next thread, allow those that have waited too long. false: the tracer
 * is gone
 */
static bool attend(struct door *d)
{
	uint64_t now;

	if (!read_answers(d))
		return false;
	ask_next(d);
	now = now_ns();
	__atomic_store_n(&d->page->crowd, queue_is_crowded(now), __ATOMIC_RELAXED);
	if (queue_length() || nlater || __atomic_load_n(&d->page->holding, __ATOMIC_RELAXED))
		look_at_tracer(d, now);
	return true;
}

/*
 * attend() is called after each event: else threads that were answered, and the user whose turn it is, would wait for as many
 * events as another user can cause. false: the tracer is gone, or the kernel has another version of the events
 */
static bool read_events(struct door *d)
{
	static char buf[AT_ONCE * EVENT] __attribute__((aligned(8)));
	ssize_t n = read(d->fan, buf, at_once * EVENT);
	struct fanotify_event_metadata *m = (void *)buf;

	for (; n > 0 && FAN_EVENT_OK(m, n); m = FAN_EVENT_NEXT(m, n)) {
		if (m->vers != FANOTIFY_METADATA_VERSION)
			return false;
		if (m->fd >= 0)
			consider(d, m->pid, m->fd, m->mask & (FAN_OPEN_EXEC_PERM | FAN_OPEN_EXEC) ? DOOR_EXEC : DOOR_OPEN);
		if (!attend(d))
			return false;
	}
	return true;
}

/*
 * Every event takes a descriptor of the doorman until it is answered. There must always be some left: if the kernel can't
 * open one for an event, the thread's exec or open fails.
 */
static void raise_limit(void)
{
	struct rlimit l = { DOOR_FDS, DOOR_FDS };

	if (setrlimit(RLIMIT_NOFILE, &l) < 0 && getrlimit(RLIMIT_NOFILE, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > DOOR_FDS)
		l.rlim_cur = DOOR_FDS;
	at_once = l.rlim_cur / 8 < AT_ONCE ? l.rlim_cur / 8 : AT_ONCE;
	most_waiting = l.rlim_cur / 2;
}

/*
 * A cgroup may be frozen with all its processes (a paused container, a session before the machine sleeps), and with a frozen
 * doorman every exec of a watched file would wait until the thaw: the kernel has no time limit. So the doorman moves to the
 * root cgroup, if that is permitted; a frozen tracer then counts as one that gives no sign of work.
 */
static void leave_groups(void)
{
	static const char *const top[] = { "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs",
					   "/sys/fs/cgroup/freezer/cgroup.procs" };

	for (int i = 0; i < 3; i++) {
		int fd = open(top[i], O_WRONLY | O_CLOEXEC);
		ssize_t n = fd >= 0 ? write(fd, "0", 1) : 0;

		(void)n;
		if (fd >= 0)
			close(fd);
	}
}

/* With autogroups a nice value counts only within the session, in which the doorman is alone: so the session's is raised, too. */
static void get_priority(void)
{
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? write(fd, "-10", 3) : 0;

	(void)n;
	if (fd >= 0)
		close(fd);
	setpriority(PRIO_PROCESS, 0, -10);
}

/* Close the descriptors inherited from the tracer, and leave its session, so that its terminal's signals don't reach the doorman. */
static void settle(struct door *d)
{
	int *keep[] = { &d->fan, &d->sock, &d->cache };

	raise_limit();
	for (int i = 0; i < 3; i++)	/* first out of the way of 0 to 2, where they go */
		if (*keep[i] >= 0)
			*keep[i] = fcntl(*keep[i], F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < 3; i++)
		if (*keep[i] >= 0) {
			dup2(*keep[i], i);
			*keep[i] = i;
		}
	syscall(SYS_close_range, 3, ~0u, 0);
	setsid();
	leave_groups();
	for (int i = 1; i < 32; i++)
		signal(i, SIG_DFL);
	prctl(PR_SET_NAME, "jab-door");
	get_priority();
	if (chdir("/") < 0)
		return;
	if (d->cache >= 0)
		fstat(d->cache, &cache_stat);
}

void door_keep(struct door *d)
{
	settle(d);
	for (; at_once > 3;) {	/* else the limit of descriptors is too low */
		struct pollfd fds[] = { { .fd = d->sock, .events = POLLIN }, { .fd = d->fan, .events = POLLIN } };
		bool busy = queue_length() || nlater || __atomic_load_n(&d->page->holding, __ATOMIC_RELAXED);

		__atomic_add_fetch(&d->page->door_beat, 1, __ATOMIC_RELEASE);
		poll(fds, 2, busy ? TICK_MS : 200);
		if (!attend(d) || !read_events(d) || !attend(d))
			return;
		look_at_later(d, now_ns());
	}
}
