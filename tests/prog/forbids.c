// SPDX-License-Identifier: MIT
/*
 * A filter that kills whoever makes one of the system calls that a parked thread needs (futex, gettid, getpid), and then a library
 * is loaded.
 *
 *	forbids LIBRARY		says "ready", waits for a line, loads it and says "loaded"
 *	forbids LIBRARY late	the filter comes after that line, when a tracer is there already
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILLS(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

__attribute__((noinline)) long work(long x)
{
	__asm__ volatile("" ::: "memory");
	return x * 3;
}

int main(int argc, char **argv)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILLS(SYS_futex), KILLS(SYS_gettid), KILLS(SYS_getpid),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(f[0]), f };
	int late = argc > 2;
	char line[16];
	long sum = 0;

	if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || (!late && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0))
		return 2;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin) || (late && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) < 0))
		return 2;
	for (int i = 0; i < 1000; i++)
		sum += work(i);
	puts(dlopen(argv[1], RTLD_NOW) && sum ? "loaded" : "not loaded");
	return 0;
}
