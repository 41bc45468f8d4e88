/* SPDX-License-Identifier: MIT */
/*
 * Removal of what a killed tracer has left, by another process. Each target is cleaned by the record that it
 * maps itself and by nothing else: a record never changes another process. Forks of a process are found by their mappings
 * of an arena of the same name.
 *
 *	left behind			seen as					done
 *	descriptor			fd "memfd:jab-..."			close
 *	mapping without record		first page is empty			unmap (no text was touched)
 *	mapping, record			no edit of it is in the text		wait, unmap
 *	mapping, record, some text	each edit: old bytes or new ones	restore, wait, unmap
 *
 * ("wait": until no thread is in a pad.) A record may be forged by the process that maps it. So all that it can cost is
 * limited: arenas per process, edits and text by what is mapped in the process, time.
 */
#include "arch/page.h"
#include "proc/undo/clean.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/internal.h"

#define DESK_LOOK_NS 100000ull
#define FORKS_PATIENCE_NS 1000000000ull
#define TEXT_PAGES_MOST 65536u		/* 256 MiB of text with edits in it */
#define READ_AT_ONCE 4096u		/* edits or moves */
#define BYTES_PER_EDIT 2u		/* at least, over the whole of a text: a jump has two or five */

static bool is_of(const struct map *m, const struct arena_label *label)
{
	struct arena_label l;

	return arena_name_parse(m->path, &l) && same_arena(&l, label);
}

/*
 * Text that jab may have changed is a private mapping of a file. It need not be executable at this moment: a
 * program may be about to change its protection.
 */
static bool is_text(const struct map *m)
{
	return m && m->inode && !m->shared && !is_arena_path(m->path);
}

static size_t most_edits(const struct proc *p)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < p->maps.n; i++)
		if (is_text(&p->maps.v[i]))
			bytes += p->maps.v[i].end - p->maps.v[i].start;
	return MIN(bytes / BYTES_PER_EDIT, (uint64_t)UNDO_MAX_EDITS);
}

/* Drop edits from `first` on that are not in text: their library was unloaded, or the record is forged. */
static void drop_gone(const struct proc *p, struct undo *u, size_t first)
{
	size_t n = first;

	for (size_t i = first; i < u->edits.n; i++) {
		const struct edit *e = &u->edits.v[i];

		if (is_text(proc_map_at(p, e->at.v)) && is_text(proc_map_at(p, e->at.v + e->len - 1)))
			u->edits.v[n++] = *e;
	}
	u->edits.n = n;
}

static int load_edits(struct proc *p, uint64_t at, size_t n, struct undo *u)
{
	struct undo_edit *part = xcalloc(READ_AT_ONCE, sizeof(*part));
	size_t most = most_edits(p);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i += READ_AT_ONCE) {
		size_t some = MIN(n - i, (size_t)READ_AT_ONCE), first = u->edits.n;

		r = proc_read(p, TADDR(at + i * sizeof(*part)), part, some * sizeof(*part));
		if (r == 0)
			r = undo_take_edits(u, part, some);
		drop_gone(p, u, first);
		if (r == 0 && u->edits.n > most)
			r = undo_garbled("more edits than its text can hold");
	}
	free(part);
	return r;
}

static int load_moves(struct proc *p, uint64_t at, size_t n, struct undo *u)
{
	struct undo_move *part = xcalloc(READ_AT_ONCE, sizeof(*part));
	int r = 0;

	n = MIN(n, most_edits(p) * UNDO_MOVES_PER_EDIT);	/* moves are optional: the rest is ignored */
	for (size_t i = 0; r == 0 && i < n; i += READ_AT_ONCE) {
		size_t some = MIN(n - i, (size_t)READ_AT_ONCE);

		r = proc_read(p, TADDR(at + i * sizeof(*part)), part, some * sizeof(*part));
		if (r == 0)
			r = undo_take_moves(u, part, some);
	}
	free(part);
	return r;
}

/* Several may have one edit: tracepoints that are a byte apart are in one jump. */
static int load_semaphores(struct proc *p, uint64_t at, size_t n, struct undo *u)
{
	struct undo_semaphore *part = xcalloc(READ_AT_ONCE, sizeof(*part));
	int r = n > most_edits(p) ? undo_garbled("more semaphores than fit in its text") : 0;

	for (size_t i = 0; r == 0 && i < n; i += READ_AT_ONCE) {
		size_t some = MIN(n - i, (size_t)READ_AT_ONCE);

		r = proc_read(p, TADDR(at + i * sizeof(*part)), part, some * sizeof(*part));
		if (r == 0)
			r = undo_take_semaphores(u, part, some);
	}
	free(part);
	return r;
}

/* Limit the number of pages with edits. Edits are sorted. */
static int check_pages(const struct undo *u)
{
	size_t pages = 0;
	uint64_t last = 0;

	for (size_t i = 0; i < u->edits.n; i++) {
		uint64_t page = u->edits.v[i].at.v / PAGE;

		pages += page != last;
		last = page;
	}
	return pages > TEXT_PAGES_MOST ? undo_garbled("edits in too much text") : 0;
}

static int load_lists(struct proc *p, uint64_t at, const struct undo_head *h, struct undo *u)
{
	int r = 0;

	/* No text was ever changed: ignore the edits. */
	if (h->text != UNDO_TEXT_CLEAN)
		r = load_edits(p, at + h->edits_off, h->n_edits, u);
	if (r == 0 && u->edits.n)
		r = load_semaphores(p, at + undo_semaphores_off(h), h->n_semaphores, u);
	if (r == 0)
		r = load_moves(p, at + h->moves_off, h->n_moves, u);
	if (r == 0)
		r = undo_take_end(u, h);
	return r < 0 ? r : check_pages(u);
}

/* Read the record of an arena from this process's mapping of it. */
static int load_undo(struct proc *p, const struct arena_label *label, struct undo *u)
{
	const struct map *m = NULL;
	struct arena_label l;
	struct undo_head h;
	bool any = false;
	int r;

	u->label = *label;
	u->growing = true;
	for (size_t i = 0; i < p->maps.n && !m; i++) {
		if (!arena_name_parse(p->maps.v[i].path, &l) || !same_arena(&l, label))
			continue;
		any = true;
		if (p->maps.v[i].offset == 0 && !l.data)
			m = &p->maps.v[i];
	}
	if (!any)
		return 0;	/* it was unmapped meanwhile */
	if (!m)
		return fail(-EAGAIN, "process %d has memory of a dead jab, but its undo record is not mapped: "
			    "left as it is", p->pid);
	r = proc_read(p, TADDR(m->start), &h, sizeof(h));
	if (r == 0)
		r = undo_check(&h, m->end - m->start);
	if (r == 0)
		r = load_lists(p, m->start, &h, u);
	if (r == -EBADMSG)
		fail_in(r, "process %d", p->pid);
	return r == -ENODATA ? 0 : r;
}

/*
 * Pieces without a record: the record is unmapped last, but a thread that a dead tracer had borrowed may be unmapping the
 * arena now, and /proc/PID/maps shows mappings as of different moments. So read it again some times: soon there are none.
 */
#define RECORD_LOOKS 20
#define RECORD_LOOK_NS 2000000ull

static int recover_arena(struct proc *p, const struct arena_label *label, uint64_t deadline, struct text_report *sum)
{
	struct undo u = { 0 };
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < RECORD_LOOKS; i++) {
		if (i)
			sleep_ns(RECORD_LOOK_NS);
		r = proc_read_maps(p);
		if (r == 0)
			r = load_undo(p, label, &u);
	}
	if (r == -EAGAIN)
		r = -EBADMSG;
	if (r == 0)
		r = clean_process(p, &u, deadline, sum);
	undo_free(&u);
	return r;
}

/* While held: the descriptor may be of another file by now, so check it again before closing it. */
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

/* While held: whether a thread still makes the calls of a dead tracer's table (batch.c). */
static bool is_at_desk(struct proc *p, const struct arena_label *label)
{
	const struct map *m;
	size_t i;

	if (proc_read_maps(p) < 0)
		return false;
	for (i = 0; i < p->threads.n; i++) {
		m = proc_map_at(p, p->threads.v[i].regs.cpu.pc);
		if (m && is_of(m, label))
			return true;
	}
	return false;
}

/*
 * Not as long as a borrowed thread is about to use or close the descriptor: if it is closed twice, its number may belong to
 * a file of the target by then.
 */
static int close_descriptor(struct proc *p, const struct holder *h, uint64_t deadline)
{
	bool busy;
	int r;

	for (;;) {
		r = proc_stop(p);
		if (r < 0)
			return r;
		busy = is_at_desk(p, &h->label);
		if (!busy)
			close_held(p, h);
		r = proc_resume(p);
		if (r < 0 || !busy || now_ns() > deadline)
			return r;
		sleep_ns(DESK_LOOK_NS);
	}
}

static size_t count_mapped(const holder_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += list->v[i].fd < 0;
	return n;
}

static int recover_holders(struct proc *p, const holder_list *list, uint64_t deadline, struct text_report *sum)
{
	size_t i, mapped = count_mapped(list), before = sum->processes;
	int r;

	for (i = 0; i < list->n; i++) {
		r = refuse_living(&list->v[i]);
		if (r < 0)
			return r;
	}
	if (mapped >= HOLDERS_MOST || list->n - mapped >= HOLDERS_MOST) {
		log_warn("process %d has %u or more arenas of dead jabs: only so many are removed at a time", p->pid, HOLDERS_MOST);
		sum->verified = false;
	}
	for (i = 0; i < list->n; i++) {
		if (list->v[i].fd >= 0)
			r = close_descriptor(p, &list->v[i], deadline);
		else
			r = recover_arena(p, &list->v[i].label, deadline, sum);
		if (target_left(p, r)) {
			sum->gone = true;
			return 0;
		}
		if (r < 0)
			return r;
	}
	sum->processes = before + 1;	/* one process, however many arenas it had */
	return 0;
}

/*
 * Whether a thread may be borrowed: it has all signals blocked then, which /proc shows. If its tracer died and
 * it has not had a CPU since, it is still about to make a call, by which the process gets or loses a descriptor or a
 * mapping after we have read its lists.
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

/* When the thread has stopped, that call has been made. */
static int stop_and_go(struct proc *p)
{
	int r = proc_stop(p);

	return r < 0 ? r : proc_resume(p);
}

static void find_holders(pid_t pid, pid_t via, holder_list *list)
{
	list->n = 0;
	holders_in_fds(pid, via, list);		/* before the mappings: a memfd is mapped before its descriptor is closed */
	holders_in_maps(pid, list);
}

static int recover_opened(struct proc *p, bool borrowed, uint64_t deadline, holder_list *ret_list,
			  struct text_report *sum)
{
	int r = borrowed ? stop_and_go(p) : 0;

	if (r < 0)
		return r;
	find_holders(p->pid, priv(p)->via, ret_list);
	return ret_list->n ? recover_holders(p, ret_list, deadline, sum) : -ENOENT;
}

static bool is_listed(const holder_list *list, const struct arena_label *label)
{
	for (size_t i = 0; i < list->n; i++)
		if (same_arena(&list->v[i].label, label))
			return true;
	return false;
}

/* Clean a fork by its own record, and only if its tracer is dead: an equal name proves nothing. */
static void recover_fork(pid_t pid, uint64_t deadline, struct text_report *sum)
{
	holder_list list = { 0 };
	struct proc *p = NULL;
	int r = proc_open(pid, &p);

	if (r == 0)
		r = recover_opened(p, has_borrowed(pid), deadline, &list, sum);
	if (r < 0 && r != -ENOENT && r != -ESRCH) {
		log_warn("process %d has probes of a dead jab that can't be removed: %s", pid, err_text());
		sum->verified = false;
		sum->arena_left = true;
	}
	proc_close(p);
	vec_free(&list);
}

/* Go through all processes once. Each fork is tried only once; returns how many were tried now. */
static size_t recover_forks_once(const holder_list *of, uint64_t patience, uint64_t deadline, pid_list *tried,
				 struct text_report *sum)
{
	holder_list list = { 0 };
	pid_list stuck = { 0 };
	size_t n = 0;

	holders_everywhere(&list, &stuck);
	for (size_t i = 0; i < list.n && now_ns() <= deadline; i++) {
		pid_t pid = list.v[i].pid, tracer;

		if (has_pid(tried, pid) || !is_listed(of, &list.v[i].label) ||
		    holder_tracer(&list.v[i], &tracer) != TRACER_DEAD)
			continue;
		*vec_add(tried) = pid;
		recover_fork(pid, patience, sum);
		n++;
	}
	vec_free(&list);
	vec_free(&stuck);
	return n;
}

static void recover_forks(pid_t not, const holder_list *of, struct text_report *sum)
{
	uint64_t patience = now_ns() + FORKS_PATIENCE_NS, deadline = now_ns() + ROUNDS_NS;
	pid_list tried = { 0 };

	*vec_add(&tried) = not;
	while (recover_forks_once(of, patience, deadline, &tried, sum)) {
		if (now_ns() > deadline) {
			sum->arena_left = true;
			break;
		}
	}
	vec_free(&tried);
}

int text_recover(pid_t pid, struct text_report *ret_report)
{
	struct text_report sum = { .verified = true };
	bool borrowed = has_borrowed(pid);	/* before descriptors and mappings are read */
	holder_list list = { 0 };
	struct proc *p = NULL;
	int r = -ENOENT;

	find_holders(pid, pid, &list);
	if (list.n || borrowed)
		r = proc_open(pid, &p);
	if (p)
		r = recover_opened(p, borrowed, now_ns() + CLEAN_NS, &list, &sum);
	proc_close(p);
	if (r == 0) {
		recover_forks(pid, &list, &sum);
		sum.verified &= !sum.arena_left;
		*ret_report = sum;
	}
	vec_free(&list);
	if (r == -ENOENT)
		return fail(r, "process %d has no probes or memory of jab", pid);
	return r;
}

bool text_is_traced(pid_t pid)
{
	holder_list list = { 0 };
	bool found = false;
	pid_t tracer;

	find_holders(pid, pid, &list);
	for (size_t i = 0; !found && i < list.n; i++)
		found = holder_tracer(&list.v[i], &tracer) == TRACER_ALIVE;
	vec_free(&list);
	return found;
}

int text_find_left(pid_list *ret_pids)
{
	holder_list list = { 0 };
	pid_list pids = { 0 }, stuck = { 0 };
	pid_t tracer;
	size_t i;
	int r = holders_everywhere(&list, &stuck);

	for (i = 0; i < stuck.n; i++)
		log_warn("process %d keeps its mappings locked, so it was not examined", stuck.v[i]);
	for (i = 0; r == 0 && i < list.n; i++)
		if (!has_pid(&pids, list.v[i].pid) && holder_tracer(&list.v[i], &tracer) == TRACER_DEAD)
			*vec_add(&pids) = list.v[i].pid;
	vec_free(&list);
	vec_free(&stuck);
	if (r == 0)
		*ret_pids = pids;
	return r;
}
