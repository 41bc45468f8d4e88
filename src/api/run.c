/* SPDX-License-Identifier: MIT */
/* Targets, insertion, the loop of a run, removal, and what is known of it. */
#include "api/api.h"

#include <sys/timerfd.h>
#include "base/clock.h"
#include "session/ends.h"

/* ---- targets ---- */

int jab_attach(struct jab *j, pid_t pid)
{
	return API_CALL(j, STAGE_OPEN, session_attach(j, pid));
}

int jab_attach_name(struct jab *j, const char *name)
{
	return API_CALL(j, STAGE_OPEN, session_attach_name(j, name));
}

int jab_attach_users(struct jab *j, const char *path)
{
	return API_CALL(j, STAGE_OPEN, session_attach_users(j, path));
}

int jab_spawn(struct jab *j, char *const argv[])
{
	return API_CALL(j, STAGE_OPEN, argv && argv[0] ? session_spawn(j, argv) : fail(-EINVAL, "no command was given"));
}

int jab_open_file(struct jab *j, const char *path)
{
	return API_TRY(j, STAGE_OPEN, session_open_file(j, path));
}

int jab_watch_files(struct jab *j, const char *const *paths, size_t n)
{
	return API_CALL(j, STAGE_OPEN, session_watch_files(j, paths, n));
}

/* ---- in ---- */

static int to_stage(struct jab *j, int r, enum stage stage)
{
	if (r >= 0)
		j->handle->stage = stage;
	return r;
}

static int resolve(struct jab *j)
{
	return to_stage(j, session_resolve(j), STAGE_RESOLVED);
}

static int plan(struct jab *j, bool alone)
{
	int r = j->handle->stage == STAGE_OPEN ? resolve(j) : 0;

	if (r < 0)
		return r;
	return alone ? to_stage(j, session_plan_alone(j), STAGE_ALONE) : to_stage(j, session_plan(j), STAGE_PLANNED);
}

static int insert(struct jab *j)
{
	int r;

	ends_begin(j);
	r = session_insert(j);
	j->handle->stage = r < 0 ? STAGE_OVER : STAGE_RUNNING;
	return r;
}

int jab_resolve(struct jab *j)
{
	return API_TRY(j, STAGE_OPEN, resolve(j));
}

int jab_plan(struct jab *j, unsigned int flags)
{
	return API_TRY(j, STAGE_OPEN | STAGE_RESOLVED, flags & ~JAB_PLAN_ALONE ? fail(-EINVAL, "unknown flags") :
			plan(j, flags & JAB_PLAN_ALONE));
}

int jab_insert(struct jab *j)
{
	int r = API_TRY(j, STAGE_BEFORE, j->handle->stage == STAGE_PLANNED ? 0 : plan(j, false));

	return r < 0 ? r : API_CALL(j, STAGE_PLANNED, insert(j));
}

/* ---- the loop ---- */

static uint64_t wait_ns(struct jab *j)
{
	uint64_t ns = j->events && j->handle->stage == STAGE_RUNNING ? events_wait_ns(j) : UINT64_MAX;

	return MIN(ns, j->handle->script_wait);
}

#define LOOK_NS 1000000ull		/* for threads that wait, by the timer */
#define CHILD_NS 20000000ull		/* whether targets have ended */

static void arm_timer(struct jab *j)
{
	uint64_t ns = MAX(MIN(MIN(wait_ns(j), CHILD_NS), j->follow ? LOOK_NS : UINT64_MAX), 1000);
	struct itimerspec at = { .it_value = { ns / 1000000000, ns % 1000000000 } };

	if (j->handle->timer >= 0)
		timerfd_settime(j->handle->timer, 0, &at, NULL);
}

static int64_t dispatch(struct jab *j)
{
	struct handle *h = j->handle;
	bool over = h->stage == STAGE_OVER;
	int64_t n = over ? 0 : session_poll(j), r;

	if (!over)
		session_give_way(j);
	if (j->events)
		n = events_drain(j, over);
	if (h->script && !over) {
		r = script_tick(h->script, &h->script_wait);
		n = r < 0 ? r : n;
	}
	arm_timer(j);
	return n;
}

int64_t jab_dispatch(struct jab *j)
{
	return API_CALL(j, STAGE_ANY, dispatch(j));
}

int jab_wait(struct jab *j, uint64_t ns)
{
	return API_CALL(j, STAGE_ANY, (session_wait(j, MIN(ns, wait_ns(j))), 0));
}

static int make_timer(struct jab *j)
{
	struct handle *h = j->handle;

	if (h->timer < 0)
		h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (h->timer < 0)
		return fail(-errno, "no timer can be had: %m");
	arm_timer(j);
	return h->timer;
}

int jab_fd(struct jab *j)
{
	return API_CALL(j, STAGE_ANY, make_timer(j));
}

bool jab_alive(struct jab *j)
{
	return API_CALL(j, STAGE_ANY, session_alive(j)) > 0;
}

int jab_child_ended(struct jab *j, int *ret_status)
{
	return API_CALL(j, STAGE_ANY, session_child_ended(j, ret_status));
}

pid_t jab_child_pid(const struct jab *j)
{
	return session_child_pid(j);
}

/* ---- out ---- */

static int take_out(struct jab *j)
{
	int r;

	for (size_t i = 0; i < j->targets.n; i++)
		ends_note(j, &j->targets.v[i]);
	r = session_remove(j, &j->handle->report);
	j->handle->stage = STAGE_OVER;
	return r;
}

int jab_remove(struct jab *j)
{
	return API_CALL(j, STAGE_END, take_out(j));
}

static int recover(struct jab *j, pid_t pid)
{
	j->handle->report = (struct jab_report){ .clean = true };
	return session_recover(pid, &j->handle->report);
}

int jab_recover(struct jab *j, pid_t pid)
{
	return API_CALL(j, STAGE_ANY & ~STAGE_RUNNING, recover(j, pid));
}

/* ---- what is known ---- */

const struct jab_report *jab_get_report(struct jab *j)
{
	return &j->handle->report;
}

const struct jab_newcomers *jab_get_newcomers(struct jab *j)
{
	session_get_newcomers(j, &j->handle->newcomers);
	return &j->handle->newcomers;
}

const struct jab_unfollowed *jab_get_unfollowed(struct jab *j)
{
	session_get_unfollowed(j, &j->handle->unfollowed);
	return &j->handle->unfollowed;
}

const struct jab_times *jab_get_times(struct jab *j)
{
	session_get_times(j, &j->handle->times);
	return &j->handle->times;
}

int jab_each_site(struct jab *j, int (*each)(void *arg, const struct jab_site *s), void *arg)
{
	return API_CALL(j, STAGE_ANY, session_each_site(j, each, arg));
}

int jab_each_count(struct jab *j, int (*each)(void *arg, const struct jab_count *c), void *arg)
{
	return API_CALL(j, STAGE_ANY, session_each_count(j, each, arg));
}

int jab_each_probe(struct jab *j, int (*each)(void *arg, const struct jab_probe_info *p), void *arg)
{
	return API_CALL(j, STAGE_ANY, session_each_probe(j, each, arg));
}

int jab_each_end(struct jab *j, int (*each)(void *arg, const struct jab_end *e), void *arg)
{
	return API_CALL(j, STAGE_RUNNING | STAGE_OVER, ends_each(j, each, arg));
}

static int log_faults(struct jab *j)
{
	units_say_errors(j);
	rows_say_early(j);
	return 0;
}

static int log_hints(struct jab *j)
{
	if (j->handle->script)
		probes_say_unmatched(j);
	else
		probes_say_hints(j);
	return 0;
}

void jab_log_faults(struct jab *j)
{
	API_CALL(j, STAGE_ANY, log_faults(j));
}

void jab_log_hints(struct jab *j)
{
	API_CALL(j, STAGE_ANY, log_hints(j));
}
