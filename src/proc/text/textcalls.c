/* SPDX-License-Identifier: MIT */
/*
 * System calls in a target's text whose number is loaded right before them: the code that ends a
 * signal handler (used for borrowed calls, and its address marks signal frames), calls that create children, calls that
 * change mappings or what a process may do. And two that C libraries write by hand, with the number further away. The text is
 * read once, a megabyte at a time, with the target running; mappings that were searched before are
 * not read again, nor those of a file that was searched in another process (knowncalls.c).
 */
#include "arch/syscalls.h"
#include "arch/arch.h"
#include "proc/internal.h"
#include "proc/text/knowncalls.h"
#include "proc/undo/undo.h"

#include <string.h>
#include <sys/mman.h>

#define CHUNK (1u << 20)
#define OVERLAP 128	/* what is looked for, and at before it, is shorter */

struct search { struct proc *p; uint64_t base; const uint8_t *bytes; bool loader, c_library, is_first; };

/*
 * glibc's loader. Its arch_prctl sets the thread pointer of the first thread before any other code runs, and is never used
 * again: not listed. (musl's loader is its C library, and does not count as one here.)
 */
static bool is_loader(const struct map *m)
{
	const char *slash = strrchr(m->path, '/');

	return slash && !strncmp(slash + 1, "ld-linux", strlen("ld-linux"));
}

/* glibc: each of its calls that change mappings has its number right before it; the others are not of interest. */
static bool is_c_library(const struct map *m)
{
	const char *slash = strrchr(m->path, '/');

	return is_loader(m) || (slash && (!strcmp(slash + 1, "libc.so.6") || !strncmp(slash + 1, "libc-2.", strlen("libc-2."))));
}

static bool is_wanted(uint32_t nr)
{
	switch (nr) {
	case SYS_brk: case SYS_shmat: case SYS_userfaultfd: case SYS_process_madvise: case SYS_io_uring_setup: case OPEN_CALL:
	case SYS_rt_sigreturn: case SYS_clone: case SYS_vfork: case SYS_clone3: case SYS_execve: case SYS_execveat:
	case ANY_CALL: case SYS_mmap: case SYS_mprotect: case SYS_munmap: case SYS_mremap: case SYS_madvise: case SYS_pkey_mprotect:
	case SYS_prctl: case SYS_seccomp: case SYS_arch_prctl: case FAR_ARCH_PRCTL:
		return true;
	}
	return false;
}

static void note_call(void *arg, const struct text_call *c)
{
	struct proc_priv *v = priv(arg);

	for (size_t i = 0; i < v->calls.n; i++)
		if (v->calls.v[i].at.v == c->at.v)
			return;
	*vec_add(&v->calls) = *c;
}

static void add_call(void *arg, size_t offset, size_t len, uint32_t nr)
{
	struct search *s = arg;
	struct text_call c = { .at = TADDR(s->base + offset), .nr = nr, .len = len };

	if (!is_wanted(nr) || ((nr == SYS_arch_prctl || nr == FAR_ARCH_PRCTL) && s->loader))
		return;
	/* What stands in both of two chunks was looked at in the first one, with all that is before it. */
	if (nr == OPEN_CALL && (s->c_library || (!s->is_first && offset < OVERLAP - 2)))
		return;
	memcpy(c.bytes, s->bytes + offset, len);
	note_call(s->p, &c);
}

/* In overlapping chunks, so that nothing is lost at a border. Unreadable parts are skipped. Returns whether all was read. */
static bool read_map(struct proc *p, const struct map *m, uint8_t *buf)
{
	bool all = true;

	for (uint64_t at = m->start; at < m->end; at += CHUNK - OVERLAP) {
		size_t n = MIN(m->end - at, (uint64_t)CHUNK);
		struct search s = { p, at, buf, is_loader(m), is_c_library(m), at == m->start };

		if (proc_read(p, TADDR(at), buf, n) == 0)
			p->arch->find_calls(buf, n, add_call, &s);
		else
			all = false;
		if (n < CHUNK)
			break;
	}
	return all;
}

static bool has_call_in(const struct proc_priv *v, const struct map *m)
{
	for (size_t i = 0; i < v->calls.n; i++)
		if (v->calls.v[i].at.v >= m->start && v->calls.v[i].at.v < m->end)
			return true;
	return false;
}

static void search_map(struct proc *p, const struct map *m, uint8_t **buf)
{
	struct proc_priv *v = priv(p);
	bool is_new = !has_call_in(v, m);	/* else the calls added by this search are not all of the file's */
	size_t before = v->calls.n;
	struct file_id id;

	if (is_new && known_calls_take(p, m, is_loader(m), note_call, p))
		return;
	is_new = is_new && proc_file_id(p, m, &id);
	if (!*buf)
		*buf = xrealloc(NULL, CHUNK);
	if (read_map(p, m, *buf) && is_new)
		known_calls_keep(p, m, is_loader(m), &id, v->calls.v + before, v->calls.n - before);
}

static bool was_searched(const struct proc_priv *v, const struct map *m)
{
	for (size_t i = 0; i < v->searched.n; i++)
		if (v->searched.v[i].start == m->start && v->searched.v[i].end == m->end &&
		    v->searched.v[i].inode == m->inode)
			return true;
	return false;
}

/* Not the vDSO, which is the kernel's, and not what we mapped ourselves and will unmap. */
static bool is_worth_it(const struct proc *p, const struct map *m)
{
	return (m->prot & PROT_EXEC) && (m->prot & PROT_READ) && m->start < p->arch->user_top && m->path[0] != '[' &&
	       !is_arena_path(m->path);
}

int proc_text_calls(struct proc *p, const struct text_call **ret_calls, size_t *ret_n)
{
	struct proc_priv *v = priv(p);
	uint8_t *buf = NULL;
	int r = maps_load(p, &v->maps);

	if (r < 0)
		return r;
	for (size_t i = 0; i < v->maps.n; i++) {
		const struct map *m = &v->maps.v[i];

		if (!is_worth_it(p, m) || was_searched(v, m))
			continue;
		search_map(p, m, &buf);
		*vec_add(&v->searched) = (struct searched){ m->start, m->end, m->inode };
	}
	free(buf);
	known_calls_done(p);
	*ret_calls = v->calls.v;
	*ret_n = v->calls.n;
	return 0;
}
