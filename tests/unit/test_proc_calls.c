/* SPDX-License-Identifier: MIT */
/*
 * A program that sleeps in a system call must not notice that it was stopped, borrowed and let go a
 * hundred times: no EINTR, no early return, and in the end the right result. One row is one call.
 */
#include "sleeping_calls.h"

#define ROUNDS 100

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

struct job { const struct row *row; struct kit *kit; bool two; };

static void *second_thread(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* No signal is for it. */
static void start_second(void)
{
	sigset_t all, before;
	pthread_t t;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (pthread_create(&t, NULL, second_thread, NULL))
		_exit(1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void sleeper(void *arg)
{
	struct job *j = arg;
	uint64_t t;
	long r;

	sh = j->kit->sh;
	if (j->two)
		start_second();
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
	if (!row->wake && (k->sh->elapsed < LONG_MS * 1000000ull || k->sh->elapsed > LONG_MS * 10000000ull + rounds_ns / 2))
		fail_msg("%s took %ld ms, not %d", row->name, (long)(k->sh->elapsed / 1000000), LONG_MS);
}

#define N ARRAY_SIZE(rows)

static struct kit kits[N];

static size_t early_ones;

/*
 * With two threads one that sleeps is borrowed before the other one is stopped, and may not be needed then. It may not be asleep
 * again after the last round.
 */
static void early_round(struct proc *p, bool needed)
{
	uint64_t args[6] = { 0 };
	int64_t value;

	assert_ok(proc_stop_to_borrow(p));
	early_ones += proc_borrowed_tid(p) == p->pid;
	if (needed) {
		assert_ok(proc_syscall(p, SYS_getpid, args, &value));
		assert_int_equal(value, p->pid);
	}
	assert_ok(proc_resume(p));
}

/* All sleep at the same time: so the test takes as long as the slowest. */
static void nothing_is_noticed(void **state)
{
	bool borrow = *state != NULL, early = borrow && !strcmp(*state, "early");
	struct proc *procs[N] = { NULL };
	struct job jobs[N];
	size_t i, round;

	for (i = 0; i < N; i++) {
		make_kit(&kits[i], i);
		jobs[i] = (struct job){ &rows[i], &kits[i], early };
		if (is_usable(&rows[i], &kits[i]))
			kits[i].child = start_target(sleeper, &jobs[i]);
	}
	for (i = 0; i < N; i++)
		if (kits[i].child) {
			assert_true(wait_until(&kits[i].sh->ready, 1));
			wait_state(kits[i].child, 'S');
			procs[i] = opened(kits[i].child);
			assert_ok(proc_read_maps(procs[i]));
		}
	rounds_ns = now_ns();
	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < N; i++) {
			if (!procs[i])
				continue;
			if (early) {
				early_round(procs[i], round & 1);
				continue;
			}
			if (borrow) {
				one_round(procs[i]);
				continue;
			}
			assert_ok(proc_stop(procs[i]));
			assert_ok(proc_resume(procs[i]));
		}
	rounds_ns = now_ns() - rounds_ns;
	if (early)
		assert_true(early_ones > ROUNDS * N / 4);
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
			struct job job = { row, k, false };
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

/*
 * A signal that is there before we are: the call is interrupted already, and stays so if we die before anything was given
 * back. The target is held by SIGSTOP meanwhile, so that the signal waits.
 */
static void interrupted_before_we_came(void **state)
{
	static const struct row row = { "epoll_wait", c_epoll_wait, send_usr1, -EINTR };
	struct kit *k = &kits[0];
	struct job job = { &row, k, false };
	struct proc *p;
	int status;
	pid_t us;

	make_kit(k, 0);
	k->child = start_target(sleeper_with_handler, &job);
	assert_true(wait_until(&k->sh->ready, 1));
	wait_state(k->child, 'S');
	kill(k->child, SIGSTOP);
	wait_state(k->child, 'T');
	send_usr1(k);
	us = fork();
	if (!us) {
		if (proc_open(k->child, &p) == 0 && proc_stop(p) == 0)
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(us, &status, 0), us);
	assert_true(WIFSIGNALED(status));
	kill(k->child, SIGCONT);
	if (!wait_until(&k->sh->stop, 1))
		fail_msg("%s did not return", row.name);
	assert_int_equal(k->sh->result, row.want);
	assert_int_equal(k->sh->extra, 1);
	end_target(k->child);
	free_kit(k);
}

/* A signal that the program ignores is queued for a traced thread, but it is no interruption. */
static void ignored_signals_do_not(void **state)
{
	static const struct row row = { "epoll_wait", c_epoll_wait, write_pipe, 1 };
	struct kit *k = &kits[0];
	struct job job = { &row, k, false };
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
		{ "nothing_is_noticed_of_an_early_stop", nothing_is_noticed, NULL, NULL, "early" },
		cmocka_unit_test(signals_do_interrupt),
		cmocka_unit_test(interrupted_before_we_came),
		cmocka_unit_test(ignored_signals_do_not),
	};

	return cmocka_run_group_tests_name("interrupted calls", tests, NULL, NULL);
}
