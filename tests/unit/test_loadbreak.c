/* SPDX-License-Identifier: MIT */
/* The breakpoint by which a new program's loader is followed. */
#include <link.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include "proc_target.h"
#include "proc/exec/loadbreak.h"

#define PROGRAM "/bin/true"
#define REGISTERS 4

static void executes(void *arg)
{
	sigset_t urgent;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	if (arg)
		sigprocmask(SIG_BLOCK, &urgent, NULL);
	raise(SIGSTOP);
	execl(PROGRAM, PROGRAM, NULL);
	_exit(1);
}

static int next_stop(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	return status;
}

/* Stands at the stop of its exec. */
static pid_t start_program(bool blocked)
{
	pid_t pid = start_target(executes, blocked ? "" : NULL);
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD), 0);
	kill(pid, SIGCONT);
	while (next_stop(pid) >> 16 != PTRACE_EVENT_EXEC)
		ptrace(PTRACE_CONT, pid, 0, 0);
	return pid;
}

static void run_to_urgent(pid_t pid, int sig)
{
	int status;

	ptrace(PTRACE_CONT, pid, 0, sig);
	status = next_stop(pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(status >> 8, SIGURG);
}

static void set_or_skip(struct load_break *b, pid_t pid)
{
	if (load_break_set(b, pid, loading_base(pid)) < 0) {
		end_target(pid);
		skip();
	}
}

static uint64_t pc_of(pid_t pid)
{
	struct thread_regs regs;

	assert_int_equal(arch_host()->thread->get(pid, &regs), 0);
	return regs.cpu.pc;
}

static void names_are_found_in_the_loaders_memory(void **state)
{
	uint64_t at, debug;

	(void)state;
	assert_int_equal(load_break_find(getpid(), loading_base(getpid()), &at, &debug), 0);
	assert_int_equal(at, _r_debug.r_brk);	/* a copy of the loader's, since this program names it */
	assert_int_equal(((struct r_debug *)(uintptr_t)debug)->r_brk, at);
}

/* What a process has there may be anything. */
static void memory_that_is_no_loader_is_refused(void **state)
{
	uint8_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t base = loading_base(getpid()), at, debug;
	Elf64_Ehdr *eh = (void *)page;
	Elf64_Phdr *ph = (void *)(page + sizeof(*eh));

	(void)state;
	assert_true(load_break_find(getpid(), (uint64_t)(uintptr_t)page, &at, &debug) < 0);
	memcpy(page, (void *)(uintptr_t)base, 4096);
	for (unsigned i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_DYNAMIC) {
			Elf64_Dyn d[] = { { DT_SYMTAB, { 4096 } }, { DT_STRTAB, { 4096 + 2400 } }, { DT_STRSZ, { 1ull << 40 } }, { DT_NULL, { 0 } } };

			ph[i].p_vaddr = 4096;
			ph[i].p_memsz = sizeof(d);
			memcpy(page + 4096, d, sizeof(d));
		}
	assert_true(load_break_find(getpid(), (uint64_t)(uintptr_t)page, &at, &debug) < 0);
	eh->e_phnum = 65535;
	assert_true(load_break_find(getpid(), (uint64_t)(uintptr_t)page, &at, &debug) < 0);
	munmap(page, 8192);
	assert_true(load_break_find(getpid(), (uint64_t)(uintptr_t)page, &at, &debug) < 0);
}

static void a_loader_is_ready_at_its_second_report(void **state)
{
	pid_t pid = start_program(false);
	struct load_break b;
	int sig = SIGURG;

	(void)state;
	set_or_skip(&b, pid);
	run_to_urgent(pid, 0);
	assert_int_equal(pc_of(pid), b.at);
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_ON);
	assert_int_equal(sig, 0);
	assert_true(b.adding);
	run_to_urgent(pid, 0);
	assert_int_equal(pc_of(pid), b.at);
	sig = SIGURG;
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_READY);
	assert_int_equal(sig, 0);
	assert_false(load_break_missed(&b));
	/* It has returned, into the loader. */
	assert_int_not_equal(pc_of(pid), b.at);
	assert_true(pc_of(pid) - b.base < LOADER_MOST);
	load_break_clear(&b);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	assert_int_equal(next_stop(pid), 0);	/* its exit status */
}

/* Auditing libraries have reports of their own, before the program's list is begun. */
static void a_list_that_was_not_begun_is_not_complete(void **state)
{
	pid_t pid = start_program(false);
	struct load_break b;
	int sig = SIGURG;

	(void)state;
	set_or_skip(&b, pid);
	run_to_urgent(pid, 0);
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_ON);
	b.adding = false;
	run_to_urgent(pid, 0);
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_ON);
	load_break_clear(&b);
	end_target(pid);
}

static void a_signal_of_others_is_the_programs(void **state)
{
	pid_t pid = start_program(false);
	struct load_break b;
	int sig = SIGURG;

	(void)state;
	set_or_skip(&b, pid);
	tgkill(pid, pid, SIGURG);
	run_to_urgent(pid, 0);
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_ON);
	assert_int_equal(sig, SIGURG);
	run_to_urgent(pid, SIGURG);
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_ON);
	assert_int_equal(sig, 0);
	/* One at the breakpoint may have taken the place of ours. */
	tgkill(pid, pid, SIGURG);
	run_to_urgent(pid, 0);
	sig = SIGURG;
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_UNSEEN);
	assert_int_equal(sig, SIGURG);
	load_break_clear(&b);
	ptrace(PTRACE_DETACH, pid, 0, SIGURG);
	assert_int_equal(next_stop(pid), 0);
}

/* The loader may keep its state elsewhere, in a copy that the program has of it. */
static void a_state_that_does_not_change_is_not_believed(void **state)
{
	pid_t pid = start_program(false);
	struct load_break b;
	int sig = SIGURG;

	(void)state;
	set_or_skip(&b, pid);
	b.adding = true;
	run_to_urgent(pid, 0);
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_UNSEEN);
	load_break_clear(&b);
	end_target(pid);
}

static void a_thread_that_is_elsewhere_is_not_ready(void **state)
{
	pid_t pid = start_program(false);
	struct load_break b;
	int sig = SIGURG;

	(void)state;
	set_or_skip(&b, pid);
	run_to_urgent(pid, 0);
	b.at++;
	assert_int_equal(load_break_look(&b, pid, &sig), LOADING_UNSEEN);
	assert_int_equal(sig, 0);
	load_break_clear(&b);
	end_target(pid);
}

/* It would be pending in the program. */
static void no_breakpoint_where_its_signal_is_blocked(void **state)
{
	pid_t pid = start_program(true);
	struct load_break b;

	(void)state;
	assert_int_equal(load_break_set(&b, pid, loading_base(pid)), -EPERM);
	assert_false(b.set);
	load_break_clear(&b);
	end_target(pid);
}

static void no_breakpoint_where_all_are_in_use(void **state)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_X, .bp_len = sizeof(long),
		.exclude_kernel = 1, .bp_addr = 4096,
	};
	pid_t pid = start_program(false);
	int fds[REGISTERS], n = 0;
	struct load_break b;

	(void)state;
	while (n < REGISTERS && (fds[n] = syscall(SYS_perf_event_open, &attr, pid, -1, -1, 0)) >= 0)
		n++;
	if (n == REGISTERS)
		assert_int_equal(load_break_set(&b, pid, loading_base(pid)), -ENOSPC);
	while (n > 0)
		close(fds[--n]);
	end_target(pid);
}

/* Many programs may be on their way, and descriptors are few. */
static void no_more_breakpoints_than_are_allowed(void **state)
{
	pid_t pids[33];
	struct load_break b[33];
	int n;

	(void)state;
	for (n = 0; n < 32; n++) {
		pids[n] = start_program(false);
		if (load_break_set(&b[n], pids[n], loading_base(pids[n])) < 0)
			break;
	}
	pids[n] = start_program(false);
	if (n == 32)
		assert_int_equal(load_break_set(&b[n], pids[n], loading_base(pids[n])), -EMFILE);
	for (int i = 0; i < n; i++)
		load_break_clear(&b[i]);
	if (n == 32)
		assert_int_equal(load_break_set(&b[n], pids[n], loading_base(pids[n])), 0);
	if (n == 32)
		load_break_clear(&b[n]);
	for (int i = 0; i <= n; i++)
		end_target(pids[i]);
}

/* Last: from then on none is set. */
static void a_signal_that_does_not_come_is_noticed(void **state)
{
	pid_t pid = start_program(false);
	struct load_break b;

	(void)state;
	set_or_skip(&b, pid);
	fcntl(b.fd, F_SETFL, 0);
	assert_false(load_break_missed(&b));
	ptrace(PTRACE_CONT, pid, 0, 0);
	assert_int_equal(next_stop(pid), 0);
	assert_true(load_break_missed(&b));
	load_break_clear(&b);
	assert_false(load_break_missed(&b));
	pid = start_program(false);
	assert_int_equal(load_break_set(&b, pid, loading_base(pid)), -EPERM);
	end_target(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_found_in_the_loaders_memory),
		cmocka_unit_test(memory_that_is_no_loader_is_refused),
		cmocka_unit_test(a_loader_is_ready_at_its_second_report),
		cmocka_unit_test(a_list_that_was_not_begun_is_not_complete),
		cmocka_unit_test(a_signal_of_others_is_the_programs),
		cmocka_unit_test(a_state_that_does_not_change_is_not_believed),
		cmocka_unit_test(a_thread_that_is_elsewhere_is_not_ready),
		cmocka_unit_test(no_breakpoint_where_its_signal_is_blocked),
		cmocka_unit_test(no_breakpoint_where_all_are_in_use),
		cmocka_unit_test(no_more_breakpoints_than_are_allowed),
		cmocka_unit_test(a_signal_that_does_not_come_is_noticed),
	};

	return cmocka_run_group_tests_name("loadbreak", tests, NULL, NULL);
}
