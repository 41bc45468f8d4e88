/* SPDX-License-Identifier: MIT */
#include "arch/syscalls.h"
#include "proc/exec/loading.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "proc/internal.h"

#define ARCH_SET_FS 0x1002	/* of arch_prctl */

uint64_t loading_auxv(pid_t pid, uint64_t type)
{
	Elf64_auxv_t auxv[64];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	n = file_read(path, (char *)auxv, sizeof(auxv));
	for (size_t i = 0; n > 0 && (i + 1) * sizeof(auxv[0]) <= (size_t)n; i++)
		if (auxv[i].a_type == type)
			return auxv[i].a_un.a_val;
	return 0;
}

uint64_t loading_base(pid_t pid)
{
	return loading_auxv(pid, AT_BASE);
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

/* glibc's loader maps the cache before any other file in this way: so /proc/PID/maps need not be read to find it. */
static bool maps_like_cache(const struct thread_regs *regs)
{
	const struct arch *a = arch_host();

	return regs->call == SYS_mmap && !regs_arg(a, regs, 0) && regs_arg(a, regs, 2) == PROT_READ &&
	       (int)regs_arg(a, regs, 4) >= 0 && !regs_arg(a, regs, 5);
}

static bool is_cache(pid_t pid, uint64_t at)
{
	static const char its[] = "/ld.so.cache";
	char name[PATH_MAX];
	struct map_query q;
	size_t len;

	if (map_query(pid, at, &q, name, sizeof(name)) < 0 || q.start != at)
		return false;
	len = strlen(name);
	return len >= strlen(its) && !strcmp(name + len - strlen(its), its);
}

/* The program's dynamic section; 0: not found */
static uint64_t find_dynamic(struct proc *p, size_t *ret_n)
{
	uint64_t at = loading_auxv(p->pid, AT_PHDR), n = loading_auxv(p->pid, AT_PHNUM), self = 0, dynamic = 0;
	Elf64_Phdr ph;

	for (uint64_t i = 0; i < MIN(n, 64u); i++) {
		if (proc_read(p, TADDR(at + i * sizeof(ph)), &ph, sizeof(ph)) < 0)
			return 0;
		if (ph.p_type == PT_PHDR)
			self = ph.p_vaddr;
		if (ph.p_type == PT_DYNAMIC) {
			dynamic = ph.p_vaddr;
			*ret_n = MIN(ph.p_memsz / sizeof(Elf64_Dyn), 256u);
		}
	}
	return self && dynamic ? dynamic + at - self : 0;
}

bool loading_reports(struct proc *p, uint64_t *ret_at)
{
	size_t n = 0;
	uint64_t at = find_dynamic(p, &n);
	struct r_debug debug;
	Elf64_Dyn d;

	for (size_t i = 0; at && i < n; i++) {
		if (proc_read(p, TADDR(at + i * sizeof(d)), &d, sizeof(d)) < 0 || d.d_tag == DT_NULL)
			return false;
		if (d.d_tag != DT_DEBUG)
			continue;
		if (!d.d_un.d_ptr || proc_read(p, TADDR(d.d_un.d_ptr), &debug, sizeof(debug)) < 0 || debug.r_state != RT_ADD)
			return false;
		*ret_at = debug.r_brk;
		return debug.r_brk;
	}
	return false;
}

void loading_begin_here(struct loading *l, pid_t pid)
{
	*l = (struct loading){ .cache = find_cache(pid) };
}

bool loading_shows(void)
{
	return SYS_arch_prctl != NO_CALL(0);
}

enum loading_at loading_look(struct loading *l, pid_t pid, const struct thread_regs *regs)
{
	const struct arch *a = arch_host();

	if (regs_result(a, regs) != -ENOSYS) {	/* the end of a call */
		if (!l->mapped && maps_like_cache(regs))
			l->mapped = regs_result(a, regs);
		return LOADING_ON;
	}
	if (regs->call == SYS_arch_prctl && regs_arg(a, regs, 0) == ARCH_SET_FS) {
		l->cache = l->mapped && is_cache(pid, l->mapped) ? l->mapped : find_cache(pid);
		return l->cache ? LOADING_ON : LOADING_UNSEEN;
	}
	return regs->call == SYS_munmap && l->cache && regs_arg(a, regs, 0) == l->cache ? LOADING_READY : LOADING_ON;
}
