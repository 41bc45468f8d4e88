/* SPDX-License-Identifier: MIT */
/*
 * Removal as the callers see it: by the tracer that made the changes, or by somebody who finds what a
 * killed tracer left. Both end in clean_process() for every process that has the arena: forks share
 * it and have the same jumps in their own text.
 *
 *	left behind			seen as					done
 *	descriptor			fd "memfd:jab-..."			close
 *	mapping without record		first page is empty			unmap (no text was touched)
 *	mapping, record			edits in it are not in the text		wait, unmap
 *	mapping, record, some text	each edit: old bytes or our own		restore, wait, unmap
 */
#include "proc/clean.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"

#define ROUNDS_NS 10000000000ull
#define DESK_NS 5000000000ull
#define DESK_LOOK_NS 100000ull

static bool holds(pid_t pid, uint64_t inode)
{
	holder_list list = { 0 };
	bool yes = false;
	size_t i;

	holders_in_maps(pid, &list);
	for (i = 0; i < list.n; i++)
		yes |= list.v[i].inode == inode;
	vec_free(&list);
	return yes;
}

/* A fork that can't be cleaned is told about and not tried again. */
static void clean_fork(pid_t pid, const struct undo *u, struct text_report *report, pid_list *failed)
{
	struct proc *p = NULL;
	int r = proc_open(pid, &p);

	if (r == 0)
		r = clean_process(p, u, report);
	if (r < 0 && holds(pid, u->inode)) {
		log_warn("process %d has our probes and can't be cleaned: %s", pid, err_text());
		*vec_add(failed) = pid;
		report->verified = false;
		report->arena_left = true;
	}
	proc_close(p);
}

static bool has_pid(const pid_list *list, pid_t pid)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (list->v[i] == pid)
			return true;
	return false;
}

/* One look at all processes. Returns how many others had the arena and were worth a try. */
static size_t clean_forks_once(pid_t not, const struct undo *u, struct text_report *report, pid_list *failed)
{
	holder_list list = { 0 };
	size_t i, n = 0;

	holders_everywhere(false, &list);
	for (i = 0; i < list.n; i++) {
		pid_t pid = list.v[i].pid;

		if (list.v[i].inode != u->inode || pid == not || has_pid(failed, pid))
			continue;
		clean_fork(pid, u, report, failed);
		if (report->arena_left && !has_pid(failed, pid) && holds(pid, u->inode))
			*vec_add(failed) = pid;
		n++;
	}
	vec_free(&list);
	return n;
}

/*
 * Whoever forked before it was cleaned has a child in /proc when it is stopped; so, looking again
 * after each round, nobody is missed.
 */
void clean_forks(pid_t not, const struct undo *u, struct text_report *report)
{
	uint64_t deadline = now_ns() + ROUNDS_NS;
	pid_list failed = { 0 };

	while (clean_forks_once(not, u, report, &failed)) {
		if (now_ns() > deadline) {
			report->arena_left = true;
			break;
		}
	}
	vec_free(&failed);
}

int clean_everywhere(struct proc *p, const struct undo *u, struct text_report *report)
{
	int r;

	*report = (struct text_report){ .verified = true };
	r = clean_process(p, u, report);
	if (r < 0)
		report->verified = false;
	clean_forks(p->pid, u, report);
	if (report->arena_left)
		report->verified = false;
	return r;
}

int text_remove(struct proc *p, struct arena *a, struct text_report *ret_report)
{
	const uint8_t *base = (const uint8_t *)a->head;
	struct undo u = { .inode = a->inode, .arena = a };
	struct text_report report;
	int r = undo_take(&u, a->head, (const struct undo_edit *)(base + a->head->edits_off),
			  (const struct undo_move *)(base + a->head->moves_off));

	if (r == 0)
		r = clean_everywhere(p, &u, &report);
	undo_free(&u);
	if (r < 0)
		return r;
	a->mapped = report.arena_left && !report.gone;
	*ret_report = report;
	return 0;
}

static bool is_of(const struct map *m, uint64_t inode)
{
	return m->inode == inode && is_arena_path(m->path);
}

/* The record of the arena with this inode, as the target has it mapped. */
static int load_undo(struct proc *p, uint64_t inode, struct undo *u)
{
	const struct map *m = NULL;
	struct undo_edit *edits = NULL;
	struct undo_move *moves = NULL;
	struct undo_head h;
	bool any = false;
	size_t i;
	int r;

	u->inode = inode;
	u->growing = true;
	for (i = 0; i < p->maps.n; i++)
		if (is_of(&p->maps.v[i], inode)) {
			any = true;
			if (p->maps.v[i].offset == 0)
				m = &p->maps.v[i];
		}
	if (!any)
		return 0;	/* somebody has taken it out meanwhile */
	if (!m)
		return fail(-EBADMSG, "process %d has an arena of ours but its undo record is not mapped: "
			    "left as it is", p->pid);
	r = proc_read(p, TADDR(m->start), &h, sizeof(h));
	if (r == 0)
		r = undo_check(&h, m->end - m->start);
	if (r < 0)
		return r == -ENODATA ? 0 : r;
	edits = xcalloc(h.n_edits, sizeof(*edits));
	moves = xcalloc(h.n_moves, sizeof(*moves));
	r = proc_read(p, TADDR(m->start + h.edits_off), edits, h.n_edits * sizeof(*edits));
	if (r == 0)
		r = proc_read(p, TADDR(m->start + h.moves_off), moves, h.n_moves * sizeof(*moves));
	if (r == 0)
		r = undo_take(u, &h, edits, moves);
	free(edits);
	free(moves);
	/* No text was ever changed: leave alone what stands there now. */
	if (r == 0 && u->text == UNDO_TEXT_CLEAN)
		u->edits.n = 0;
	return r;
}

static int refuse_living(const struct holder *h)
{
	switch (tracer_state(&h->tracer)) {
	case TRACER_ALIVE:
		return fail(-EBUSY, "process %d is traced by jab %d, which is alive", h->pid, h->tracer.pid);
	case TRACER_UNKNOWN:
		return fail(-EBUSY, "process %d was traced from another pid namespace (jab %d there): "
			    "recover it from there", h->pid, h->tracer.pid);
	default:
		return 0;
	}
}

static void add_report(struct text_report *sum, const struct text_report *r)
{
	sum->restored += r->restored;
	sum->foreign += r->foreign;
	sum->pages_kept += r->pages_kept;
	sum->processes += r->processes;
	sum->verified &= r->verified;
	sum->arena_left |= r->arena_left;
	sum->gone |= r->gone;
}

static int recover_arena(struct proc *p, uint64_t inode, struct text_report *sum)
{
	struct text_report report;
	struct undo u = { 0 };
	int r = proc_read_maps(p);

	if (r == 0)
		r = load_undo(p, inode, &u);
	if (r == 0)
		r = clean_everywhere(p, &u, &report);
	if (r == 0)
		add_report(sum, &report);
	undo_free(&u);
	return r;
}

/* While held: the number may mean another file by now, so look again before closing. */
static void close_held(struct proc *p, const struct holder *want)
{
	holder_list now = { 0 };
	struct thread *t;
	size_t i, room;
	taddr at;

	if (proc_scratch(p, &at, &room) < 0)
		return;
	t = thread_find(p, proc_borrowed_tid(p));
	holders_in_fds(t ? t->pid : p->pid, proc_borrowed_tid(p), &now);
	for (i = 0; i < now.n; i++)
		if (now.v[i].fd == want->fd && now.v[i].inode == want->inode)
			borrow(p, SYS_close, want->fd, 0, 0, 0, 0, 0);
	vec_free(&now);
}

/* While held: does a thread still run through a dead tracer's table of calls (batch.c)? */
static bool is_at_desk(struct proc *p, uint64_t inode)
{
	const struct map *m;
	size_t i;

	if (proc_read_maps(p) < 0)
		return false;
	for (i = 0; i < p->threads.n; i++) {
		m = proc_map_at(p, p->threads.v[i].regs.rip);
		if (m && is_of(m, inode))
			return true;
	}
	return false;
}

/*
 * Not as long as somebody is about to use or to close it: the number could mean a file of the
 * target's own by then.
 */
static int close_descriptor(struct proc *p, const struct holder *h)
{
	uint64_t deadline = now_ns() + DESK_NS;
	bool busy;
	int r;

	for (;;) {
		r = proc_stop(p);
		if (r < 0)
			return r;
		busy = is_at_desk(p, h->inode);
		if (!busy)
			close_held(p, h);
		r = proc_resume(p);
		if (r < 0 || !busy || now_ns() > deadline)
			return r;
		sleep_ns(DESK_LOOK_NS);
	}
}

static int recover_holders(struct proc *p, const holder_list *list, struct text_report *sum)
{
	size_t i;
	int r;

	for (i = 0; i < list->n; i++) {
		r = refuse_living(&list->v[i]);
		if (r < 0)
			return r;
	}
	for (i = 0; i < list->n; i++) {
		if (list->v[i].fd >= 0)
			r = close_descriptor(p, &list->v[i]);
		else
			r = recover_arena(p, list->v[i].inode, sum);
		if (target_left(p, r)) {
			sum->gone = true;
			return 0;
		}
		if (r < 0)
			return r;
	}
	if (!sum->processes)
		sum->processes = 1;
	return 0;
}

/*
 * A borrowed thread has all its signals blocked, and that is seen from outside. If its tracer died and
 * it has not had its turn since, it is still about to make a call: one descriptor or mapping more, or
 * less, than whoever looks now can see.
 */
static bool has_borrowed(pid_t pid)
{
	const uint64_t all = ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
	char path[300], status[4096];
	bool found = false;
	struct dirent *e;
	uint64_t mask;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, e->d_name);
		mask = 0;
		if (e->d_name[0] != '.' && file_read(path, status, sizeof(status)) > 0)
			status_field(status, "SigBlk", 16, &mask);
		found = (mask & all) == all;
	}
	if (d)
		closedir(d);
	return found;
}

/* In a stop that call has been made. */
static int stop_and_go(struct proc *p)
{
	int r = proc_stop(p);

	return r < 0 ? r : proc_resume(p);
}

static void find_holders(pid_t pid, pid_t via, holder_list *list)
{
	list->n = 0;
	holders_in_fds(pid, via, list);		/* first: they are mapped before they are closed */
	holders_in_maps(pid, list);
}

static int recover_opened(struct proc *p, bool borrowed, struct text_report *sum)
{
	holder_list list = { 0 };
	int r = borrowed ? stop_and_go(p) : 0;

	if (r == 0) {
		find_holders(p->pid, priv(p)->via, &list);
		r = list.n ? recover_holders(p, &list, sum) : -ENOENT;
	}
	vec_free(&list);
	return r;
}

int text_recover(pid_t pid, struct text_report *ret_report)
{
	struct text_report sum = { .verified = true };
	bool borrowed = has_borrowed(pid);	/* before the look at what is there */
	holder_list list = { 0 };
	struct proc *p = NULL;
	int r = -ENOENT;

	find_holders(pid, pid, &list);
	if (list.n || borrowed)
		r = proc_open(pid, &p);
	if (p)
		r = recover_opened(p, borrowed, &sum);
	proc_close(p);
	vec_free(&list);
	if (r == -ENOENT)
		return fail(r, "nothing of ours is in process %d", pid);
	if (r == 0)
		*ret_report = sum;
	return r;
}

int text_find_left(pid_list *ret_pids)
{
	holder_list list = { 0 };
	pid_list pids = { 0 };
	size_t i;
	int r = holders_everywhere(true, &list);

	for (i = 0; r == 0 && i < list.n; i++)
		if (tracer_state(&list.v[i].tracer) == TRACER_DEAD && !has_pid(&pids, list.v[i].pid))
			*vec_add(&pids) = list.v[i].pid;
	vec_free(&list);
	if (r == 0)
		*ret_pids = pids;
	return r;
}
