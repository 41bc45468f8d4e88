/* SPDX-License-Identifier: MIT */
/*
 * One thread in each blocking system call. None of them gets a signal and nothing they wait for
 * happens until the end, so a call that returns earlier, or with EINTR, was disturbed.
 *
 * Each row (blocking_fds.c, blocking_waits.c) has a call that waits and a way to end it properly.
 * Rows of a second kind (blocking_short.c) wait for a short time-out again and again: the result
 * must be the time-out's and never early (late is fine: a relative time-out may begin anew after
 * a stop).
 *
 * After "stop" every waiting call is ended by its own event and must return what the event says.
 * "list" answers with the names of the rows, a "!" in front of those this kernel does not have.
 */
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include "blocking.h"

static volatile int ending;
static char dir[] = "/tmp/jab-blocking-XXXXXX";

char *in_dir(const char *name)
{
	static __thread char path[100];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

void leave(struct row *r)
{
}

static void *wait_thread(void *arg)
{
	struct row *r = arg;

	__atomic_store_n(&r->waiting, 1, __ATOMIC_SEQ_CST);
	r->result = r->wait(r);
	if (!ending)
		bad("%s returned %ld%s though nothing happened", r->name, r->result,
		    r->result == -EINTR ? " (EINTR)" : "");
	__atomic_store_n(&r->returned, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* The kernel may round a time-out to its ticks: a millisecond early is the call's own doing. */
static void *short_thread(void *arg)
{
	struct row *r = arg;

	while (!ending) {
		uint64_t from = now_ns(), took;
		long got = r->wait(r);

		took = now_ns() - from;
		if (got != r->want)
			bad("%s returned %ld instead of %ld", r->name, got, r->want);
		if (took + 1000000 < SHORT_MS * 1000000ull)
			bad("%s returned after %lu us", r->name, (unsigned long)(took / 1000));
	}
	return NULL;
}

static void start(struct row *r, int n, void *(*body)(void *))
{
	for (; n--; r++) {
		r->absent = r->prepare(r) != 0;
		if (!r->absent && pthread_create(&r->thread, NULL, body, r))
			exit(4);
	}
}

/* Every thread is about to make its call; a little later it is in it. */
static void settle(struct row *r, int n)
{
	for (; n--; r++)
		while (!r->absent && !__atomic_load_n(&r->waiting, __ATOMIC_SEQ_CST))
			usleep(1000);
	usleep(100000);
}

static void end_all(struct row *r, int n)
{
	for (; n--; r++)
		if (!r->absent)
			r->end(r);
}

static void collect(struct row *r, int n)
{
	uint64_t limit = now_ns() + 60000000000ull;

	for (; n--; r++) {
		if (r->absent || r->end == leave)
			continue;
		while (!__atomic_load_n(&r->returned, __ATOMIC_SEQ_CST) && now_ns() < limit)
			usleep(1000);
		if (!r->returned)
			bad("%s did not return at its event", r->name);
		else if (r->result != r->want)
			bad("%s returned %ld instead of %ld at its event", r->name, r->result, r->want);
	}
}

static void clean_up(struct row *r, int n)
{
	for (; n--; r++) {
		if (!r->absent && r->prepare == make_sem)
			semctl(r->id, 0, IPC_RMID);
		if (!r->absent && r->prepare == make_msg)
			msgctl(r->id, IPC_RMID, NULL);
		unlink(in_dir(r->name));
	}
}

static void no_run(long n)
{
}

static void print_names(struct row *r, int n)
{
	for (; n--; r++)
		printf("%s%s ", r->absent ? "!" : "", r->name);
}

static int list(const char *line)
{
	if (strcmp(line, "list"))
		return 1;
	print_names(fd_rows, n_fd_rows);
	print_names(wait_rows, n_wait_rows);
	print_names(short_rows, n_short_rows);
	say("");
	return 0;
}

static void finish(void)
{
	ending = 1;
	end_all(fd_rows, n_fd_rows);
	end_all(wait_rows, n_wait_rows);
	collect(fd_rows, n_fd_rows);
	collect(wait_rows, n_wait_rows);
	for (int i = 0; i < n_short_rows; i++)
		if (!short_rows[i].absent)
			pthread_join(short_rows[i].thread, NULL);
	clean_up(fd_rows, n_fd_rows);
	clean_up(wait_rows, n_wait_rows);
	clean_up(short_rows, n_short_rows);
	unlink(in_dir("fifo"));
	rmdir(in_dir("seen/it"));
	rmdir(in_dir("seen"));
	rmdir(dir);
}

int main(void)
{
	sigset_t s;

	sigemptyset(&s);
	sigaddset(&s, SIGUSR1);
	sigaddset(&s, SIGUSR2);
	sigprocmask(SIG_BLOCK, &s, NULL);
	if (!mkdtemp(dir))
		return 4;
	start(fd_rows, n_fd_rows, wait_thread);
	start(wait_rows, n_wait_rows, wait_thread);
	start(short_rows, n_short_rows, short_thread);
	settle(fd_rows, n_fd_rows);
	settle(wait_rows, n_wait_rows);
	serve(no_run, list);
	finish();
	verdict();
	_exit(bad_why[0] ? 3 : 0);
}
