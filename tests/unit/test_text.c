/* SPDX-License-Identifier: MIT */
/* Arenas, and text that is changed and put back, in targets that go on working meanwhile. */
#include <sched.h>
#include <sys/resource.h>
#include "text_target.h"

/* Bit 61 of a pagemap entry: a page of a file, not a private copy. */
static bool is_file_page(pid_t pid, const void *at)
{
	uint64_t e = 0;
	char path[64];
	int fd;

	text_byte(pid, at);	/* so that it is present */
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, &e, 8, (uintptr_t)at / 4096 * 8), 8);
	close(fd);
	return e >> 61 & 1;
}

/* Put in, count, take out: maps, descriptors, signals and text are as before, and the copies are gone. */
static void test_there_and_back(void **state)
{
	struct scene s;

	scene_open(&s, body_spin4);
	assert_works(s.c, 0);
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	assert_int_equal(text_byte(s.pid, hot), 0xe9);
	assert_works(s.c, 0);
	assert_works(s.c, 3);
	assert_true(*rig_counter(&s.r, 0) > 0);
	assert_false(is_file_page(s.pid, hot));
	remove_clean(&s);
	assert_int_equal(s.rep.restored, 1);
	assert_int_equal(s.rep.processes, 1);
	assert_int_equal(s.rep.pages_kept, 0);
	assert_true(is_file_page(s.pid, hot));
	assert_works(s.c, 0);
	scene_close(&s);
}

/* The arena as the target has it: never writable and executable, not in core dumps. */
static void test_arena_properties(void **state)
{
	char path[64], *smaps, *at;
	int pieces = 0, dumped = 0;
	struct scene s;

	scene_open(&s, body_spin1);
	assert_int_equal(s.r.a->fd, -1);	/* nothing that could be opened through us */
	assert_int_equal(s.r.a->data_fd, -1);
	assert_ptr_equal(arena_view(s.r.a, s.r.pieces[0].at), s.r.pieces[0].here);
	assert_ptr_equal(arena_view(s.r.a, TADDR(s.r.pieces[1].at.v + 8191)), s.r.pieces[1].here + 8191);
	assert_null(arena_view(s.r.a, TADDR(s.r.pieces[1].at.v + 8192)));
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	snprintf(path, sizeof(path), "/proc/%d/smaps", s.pid);
	smaps = slurp(path);
	assert_null(strstr(smaps, " rwx"));
	for (at = smaps; (at = strstr(at, ARENA_PATH)); at++) {
		char *flags = strstr(at, "VmFlags:");

		pieces++;
		dumped += !flags || !strstr(flags, " dd") || strstr(flags, " dd") > strchr(flags, '\n');
	}
	free(smaps);
	assert_int_equal(pieces, 7);	/* record, desk, code, data, table, and the ring twice */
	assert_int_equal(dumped, 0);
	remove_clean(&s);
	scene_close(&s);
}

/* Whatever fails, nothing stays: here a piece that is in the way of the program. */
static void test_arena_refused(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_spin1, c);
	struct look before = look_at(pid);
	struct piece pieces[2] = { { .len = 4096 }, { .len = 4096, .kind = PIECE_CODE } };
	struct arena *a = NULL;
	struct proc *p;

	must(proc_open(pid, &p));
	pieces[1].at = TADDR((uintptr_t)hot);
	assert_int_equal(arena_create(p, pieces, 2, 1, &a), -EEXIST);
	assert_same(pid, &before);
	pieces[1].at = TADDR(place_near(p, 8192).v + 1);
	assert_int_equal(arena_create(p, pieces, 2, 1, &a), -EINVAL);
	pieces[1].at = place_near(p, 8192);
	must(arena_create(p, pieces, 2, 1, &a));
	assert_true(pieces[0].at.v != 0);
	must(arena_destroy(a));
	assert_same(pid, &before);
	proc_close(p);
	look_free(&before);
	target_end(pid, c);
}

/* Text that is not what the plan thought: nothing is written, and the sentence names the place. */
static void test_stale_text(void **state)
{
	struct scene s;
	char where[32];

	scene_open(&s, body_spin1);
	add_hot(&s.r);
	s.r.patch.edits.v[0].old[2] ^= 1;
	assert_int_equal(text_apply(s.r.p, s.r.a, &s.r.patch), -ESTALE);
	snprintf(where, sizeof(where), "%#lx", (unsigned long)(uintptr_t)hot);
	assert_non_null(strstr(err_text(), where));
	assert_int_equal(s.r.a->book.shared->n_edits, 0);
	assert_int_equal(text_byte(s.pid, hot), 0xf3);
	remove_clean(&s);
	assert_int_equal(s.rep.restored, 0);
	scene_close(&s);
}

static void test_record_full(void **state)
{
	struct scene s;
	int i;

	scene_open(&s, body_spin1);
	for (i = 0; i < 11; i++)
		add_site(&s.r, many + i * MANY_STEP, 6, 3, 1);
	assert_int_equal(text_apply(s.r.p, s.r.a, &s.r.patch), -ENOSPC);
	s.r.patch.edits.n = 10;
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	remove_clean(&s);
	assert_int_equal(s.rep.restored, 10);
	scene_close(&s);
}

/* Somebody writes over our jump: his bytes stay, the arena too; when ours are back, all goes. */
static void test_foreign_bytes(void **state)
{
	const uint8_t other = 0xeb, jump = 0xe9;
	struct scene s;

	scene_open(&s, body_spin1);
	add_site(&s.r, many, 6, 3, 1);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	must(proc_write(s.r.p, TADDR((uintptr_t)many), &other, 1));
	must(text_remove(s.r.p, s.r.a, &s.rep));
	assert_int_equal(s.rep.foreign, 1);
	assert_true(s.rep.arena_left);
	assert_false(s.rep.verified);
	assert_int_equal(text_byte(s.pid, many), 0xeb);
	must(proc_write(s.r.p, TADDR((uintptr_t)many), &jump, 1));
	remove_clean(&s);
	assert_int_equal(s.rep.restored, 1);
	scene_close(&s);
}

static void note_given(void *arg, taddr at)
{
	uint64_t *given = arg;

	given[0]++;
	given[1] = at.v;
}

/* The old bytes come back around a breakpoint that was set over the jump, wherever in it, and it stays itself. */
static void breakpoint_over(size_t where, bool notice)
{
	uint8_t trap = 0xcc, old[6];
	uint64_t given[2] = { 0 };
	struct scene s;

	for (size_t i = 0; i < 6; i++)
		old[i] = text_byte(getpid(), many + i);
	scene_open(&s, body_spin1);
	add_site(&s.r, many, 6, 3, 1);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	must(text_give_way(s.r.p, &s.r.patch, note_given, given));
	assert_int_equal(given[0], 0);
	must(proc_write(s.r.p, TADDR((uintptr_t)many + where), &trap, 1));
	for (int i = 0; notice && i < 2; i++) {
		must(text_give_way(s.r.p, &s.r.patch, note_given, given));
		assert_int_equal(given[0], 1);
		assert_int_equal(given[1], (uintptr_t)many);
		for (size_t k = 0; k < 6; k++)
			assert_int_equal(text_byte(s.pid, many + k), k == where ? 0xcc : old[k]);
	}
	must(text_remove(s.r.p, s.r.a, &s.rep));
	assert_int_equal(s.rep.foreign, 0);
	assert_int_equal(s.rep.restored, notice ? 0 : 1);
	assert_false(s.rep.arena_left);
	assert_true(s.rep.verified);
	for (size_t k = 0; k < 6; k++)
		assert_int_equal(text_byte(s.pid, many + k), k == where ? 0xcc : old[k]);
	must(proc_write(s.r.p, TADDR((uintptr_t)many + where), &old[where], 1));
	scene_close(&s);
}

static void test_breakpoints(void **state)
{
	for (size_t where = 0; where < 5; where++) {
		breakpoint_over(where, false);
		breakpoint_over(where, true);
	}
}

/* A page with somebody else's change in it keeps it: it is not given back to the file. */
static void test_foreign_page(void **state)
{
	const uint8_t trap = 0xcc, old = text_byte(getpid(), many + 16);
	struct scene s;

	scene_open(&s, body_spin1);
	add_site(&s.r, many, 6, 3, 1);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	must(proc_write(s.r.p, TADDR((uintptr_t)many + 16), &trap, 1));
	remove_clean(&s);
	assert_int_equal(s.rep.pages_kept, 1);
	assert_int_equal(text_byte(s.pid, many + 16), 0xcc);
	must(proc_write(s.r.p, TADDR((uintptr_t)many + 16), &old, 1));
	scene_close(&s);
}

static void body_locked(struct control *c)
{
	if (mlockall(MCL_CURRENT) < 0)
		c->answer = errno;
	body_spin1(c);
}

static void test_locked_memory(void **state)
{
	struct scene s;

	scene_open(&s, body_locked);
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	remove_clean(&s);
	assert_int_equal(s.rep.pages_kept, 0);
	assert_true(is_file_page(s.pid, hot));
	scene_close(&s);
}

/* Forked children have the arena and the jumps: they are cleaned as well. */
static void test_forked_child(void **state)
{
	struct look child;
	struct scene s;
	pid_t pid;

	scene_open(&s, body_forker);
	s.c->gentle = 1;
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	s.c->release = 1;
	assert_works(s.c, 1);
	pid = s.c->answer;
	assert_int_equal(text_byte(pid, hot), 0xe9);
	remove_clean(&s);
	assert_int_equal(s.rep.processes, 2);
	assert_int_equal(s.rep.restored, 2);
	assert_int_equal(text_byte(pid, hot), 0xf3);
	child = look_at(pid);
	assert_null(strstr(child.maps, "jab-"));
	assert_null(strstr(child.fds, "jab-"));
	look_free(&child);
	assert_works(s.c, 0);
	assert_works(s.c, 1);
	scene_close(&s);
}

/* A target that forks all the time, each child living for a moment. */
static void body_fork_loop(struct control *c)
{
	long i, k;

	c->ready = READY;
	for (i = 0;; i++) {
		pid_t pid = fork();

		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (k = 0; k < 2000; k++)
				if (hot(k) != 2 * (k + 1))
					c->wrong = 1;
			_exit(0);
		}
		while (waitpid(-1, NULL, i % 3 ? WNOHANG : 0) > 0)
			;
		if (hot(i) != 2 * (i + 1))
			c->wrong = 1;
		c->done[0]++;
	}
}

static void test_fork_loop(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_fork_loop, c);
	struct text_report rep;
	struct rig r;
	int i;

	for (i = 0; i < 20; i++) {
		must(rig_open(&r, pid, 10));
		add_hot(&r);
		must(text_apply(r.p, r.a, &r.patch));
		must(text_remove(r.p, r.a, &rep));
		assert_false(rep.arena_left);
		assert_int_equal(rep.foreign, 0);
		rig_close(&r);
	}
	assert_works(c, 0);
	target_end(pid, c);
}

/* A process that shares the memory runs the same text: it is stopped and moved too. */
static int share_child(void *arg)
{
	spin_forever(arg, 1);
	return 0;
}

static void body_sharer(struct control *c)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (clone(share_child, stack + 65536, CLONE_VM | SIGCHLD, c) < 0)
		_exit(9);
	c->ready = READY;
	spin_forever(c, 0);
}

static void test_shared_memory(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_sharer, c);
	struct text_report rep;
	struct rig r;
	int i;

	for (i = 0; i < 10; i++) {
		must(rig_open(&r, pid, 10));
		add_hot(&r);
		must(text_apply(r.p, r.a, &r.patch));
		assert_works(c, 1);
		must(text_remove(r.p, r.a, &rep));
		assert_true(rep.verified);
		rig_close(&r);
		assert_works(c, 1);
	}
	c->quit = 1;
	waitpid(pid, NULL, 0);
	assert_int_equal(c->wrong, 0);
}

/* The target ends at any step of ours: no hang, no error of removal. */
static int steps_left;
static pid_t victim;

static void kill_target(const char *step)
{
	if (steps_left-- == 0)
		kill(victim, SIGKILL);
}

static void test_target_dies(void **state)
{
	struct control *c = control_new();
	struct text_report rep;
	struct rig r;
	int step, e;

	for (step = 0;; step += 3) {
		victim = target_start(body_spin1, c);
		steps_left = step;
		proc_step_hook = kill_target;
		e = rig_open(&r, victim, 10);
		if (e == 0) {
			add_hot(&r);
			e = text_apply(r.p, r.a, &r.patch);
			assert_true(e == 0 || e == -ESRCH);
			must(text_remove(r.p, r.a, &rep));
			assert_true(steps_left >= 0 || rep.gone || rep.verified);
		}
		proc_step_hook = NULL;
		rig_close(&r);
		kill(victim, SIGKILL);
		waitpid(victim, NULL, 0);
		if (steps_left >= 0)
			break;
	}
	assert_true(step > 30);
}

static void body_exec(struct control *c)
{
	c->ready = READY;
	while (!c->release)
		hot(1);
	execl("/bin/sleep", "sleep", "100", NULL);
	_exit(9);
}

static void wait_for_name(pid_t pid, const char *name)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;
	bool found = false;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	while (!found && now_ns() < deadline) {
		char *now = slurp(path);

		found = strcmp(now, name) == 0;
		free(now);
		usleep(100);
	}
	assert_true(found);
}

static void test_target_executes(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_exec, c);
	struct text_report rep;
	struct rig r;

	must(rig_open(&r, pid, 10));
	add_hot(&r);
	must(text_apply(r.p, r.a, &r.patch));
	c->release = 1;
	wait_for_name(pid, "sleep\n");
	must(text_remove(r.p, r.a, &rep));
	assert_true(rep.gone);
	assert_false(rep.arena_left);
	rig_close(&r);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_arena_properties),
		cmocka_unit_test(test_arena_refused),
		cmocka_unit_test(test_stale_text),
		cmocka_unit_test(test_record_full),
		cmocka_unit_test(test_foreign_bytes),
		cmocka_unit_test(test_breakpoints),
		cmocka_unit_test(test_foreign_page),
		cmocka_unit_test(test_locked_memory),
		cmocka_unit_test(test_forked_child),
		cmocka_unit_test(test_fork_loop),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_target_dies),
		cmocka_unit_test(test_target_executes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
