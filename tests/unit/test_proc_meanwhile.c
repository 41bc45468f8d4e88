/* SPDX-License-Identifier: MIT */
/*
 * While an arena is made, no thread sees a descriptor of ours. It is unmapped while the program goes on: what a thread of
 * the program does meanwhile, at any step, is as if no tracer were there. The main thread sleeps, and is borrowed; the
 * worker obeys.
 */
#include "proc_target.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <ucontext.h>
#include "proc/arena/arena.h"
#include "proc/text/text.h"

enum order { NONE, OPEN, FORK, TAKE, EXEC, EXIT };

/* sh->value: the order. sh->ready: how many were done. sh->result: of the last one. */
static void obey(enum order order)
{
	pid_t pid;

	switch (order) {
	case OPEN:
		sh->result = open("/dev/null", O_RDONLY);
		close(sh->result);
		break;
	case FORK:
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		sh->result = pid;
		break;
	case TAKE:
		sh->result = mmap((void *)sh->extra, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
			     (void *)sh->extra;
		break;
	case EXEC:
		execl("/bin/sleep", "sleep", "1000", NULL);
		break;
	case EXIT:
		exit(7);
	case NONE:
		return;
	}
	sh->value = NONE;
	sh->ready++;
}

static void *work(void *arg)
{
	for (;;) {
		sh->turns[1]++;
		obey(sh->value);
	}
	return NULL;
}

static void worker_and_sleeper(void *arg)
{
	pthread_t t;
	int fds[2];
	char b;

	if (arg)
		((void (*)(void))arg)();
	if (pipe(fds) < 0 || pthread_create(&t, NULL, work, NULL))
		_exit(1);
	for (;;)
		if (read(fds[0], &b, 1) >= 0 || errno == EINTR)
			sh->wrong = __LINE__;
}

static struct target { pid_t pid; struct proc *p; } now;
static const char *at_step;	/* where the order is given */
static enum order order;
static int seen;		/* how often that was */
static bool done, wait_for_end;
static int fds_seen;

static int memfds_of(pid_t pid)
{
	char path[64], link[256];
	int n = 0;

	for (int i = 0; i < 64; i++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		len = readlink(path, link, sizeof(link) - 1);
		link[len < 0 ? 0 : len] = 0;
		n += strstr(link, "memfd:jab") != NULL;
	}
	return n;
}

static bool has_ended(pid_t pid)
{
	struct task_stat s;
	char name[32];

	task_comm(pid, name);
	return task_stat(pid, pid, &s) < 0 || s.state == 'Z' || s.state == 'X' || strcmp(name, "sleep") == 0;
}

static void give_order(const char *step)
{
	uint64_t before = sh->ready, end = now_ns() + PATIENCE_NS;

	if (!at_step || strcmp(step, at_step) != 0)
		return;
	at_step = NULL;		/* once */
	seen++;
	fds_seen += memfds_of(now.pid);
	sh->value = order;
	if (wait_for_end)
		while (!has_ended(now.pid) && now_ns() < end)
			sleep_ns(100000);
	else
		done = wait_until(&sh->ready, before + 1);
}

static void start(void (*first)(void))
{
	fresh_shared();
	seen = fds_seen = 0;
	done = wait_for_end = false;
	at_step = NULL;
	now.pid = start_target(worker_and_sleeper, first);
	assert_true(wait_until(&sh->turns[1], 2));
	wait_state(now.pid, 'S');
	now.p = opened(now.pid);
}

static void finish(void)
{
	proc_step_hook = NULL;
	proc_close(now.p);
	if (now.pid)
		end_target(now.pid);
	assert_int_equal(sh->wrong, 0);
}

static int make_arena(struct arena **ret_arena)
{
	struct piece pieces[] = { { .len = 4096 }, { .len = 4096, .kind = PIECE_PRIVATE }, { .len = 4096 } };

	pieces[2].at = TADDR(sh->extra);
	return arena_create(now.p, pieces, ARRAY_SIZE(pieces), 1, ret_arena);
}

/* At this step of taking an arena out, the worker does something. */
static int take_out(const char *step, enum order what, struct text_report *ret_report)
{
	struct arena *a;
	int r;

	assert_ok(make_arena(&a));
	at_step = step;
	order = what;
	proc_step_hook = give_order;
	r = text_remove(now.p, a, ret_report);
	proc_step_hook = NULL;
	arena_forget(a);
	return r;
}

static size_t threads_of(pid_t pid)
{
	char path[64], status[4096];
	uint64_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	assert_true(file_read(path, status, sizeof(status)) > 0);
	status_field(status, "Threads", 10, &n);
	return n;
}

static bool maps_ours(pid_t pid)
{
	char path[64], *text;
	size_t len;
	bool found;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	text = file_load(path, &len);
	found = text && strstr(text, "memfd:jab");
	free(text);
	return found;
}

static void others_go_on(void **state)
{
	static const char *const steps[] = { "borrow: frame written", "borrow: signals blocked", "remove: piece unmapped" };
	struct text_report report;
	int lowest;

	start(NULL);
	sh->value = OPEN;
	assert_true(wait_until(&sh->ready, 1));
	lowest = sh->result;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		assert_ok(take_out(steps[i], OPEN, &report));
		assert_true(report.verified);
		assert_int_equal(seen, (int)i + 1);
		assert_true(done);
		assert_int_equal(sh->result, lowest);
		assert_int_equal(fds_seen, 0);
		assert_false(maps_ours(now.pid));
	}
	finish();
}

static uint64_t turns_seen;

/* The order can't be obeyed as long as the descriptors are there. */
static void order_and_look(const char *step)
{
	if (memfds_of(now.pid)) {
		fds_seen++;
		sh->value = order;
		sleep_ns(1000000);
		turns_seen += sh->turns[1] != sh->extra;
	}
	if (strcmp(step, "arena: stopped") == 0)
		sh->extra = sh->turns[1];
}

static int make_and_order(enum order what, struct arena **ret_arena)
{
	struct piece pieces[] = { { .len = 4096 }, { .len = 4096, .kind = PIECE_PRIVATE }, { .len = 4096 } };
	int r;

	order = what;
	turns_seen = 0;
	proc_step_hook = order_and_look;
	r = arena_create(now.p, pieces, ARRAY_SIZE(pieces), 1, ret_arena);
	proc_step_hook = NULL;
	return r;
}

/* The frame of a sleeping thread is written before the others are stopped. */
static void look_at_frame(const char *step)
{
	uint64_t before = sh->turns[1], end = now_ns() + 200000000;

	if (strcmp(step, "borrow: frame written") != 0)
		return;
	seen++;
	while (sh->turns[1] == before && now_ns() < end)
		sleep_ns(1000000);
	turns_seen += sh->turns[1] != before;
}

static void make_and_look(void)
{
	struct text_report report;
	struct arena *a;

	seen = 0;
	turns_seen = 0;
	proc_step_hook = look_at_frame;
	assert_ok(make_arena(&a));
	proc_step_hook = NULL;
	assert_int_equal(seen, 1);
	assert_ok(text_remove(now.p, a, &report));
	assert_true(report.verified);
	arena_forget(a);
}

/* On a busy machine the thread may not stop in time, and then all are held first. */
static void others_run_before(void **state)
{
	start(NULL);
	turns_seen = 0;
	for (int i = 0; i < 20 && !turns_seen; i++)
		make_and_look();
	assert_int_equal(turns_seen, 1);
	finish();
}

static ucontext_t on_own, on_other;

static void sleep_there(void)
{
	int fds[2];
	char b;

	if (pipe(fds) < 0)
		_exit(1);
	for (;;)
		if (read(fds[0], &b, 1) >= 0 || errno == EINTR)
			sh->wrong = __LINE__;
}

/* The sleeping thread is on a stack that its program has made: below it there may be another one, in use. */
static void go_to_other_stack(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, work, NULL))
		_exit(1);
	getcontext(&on_other);
	on_other.uc_stack.ss_size = 1 << 20;
	on_other.uc_stack.ss_sp = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	makecontext(&on_other, sleep_there, 0);
	swapcontext(&on_own, &on_other);
}

static void others_wait_for_a_coroutine(void **state)
{
	start(go_to_other_stack);
	make_and_look();
	assert_int_equal(turns_seen, 0);
	finish();
}

static int outside_seen;

/*
 * Others are about to go on because the descriptors were seen to be closed. The thread that closes them does not get to that before we
 * have looked: it has our CPU only, and we are first.
 */
static void look_outside(const char *step)
{
	const struct sched_param first = { .sched_priority = 1 };
	cpu_set_t here;

	if (strcmp(step, "batch: ready") == 0) {
		CPU_ZERO(&here);
		CPU_SET(sched_getcpu(), &here);
		sched_setaffinity(0, sizeof(here), &here);
		sched_setaffinity(proc_borrowed_tid(now.p), sizeof(here), &here);
		sched_setscheduler(0, SCHED_FIFO, &first);
	}
	if (strcmp(step, "batch: seen from outside") != 0)
		return;
	outside_seen++;
	fds_seen += memfds_of(now.pid);
}

#define MANY 256		/* so that the batch takes its time */

static void make_and_look_outside(void)
{
	const struct sched_param usual = { 0 };
	static struct piece pieces[MANY];
	cpu_set_t before;
	struct arena *a;
	int r;

	for (size_t i = 0; i < MANY; i++)
		pieces[i] = (struct piece){ .len = 4096 };
	outside_seen = fds_seen = 0;
	sched_getaffinity(0, sizeof(before), &before);
	proc_step_hook = look_outside;
	r = arena_create(now.p, pieces, MANY, 1, &a);
	proc_step_hook = NULL;
	sched_setscheduler(0, SCHED_OTHER, &usual);
	sched_setaffinity(0, sizeof(before), &before);
	assert_ok(r);
	assert_ok(arena_destroy(a));
}

static void closed_as_seen_from_outside(void **state)
{
	start(NULL);
	for (int i = 0; i < 10; i++) {
		make_and_look_outside();
		assert_int_equal(fds_seen, 0);
	}
	assert_int_equal(memfds_of(now.pid), 0);
	finish();
}

static void *sleep_with_own_table(void *arg)
{
	if (unshare(CLONE_FILES))
		_exit(1);
	sh->turns[1] = 2;
	sleep_there();
	return arg;
}

/* The main thread computes. */
static void own_table(void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, sleep_with_own_table, NULL))
		_exit(1);
	for (;;)
		sh->turns[0]++;
}

/* The main thread's table says nothing of another one. */
static void another_table_of_descriptors(void **state)
{
	fresh_shared();
	now.pid = start_target(own_table, NULL);
	assert_true(wait_until(&sh->turns[1], 2));
	now.p = opened(now.pid);
	for (int i = 0; i < 5; i++) {
		make_and_look_outside();
		assert_int_equal(outside_seen, 0);
	}
	finish();
}

/* Descriptors are made, mapped and closed while no thread runs: none gets another number for it, no child keeps one. */
static void others_wait(void **state)
{
	static const enum order orders[] = { OPEN, FORK };
	struct text_report report;
	struct arena *a;
	uint64_t before;
	int lowest;

	start(NULL);
	sh->value = OPEN;
	assert_true(wait_until(&sh->ready, 1));
	lowest = sh->result;
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		before = sh->ready;
		assert_ok(make_and_order(orders[i], &a));
		assert_true(fds_seen > 4);
		assert_int_equal(turns_seen, 0);
		assert_true(wait_until(&sh->ready, before + 1));
		if (orders[i] == OPEN)
			assert_int_equal(sh->result, lowest);
		else
			assert_int_equal(memfds_of(sh->result), 0);
		assert_ok(text_remove(now.p, a, &report));
		assert_int_equal(report.processes, orders[i] == OPEN ? 1 : 2);
		assert_true(report.verified);
		arena_forget(a);
	}
	finish();
}

/* The child has some of the mappings, and no descriptor. They go as its parent's do. */
static void forks_meanwhile(void **state)
{
	struct text_report report;

	start(NULL);
	assert_ok(take_out("remove: piece unmapped", FORK, &report));
	assert_int_equal(seen, 1);
	assert_true(sh->result > 0);
	assert_true(report.verified);
	assert_int_equal(report.processes, 2);
	assert_false(maps_ours(sh->result) || maps_ours(now.pid));
	finish();
}

/* A place is taken: nothing stays, and no descriptor is closed twice. */
static void made_in_vain(void **state)
{
	struct piece pieces[] = { { .len = 4096 }, { .len = 4096, .kind = PIECE_PRIVATE }, { .len = 4096 } };
	gap_list gaps = { 0 };
	struct arena *a = NULL;

	start(NULL);
	assert_ok(proc_gaps(now.p, &gaps));
	sh->extra = gaps.v[gaps.n - 1].hi - (1 << 20);
	pieces[2].at = TADDR(sh->extra);
	vec_free(&gaps);
	sh->value = TAKE;
	assert_true(wait_until(&sh->ready, 1));
	assert_int_equal(arena_create(now.p, pieces, ARRAY_SIZE(pieces), 1, &a), -EEXIST);
	assert_non_null(strstr(err_text(), "keeps mapping memory"));
	assert_false(maps_ours(now.pid));
	assert_int_equal(memfds_of(now.pid), 0);
	finish();
}

static void executes_meanwhile(void **state)
{
	struct text_report report;
	char name[32];

	start(NULL);
	wait_for_end = true;
	assert_ok(take_out("remove: piece unmapped", EXEC, &report));
	assert_true(report.gone);
	assert_int_equal(seen, 1);
	proc_close(now.p);
	now.p = NULL;
	wait_state(now.pid, 'S');
	task_comm(now.pid, name);
	assert_string_equal(name, "sleep");
	assert_int_equal(threads_of(now.pid), 1);
	finish();
}

static void ends_meanwhile(void **state)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct text_report report;
	int status = -1;

	start(NULL);
	now.p->started_by_us = true;	/* so that its status is kept, wherever it is collected */
	wait_for_end = true;
	assert_ok(take_out("remove: piece unmapped", EXIT, &report));
	assert_true(report.gone);
	while (proc_child_ended(now.p, &status) == 0 && now_ns() < end)
		sleep_ns(100000);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	now.pid = 0;
	finish();
}

static const char *stop_at;

static void send_stop(const char *step)
{
	if (strcmp(step, stop_at) == 0)
		kill(now.pid, SIGSTOP);
}

/* It stands still in the end, because somebody wants it so. */
static void is_stopped_meanwhile(void **state)
{
	static const char *const steps[] = { "borrow: frame written", "arena: memfd made", "arena: record mapped" };
	struct piece piece = { .len = 4096 };
	struct arena *a;

	start(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		stop_at = steps[i];
		proc_step_hook = send_stop;
		assert_ok(arena_create(now.p, &piece, 1, 1, &a));
		proc_step_hook = NULL;
		wait_state(now.pid, 'T');
		assert_ok(arena_destroy(a));
		kill(now.pid, SIGCONT);
		assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
	}
	finish();
}

static pid_t borrowed_now;

static void stop_before_batch(const char *step)
{
	siginfo_t there = { 0 };

	if (strcmp(step, "batch: ready") == 0) {
		borrowed_now = proc_borrowed_tid(now.p);
		kill(now.pid, SIGSTOP);
	}
	while (strcmp(step, "batch: running") == 0 && !there.si_pid)
		waitid(P_PID, borrowed_now, &there, WSTOPPED | WNOWAIT | __WALL);
}

static void sleep_alone(void *arg)
{
	for (;;)
		pause();
}

/* A batch that finds its thread stopped by somebody else's signal goes on from there. */
static void batch_is_stopped(void **state)
{
	struct piece piece = { .len = 4096 };
	struct arena *a;

	for (int alone = 0; alone < 2; alone++) {
		if (alone) {
			fresh_shared();
			now.pid = start_target(sleep_alone, NULL);
			wait_state(now.pid, 'S');
			now.p = opened(now.pid);
		} else {
			start(NULL);
		}
		proc_step_hook = stop_before_batch;
		assert_ok(arena_create(now.p, &piece, 1, 1, &a));
		wait_state(now.pid, 'T');
		proc_step_hook = NULL;
		assert_ok(arena_destroy(a));
		finish();
	}
}

static void filter_all(void)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { 1, allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(1);
}

/* Should we die, the filter would judge what is left of the table. */
static void under_a_filter(void **state)
{
	struct piece piece = { .len = 4096 };
	struct arena *a;

	if (geteuid() != 0)
		skip();
	start(filter_all);
	assert_ok(arena_create(now.p, &piece, 1, 1, &a));
	assert_ok(arena_destroy(a));
	assert_false(maps_ours(now.pid));
	finish();
}

static void become_nobody(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) || prctl(PR_SET_DUMPABLE, 1))
		_exit(1);
}

static void leave_namespace(void)
{
	if (unshare(CLONE_NEWIPC))
		_exit(1);
}

/* Another user's, and one in another namespace. */
static void for_others(void **state)
{
	void (*const first[])(void) = { become_nobody, leave_namespace };
	struct piece piece = { .len = 4096 };
	struct arena *a;

	if (geteuid() != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		start(first[i]);
		assert_ok(arena_create(now.p, &piece, 1, 1, &a));
		assert_ok(arena_destroy(a));
		assert_false(maps_ours(now.pid));
		finish();
	}
}

/* Stacks in the middle of other memory: nobody runs while something is written below them. */
static void on_other_stack(void *arg)
{
	uint8_t *heap = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	__asm__ volatile("mov %0, %%rsp\n\tcall *%1" :: "r"(heap + (1 << 19)), "r"(count_turns), "D"(arg) : "memory");
}

static void *other_stack(void *arg)
{
	on_other_stack(arg);
	return NULL;
}

static void two_other_stacks(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, other_stack, (void *)1);
	on_other_stack(NULL);
}

static void strange_stacks(void **state)
{
	struct piece piece = { .len = 4096 };
	struct arena *a;

	fresh_shared();
	now.pid = start_target(two_other_stacks, NULL);
	assert_true(wait_until(&sh->turns[0], 2) && wait_until(&sh->turns[1], 2));
	now.p = opened(now.pid);
	assert_ok(proc_read_maps(now.p));
	assert_ok(proc_stop(now.p));
	assert_false(threads_let_others_go(now.p));
	assert_int_equal(stopped_threads(now.p), 2);
	assert_ok(proc_resume(now.p));
	assert_ok(arena_create(now.p, &piece, 1, 1, &a));
	assert_ok(arena_destroy(a));
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_go_on),
		cmocka_unit_test(others_wait),
		cmocka_unit_test(closed_as_seen_from_outside),
		cmocka_unit_test(another_table_of_descriptors),
		cmocka_unit_test(others_run_before),
		cmocka_unit_test(others_wait_for_a_coroutine),
		cmocka_unit_test(forks_meanwhile),
		cmocka_unit_test(made_in_vain),
		cmocka_unit_test(executes_meanwhile),
		cmocka_unit_test(ends_meanwhile),
		cmocka_unit_test(is_stopped_meanwhile),
		cmocka_unit_test(batch_is_stopped),
		cmocka_unit_test(under_a_filter),
		cmocka_unit_test(for_others),
		cmocka_unit_test(strange_stacks),
	};

	return cmocka_run_group_tests_name("meanwhile", tests, NULL, NULL);
}
