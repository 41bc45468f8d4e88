/* SPDX-License-Identifier: MIT */
/* Making and freeing a session, and the frame of every call. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "session/scripts/budget.h"

const char *jab_version(void)
{
	return JAB_VERSION;
}

const char *jab_error(const struct jab *j)
{
	if (!j)
		return err_text();
	return j->handle->error ? j->handle->error : j->handle->has_failed ? "out of memory" : "no call has failed";
}

int options_copy(void *to, size_t room, const void *from)
{
	size_t size;

	memset(to, 0, room);
	if (!from)
		return 0;
	memcpy(&size, from, sizeof(size));
	if (size < sizeof(size))
		return fail(-EINVAL, "an options struct without its size");
	for (size_t i = room; i < size; i++)
		if (((const char *)from)[i])
			return fail(-E2BIG, "an option that this version of libjab (" JAB_VERSION ") does not have");
	memcpy(to, from, size < room ? size : room);
	return 0;
}

int no_memory(void)
{
	return fail(-ENOMEM, "out of memory");
}

/* A message that can't be kept is replaced by the one that says why. */
static void keep_error(struct jab *j)
{
	free(j->handle->error);
	j->handle->error = strdup(err_text());
	j->handle->has_failed = true;
}

static const char *stage_name(enum stage stage)
{
	switch (stage) {
	case STAGE_OPEN:
		return "before the probes were resolved";
	case STAGE_RESOLVED:
		return "after jab_resolve()";
	case STAGE_PLANNED:
	case STAGE_ALONE:
		return "after jab_plan()";
	case STAGE_RUNNING:
		return "while probes are in";
	default:
		return "after jab_remove()";
	}
}

#define RESERVE_EACH 1024u	/* site: for its edits, moves and wants */

/* Calls that end a session are made in any case. */
static bool has_reserve(struct jab *j, unsigned int stages)
{
	return mem_reserve(RESERVE + RESERVE_EACH * j->sites.n) || stages == STAGE_END;
}

int api_enter(struct api_frame *f, struct jab *j, unsigned int stages, const char *call, bool hold)
{
	struct handle *h = j->handle;
	int r = 0;

	if (h->thread != gettid())	/* the handle is left alone: its thread may be using it */
		return fail(-EPERM, "%s() was called by another thread than jab_new()", call);
	if (h->busy)
		r = fail(-EBUSY, "%s() was called from within a callback", call);
	else if (h->is_torn && stages != STAGE_END)
		r = fail(-ENOMEM, "%s() can't be called since there was no memory for an earlier call", call);
	else if (!(h->stage & stages))
		r = fail(-EINVAL, "%s() can't be called %s", call, stage_name(h->stage));
	else if (hold && !has_reserve(j, stages))
		r = no_memory();
	if (r < 0) {
		keep_error(j);
		return r;
	}
	h->busy = true;
	f->log = log_to(&h->log);
	mem_enter(&f->memory, hold);
	return 0;
}

int64_t api_no_memory(struct jab *j)
{
	j->handle->is_torn = true;
	return no_memory();
}

int64_t api_leave(struct api_frame *f, struct jab *j, int64_t r)
{
	mem_leave(&f->memory);
	log_to(f->log);
	j->handle->busy = false;
	if (r < 0)
		keep_error(j);
	return r;
}

static void log_public(void *arg, int level, const char *text)
{
	const struct jab_options *o = arg;

	o->log(o->log_arg, level, text);
}

#define MOST_MORE_SITES (1u << 20)

static int apply_options(struct jab *j, const struct jab_options *o)
{
	struct events_options events = { .buffer_size = o->buffer_size, .most = o->max_events, .overwrite = o->overwrite };
	int r = 0;

	if (!o->events && (o->overwrite || o->buffer_size || o->max_events || o->max_overhead || o->ncontext || o->condition))
		return fail(-EINVAL, "overwrite, buffer_size, max_events, max_overhead, context and condition are for events");
	if (o->max_overhead < 0 || o->max_overhead > 1)
		return fail(-EINVAL, "max_overhead is a share: 0 ... 1");
	j->condition = o->condition ? xstrdup(o->condition) : NULL;
	j->more_sites = MIN(o->more_sites, MOST_MORE_SITES);
	if (o->follow)
		session_follow(j);
	if (o->events)
		r = events_enable(j, &events);
	if (r == 0 && o->max_overhead)
		r = budget_new(j, o->max_overhead);
	for (size_t i = 0; r == 0 && i < o->ncontext; i++)
		r = events_context(j, o->context[i]);
	return r;
}

static int new_session(const struct jab_options *options, struct jab **ret_jab)
{
	const struct log_sink *log;
	struct jab_options *o;
	struct jab *j;
	struct handle *h;
	int r;

	session_new(&j);
	h = j->handle = xcalloc(1, sizeof(*h));
	o = xcalloc(1, sizeof(*o));
	h->thread = gettid();
	h->stage = STAGE_OPEN;
	h->timer = -1;
	h->script_wait = UINT64_MAX;
	h->report.clean = true;
	r = options_copy(o, sizeof(*o), options);
	h->log = (struct log_sink){ o->log ? log_public : NULL, o, o->log_level };
	log = log_to(&h->log);
	if (r == 0)
		r = apply_options(j, o);
	log_to(log);
	if (r < 0) {
		jab_free(j);
		return r;
	}
	*ret_jab = j;
	return 0;
}

int jab_new(const struct jab_options *options, struct jab **ret_jab)
{
	const struct log_sink *log = log_to(NULL);
	int r;

	log_to(log);
	r = mem_try(new_session(options, ret_jab), no_memory());
	if (r == -ENOMEM)
		log_to(log);
	return r;
}

/* What a torn session has allocated is not in a state to be freed. */
static void free_session(struct jab *j)
{
	struct handle *h = j->handle;

	jab_writer_close(h->writer);
	session_free(j);
	for (size_t i = 0; i < h->probes.n; i++)
		free(h->probes.v[i]);
	vec_free(&h->probes);
	if (h->timer >= 0)
		close(h->timer);
	free(h->log.arg);
	free(h->error);
	free(h);
}

void jab_free(struct jab *j)
{
	const struct log_sink *log;
	struct mem_frame frame;
	struct handle *h;

	if (!j || j->handle->busy || j->handle->thread != gettid())
		return;
	h = j->handle;
	h->busy = true;
	log = log_to(&h->log);
	mem_reserve(RESERVE + RESERVE_EACH * j->sites.n);
	mem_enter(&frame, true);
	if (h->is_torn)
		session_abandon(j);
	else
		free_session(j);
	mem_leave(&frame);
	log_to(log);
}
