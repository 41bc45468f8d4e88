/* SPDX-License-Identifier: MIT */
/*
 * Calls look() N times, forbids itself all system calls but write and exit_group (any other one kills it), and calls
 * look() N times more, each time somewhere else in a page of its stack, and in other pages than before. `recluse prctl N`, `recluse syscall N`: how it does so. Prints the sum of what look() returned.
 * `recluse thread` serves commands: only one of its threads is shut in, and that one calls look().
 */
#include <alloca.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "prog.h"

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

struct thing { struct thing *next; long value; char text[16]; };

noinline long look(struct thing *p, long n)
{
	__asm__ volatile("" : "+r"(p), "+r"(n));
	return n ^ (n << 3);
}

static noinline long look_from(struct thing *p, long n, size_t depth)
{
	volatile char *space = alloca(depth + (size_t)(n * 48 % 4096));

	space[0] = 1;
	return look(p, n);
}

static long forbid(int by_prctl)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write), ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

static long wanted;

static void *shut_in(void *p)
{
	long n;

	if (prctl(PR_SET_NAME, "a recluse") || forbid(1))
		exit(4);
	for (;;) {
		while (!(n = __atomic_load_n(&wanted, __ATOMIC_ACQUIRE)))
			;
		for (long i = 0; i < n; i++)
			if (look_from(p, i, 1) != (i ^ (i << 3)))
				bad("look %ld", i);
		__atomic_store_n(&wanted, 0, __ATOMIC_RELEASE);
	}
}

static void run(long n)
{
	__atomic_store_n(&wanted, n, __ATOMIC_RELEASE);
	while (__atomic_load_n(&wanted, __ATOMIC_ACQUIRE))
		usleep(100);
}

static int serve_with_thread(struct thing *p)
{
	pthread_t t;

	if (pthread_create(&t, NULL, shut_in, p))
		return 4;
	usleep(100000);
	serve(run, NULL);
	return verdict();
}

int main(int argc, char **argv)
{
	struct thing *p = malloc(sizeof(*p));
	long n = argc > 2 ? atol(argv[2]) : 0, sum = 0;
	char line[64];
	size_t len;

	if (!p || argc < 2)
		return 2;
	*p = (struct thing){ p, 7, "on the heap" };
	if (!strcmp(argv[1], "thread"))
		return serve_with_thread(p);
	prctl(PR_SET_NAME, "a name");		/* forbids nothing */
	for (long i = 0; i < n; i++)
		sum += look_from(p, i, 1);
	if (forbid(!strcmp(argv[1], "prctl")))
		return 4;
	for (long i = n; i < 2 * n; i++)
		sum += look_from(p, i, 16384);
	len = (size_t)snprintf(line, sizeof(line), "%ld\n", sum);
	_exit(write(1, line, len) == (ssize_t)len ? 0 : 4);
}
