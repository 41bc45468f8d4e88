/* SPDX-License-Identifier: MIT */
/*
 * Targets with relatives, and targets that end: children in the same memory (vfork, posix_spawn, bare
 * clones), other programs being executed, a death while we hold them.
 */
#include "proc_target.h"

#include <elf.h>
#include <spawn.h>

#include "proc/threads/ids.h"
#include "proc/internal.h"

/* A vfork child that takes its time: it runs in the parent's memory, the parent sleeps. */
static void slow_vfork(void *arg)
{
	pid_t pid = vfork();

	if (pid == 0) {
		uint64_t i;

		for (i = 0; !sh->stop; i++)
			sh->turns[1] = i;
		_exit(7);
	}
	sh->result = pid;
	sh->turns[0] = 1;
	waitpid(pid, (int *)&sh->error, 0);
	sh->turns[0] = 2;
	pause();
}

static void vfork_parent_is_held(void **state)
{
	uint64_t before;
	struct proc *p;
	pid_t pid;
	int i;

	fresh_shared();
	pid = start_target(slow_vfork, NULL);
	assert_true(wait_until(&sh->turns[1], 1000));
	p = opened(pid);
	for (i = 0; i < 10; i++) {
		assert_ok(proc_stop(p));
		assert_int_equal(p->threads.n, 2);
		assert_int_equal(stopped_threads(p), 1);
		assert_true(p->threads.v[0].held && p->threads.v[0].regs.call == SYS_vfork);
		assert_true(proc_map_at(p, p->threads.v[0].regs.cpu.pc) != NULL);
		assert_true(p->threads.v[1].stopped && p->threads.v[1].pid != pid);
		before = sh->turns[1];
		/* The memory is the same, so the child can be asked. */
		assert_int_equal(borrowed(p, SYS_gettid, 0, 0), p->threads.v[1].tid);
		sleep_ns(2000000);
		assert_int_equal(sh->turns[1], before);
		assert_ok(proc_resume(p));
		assert_true(wait_until(&sh->turns[1], before + 1000));
	}
	sh->stop = 1;
	assert_true(wait_until(&sh->turns[0], 2));
	assert_int_equal(WEXITSTATUS(sh->error), 7);
	one_round(p);
	proc_close(p);
	end_target(pid);
}

/* Processes being started all the time, from two threads. */
static void *spawner(void *arg)
{
	char *const argv[] = { "true", NULL };
	pid_t pid;
	int status;

	for (;;) {
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL) != 0)
			sh->wrong = __LINE__;
		else if (waitpid(pid, &status, 0) != pid || status != 0)
			sh->wrong = __LINE__;
		sh->turns[(long)arg]++;
	}
	return NULL;
}

static void spawning(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, spawner, (void *)1);
	spawner(NULL);
}

static void spawning_goes_on(void **state)
{
	struct proc *p;
	pid_t pid;
	int i;

	fresh_shared();
	pid = start_target(spawning, NULL);
	assert_true(wait_until(&sh->turns[0], 2));
	p = opened(pid);
	for (i = 0; i < 200; i++) {
		uint64_t before;

		assert_ok(proc_stop(p));
		before = all_turns();
		sleep_ns(100000);
		assert_int_equal(all_turns(), before);
		if (i & 1)
			borrowed(p, SYS_getppid, 0, 0);
		assert_ok(proc_resume(p));
		if (i % 8 == 0)
			sleep_ns(2000000);
	}
	while (priv(p)->limbo.n)
		proc_alive(p);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 3));
	assert_true(wait_until(&sh->turns[1], sh->turns[1] + 3));
	assert_int_equal(sh->wrong, 0);
	proc_close(p);
	end_target(pid);
}

/* One that could not be stopped when its target was closed: it stops one day, and there may be no other target then. */
static void spinning(void *arg)
{
	for (;;)
		sh->turns[0]++;
}

static void who_stops_after_the_close_goes_on(void **state)
{
	struct proc *p;
	siginfo_t info;
	pid_t pid;

	fresh_shared();
	pid = start_target(spinning, NULL);
	p = opened(pid);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, 0, 0), 0);
	*vec_add(&priv(p)->limbo) = pid;
	proc_close(p);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT | __WALL), 0);
	proc_settle();
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 1000));
	end_target(pid);
}

/* A child in the same memory executes another program between being seized and being asked to stop, so it stops after that. */
static int executes_when_asked(void *arg)
{
	char *const argv[] = { "sleep", "1000", NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!sh->stop)
		sh->turns[1]++;
	syscall(SYS_execve, "/bin/sleep", argv, NULL);
	return 1;
}

static void child_that_executes(void *arg)
{
	static char stack[65536];

	sh->value = clone(executes_when_asked, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	for (;;)
		pause();
}

static bool runs_sleep(pid_t pid)
{
	char path[64], name[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	return file_read(path, name, sizeof(name)) > 0 && !strcmp(name, "sleep\n");
}

static void let_it_execute(const char *step)
{
	if (strcmp(step, "stop: seized") || !status_of(sh->value, "TracerPid"))
		return;
	sh->stop = 1;
	for (int i = 0; i < 50000 && !runs_sleep(sh->value); i++)
		sleep_ns(100000);
}

static void child_has_executed_before_it_stops(void **state)
{
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(child_that_executes, NULL);
	assert_true(wait_until(&sh->turns[1], 1));
	assert_true(wait_until(&sh->value, 1));		/* the child may run before its parent knows its number */
	p = opened(pid);
	proc_step_hook = let_it_execute;
	assert_ok(proc_stop(p));
	proc_step_hook = NULL;
	assert_int_equal(sh->stop, 1);
	assert_true(runs_sleep(sh->value));
	for (size_t i = 0; i < p->threads.n; i++)
		assert_true(p->threads.v[i].gone || p->threads.v[i].pid == pid);
	assert_int_equal(status_of(sh->value, "TracerPid"), 0);
	assert_ok(proc_resume(p));
	proc_close(p);
	kill(sh->value, SIGKILL);
	end_target(pid);
}

/* Killed, or executing another program, while we hold it or just before. */
static void ends_in_the_middle(void **state)
{
	uint64_t args[6] = { 0 };
	int64_t value;
	struct proc *p;
	pid_t pid;
	int i;

	for (i = 0; i < 20; i++) {
		fresh_shared();
		pid = start_target(two_threads, NULL);
		assert_true(wait_until(&sh->turns[1], 1));
		p = opened(pid);
		assert_ok(proc_stop(p));
		if (i & 1)
			borrowed(p, SYS_getpid, 0, 0);
		kill(pid, SIGKILL);
		if (i & 2)
			assert_int_equal(proc_syscall(p, SYS_getpid, args, &value), -ESRCH);
		proc_resume(p);
		while (proc_alive(p))
			sleep_ns(100000);
		assert_int_equal(proc_stop(p), -ESRCH);
		proc_close(p);
		end_target(pid);
	}
}

/*
 * A program with many threads that executes itself again and again, from any of them. There is a
 * trap for tracers in that (reaper.c); it shows after some hundred stops.
 */
static char *const exec_argv[] = { "test_proc_family", "--exec", NULL };

static void *execute_again(void *arg)
{
	sleep_ns(500000 + now_ns() % 2000000);
	execv("/proc/self/exe", exec_argv);
	return NULL;
}

static void *doze(void *arg)
{
	for (;;)
		sleep_ns(100000);
	return NULL;
}

/* The shared page has come as this descriptor. */
#define PAGE_FD 200

__attribute__((noreturn)) static void executed(void)
{
	pthread_t t;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED, PAGE_FD, 0);
	sh->turns[0]++;
	for (i = 0; i < 12; i++)
		pthread_create(&t, NULL, doze, NULL);
	if (sh->turns[0] & 1)
		pthread_create(&t, NULL, execute_again, NULL);
	else
		execute_again(NULL);
	for (;;)
		pause();
}

static void executing(void *arg)
{
	execv("/proc/self/exe", exec_argv);
}

static void executes_meanwhile(void **state)
{
	int i, fd = memfd_create("test", MFD_CLOEXEC), ok = 0;
	struct shared *own = sh;
	pid_t pid;

	assert_int_equal(ftruncate(fd, sizeof(*sh)), 0);
	assert_int_equal(dup2(fd, PAGE_FD), PAGE_FD);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid = start_target(executing, NULL);
	assert_true(wait_until(&sh->turns[0], 2));
	/* Under load most of them come too late: the program has executed meanwhile. */
	for (i = 0; i < 400 || (ok <= 100 && i < 10000); i++) {
		uint64_t t = now_ns();
		struct proc *p;

		if (proc_open(pid, &p) < 0)
			continue;
		if (proc_stop(p) == 0) {
			ok++;
			proc_resume(p);
		}
		proc_close(p);
		assert_true(now_ns() - t < PATIENCE_NS);	/* the trap is for ever */
		sleep_ns(now_ns() % 300000);
	}
	assert_true(ok > 100);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 3));
	end_target(pid);
	close(PAGE_FD);
	close(fd);
	sh = own;
}

/*
 * So many children that their list is longer than a page; the last one shares the memory and would
 * run through text that is being written.
 */
#define CHILDREN 900

static int run_in_same_memory(void *arg)
{
	for (uint64_t i = 0; ; i++)
		sh->turns[1] = i;
	return 0;
}

static void many_children(void *arg)
{
	static char stack[65536];
	pid_t parent = getpid();

	for (int i = 0; i < CHILDREN; i++)
		if (fork() == 0) {
			die_with(parent);
			pause();
			_exit(0);
		}
	sh->value = clone(run_in_same_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	sh->ready = 1;
	pause();
}

static void last_of_many_children(void **state)
{
	uint64_t before;
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(many_children, NULL);
	assert_true(wait_until(&sh->ready, 1) && wait_until(&sh->turns[1], 1));
	p = opened(pid);
	assert_ok(proc_stop(p));
	assert_int_equal(stopped_threads(p), 2);
	before = sh->turns[1];
	sleep_ns(2000000);
	assert_int_equal(sh->turns[1], before);
	assert_ok(proc_resume(p));
	assert_true(wait_until(&sh->turns[1], before + 1000));
	proc_close(p);
	kill(sh->value, SIGKILL);
	end_target(pid);
}

/* A program that we started ends while we hold it: how it ended is not lost, whoever collected it. */
static void end_of_our_child(void **state)
{
	char *const argv[] = { "sleep", "100", NULL };
	uint64_t args[6] = { 0 };
	int64_t value;
	int status, i;

	for (i = 0; i < 4; i++) {
		struct proc *p;

		assert_ok(proc_spawn(argv, &p));
		assert_int_equal(proc_child_ended(p, &status), 0);
		if (i & 1)
			borrowed(p, SYS_getpid, 0, 0);
		kill(p->pid, SIGKILL);
		wait_state(p->pid, 'Z');
		if (i & 2)
			assert_int_equal(proc_syscall(p, SYS_getpid, args, &value), -ESRCH);
		proc_resume(p);
		assert_int_equal(proc_stop(p), -ESRCH);
		assert_int_equal(proc_child_ended(p, &status), 1);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		assert_int_equal(proc_child_ended(p, &status), 1);
		proc_close(p);
	}
}

/* The path of a program may stand anywhere: on two pages, and at the end of the last one. */
static void text_on_two_pages(void **state)
{
	static const char text[] = "/usr/lib/somewhere/program";
	char *at = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char got[64] = "", brief[8] = "";

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at + 2 * 4096, 4096, PROT_NONE), 0);
	for (size_t before = 0; before <= sizeof(text); before++) {
		memcpy(at + 4096 - before, text, sizeof(text));
		memset(got, 0, sizeof(got));
		thread_read_text(getpid(), TADDR((uint64_t)(at + 4096 - before)), got, sizeof(got));
		assert_string_equal(got, text);
	}
	memcpy(at + 2 * 4096 - sizeof(text) + 1, text, sizeof(text) - 1);	/* without its end */
	thread_read_text(getpid(), TADDR((uint64_t)(at + 2 * 4096 - sizeof(text) + 1)), got, sizeof(got));
	assert_string_equal(got, text);
	thread_read_text(getpid(), TADDR((uint64_t)(at + 4096 - sizeof(text))), brief, sizeof(brief));
	assert_int_equal(strlen(brief), sizeof(brief) - 1);
	munmap(at, 3 * 4096);
}

static void hop(int left)
{
	char next[16];

	snprintf(next, sizeof(next), "%d", left - 1);
	if (left)
		execl("/proc/self/exe", "hop", "--hop", next, NULL);
	_exit(0);
}

static void hops(void *arg)
{
	hop(1000);
}

/* It executes programs all the time. Whoever was opened has what tells it from the next one, also in the middle of that. */
static void opened_while_it_executes(void **state)
{
	int opened = 0;
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(hops, NULL);
	while (state_of(pid) != 'Z') {
		struct proc_priv *v;

		if (proc_open(pid, &p) < 0) {
			assert_int_equal(state_of(pid), 'Z');
			break;
		}
		v = p->priv;
		if (v->auxv_len)
			assert_true(((Elf64_auxv_t *)v->auxv)->a_type != AT_NULL);
		proc_close(p);
		opened++;
	}
	assert_true(opened > 20);
	end_target(pid);
}

/* Its parent takes notice of its end at any moment of ours. It is gone then, and nothing else is said of it. */
static void opened_while_it_is_taken_away(void **state)
{
	for (int i = 0; i < 1500; i++) {
		struct proc *p;
		int fds[2], r;
		pid_t parent, pid;

		assert_int_equal(pipe(fds), 0);
		parent = fork();
		if (!parent) {
			pid = fork();
			if (!pid)
				_exit(0);
			(void)!write(fds[1], &pid, sizeof(pid));
			waitpid(pid, NULL, 0);
			_exit(0);
		}
		assert_int_equal(read(fds[0], &pid, sizeof(pid)), sizeof(pid));
		while ((r = proc_open(pid, &p)) == 0)
			proc_close(p);
		if (r != -ESRCH)
			fail_msg("%d: %s", r, err_text());
		waitpid(parent, NULL, 0);
		close(fds[0]);
		close(fds[1]);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_on_two_pages),
		cmocka_unit_test(vfork_parent_is_held),
		cmocka_unit_test(spawning_goes_on),
		cmocka_unit_test(who_stops_after_the_close_goes_on),
		cmocka_unit_test(last_of_many_children),
		cmocka_unit_test(child_has_executed_before_it_stops),
		cmocka_unit_test(ends_in_the_middle),
		cmocka_unit_test(end_of_our_child),
		cmocka_unit_test(executes_meanwhile),
		cmocka_unit_test(opened_while_it_executes),
		cmocka_unit_test(opened_while_it_is_taken_away),
	};

	if (argc > 2 && !strcmp(argv[1], "--hop"))
		hop(atoi(argv[2]));
	if (argc > 1)
		executed();

	return cmocka_run_group_tests_name("relatives and ends", tests, NULL, NULL);
}
