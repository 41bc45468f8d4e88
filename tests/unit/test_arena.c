/* SPDX-License-Identifier: MIT */
/*
 * The kinds of pieces that an arena has: what target, forked child and we see of each, that nothing of
 * them stays, and that a record which lies takes nothing away. And where threads keep their number.
 */
#include <sched.h>
#include "text_target.h"

#define RING(s) ((s).r.pieces[2])
#define CELL(s) ((s).r.pieces[3])
#define TABLE(s) ((s).r.pieces[4])

static uint64_t there(struct proc *p, uint64_t at)
{
	uint64_t v = 0;

	must(proc_read(p, TADDR(at), &v, sizeof(v)));
	return v;
}

/* How much of a ring is there. */
static size_t bytes_of(const struct piece *c)
{
	unsigned char there[(RING_HEAD_SIZE + RING_SIZE_MIN) / 4096];
	size_t n = 0;

	assert_int_equal(c->len, sizeof(there) * 4096);
	assert_int_equal(mincore(c->here, c->len, there), 0);
	for (size_t i = 0; i < sizeof(there); i++)
		n += there[i] & 1;
	return n * 4096;
}

/* The data is there twice in a row, in the target and here, and costs nothing until it is touched. */
static void test_ring(void **state)
{
	size_t size = RING_SIZE_MIN, span = RING_HEAD_SIZE + 2 * size;
	uint64_t value = 0x1122334455667788, before;
	struct scene s;

	scene_open(&s, body_spin1);
	before = bytes_of(&RING(s));
	must(arena_touch(s.r.a, RING(s).at, RING_HEAD_SIZE + 8192));
	assert_int_equal(bytes_of(&RING(s)) - before, 3 * 4096);
	memcpy(RING(s).here + RING_HEAD_SIZE + size - 4, &value, 8);	/* across the end */
	assert_int_equal(there(s.r.p, RING(s).at.v + RING_HEAD_SIZE + size - 4), value);
	assert_int_equal((uint32_t)there(s.r.p, RING(s).at.v + RING_HEAD_SIZE), value >> 32);
	memcpy(RING(s).here, &value, 8);
	assert_int_equal(there(s.r.p, RING(s).at.v), value);
	assert_int_equal((uint32_t)there(s.r.p, RING(s).at.v + RING_HEAD_SIZE + size), value >> 32);
	value = 42;
	must(proc_write(s.r.p, TADDR(RING(s).at.v + RING_HEAD_SIZE + size + 64), &value, 8));
	assert_int_equal(*(uint64_t *)(RING(s).here + RING_HEAD_SIZE + 64), 42);
	assert_ptr_equal(arena_view(s.r.a, TADDR(RING(s).at.v + span - 1)), RING(s).here + span - 1);
	assert_true(arena_view(s.r.a, TADDR(RING(s).at.v + span)) != RING(s).here + span);
	remove_clean(&s);
	scene_close(&s);
}

static bool has_flags(pid_t pid, uint64_t at, const char *a, const char *b)
{
	char path[64], head[32], *smaps, *line, *flags, *end;
	bool yes;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	smaps = slurp(path);
	snprintf(head, sizeof(head), "%" PRIx64 "-", at);
	line = strstr(smaps, head);
	flags = line ? strstr(line, "VmFlags:") : NULL;
	assert_non_null(flags);
	end = strchr(flags, '\n');
	*end = 0;
	yes = strstr(flags, a) && strstr(flags, b);
	free(smaps);
	return yes;
}

static int64_t call_there(struct proc *p, long nr, uint64_t at, uint64_t len, uint64_t what)
{
	uint64_t args[6] = { at, len, what };
	int64_t got;

	must(proc_stop(p));
	must(proc_syscall(p, nr, args, &got));
	must(proc_resume(p));
	return got;
}

/*
 * We write record, desk, code and tables, the target reads them. It can't make them writable, nor take pages out of them,
 * nor can its children, which have the same mappings.
 */
static void test_read_only(void **state)
{
	struct scene s;

	scene_open(&s, body_spin1);
	*(uint64_t *)TABLE(s).here = 0x1122334455667788;
	assert_int_equal(there(s.r.p, TABLE(s).at.v), 0x1122334455667788);
	const uint64_t at[] = { TABLE(s).at.v, s.r.pieces[0].at.v, s.r.a->record_at.v,
				s.r.a->record_at.v + s.r.a->record_len };

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		assert_int_equal(call_there(s.r.p, SYS_mprotect, at[i], 4096, PROT_READ | PROT_WRITE), -EACCES);
		assert_int_equal(call_there(s.r.p, SYS_madvise, at[i], 4096, MADV_REMOVE), -EACCES);
	}
	remove_clean(&s);
	scene_close(&s);
}

/* A fork finds zeros in the private page, whatever stands in its parent's; both lose it. */
static void test_private_page(void **state)
{
	struct proc *child;
	struct look look;
	uint64_t pid;
	struct scene s;

	scene_open(&s, body_forker);
	pid = s.pid;
	assert_null(CELL(s).here);
	assert_null(arena_view(s.r.a, CELL(s).at));
	assert_int_equal(arena_touch(s.r.a, CELL(s).at, 8), -EINVAL);
	must(proc_write(s.r.p, CELL(s).at, &pid, sizeof(pid)));
	add_hot(&s.r);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	assert_true(has_flags(s.pid, CELL(s).at.v, " wf", " dd"));
	s.c->release = 1;
	while (!s.c->answer)
		usleep(100);
	must(proc_open(s.c->answer, &child));
	assert_int_equal(there(child, CELL(s).at.v), 0);
	assert_int_equal(there(s.r.p, CELL(s).at.v), pid);
	proc_close(child);
	remove_clean(&s);
	assert_int_equal(s.rep.processes, 2);
	look = look_at(s.c->answer);
	assert_string_equal(look.maps, s.before.maps);
	look_free(&look);
	assert_works(s.c, 1);
	kill(s.c->answer, SIGKILL);
	scene_close(&s);
}

static void test_unsound(void **state)
{
	static const struct piece bad[] = {
		{ .len = RING_HEAD_SIZE, .kind = PIECE_RING },
		{ .len = RING_HEAD_SIZE + 100, .kind = PIECE_RING },
		{ .len = 4096, .kind = PIECE_CODE },
		{ .len = 0 },
	};
	struct piece two[2] = { { .len = 4096, .kind = PIECE_PRIVATE }, { .len = 4096, .kind = PIECE_PRIVATE } };
	struct control *c = control_new();
	pid_t pid = target_start(body_spin1, c);
	struct arena *a;
	struct proc *p;

	must(proc_open(pid, &p));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct piece one = bad[i];

		assert_int_equal(arena_create(p, &one, 1, 1, &a), -EINVAL);
	}
	assert_int_equal(arena_create(p, two, 2, 1, &a), -EINVAL);
	proc_close(p);
	target_end(pid, c);
}

/* Many rings, as for many CPUs: one fails, and nothing stays. */
static void test_no_room(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_spin1, c);
	struct look before = look_at(pid);
	struct piece p[12] = { { .len = 4096, .kind = PIECE_PRIVATE } };
	struct arena *a;
	struct proc *t;

	must(proc_open(pid, &t));
	for (size_t i = 1; i < 12; i++)
		p[i] = (struct piece){ .len = RING_HEAD_SIZE + RING_SIZE_MIN, .kind = PIECE_RING };
	p[11].at = TADDR((uintptr_t)hot);
	assert_int_equal(arena_create(t, p, 12, 1, &a), -EEXIST);
	assert_same(pid, &before);
	p[11].at = TADDR(0);
	must(arena_create(t, p, 12, 1, &a));
	must(arena_destroy(a));
	assert_same(pid, &before);
	proc_close(t);
	look_free(&before);
	target_end(pid, c);
}

/* A tracer that dies with this in the head of its record; then the target is recovered. */
static void recover_after(pid_t pid, uint64_t private_at)
{
	struct piece data = { .len = 4096 };
	struct text_report rep;
	struct arena *a;
	struct proc *p;
	pid_t tracer;
	int status;

	fflush(NULL);
	tracer = fork();
	if (!tracer) {
		if (proc_open(pid, &p) < 0 || arena_create(p, &data, 1, 1, &a) < 0)
			_exit(3);
		a->book.shared->private_at = private_at;
		a->book.shared->private_len = 4096;
		_exit(0);
	}
	waitpid(tracer, &status, 0);
	assert_int_equal(status, 0);
	must(text_recover(pid, &rep));
	assert_true(rep.verified);
}

static uint8_t *own_pages, *own_file;

/* Pages of its own that a record could claim, and that it goes on using. */
static void body_with_pages(struct control *c)
{
	own_pages[0] = own_pages[3 * 4096] = 1;
	c->ready = READY;
	for (long i = 0; !c->quit; i++) {
		if (own_pages[0] != 1 || own_pages[3 * 4096] != 1 || own_file[0] != 0x7f)
			c->wrong = 1;
		c->done[0]++;
		usleep(10);
	}
}

static void test_record_lies(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct control *c = control_new();
	struct look before;
	pid_t pid;

	own_pages = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	own_file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_int_equal(mprotect(own_pages + 3 * 4096, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	pid = target_start(body_with_pages, c);
	before = look_at(pid);
	recover_after(pid, (uintptr_t)own_pages);			/* part of a larger mapping */
	recover_after(pid, (uintptr_t)own_pages + 3 * 4096);	/* executable */
	recover_after(pid, (uintptr_t)own_file);			/* a file's */
	recover_after(pid, (uintptr_t)c);				/* shared */
	recover_after(pid, 1ull << 46);				/* nothing there */
	assert_works(c, 0);
	assert_same(pid, &before);
	look_free(&before);
	target_end(pid, c);
}

static int offset_of(pid_t pid, int32_t *ret_off)
{
	struct proc *p;
	int r;

	must(proc_open(pid, &p));
	must(proc_stop(p));
	r = proc_tid_offset(p, ret_off);
	must(proc_resume(p));
	proc_close(p);
	return r;
}

static void test_tid_known(void **state)
{
	struct scene s;
	int32_t off = 0, again = 0;

	scene_open(&s, body_spin4);
	must(offset_of(s.pid, &off));
	assert_int_equal(arena_tid(s.r.a, &again), 0);
	assert_int_equal(off, again);
	assert_int_equal(*(pid_t *)((char *)__builtin_thread_pointer() + off), gettid());
	remove_clean(&s);
	scene_close(&s);
}

/* Threads of no library: their own thread pointer, and their number at a place that only they know. */
#define ODD_PLACE 0x134
static int odd_threads, odd_place;
static bool odd_liar;

static int odd_thread(void *arg)
{
	for (;;)
		syscall(SYS_pause);
	return 0;
}

static void body_odd(struct control *c)
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
			  CLONE_SETTLS | CLONE_PARENT_SETTID;
	uint8_t *block;
	pid_t tid;
	int i;

	for (i = 0; i < odd_threads; i++) {
		block = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		tid = clone(odd_thread, block + 60000, flags, NULL, (pid_t *)(block + 4096 + odd_place), block + 4096);
		if (tid < 0)
			_exit(9);
	}
	*(pid_t *)((char *)__builtin_thread_pointer() + odd_place) = odd_liar ? 1 : gettid();
	c->ready = READY;
	for (;;)
		pause();
}

static void check_odd(int threads, int place, bool liar, int want)
{
	struct control *c = control_new();
	int32_t off = 0;
	pid_t pid;

	odd_threads = threads;
	odd_place = place;
	odd_liar = liar;
	pid = target_start(body_odd, c);
	assert_int_equal(offset_of(pid, &off), want);
	assert_int_equal(off, want ? 0 : place);
	target_end(pid, c);
}

/* A place that nobody told us of is believed from three threads on, and only if all have it. */
static void test_tid_found(void **state)
{
	check_odd(2, ODD_PLACE, false, 0);
	check_odd(5, 2044, false, 0);
	check_odd(1, ODD_PLACE, false, -ENOENT);
	check_odd(4, ODD_PLACE, true, -ENOENT);
	check_odd(4, 2048, false, -ENOENT);
}

/* In a pid namespace of its own a process has other numbers than we see. */
static void test_tid_namespace(void **state)
{
	struct control *c = control_new();
	int32_t off = 0;
	int status;
	pid_t outer, pid;

	fflush(NULL);
	outer = fork();
	if (!outer) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(7);
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			body_spin4(c);
		}
		c->answer = pid;
		waitpid(pid, NULL, 0);
		_exit(0);
	}
	while (c->ready < READY && waitpid(outer, &status, WNOHANG) == 0)
		usleep(200);
	if (c->ready < READY) {
		print_message("not allowed to make a pid namespace\n");
		return;
	}
	must(offset_of(c->answer, &off));
	assert_int_equal(*(pid_t *)((char *)__builtin_thread_pointer() + off), gettid());
	kill(c->answer, SIGKILL);
	waitpid(outer, &status, 0);
}

static void pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(pid, sizeof(set), &set);
}

/* A thread that hardly gets its turn: it must not be stopped again before it has done anything. */
static void test_starving(void **state)
{
	struct control *c = control_new(), *busy_c = control_new();
	pid_t busy = target_start(body_spin1, busy_c), pid = target_start(body_spin1, c);
	struct text_report rep;
	cpu_set_t all;
	struct rig r;

	sched_getaffinity(0, sizeof(all), &all);
	pin(busy, 0);
	pin(pid, 0);
	sched_setscheduler(pid, SCHED_IDLE, &(struct sched_param){ 0 });
	pin(0, sysconf(_SC_NPROCESSORS_ONLN) - 1);
	for (int i = 0; i < 3; i++) {
		must(rig_open(&r, pid, 10));
		must(patiently(text_remove(r.p, r.a, &rep)));
		assert_true(rep.verified);
		rig_close(&r);
	}
	sched_setaffinity(0, sizeof(all), &all);
	target_end(busy, busy_c);
	target_end(pid, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_private_page),
		cmocka_unit_test(test_unsound),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_record_lies),
		cmocka_unit_test(test_tid_known),
		cmocka_unit_test(test_tid_found),
		cmocka_unit_test(test_tid_namespace),
		cmocka_unit_test(test_starving),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
