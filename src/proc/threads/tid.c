/* SPDX-License-Identifier: MIT */
/*
 * Where a thread keeps its own tid. C libraries and Go's runtime store it at a fixed offset from
 * the thread pointer; a pad that reads it there needs no system call. The offset is verified: the right tid
 * must be at it for every thread.
 */
#include "arch/page.h"
#include "proc/threads/tid.h"

#include <string.h>
#include "base/err.h"
#include "proc/internal.h"

#define SCAN_FROM (-512)
#define SCAN_TO 2048
#define ENOUGH 3		/* threads that agree, to believe a place that nobody told us of */

static const int32_t known[] = {
	0x2d0,			/* glibc */
	0x30,			/* musl */
	-72,			/* Go without C */
};

/* The tid in the thread's own, innermost pid namespace; 0: it has ended. */
static pid_t number_inside(struct proc *p, pid_t tid, bool *ret_nested)
{
	char path[64], status[STATUS_MAX], *line, *end;
	bool only = proc_is_still(p) && p->threads.n == 1 && p->threads.v[0].tid == tid;
	pid_t inside = tid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", p->pid, tid);
	if (only ? proc_read_status(p, status) < 0 : file_read(path, status, sizeof(status)) <= 0)
		return 0;
	*ret_nested = false;
	line = strstr(status, "\nNSpid:");
	if (!line)
		return inside;
	line += strlen("\nNSpid:");
	inside = strtol(line, &line, 10);
	for (long n = strtol(line, &end, 10); end != line && line[0] == '\t'; n = strtol(line, &end, 10)) {
		*ret_nested = true;
		inside = n;
		line = end;
	}
	return inside;
}

/* All threads of a process are in one pid namespace: if that is the tracer's, their tids are known already. */
static void learn_numbers(struct proc *p, tid_list *list)
{
	bool nested = true, again = true;

	for (size_t i = 0; i < list->n; i++) {
		struct tid_seen *t = &list->v[i];

		t->inside = nested ? number_inside(p, t->tid, &again) : t->tid;
		if (t->inside)
			nested = again;
	}
}

static bool stands_at(struct proc *p, const struct tid_seen *t, int32_t off)
{
	int32_t v;

	return proc_read(p, TADDR(t->thread_pointer + off), &v, sizeof(v)) == 0 && v == t->inside;
}

/* How many threads have their tid at that offset; -1: one has not. Those that have ended don't count. */
static int agree(struct proc *p, const tid_list *list, int32_t off)
{
	int n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct tid_seen *t = &list->v[i];
		struct task_stat s;

		if (!t->inside)
			continue;
		if (stands_at(p, t, off))
			n++;
		else if (task_stat(p->pid, t->tid, &s) == 0 && s.state != 'Z' && s.state != 'X')
			return -1;
	}
	return n;
}

/* The memory around one thread pointer; zeros where it can't be read, since 0 is no thread's tid. */
static void read_around(struct proc *p, uint64_t from, uint8_t buf[SCAN_TO - SCAN_FROM])
{
	size_t len = SCAN_TO - SCAN_FROM, n;

	memset(buf, 0, len);
	for (size_t at = 0; at < len; at += n) {
		n = MIN(len - at, (size_t)(PAGE - (from + at) % PAGE));
		if (proc_read(p, TADDR(from + at), buf + at, n) < 0)
			memset(buf + at, 0, n);
	}
}

static int scan(struct proc *p, const tid_list *list, int32_t *ret_off)
{
	uint8_t buf[SCAN_TO - SCAN_FROM];
	const struct tid_seen *first = NULL;
	int32_t v;

	for (size_t i = 0; i < list->n && !first; i++)
		if (list->v[i].inside)
			first = &list->v[i];
	if (!first)
		return -ENOENT;
	read_around(p, first->thread_pointer + SCAN_FROM, buf);
	for (int32_t off = SCAN_FROM; off < SCAN_TO; off += 4) {
		memcpy(&v, buf + (off - SCAN_FROM), sizeof(v));
		if (v == first->inside && agree(p, list, off) >= ENOUGH) {
			*ret_off = off;
			return 0;
		}
	}
	return -ENOENT;
}

void tids_note(const struct proc *p, tid_list *ret_list)
{
	tid_list list = { 0 };

	for (size_t i = 0; i < p->threads.n; i++) {
		const struct thread *t = &p->threads.v[i];

		if (t->stopped && t->pid == p->pid)
			*vec_add(&list) = (struct tid_seen){ .tid = t->tid, .thread_pointer = t->regs.cpu.tls };
	}
	*ret_list = list;
}

int tids_offset(struct proc *p, tid_list *list, int32_t *ret_off)
{
	learn_numbers(p, list);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (agree(p, list, known[i]) > 0) {
			*ret_off = known[i];
			return 0;
		}
	return scan(p, list, ret_off);
}

int proc_tid_offset(struct proc *p, int32_t *ret_off)
{
	tid_list list;
	int r;

	tids_note(p, &list);
	r = tids_offset(p, &list, ret_off);
	vec_free(&list);
	return r == -ENOENT ? fail(r, "process %d: no offset from the thread pointer is known at which threads keep their tid", p->pid) : r;
}
