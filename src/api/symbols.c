/* SPDX-License-Identifier: MIT */
/* Functions, and the text of probes. */
#include "api/api.h"

#include <stdlib.h>

int jab_each_function(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_function *f), void *arg)
{
	int r = API_TRY(j, STAGE_ANY, session_each_function(j, pattern, each, arg));

	return r == 0 && j->handle->is_torn ? no_memory() : r;	/* within the callback */
}

int jab_each_tracepoint(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_tracepoint *t), void *arg)
{
	int r = API_TRY(j, STAGE_ANY, session_each_tracepoint(j, pattern, each, arg));

	return r == 0 && j->handle->is_torn ? no_memory() : r;	/* within the callback */
}

int jab_function_types(const struct jab_function *f, struct jab_function_types **ret_types)
{
	struct jab *j = function_session(f);

	return j->handle->is_torn ? no_memory() : mem_try(function_types(f, ret_types), (int)api_no_memory(j));
}

struct parsed { struct jab_spec public; struct probe_spec *spec; };

static int parse(const char *text, struct jab_spec **ret_spec)
{
	struct probe_spec *spec;
	struct parsed *p;
	int r = spec_parse(text, &spec);

	if (r < 0)
		return r;
	p = xcalloc(1, sizeof(*p));
	p->spec = spec;
	p->public = (struct jab_spec){
		.kind = (enum jab_spec_kind)spec->kind, .object = spec->object,
		.is_one_place = spec->place_kind == PLACE_ADDR || spec->place_kind == PLACE_LINE || spec->has_offset,
	};
	*ret_spec = &p->public;
	return 0;
}

int jab_spec_parse(const char *text, struct jab_spec **ret_spec)
{
	return mem_try(parse(text, ret_spec), no_memory());
}

void jab_spec_free(struct jab_spec *s)
{
	if (!s)
		return;
	spec_free(((struct parsed *)s)->spec);
	free(s);
}

char *jab_quote_function(const char *name)
{
	return mem_try(spec_quote(name), NULL);
}

char *jab_quote_object(const char *path)
{
	return mem_try(spec_quote_object(path), NULL);
}
