/* SPDX-License-Identifier: MIT */
/*
 * Removal while somebody stands in a pad and gets no CPU: stopped by a signal, or in a handler that
 * does not return. The target is led to each instruction of the counting code in turn. Whatever
 * it is, nothing is left behind, the target goes on with the right result, and the hit has counted
 * once.
 */
#include "text_target.h"

#include <sys/ptrace.h>
#include <sys/user.h>
#include "arch/arch.h"

#define CPUS 240
/* Words of the data piece. */
enum {
	SHARED = 0, FAST = 1, PID_CELL = 2, EPOCH = 3, RINGS = 4, LOST = 8, TABLE = 16, LOST_TABLE = TABLE + CPU_TABLE_FEW,
	COUNTERS = LOST_TABLE + CPU_TABLE_FEW, PAGES = COUNTERS + CPUS,
};
#define SLOW_AT 3072		/* the slow routine, in the code piece */
#define WINDOW 5

/* caller(x) = hot(x) + 1: the window is a call. */
__asm__(".text\n"
	".balign 64\n"
	"caller: sub $8, %rsp\n"
	"caller_window: call hot\n"
	"	add $1, %rax\n	add $8, %rsp\n	ret\n");
/* wipe(p) = 20, with a store of its own in the window. */
__asm__(".text\n"
	".balign 64\n"
	"wipe:	movq $0, (%rdi)\n	mov $20, %eax\n	ret\n");
extern long wipe(long *p) __asm__("wipe");
extern long caller(long x) __asm__("caller");
extern char caller_window[] __asm__("caller_window");

static struct control *own;

static void on_signal(int sig)
{
	own->handler = 1;
	while (!own->release)
		usleep(100);
	own->handler = 0;
}

/* One call each time it is asked to. crossing: from where an event by a locked ring needs the next page. */
static void call_loop(struct control *c, int flags, bool crossing)
{
	volatile char *room = alloca(16);
	static char alternate[65536];
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };
	stack_t st = { .ss_sp = alternate, .ss_size = sizeof(alternate) };

	if (crossing)
		room = alloca(((uint64_t)room - 216) % 4096 & ~15ull);
	room[0] = 1;
	own = c;
	sigaltstack(&st, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	c->ready = READY;
	for (;;) {
		while (!c->gentle)
			;
		c->gentle = 0;
		c->answer = caller(20);
		c->answered = 1;
	}
}

static void body_plain(struct control *c) { call_loop(c, 0, false); }
static void body_alternate(struct control *c) { call_loop(c, SA_ONSTACK, false); }
static void body_crossing(struct control *c) { call_loop(c, 0, true); }

static volatile uint64_t *word(struct rig *r, int n)
{
	return (uint64_t *)r->pieces[1].here + n;
}

static int put_count(struct scene *s, bool has_rseq)
{
	const struct rseq_conf *conf = arena_rseq(s->r.a);
	uint64_t data = s->r.pieces[1].at.v;
	struct count_spec spec = {
		.rseq_off = conf->offset, .rseq_sig = conf->signature, .has_rseq = has_rseq && conf->usable,
		.cpu_table = data + 8 * TABLE, .shared = data + 8 * SHARED, .fast = data + 8 * FAST,
	};

	*word(&s->r, FAST) = 1;

	for (int i = 0; i < CPUS; i++)
		*word(&s->r, TABLE + i) = data + 8 * (COUNTERS + i);
	return arch_x86_64.emit_count(s->r.pieces[0].here, s->r.pieces[0].at.v, &spec);
}

/* Where this libc keeps a thread's number. */
static int32_t tid_offset(void)
{
	const char *block = __builtin_thread_pointer();

	for (int32_t off = 0; off < 2048; off += 4)
		if (*(pid_t *)(block + off) == gettid())
			return off;
	skip();
	return 0;
}

static struct ring_head *ring(struct rig *r)
{
	return (struct ring_head *)arena_view(r->a, r->pieces[2].at);
}

/* One ring for all: the target has a single thread, and stepping through it leads to the slow way. */
static int put_event(struct scene *s, bool has_rseq)
{
	static const struct event_field fields[] = {
		{ EVENT_REG, 7, 8, 0 }, { EVENT_STACK, 0, 8, 0 }, { EVENT_IMM, 0, 8, 77 },
	};
	const struct rseq_conf *conf = arena_rseq(s->r.a);
	uint64_t data = s->r.pieces[1].at.v, code = s->r.pieces[0].at.v;
	struct event_slow_spec slow = {
		.fast = data + 8 * FAST, .epoch = data + 8 * EPOCH, .pid_cell = data + 8 * PID_CELL, .tid_off = tid_offset(),
		.has_tid = true, .may_call = true, .rings = data + 8 * RINGS, .nrings = 1, .ring_size = RING_SIZE_MIN,
		.pages = data + 8 * PAGES,
	};
	struct event_spec spec = {
		.rseq_off = conf->offset, .rseq_sig = conf->signature, .has_rseq = has_rseq && conf->usable,
		.has_tid = true, .tid_off = slow.tid_off, .ring_table = data + 8 * TABLE, .lost_table = data + 8 * LOST_TABLE, .fast = slow.fast,
		.pid_cell = slow.pid_cell, .slow = code + SLOW_AT, .lost_shared = data + 8 * LOST, .no_stack = data + 8 * LOST,
		.ring_size = RING_SIZE_MIN, .id = 1, .nfields = ARRAY_SIZE(fields), .fields = fields,
	};

	for (int i = 0; i < CPUS; i++) {
		*word(&s->r, TABLE + i) = s->r.pieces[2].at.v;
		*word(&s->r, LOST_TABLE + i) = data + 8 * LOST;
	}
	*word(&s->r, FAST) = 1;
	*word(&s->r, RINGS) = s->r.pieces[2].at.v;
	*word(&s->r, PID_CELL) = s->pid;
	assert_true(arch_x86_64.emit_event_slow(s->r.pieces[0].here + SLOW_AT, &slow) > 0);
	return arch_x86_64.emit_event(s->r.pieces[0].here, code, &spec);
}

/* Our code, the window, the jump back: what the planner makes. Returns the pad's length. */
static int make_pad(struct scene *s, const void *site, int window, int n)
{
	uint64_t pad = s->r.pieces[0].at.v, at = (uintptr_t)site;
	uint8_t *out = s->r.pieces[0].here;
	struct edit *e = vec_add(&s->r.patch.edits);
	int len, done = 0;
	struct insn in;

	assert_true(n > 0);
	*vec_add(&s->r.patch.moves_out) = (struct move){ TADDR(pad), TADDR(at) };
	for (; done < window; done += in.len) {
		arch_x86_64.decode((uint8_t *)site + done, 15, at + done, &in);
		*vec_add(&s->r.patch.moves_out) = (struct move){ TADDR(pad + n), TADDR(at + done) };
		len = arch_x86_64.relocate((uint8_t *)site + done, &in, at + done, pad + n, out + n);
		assert_true(len > 0);
		n += len;
	}
	*vec_add(&s->r.patch.moves_out) = (struct move){ TADDR(pad + n), TADDR(at + window) };
	arch_x86_64.jump(out + n, pad + n, at + window);
	e->at = e->resume = TADDR(at);
	e->len = window;
	memcpy(e->old, site, window);
	memset(e->new, 0xcc, window);
	arch_x86_64.jump(e->new, at, pad);
	return n + 5;
}

static uint64_t hits(struct rig *r)
{
	uint64_t sum = *word(r, SHARED) + *word(r, LOST) + ring(r)->head / event_len(3);

	for (int i = 0; i < CPUS; i++)
		sum += *word(r, COUNTERS + i);
	return sum;
}

static uint64_t stopped_at(pid_t pid)
{
	struct user_regs_struct regs;
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
	return regs.rip;
}

static bool in_pad(struct scene *s, uint64_t pc, int len)
{
	uint64_t off = pc - s->r.pieces[0].at.v;

	return off < (uint64_t)len || off - SLOW_AT < EVENT_SLOW_MAX;
}

/* Lead the target n instructions into the pad, and let go with a signal. False: the pad has fewer. */
static bool lead(struct scene *s, int len, int n, int sig)
{
	uint64_t pc;
	bool there = false;

	assert_int_equal(ptrace(PTRACE_SEIZE, s->pid, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, s->pid, 0, 0), 0);
	pc = stopped_at(s->pid);
	s->c->gentle = 1;
	while (!in_pad(s, pc, len)) {
		ptrace(PTRACE_SINGLESTEP, s->pid, 0, 0);
		pc = stopped_at(s->pid);
	}
	for (; n > 0 && in_pad(s, pc, len); n--) {
		ptrace(PTRACE_SINGLESTEP, s->pid, 0, 0);
		pc = stopped_at(s->pid);
	}
	there = in_pad(s, pc, len);
	ptrace(PTRACE_DETACH, s->pid, 0, there ? sig : 0);
	return there;
}

struct way {
	void (*body)(struct control *);
	int (*put)(struct scene *s, bool has_rseq);
	const void *site;
	bool has_rseq;
	int sig;		/* SIGSTOP: the thread itself; else a handler */
	bool stop_too;		/* and then the program is stopped */
};

static void remove_at(struct scene *s, const struct way *w)
{
	int status;

	if (w->sig == SIGSTOP)
		wait_for_state(s->pid, 'T');
	else
		wait_for(&s->c->handler, 1);
	if (w->stop_too) {
		kill(s->pid, SIGSTOP);
		wait_for_state(s->pid, 'T');
	}
	remove_clean(s);
	assert_int_equal(s->c->answered, 0);
	if (w->sig == SIGSTOP || w->stop_too) {
		wait_for_state(s->pid, 'T');
		assert_int_equal(waitpid(s->pid, &status, WUNTRACED | WNOHANG), s->pid);
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		kill(s->pid, SIGCONT);
	}
	s->c->release = 1;
	wait_for(&s->c->answered, 1);
	assert_int_equal(s->c->answer, 43);
}

/* Returns whether the pad has that many instructions. */
static bool one(const struct way *w, int n)
{
	struct scene s;
	uint64_t now;
	bool there;
	int len;

	scene_open(&s, w->body);
	len = make_pad(&s, w->site, WINDOW, w->put(&s, w->has_rseq));
	text_patch_sort(&s.r.patch);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	there = lead(&s, len, n, w->sig);
	if (there) {
		remove_at(&s, w);
		now = hits(&s.r);
		if (now != (n > 0))
			print_error("%d instructions into the pad: %lu hits\n", n, (unsigned long)now);
		assert_int_equal(now, n > 0);
	} else {
		wait_for(&s.c->answered, 1);
		remove_clean(&s);
	}
	s.c->answered = s.c->release = 0;
	scene_close(&s);
	munmap(s.c, 4096);
	return there;
}

static void everywhere(const struct way *w, int least)
{
	int n = 0;

	while (one(w, n))
		n++;
	assert_true(n >= least);
}

static void test_stopped_thread(void **state)
{
	everywhere(&(struct way){ body_plain, put_count, hot, true, SIGSTOP, false }, 15);
}

static void test_stopped_thread_shared(void **state)
{
	everywhere(&(struct way){ body_plain, put_count, hot, false, SIGSTOP, false }, 12);
}

static void test_stopped_thread_in_call(void **state)
{
	everywhere(&(struct way){ body_plain, put_count, caller_window, true, SIGSTOP, false }, 18);
}

static void test_handler(void **state)
{
	everywhere(&(struct way){ body_plain, put_count, hot, true, SIGUSR1, false }, 15);
}

static void test_handler_alternate(void **state)
{
	everywhere(&(struct way){ body_alternate, put_count, hot, true, SIGUSR1, false }, 15);
}

static void test_handler_in_call(void **state)
{
	everywhere(&(struct way){ body_alternate, put_count, caller_window, true, SIGUSR1, false }, 18);
}

static void test_handler_stopped(void **state)
{
	everywhere(&(struct way){ body_alternate, put_count, caller_window, false, SIGUSR1, true }, 15);
}

static void test_event(void **state)
{
	everywhere(&(struct way){ body_plain, put_event, hot, true, SIGSTOP, false }, 40);
	everywhere(&(struct way){ body_plain, put_event, hot, false, SIGSTOP, false }, 40);
	everywhere(&(struct way){ body_crossing, put_event, hot, false, SIGSTOP, false }, 120);
}

/* Asked to, it wipes a word and looks whether that was done. */
static void body_wipe(struct control *c)
{
	static long page[512];

	c->ready = READY;
	for (;;) {
		while (!c->gentle)
			;
		c->gentle = 0;
		page[256] = 5;
		__asm__ volatile("" : : : "memory");
		c->answer = wipe(&page[256]) + page[256];
		c->answered = 1;
	}
}

/*
 * A copy of an instruction of the program is not ours to do: without a place in the text to go on, it
 * is left to the thread, and so is the arena.
 */
static void test_copy_is_left_alone(void **state)
{
	struct scene s;
	int n, len;

	scene_open(&s, body_wipe);
	n = put_count(&s, false);
	len = make_pad(&s, wipe, 7, n);
	s.r.patch.moves_out.n = 0;
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	assert_true(lead(&s, len, 12, SIGSTOP));
	wait_for_state(s.pid, 'T');
	must(text_remove(s.r.p, s.r.a, &s.rep));
	assert_true(s.rep.arena_left);
	kill(s.pid, SIGCONT);
	wait_for(&s.c->answered, 1);
	assert_int_equal(s.c->answer, 20);
	remove_clean(&s);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped_thread),
		cmocka_unit_test(test_stopped_thread_shared),
		cmocka_unit_test(test_stopped_thread_in_call),
		cmocka_unit_test(test_handler),
		cmocka_unit_test(test_handler_alternate),
		cmocka_unit_test(test_handler_in_call),
		cmocka_unit_test(test_handler_stopped),
		cmocka_unit_test(test_event),
		cmocka_unit_test(test_copy_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
