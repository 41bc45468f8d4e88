/* SPDX-License-Identifier: MIT */
/* Borrowing a thread where that takes care: restartable sequences, seccomp, small stacks. */
#include "proc_target.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

/*
 * A restartable sequence that waits inside for a word to change, then commits. After every borrow
 * its abort must have been taken; without, the rest would run unprotected and commit.
 */
extern char seq_start[], seq_commit[], seq_abort[];

static void in_sequence(void *arg)
{
	volatile uint64_t *aborts = &sh->value, *go = &sh->stop;
	int32_t offset = *(int32_t *)arg;

	sh->ready = 1;
	__asm__ volatile(
		".pushsection __rseq_test, \"aw\"\n\t.balign 32\n"
		"77:\t.long 0, 0\n\t.quad seq_start, seq_commit - seq_start, seq_abort\n\t.popsection\n"
		"1:\tlea 77b(%%rip), %%rax\n\tmov %%rax, %%fs:8(%[off])\n"
		"seq_start:\n\tcmpq $0, (%[go])\n\tje seq_start\n"
		"\tmovq $1, %[commit]\n"
		"seq_commit:\n\tjmp 4f\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t.long 0x53053053\n"
		"seq_abort:\n\tincq (%[aborts])\n\tjmp 1b\n4:\n"
		: [commit] "=m"(sh->extra)
		: [off] "r"((long)offset), [go] "r"(go), [aborts] "r"(aborts)
		: "rax", "memory", "cc");
	pause();
}

static void sequences_are_aborted(void **state)
{
	struct rseq_conf conf;
	struct proc *p;
	int32_t offset;
	int i, inside = 0;
	pid_t pid;

	fresh_shared();
	pid = start_target(two_threads, NULL);
	assert_true(wait_until(&sh->turns[1], 1));
	p = opened(pid);
	assert_ok(proc_stop(p));
	assert_ok(proc_rseq(p, &conf));
	assert_ok(proc_resume(p));
	proc_close(p);
	end_target(pid);
	if (!conf.usable)
		skip();
	assert_int_equal(conf.signature, 0x53053053);
	offset = conf.offset;
	pid = start_target(in_sequence, &offset);
	assert_true(wait_until(&sh->ready, 1));
	sleep_ns(1000000);
	p = opened(pid);
	for (i = 0; i < 200; i++) {
		uint64_t before, rip;

		assert_ok(proc_stop(p));
		before = sh->value;
		rip = p->threads.v[0].regs.cpu.pc;
		if (rip >= (uintptr_t)seq_start && rip < (uintptr_t)seq_commit) {
			inside++;
			borrowed(p, SYS_getpid, 0, 0);
			assert_int_equal(p->threads.v[0].regs.cpu.pc, (uintptr_t)seq_abort);
			assert_ok(proc_resume(p));
			assert_true(wait_until(&sh->value, before + 1));
		} else {
			assert_ok(proc_resume(p));
		}
	}
	assert_true(inside > 50);
	assert_int_equal(sh->extra, 0);
	sh->stop = 1;
	assert_true(wait_until(&sh->extra, 1));
	proc_close(p);
	end_target(pid);
}

/* memfd_create is deadly under this filter; everything else is allowed. */
static void filtered(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		sh->wrong = __LINE__;
	sh->ready = 1;
	count_turns(NULL);
}

static void seccomp_is_suspended(void **state)
{
	struct proc *p;
	pid_t pid;
	int i;

	if (geteuid() != 0)
		skip();
	fresh_shared();
	pid = start_target(filtered, NULL);
	assert_true(wait_until(&sh->ready, 1));
	assert_int_equal(sh->wrong, 0);
	p = opened(pid);
	for (i = 0; i < 10; i++)
		one_round(p);
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	proc_close(p);
	end_target(pid);
}

/* Without privilege it is refused, in words, and the target is as before. */
static void seccomp_refuses(void **state)
{
	uint64_t args[6] = { 0 };
	int64_t value = -7;
	pid_t helper, pid;
	struct proc *p;
	int status;

	fresh_shared();
	helper = fork();
	if (helper == 0) {
		if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
			_exit(1);
		prctl(PR_SET_DUMPABLE, 1);
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			filtered(NULL);
		}
		if (!wait_until(&sh->ready, 1) || proc_open(pid, &p) < 0 || proc_stop(p) < 0)
			_exit(2);
		if (proc_syscall(p, SYS_getpid, args, &value) != -EPERM || value != -7 ||
		    !strstr(err_text(), "seccomp"))
			_exit(3);
		if (proc_resume(p) < 0 || !wait_until(&sh->turns[0], sh->turns[0] + 2))
			_exit(4);
		proc_close(p);
		kill(pid, SIGKILL);
		_exit(0);
	}
	waitpid(helper, &status, 0);
	assert_int_equal(status, 0);
}

/* Like Go: the only stack lies in the middle of a heap at Go's address, full of other people's data. */
#define HEAP 0xc000000000ull

static void count_on_heap(void)
{
	count_turns(NULL);
}

static void like_go(void *arg)
{
	uint8_t *heap = mmap((void *)HEAP, 1 << 20, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	memset(heap, 0x5a, 1 << 20);
	__asm__ volatile("mov %0, %%rsp\n\tcall *%1" :: "r"(heap + 65536), "r"(count_on_heap) : "memory");
}

static void small_stacks(void **state)
{
#if defined(__SANITIZE_ADDRESS__)
	skip();		/* that address is not to be had there */
#endif
	uint8_t before[32768], after[32768];
	struct proc *p;
	uint64_t sp;
	pid_t pid;
	int i;

	fresh_shared();
	pid = start_target(like_go, NULL);
	assert_true(wait_until(&sh->turns[0], 2));
	p = opened(pid);
	for (i = 0; i < 20; i++) {
		assert_ok(proc_stop(p));
		sp = thread_sp(p, &p->threads.v[0]);
		assert_true(sp > HEAP && sp < HEAP + 65536);
		assert_ok(proc_read(p, TADDR(sp - 128 - sizeof(before)), before, sizeof(before)));
		assert_int_equal(borrowed(p, SYS_getpid, 0, 0), pid);
		assert_true(priv(p)->borrow.at > HEAP + (1 << 20));
		assert_ok(proc_read(p, TADDR(sp - 128 - sizeof(after)), after, sizeof(after)));
		assert_memory_equal(before, after, sizeof(before));
		assert_ok(proc_resume(p));
		sleep_ns(1000000);
	}
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	proc_close(p);
	end_target(pid);
}

#define AREA (1 << 20)

/* A stack with hardly any room below it, and other data right there. */
static void at_the_end(void *arg)
{
	uint8_t *area = mmap(NULL, 2 * AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(area, 0x5a, AREA);
	mprotect(area, AREA, PROT_READ | PROT_WRITE | PROT_EXEC);	/* so that it is a mapping of its own */
	sh->value = (uint64_t)area;
	__asm__ volatile("mov %0, %%rsp\n\tcall *%1" :: "r"(area + AREA + 4096), "r"(count_on_heap) : "memory");
}

static void no_room_below(void **state)
{
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(at_the_end, NULL);
	assert_true(wait_until(&sh->turns[0], 2));
	p = opened(pid);
	assert_ok(proc_stop(p));
	assert_true(thread_sp(p, &p->threads.v[0]) - sh->value - AREA < 4096);
	assert_int_equal(borrowed(p, SYS_getpid, 0, 0), pid);
	assert_true(priv(p)->borrow.at - sh->value > 2 * AREA);
	assert_ok(proc_resume(p));
	assert_true(wait_until(&sh->turns[0], sh->turns[0] + 2));
	proc_close(p);
	end_target(pid);
}

#define BELOW 8192
#define RED_ZONE 128

/* What lies below the stack pointer is as before, too; the red zone all the time. */
static void stack_is_left_as_found(void **state)
{
	uint8_t before[BELOW], after[BELOW];
	const struct thread *t;
	struct proc *p;
	taddr at;
	pid_t pid;

	fresh_shared();
	pid = start_target(two_threads, NULL);
	assert_true(wait_until(&sh->turns[1], 2));
	p = opened(pid);
	assert_ok(proc_stop(p));
	t = borrow_candidate(p);
	assert_non_null(t);
	at.v = thread_sp(p, t) - BELOW;
	assert_ok(proc_read(p, at, before, BELOW));
	borrowed(p, SYS_getpid, 0, 0);
	assert_int_equal(proc_borrowed_tid(p), t->tid);
	assert_true(priv(p)->borrow.at >= at.v);
	assert_true(priv(p)->borrow.at + priv(p)->borrow.len <= thread_sp(p, t) - RED_ZONE);
	assert_ok(proc_read(p, at, after, BELOW));
	assert_memory_not_equal(before, after, BELOW);
	assert_memory_equal(before + BELOW - RED_ZONE, after + BELOW - RED_ZONE, RED_ZONE);
	borrow_end(p);
	assert_ok(proc_read(p, at, after, BELOW));
	assert_memory_equal(before, after, BELOW);
	assert_ok(proc_resume(p));
	proc_close(p);
	end_target(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequences_are_aborted),
		cmocka_unit_test(seccomp_is_suspended),
		cmocka_unit_test(seccomp_refuses),
		cmocka_unit_test(small_stacks),
		cmocka_unit_test(no_room_below),
		cmocka_unit_test(stack_is_left_as_found),
	};

	return cmocka_run_group_tests_name("borrowing", tests, NULL, NULL);
}
