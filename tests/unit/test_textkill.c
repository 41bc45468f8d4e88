/* SPDX-License-Identifier: MIT */
/*
 * A tracer killed by SIGKILL after each of its steps, while it puts a jump in and takes it out again.
 * The target must go on with right results, and recovery by another process must leave it as it was.
 */
#include "text_target.h"

static int steps_left;
static int repeat = 1;	/* deaths at each step, of each of five targets; $JAB_ROUNDS for more */

static void die_at_step(const char *step)
{
	if (steps_left-- == 0)
		kill(getpid(), SIGKILL);
}

static void make_fork(struct control *c)
{
	c->answer = 0;
	c->release = 1;
	while (!c->answer)
		usleep(100);
}

/* A tracer of its own that dies at a step. Exit status 0: there were not so many steps. */
static void tracer_main(pid_t target, int die_at, struct control *fork_in)
{
	struct text_report rep;
	struct rig r;

	steps_left = die_at;
	proc_step_hook = die_at_step;
	if (rig_open(&r, target, 10) < 0)
		_exit(3);
	add_hot(&r);
	add_site(&r, stay, 5, 3, 1);
	if (text_apply(r.p, r.a, &r.patch) < 0)
		_exit(4);
	if (fork_in)
		make_fork(fork_in);
	if (text_remove(r.p, r.a, &rep) < 0 || !rep.verified)
		_exit(5);
	rig_close(&r);
	_exit(0);
}

static int run_tracer(pid_t target, int die_at, struct control *fork_in)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		tracer_main(target, die_at, fork_in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status))
		print_error("tracer ended with %d, to die at step %d\n", WEXITSTATUS(status), die_at);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return status;
}

static void recover(pid_t pid)
{
	struct text_report rep;
	int r = text_recover(pid, &rep);

	if (r == -ENOENT)
		return;
	must(r);
	assert_true(rep.verified);
	assert_false(rep.arena_left);
	assert_int_equal(rep.foreign, 0);
}

/*
 * A thread that was about to make a borrowed call when the tracer died makes it when it next runs;
 * on a busy machine that may be after the first look.
 */
static void recover_to(pid_t pid, const struct look *before)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;

	for (;;) {
		recover(pid);
		if (is_same(pid, before) || now_ns() > deadline)
			break;
		usleep(1000);
	}
	assert_same(pid, before);
}

static void kill_at_each_step(void (*body)(struct control *), int slot)
{
	struct control *c = control_new();
	pid_t pid = target_start(body, c);
	int step, i, status, ended = 0, killed = 0;
	struct look before;

	c->gentle = 1;
	before = look_at(pid);
	for (step = 0; !ended; step++)
		for (i = 0; i < repeat; i++) {
			status = run_tracer(pid, step, NULL);
			ended += WIFEXITED(status);
			killed += WIFSIGNALED(status);
			assert_works(c, slot);
			recover_to(pid, &before);
			assert_works(c, slot);
		}
	print_message("%d steps, %d deaths\n", step, killed);
	assert_true(step > 40);
	look_free(&before);
	target_end(pid, c);
}

static void test_kill_one_thread(void **state)
{
	kill_at_each_step(body_spin1, 0);
}

static void test_kill_four_threads(void **state)
{
	kill_at_each_step(body_spin4, 3);
}

static void test_kill_blocked(void **state)
{
	kill_at_each_step(body_blocked, 1);
}

/* Whoever of these two is found by looking at all processes is recovered. */
static void recover_found(pid_t a, pid_t b)
{
	pid_list left = { 0 };
	size_t i;

	must(text_find_left(&left));
	for (i = 0; i < left.n; i++)
		if (left.v[i] == a || left.v[i] == b)
			recover(left.v[i]);
	vec_free(&left);
}

static void test_kill_forked(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_forker, c);
	int step, i, status, ended = 0, killed = 0;
	struct look before = look_at(pid), child;

	c->gentle = 1;
	for (step = 0; !ended; step++)
		for (i = 0; i < repeat; i++) {
			c->answer = 0;
			status = run_tracer(pid, step, c);
			ended += WIFEXITED(status);
			killed += WIFSIGNALED(status);
			assert_works(c, 0);
			recover_found(pid, c->answer);
			assert_works(c, 0);
			recover_to(pid, &before);
			if (!c->answer)
				continue;
			assert_works(c, 1);
			child = look_at(c->answer);
			assert_string_equal(child.maps, before.maps);
			assert_null(strstr(child.fds, "jab-"));
			assert_memory_equal(child.text, before.text, look_len);
			look_free(&child);
			kill(c->answer, SIGKILL);
		}
	print_message("%d steps, %d deaths\n", step, killed);
	assert_true(step > 40);
	look_free(&before);
	target_end(pid, c);
}

/* The thread is inside the window whenever the tracer dies: in the text or in the pad, never lost. */
static void test_kill_inside(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_stay, c);
	int step, i, status, ended = 0;
	struct look before = look_at(pid);

	for (step = 0; !ended; step++)
		for (i = 0; i < repeat; i++) {
			status = run_tracer(pid, step, NULL);
			ended += WIFEXITED(status);
			usleep(200);
			recover_to(pid, &before);
			/* A thread that was borrowed may still be on its own way back. */
			wait_for_pc(pid, (char *)stay + 3);
		}
	assert_true(step > 40);
	look_free(&before);
	target_end(pid, c);
}

/* Living tracer, nothing there, and what the target may have made of the record. */
static void test_refusals(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_spin1, c), tracer;
	struct look before = look_at(pid);
	struct text_report rep;
	struct rig r;
	char who[32];

	assert_int_equal(text_recover(pid, &rep), -ENOENT);
	must(rig_open(&r, pid, 10));
	assert_int_equal(text_recover(pid, &rep), -EBUSY);
	snprintf(who, sizeof(who), "jab %d", getpid());
	assert_non_null(strstr(err_text(), who));
	must(text_remove(r.p, r.a, &rep));
	rig_close(&r);
	assert_same(pid, &before);

	tracer = fork();
	if (!tracer) {
		struct piece data = { .len = 4096 };

		if (proc_open(pid, &r.p) < 0 || arena_create(r.p, &data, 1, 1, &r.a) < 0)
			_exit(3);
		memset(r.a->head, 0, sizeof(*r.a->head));	/* as if nothing had been written yet */
		_exit(0);
	}
	waitpid(tracer, NULL, 0);
	recover(pid);
	assert_same(pid, &before);

	tracer = fork();
	if (!tracer) {
		if (rig_open(&r, pid, 10) < 0)
			_exit(3);
		add_hot(&r);
		if (text_apply(r.p, r.a, &r.patch) < 0)
			_exit(4);
		r.a->head->n_edits = 1000;
		_exit(0);
	}
	waitpid(tracer, NULL, 0);
	assert_int_equal(text_recover(pid, &rep), -EBADMSG);
	assert_works(c, 0);
	look_free(&before);
	target_end(pid, c);
}

int main(void)
{
	const char *rounds = getenv("JAB_ROUNDS");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_kill_one_thread),
		cmocka_unit_test(test_kill_four_threads),
		cmocka_unit_test(test_kill_blocked),
		cmocka_unit_test(test_kill_forked),
		cmocka_unit_test(test_kill_inside),
	};

	if (rounds)
		repeat = MAX(atoi(rounds), 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
