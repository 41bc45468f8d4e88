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

static void print_place(FILE *to, const struct jab_tracepoint_site *s)
{
	fprintf(to, "%#14" PRIx64 "  ", s->address);
	print_safe(to, s->function ? s->function : "?");
	if (s->offset)
		fprintf(to, "+%#" PRIx64, s->offset);
	if (s->semaphore)
		fprintf(to, "  (semaphore %#" PRIx64 ")", s->semaphore);
	if (s->why) {
		fputs(": ", to);
		print_safe(to, s->why);
	}
	putc('\n', to);
	for (size_t i = 0; i < s->nargs; i++) {
		fprintf(to, INDENT INDENT "%s ", s->args[i].type);
		if (s->args[i].name)
			print_safe(to, *s->args[i].name ? s->args[i].name : "(count)");
		else
			fprintf(to, "arg%zu", i);
		fputs("  ", to);
		print_safe(to, s->args[i].operand);
		if (s->args[i].why) {
			fputs(": ", to);
			print_safe(to, s->args[i].why);
		}
		putc('\n', to);
	}
}

void listing_places(FILE *to, const struct jab_tracepoint *t)
{
	for (size_t i = 0; i < t->nsites; i++)
		print_place(to, &t->sites[i]);
}

static void json_place(FILE *to, const struct jab_tracepoint_site *s)
{
	fprintf(to, "{\"address\":\"0x%" PRIx64 "\"", s->address);
	if (s->function)
		json_pair(to, "function", s->function, false);
	fprintf(to, ",\"offset\":%" PRIu64, s->offset);
	if (s->semaphore)
		fprintf(to, ",\"semaphore\":\"0x%" PRIx64 "\"", s->semaphore);
	if (s->why)
		json_pair(to, "reason", s->why, false);
	fputs(",\"args\":[", to);
	for (size_t i = 0; i < s->nargs; i++) {
		fputs(i ? ",{" : "{", to);
		json_pair(to, "type", s->args[i].type, true);
		json_pair(to, "operand", s->args[i].operand, false);
		if (s->args[i].name)
			json_pair(to, "name", s->args[i].name, false);
		if (s->args[i].why)
			json_pair(to, "reason", s->args[i].why, false);
		putc('}', to);
	}
	fputs("]}", to);
}

void listing_tracepoint_json(FILE *to, const struct jab_tracepoint *t, const char *spec)
{
	putc('{', to);
	json_pair(to, "spec", spec, true);
	json_pair(to, "module", t->module, false);
	json_pair(to, "provider", t->provider, false);
	json_pair(to, "name", t->name, false);
	fputs(",\"sites\":[", to);
	for (size_t i = 0; i < t->nsites; i++) {
		if (i)
			putc(',', to);
		json_place(to, &t->sites[i]);
	}
	fputs("]}\n", to);
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
