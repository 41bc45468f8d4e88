/* SPDX-License-Identifier: MIT */
/*
 * A program that sleeps in a system call must not notice that it was stopped, borrowed and let go a
 * hundred times: no EINTR, no early return, and in the end the right result. One row is one call.
 */
#include "proc_target.h"

#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>

#define ROUNDS 100
#define LONG_MS 1500		/* of calls that end by time; the rounds take less */

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* Made before the fork, so both sides have them. */
struct kit {
	struct shared *sh;
	int pipe[2], pair[2], listener, file, sem, msg, event, ring;
	mqd_t mq;
	volatile int *word;
	pid_t child;
	struct io_uring_params params;
	uint8_t *sq;
	struct io_uring_sqe *sqes;
	struct sockaddr_un name;
};

struct row {
	const char *name;
	long (*call)(struct kit *k);	/* in the target */
	void (*wake)(struct kit *k);	/* here; NULL: it ends by time */
	long want;			/* its result; -errno counts as such */
};

static void on_signal(int sig)
{
	sh->extra++;
}

static void catch_signal(int sig)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(sig, &sa, NULL);
}

static void write_pipe(struct kit *k) { assert_int_equal(write(k->pipe[1], "x", 1), 1); }
static void write_pair(struct kit *k) { assert_int_equal(write(k->pair[1], "x", 1), 1); }
static void send_usr1(struct kit *k) { kill(k->child, SIGUSR1); }

static void block_usr1(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static const struct timespec long_time = { 100, 0 };
static const struct timespec short_time = { LONG_MS / 1000, LONG_MS % 1000 * 1000000 };

static int epoll_of(struct kit *k)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int e = epoll_create1(0);

	epoll_ctl(e, EPOLL_CTL_ADD, k->pipe[0], &ev);
	return e;
}

static long c_epoll_wait(struct kit *k)
{
	struct epoll_event ev;

	return epoll_wait(epoll_of(k), &ev, 1, -1);
}

static long c_epoll_timeout(struct kit *k)
{
	struct epoll_event ev;

	return epoll_wait(epoll_of(k), &ev, 1, 100000);
}

static long c_epoll_pwait(struct kit *k)
{
	struct epoll_event ev;
	sigset_t none;

	block_usr1();
	sigemptyset(&none);
	return epoll_pwait(epoll_of(k), &ev, 1, -1, &none);
}

static long c_epoll_pwait2(struct kit *k)
{
	struct epoll_event ev;

	return syscall(SYS_epoll_pwait2, epoll_of(k), &ev, 1, &long_time, NULL, 8);
}

static long c_futex(struct kit *k)
{
	return syscall(SYS_futex, k->word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void w_futex(struct kit *k)
{
	/* It may still be on its way back into the call. */
	while (syscall(SYS_futex, k->word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
		sleep_ns(100000);
}

static long c_futex_timeout(struct kit *k)
{
	return syscall(SYS_futex, k->word, FUTEX_WAIT, 0, &short_time, NULL, 0);
}

static long c_poll(struct kit *k)
{
	struct pollfd f = { k->pipe[0], POLLIN, 0 };

	return poll(&f, 1, -1);
}

static long c_poll_timeout(struct kit *k)
{
	struct pollfd f = { k->pipe[0], POLLIN, 0 };

	return poll(&f, 1, LONG_MS);
}

static long c_ppoll_timeout(struct kit *k)
{
	struct pollfd f = { k->pipe[0], POLLIN, 0 };

	return ppoll(&f, 1, &short_time, NULL);
}

static long c_select(struct kit *k)
{
	fd_set s;

	FD_ZERO(&s);
	FD_SET(k->pipe[0], &s);
	return select(k->pipe[0] + 1, &s, NULL, NULL, NULL);
}

static long c_select_timeout(struct kit *k)
{
	struct timeval t = { LONG_MS / 1000, LONG_MS % 1000 * 1000 };

	return select(0, NULL, NULL, NULL, &t);
}

static long c_pselect(struct kit *k)
{
	sigset_t none;
	fd_set s;

	block_usr1();
	sigemptyset(&none);
	FD_ZERO(&s);
	FD_SET(k->pipe[0], &s);
	return pselect(k->pipe[0] + 1, &s, NULL, NULL, &long_time, &none);
}

static long c_read(struct kit *k)
{
	char b;

	return read(k->pipe[0], &b, 1);
}

static long c_recv_timeout(struct kit *k)
{
	struct timeval t = { 100, 0 };
	char b;

	setsockopt(k->pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return recv(k->pair[0], &b, 1, 0);
}

static long c_read_timeout(struct kit *k)
{
	struct timeval t = { 100, 0 };
	char b;

	setsockopt(k->pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return read(k->pair[0], &b, 1);
}

static long c_send_timeout(struct kit *k)
{
	struct timeval t = { 100, 0 };
	char b[4096] = { 0 };

	setsockopt(k->pair[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	while (send(k->pair[0], b, sizeof(b), MSG_DONTWAIT) > 0)
		;
	return send(k->pair[0], b, 1, 0);
}

static void drain_pair(struct kit *k)
{
	char b[4096];

	while (recv(k->pair[1], b, sizeof(b), MSG_DONTWAIT) > 0)
		;
}

static long c_write_full(struct kit *k)
{
	static char b[4096];

	fcntl(k->pipe[1], F_SETFL, O_NONBLOCK);
	while (write(k->pipe[1], b, sizeof(b)) > 0)
		;
	fcntl(k->pipe[1], F_SETFL, 0);
	return write(k->pipe[1], b, 1);
}

static void drain_pipe(struct kit *k)
{
	char b[65536];

	assert_true(read(k->pipe[0], b, sizeof(b)) > 0);
}

static long c_accept(struct kit *k) { return accept(k->listener, NULL, NULL) >= 0; }

static long c_accept_timeout(struct kit *k)
{
	struct timeval t = { 100, 0 };

	setsockopt(k->listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return accept(k->listener, NULL, NULL) >= 0;
}

static int connect_here(struct kit *k)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	return connect(s, (void *)&k->name, sizeof(k->name));
}

static void w_connect(struct kit *k) { assert_int_equal(connect_here(k), 0); }

static long c_connect(struct kit *k)
{
	connect_here(k);	/* fills the queue of length 0 */
	return connect_here(k);
}

static void w_accept(struct kit *k) { assert_true(accept(k->listener, NULL, NULL) >= 0); }
static long c_nanosleep(struct kit *k) { return nanosleep(&short_time, NULL); }
static long c_clock_rel(struct kit *k) { return -clock_nanosleep(CLOCK_MONOTONIC, 0, &short_time, NULL); }

static long c_clock_abs(struct kit *k)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += short_time.tv_sec;
	t.tv_nsec += short_time.tv_nsec;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static long c_sigtimedwait(struct kit *k)
{
	sigset_t set;

	block_usr1();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, NULL, &long_time);
}

static long c_sigwaitinfo(struct kit *k)
{
	sigset_t set;

	block_usr1();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwaitinfo(&set, NULL);
}

static long c_pause(struct kit *k)
{
	catch_signal(SIGUSR1);
	return pause();
}

static long c_sigsuspend(struct kit *k)
{
	sigset_t none;

	catch_signal(SIGUSR1);
	block_usr1();
	sigemptyset(&none);
	return sigsuspend(&none);
}

static long c_waitpid(struct kit *k)
{
	pid_t pid = fork();
	char b;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read(k->pipe[0], &b, 1) != 1);
	}
	return waitpid(pid, NULL, 0) == pid;
}

static long c_semop(struct kit *k)
{
	struct sembuf op = { 0, -1, 0 };

	return semop(k->sem, &op, 1);
}

static long c_semtimedop(struct kit *k)
{
	struct sembuf op = { 0, -1, 0 };

	return semtimedop(k->sem, &op, 1, &long_time);
}

static void w_sem(struct kit *k)
{
	struct sembuf op = { 0, 1, 0 };

	assert_int_equal(semop(k->sem, &op, 1), 0);
}

static long c_msgrcv(struct kit *k)
{
	struct { long type; char text[8]; } m;

	return msgrcv(k->msg, &m, 8, 0, 0);
}

static void w_msg(struct kit *k)
{
	struct { long type; char text[8]; } m = { 1, "x" };

	assert_int_equal(msgsnd(k->msg, &m, 5, 0), 0);
}

static long c_mq(struct kit *k)
{
	struct timespec t;
	char b[8];

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 100;
	return mq_timedreceive(k->mq, b, sizeof(b), NULL, &t);
}

static void w_mq(struct kit *k) { assert_int_equal(mq_send(k->mq, "x", 1, 0), 0); }

static aio_context_t aio_on_pipe(struct kit *k)
{
	static struct iocb cb, *list[] = { &cb };
	aio_context_t ctx = 0;

	cb.aio_fildes = k->pipe[0];
	cb.aio_lio_opcode = IOCB_CMD_POLL;
	cb.aio_buf = POLLIN;
	syscall(SYS_io_setup, 4, &ctx);
	syscall(SYS_io_submit, ctx, 1, list);
	return ctx;
}

static long c_io_getevents(struct kit *k)
{
	struct io_event ev;

	return syscall(SYS_io_getevents, aio_on_pipe(k), 1, 1, &ev, &long_time);
}

static long c_io_pgetevents(struct kit *k)
{
	struct io_event ev;

	return syscall(SYS_io_pgetevents, aio_on_pipe(k), 1, 1, &ev, &long_time, NULL);
}

/* A completion is made from outside, by a request that does nothing. */
static long c_uring(struct kit *k)
{
	return syscall(SYS_io_uring_enter, k->ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

static void w_uring(struct kit *k)
{
	volatile uint32_t *tail = (void *)(k->sq + k->params.sq_off.tail);

	k->sqes[0] = (struct io_uring_sqe){ .opcode = IORING_OP_NOP };
	((uint32_t *)(k->sq + k->params.sq_off.array))[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	assert_int_equal(syscall(SYS_io_uring_enter, k->ring, 1, 0, 0, NULL, 0), 1);
}

/* The same file, but a descriptor of our own. */
static int open_again(struct kit *k)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", k->file);
	return open(path, O_RDWR);
}

static long c_flock(struct kit *k)
{
	return flock(open_again(k), LOCK_EX);
}

static void w_flock(struct kit *k) { flock(k->file, LOCK_UN); }

static long c_setlkw(struct kit *k)
{
	struct flock l = { .l_type = F_WRLCK, .l_start = 0, .l_len = 1 };

	return fcntl(open_again(k), F_SETLKW, &l);
}

static void w_setlkw(struct kit *k)
{
	struct flock l = { .l_type = F_UNLCK, .l_start = 0, .l_len = 1 };

	fcntl(k->file, F_SETLK, &l);
}

static long c_eventfd(struct kit *k)
{
	uint64_t v;

	return read(k->event, &v, sizeof(v));
}

static void w_eventfd(struct kit *k)
{
	uint64_t v = 1;

	assert_int_equal(write(k->event, &v, sizeof(v)), 8);
}

static long c_timerfd(struct kit *k)
{
	struct itimerspec t = { .it_value = short_time };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t v;

	timerfd_settime(fd, 0, &t, NULL);
	return read(fd, &v, sizeof(v));
}

static long c_signalfd(struct kit *k)
{
	struct signalfd_siginfo s;
	sigset_t set;

	block_usr1();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return read(signalfd(-1, &set, 0), &s, sizeof(s)) == sizeof(s) && s.ssi_signo == SIGUSR1;
}

static const struct row rows[] = {
	{ "epoll_wait", c_epoll_wait, write_pipe, 1 },
	{ "epoll_wait with a time-out", c_epoll_timeout, write_pipe, 1 },
	{ "epoll_pwait", c_epoll_pwait, write_pipe, 1 },
	{ "epoll_pwait2", c_epoll_pwait2, write_pipe, 1 },
	{ "futex", c_futex, w_futex, 0 },
	{ "futex ends by time", c_futex_timeout, NULL, -ETIMEDOUT },
	{ "poll", c_poll, write_pipe, 1 },
	{ "poll ends by time", c_poll_timeout, NULL, 0 },
	{ "ppoll ends by time", c_ppoll_timeout, NULL, 0 },
	{ "select", c_select, write_pipe, 1 },
	{ "select ends by time", c_select_timeout, NULL, 0 },
	{ "pselect", c_pselect, write_pipe, 1 },
	{ "read from a pipe", c_read, write_pipe, 1 },
	{ "write to a full pipe", c_write_full, drain_pipe, 1 },
	{ "recv with SO_RCVTIMEO", c_recv_timeout, write_pair, 1 },
	{ "read with SO_RCVTIMEO", c_read_timeout, write_pair, 1 },
	{ "send with SO_SNDTIMEO", c_send_timeout, drain_pair, 1 },
	{ "accept", c_accept, w_connect, 1 },
	{ "accept with SO_RCVTIMEO", c_accept_timeout, w_connect, 1 },
	{ "connect", c_connect, w_accept, 0 },
	{ "nanosleep", c_nanosleep, NULL, 0 },
	{ "clock_nanosleep", c_clock_rel, NULL, 0 },
	{ "clock_nanosleep until", c_clock_abs, NULL, 0 },
	{ "sigtimedwait", c_sigtimedwait, send_usr1, SIGUSR1 },
	{ "sigwaitinfo", c_sigwaitinfo, send_usr1, SIGUSR1 },
	{ "pause", c_pause, send_usr1, -EINTR },
	{ "sigsuspend", c_sigsuspend, send_usr1, -EINTR },
	{ "waitpid", c_waitpid, write_pipe, 1 },
	{ "semop", c_semop, w_sem, 0 },
	{ "semtimedop", c_semtimedop, w_sem, 0 },
	{ "msgrcv", c_msgrcv, w_msg, 5 },
	{ "mq_timedreceive", c_mq, w_mq, 1 },
	{ "io_getevents", c_io_getevents, write_pipe, 1 },
	{ "io_pgetevents", c_io_pgetevents, write_pipe, 1 },
	{ "io_uring_enter", c_uring, w_uring, 0 },
	{ "flock", c_flock, w_flock, 0 },
	{ "fcntl F_SETLKW", c_setlkw, w_setlkw, 0 },
	{ "read of an eventfd", c_eventfd, w_eventfd, 8 },
	{ "read of a timerfd", c_timerfd, NULL, 8 },
	{ "read of a signalfd", c_signalfd, send_usr1, 1 },
};

static void make_ring(struct kit *k)
{
	k->ring = syscall(SYS_io_uring_setup, 4, &k->params);
	if (k->ring < 0)
		return;
	k->sq = mmap(NULL, k->params.sq_off.array + 16, PROT_READ | PROT_WRITE, MAP_SHARED, k->ring,
		     IORING_OFF_SQ_RING);
	k->sqes = mmap(NULL, 4 * sizeof(*k->sqes), PROT_READ | PROT_WRITE, MAP_SHARED, k->ring,
		       IORING_OFF_SQES);
}

static void make_kit(struct kit *k, size_t i)
{
	struct mq_attr attr = { .mq_maxmsg = 2, .mq_msgsize = 8 };
	struct flock l = { .l_type = F_WRLCK, .l_start = 0, .l_len = 1 };
	char name[64];

	memset(k, 0, sizeof(*k));
	k->sh = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	k->word = (int *)((char *)k->sh + 4096);
	assert_int_equal(pipe2(k->pipe, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, k->pair), 0);
	k->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	k->name.sun_family = AF_UNIX;
	snprintf(k->name.sun_path + 1, 60, "jab-test-%d-%zu", getpid(), i);
	bind(k->listener, (void *)&k->name, sizeof(k->name));
	listen(k->listener, 0);
	k->file = memfd_create("test-lock", MFD_CLOEXEC);
	flock(k->file, LOCK_EX);
	fcntl(k->file, F_SETLK, &l);
	k->sem = semget(IPC_PRIVATE, 1, 0600);
	k->msg = msgget(IPC_PRIVATE, 0600);
	k->event = eventfd(0, 0);
	snprintf(name, sizeof(name), "/jab-test-%d-%zu", getpid(), i);
	k->mq = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	mq_unlink(name);
	make_ring(k);
}

static void free_kit(struct kit *k)
{
	semctl(k->sem, 0, IPC_RMID);
	msgctl(k->msg, IPC_RMID, NULL);
	mq_close(k->mq);
	close(k->pipe[0]);
	close(k->pipe[1]);
	close(k->pair[0]);
	close(k->pair[1]);
	close(k->listener);
	close(k->file);
	close(k->event);
	if (k->ring >= 0)
		close(k->ring);
	munmap(k->sh, 8192);
}

struct job { const struct row *row; struct kit *kit; };

static void sleeper(void *arg)
{
	struct job *j = arg;
	uint64_t t;
	long r;

	sh = j->kit->sh;
	t = now_ns();
	sh->ready = 1;
	r = j->row->call(j->kit);
	sh->result = r == -1 ? -errno : r;
	sh->elapsed = now_ns() - t;
	sh->stop = 1;
	for (;;)
		sleep_ns(100000000);
}

static bool is_usable(const struct row *row, const struct kit *k)
{
	return row->call != c_uring || k->ring >= 0;
}

static uint64_t rounds_ns;	/* what all the stops took: more on a busy machine */

static void check_row(const struct row *row, struct kit *k, struct proc *p)
{
	if (row->wake && k->sh->stop)
		fail_msg("%s returned %ld before anything happened", row->name, (long)k->sh->result);
	proc_close(p);
	if (row->wake)
		row->wake(k);
	if (!wait_until(&k->sh->stop, 1))
		fail_msg("%s did not return", row->name);
	if (k->sh->result != row->want)
		fail_msg("%s returned %ld, not %ld", row->name, (long)k->sh->result, row->want);
	if (!row->wake && (k->sh->elapsed < LONG_MS * 1000000ull || k->sh->elapsed > LONG_MS * 2000000ull + rounds_ns / 2))
		fail_msg("%s took %ld ms, not %d", row->name, (long)(k->sh->elapsed / 1000000), LONG_MS);
}

#define N ARRAY_SIZE(rows)

static struct kit kits[N];

/* All sleep at the same time: so the test takes as long as the slowest. */
static void nothing_is_noticed(void **state)
{
	bool borrow = *state != NULL;
	struct proc *procs[N] = { NULL };
	struct job jobs[N];
	size_t i, round;

	for (i = 0; i < N; i++) {
		make_kit(&kits[i], i);
		jobs[i] = (struct job){ &rows[i], &kits[i] };
		if (is_usable(&rows[i], &kits[i]))
			kits[i].child = start_target(sleeper, &jobs[i]);
	}
	for (i = 0; i < N; i++)
		if (kits[i].child) {
			assert_true(wait_until(&kits[i].sh->ready, 1));
			wait_state(kits[i].child, 'S');
			procs[i] = opened(kits[i].child);
		}
	rounds_ns = now_ns();
	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < N; i++) {
			if (!procs[i])
				continue;
			if (borrow) {
				one_round(procs[i]);
				continue;
			}
			assert_ok(proc_stop(procs[i]));
			assert_ok(proc_resume(procs[i]));
		}
	rounds_ns = now_ns() - rounds_ns;
	for (i = 0; i < N; i++)
		if (procs[i] && rows[i].wake)
			check_row(&rows[i], &kits[i], procs[i]);
	for (i = 0; i < N; i++) {
		if (procs[i] && !rows[i].wake)
			check_row(&rows[i], &kits[i], procs[i]);
		if (kits[i].child)
			end_target(kits[i].child);
		free_kit(&kits[i]);
	}
}

/* But a signal that comes while the thread is stopped does interrupt its call. */
static const struct row interrupted[] = {
	{ "epoll_wait", c_epoll_wait, send_usr1, -EINTR },
	{ "epoll_wait with a time-out", c_epoll_timeout, send_usr1, -EINTR },
	{ "epoll_pwait", c_epoll_pwait, send_usr1, -EINTR },
	{ "recv with SO_RCVTIMEO", c_recv_timeout, send_usr1, -EINTR },
	{ "read", c_read, send_usr1, -EINTR },
	{ "poll", c_poll, send_usr1, -EINTR },
	{ "nanosleep", c_nanosleep, send_usr1, -EINTR },
	{ "semtimedop", c_semtimedop, send_usr1, -EINTR },
	{ "pselect", c_pselect, send_usr1, -EINTR },
	{ "sigtimedwait gets what it waits for", c_sigtimedwait, send_usr1, SIGUSR1 },
	{ "sigsuspend", c_sigsuspend, send_usr1, -EINTR },
	{ "pause", c_pause, send_usr1, -EINTR },
};

static void sleeper_with_handler(void *arg)
{
	sh = ((struct job *)arg)->kit->sh;
	catch_signal(SIGUSR1);
	sleeper(arg);
}

static void signals_do_interrupt(void **state)
{
	size_t i, round;

	for (round = 0; round < 4; round++)
		for (i = 0; i < ARRAY_SIZE(interrupted); i++) {
			const struct row *row = &interrupted[i];
			struct kit *k = &kits[0];
			struct job job = { row, k };
			struct proc *p;

			make_kit(k, i);
			k->child = start_target(sleeper_with_handler, &job);
			assert_true(wait_until(&k->sh->ready, 1));
			wait_state(k->child, 'S');
			p = opened(k->child);
			assert_ok(proc_stop(p));
			if (round & 1)
				borrowed(p, SYS_getpid, 0, 0);
			row->wake(k);
			if (round & 2)
				borrowed(p, SYS_getpid, 0, 0);
			assert_ok(proc_resume(p));
			if (!wait_until(&k->sh->stop, 1))
				fail_msg("%s: round %zu: did not return", row->name, round);
			if (k->sh->result != row->want)
				fail_msg("%s: returned %ld, not %ld", row->name, (long)k->sh->result, row->want);
			if (row->want == -EINTR)
				assert_int_equal(k->sh->extra, 1);
			proc_close(p);
			end_target(k->child);
			free_kit(k);
		}
}

/* A signal that the program ignores is queued for a traced thread, but it is no interruption. */
static void ignored_signals_do_not(void **state)
{
	static const struct row row = { "epoll_wait", c_epoll_wait, write_pipe, 1 };
	struct kit *k = &kits[0];
	struct job job = { &row, k };
	struct proc *p;
	int i;

	make_kit(k, 0);
	k->child = start_target(sleeper, &job);
	assert_true(wait_until(&k->sh->ready, 1));
	wait_state(k->child, 'S');
	p = opened(k->child);
	for (i = 0; i < 50; i++) {
		assert_ok(proc_stop(p));
		kill(k->child, SIGCHLD);
		kill(k->child, SIGWINCH);
		assert_ok(proc_resume(p));
	}
	check_row(&row, k, p);
	end_target(k->child);
	free_kit(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_noticed),
		cmocka_unit_test_prestate(nothing_is_noticed, "borrow"),
		cmocka_unit_test(signals_do_interrupt),
		cmocka_unit_test(ignored_signals_do_not),
	};

	return cmocka_run_group_tests_name("interrupted calls", tests, NULL, NULL);
}
