/* SPDX-License-Identifier: MIT */
/* sandbox prctl|syscall FILE: works until FILE exists, forbids itself all system calls but a few, works on and says so. A call of another number ends it. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline, noclone)) uint64_t step(uint64_t n)
{
	return n * 2862933555777941757ull + 3037000493ull;
}

static uint64_t work(uint64_t n)
{
	uint64_t v = 1;

	for (uint64_t i = 0; i < n; i++)
		v = step(v);
	return v;
}

int main(int argc, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { 5, code };
	volatile uint64_t v = 0;

	if (argc < 3)
		return 2;
	while (access(argv[2], F_OK) < 0)
		v += work(1000);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (!strcmp(argv[1], "prctl"))
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
	else
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	for (int i = 0; i < 2000; i++)
		v += work(1000);
	if (write(1, "alive\n", 6) != 6)
		return 1;
	syscall(SYS_exit_group, 0);
	return 0;
}
