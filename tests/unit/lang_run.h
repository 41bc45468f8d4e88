/* SPDX-License-Identifier: MIT */
/*
 * Runs a script in the interpreter against a made-up program. Lines that begin with "//!" say what
 * happens, in order; begin clauses run before all of them, end clauses behind:
 *
 *	//! mem 0x1000 "text"		bytes at an address (a NUL follows)
 *	//! mem8 0x2000 1 2 3		numbers; mem8, mem16, mem32, mem64, memf (float), memd (double)
 *	//! hit N rdi=5 xmm0=1.5 ...	clause N (from 0) runs; registers, pid tid cpu nsecs comm and so on
 *	//! call N rdi=5 / rax=7 ...	clause N at its entry, and at its exit
 *	//! param TEXT			$1, $2, ...
 *	//! errors			show what was counted
 *	//! style json			or folded: what is printed, and how maps are
 *
 * Anything not given is 0. What is printed, then all maps, is the answer.
 */
#ifndef JAB_TESTS_LANG_RUN_H
#define JAB_TESTS_LANG_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/format.h"
#include "lang/interp.h"
#include "lang/lang.h"

struct made_memory { uint64_t addr; uint8_t *bytes; size_t n; };

struct world {
	struct script *script;
	struct lang *lang;
	struct ir_prog *progs[64][2];
	bool off[64];
	struct interp in;
	struct store *store;
	VEC(struct made_memory) memory;
	VEC(char *) params;
	struct lang_site sites[64];
	struct format_names names;
	char style;			/* 'j', 'f' or 0 */
	FILE *out;
};

static bool read_byte(const struct world *w, uint64_t addr, uint8_t *ret)
{
	size_t i;

	for (i = 0; i < w->memory.n; i++)
		if (addr >= w->memory.v[i].addr && addr - w->memory.v[i].addr < w->memory.v[i].n) {
			*ret = w->memory.v[i].bytes[addr - w->memory.v[i].addr];
			return true;
		}
	return false;
}

static bool world_read(void *data, uint64_t addr, void *buf, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (!read_byte(data, addr + i, (uint8_t *)buf + i))
			return false;
	return true;
}

static uint64_t world_stack(void *data, uint32_t frames)
{
	return frames;
}

static uint32_t world_frames(void *data, uint64_t id, uint64_t *frames, uint32_t most)
{
	uint32_t i;

	for (i = 0; i < MIN(id, 3u); i++)
		frames[i] = 0x1000 * (i + 1) + 5;
	return i;
}

static char *world_symbol(void *data, uint64_t addr)
{
	return addr < 0x1000 || addr >= 0x4000 ? NULL : xasprintf("f%d+%d", (int)(addr >> 12), (int)(addr & 0xfff));
}

static const char *world_module(void *data, uint64_t addr)
{
	return "/bin/made";
}

static const char *world_site(void *data, uint64_t number, bool func)
{
	return func ? "made_func" : "uprobe:exe:made_func";
}

static const struct format_names world_names = {
	.symbol = world_symbol, .stack = world_frames, .module = world_module, .site = world_site,
};

static void world_map(struct world *w, uint32_t map, uint64_t top, uint64_t div)
{
	(w->style == 'j' ? format_map_json : w->style == 'f' ? format_map_folded : format_map)
		(w->out, lang_unit(w->lang), map, &store_ops, w->store, top, div, &w->names);
}

static void world_emit(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	struct world *w = data;
	const struct ir_unit *u = lang_unit(w->lang);
	const struct ir_record *r = &u->records.v[record];
	struct field_value v[64];

	if (r->kind == IR_RECORD_CLEAR)
		store_ops.clear(w->store, r->map);
	else if (r->kind == IR_RECORD_ZERO)
		store_ops.zero(w->store, r->map);
	else if (r->kind == IR_RECORD_PRINT_MAP && format_fields(r, payload, len, v) == 0)
		world_map(w, r->map, v[0].n.u, v[1].n.u);
	else if ((w->style == 'j' ? format_event_json : format_event)(w->out, u, record, payload, len, &w->names) < 0)
		fputs("damaged event\n", w->out);
}

static void world_enable(void *data, uint32_t clause, bool on)
{
	((struct world *)data)->off[clause] = !on;
}

/* ---- directives ---- */

static void set_value(struct interp_site *s, const char *name, const char *value)
{
	static const char *const regs[] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
		"flags",
	};
	static const char *const ctx[] = {
		"site", "pid", "tid", "cpu", "nsecs", "elapsed", "duration", "uid", "gid", "rand", "ncpus", "cpid",
		"thread", "tail", "left", "ns_pid", "ns_tid",
	};
	double d = strtod(value, NULL);
	float f = d;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(regs); i++)
		if (strcmp(regs[i], name) == 0)
			s->regs[i] = strtoll(value, NULL, 0) ? (uint64_t)strtoll(value, NULL, 0) : strtoull(value, NULL, 0);
	for (i = 0; i < ARRAY_SIZE(ctx); i++)
		if (strcmp(ctx[i], name) == 0)
			s->ctx[i] = strtoull(value, NULL, 0);
	if (strncmp(name, "xmm", 3) == 0)
		memcpy(&s->vectors[atoi(name + 3) & 15], &d, 8);
	if (strncmp(name, "xmf", 3) == 0)
		memcpy(&s->vectors[atoi(name + 3) & 15], &f, 4);
	if (strcmp(name, "comm") == 0)
		s->comm = value;
}

/* "a=1 b=2", up to "/" or the end; returns what follows */
static char *set_values(struct interp_site *s, char *text)
{
	char *save, *word, *eq;

	for (word = strtok_r(text, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (strcmp(word, "/") == 0)
			return save;
		eq = strchr(word, '=');
		if (!eq)
			continue;
		*eq = 0;
		set_value(s, word, eq + 1);
	}
	return NULL;
}

static void run_clause(struct world *w, uint32_t n, char *text)
{
	struct interp_site s = { .comm = "made" };
	char *rest;
	int64_t r;

	if (n >= w->script->clauses.n || !w->progs[n][0] || w->off[n] || w->in.exited)
		return;
	rest = set_values(&s, text);
	r = interp_run(&w->in, w->progs[n][0], &s);
	if (r < 0)
		fprintf(w->out, "clause %u can't run: %d\n", n, (int)r);
	if (w->progs[n][1] && r == 1) {
		if (rest)
			set_values(&s, rest);
		interp_run(&w->in, w->progs[n][1], &s);
	}
}

static void add_memory(struct world *w, const char *kind, char *text)
{
	struct made_memory *m = vec_add(&w->memory);
	struct bytes b = { 0 };
	char *save, *word;

	m->addr = strtoull(text, &text, 0);
	text += strspn(text, " ");
	if (*text == '"') {
		char *end = strrchr(text, '"');

		*end = 0;
		bytes_add(&b, text + 1, strlen(text + 1) + 1);
	}
	for (word = *text == '"' ? NULL : strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		int64_t v = strtoll(word, NULL, 0);
		uint64_t u = strtoull(word, NULL, 0);
		double d = strtod(word, NULL);
		float f = d;

		if (word[0] != '-')
			memcpy(&v, &u, 8);
		if (strcmp(kind, "memf") == 0)
			bytes_add(&b, &f, 4);
		else if (strcmp(kind, "memd") == 0)
			bytes_add(&b, &d, 8);
		else
			bytes_add(&b, &v, atoi(kind + 3) / 8);
	}
	m->bytes = b.p;
	m->n = b.n;
}

static void show_errors(struct world *w)
{
	static const char *const names[] = { "fault", "div", "range", "loop", "full", "ids", "delete" };
	size_t i;

	for (i = 0; i < IR_ERRORS; i++)
		if (w->in.errors[i])
			fprintf(w->out, "errors: %s %d\n", names[i], (int)w->in.errors[i]);
}

static void directive(struct world *w, char *line, bool early)
{
	char kind[16] = "", *rest = line;
	int n = 0;

	if (sscanf(line, " %15s %n", kind, &n) < 1)
		return;
	rest += n;
	if (early) {
		if (strncmp(kind, "mem", 3) == 0)
			add_memory(w, kind, rest);
		else if (strcmp(kind, "param") == 0)
			*vec_add(&w->params) = xstrdup(rest);
		else if (strcmp(kind, "style") == 0)
			w->style = *rest;
		return;
	}
	if (strcmp(kind, "hit") == 0 || strcmp(kind, "call") == 0) {
		uint32_t clause = strtoul(rest, &rest, 0);

		run_clause(w, clause, rest);
	} else if (strcmp(kind, "errors") == 0) {
		show_errors(w);
	}
}

static void directives(struct world *w, const char *text, bool early)
{
	const char *p = text, *eol;
	char *line;

	for (; *p; p = *eol ? eol + 1 : eol) {
		eol = strchrnul(p, '\n');
		if (strncmp(p, "//!", 3) != 0)
			continue;
		line = strndup(p + 3, eol - p - 3);
		directive(w, line, early);
		free(line);
	}
}

/* ---- the run ---- */

static const struct lang_site *world_where(void *arg, uint32_t clause)
{
	return &((struct world *)arg)->sites[clause];
}

static void choose_site(struct world *w, uint32_t i)
{
	const struct probe *p = w->script->clauses.v[i]->probes[0];
	struct lang_site *s = &w->sites[i];

	s->at = p->kind == PROBE_CALL ? LANG_CALL : p->kind == PROBE_LINE ? LANG_INSIDE : p->kind != PROBE_SITE ? LANG_TRACER :
		p->spec && p->spec->kind == SPEC_RETURN ? LANG_RETURN : LANG_ENTRY;
	if (s->at != LANG_TRACER && w->script->clauses.v[i]->nprobes == 1 && p->spec && p->spec->place_kind == PLACE_NAME) {
		s->func = p->spec->place;
		s->probe = p->text;
	} else if (s->at == LANG_TRACER) {
		s->probe = p->kind == PROBE_BEGIN ? "begin" : p->kind == PROBE_END ? "end" : p->text;
		s->func = "";
	}
}

static int compile_all(struct world *w)
{
	int r = lang_new(w->script, &w->lang);
	uint32_t i;
	int one;

	if (r < 0)
		return r;
	for (i = 0; i < w->script->clauses.n && i < 64; i++)
		choose_site(w, i);
	lang_infer(w->lang, world_where, w);
	for (i = 0; i < w->script->clauses.n && i < 64; i++) {
		one = lang_compile(w->lang, i, &w->sites[i], w->progs[i]);
		r = MIN(one, r);
	}
	return r;
}

static void run_kind(struct world *w, int kind)
{
	uint32_t i, k;
	char none[1] = "";

	for (i = 0; i < w->script->clauses.n; i++)
		for (k = 0; k < w->script->clauses.v[i]->nprobes; k++)
			if (w->script->clauses.v[i]->probes[k]->kind == kind)
				run_clause(w, i, none);
}

static void run_all(struct world *w, const char *text)
{
	const struct ir_unit *u = lang_unit(w->lang);
	uint32_t i;

	w->store = store_new(u);
	w->names = world_names;
	w->names.trailer = lang_config(w->lang)->str_trunc_trailer;
	w->in = (struct interp){ .unit = u, .ops = &store_ops, .store = w->store, .data = w, .read = world_read,
				 .stack = world_stack, .emit = world_emit, .enable = world_enable };
	w->in.cells = xcalloc(u->ncells, sizeof(*w->in.cells));
	run_kind(w, PROBE_BEGIN);
	directives(w, text, false);
	if (w->in.exited && w->in.exit_status)
		fprintf(w->out, "exit status %d\n", (int)w->in.exit_status);
	w->in.exited = false;
	run_kind(w, PROBE_END);
	for (i = 0; i < u->maps.n && lang_config(w->lang)->print_maps_on_exit; i++)
		if (store_ops.len(w->store, i))
			world_map(w, i, 0, 0);
	free(w->in.cells);
	store_free(w->store);
}

/* Returns what the script printed, or its errors. Caller frees. */
static inline char *run_script(const char *name, const char *text, bool line)
{
	struct world *w = xcalloc(1, sizeof(*w));
	char *out = NULL, *errors;
	size_t size, i;
	int r;

	w->out = open_memstream(&out, &size);
	directives(w, text, true);
	r = line ? line_parse(text, NULL, &w->script) :
	    script_parse_params(name, text, strlen(text), w->params.v, w->params.n, &w->script);
	if (r == 0)
		r = compile_all(w);
	errors = diags_text(&w->script->diags);
	fputs(errors, w->out);
	free(errors);
	if (r == 0)
		run_all(w, text);
	fclose(w->out);
	lang_free(w->lang);
	script_free(w->script);
	for (i = 0; i < w->memory.n; i++)
		free(w->memory.v[i].bytes);
	for (i = 0; i < w->params.n; i++)
		free(w->params.v[i]);
	vec_free(&w->memory);
	vec_free(&w->params);
	free(w);
	return out;
}

#endif
