/* SPDX-License-Identifier: MIT */
/*
 * Removal by the tracer that made the changes: from its target and from every other process that shares the arena's
 * memory. Forks have the same jumps in their own text. It works with the tracer's own copy of the record, and which
 * processes are forks is proved by a challenge (holders.c).
 */
#include "proc/undo/clean.h"

#include "base/clock.h"
#include "base/err.h"
#include "proc/threads/ids.h"
#include "proc/internal.h"

/* A fork that can't be cleaned is reported and not tried again. */
static void clean_fork(pid_t pid, const struct undo *u, uint64_t deadline, struct text_report *report,
		       pid_list *failed)
{
	struct proc *p = NULL;
	int r = proc_open(pid, &p);

	/* Checked again: the pid may belong to another process by now. */
	if (r == 0 && arena_is_mapped(u->arena, pid) && proc_alive(p))
		r = clean_process(p, u, deadline, report);
	if (r < 0 && arena_is_mapped(u->arena, pid)) {
		log_warn("process %d, a fork of a target, still has probes that can't be removed: %s", pid, err_text());
		*vec_add(failed) = pid;
		report->verified = false;
		report->arena_left = true;
	}
	proc_close(p);
}

/* Go through all processes once. Returns for how many others with the arena a removal was tried. */
static size_t clean_forks_once(pid_t not, const struct undo *u, uint64_t patience, uint64_t deadline,
			       struct text_report *report, pid_list *failed)
{
	holder_list list = { 0 };
	size_t i, n = 0;

	holders_everywhere(false, &list);
	for (i = 0; i < list.n && now_ns() <= deadline; i++) {
		pid_t pid = list.v[i].pid;

		if (pid == not || has_pid(failed, pid) || !holder_shares(&list.v[i], u->arena))
			continue;
		clean_fork(pid, u, patience, report, failed);
		if (report->arena_left && !has_pid(failed, pid) && arena_is_mapped(u->arena, pid))
			*vec_add(failed) = pid;
		n++;
	}
	vec_free(&list);
	return n;
}

/*
 * A process that forks does so before it is stopped and cleaned, and then the child is in /proc already. So no fork
 * is missed if /proc is read again until a round finds none.
 */
static void clean_forks(pid_t not, const struct undo *u, struct text_report *report)
{
	uint64_t patience = now_ns() + CLEAN_NS, deadline = now_ns() + ROUNDS_NS;
	pid_list failed = { 0 };

	while (clean_forks_once(not, u, patience, deadline, report, &failed)) {
		if (now_ns() > deadline) {
			report->arena_left = true;
			break;
		}
	}
	vec_free(&failed);
}

int text_remove(struct proc *p, struct arena *a, struct text_report *ret_report)
{
	struct undo u = { .label = a->label, .arena = a };
	struct text_report report = { .verified = true };
	int r;

	undo_from_book(&u, &a->book);
	r = clean_process(p, &u, now_ns() + CLEAN_NS, &report);
	if (r < 0)
		report.verified = false;
	clean_forks(p->pid, &u, &report);
	if (report.arena_left)
		report.verified = false;
	undo_free(&u);
	if (r < 0)
		return r;
	a->mapped = report.arena_left && !report.gone;
	*ret_report = report;
	return 0;
}
