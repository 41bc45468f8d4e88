/* SPDX-License-Identifier: MIT */
#include "session/arrivals/newcomers.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/doorman/arrivals.h"
#include "proc/threads/near.h"
#include "session/arrivals/follow.h"
#include "session/watches/parks.h"

#define SOON (-10)		/* priority while others wait */
#define ACCEPT_NS 20000000ull	/* longest time for newcomers before rings are read again */

struct newcomers {
	VEC(char *) paths;
	struct arrivals *arrivals;
	bool all, suffice;	/* newcomers_are_all(), newcomers_suffice() */
	uint32_t heard;
	size_t most;
	struct jab_newcomers counts;
};

/* ---- which files ---- */

/* Has it the flag that linkers give to programs? A library may have a loader's name in it, too (libc does). */
static bool is_program(const struct module *m)
{
	const Elf64_Ehdr *eh = (const void *)m->image;

	if (m->image_size < sizeof(*eh) || eh->e_type != ET_DYN)
		return true;
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		const Elf64_Phdr *ph = (const void *)(m->image + eh->e_phoff + (uint64_t)i * sizeof(*ph));
		const Elf64_Dyn *d;

		if ((const uint8_t *)(ph + 1) > m->image + m->image_size)
			break;
		if (ph->p_type != PT_DYNAMIC || ph->p_offset > m->image_size || ph->p_filesz > m->image_size - ph->p_offset)
			continue;
		d = (const void *)(m->image + ph->p_offset);
		for (size_t k = 0; k < ph->p_filesz / sizeof(*d) && d[k].d_tag != DT_NULL; k++)
			if (d[k].d_tag == DT_FLAGS_1)
				return d[k].d_un.d_val & DF_1_PIE;
	}
	return false;
}

static bool is_watched(const struct newcomers *n, const char *path)
{
	for (size_t i = 0; i < n->paths.n; i++)
		if (!strcmp(n->paths.v[i], path))
			return true;
	return false;
}

static bool all_are_watched(const struct jab *j)
{
	for (size_t i = 0; i < j->probes.n; i++) {
		const char *object = j->probes.v[i].spec->object;

		if (!object || !is_watched(j->newcomers, object))
			return false;
	}
	return true;
}

/* Its loader has a pad, which reports the libraries that it opens. */
static bool is_known(void *arg, pid_t pid)
{
	const struct jab *j = arg;

	for (size_t i = 0; i < j->targets.n; i++) {
		const struct target *t = &j->targets.v[i];

		if (t->proc && t->proc->pid == pid && t->inserted && t->park && t->park->follows && proc_alive(t->proc))
			return true;
	}
	return false;
}

static int open_arrivals(struct jab *j, const struct door_file *files, size_t n)
{
	struct newcomers *new = j->newcomers;
	struct arrivals_options o = { files, n, true, is_known, j };
	int r = arrivals_open(&o, &new->arrivals);

	if (r == -EINVAL) {
		o.exact = false;
		r = arrivals_open(&o, &new->arrivals);
		new->counts.late = !r;
	}
	return r;
}

int newcomers_watch(struct jab *j, const char *const *paths, size_t n)
{
	struct newcomers *new = j->newcomers = xcalloc(1, sizeof(*new));
	VEC(struct door_file) files = { 0 };
	int r = 0;

	new->suffice = true;
	for (size_t i = 0; !r && i < n; i++) {
		struct module *m;

		if (is_watched(new, paths[i]))
			continue;
		*vec_add(&new->paths) = xstrdup(paths[i]);
		m = file_on_disk(j, paths[i]);
		if (!m)
			r = fail(-ENOENT, "%s can't be read", paths[i]);
		else
			*vec_add(&files) = (struct door_file){ paths[i], true, !is_program(m) };
		new->suffice &= m && is_program(m);
	}
	new->all = all_are_watched(j);
	new->suffice &= new->all;
	new->most = targets_most();
	if (!r)
		r = open_arrivals(j, files.v, files.n);
	vec_free(&files);
	if (r < 0)
		newcomers_free(j);
	return r;
}

/* ---- arrivals ---- */

/* Another jab is not traced: two that trace each other could both stop for ever. */
bool is_jab(pid_t pid)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return stat("/proc/self/exe", &ours) == 0 && stat(path, &its) == 0 && ours.st_ino == its.st_ino &&
	       ours.st_dev == its.st_dev;
}

static bool is_turned_away(struct jab *j, const struct proc *p)
{
	struct newcomers *new = j->newcomers;

	if (is_jab(p->pid)) {
		new->counts.foreign++;
		return true;
	}
	if (targets_living(j) < new->most)
		return false;
	if (!new->counts.crowded++)
		log_warn("%zu processes are traced at a time, which is the most: those that start now are not probed", new->most);
	return true;
}

static void take(struct jab *j, const struct arrival *one)
{
	struct target *t;
	uint32_t target;

	if (is_turned_away(j, one->proc) || target_add(j, one->proc) < 0) {
		proc_resume(one->proc);
		proc_close(one->proc);
		return;
	}
	target = j->targets.n - 1;
	t = &j->targets.v[target];
	t->newcomer = true;
	t->scout = !one->loaded;
	log_info("process %d begins to use %s", one->proc->pid, one->proc->exe);
	follow_probe(j, target);
	proc_resume(one->proc);
	t = &j->targets.v[target];
	if (t->inserted)
		j->newcomers->counts.probed++;
	else
		target_drop(j, t);
}

/* No arrival is left held while jab does other things: writing to standard output may block for ever. */
static int poll_arrivals(struct jab *j, int *ret_probed)
{
	struct newcomers *new = j->newcomers;
	uint64_t start = now_ns();
	struct arrival one;
	int r;

	do {
		r = arrivals_poll(new->arrivals, now_ns() - start < ACCEPT_NS, &one);
		if (r > 0)
			take(j, &one);
		*ret_probed += r > 0;
	} while (r > 0 || arrivals_busy(new->arrivals));
	near_leave();
	return r;
}

/*
 * Others wait for us meanwhile, and whatever else the machine has to do would make them wait longer: so we have the
 * doorman's priority, if we may.
 */
static int poll_soon(struct jab *j, int *ret_probed)
{
	int before = getpriority(PRIO_PROCESS, 0), r;
	bool raised = before > SOON && setpriority(PRIO_PROCESS, 0, SOON) == 0;

	r = poll_arrivals(j, ret_probed);
	if (raised)
		setpriority(PRIO_PROCESS, 0, before);
	return r;
}

int newcomers_poll(struct jab *j)
{
	struct newcomers *new = j->newcomers;
	uint32_t bell;
	int r, n = 0;

	if (!new || !new->arrivals)
		return 0;
	bell = __atomic_load_n(arrivals_bell(new->arrivals), __ATOMIC_ACQUIRE);
	r = bell != new->heard ? poll_soon(j, &n) : poll_arrivals(j, &n);
	new->heard = bell;
	if (r < 0) {
		log_warn("the process that tells us of newcomers is gone: those that start from now on are not probed");
		newcomers_stop(j);
	}
	return n;
}

uint32_t *newcomers_bell(struct jab *j, uint32_t *ret_heard, uint64_t *ns)
{
	struct newcomers *new = j->newcomers;

	if (!new || !new->arrivals)
		return NULL;
	/* The doorman lets arrivals go when it has not heard from jab for a while. */
	*ns = MIN(*ns, arrivals_leave(new->arrivals) ? 1000000ull : 200000000ull);
	*ret_heard = new->heard;
	return arrivals_bell(new->arrivals);
}

static void attach_new_users(struct jab *j)
{
	for (size_t i = 0; i < j->newcomers->paths.n; i++) {
		size_t n = j->targets.n;

		if (session_attach_users(j, j->newcomers->paths.v[i]) < 0)
			continue;
		for (; n < j->targets.n; n++)
			follow_probe(j, n);
	}
}

void newcomers_start(struct jab *j)
{
	if (!j->newcomers)
		return;
	arrivals_start(j->newcomers->arrivals);
	attach_new_users(j);
}

void newcomers_get(const struct jab *j, struct jab_newcomers *ret)
{
	struct arrival_counts c = { 0 };

	*ret = (struct jab_newcomers){ 0 };
	if (!j->newcomers)
		return;
	*ret = j->newcomers->counts;
	if (!j->newcomers->arrivals)
		return;
	arrivals_get_counts(j->newcomers->arrivals, &c);
	ret->missed += c.missed;
	ret->asleep += c.asleep;
	ret->foreign += c.foreign;
	ret->flooded += c.flooded;
}

void newcomers_stop(struct jab *j)
{
	struct jab_newcomers counts;

	if (!j->newcomers || !j->newcomers->arrivals)
		return;
	newcomers_get(j, &counts);
	j->newcomers->counts = counts;
	arrivals_close(j->newcomers->arrivals);
	j->newcomers->arrivals = NULL;
}

void newcomers_free(struct jab *j)
{
	struct newcomers *new = j->newcomers;

	if (!new)
		return;
	newcomers_stop(j);
	for (size_t i = 0; i < new->paths.n; i++)
		free(new->paths.v[i]);
	vec_free(&new->paths);
	free(new);
	j->newcomers = NULL;
}

/* ---- questions of other files ---- */

bool newcomers_may_come(const struct jab *j)
{
	return j->newcomers && j->newcomers->arrivals;
}

bool newcomers_are_all(const struct jab *j)
{
	return j->newcomers && j->newcomers->all;
}

bool newcomers_suffice(const struct jab *j)
{
	return j->newcomers && j->newcomers->suffice;
}

bool newcomers_watches(const struct jab *j, const struct probe_spec *spec)
{
	return j->newcomers && spec->object && is_watched(j->newcomers, spec->object);
}
