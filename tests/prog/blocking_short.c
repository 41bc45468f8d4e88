/* SPDX-License-Identifier: MIT */
/* Short time-outs, again and again. A row's want is what the time-out returns; it has no end. See blocking.c. */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/socket.h>
#include "blocking.h"

static const struct timespec brief = { .tv_nsec = SHORT_MS * 1000000 };

static long short_epoll(struct row *r)
{
	struct epoll_event e;

	return err(epoll_wait(r->id, &e, 1, SHORT_MS));
}

static long short_poll(struct row *r)
{
	return err(poll(NULL, 0, SHORT_MS));
}

static long short_select(struct row *r)
{
	struct timeval tv = { .tv_usec = SHORT_MS * 1000 };

	return err(select(0, NULL, NULL, NULL, &tv));
}

static long short_nanosleep(struct row *r)
{
	return err(nanosleep(&brief, NULL));
}

static long short_futex(struct row *r)
{
	return futex(&r->word, FUTEX_WAIT, 0, &brief);
}

static long short_sigtimedwait(struct row *r)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	return err(sigtimedwait(&s, NULL, &brief));
}

static long short_semtimedop(struct row *r)
{
	struct sembuf b = { .sem_op = -1 };

	return err(semtimedop(r->id, &b, 1, &brief));
}

static long short_aio(struct row *r)
{
	struct timespec t = brief;
	struct io_event e;

	return err(syscall(SYS_io_getevents, r->p, 1, 1, &e, &t));
}

static int make_short_pair(struct row *r)
{
	struct timeval tv = { .tv_usec = SHORT_MS * 1000 };

	return make_pair(r) || setsockopt(r->fd[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

struct row short_rows[] = {
	ROW("short-epoll_wait", make_epoll, short_epoll, NULL, 0),
	ROW("short-poll", nothing, short_poll, NULL, 0),
	ROW("short-select", nothing, short_select, NULL, 0),
	ROW("short-nanosleep", nothing, short_nanosleep, NULL, 0),
	ROW("short-futex", nothing, short_futex, NULL, -ETIMEDOUT),
	ROW("short-sigtimedwait", nothing, short_sigtimedwait, NULL, -EAGAIN),
	ROW("short-semtimedop", make_sem, short_semtimedop, NULL, -EAGAIN),
	ROW("short-io_getevents", make_aio, short_aio, NULL, 0),
	ROW("short-recv", make_short_pair, wait_recv, NULL, -EAGAIN),
};
const int n_short_rows = COUNT(short_rows);
