/* SPDX-License-Identifier: MIT */
/*
 * Scripts in bpftrace's language (man jab-script). jab_options.events must be set.
 *
 *	jab_script_load()	its probes become probes of the session
 *	targets, jab_resolve()	jab_script_errors() has messages, also if all is well
 *	jab_script_begin()	begin clauses
 *	jab_insert(), jab_dispatch() ...	intervals and output are served by jab_dispatch()
 *	jab_remove(), jab_dispatch()
 *	jab_script_end()	end clauses, then all maps
 *	jab_script_free(), jab_free()
 */
#ifndef JAB_SCRIPT_H
#define JAB_SCRIPT_H

#include <jab/jab.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct jab_script;

enum jab_script_style {
	JAB_SCRIPT_TEXT,
	JAB_SCRIPT_JSON,		/* {"type":"printf","data":"..."}, one object a line */
	JAB_SCRIPT_FOLDED,		/* text; but maps with stacks as keys as lines for flame graphs */
};

struct jab_script_options {
	size_t size;
	const char *name, *text;	/* the text must stay until jab_script_free() */
	size_t len;
	char *const *params;		/* $1 ... */
	uint32_t nparams;
	char *const *options;		/* --name=value, for getopt() */
	uint32_t noptions;
	FILE *out;			/* the caller flushes it, and checks whether it could be written */
	const char *trace;		/* a directory for record() events; NULL: they are printed */
	enum jab_script_style style;
	bool unsafe;			/* system() may be used */
	bool no_warnings;		/* none about the script, and none of warnf() */
	const char *probe_filter;	/* a regular expression: only probes whose text it matches, and begin and end; NULL: all */
};

/* Also on failure there is a script, for jab_script_errors(). */
JAB_API int jab_script_load(struct jab *j, const struct jab_script_options *options, struct jab_script **ret_script);
JAB_API void jab_script_free(struct jab_script *s);	/* before jab_free(); NULL is allowed */

JAB_API const char *jab_script_errors(struct jab_script *s);	/* with line and caret; "": there are none */
JAB_API bool jab_script_has_errors(const struct jab_script *s);	/* not only warnings */
JAB_API bool jab_script_has_sites(const struct jab_script *s);	/* or only clauses that run in the tracer */
JAB_API bool jab_script_may_miss(const struct jab_script *s);	/* config missing_probes: probes may match nothing */
JAB_API const char *jab_script_object(const struct jab_script *s, size_t i);	/* files that probes name by a path; NULL: no more */

/* Probes in their order, as written; of_tracer: begin, end, interval. */
JAB_API int jab_script_each_probe(const struct jab_script *s, int (*each)(void *arg, const char *text, bool of_tracer), void *arg);

JAB_API int jab_script_begin(struct jab_script *s);
JAB_API bool jab_script_exited(const struct jab_script *s, int *ret_status);	/* whether exit() was called */
JAB_API int jab_script_end(struct jab_script *s);	/* an error: the trace is not complete */

/* As text: "ast", "ir" or "asm". After jab_resolve(). */
JAB_API int jab_script_dump(struct jab_script *s, const char *what, FILE *to);

#ifdef __cplusplus
}
#endif
#endif
