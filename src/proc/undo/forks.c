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

#define STUCK_NS 600000000ull		/* for a process that keeps its mappings locked */
#define STUCK_LOOK_NS 10000000ull

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

/* Go through all that may be forks once. Returns for how many others with the arena a removal was tried. */
static size_t clean_forks_once(pid_t not, const struct undo *u, uint64_t patience, uint64_t deadline,
			       struct text_report *report, pid_list *failed, pid_list *stuck)
{
	holder_list list = { 0 };
	size_t i, n = 0;

	stuck->n = 0;
	holders_among_kin(u->arena, &list, stuck);
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

static void report_stuck(const pid_list *stuck, struct text_report *report)
{
	struct task_stat s;

	for (size_t i = 0; i < stuck->n; i++) {
		if (task_stat(stuck->v[i], stuck->v[i], &s) < 0 || s.state == 'Z' || s.state == 'X')
			continue;
		log_warn("process %d keeps its mappings locked, so it can't be seen whether it is a fork of a target: if it is, it still has "
			 "probes; try `jab recover %d` later", stuck->v[i], stuck->v[i]);
		report->verified = false;
	}
}

/*
 * A process that forks does so before it is stopped and cleaned, and then the child is in /proc already. So no fork
 * is missed if /proc is read again until a round finds none. One whose mappings can't be read is tried again for a while.
 */
static void clean_forks(pid_t not, const struct undo *u, struct text_report *report)
{
	uint64_t start = now_ns(), patience = start + CLEAN_NS, deadline = start + ROUNDS_NS;
	pid_list failed = { 0 }, stuck = { 0 };

	for (;;) {
		size_t n = clean_forks_once(not, u, patience, deadline, report, &failed, &stuck);

		if (!n && (!stuck.n || now_ns() - start > STUCK_NS))
			break;
		if (now_ns() > deadline) {
			report->arena_left = true;
			break;
		}
		if (!n)
			sleep_ns(STUCK_LOOK_NS);
	}
	report_stuck(&stuck, report);
	vec_free(&failed);
	vec_free(&stuck);
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
