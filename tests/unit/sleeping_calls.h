/* SPDX-License-Identifier: MIT */
/*
 * Calls that sleep, each with what it needs (a kit) and with what wakes it: c_NAME() sleeps in the
 * target and returns its result, the other functions wake it from outside.
 */
#ifndef JAB_TEST_SLEEPING_CALLS_H
#define JAB_TEST_SLEEPING_CALLS_H

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

#endif
