/* SPDX-License-Identifier: MIT */
/*
 * A script at work. What runs in the targets is in units.h; here are the clauses that run in the
 * tracer, and what becomes of the events.
 *
 *	events_enable(), script_load()		before anything else
 *	targets, session_resolve()			script_errors() has messages, also when all is well
 *	script_begin()				begin clauses; before session_insert()
 *	events_drain(), script_tick()		again and again
 *	session_remove(), events_drain(j, true), script_end()
 */
#ifndef JAB_SESSION_SCRIPT_H
#define JAB_SESSION_SCRIPT_H

#include <jab/jab.h>
#include <stdio.h>

struct script_run;

/* What printf(), print() and the maps at the end look like. */
enum script_style {
	SCRIPT_TEXT,
	SCRIPT_JSON,			/* {"type":"printf","data":"..."}, one object a line */
	SCRIPT_FOLDED,			/* text; but maps with stacks as keys as lines for flame graphs */
};

struct script_options {
	const char *name, *text;	/* the text lives on */
	size_t len;
	char *const *params;		/* $1 ... */
	uint32_t nparams;
	char *const *options;		/* --name=value, for getopt() */
	uint32_t noptions;
	const char *probe_filter;
	FILE *out;			/* the caller flushes it, and looks whether it could be written */
	const char *trace;		/* a directory for record() events; NULL: they are printed */
	enum script_style style;
	bool unsafe;			/* system() may be used */
	bool no_warnings;		/* none of the script's, and none of warnf() */
};

int script_refuse(const struct jab *j);	/* -ENOTSUP: the CPU has no code for scripts yet */
int script_load(struct jab *j, const struct script_options *o, struct script_run **ret_run);
void script_free_run(struct script_run *s);

/* Messages with line and caret; "" if there are none. Caller frees. */
char *script_errors(struct script_run *s);

bool script_has_errors(const struct script_run *s);
bool script_has_sites(const struct script_run *s);	/* or only clauses of the tracer? */
bool script_may_miss(const struct script_run *s);	/* missing_probes: it runs without those that don't exist */
const char *script_object(struct script_run *s, size_t n);	/* files that its probes name by a path; NULL: no more */

/* Probes in their order, as written; of_tracer: begin, end, interval. A value that each() gives ends it. */
int script_each_probe(const struct script_run *s, int (*each)(void *arg, const char *text, bool of_tracer), void *arg);

int script_begin(struct script_run *s);

/* Runs what is due, writes what was recorded. Says for how many ns nothing will be due. */
int script_tick(struct script_run *s, uint64_t *ret_wait);

/* Was exit() called? */
bool script_exited(const struct script_run *s, int *ret_status);

/* end clauses, then all maps. An error: the trace is not complete. */
int script_end(struct script_run *s);

/* As text, for --dump: "ast", "ir" or "asm". */
int script_dump_text(struct script_run *s, const char *what, FILE *to);

#endif
