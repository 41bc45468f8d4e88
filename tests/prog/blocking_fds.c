/* SPDX-License-Identifier: MIT */
/* Calls that wait for a descriptor: pipes, events, files, sockets. See blocking.c. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include "blocking.h"

static const struct timespec hour = { .tv_sec = HOUR };

/* --- descriptors that become readable --- */

int make_pipe(struct row *r)
{
	return pipe(r->fd);
}

void write_byte(struct row *r)
{
	if (write(r->fd[1], "x", 1) != 1)
		bad("%s: can't end it", r->name);
}

static long wait_read(struct row *r)
{
	char c;

	return err(read(r->fd[0], &c, 1));
}

static long wait_poll(struct row *r)
{
	struct pollfd p = { .fd = r->fd[0], .events = POLLIN };

	return err(poll(&p, 1, -1));
}

static long wait_poll_hour(struct row *r)
{
	struct pollfd p = { .fd = r->fd[0], .events = POLLIN };

	return err(poll(&p, 1, HOUR * 1000));
}

/* A mask of their own, which must not let in the signals that end other rows. */
static long wait_ppoll(struct row *r)
{
	struct pollfd p = { .fd = r->fd[0], .events = POLLIN };
	sigset_t all;

	sigfillset(&all);
	return err(ppoll(&p, 1, &hour, &all));
}

static long wait_select(struct row *r)
{
	struct timeval tv = { .tv_sec = HOUR };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(r->fd[0], &set);
	return err(select(r->fd[0] + 1, &set, NULL, NULL, &tv));
}

static long wait_pselect(struct row *r)
{
	sigset_t all;
	fd_set set;

	sigfillset(&all);
	FD_ZERO(&set);
	FD_SET(r->fd[0], &set);
	return err(pselect(r->fd[0] + 1, &set, NULL, NULL, &hour, &all));
}

int make_epoll(struct row *r)
{
	struct epoll_event e = { .events = EPOLLIN };

	if (make_pipe(r))
		return -1;
	r->id = epoll_create1(0);
	return epoll_ctl(r->id, EPOLL_CTL_ADD, r->fd[0], &e);
}

static long wait_epoll(struct row *r)
{
	struct epoll_event e;

	return err(epoll_wait(r->id, &e, 1, -1));
}

static long wait_epoll_hour(struct row *r)
{
	struct epoll_event e;

	return err(epoll_wait(r->id, &e, 1, HOUR * 1000));
}

static long wait_epoll_pwait(struct row *r)
{
	struct epoll_event e;
	sigset_t all;

	sigfillset(&all);
	return err(epoll_pwait(r->id, &e, 1, -1, &all));
}

static long wait_epoll_pwait2(struct row *r)
{
	struct epoll_event e;

	return err(syscall(SYS_epoll_pwait2, r->id, &e, 1, &hour, NULL, 8));
}

static int make_full_pipe(struct row *r)
{
	char page[4096] = { 0 };

	if (pipe2(r->fd, O_NONBLOCK))
		return -1;
	while (write(r->fd[1], page, sizeof(page)) > 0)
		;
	return fcntl(r->fd[1], F_SETFL, 0);
}

static long wait_write(struct row *r)
{
	return err(write(r->fd[1], "y", 1));
}

static void drain(struct row *r)
{
	char page[4096];

	while (read(r->fd[0], page, sizeof(page)) > 0)
		;
}

static long wait_splice(struct row *r)
{
	int null = open("/dev/null", O_WRONLY);
	long n = err(splice(r->fd[0], NULL, null, NULL, 1, 0));

	close(null);
	return n;
}

static int make_eventfd(struct row *r)
{
	r->fd[0] = r->fd[1] = eventfd(0, 0);
	return r->fd[0] < 0;
}

static long wait_read8(struct row *r)
{
	uint64_t v;

	return err(read(r->fd[0], &v, 8));
}

static void write_eight(struct row *r)
{
	uint64_t one = 1;

	if (write(r->fd[1], &one, 8) != 8)
		bad("%s: can't end it", r->name);
}

static int make_timerfd(struct row *r)
{
	struct itimerspec its = { .it_value = hour };

	r->fd[0] = timerfd_create(CLOCK_MONOTONIC, 0);
	return timerfd_settime(r->fd[0], 0, &its, NULL);
}

static void end_timerfd(struct row *r)
{
	struct itimerspec its = { .it_value = { .tv_nsec = 1 } };

	timerfd_settime(r->fd[0], 0, &its, NULL);
}

static int make_inotify(struct row *r)
{
	r->fd[0] = inotify_init1(0);
	return mkdir(in_dir("seen"), 0700) || inotify_add_watch(r->fd[0], in_dir("seen"), IN_CREATE) < 0;
}

static long wait_inotify(struct row *r)
{
	char buf[4096];

	return err(read(r->fd[0], buf, sizeof(buf))) > 0;
}

static void end_inotify(struct row *r)
{
	mkdir(in_dir("seen/it"), 0700);
}

static int make_fifo(struct row *r)
{
	return mkfifo(in_dir("fifo"), 0600);
}

static long wait_open(struct row *r)
{
	return err(r->fd[0] = open(in_dir("fifo"), O_RDONLY)) >= 0;
}

static void end_open(struct row *r)
{
	r->fd[1] = open(in_dir("fifo"), O_WRONLY);
}

/* --- sockets --- */

int make_pair(struct row *r)
{
	return socketpair(AF_UNIX, SOCK_STREAM, 0, r->fd);
}

static int make_timed_pair(struct row *r)
{
	struct timeval tv = { .tv_sec = HOUR };

	if (make_pair(r))
		return -1;
	setsockopt(r->fd[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return setsockopt(r->fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

long wait_recv(struct row *r)
{
	char c;

	return err(recv(r->fd[0], &c, 1, 0));
}

static long wait_recvmsg(struct row *r)
{
	char c;
	struct iovec v = { &c, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	return err(recvmsg(r->fd[0], &m, 0));
}

static long wait_recvmmsg(struct row *r)
{
	char c;
	struct iovec v = { &c, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };

	return err(recvmmsg(r->fd[0], &m, 1, 0, NULL));
}

static int make_full_pair(struct row *r)
{
	char page[4096] = { 0 };

	if (make_timed_pair(r))
		return -1;
	while (send(r->fd[0], page, sizeof(page), MSG_DONTWAIT) > 0)
		;
	return 0;
}

static long wait_send(struct row *r)
{
	return err(send(r->fd[0], "z", 1, 0));
}

static void drain_pair(struct row *r)
{
	char page[4096];

	while (recv(r->fd[1], page, sizeof(page), MSG_DONTWAIT) > 0)
		;
}

static int listen_at(struct row *r, int backlog)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", in_dir(r->name));
	r->fd[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	return bind(r->fd[0], (void *)&a, sizeof(a)) || listen(r->fd[0], backlog);
}

static int connect_to(struct row *r, int flags)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | flags, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", in_dir(r->name));
	return connect(fd, (void *)&a, sizeof(a)) ? -errno : fd;
}

static int make_listen(struct row *r)
{
	return listen_at(r, 4);
}

static int make_timed_listen(struct row *r)
{
	struct timeval tv = { .tv_sec = HOUR };

	return listen_at(r, 4) || setsockopt(r->fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

static long wait_accept(struct row *r)
{
	return err(accept(r->fd[0], NULL, NULL)) >= 0;
}

static long wait_accept4(struct row *r)
{
	return err(accept4(r->fd[0], NULL, NULL, SOCK_CLOEXEC)) >= 0;
}

static void end_accept(struct row *r)
{
	if (connect_to(r, 0) < 0)
		bad("%s: can't end it", r->name);
}

/* A queue of length 0 takes one connection; the next one waits. */
static int make_busy_listen(struct row *r)
{
	return listen_at(r, 0) || connect_to(r, SOCK_NONBLOCK) < 0;
}

static long wait_connect(struct row *r)
{
	return connect_to(r, 0) >= 0;
}

static void end_connect(struct row *r)
{
	accept(r->fd[0], NULL, NULL);
}

struct row fd_rows[] = {
	ROW("read-pipe", make_pipe, wait_read, write_byte, 1),
	ROW("poll", make_pipe, wait_poll, write_byte, 1),
	ROW("poll-time", make_pipe, wait_poll_hour, write_byte, 1),
	ROW("ppoll", make_pipe, wait_ppoll, write_byte, 1),
	ROW("select", make_pipe, wait_select, write_byte, 1),
	ROW("pselect", make_pipe, wait_pselect, write_byte, 1),
	ROW("epoll_wait", make_epoll, wait_epoll, write_byte, 1),
	ROW("epoll_wait-time", make_epoll, wait_epoll_hour, write_byte, 1),
	ROW("epoll_pwait", make_epoll, wait_epoll_pwait, write_byte, 1),
	ROW("epoll_pwait2", make_epoll, wait_epoll_pwait2, write_byte, 1),
	ROW("write-pipe", make_full_pipe, wait_write, drain, 1),
	ROW("splice", make_pipe, wait_splice, write_byte, 1),
	ROW("read-eventfd", make_eventfd, wait_read8, write_eight, 8),
	ROW("read-timerfd", make_timerfd, wait_read8, end_timerfd, 8),
	ROW("read-inotify", make_inotify, wait_inotify, end_inotify, 1),
	ROW("open-fifo", make_fifo, wait_open, end_open, 1),
	ROW("recv", make_pair, wait_recv, write_byte, 1),
	ROW("recv-time", make_timed_pair, wait_recv, write_byte, 1),
	ROW("read-socket-time", make_timed_pair, wait_read, write_byte, 1),
	ROW("recvmsg", make_pair, wait_recvmsg, write_byte, 1),
	ROW("recvmsg-time", make_timed_pair, wait_recvmsg, write_byte, 1),
	ROW("recvmmsg-time", make_timed_pair, wait_recvmmsg, write_byte, 1),
	ROW("send-time", make_full_pair, wait_send, drain_pair, 1),
	ROW("accept", make_listen, wait_accept, end_accept, 1),
	ROW("accept-time", make_timed_listen, wait_accept, end_accept, 1),
	ROW("accept4-time", make_timed_listen, wait_accept4, end_accept, 1),
	ROW("connect", make_busy_listen, wait_connect, end_connect, 1),
};
const int n_fd_rows = COUNT(fd_rows);
