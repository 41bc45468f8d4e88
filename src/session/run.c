/* SPDX-License-Identifier: MIT */
/* A run, from its start to its end. */
#include "session/scripts/budget.h"
#include "session/arrivals/follow.h"
#include "session/arrivals/newcomers.h"
#include "session/watches/parks.h"
#include "session/events/shapes.h"
#include "session/calls/tails.h"
#include "session/scripts/units.h"
#include "session/watches/known.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "session/ends.h"

void session_new(struct jab **ret_jab)
{
	*ret_jab = xcalloc(1, sizeof(**ret_jab));
	(*ret_jab)->arch = arch_host();
	(*ret_jab)->started_ns = now_ns();
}

void session_abandon(struct jab *j)
{
	newcomers_free(j);
	if (j->child && !j->released)	/* it has not run one instruction of its own: it never will */
		kill(j->child, SIGKILL);
	session_remove(j, NULL);
}

void session_free(struct jab *j)
{
	if (!j)
		return;
	session_abandon(j);
	free(j->condition);
	ends_free(j);
	for (size_t i = 0; i < j->targets.n; i++)
		target_free(j, &j->targets.v[i]);
	for (size_t i = 0; i < j->files.n; i++) {
		file_close(&j->files.v[i]);
	}
	for (size_t i = 0; i < j->probes.n; i++) {
		spec_free(j->probes.v[i].spec);
		free(j->probes.v[i].why);
	}
	events_free(j->events);
	units_free(j);
	budget_free(j->budget);
	for (size_t i = 0; i < j->texts.n; i++)
		free(j->texts.v[i]);
	vec_free(&j->texts);
	vec_free(&j->targets);
	vec_free(&j->files);
	vec_free(&j->probes);
	vec_free(&j->sites);
	vec_free(&j->rows);
	vec_free(&j->past);
	vec_free(&j->refused);
	vec_free(&j->counters);
	free(j->row_hash);
	free(j);
}

/* What a killed tracer left in the process is taken out first. Probes of a living tracer stay. */
static int clear_left(pid_t pid)
{
	struct text_report report;
	int r = text_recover(pid, &report);

	if (r == -ENOENT)
		return 0;
	if (!r)
		log_warn("took out what a killed tracer had left in process %d", pid);
	return r;
}

int session_attach(struct jab *j, pid_t pid)
{
	struct proc *p;
	int r;

	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].proc && j->targets.v[i].proc->pid == pid && proc_alive(j->targets.v[i].proc))
			return 0;
	r = proc_open(pid, &p);
	if (r < 0)
		return r;
	r = clear_left(pid);
	if (!r)
		r = target_add(j, p);
	if (r < 0 && !proc_alive(p))
		r = fail(-ESRCH, "process %d has ended", pid);
	if (r < 0)
		proc_close(p);
	return r;
}

/* Any user's process may carry that name: if they are of several users, that is said in any case. */
static void say_found(const char *name, const pid_list *pids)
{
	char exe[4096];
	uid_t uid, first = 0;
	bool several = false;
	size_t n = 0;

	for (size_t i = 0; i < pids->n; i++)
		if (proc_identity(pids->v[i], &uid, exe, sizeof(exe)) == 0) {
			first = n++ ? first : uid;
			several |= uid != first;
		}
	for (size_t i = 0; i < pids->n; i++)
		if (proc_identity(pids->v[i], &uid, exe, sizeof(exe)) == 0)
			(several ? log_warn : log_info)("%s is process %d of user %u, %s", name, pids->v[i], uid,
							exe[0] ? exe : "its file is not known");
}

int session_attach_name(struct jab *j, const char *name)
{
	pid_list pids = { 0 };
	int r = proc_find(name, &pids);
	size_t ended = 0;

	if (!r)
		say_found(name, &pids);
	for (size_t i = 0; !r && i < pids.n; i++) {
		r = session_attach(j, pids.v[i]);
		if (r == -ESRCH && ++ended < pids.n)	/* it ended since it was found */
			r = 0;
	}
	vec_free(&pids);
	return r;
}

/* Said once for each process: the users of a file are listed again when newcomers are watched. */
static void say_refused(struct jab *j, pid_t pid, int err)
{
	for (size_t i = 0; i < j->refused.n; i++)
		if (j->refused.v[i] == pid)
			return;
	*vec_add(&j->refused) = pid;
	if (err == -ESRCH)		/* it ended since it was found */
		log_info("%s", err_text());
	else
		log_warn("%s", err_text());
}

int session_attach_users(struct jab *j, const char *path)
{
	pid_list pids = { 0 };
	int r = proc_find_users(path, &pids), n = 0, one;

	for (size_t i = 0; r >= 0 && i < pids.n; i++) {
		if (is_jab(pids.v[i]))
			continue;
		one = session_attach(j, pids.v[i]);
		if (one < 0)
			say_refused(j, pids.v[i], one);
		n += one == 0;
	}
	vec_free(&pids);
	return r < 0 ? r : n;
}

int session_watch_files(struct jab *j, const char *const *paths, size_t n)
{
	return newcomers_watch(j, paths, n);
}

void session_get_newcomers(const struct jab *j, struct jab_newcomers *ret_newcomers)
{
	newcomers_get(j, ret_newcomers);
}

int session_spawn(struct jab *j, char *const argv[])
{
	struct proc *p;
	int r = proc_spawn(argv, &p);

	if (r < 0)
		return r;
	j->child = p->pid;
	r = target_add(j, p);
	if (r < 0)
		proc_close(p);
	return r;
}

int session_open_file(struct jab *j, const char *path)
{
	return target_add_file(j, path);
}

void session_follow(struct jab *j)
{
	j->follow = j->arch->emit_park;
	if (!j->follow)
		log_info("jab for %s does not follow programs that are executed and libraries that are loaded later", j->arch->name);
}

void session_get_unfollowed(const struct jab *j, struct jab_unfollowed *ret_unfollowed)
{
	*ret_unfollowed = j->unfollowed;
}

int session_poll(struct jab *j)
{
	if (!j->events)		/* otherwise events_drain() does it after it has read their rings */
		targets_retire(j);
	proc_settle();
	return follow_poll(j);
}

void session_wait(struct jab *j, uint64_t ns)
{
	follow_wait(j, ns);
}

static int add_probe(struct jab *j, const char *text)
{
	struct probe_spec *spec;
	int r = spec_parse(text, &spec);

	if (r == 0 && (r = explain_field(j, spec)) < 0)
		spec_free(spec);
	if (r < 0)
		return r;
	if (spec->rest && !j->events) {
		r = fail(-EINVAL, "probe '%s': \"%s\" is for `jab trace` and `jab record`; here a probe has "
			 "no fields and no condition", text, spec->rest);
		spec_free(spec);
		return r;
	}
	if (spec->kind == SPEC_CALL && !j->events) {
		spec_free(spec);
		return fail(-EINVAL, "probe '%s': a call is an event with a duration, for `jab trace`, `jab record` and "
			    "scripts; count 'FUNCTION' or 'FUNCTION%%return'", text);
	}
	if (!j->events) {
		vec_add(&j->probes)->spec = spec;
		return 0;
	}
	spec_free(spec);
	return unit_add_line(j, text);
}

int session_add_probe(struct jab *j, const char *text, bool switched)
{
	uint32_t had = j->probes.n;
	int r = add_probe(j, text);

	if (!r && j->events)
		j->units.v[j->probes.v[had].unit - 1].switched = switched;
	return r;
}

int session_resolve(struct jab *j)
{
	uint64_t start = now_ns();
	int r = 0;

	for (uint32_t i = 0; !r && i < j->probes.n; i++)
		r = resolve_probe(j, i);
	if (!r)
		r = units_compile(j);
	if (!r)
		tails_resolve(j, 0);
	j->times.symbols_ns = now_ns() - start;
	return r;
}

/* More sites than this are likely a mistake, and their pads would fill the address space around a module. */
#define MOST_SITES 1000000

static int plan_all(struct jab *j, bool alone)
{
	uint64_t start = now_ns();
	int r = 0;

	if (!alone && j->sites.n > MOST_SITES)
		return fail(-E2BIG, "%zu sites are more than one run can hold (%d): choose fewer functions",
			    j->sites.n, MOST_SITES);
	for (size_t i = 0; !r && i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		r = t->lost ? 0 : place_plan(j, t, alone);
		if (r < 0 && target_lost(j, t))
			r = 0;
	}
	j->times.plan_ns = now_ns() - start;
	return r;
}

int session_plan(struct jab *j)
{
	return plan_all(j, false);
}

int session_plan_alone(struct jab *j)
{
	return plan_all(j, true);
}

/* Inserts the probes into all targets or into none. */
int session_insert(struct jab *j)
{
	int r = j->events ? events_prepare(j) : 0;

	for (size_t i = 0; !r && i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		if (!t->proc)
			r = fail(-EINVAL, "a file can't be probed, only a process");
		else if (!t->lost)
			r = place_insert(j, i);
		if (r < 0 && target_lost(j, t))
			r = 0;
	}
	if (r < 0) {
		char *why = xstrdup(err_text());

		session_remove(j, NULL);
		fail(r, "%s", why);
		free(why);
	}
	if (r < 0)
		return r;
	/* A program that we started is held since its first instruction. */
	j->released = true;
	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].proc && j->targets.v[i].proc->started_by_us)
			proc_resume(j->targets.v[i].proc);
	newcomers_start(j);
	return r;
}

static void add_report(struct jab_report *to, const struct text_report *from)
{
	to->processes += from->processes;
	to->restored += from->restored;
	to->foreign += from->foreign;
	to->pages_kept += from->pages_kept;
	to->arena_left |= from->arena_left;
	to->clean &= from->verified && !from->foreign && !from->arena_left;
}

/* Each process counts once; its parts and the target that watched its loader don't count. */
static void add_left(const struct jab *j, uint32_t target, struct jab_report *to, const struct text_report *from)
{
	const struct target *t = &j->targets.v[target];

	if (!j->child || t->main != target || t->serves || !(t->proc->started_by_us || t->followed))
		return;
	to->left += from->running;
	if (from->running)
		to->one_left = from->one_running;
}

int session_remove(struct jab *j, struct jab_report *ret_report)
{
	struct jab_report report = { .clean = true, .gone = j->gone };
	bool runs = false;
	int r = 0;

	newcomers_stop(j);
	follow_stop(j);
	/* The code of later parts uses that of the main part. */
	for (size_t i = j->targets.n; i-- > 0;) {
		struct target *t = &j->targets.v[i];
		struct text_report one = { 0 };

		if (!t->inserted)
			continue;
		t->inserted = false;
		known_count(t);
		known_drop(t, NULL);	/* threads whose registers the program keeps may come back to pads that stay */
		r = text_remove(t->proc, t->arena, &one) ?: r;
		if (t->proc->gone)
			report.gone++;
		add_report(&report, &one);
		add_left(j, i, &report, &one);
		runs |= t->proc->started_by_us && proc_alive(t->proc);
	}
	if (runs)	/* the run has not ended */
		report.left = 0;
	if (ret_report)
		*ret_report = report;
	return r;
}

/* Of all processes: a forked child was cleaned together with its parent, or another jab has begun to trace the process meanwhile. */
static bool is_no_failure(pid_t pid, int err)
{
	if (err == -EBUSY && text_is_traced(pid)) {
		log_info("passed over: %s", err_text());
		return true;
	}
	return err == -ENOENT;
}

/* If one process can't be cleaned (another tracer holds it), the others still are. */
int session_recover(pid_t pid, struct jab_report *ret_report)
{
	struct jab_report report = { .clean = true };
	pid_list left = { 0 };
	char *why = NULL;
	int r = 0, bad = 0;

	if (pid)
		*vec_add(&left) = pid;
	else
		bad = text_find_left(&left);
	for (size_t i = 0; i < left.n; i++) {
		struct text_report one = { 0 };

		r = text_recover(left.v[i], &one);
		if (!r)
			add_report(&report, &one);
		if (r >= 0 || (!pid && is_no_failure(left.v[i], r)))
			continue;
		bad = r;
		free(why);
		why = xstrdup(err_text());
		if (!pid)
			log_warn("%s", why);
	}
	vec_free(&left);
	if (why)
		fail(bad, "%s", why);
	free(why);
	if (!bad && ret_report)
		*ret_report = report;
	return bad;
}

bool session_alive(struct jab *j)
{
	if (newcomers_may_come(j) || j->execs.n)
		return true;
	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].proc && proc_alive(j->targets.v[i].proc))
			return true;
	/* Their children have the same pads. */
	for (size_t i = 0; i < j->targets.n; i++) {
		bool held = false;

		if (j->targets.v[i].inserted)
			arenas_held(&j->targets.v[i].arena, 1, &held);
		if (held)
			return true;
	}
	return false;
}

int session_child_ended(struct jab *j, int *ret_status)
{
	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].proc && j->targets.v[i].proc->started_by_us && !parks_follow(j, j->targets.v[i].proc->pid))
			return proc_child_ended(j->targets.v[i].proc, ret_status);
	return 0;
}

pid_t session_child_pid(const struct jab *j)
{
	return j->child;
}

void session_get_times(const struct jab *j, struct jab_times *ret_times)
{
	*ret_times = j->times;
}
