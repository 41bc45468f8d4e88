/* SPDX-License-Identifier: MIT */
#include "cmd/listing.h"

#include <inttypes.h>
#include <string.h>
#include "base/text.h"

#define INDENT "    "

static void print_type(FILE *to, const char *declared)
{
	fputs(INDENT, to);
	print_safe(to, declared);
	putc('\n', to);
}

void listing_types(FILE *to, const struct jab_function *f)
{
	struct jab_function_types *t;

	if (jab_function_types(f, &t) < 0)
		return;
	for (size_t i = 0; i < t->nparams; i++)
		print_type(to, t->params[i].declared);
	if (t->variadic)
		fputs(INDENT "...\n", to);
	if (strcmp(t->result, "void"))
		print_type(to, t->declared);
	jab_function_types_free(t);
}

static void json_types(FILE *to, const struct jab_function_types *t)
{
	fputs(",\"args\":[", to);
	for (size_t i = 0; i < t->nparams; i++) {
		fputs(i ? ",{" : "{", to);
		json_pair(to, "name", t->params[i].name, true);
		json_pair(to, "type", t->params[i].type, false);
		putc('}', to);
	}
	putc(']', to);
	if (t->variadic)
		fputs(",\"variadic\":true", to);
	json_pair(to, "retval", t->result, false);
}

void listing_json(FILE *to, const struct jab_function *f, const char *spec)
{
	struct jab_function_types *t;

	putc('{', to);
	json_pair(to, "spec", spec, true);
	json_pair(to, "module", f->module, false);
	json_pair(to, "function", f->function, false);
	fprintf(to, ",\"address\":\"0x%" PRIx64 "\",\"size\":%" PRIu64, f->address, f->size);
	if (jab_function_types(f, &t) == 0) {
		json_types(to, t);
		jab_function_types_free(t);
	} else {
		fputs(",\"args\":null", to);
	}
	fputs("}\n", to);
}
