/* SPDX-License-Identifier: MIT */
/* What threads of a stopped process may not do, seccomp aside: make system calls directly, read the time stamp counter. */
#include "proc/internal.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

struct dispatch_answer { uint64_t mode, selector, offset, len; };

/* Kernels before 6.4 don't have the request: false. */
bool proc_dispatches(struct proc *p)
{
	for (size_t i = 0; i < p->threads.n; i++) {
		struct dispatch_answer a = { 0 };

		if (p->threads.v[i].stopped &&
		    ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, p->threads.v[i].tid, sizeof(a), &a) == 0 && a.mode)
			return true;
	}
	return false;
}

bool proc_is_timeless(struct proc *p, taddr word)
{
	uint64_t args[6] = { PR_GET_TSC, word.v };
	uint32_t how = PR_TSC_ENABLE;
	int64_t got = -1;

	if (proc_syscall(p, SYS_prctl, args, &got) < 0 || got < 0)
		return false;
	return proc_read(p, word, &how, sizeof(how)) == 0 && how == PR_TSC_SIGSEGV;
}
