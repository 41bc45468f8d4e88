/* SPDX-License-Identifier: MIT */
/*
 * Stopping targets that do not keep still: many threads, threads being born and dying, signals by the
 * thousand, stopped ones, a main thread that has ended.
 */
#include "proc_target.h"

#define MANY 200

static void many_threads(void *arg)
{
	pthread_attr_t attr;
	pthread_t t;
	long i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (i = 1; i < MANY; i++)
		pthread_create(&t, &attr, count_turns, (void *)i);
	sh->ready = 1;
	count_turns(NULL);
}

static void two_hundred_threads(void **state)
{
	uint64_t best = ~0ull, before;
	struct proc *p;
	pid_t pid;
	int i;

	fresh_shared();
	pid = start_target(many_threads, NULL);
	assert_true(wait_until(&sh->ready, 1));
	p = opened(pid);
	for (i = 0; i < 20; i++) {
		uint64_t t;

		assert_ok(proc_stop(p));
		t = now_ns() - p->stopped_at;
		best = t < best ? t : best;
		assert_int_equal(stopped_threads(p), MANY);
		before = all_turns();
		sleep_ns(2000000);
		assert_int_equal(all_turns(), before);
		assert_ok(proc_resume(p));
		wait_for_turns(before);
	}
	print_message("%d threads stop in %lu us at best\n", MANY, (unsigned long)(best / 1000));
	assert_true(best < 1000000000);
	proc_close(p);
	end_target(pid);
}

static void *short_life(void *arg)
{
	__atomic_fetch_add(&sh->value, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void *breed(void *arg)
{
	long me = (long)arg;
	pthread_t t;

	for (;;) {
		if (pthread_create(&t, NULL, short_life, NULL) == 0)
			pthread_join(t, NULL);
		sh->turns[me]++;
	}
	return NULL;
}

static void breeding(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, breed, (void *)1);
	pthread_create(&t, NULL, breed, (void *)2);
	breed(NULL);
}

/* While it is stopped nothing moves at all; afterwards everything does. */
static void threads_come_and_go(void **state)
{
	struct proc *p;
	pid_t pid;
	int i;

	fresh_shared();
	pid = start_target(breeding, NULL);
	assert_true(wait_until(&sh->turns[0], 10));
	p = opened(pid);
	for (i = 0; i < 300; i++) {
		uint64_t before, born;

		assert_ok(proc_stop(p));
		before = all_turns();
		born = sh->value;
		if (i % 3 == 0)
			borrowed(p, SYS_getpid, 0, 0);
		sleep_ns(200000);
		assert_int_equal(all_turns(), before);
		assert_int_equal(sh->value, born);
		assert_ok(proc_resume(p));
		if (i % 10 == 0)
			sleep_ns(1000000);
	}
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 10));
	assert_true(wait_until(&sh->turns[1], sh->turns[1] + 10));
	proc_close(p);
	end_target(pid);
}

static void gives_birth(void *arg)
{
	pthread_t t;

	sh->ready = 1;
	while (!sh->stop)
		sleep_ns(100000);
	pthread_create(&t, NULL, count_turns, (void *)1);
	count_turns(NULL);
}

static void wait_for_birth(const char *step)
{
	if (strcmp(step, "stop: seized") || sh->stop)
		return;
	sh->stop = 1;
	wait_until(&sh->turns[1], 1);
}

/* A thread that is made when the others have been listed already is stopped as well. */
static void born_during_the_stop(void **state)
{
	uint64_t before;
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(gives_birth, NULL);
	assert_true(wait_until(&sh->ready, 1));
	p = opened(pid);
	proc_step_hook = wait_for_birth;
	assert_ok(proc_stop(p));
	proc_step_hook = NULL;
	assert_true(sh->turns[1]);
	assert_int_equal(stopped_threads(p), 2);
	before = all_turns();
	sleep_ns(10000000);
	assert_int_equal(all_turns(), before);
	assert_ok(proc_resume(p));
	assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
	proc_close(p);
	end_target(pid);
}

/* Queued signals carry a number each: none may be lost, doubled or overtaken. */
static void on_numbered(int sig, siginfo_t *info, void *ctx)
{
	if ((uint64_t)info->si_value.sival_ptr != sh->value)
		sh->wrong = __LINE__;
	sh->value++;
}

static void on_plain(int sig)
{
	sh->extra++;
}

static void under_storm(void *arg)
{
	struct sigaction sa = { .sa_sigaction = on_numbered, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction plain = { .sa_handler = on_plain };
	bool avx = CHECK_AVX;
	uint64_t n;

	sigaction(SIGRTMIN, &sa, NULL);
	sigaction(SIGUSR1, &plain, NULL);
	sh->ready = 1;
	for (n = 1;; n++) {
		if (!registers_hold(n, avx))
			sh->wrong = __LINE__;
		if (getppid() <= 0)
			sh->wrong = __LINE__;
		sh->turns[0] = n;
	}
}

/* About 20,000 signals a second. */
static void storm(void *arg)
{
	pid_t target = *(pid_t *)arg;
	uint64_t n;

	for (n = 0; !sh->stop; n++) {
		union sigval v = { .sival_ptr = (void *)n };

		while (sigqueue(target, SIGRTMIN, v) < 0 && errno == EAGAIN && !sh->stop)
			sched_yield();
		if (n % 4 == 0)
			kill(target, SIGUSR1);
		sleep_ns(1000);
	}
	sh->turns[1] = n;
}

static void signal_storm(void **state)
{
	pid_t pid, sender;
	struct proc *p;
	int i;

	fresh_shared();
	pid = start_target(under_storm, NULL);
	assert_true(wait_until(&sh->ready, 1));
	sender = start_target(storm, &pid);
	assert_true(wait_until(&sh->value, 100));
	p = opened(pid);
	for (i = 0; i < 1000; i++) {
		assert_ok(proc_stop(p));
		assert_int_equal(borrowed(p, SYS_getpid, 0, 0), pid);
		assert_int_equal(borrowed(p, SYS_getppid, 0, 0), getpid());
		assert_ok(proc_resume(p));
	}
	sh->stop = 1;
	waitpid(sender, NULL, 0);
	assert_true(wait_until(&sh->value, sh->turns[1]));
	assert_int_equal(sh->value, sh->turns[1]);
	assert_int_equal(sh->wrong, 0);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 10));
	print_message("%lu signals during 1000 borrows\n", (unsigned long)sh->value);
	proc_close(p);
	end_target(pid);
}

/*
 * Seizing takes its time on a busy machine: the reaper looks after the threads meanwhile, and must
 * leave alone those that have stopped to take a signal.
 */
static void slow_step(const char *step)
{
	if (strcmp(step, "stop: seized") == 0)
		sleep_ns(15000000);
}

static void *hit_by_signals(void *arg)
{
	under_storm(NULL);
	return NULL;
}

static void four_under_storm(void *arg)
{
	pthread_t t;
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&t, NULL, hit_by_signals, NULL);
	sh->turns[1] = 1;
	hit_by_signals(NULL);
}

static void plain_storm(void *arg)
{
	while (!sh->stop) {
		kill(*(pid_t *)arg, SIGUSR1);
		sleep_ns(100000);
	}
}

static void slow_seizing(void **state)
{
	pid_t pid, sender;
	struct proc *p;
	int i;

	fresh_shared();
	pid = start_target(four_under_storm, NULL);
	assert_true(wait_until(&sh->ready, 1) && wait_until(&sh->turns[1], 1));
	sender = start_target(plain_storm, &pid);
	assert_true(wait_until(&sh->extra, 10));
	p = opened(pid);
	proc_step_hook = slow_step;
	for (i = 0; i < 10; i++) {
		assert_ok(proc_stop(p));
		assert_int_equal(stopped_threads(p), 4);
		assert_ok(proc_resume(p));
	}
	proc_step_hook = NULL;
	assert_true(wait_until(&sh->extra, sh->extra + 10));
	assert_int_equal(sh->wrong, 0);
	proc_close(p);
	end_target(sender);
	end_target(pid);
}

static void stopped_stays_stopped(void **state)
{
	struct proc *p;
	uint64_t before;
	pid_t pid;
	int i, status;

	fresh_shared();
	pid = start_target(two_threads, NULL);
	assert_true(wait_until(&sh->turns[1], 2));
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	p = opened(pid);
	for (i = 0; i < 20; i++) {
		one_round(p);
		wait_state(pid, 'T');
	}
	before = all_turns();
	sleep_ns(10000000);
	assert_int_equal(all_turns(), before);
	kill(pid, SIGCONT);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
	/* A stop signal that comes while we hold it, before and in the middle of a borrow. */
	for (i = 0; i < 10; i++) {
		assert_ok(proc_stop(p));
		if (i & 1)
			borrowed(p, SYS_getpid, 0, 0);
		kill(pid, SIGSTOP);
		assert_int_equal(borrowed(p, SYS_getpid, 0, 0), pid);
		assert_ok(proc_resume(p));
		wait_state(pid, 'T');
		kill(pid, SIGCONT);
		assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
		assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
	}
	/* And SIGCONT while we hold it. */
	kill(pid, SIGSTOP);
	wait_state(pid, 'T');
	assert_ok(proc_stop(p));
	kill(pid, SIGCONT);
	borrowed(p, SYS_getpid, 0, 0);
	assert_ok(proc_resume(p));
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
	proc_close(p);
	end_target(pid);
}

static void main_ends(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, count_turns, (void *)1);
	pthread_exit(NULL);
}

static void main_thread_gone(void **state)
{
	struct proc *p;
	pid_t pid;
	int i;

	fresh_shared();
	pid = start_target(main_ends, NULL);
	assert_true(wait_until(&sh->turns[1], 2));
	wait_state(pid, 'Z');
	p = opened(pid);
	assert_true(p->maps.n > 0);
	assert_ok(proc_read_maps(p));
	for (i = 0; i < 20; i++)
		one_round(p);
	assert_true(proc_alive(p));
	assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
	proc_close(p);
	end_target(pid);
}

/* The main thread ends while we are tracing: between stops, and in one. */
static void main_ends_later(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, count_turns, (void *)1);
	while (!sh->stop)
		sleep_ns(10000);
	pthread_exit(NULL);
}

static void main_thread_leaves(void **state)
{
	struct proc *p;
	pid_t pid;
	int i;

	for (i = 0; i < 10; i++) {
		fresh_shared();
		pid = start_target(main_ends_later, NULL);
		assert_true(wait_until(&sh->turns[1], 1));
		p = opened(pid);
		one_round(p);
		sh->stop = 1;
		if (i & 1)
			wait_state(pid, 'Z');
		one_round(p);
		one_round(p);
		assert_true(wait_until(&sh->turns[1], sh->turns[1] + 2));
		assert_true(proc_alive(p));
		kill(pid, SIGKILL);
		while (proc_alive(p))
			sleep_ns(100000);
		proc_close(p);
		end_target(pid);
	}
}

/* Waits for a child with memory of its own, and can't be interrupted meanwhile. */
static void sleep_soundly(void *arg)
{
	if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sh->ready = 1;
		while (!sh->stop)
			sleep_ns(100000);
		_exit(0);
	}
	count_turns(NULL);
}

/* It stops long after we have given up and closed it: then whoever comes by next lets it go. */
static void stops_too_late(void **state)
{
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(sleep_soundly, NULL);
	assert_true(wait_until(&sh->ready, 1));
	p = opened(pid);
	assert_int_equal(proc_stop(p), -EBUSY);
	proc_close(p);
	proc_close(opened(pid));	/* ours already, which is no reason to be refused */
	sh->stop = 1;
	wait_state(pid, 't');
	p = opened(pid);
	assert_true(wait_until(&sh->turns[0], 2));
	one_round(p);
	proc_close(p);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	end_target(pid);
}

struct rival { pid_t pid; uint64_t ns; };

static void trace_for(void *arg)
{
	struct rival *r = arg;

	if (ptrace(PTRACE_SEIZE, r->pid, 0, 0) < 0)
		sh->wrong = __LINE__;
	sh->ready = 1;
	sleep_ns(r->ns);
}

/* One that attaches as well and leaves at once; and one that stays. */
static void another_tracer(void **state)
{
	struct rival r = { .ns = 20000000 };
	struct proc *p;
	pid_t other;

	fresh_shared();
	r.pid = start_target(two_threads, NULL);
	assert_true(wait_until(&sh->turns[1], 1));
	p = opened(r.pid);
	for (int i = 0; i < 2; i++) {
		sh->ready = 0;
		other = start_target(trace_for, &r);
		assert_true(wait_until(&sh->ready, 1));
		assert_int_equal(proc_stop(p), i ? -EBUSY : 0);
		if (!i)
			assert_ok(proc_resume(p));
		end_target(other);
		r.ns = 100000000000ull;
	}
	assert_int_equal(sh->wrong, 0);
	proc_close(p);
	end_target(r.pid);
}

static void stops_nest(void **state)
{
	struct proc *p;
	uint64_t before;
	pid_t pid;

	fresh_shared();
	pid = start_target(two_threads, NULL);
	assert_true(wait_until(&sh->turns[1], 1));
	p = opened(pid);
	assert_int_equal(proc_resume(p), -EINVAL);
	assert_ok(proc_stop(p));
	one_round(p);
	before = all_turns();
	sleep_ns(5000000);
	assert_int_equal(all_turns(), before);
	assert_ok(proc_resume(p));
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	assert_true(p->pause_ns >= 5000000);
	proc_close(p);
	end_target(pid);
}

static bool each_one(void *arg, const struct thread *t)
{
	return true;
}

/* A moment for some threads, as removal gives to handlers above pads, is none for a program that SIGSTOP has stopped. */
static void stopped_gets_no_moment(void **state)
{
	struct proc *p;
	uint64_t before;
	pid_t pid;
	int status;

	fresh_shared();
	pid = start_target(two_threads, NULL);
	assert_true(wait_until(&sh->turns[1], 2));
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	p = opened(pid);
	assert_ok(proc_stop(p));
	before = all_turns();
	assert_int_equal(threads_step(p, each_one, NULL, 20000000), 0);
	assert_int_equal(all_turns(), before);
	assert_ok(proc_resume(p));
	wait_state(pid, 'T');
	kill(pid, SIGCONT);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	proc_close(p);
	end_target(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_nest),
		cmocka_unit_test(another_tracer),
		cmocka_unit_test(two_hundred_threads),
		cmocka_unit_test(threads_come_and_go),
		cmocka_unit_test(born_during_the_stop),
		cmocka_unit_test(signal_storm),
		cmocka_unit_test(slow_seizing),
		cmocka_unit_test(stopped_stays_stopped),
		cmocka_unit_test(stopped_gets_no_moment),
		cmocka_unit_test(main_thread_gone),
		cmocka_unit_test(main_thread_leaves),
		cmocka_unit_test(stops_too_late),
	};

	return cmocka_run_group_tests_name("stopping", tests, NULL, NULL);
}
