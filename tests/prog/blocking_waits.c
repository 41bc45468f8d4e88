/* SPDX-License-Identifier: MIT */
/* Calls that wait for time, a futex, a signal, a child, a queue, a lock or a request. See blocking.c. */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "blocking.h"

static const struct timespec hour = { .tv_sec = HOUR };

/* --- time, futexes, signals --- */

int nothing(struct row *r)
{
	return 0;
}

static long wait_nanosleep(struct row *r)
{
	return err(nanosleep(&hour, NULL));
}

static long wait_clock_nanosleep(struct row *r)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += HOUR;
	return -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static long wait_pause(struct row *r)
{
	return err(pause());
}

static long wait_sigsuspend(struct row *r)
{
	sigset_t all;

	sigfillset(&all);
	return err(sigsuspend(&all));
}

long futex(int *word, int op, int val, const struct timespec *t)
{
	return err(syscall(SYS_futex, word, op, val, t, NULL, FUTEX_BITSET_MATCH_ANY));
}

static long wait_futex(struct row *r)
{
	return futex(&r->word, FUTEX_WAIT, 0, NULL);
}

static long wait_futex_hour(struct row *r)
{
	return futex(&r->word, FUTEX_WAIT, 0, &hour);
}

static long wait_futex_abs(struct row *r)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += HOUR;
	return futex(&r->word, FUTEX_WAIT_BITSET, 0, &t);
}

static void end_futex(struct row *r)
{
	futex(&r->word, FUTEX_WAKE, 1, NULL);
}

static long wait_futex_pi(struct row *r)
{
	return futex(&r->word, FUTEX_LOCK_PI, 0, NULL);
}

static int make_futex_pi(struct row *r)
{
	return futex(&r->word, FUTEX_LOCK_PI, 0, NULL) != 0;
}

static void end_futex_pi(struct row *r)
{
	futex(&r->word, FUTEX_UNLOCK_PI, 0, NULL);
}

static long wait_sigtimedwait(struct row *r)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	return err(sigtimedwait(&s, NULL, &hour));
}

static long wait_sigwaitinfo(struct row *r)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	return err(sigwaitinfo(&s, NULL));
}

static void end_sigwait(struct row *r)
{
	pthread_kill(r->thread, SIGUSR1);
}

static int make_signalfd(struct row *r)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR2);
	r->fd[0] = signalfd(-1, &s, 0);
	return r->fd[0] < 0;
}

static long wait_signalfd(struct row *r)
{
	struct signalfd_siginfo i;

	return err(read(r->fd[0], &i, sizeof(i))) > 0;
}

static void end_signalfd(struct row *r)
{
	kill(getpid(), SIGUSR2);
}

/* --- children --- */

static int make_child(struct row *r)
{
	if (make_pipe(r))
		return -1;
	r->id = fork();
	if (!r->id) {
		char c;

		close(r->fd[1]);
		_exit(read(r->fd[0], &c, 1) == 1 ? 7 : 8);
	}
	return r->id < 0;
}

static long wait_waitpid(struct row *r)
{
	int status = 0;

	return err(waitpid(r->id, &status, 0)) < 0 ? -errno : WEXITSTATUS(status);
}

static long wait_waitid(struct row *r)
{
	siginfo_t i = { .si_status = 0 };

	return err(waitid(P_PID, (id_t)r->id, &i, WEXITED)) < 0 ? -errno : i.si_status;
}

/* --- System V and POSIX queues, locks --- */

int make_sem(struct row *r)
{
	r->id = semget(IPC_PRIVATE, 1, 0600);
	return r->id < 0;
}

static long wait_semop(struct row *r)
{
	struct sembuf b = { .sem_op = -1 };

	return err(semop(r->id, &b, 1));
}

static long wait_semtimedop(struct row *r)
{
	struct sembuf b = { .sem_op = -1 };

	return err(semtimedop(r->id, &b, 1, &hour));
}

static void end_sem(struct row *r)
{
	struct sembuf b = { .sem_op = 1 };

	semop(r->id, &b, 1);
}

int make_msg(struct row *r)
{
	r->id = msgget(IPC_PRIVATE, 0600);
	return r->id < 0;
}

struct message { long type; char text[1]; };

static long wait_msgrcv(struct row *r)
{
	struct message m;

	return err(msgrcv(r->id, &m, 1, 0, 0));
}

static void end_msgrcv(struct row *r)
{
	struct message m = { .type = 1 };

	msgsnd(r->id, &m, 1, 0);
}

static int make_mq(struct row *r)
{
	struct mq_attr a = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	char name[64];

	snprintf(name, sizeof(name), "/jab-%d-%p", getpid(), (void *)r);
	r->id = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &a);
	mq_unlink(name);
	return r->id < 0;
}

static long wait_mq(struct row *r)
{
	struct timespec t;
	char m[8];

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += HOUR;
	return err(mq_timedreceive(r->id, m, sizeof(m), NULL, &t));
}

static void end_mq(struct row *r)
{
	mq_send(r->id, "m", 1, 0);
}

static int make_flock(struct row *r)
{
	r->fd[0] = open(in_dir(r->name), O_CREAT | O_RDWR, 0600);
	r->fd[1] = open(in_dir(r->name), O_RDWR);
	return flock(r->fd[0], LOCK_EX);
}

static long wait_flock(struct row *r)
{
	return err(flock(r->fd[1], LOCK_EX));
}

static void end_flock(struct row *r)
{
	flock(r->fd[0], LOCK_UN);
}

static int ofd_lock(int fd, int cmd, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(fd, cmd, &l);
}

static int make_fcntl(struct row *r)
{
	r->fd[0] = open(in_dir(r->name), O_CREAT | O_RDWR, 0600);
	r->fd[1] = open(in_dir(r->name), O_RDWR);
	return ofd_lock(r->fd[0], F_OFD_SETLK, F_WRLCK);
}

static long wait_fcntl(struct row *r)
{
	return err(ofd_lock(r->fd[1], F_OFD_SETLKW, F_WRLCK));
}

static void end_fcntl(struct row *r)
{
	ofd_lock(r->fd[0], F_OFD_SETLK, F_UNLCK);
}

/* --- asynchronous input and output --- */

int make_aio(struct row *r)
{
	aio_context_t ctx = 0;

	if (make_pipe(r) || syscall(SYS_io_setup, 4, &ctx))
		return -1;
	r->p = (void *)ctx;
	return 0;
}

static long wait_aio(struct row *r)
{
	struct io_event e;

	return err(syscall(SYS_io_getevents, r->p, 1, 1, &e, NULL));
}

static long wait_aio_hour(struct row *r)
{
	struct io_event e;

	return err(syscall(SYS_io_getevents, r->p, 1, 1, &e, &hour));
}

/* A poll request on a pipe that is readable at once. */
static void end_aio(struct row *r)
{
	struct iocb cb = { .aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = (unsigned)r->fd[0], .aio_buf = POLLIN };
	struct iocb *list[1] = { &cb };

	write_byte(r);
	if (syscall(SYS_io_submit, r->p, 1, list) != 1)
		bad("%s: can't end it", r->name);
}

static int make_uring(struct row *r)
{
	struct io_uring_params p = { .flags = 0 };

	r->fd[0] = (int)syscall(SYS_io_uring_setup, 4, &p);
	return r->fd[0] < 0;
}

static long wait_uring(struct row *r)
{
	return err(syscall(SYS_io_uring_enter, r->fd[0], 0, 1, IORING_ENTER_GETEVENTS, NULL, 0));
}

struct row wait_rows[] = {
	ROW("nanosleep", nothing, wait_nanosleep, leave, 0),
	ROW("clock_nanosleep", nothing, wait_clock_nanosleep, leave, 0),
	ROW("pause", nothing, wait_pause, leave, 0),
	ROW("sigsuspend", nothing, wait_sigsuspend, leave, 0),
	ROW("futex", nothing, wait_futex, end_futex, 0),
	ROW("futex-time", nothing, wait_futex_hour, end_futex, 0),
	ROW("futex-abstime", nothing, wait_futex_abs, end_futex, 0),
	ROW("futex-pi", make_futex_pi, wait_futex_pi, end_futex_pi, 0),
	ROW("sigtimedwait", nothing, wait_sigtimedwait, end_sigwait, SIGUSR1),
	ROW("sigwaitinfo", nothing, wait_sigwaitinfo, end_sigwait, SIGUSR1),
	ROW("read-signalfd", make_signalfd, wait_signalfd, end_signalfd, 1),
	ROW("waitpid", make_child, wait_waitpid, write_byte, 7),
	ROW("waitid", make_child, wait_waitid, write_byte, 7),
	ROW("semop", make_sem, wait_semop, end_sem, 0),
	ROW("semtimedop", make_sem, wait_semtimedop, end_sem, 0),
	ROW("msgrcv", make_msg, wait_msgrcv, end_msgrcv, 1),
	ROW("mq_timedreceive", make_mq, wait_mq, end_mq, 1),
	ROW("flock", make_flock, wait_flock, end_flock, 0),
	ROW("fcntl-lock", make_fcntl, wait_fcntl, end_fcntl, 0),
	ROW("io_getevents", make_aio, wait_aio, end_aio, 1),
	ROW("io_getevents-time", make_aio, wait_aio_hour, end_aio, 1),
	ROW("io_uring_enter", make_uring, wait_uring, leave, 0),
};
const int n_wait_rows = COUNT(wait_rows);
