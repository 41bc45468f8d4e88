/* SPDX-License-Identifier: MIT */
/*
 * Arenas that no tracer made, and records that lie: a name proves nothing, what stands in one process never changes
 * another, what a target may have written is not believed, and all of it costs little.
 */
#include "text_target.h"
#include "proc/threads/ids.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include "proc/undo/clean.h"

/* What the next target forges: set before it is started. */
static struct forgery {
	struct arena_label label;
	size_t arenas, edits;
	uint64_t at, step;	/* of the edits */
	uint8_t old, new;	/* their only byte */
	bool copied;		/* the head is `head` instead */
	struct undo_head head;
	bool descriptor;	/* and nothing mapped */
	bool passing;		/* only what comes after the record is mapped, until the tracer waits */
	size_t text;		/* so much of a file is mapped at FAR */
} forged;

#define FAR (1ull << 45)

/* Of a process that is not there. */
static struct arena_label dead_label(void)
{
	struct arena_label l = { .serial = 77 };

	must(tracer_self(&l.tracer));
	l.tracer.start++;
	return l;
}

static void fill_record(struct undo_head *h)
{
	struct undo_edit *e = (struct undo_edit *)(h + 1);
	struct undo_book b;

	if (undo_init(&b, forged.edits, (struct gap){ 0 }, (struct gap){ 0 }) < 0)
		_exit(9);
	undo_start(&b, h, &forged.label.tracer);
	h->text = UNDO_TEXT_DIRTY;
	h->n_edits = forged.edits;
	for (size_t i = 0; i < forged.edits; i++) {
		e[i] = (struct undo_edit){ .at = forged.at + i * forged.step, .len = 1, .old = { forged.old },
					   .new = { forged.new } };
		e[i].resume = e[i].at;
	}
	if (forged.copied)
		*h = forged.head;
}

static void *passes_at;

static uint64_t forge(uint64_t serial)
{
	size_t len = undo_size(forged.edits);
	struct arena_label label = forged.label;
	char name[ARENA_NAME_MAX];
	struct stat st;
	void *at;
	int fd;

	label.serial = serial;
	arena_name(&label, name);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, len) < 0 || fstat(fd, &st) < 0)
		_exit(9);
	if (forged.descriptor)
		return st.st_ino;
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, forged.passing ? 4096 : 0);
	close(fd);
	if (at == MAP_FAILED)
		_exit(9);
	if (forged.passing)
		passes_at = at;
	else
		fill_record(at);
	return st.st_ino;
}

static void map_text(size_t len)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, len) < 0 ||
	    mmap((void *)FAR, len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) != (void *)FAR)
		_exit(9);
	close(fd);
}

/* Tells the inode of the last one as the answer. */
static void body_forger(struct control *c)
{
	if (forged.text)
		map_text(forged.text);
	for (size_t i = 0; i < forged.arenas; i++)
		c->answer = forge(forged.label.serial + i);
	c->ready = READY;
	for (;;) {
		c->done[0]++;
		usleep(1000);
		if (forged.passing && c->release && !c->answered) {
			munmap(passes_at, undo_size(forged.edits));
			c->answered = 1;
		}
	}
}

static pid_t forger_start(struct control *c, struct forgery what)
{
	forged = what;
	if (!forged.arenas)
		forged.arenas = 1;
	return target_start(body_forger, c);
}

static size_t arenas_in(pid_t pid)
{
	char path[64], *maps, *at;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = slurp(path);
	for (at = maps; (at = strstr(at, ARENA_PATH)); at++)
		n++;
	free(maps);
	return n;
}

/* The same name, the same number, the same bytes: but not the same memory. */
static void test_copy_is_no_fork(void **state)
{
	struct control *c = control_new();
	uint64_t inode;
	struct scene s;
	pid_t pid;

	scene_open(&s, body_spin1);
	assert_true(arena_is_mapped(s.r.a, s.pid));
	pid = forger_start(c, (struct forgery){ .label = s.r.a->label, .copied = true,
						.head = *s.r.a->book.shared });
	assert_false(arena_is_mapped(s.r.a, pid));
	inode = s.r.a->inode;
	s.r.a->inode = c->answer;
	assert_false(arena_is_mapped(s.r.a, pid));
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	must(text_remove(s.r.p, s.r.a, &s.rep));
	assert_int_equal(s.rep.processes, 1);
	assert_int_equal(arenas_in(pid), 1);
	s.r.a->inode = inode;
	scene_close(&s);
	target_end(pid, c);
}

/* Nor is memory of another nonce, whatever it answers. */
static void test_nonce_differs(void **state)
{
	struct scene s;

	scene_open(&s, body_spin1);
	s.r.a->book.nonce[1] ^= 1;
	assert_false(arena_is_mapped(s.r.a, s.pid));
	s.r.a->book.nonce[1] ^= 1;
	assert_true(arena_is_mapped(s.r.a, s.pid));
	remove_clean(&s);
	scene_close(&s);
}

/* A record with another's text in it, under the name of that one's arena: it is its own process that is cleaned. */
static void test_only_its_own(void **state)
{
	struct control *c = control_new();
	struct text_report rep;
	struct scene s;
	uint8_t byte;
	pid_t pid;

	scene_open(&s, body_spin1);
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	byte = text_byte(s.pid, many);
	pid = forger_start(c, (struct forgery){ .label = s.r.a->label, .edits = 1, .at = (uintptr_t)many, .old = 0xcc,
						.new = byte });
	must(text_recover(pid, &rep));
	assert_int_equal(rep.processes, 1);
	assert_true(rep.verified);	/* nothing else was tried */
	assert_int_equal(text_byte(pid, many), 0xcc);	/* as it wanted */
	assert_int_equal(text_byte(s.pid, many), byte);
	assert_int_equal(text_byte(s.pid, hot), 0xe9);
	assert_works(s.c, 0);
	remove_clean(&s);
	scene_close(&s);
	target_end(pid, c);
}

static struct control *passing;

/* In the C library's place: whatever passes is gone after the first sleep. */
int nanosleep(const struct timespec *t, struct timespec *left)
{
	if (passing)
		passing->release = 1;
	while (passing && !passing->answered)
		clock_nanosleep(CLOCK_MONOTONIC, 0, t, NULL);
	return clock_nanosleep(CLOCK_MONOTONIC, 0, t, left) ? -1 : 0;
}

/* A dead tracer's last call is under way: pieces are seen, their record is not, and a moment later there is nothing. */
static void test_unmapped_meanwhile(void **state)
{
	struct control *c = control_new();
	pid_t pid = forger_start(c, (struct forgery){ .label = dead_label(), .passing = true });
	struct text_report rep = { 0 };
	int r;

	passing = c;
	r = text_recover(pid, &rep);
	passing = NULL;
	assert_true(c->answered && (r == -ENOENT || (r == 0 && rep.verified)));
	assert_int_equal(text_recover(pid, &rep), -ENOENT);
	target_end(pid, c);
}

/* What the tracer wrote down may read anything by now. */

static void test_scribbled(void **state)
{
	struct scene s;

	scene_open(&s, body_spin4);
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	memset(s.r.a->book.shared, 0xa5, s.r.a->record_len);
	must(text_remove(s.r.p, s.r.a, &s.rep));
	assert_int_equal(s.rep.restored, 1);
	assert_false(s.rep.arena_left);
	scene_close(&s);
}

/* Some at a time: nothing that is quadratic in what a target makes up. */
static void test_many_arenas(void **state)
{
	struct control *c = control_new();
	struct text_report rep;
	pid_t pid = forger_start(c, (struct forgery){ .label = dead_label(), .arenas = 100 });

	must(text_recover(pid, &rep));
	assert_int_equal(rep.processes, 1);
	assert_int_equal(arenas_in(pid), 100 - HOLDERS_MOST);
	for (int i = 0; i < 12; i++)
		must(text_recover(pid, &rep));
	assert_int_equal(arenas_in(pid), 0);
	assert_int_equal(text_recover(pid, &rep), -ENOENT);
	target_end(pid, c);
}

/* Edits where no text is are not worth a page each. */
static void test_far_edits(void **state)
{
	struct control *c = control_new();
	pid_t pid = forger_start(c, (struct forgery){ .label = dead_label(), .edits = 200000, .at = FAR, .step = 4096 });
	struct text_report rep;
	struct rusage before, after;
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		getrusage(RUSAGE_SELF, &before);
		if (text_recover(pid, &rep) < 0 || rep.restored || !rep.verified)
			_exit(1);
		getrusage(RUSAGE_SELF, &after);
		_exit(after.ru_maxrss - before.ru_maxrss > 200 << 10 ? 2 : 0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(arenas_in(pid), 0);
	target_end(pid, c);
}

/* More than all its text can hold: the record is refused before that much is read. */
static void test_dense_edits(void **state)
{
	struct control *c = control_new();
	pid_t pid = forger_start(c, (struct forgery){ .label = dead_label(), .edits = UNDO_MAX_EDITS, .at = (uintptr_t)many });
	struct text_report rep;

	assert_int_equal(text_recover(pid, &rep), -EBADMSG);
	assert_non_null(strstr(err_text(), "more edits than"));
	target_end(pid, c);
}

/* Text that costs the target nothing, for it is not there, would cost us all of it. */
static void test_much_text(void **state)
{
	struct control *c = control_new();
	pid_t pid = forger_start(c, (struct forgery){ .label = dead_label(), .edits = 70000, .at = FAR, .step = 4096,
						      .text = 70000 * 4096ul });
	struct text_report rep;

	assert_int_equal(text_recover(pid, &rep), -EBADMSG);
	assert_non_null(strstr(err_text(), "too much text"));
	target_end(pid, c);
}

/* A name of a living process that has nothing to do with it does not make a target untraceable. */
static void test_false_tracer(void **state)
{
	struct control *c = control_new();
	struct arena_label label = { .serial = 5 };
	struct text_report rep;
	pid_t pid;

	must(tracer_self(&label.tracer));
	pid = forger_start(c, (struct forgery){ .label = label });
	must(text_recover(pid, &rep));
	assert_int_equal(arenas_in(pid), 0);
	target_end(pid, c);
}

/* A tracer that holds the target may be about to map what was made for it. */
static void test_tracer_at_work(void **state)
{
	struct control *c = control_new();
	struct arena_label label = { .serial = 5 };
	holder_list list = { 0 };
	struct proc *p;
	pid_t pid, tracer;

	must(tracer_self(&label.tracer));
	pid = forger_start(c, (struct forgery){ .label = label, .descriptor = true });
	holders_in_fds(pid, pid, &list);
	assert_int_equal(list.n, 1);
	assert_int_equal(holder_tracer(&list.v[0], &tracer), TRACER_DEAD);
	must(proc_open(pid, &p));
	must(proc_stop(p));
	assert_int_equal(holder_tracer(&list.v[0], &tracer), TRACER_ALIVE);
	assert_int_equal(tracer, getpid());
	must(proc_resume(p));
	proc_close(p);
	vec_free(&list);
	target_end(pid, c);
}

static struct control *second_waits;
static pid_t first_target, second;

/* The arena of the second is there, and it has not looked around yet. */
static void second_step(const char *step)
{
	if (strcmp(step, "resume: let go") != 0)
		return;
	second_waits->ready = READY;
	while (!second_waits->release)
		usleep(100);
}

/* A tracer that makes an arena, and keeps it until the test ends. */
static pid_t second_tracer(pid_t pid, struct control *told)
{
	struct piece data = { .len = 4096 };
	pid_t tracer, parent = getpid();
	struct arena *a;
	struct proc *p;

	fflush(NULL);
	tracer = fork();
	if (tracer)
		return tracer;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || proc_open(pid, &p) < 0)
		_exit(3);
	proc_step_hook = told == second_waits ? second_step : NULL;
	told->answer = arena_create(p, &data, 1, 1, &a);
	told->answered = 1;
	for (;;)
		pause();
}

/* Both found the target free: the one that comes second gives way, the first one goes on. */
static void test_two_tracers(void **state)
{
	struct control *c = control_new(), *told = control_new();
	pid_t pid = target_start(body_spin1, c), tracer = second_tracer(pid, told);
	struct piece data = { .len = 4096 };
	struct text_report rep;
	char name[32];
	struct arena *a;
	struct rig r;
	struct proc *p;

	wait_for(&told->answered, 1);
	assert_int_equal(told->answer, 0);
	must(proc_open(pid, &p));
	assert_int_equal(arena_create(p, &data, 1, 1, &a), -EBUSY);
	snprintf(name, sizeof(name), "jab %d", tracer);
	assert_non_null(strstr(err_text(), name));
	assert_int_equal(arenas_in(pid), 3);	/* record, desk, data of the first one */
	proc_close(p);
	kill(tracer, SIGKILL);
	waitid(P_PID, tracer, NULL, WEXITED | WNOWAIT);	/* a zombie */
	must(text_recover(pid, &rep));
	waitpid(tracer, NULL, 0);

	told->answered = 0;
	must(rig_open(&r, pid, 10));
	tracer = second_tracer(pid, told);
	wait_for(&told->answered, 1);
	assert_int_equal(told->answer, -EBUSY);
	add_hot(&r);
	must(text_apply(r.p, r.a, &r.patch));
	must(text_remove(r.p, r.a, &rep));
	assert_true(rep.verified);
	rig_close(&r);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	target_end(pid, c);
}

static void first_step(const char *step)
{
	if (strcmp(step, "resume: let go") != 0)
		return;
	proc_step_hook = NULL;
	second = second_tracer(first_target, second_waits);
	wait_for(&second_waits->ready, READY);
}

/* The second one's arena is there before the first one has looked around: it is still the second that gives way. */
static void test_tracers_at_once(void **state)
{
	struct control *c = control_new();
	struct text_report rep;
	struct rig r;

	first_target = target_start(body_spin1, c);
	second_waits = control_new();
	proc_step_hook = first_step;
	must(rig_try(&r, first_target, 10));
	proc_step_hook = NULL;
	second_waits->release = 1;
	wait_for(&second_waits->answered, 1);
	assert_int_equal(second_waits->answer, -EBUSY);
	must(text_remove(r.p, r.a, &rep));
	assert_true(rep.verified);
	assert_int_equal(arenas_in(first_target), 0);
	rig_close(&r);
	kill(second, SIGKILL);
	waitpid(second, NULL, 0);
	second_waits = NULL;
	target_end(first_target, c);
}

/* A tracer that puts probes in, told of it by `told`, after it has taken out what another one left. */
static pid_t probing_tracer(pid_t pid, bool recovers, struct control *told)
{
	pid_t tracer, parent = getpid();
	struct text_report rep;
	struct rig r;

	fflush(NULL);
	tracer = fork();
	if (tracer)
		return tracer;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || (recovers && text_recover(pid, &rep) < 0) || rig_open(&r, pid, 10) < 0)
		_exit(3);
	add_hot(&r);
	told->answer = text_apply(r.p, r.a, &r.patch);
	told->answered = 1;
	for (;;)
		pause();
}

/* The first one comes between the look around and the arena of the second, and is killed: its jumps are in the text. */
static void test_killed_meanwhile(void **state)
{
	struct control *c = control_new(), *told = control_new();
	pid_t pid = target_start(body_spin1, c), tracer;
	struct piece data = { .len = 4096 };
	struct text_report rep;
	struct arena *a;
	struct proc *p;

	must(proc_open(pid, &p));
	tracer = probing_tracer(pid, false, told);
	wait_for(&told->answered, 1);
	assert_int_equal(told->answer, 0);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	assert_int_equal(arena_create(p, &data, 1, 1, &a), -EBUSY);
	assert_non_null(strstr(err_text(), "killed"));
	must(text_recover(pid, &rep));
	assert_true(rep.verified);
	must(arena_create(p, &data, 1, 1, &a));
	arena_destroy(a);
	proc_close(p);
	target_end(pid, c);
}

static struct look probed;

/* The record of the dead tracer has been read; then another one is faster, and has the same addresses. */
static void prepared_step(const char *step)
{
	if (strcmp(step, "remove: prepared") != 0)
		return;
	proc_step_hook = NULL;
	second = probing_tracer(first_target, true, second_waits);
	wait_for(&second_waits->answered, 1);
	probed = look_at(first_target);
}

/* Two find what a dead tracer has left: the one that comes later leaves the probes of the first alone. */
static void test_recovered_meanwhile(void **state)
{
	struct control *c = control_new(), *told = control_new();
	struct look before;
	struct text_report rep;
	pid_t tracer;

	first_target = target_start(body_spin1, c);
	before = look_at(first_target);
	tracer = probing_tracer(first_target, false, told);
	wait_for(&told->answered, 1);
	assert_int_equal(told->answer, 0);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);

	second_waits = control_new();
	proc_step_hook = prepared_step;
	must(text_recover(first_target, &rep));
	assert_null(proc_step_hook);
	assert_int_equal(second_waits->answer, 0);
	assert_int_equal(rep.restored, 0);
	assert_true(rep.verified);
	assert_same(first_target, &probed);

	kill(second, SIGKILL);
	waitpid(second, NULL, 0);
	second_waits = NULL;
	must(text_recover(first_target, &rep));
	assert_true(rep.verified);
	assert_same(first_target, &before);
	look_free(&before);
	look_free(&probed);
	target_end(first_target, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_is_no_fork),
		cmocka_unit_test(test_nonce_differs),
		cmocka_unit_test(test_only_its_own),
		cmocka_unit_test(test_unmapped_meanwhile),
		cmocka_unit_test(test_scribbled),
		cmocka_unit_test(test_many_arenas),
		cmocka_unit_test(test_far_edits),
		cmocka_unit_test(test_dense_edits),
		cmocka_unit_test(test_much_text),
		cmocka_unit_test(test_false_tracer),
		cmocka_unit_test(test_tracer_at_work),
		cmocka_unit_test(test_two_tracers),
		cmocka_unit_test(test_tracers_at_once),
		cmocka_unit_test(test_recovered_meanwhile),
		cmocka_unit_test(test_killed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
