/* SPDX-License-Identifier: MIT */
/*
 * Program counters inside windows and pads, wherever they are kept: in a thread, in a signal frame,
 * behind a system call, in the name of a restartable sequence.
 */
#include "text_target.h"

#include <ucontext.h>

/* A thread inside the window is moved to the same instruction in the pad, and back. */
static void test_thread_inside(void **state)
{
	struct scene s;

	scene_open(&s, body_stay);
	wait_for_pc(s.pid, (char *)stay + 3);
	add_site(&s.r, stay, 5, 3, 0);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	assert_int_equal(target_pc(s.pid), s.r.pieces[0].at.v + PAD_COPY + 3);
	remove_clean(&s);
	assert_int_equal(target_pc(s.pid), (uintptr_t)stay + 3);
	scene_close(&s);
}

/* One that never leaves a pad and can't be moved: the arena stays, the text is back. */
static void test_thread_stays(void **state)
{
	struct scene s;

	scene_open(&s, body_stay);
	wait_for_pc(s.pid, (char *)stay + 3);
	add_site(&s.r, stay, 5, 3, 0);
	s.r.patch.moves_out.n = 0;
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	must(text_remove(s.r.p, s.r.a, &s.rep));
	assert_true(s.rep.arena_left);
	assert_false(s.rep.verified);
	assert_int_equal(text_byte(s.pid, stay), 0x48);
	rig_close(&s.r);
	look_free(&s.before);
	target_end(s.pid, s.c);
}

/*
 * A signal that comes exactly inside a window: the second instruction reads a page without access.
 * The handler waits until it is released, then permits the access and returns.
 */
static struct control *fault_control;
static long *fault_page;

static void wait_in_handler(void)
{
	fault_control->handler = 1;
	while (!fault_control->release)
		usleep(100);
	fault_control->handler = 0;
	fault_control->release = 0;
}

static void on_usr1(int sig)
{
	wait_in_handler();
}

static void on_fault(int sig)
{
	wait_in_handler();
	mprotect(fault_page, 4096, PROT_READ | PROT_WRITE);
}

static void on_fault_nested(int sig)
{
	raise(SIGUSR1);
	mprotect(fault_page, 4096, PROT_READ | PROT_WRITE);
}

static void faulting(struct control *c, void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };
	static char stack[65536];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	fault_control = c;
	fault_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sa.sa_handler = on_usr1;
	sa.sa_flags = 0;
	sigaction(SIGUSR1, &sa, NULL);
	c->ready = READY;
	for (;;) {
		c->answer = slow(5, fault_page);
		mprotect(fault_page, 4096, PROT_NONE);
		c->answered++;
	}
}

static void body_fault(struct control *c) { faulting(c, on_fault, 0); }
static void body_fault_alt(struct control *c) { faulting(c, on_fault, SA_ONSTACK); }
static void body_fault_nested(struct control *c) { faulting(c, on_fault_nested, SA_ONSTACK); }

static void answer_once(struct control *c)
{
	int before = c->answered;

	c->release = 1;
	wait_for(&c->answered, before + 1);
	assert_int_equal(c->answer, 5);
	wait_for(&c->handler, 1);
}

static void moved_in_frame(void (*body)(struct control *))
{
	struct scene s;

	scene_open(&s, body);
	wait_for(&s.c->handler, 1);
	add_site(&s.r, slow, 6, 3, 0);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	answer_once(s.c);	/* returns into the pad, behind the count */
	assert_int_equal(*rig_counter(&s.r, 0), 1);	/* and comes back by the jump */
	remove_clean(&s);	/* while the saved counter is in the pad */
	answer_once(s.c);
	must(proc_read_maps(s.r.p));
	rig_close(&s.r);
	look_free(&s.before);
	target_end(s.pid, s.c);
}

static void test_frame(void **state) { moved_in_frame(body_fault); }
static void test_frame_alternate(void **state) { moved_in_frame(body_fault_alt); }
static void test_frame_nested(void **state) { moved_in_frame(body_fault_nested); }

/* A frame inside a window without a place to go: nothing is written. */
static void test_frame_stuck(void **state)
{
	struct scene s;

	scene_open(&s, body_fault_alt);
	wait_for(&s.c->handler, 1);
	add_site(&s.r, slow, 6, 3, 0);
	s.r.patch.moves_in.v[0].from.v++;
	assert_int_equal(text_apply(s.r.p, s.r.a, &s.r.patch), -EAGAIN);
	assert_int_equal(text_byte(s.pid, slow), 0x48);
	remove_clean(&s);
	answer_once(s.c);
	rig_close(&s.r);
	look_free(&s.before);
	target_end(s.pid, s.c);
}

/* A frame in a pad that can't be moved out is waited for; the text is back meanwhile. */
static void test_frame_waited_for(void **state)
{
	struct scene s;
	int status;
	pid_t helper;

	scene_open(&s, body_fault_alt);
	wait_for(&s.c->handler, 1);
	add_site(&s.r, slow, 6, 3, 0);
	s.r.patch.moves_out.n = 0;
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	helper = fork();
	if (!helper) {
		while (text_byte(s.pid, slow) != 0x48)
			usleep(1000);
		usleep(30000);
		s.c->release = 1;
		_exit(0);
	}
	remove_clean(&s);
	waitpid(helper, &status, 0);
	wait_for(&s.c->answered, 1);
	assert_int_equal(s.c->answer, 5);
	rig_close(&s.r);
	look_free(&s.before);
	target_end(s.pid, s.c);
}

/*
 * An alternate stack that lies above the one in use, as in Go's heap, with what a handler has left there: a frame that
 * leads into a pad, whose instruction nobody can do any more. Nobody returns to it, so it keeps nothing.
 */
static void on_fault_once(int sig)
{
	mprotect(fault_page, 4096, PROT_READ | PROT_WRITE);
}

static void body_fault_over(struct control *c)
{
	struct sigaction sa = { .sa_handler = on_fault_once, .sa_flags = SA_ONSTACK };
	char stack[65536];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	fault_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	c->ready = READY;
	while (!c->release)
		usleep(100);
	c->answer = slow(5, fault_page);
	munmap(fault_page, 4096);
	c->answered++;
	for (;;)
		pause();
}

static void test_frame_of_the_past(void **state)
{
	struct scene s;

	scene_open(&s, body_fault_over);
	add_site(&s.r, slow, 6, 3, 0);
	s.r.patch.moves_out.n = 0;
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	s.c->release = 1;
	wait_for(&s.c->answered, 1);
	assert_int_equal(s.c->answer, 5);
	remove_clean(&s);
	rig_close(&s.r);
	look_free(&s.before);
	target_end(s.pid, s.c);
}

/* The window ends in `syscall`: a sleeper stands behind it, but a restart would go into our jump. */
static int ask_pipe[2];

static void nothing(int sig)
{
}

static void body_ask(struct control *c)
{
	struct sigaction sa = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	char byte;

	sigaction(SIGUSR1, &sa, NULL);
	c->ready = READY;
	for (;;) {
		c->answer = ask(ask_pipe[0], &byte, 1);
		c->answered++;
	}
}

static void feed(struct scene *s)
{
	int before = s->c->answered;

	kill(s->pid, SIGUSR1);
	wait_for_state(s->pid, 'S');
	assert_int_equal(s->c->answered, before);
	assert_int_equal(write(ask_pipe[1], "x", 1), 1);
	wait_for(&s->c->answered, before + 1);
	assert_int_equal(s->c->answer, 1);
	wait_for_state(s->pid, 'S');
}

static void test_window_ends_in_call(void **state)
{
	struct scene s;

	assert_int_equal(pipe(ask_pipe), 0);
	scene_open(&s, body_ask);
	wait_for_state(s.pid, 'S');
	add_site(&s.r, ask, 7, 5, 0);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	feed(&s);
	assert_int_equal(*rig_counter(&s.r, 0), 1);
	feed(&s);
	remove_clean(&s);
	feed(&s);
	feed(&s);
	scene_close(&s);

	scene_open(&s, body_ask);
	wait_for_state(s.pid, 'S');
	add_site(&s.r, ask, 7, 5, 0);
	s.r.patch.moves_in.n = 0;
	assert_int_equal(text_apply(s.r.p, s.r.a, &s.r.patch), -EAGAIN);
	feed(&s);
	remove_clean(&s);
	scene_close(&s);
	close(ask_pipe[0]);
	close(ask_pipe[1]);
}

/* A thread at the jump in filler is sent to the place that hops there. */
static void body_parked(struct control *c)
{
	c->ready = READY;
	for (;;)
		pause();
}

static void test_resume_elsewhere(void **state)
{
	uint64_t site = (uintptr_t)many, filler = site + 64;
	struct scene s;
	struct edit *e;

	scene_open(&s, body_parked);
	add_site(&s.r, many + 64, 6, 3, 0);	/* nops: the filler of this test */
	s.r.patch.moves_in.n = s.r.patch.moves_out.n = 0;
	e = &s.r.patch.edits.v[0];
	assert_int_equal(e->at.v, filler);
	e->resume = TADDR(site);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	must(proc_stop(s.r.p));
	must(thread_prepare_change(s.r.p, &s.r.p->threads.v[0]));
	s.r.p->threads.v[0].regs.cpu.pc = filler;
	must(proc_put_regs(s.r.p));
	remove_clean(&s);
	assert_int_equal(s.r.p->threads.v[0].regs.cpu.pc, site);
	kill(s.pid, SIGKILL);
	rig_close(&s.r);
	waitpid(s.pid, NULL, 0);
	look_free(&s.before);
}

/* An edit of which only the start is ever jumped to, and which does what has its place elsewhere: the long jump of a hop. */
static struct edit *add_landing(struct scene *s, uint64_t filler, uint64_t site)
{
	struct edit *e;

	add_site(&s->r, many + 64, 6, 3, 0);
	s->r.patch.moves_in.n = s->r.patch.moves_out.n = 0;
	e = &s->r.patch.edits.v[0];
	assert_int_equal(e->at.v, filler);
	e->resume = TADDR(site);
	return e;
}

/* The program stands where the long jump is going to be, in the window of another one: that is not its jump. */
static void test_thread_at_a_landing(void **state)
{
	uint64_t site = (uintptr_t)many, filler = site + 64, pad;
	struct scene s;

	scene_open(&s, body_parked);
	add_landing(&s, filler, site);
	pad = s.r.pieces[0].at.v + PAD_COPY;
	*vec_add(&s.r.patch.moves_in) = (struct move){ TADDR(filler), TADDR(pad) };
	must(proc_stop(s.r.p));
	must(thread_prepare_change(s.r.p, &s.r.p->threads.v[0]));
	s.r.p->threads.v[0].regs.cpu.pc = filler;
	must(proc_put_regs(s.r.p));
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	assert_int_equal(s.r.p->threads.v[0].regs.cpu.pc, pad);
	kill(s.pid, SIGKILL);
	rig_close(&s.r);
	waitpid(s.pid, NULL, 0);
	look_free(&s.before);
}

/* A user-level thread that a signal has interrupted, and that no thread stands on. */
static ucontext_t preempted, goes_on;
static struct control *preempted_control;

static void switch_away(int sig, siginfo_t *info, void *context)
{
	preempted_control->answer = (long)&((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	swapcontext(&preempted, &goes_on);
}

static void routine(void)
{
	raise(SIGALRM);
}

static void body_preempted(struct control *c)
{
	struct sigaction a = { .sa_sigaction = switch_away, .sa_flags = SA_SIGINFO };

	preempted_control = c;
	sigaction(SIGALRM, &a, NULL);
	getcontext(&preempted);
	preempted.uc_stack.ss_size = 65536;
	preempted.uc_stack.ss_sp = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	makecontext(&preempted, routine, 0);
	swapcontext(&goes_on, &preempted);
	body_parked(c);
}

/* It was between a short jump and the long one that this leads to. */
static void test_landing_in_a_hidden_frame(void **state)
{
	uint64_t site = (uintptr_t)many, filler = site + 64, pc;
	struct scene s;
	taddr slot;

	scene_open(&s, body_preempted);
	add_landing(&s, filler, site);
	must(text_apply(s.r.p, s.r.a, &s.r.patch));
	slot = TADDR(s.c->answer);
	must(proc_write(s.r.p, slot, &filler, sizeof(filler)));
	remove_clean(&s);
	must(proc_read(s.r.p, slot, &pc, sizeof(pc)));
	assert_int_equal(pc, site);
	kill(s.pid, SIGKILL);
	rig_close(&s.r);
	waitpid(s.pid, NULL, 0);
	look_free(&s.before);
}

/* A thread that still names a sequence in the arena: the kernel would look there and find nothing. */
static void test_sequence_named(void **state)
{
	struct rseq_conf conf;
	struct scene s;
	uint64_t cs;
	taddr slot;

	scene_open(&s, body_spin1);
	must(proc_stop(s.r.p));
	must(proc_rseq(s.r.p, &conf));
	if (conf.usable) {
		slot = TADDR(s.r.p->threads.v[0].regs.cpu.tls + conf.offset + 8);
		must(proc_write(s.r.p, slot, &s.r.pieces[1].at.v, 8));
		remove_clean(&s);
		must(proc_read(s.r.p, slot, &cs, 8));
		assert_int_equal(cs, 0);
	} else {
		remove_clean(&s);
	}
	must(proc_resume(s.r.p));
	assert_works(s.c, 0);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thread_inside),
		cmocka_unit_test(test_thread_stays),
		cmocka_unit_test(test_frame),
		cmocka_unit_test(test_frame_alternate),
		cmocka_unit_test(test_frame_nested),
		cmocka_unit_test(test_frame_stuck),
		cmocka_unit_test(test_frame_waited_for),
		cmocka_unit_test(test_frame_of_the_past),
		cmocka_unit_test(test_window_ends_in_call),
		cmocka_unit_test(test_resume_elsewhere),
		cmocka_unit_test(test_thread_at_a_landing),
		cmocka_unit_test(test_landing_in_a_hidden_frame),
		cmocka_unit_test(test_sequence_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
