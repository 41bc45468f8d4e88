/* SPDX-License-Identifier: MIT */
/*
 * A tracer killed by SIGKILL after each of its steps, while it puts a jump in and takes it out again.
 * The target must go on with right results, and recovery by another process must leave it as it was.
 */
#include "text_target.h"

static int steps_left, calls_left;
static int repeat = 1;	/* deaths at each step, of each of five targets; $JAB_ROUNDS for more */
static uint64_t end_ns;	/* $JAB_SECONDS: then no further step is begun; 0: all of them */
static uint64_t share_ns;	/* of each test */
static int first_step;	/* with an end: somewhere, so that all have their turn some day */

static bool is_over(void)
{
	return end_ns && now_ns() > end_ns;
}

/* A test begins. */
static int begin_steps(void)
{
	if (!share_ns)
		return 0;
	end_ns = now_ns() + share_ns;
	return first_step;
}

static void die_at_step(const char *step)
{
	if (steps_left-- == 0)
		kill(getpid(), SIGKILL);
}

/* Between the exchange of a borrowed call and its start, or before a whole table of calls. */
static void die_at_call(const char *step)
{
	if (strcmp(step, "borrow: call exchanged") == 0 || strcmp(step, "batch: ready") == 0)
		if (calls_left-- == 0)
			kill(getpid(), SIGKILL);
}

static void make_fork(struct control *c)
{
	c->answer = 0;
	c->release = 1;
	while (!c->answer)
		usleep(100);
}

/* Its end as a child. cmocka is not asked, for it can't report from here. */
static void must_here(int r, int status)
{
	if (r >= 0)
		return;
	fprintf(stderr, "the tracer: %s\n", err_text());
	_exit(status);
}

/* Semaphores as the target has them: one that nobody else has raised, one that others have. */
static volatile uint16_t semaphores[2] = { 0, 5 };

static void add_semaphore(struct rig *r, int which, uint64_t site)
{
	*vec_add(&r->patch.semaphores) = (struct semaphore){ .at = TADDR((uint64_t)&semaphores[which]), .edit = TADDR(site) };
}

/* Lowered as often as they were raised, whenever the tracer has died. */
static void assert_lowered(pid_t pid)
{
	uint16_t now[2] = { 77, 77 };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, now, sizeof(now), (off_t)(uint64_t)semaphores), sizeof(now));
	close(fd);
	assert_int_equal(now[0], 0);
	assert_int_equal(now[1], 5);
}

/* A tracer of its own that dies at a step. Exit status 0: there were not so many steps. */
static void tracer_main(pid_t target, void (*hook)(const char *), struct control *fork_in)
{
	struct text_report rep;
	struct rig r;

	proc_step_hook = hook;
	must_here(rig_open(&r, target, 10), 3);
	add_hot(&r);
	add_site(&r, stay, 5, 3, 1);
	add_semaphore(&r, 0, (uint64_t)hot);
	add_semaphore(&r, 1, (uint64_t)stay);
	must_here(patiently(text_apply(r.p, r.a, &r.patch)), 4);
	if (fork_in)
		make_fork(fork_in);
	must_here(patiently(text_remove(r.p, r.a, &rep)), 5);
	if (!rep.verified)
		_exit(6);
	rig_close(&r);
	_exit(0);
}

static int run_tracer(pid_t target, int die_at, void (*hook)(const char *), struct control *fork_in)
{
	int status;
	pid_t pid;

	steps_left = calls_left = die_at;
	fflush(NULL);
	pid = fork();
	if (!pid)
		tracer_main(target, hook, fork_in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status))
		print_error("tracer ended with %d, to die at step %d\n", WEXITSTATUS(status), die_at);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return status;
}

static void recover(pid_t pid)
{
	struct text_report rep;
	int r = patiently(text_recover(pid, &rep));

	if (r == -ENOENT)
		return;
	must(r);
	assert_true(rep.verified);
	assert_false(rep.arena_left);
	assert_int_equal(rep.foreign, 0);
}

static void recover_to(pid_t pid, const struct look *before)
{
	recover(pid);
	assert_same(pid, before);
	assert_lowered(pid);
}

static void kill_at_each_step(void (*body)(struct control *), int slot)
{
	struct control *c = control_new();
	pid_t pid = target_start(body, c);
	int step, i, status, ended = 0, killed = 0;
	struct look before;

	c->gentle = 1;
	before = look_at(pid);
	for (step = begin_steps(); !ended && !is_over(); step++)
		for (i = 0; i < repeat; i++) {
			status = run_tracer(pid, step, die_at_step, NULL);
			ended += WIFEXITED(status);
			killed += WIFSIGNALED(status);
			assert_works(c, slot);
			recover_to(pid, &before);
			assert_works(c, slot);
		}
	print_message("%d steps, %d deaths\n", step, killed);
	assert_true(step > 40 || is_over());
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

/* Threads that leave no CPU to the main one, which has less right to it and sits in a system call. */
static void body_crowded(struct control *c)
{
	int fd[2];
	char byte;

	start_threads(c, 4);
	setpriority(PRIO_PROCESS, 0, 19);
	if (pipe(fd) < 0)
		_exit(9);
	c->ready = READY;
	if (read(fd[0], &byte, 1) >= 0 || errno != EBADF)
		c->wrong = 1;
	_exit(9);
}

/*
 * The borrowed thread has not had its turn when recovery begins: it is still to make the call that its
 * dead tracer wanted. Nothing may come after recovery has said that all is well.
 */
static void test_late_calls(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_crowded, c);
	struct look before = look_at(pid);
	int call, i, status, ended = 0;

	for (call = share_ns ? begin_steps() % 5 : 0; !ended && !is_over(); call++)
		for (i = 0; i < 2 * repeat && !ended; i++) {
			status = run_tracer(pid, call, die_at_call, NULL);
			ended = WIFEXITED(status);
			recover_to(pid, &before);
			usleep(2000);
			assert_same(pid, &before);
		}
	assert_true(call > 5 || is_over());
	assert_works(c, 1);
	look_free(&before);
	target_end(pid, c);
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
	for (step = begin_steps(); !ended && !is_over(); step++)
		for (i = 0; i < repeat; i++) {
			c->answer = 0;
			status = run_tracer(pid, step, die_at_step, c);
			ended += WIFEXITED(status);
			killed += WIFSIGNALED(status);
			assert_works(c, 0);
			recover_found(pid, c->answer);
			assert_works(c, 0);
			recover_to(pid, &before);
			if (!c->answer)
				continue;
			assert_works(c, 1);
			assert_lowered(c->answer);
			child = look_at(c->answer);
			assert_string_equal(child.maps, before.maps);
			assert_null(strstr(child.fds, "jab-"));
			assert_memory_equal(child.text, before.text, look_len);
			look_free(&child);
			kill(c->answer, SIGKILL);
		}
	print_message("%d steps, %d deaths\n", step, killed);
	assert_true(step > 40 || is_over());
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

	for (step = begin_steps(); !ended && !is_over(); step++)
		for (i = 0; i < repeat; i++) {
			status = run_tracer(pid, step, die_at_step, NULL);
			ended += WIFEXITED(status);
			usleep(200);
			recover_to(pid, &before);
			/* A thread that was borrowed may still be on its own way back. */
			wait_for_pc(pid, (char *)stay + 3);
		}
	assert_true(step > 40 || is_over());
	look_free(&before);
	target_end(pid, c);
}

/* As if nothing had been written yet. */
static void recover_without_record(pid_t pid)
{
	struct piece data = { .len = 4096 };
	pid_t tracer = fork();
	struct arena *a;
	struct proc *p;

	if (!tracer) {
		if (proc_open(pid, &p) < 0 || arena_create(p, &data, 1, 1, &a) < 0)
			_exit(3);
		memset(a->view, 0, sizeof(struct undo_head));
		_exit(0);
	}
	waitpid(tracer, NULL, 0);
	recover(pid);
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

	recover_without_record(pid);
	assert_same(pid, &before);

	tracer = fork();
	if (!tracer) {
		if (rig_open(&r, pid, 10) < 0)
			_exit(3);
		add_hot(&r);
		if (text_apply(r.p, r.a, &r.patch) < 0)
			_exit(4);
		r.a->book.shared->n_edits = 1000;
		_exit(0);
	}
	waitpid(tracer, NULL, 0);
	assert_int_equal(text_recover(pid, &rep), -EBADMSG);
	snprintf(who, sizeof(who), "process %d: ", pid);
	assert_non_null(strstr(err_text(), who));
	assert_works(c, 0);
	look_free(&before);
	target_end(pid, c);
}

int main(void)
{
	const char *rounds = getenv("JAB_ROUNDS"), *seconds = getenv("JAB_SECONDS");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_kill_one_thread),
		cmocka_unit_test(test_kill_four_threads),
		cmocka_unit_test(test_kill_blocked),
		cmocka_unit_test(test_late_calls),
		cmocka_unit_test(test_kill_forked),
		cmocka_unit_test(test_kill_inside),
	};

	if (rounds)
		repeat = MAX(atoi(rounds), 1);
	if (seconds) {
		share_ns = strtod(seconds, NULL) * 1e9 / (ARRAY_SIZE(tests) - 1);
		first_step = now_ns() / 1000 % 40;
		print_message("from step %d on\n", first_step);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
