/* SPDX-License-Identifier: MIT */
/*
 * A session at the end of a pipe: one call of libjab per line of input, and for each a line of output: what it returned, and
 * the message if that is an error. "2 CALL ..." is for a second session.
 */
#include <errno.h>
#include <inttypes.h>
#include <jab/script.h>
#include <jab/symbols.h>
#include <jab/trace.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct one {
	struct jab *j;
	struct jab_probe *probes[16];
	size_t n;
	char last[4000];	/* of its callbacks */
	char event[4000];	/* the last one, as JSON */
	int inner;		/* what a call from within a callback returned */
} sessions[2];

static void on_log(void *arg, enum jab_log_level level, const char *text)
{
	struct one *o = arg;

	snprintf(o->last, sizeof(o->last), "%d %s", level, text);
}

static void print_event(struct one *o, const struct jab_event *ev)
{
	FILE *f = fmemopen(o->event, sizeof(o->event), "w");

	jab_event_print(ev, f, JAB_PRINT_JSON);
	fclose(f);
	o->event[strcspn(o->event, "\n")] = 0;
}

static int on_event(void *arg, const struct jab_event *ev)
{
	struct one *o = arg;
	const struct jab_value *v = jab_event_find(ev, "x");

	snprintf(o->last, sizeof(o->last), "%s pid %" PRIu32 " x %" PRIu64 " fields %zu", ev->name, ev->pid, v ? v->u : 0, ev->nfields);
	o->inner = jab_remove(o->j);	/* must be refused */
	print_event(o, ev);
	return 0;
}

static int on_count(void *arg, const struct jab_count *c)
{
	struct one *o = arg;
	size_t n = strlen(o->last);

	snprintf(o->last + n, sizeof(o->last) - n, "%s=%" PRIu64 " ", c->function, c->hits);
	o->inner = jab_each_count(o->j, on_count, o);
	return 0;
}

static int on_function(void *arg, const struct jab_function *f)
{
	struct jab_function_types *t;

	(void)arg;
	if (jab_function_types(f, &t) == 0)
		jab_function_types_free(t);
	return 0;
}

static void *elsewhere(void *arg)
{
	return (void *)(intptr_t)jab_remove(arg);
}

/* "count", "later"; and with contexts "events", "limited" (by a part of the time), "followed" (without room for more) */
static int64_t new(struct one *o, const char *words)
{
	static char copy[4000];
	const char *contexts[16], *what;
	struct jab_options options = {
		.size = sizeof(options), .log = on_log, .log_arg = o, .log_level = JAB_LOG_INFO, .more_sites = 100, .context = contexts,
	};
	struct { struct jab_options o; long later; } longer = { .o = { .size = sizeof(longer) }, .later = 7 };

	snprintf(copy, sizeof(copy), "%s", words);
	what = strtok(copy, " ");
	options.max_overhead = !strcmp(what, "limited") ? .9 : 0;
	options.follow = !strcmp(what, "followed");
	options.more_sites = options.follow ? 0 : 100;
	options.events = options.follow || !strcmp(what, "events") || !strcmp(what, "limited");
	while (options.ncontext < 16 && (contexts[options.ncontext] = strtok(NULL, " ")))
		options.ncontext++;
	return jab_new(!strcmp(what, "later") ? &longer.o : &options, &o->j);
}

static int64_t call(struct one *o, const char *name, const char *arg)
{
	char *argv[] = { (char *)arg, "100", "1", NULL };
	int i = atoi(arg), status;
	pthread_t other;
	void *r;

	if (!strcmp(name, "new"))
		return new(o, arg);
	if (!o->j)
		return -ENODEV;
	if (!strcmp(name, "free"))
		return jab_free(o->j), o->j = NULL, o->n = 0, 0;
	if (!strcmp(name, "attach"))
		return jab_attach(o->j, i);
	if (!strcmp(name, "spawn"))
		return jab_spawn(o->j, argv);
	if (!strcmp(name, "add"))
		return jab_add_probe(o->j, arg, &o->probes[o->n++]);
	if (!strcmp(name, "resolve"))
		return jab_resolve(o->j);
	if (!strcmp(name, "plan"))
		return jab_plan(o->j, i);
	if (!strcmp(name, "insert"))
		return jab_insert(o->j);
	if (!strcmp(name, "dispatch"))
		return jab_dispatch(o->j);
	if (!strcmp(name, "list"))
		return jab_each_function(o->j, arg, on_function, o);
	if (!strcmp(name, "fd"))
		return jab_fd(o->j) >= 0;
	if (!strcmp(name, "take-out"))
		return jab_remove(o->j);
	if (!strcmp(name, "events"))
		return jab_on_event(o->j, on_event, o);
	if (!strcmp(name, "counts"))
		return o->last[0] = 0, jab_each_count(o->j, on_count, o);
	if (!strcmp(name, "clean"))
		return jab_get_report(o->j)->clean;
	if (!strcmp(name, "ended"))
		return jab_child_ended(o->j, &status);
	if (!strcmp(name, "last"))
		return 0;
	if (!strcmp(name, "forget"))
		return o->n--, 0;
	if (!strcmp(name, "event"))
		return strcpy(o->last, o->event), 0;
	if (!strcmp(name, "inner"))
		return o->inner;
	if (!strcmp(name, "disable"))
		return jab_probe_disable(o->probes[i]);
	if (!strcmp(name, "enable"))
		return jab_probe_enable(o->probes[i]);
	if (!strcmp(name, "remove"))
		return jab_probe_remove(o->probes[i]);
	if (!strcmp(name, "hits"))
		return jab_probe_hits(o->probes[i]);
	if (!strcmp(name, "thread"))
		return pthread_create(&other, NULL, elsewhere, o->j) ?: pthread_join(other, &r) ?: (intptr_t)r;
	return -ENOSYS;
}

int main(void)
{
	char line[4096], name[64], arg[4000];

	while (fgets(line, sizeof(line), stdin)) {
		struct one *o = &sessions[line[0] == '2'];
		int64_t r;

		arg[0] = 0;
		sscanf(line + (line[0] == '2' ? 2 : 0), "%63s %3999[^\n]", name, arg);
		r = call(o, name, arg);
		if (r < 0)
			snprintf(o->last, sizeof(o->last), "%s", jab_error(o->j));
		for (char *at = o->last; (at = strchr(at, '\n'));)
			*at = ' ';
		printf("%" PRId64 " %s\n", r, o->last);
		fflush(stdout);
	}
	return 0;
}
