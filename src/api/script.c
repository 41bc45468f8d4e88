/* SPDX-License-Identifier: MIT */
/* Scripts. */
#include "api/api.h"

#include <stdlib.h>

struct jab_script {
	struct jab *j;
	struct script_run *run;
	char *errors;
};

static int load(struct jab *j, const struct jab_script_options *options, struct jab_script **ret_script)
{
	struct jab_script_options o;
	struct script_options inner;
	struct jab_script *s;
	int r = options_copy(&o, sizeof(o), options);

	if (r == 0 && !o.text)
		r = fail(-EINVAL, "a script without a text");
	if (r == 0 && (j->handle->script || j->handle->writer || j->handle->each))
		r = fail(-EINVAL, "the session has a script already, or its events go somewhere else");
	if (r == 0)
		r = script_refuse(j);
	if (r < 0)
		return r;
	inner = (struct script_options){
		.name = o.name ? o.name : "script", .text = o.text, .len = o.len, .params = o.params, .nparams = o.nparams,
		.options = o.options, .noptions = o.noptions, .out = o.out ? o.out : stdout, .trace = o.trace,
		.style = (enum script_style)o.style, .unsafe = o.unsafe, .no_warnings = o.no_warnings,
		.probe_filter = o.probe_filter,
	};
	s = *ret_script = xcalloc(1, sizeof(*s));
	s->j = j;
	r = script_load(j, &inner, &s->run);
	j->handle->script = s->run;
	return r;
}

int jab_script_load(struct jab *j, const struct jab_script_options *options, struct jab_script **ret_script)
{
	*ret_script = NULL;
	return API_TRY(j, STAGE_OPEN, load(j, options, ret_script));
}

void jab_script_free(struct jab_script *s)
{
	if (!s || s->j->handle->busy)
		return;
	s->j->handle->script = NULL;
	if (s->j->handle->is_torn)
		return;
	script_free_run(s->run);
	free(s->errors);
	free(s);
}

const char *jab_script_errors(struct jab_script *s)
{
	free(s->errors);
	s->errors = NULL;
	s->errors = s->j->handle->is_torn ? NULL : mem_try(script_errors(s->run), NULL);
	return s->errors ? s->errors : "out of memory\n";
}

bool jab_script_has_errors(const struct jab_script *s)
{
	return s->run && script_has_errors(s->run);
}

bool jab_script_has_sites(const struct jab_script *s)
{
	return script_has_sites(s->run);
}

bool jab_script_may_miss(const struct jab_script *s)
{
	return script_may_miss(s->run);
}

const char *jab_script_object(const struct jab_script *s, size_t i)
{
	return script_object(s->run, i);
}

int jab_script_each_probe(const struct jab_script *s, int (*each)(void *arg, const char *text, bool of_tracer), void *arg)
{
	return API_CALL(s->j, STAGE_ANY, script_each_probe(s->run, each, arg));
}

int jab_script_begin(struct jab_script *s)
{
	return API_CALL(s->j, STAGE_RESOLVED | STAGE_PLANNED, script_begin(s->run));
}

bool jab_script_exited(const struct jab_script *s, int *ret_status)
{
	return script_exited(s->run, ret_status);
}

int jab_script_end(struct jab_script *s)
{
	return API_CALL(s->j, STAGE_ANY & ~STAGE_RUNNING, script_end(s->run));
}

int jab_script_dump(struct jab_script *s, const char *what, FILE *to)
{
	return API_TRY(s->j, STAGE_RESOLVED, script_dump_text(s->run, what, to));
}
