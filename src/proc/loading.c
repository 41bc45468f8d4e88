/* SPDX-License-Identifier: MIT */
#include "proc/loading.h"

#include <asm/prctl.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include "proc/internal.h"

uint64_t loading_base(pid_t pid)
{
	Elf64_auxv_t auxv[64];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	n = file_read(path, (char *)auxv, sizeof(auxv));
	for (size_t i = 0; n > 0 && (i + 1) * sizeof(auxv[0]) <= (size_t)n; i++)
		if (auxv[i].a_type == AT_BASE)
			return auxv[i].a_un.a_val;
	return 0;
}

static uint64_t find_cache(pid_t pid)
{
	char path[64], *text, *at;
	uint64_t start = 0;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	text = file_load(path, &len);
	at = text ? strstr(text, "/ld.so.cache\n") : NULL;
	while (at && at > text && at[-1] != '\n')
		at--;
	if (at)
		start = strtoull(at, NULL, 16);
	free(text);
	return start;
}

enum loading_at loading_look(struct loading *l, pid_t pid, const struct user_regs_struct *regs)
{
	if ((int64_t)regs->rax != -ENOSYS)	/* the end of a call */
		return LOADING_ON;
	if (regs->orig_rax == SYS_arch_prctl && regs->rdi == ARCH_SET_FS) {
		l->cache = find_cache(pid);
		return l->cache ? LOADING_ON : LOADING_UNSEEN;
	}
	return regs->orig_rax == SYS_munmap && l->cache && regs->rdi == l->cache ? LOADING_READY : LOADING_ON;
}
