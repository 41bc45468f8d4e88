/* SPDX-License-Identifier: MIT */
/* The undo record as bytes: what is written comes back, anything else is refused. And where arenas go. */
#include <sys/resource.h>
#include "text_target.h"

#define N 3

struct record {
	struct undo_head head;
	struct undo_edit edits[N];
	struct undo_move moves[N * UNDO_MOVES_PER_EDIT];
	struct undo_semaphore semaphores[N / 3 + 1];
	uint8_t rest[4096];
};

/* The book is the tracer's own copy. */
static void record_begin(struct record *r, struct undo_book *b)
{
	struct tracer_id id = { 42, 4711, 99 };

	memset(r, 0, sizeof(*r));
	must(undo_init(b, N, (struct gap){ 0x5000, 0x7000 }, (struct gap){ 0x9000, 0xa000 }));
	undo_start(b, &r->head, &id);
}

static void record_fill(struct undo_book *b)
{
	struct text_patch patch = { 0 };
	int i;

	for (i = 0; i < 2; i++) {
		struct edit *e = vec_add(&patch.edits);

		*e = (struct edit){ .at = TADDR(0x2000 - 0x100 * i), .resume = TADDR(0x2000), .len = 5 };
		memset(e->old, 0x10 + i, 5);
		memset(e->new, 0x20 + i, 5);
	}
	*vec_add(&patch.moves_out) = (struct move){ TADDR(0x7000), TADDR(0x2000) };
	*vec_add(&patch.semaphores) = (struct semaphore){ .at = TADDR(0x8000), .edit = TADDR(0x2001) };
	assert_int_equal(undo_append(b, &patch), 0);
	undo_set_semaphore(b, 0, SEMAPHORE_RAISING, 7);
	undo_set_lowering(b, 77);
	vec_free(&patch.edits);
	vec_free(&patch.moves_out);
	vec_free(&patch.semaphores);
}

static void record_make(struct record *r)
{
	struct undo_book b;

	record_begin(r, &b);
	record_fill(&b);
	undo_close(&b);
}

static int record_read(const struct record *r, struct undo *u)
{
	int e = undo_check(&r->head, undo_size(N));

	*u = (struct undo){ 0 };
	if (e == 0)
		e = undo_take_edits(u, r->edits, r->head.n_edits);
	if (e == 0)
		e = undo_take_semaphores(u, r->semaphores, r->head.n_semaphores);
	if (e == 0)
		e = undo_take_moves(u, r->moves, r->head.n_moves);
	return e < 0 ? e : undo_take_end(u, &r->head);
}

static void test_round_trip(void **state)
{
	struct record r;
	struct undo u;

	record_make(&r);
	assert_ptr_equal((uint8_t *)&r + r.head.edits_off, r.edits);
	assert_ptr_equal((uint8_t *)&r + r.head.moves_off, r.moves);
	assert_ptr_equal((uint8_t *)&r + undo_semaphores_off(&r.head), r.semaphores);
	assert_int_equal(record_read(&r, &u), 0);
	assert_int_equal(u.edits.n, 2);
	assert_int_equal(u.edits.v[0].at.v, 0x1f00);	/* sorted */
	assert_int_equal(u.edits.v[1].old[4], 0x10);
	assert_int_equal(u.edits.v[0].new[0], 0x21);
	assert_int_equal(u.moves.n, 1);
	assert_int_equal(u.moves.v[0].to.v, 0x2000);
	assert_int_equal(u.semaphores.n, 1);
	assert_int_equal(u.semaphores.v[0].at.v, 0x8000);
	assert_int_equal(u.semaphores.v[0].edit.v, 0x2001);
	assert_int_equal(u.semaphores.v[0].state, SEMAPHORE_RAISING);
	assert_int_equal(u.semaphores.v[0].before, 7);
	assert_int_equal(u.lowering, 77);
	assert_int_equal(u.text, UNDO_TEXT_CLEAN);
	assert_int_equal(u.private.lo, 0x5000);
	assert_int_equal(u.private.hi, 0x7000);
	assert_int_equal(u.scratch.lo, 0x9000);
	assert_int_equal(u.scratch.hi, 0xa000);
	undo_free(&u);
}

static void test_full(void **state)
{
	struct text_patch patch = { 0 };
	struct undo_book b;
	struct record r;
	int i;

	record_begin(&r, &b);
	record_fill(&b);
	for (i = 0; i < 2; i++)
		vec_add(&patch.edits)->len = 1;
	assert_int_equal(undo_append(&b, &patch), -ENOSPC);
	assert_int_equal(r.head.n_edits, 2);
	for (i = 0, patch.edits.n = 1; i < N; i++)
		vec_add(&patch.semaphores);
	assert_int_equal(undo_append(&b, &patch), -ENOSPC);
	vec_free(&patch.semaphores);
	assert_int_equal(r.head.n_edits, 2);
	patch.edits.n = 1;
	for (i = 0; i < 100; i++)
		*vec_add(&patch.moves_out) = (struct move){ TADDR(1), TADDR(2) };
	assert_int_equal(undo_append(&b, &patch), 0);
	assert_int_equal(r.head.n_edits, 3);
	assert_int_equal(r.head.n_moves, N * UNDO_MOVES_PER_EDIT);	/* the rest is waited for instead */
	undo_truncate(&b, 2, 1, 0);
	assert_int_equal(r.head.n_semaphores, 0);
	assert_int_equal(r.head.n_edits, 2);
	assert_int_equal(r.head.n_moves, 1);
	undo_close(&b);
	vec_free(&patch.edits);
	vec_free(&patch.moves_out);
}

/* What stands in the shared record has no influence on what the tracer writes and takes out. */
static void test_not_read_back(void **state)
{
	static uint8_t around[3 * sizeof(struct record)];
	struct record *r = (struct record *)(around + sizeof(*r));
	struct text_patch patch = { 0 };
	struct undo u = { 0 };
	struct undo_book b;

	record_begin(r, &b);
	memset(around, 0x5a, sizeof(*r));
	memset(r + 1, 0x5a, sizeof(*r));
	memset(&r->head, 0xff, sizeof(r->head));
	record_fill(&b);
	memset(&r->head, 0x11, sizeof(r->head));
	memset(r->edits, 0x11, sizeof(r->edits));
	vec_add(&patch.edits)->at = TADDR(0x3000);
	patch.edits.v[0].len = 2;
	assert_int_equal(undo_append(&b, &patch), 0);
	assert_int_equal(r->edits[2].at, 0x3000);
	for (size_t i = 0; i < sizeof(*r); i++)
		assert_true(around[i] == 0x5a && ((uint8_t *)(r + 1))[i] == 0x5a);
	memset(r, 0x22, sizeof(*r));
	undo_from_book(&u, &b);
	assert_int_equal(u.edits.n, 3);
	assert_int_equal(u.edits.v[0].at.v, 0x1f00);	/* sorted */
	assert_int_equal(u.edits.v[0].old[4], 0x11);
	assert_int_equal(u.edits.v[2].at.v, 0x3000);
	assert_int_equal(u.moves.n, 1);
	assert_int_equal(u.private.hi, 0x7000);
	undo_free(&u);
	undo_close(&b);
	vec_free(&patch.edits);
}

/* No two are the same, whatever numbers processes and inodes have. */
static void test_nonce(void **state)
{
	struct undo_book a, b;
	struct record r;

	record_begin(&r, &a);
	record_begin(&r, &b);
	assert_memory_equal(r.head.nonce, b.nonce, sizeof(b.nonce));
	assert_memory_not_equal(a.nonce, b.nonce, sizeof(b.nonce));
	assert_true(a.made <= b.made);
}

/* The target's memory is foreign input: one damaged field each. */
#define DAMAGE(field, value) { #field, offsetof(struct record, field), sizeof(((struct record *)0)->field), value }
static const struct { const char *what; size_t offset, size; uint64_t value; } damage[] = {
	DAMAGE(head.magic, 1),
	DAMAGE(head.version, 0),
	DAMAGE(head.version, UNDO_VERSION - 1),
	DAMAGE(head.version, UNDO_VERSION + 1),
	DAMAGE(head.private_at, 0x5001),
	DAMAGE(head.private_at, 1ull << 47),
	DAMAGE(head.scratch_at, 0x9001),
	DAMAGE(head.scratch_len, 1ull << 47),
	DAMAGE(head.head_size, 64),
	DAMAGE(head.size, 1ull << 40),
	DAMAGE(head.max_edits, 0xffffffff),
	DAMAGE(head.max_edits, 2),
	DAMAGE(head.max_moves, 0x10000000),
	DAMAGE(head.n_edits, 4),
	DAMAGE(head.n_edits, 0xffffffff),
	DAMAGE(head.n_moves, 13),
	DAMAGE(head.edits_off, 0),
	DAMAGE(head.edit_size, 8),
	DAMAGE(head.moves_off, 0xfffffffffffffff0),
	DAMAGE(head.move_size, 0),
	DAMAGE(head.text, 7),
	DAMAGE(edits[0].len, 0),
	DAMAGE(edits[1].len, 17),
	DAMAGE(edits[0].at, 0xffffffffff600000),
	DAMAGE(edits[0].at, 0x1f03),		/* overlaps the other */
	DAMAGE(edits[0].resume, 1ull << 60),
	DAMAGE(moves[0].from, 1ull << 47),
	DAMAGE(moves[0].to, ~0ull),
	DAMAGE(head.n_semaphores, 3),
	DAMAGE(semaphores[0].at, 1ull << 47),
	DAMAGE(semaphores[0].edit, ~0ull),
	DAMAGE(semaphores[0].state, 9),
};

static void test_damaged(void **state)
{
	struct record r;
	struct undo u;
	size_t i;
	int e;

	for (i = 0; i < ARRAY_SIZE(damage); i++) {
		record_make(&r);
		memcpy((uint8_t *)&r + damage[i].offset, &damage[i].value, damage[i].size);
		e = record_read(&r, &u);
		undo_free(&u);
		if (e != -EBADMSG)
			print_error("accepted: %s = %#" PRIx64 "\n", damage[i].what, damage[i].value);
		assert_int_equal(e, -EBADMSG);
	}
	record_make(&r);
	assert_int_equal(undo_check(&r.head, 1 << 20), 0);
	r.head.n_edits = r.head.max_edits + 1;		/* whatever follows them */
	assert_int_equal(undo_check(&r.head, 1 << 20), -EBADMSG);
	assert_int_equal(undo_check(&r.head, 64), -EBADMSG);
	memset(&r, 0, sizeof(r));
	assert_int_equal(record_read(&r, &u), -ENODATA);
}

/* Random bytes never get past the checks with something out of bounds (run under a sanitizer too). */
static void test_random(void **state)
{
	struct record r;
	struct undo u;
	int i, k;

	srand(1);
	for (i = 0; i < 20000; i++) {
		record_make(&r);
		for (k = 0; k < 3; k++)
			((uint8_t *)&r)[rand() % (sizeof(r) - sizeof(r.rest))] = rand();
		record_read(&r, &u);
		undo_free(&u);
	}
}

static const struct { const char *path; bool good, data; } names[] = {
	{ "/memfd:jab-12-345-678-9a", true, false },
	{ "/memfd:jab-12-345-678-9a (deleted)", true, false },
	{ "/memfd:jab-12-345-678-9a-data", true, true },
	{ "/memfd:jab-12-345-678-9a-data (deleted)", true, true },
	{ "/memfd:jab-12-345-678", true, false },		/* an older version's */
	{ "/memfd:jab-12-345-678 (deleted)", true, false },
	{ "/memfd:jab-12-345-678-data", false, false },
	{ "/memfd:jab-12-345-678-9a-dat", false, false },
	{ "/memfd:jab-12-345-678-9a-data2", false, false },
	{ "/memfd:jab-12-345", false, false },
	{ "/memfd:jab-12-345-678x", false, false },
	{ "/memfd:jab-12-345-678-x", false, false },
	{ "/memfd:jab--12-345-678-9a", false, false },
	{ "/memfd:jab", false, false },
	{ "/memfd:other-12-345-678-9a", false, false },
	{ "/tmp/memfd:jab-12-345-678-9a", false, false },
};

static void test_names(void **state)
{
	struct arena_label label, self = { .serial = ~0ull, .data = true };
	char name[ARENA_NAME_MAX], path[ARENA_NAME_MAX + 32];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(arena_name_parse(names[i].path, &label), names[i].good);
		if (names[i].good)
			assert_int_equal(label.data, names[i].data);
	}
	must(tracer_self(&self.tracer));
	arena_name(&self, name);
	snprintf(path, sizeof(path), "/memfd:%s (deleted)", name);
	assert_true(arena_name_parse(path, &label));
	assert_true(same_arena(&label, &self));
	assert_true(label.data);
	label.serial--;
	assert_false(same_arena(&label, &self));
}

/* Start time and namespace tell a reused number from the real one; a zombie is dead. */
static void test_tracer_state(void **state)
{
	struct tracer_id id, dead;
	pid_t pid, number;

	must(tracer_self(&id));
	assert_int_equal(tracer_state(&id, &number), TRACER_ALIVE);
	assert_int_equal(number, getpid());
	dead = id;
	dead.start++;
	assert_int_equal(tracer_state(&dead, &number), TRACER_DEAD);
	dead.pidns++;
	assert_int_not_equal(tracer_state(&dead, &number), TRACER_ALIVE);
	pid = fork();
	if (!pid)
		_exit(0);
	waitid(P_PID, pid, NULL, WEXITED | WNOWAIT);
	struct task_stat st;

	assert_int_equal(task_stat(pid, pid, &st), 0);
	id.pid = pid;
	id.start = st.start_time;
	assert_int_equal(st.state, 'Z');
	assert_int_equal(tracer_state(&id, &number), TRACER_DEAD);
	waitpid(pid, NULL, 0);
}

static void note(void *arg, size_t offset, size_t len, uint32_t nr)
{
	size_t *list = arg;

	if (nr == 15)
		list[++list[0]] = offset;
}

static void test_restorers(void **state)
{
	static const uint8_t mov[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t bytes[300];
	size_t found[8], at;

	for (at = 0; at + sizeof(mov) <= sizeof(bytes); at++) {
		memset(bytes, 0x0f, sizeof(bytes));
		memcpy(bytes + at, mov, sizeof(mov));
		found[0] = 0;
		arch_x86_64.find_calls(bytes, sizeof(bytes), note, found);
		assert_int_equal(found[0], 1);
		assert_int_equal(found[1], at);
	}
	memset(bytes, 0x90, sizeof(bytes));
	memcpy(bytes, "\x0f\x05", 2);			/* nothing in front of it */
	memcpy(bytes + 20, "\xb8\x0f\0\0\0\x0f\x05", 7);	/* the short form */
	memcpy(bytes + 40, "\xb8\x0e\0\0\0\x0f\x05", 7);	/* another call */
	found[0] = 0;
	arch_x86_64.find_calls(bytes, sizeof(bytes), note, found);
	assert_int_equal(found[0], 1);
	assert_int_equal(found[1], 20);
}

static void note_gate(void *arg, size_t offset, size_t len, uint32_t nr)
{
	size_t *list = arg;

	if (nr == OPEN_CALL)
		return;
	assert_int_equal(nr, ANY_CALL);
	assert_int_equal(len, 5);
	list[++list[0]] = offset;
}

static void test_gates(void **state)
{
	static const char *const others[] = { "\x4c\x8b\x4c\x24\x10\x0f\x05", "\x48\x8b\x4c\x24\x08\x0f\x05", "\x8b\x4c\x24\x08\x90\x0f\x05" };
	size_t found[8] = { 0 };
	uint8_t bytes[64];

	memset(bytes, 0x90, sizeof(bytes));
	memcpy(bytes, "\x8b\x4c\x24\x08\x0f\x05", 6);	/* its first byte is not there */
	for (int i = 0; i < 3; i++)
		memcpy(bytes + 10 + 10 * i, others[i], 7);
	arch_x86_64.find_calls(bytes, sizeof(bytes), note_gate, found);
	assert_int_equal(found[0], 0);
	memcpy(bytes + 50, "\x4c\x8b\x4c\x24\x08\x0f\x05", 7);
	arch_x86_64.find_calls(bytes, sizeof(bytes), note_gate, found);
	assert_int_equal(found[0], 1);
	assert_int_equal(found[1], 50);
}

struct other_call { size_t at, len, n; };

static void note_far(void *arg, size_t offset, size_t len, uint32_t nr)
{
	struct other_call *c = arg;

	if (nr == OPEN_CALL)
		return;
	assert_int_equal(nr, FAR_ARCH_PRCTL);
	*c = (struct other_call){ offset, len, c->n + 1 };
}

static struct other_call find_far(const char *form, size_t n)
{
	struct other_call c = { 0 };
	uint8_t bytes[64];

	memset(bytes, 0x90, sizeof(bytes));
	memcpy(bytes + 20, form, n);
	arch_x86_64.find_calls(bytes, sizeof(bytes), note_far, &c);
	return c;
}

/* What can change a thread pointer is found, and where a jump can stand. */
static void test_thread_pointers(void **state)
{
	static const struct { const char *form; size_t n, at, len; } found[] = {
		{ "\xb8\x9e\0\0\0\xbf\x02\x10\0\0\x0f\x05", 12, 20, 5 },	/* mov $158,%eax; mov $0x1002,%edi; syscall */
		{ "\xb8\x9e\0\0\0\x90\x0f\x05", 8, 20, 5 },
		{ "\x41\xb8\x9e\0\0\0\x90\x0f\x05", 9, 21, 0 },			/* may be another register's */
		{ "\xb8\x9e\0\0\0\xeb\x00\x0f\x05", 9, 20, 0 },			/* a jump in between */
		{ "\x48\xc7\xc0\x9e\0\0\0\x90\x0f\x05", 10, 20, 0 },
		{ "\xf3\x48\x0f\xae\xd0", 5, 22, 0 },				/* wrfsbase %rax */
		{ "\xf3\x49\x0f\xae\xd7", 5, 22, 0 },
		{ "\xf3\x0f\xae\xd3", 4, 21, 0 },
	};
	static const struct { const char *form; size_t n; } others[] = {
		{ "\xf3\x48\x0f\xae\xc0", 5 },		/* rdfsbase */
		{ "\xf3\x48\x0f\xae\xd8", 5 },		/* wrgsbase */
		{ "\x48\x0f\xae\xd0", 4 },
		{ "\xf3\x48\x0f\xae\x10", 5 },
		{ "\xb8\x9d\0\0\0\x90\x0f\x05", 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
		struct other_call c = find_far(found[i].form, found[i].n);

		assert_int_equal(c.n, 1);
		assert_int_equal(c.at, found[i].at);
		assert_int_equal(c.len, found[i].len);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(find_far(others[i].form, others[i].n).n, 0);
}

static void note_open(void *arg, size_t offset, size_t len, uint32_t nr)
{
	size_t *list = arg;

	if (nr == OPEN_CALL)
		list[++list[0]] = offset;
}

/* A call whose number is not known is found wherever it stands; the same bytes in another instruction are none. */
static void test_open_calls(void **state)
{
	static const struct { const char *form; size_t n, at; } rows[] = {
		{ "\x89\xf8\x0f\x05", 4, 2 },				/* mov %edi,%eax; syscall */
		{ "\xb8\x0b\0\0\0\x90\x0f\x05", 8, 6 },		/* mov $11,%eax; nop; syscall */
		{ "\x8b\x05\x0f\x05\0\0", 6, 0 },			/* mov 0x50f(%rip),%eax */
		{ "\xb8\x0f\x05\0\0", 5, 0 },				/* mov $0x50f,%eax */
		{ "\xb8\x0b\0\0\0\x0f\x05", 7, 0 },			/* its number is known */
		{ "\x4c\x8b\x4c\x24\x08\x0f\x05", 7, 0 },		/* glibc's syscall() */
		{ "\x89\xf8\x0f\x05\x09\xe6\x92\xc6\xa8", 9, 0 },	/* data: no instruction comes behind it */
	};
	uint8_t bytes[400];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t at = 120; at + rows[i].n + 32 <= sizeof(bytes); at += 7) {
			size_t found[8] = { 0 };

			memset(bytes, 0x90, sizeof(bytes));
			memcpy(bytes + at, rows[i].form, rows[i].n);
			arch_x86_64.find_calls(bytes, sizeof(bytes), note_open, found);
			assert_int_equal(found[0], rows[i].at ? 1 : 0);
			if (rows[i].at)
				assert_int_equal(found[1], at + rows[i].at);
		}
}

static void note_clone(void *arg, size_t offset, size_t len, uint32_t nr)
{
	if (nr == OPEN_CALL)
		return;
	assert_int_equal(nr, 56);
	assert_int_equal(len, 5);
	*(size_t *)arg = offset;
}

static void test_clone_of_musl(void **state)
{
	static const char form[] = "\x4c\x8b\x54\x24\x08\x4d\x89\xd9\x48\x83\xe6\xf0\x48\x83\xee\x08\x48\x89\x0e\x0f\x05";
	size_t found = 0;
	uint8_t bytes[64];

	memset(bytes, 0x90, sizeof(bytes));
	memcpy(bytes + 30, form, sizeof(form) - 1);
	arch_x86_64.find_calls(bytes, sizeof(bytes), note_clone, &found);
	assert_int_equal(found, 30);
	found = 0;
	arch_x86_64.find_calls(bytes + 31, sizeof(bytes) - 31, note_clone, &found);	/* its beginning is not there */
	assert_int_equal(found, 0);
}

/* A heap that grows by half a gigabyte after the arena was made next to it. */
static void body_grower(struct control *c)
{
	c->ready = READY;
	while (!c->release)
		usleep(100);
	c->answer = sbrk(512 << 20) == (void *)-1 ? 2 : 1;
	for (;;)
		pause();
}

static void check_gap(struct proc *p, const struct gap *g)
{
	size_t i;

	assert_true(g->lo % 4096 == 0 && g->hi % 4096 == 0 && g->lo < g->hi);
	assert_true(g->lo >= 65536 && g->hi < 1ull << 47);
	for (i = 0; i < p->maps.n; i++) {
		const struct map *m = &p->maps.v[i];

		assert_true(g->hi <= m->start || g->lo >= m->end);
		if (strcmp(m->path, "[heap]") == 0)
			assert_true(g->hi <= m->end || g->lo >= m->end + (1ull << 30));
		if (strcmp(m->path, "[stack]") == 0)
			assert_true(g->hi <= m->end - (8ull << 20) || g->lo >= m->end);
	}
}

/* Maps at the address in `answer` and unmaps it again, when told to. */
static void body_mapper(struct control *c)
{
	void *at;

	c->ready = READY;
	while (!c->release)
		usleep(100);
	at = mmap((void *)c->answer, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	c->answered = at == (void *)c->answer ? 1 : -1;
	while (c->release == 1)
		usleep(100);
	munmap(at, 1 << 20);
	c->answered = 2;
	for (;;)
		pause();
}

static bool in_gaps(struct proc *p, uint64_t at)
{
	gap_list gaps = { 0 };
	bool found = false;

	must(proc_gaps(p, &gaps));
	for (size_t i = 0; i < gaps.n; i++) {
		check_gap(p, &gaps.v[i]);
		found |= gaps.v[i].lo <= at && at < gaps.v[i].hi;
	}
	vec_free(&gaps);
	return found;
}

/* What was mapped at one look and free at another is not offered any more, nor what is near it. */
static void test_restless_gaps(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_mapper, c);
	uint64_t at = 0x500000000000, near = at - (40 << 20), far = at - (300 << 20);
	struct proc *p;

	must(proc_open(pid, &p));
	c->answer = at;
	assert_true(in_gaps(p, at) && in_gaps(p, near) && in_gaps(p, far));
	c->release = 1;
	while (!c->answered)
		usleep(100);
	assert_int_equal(c->answered, 1);
	in_gaps(p, at);
	c->release = 2;
	while (c->answered == 1)
		usleep(100);
	assert_false(in_gaps(p, at) || in_gaps(p, near));
	assert_true(in_gaps(p, far));
	proc_close(p);
	target_end(pid, c);
	(void)state;
}

static void test_gaps(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_grower, c);
	gap_list gaps = { 0 };
	struct rig r;
	size_t i;

	must(rig_open(&r, pid, 1));
	must(proc_gaps(r.p, &gaps));
	assert_true(gaps.n > 2);
	for (i = 0; i < gaps.n; i++)
		check_gap(r.p, &gaps.v[i]);
	vec_free(&gaps);
	c->release = 1;
	while (!c->answer)
		usleep(100);
	assert_int_equal(c->answer, 1);
	must(arena_destroy(r.a));
	r.a = NULL;
	rig_close(&r);
	target_end(pid, c);
}

/* Whatever limit the stack has been given, its room below is kept, also where the gap is large. */
static void test_room_below_stack(void **state)
{
	const struct rlimit gib = { 1ull << 30, RLIM_INFINITY };
	struct control *c = control_new();
	pid_t pid = target_start(body_grower, c);
	gap_list gaps = { 0 };
	struct proc *p;
	uint64_t end = 0;

	assert_int_equal(prlimit(pid, RLIMIT_STACK, &gib, NULL), 0);
	must(proc_open(pid, &p));
	must(proc_gaps(p, &gaps));
	for (size_t i = 0; i < p->maps.n; i++)
		if (strcmp(p->maps.v[i].path, "[stack]") == 0)
			end = p->maps.v[i].end;
	assert_true(end && gaps.n > 2);
	for (size_t i = 0; i < gaps.n; i++)
		assert_true(gaps.v[i].hi <= end - gib.rlim_cur || gaps.v[i].lo >= end);
	vec_free(&gaps);
	proc_close(p);
	target_end(pid, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_not_read_back),
		cmocka_unit_test(test_nonce),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_tracer_state),
		cmocka_unit_test(test_restorers),
		cmocka_unit_test(test_gates),
		cmocka_unit_test(test_clone_of_musl),
		cmocka_unit_test(test_thread_pointers),
		cmocka_unit_test(test_open_calls),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_room_below_stack),
		cmocka_unit_test(test_restless_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
