/* SPDX-License-Identifier: MIT */
/* Damaged debug info: each file is opened from memory, and everything is asked of its types. */
#include "base/err.h"
#include "sym/types/types.h"

#include <unistd.h>

#include "mutate.h"

static volatile uint64_t sink;	/* what was read must not be optimised away */

/* What callers may rely on: nodes use earlier ones, bytes can be read. */
static void look_at(const struct loc *l)
{
	uint32_t i, k;

	for (i = 0; i < l->nnodes; i++)
		if (l->nodes[i].op != LOP_REG && (l->nodes[i].a > i || l->nodes[i].b > i ||
						  (l->nodes[i].op == LOP_IF && (uint64_t)l->nodes[i].imm > i)))
			abort();
	for (i = 0; i < l->n; i++) {
		const struct loc_piece *p = &l->pieces[i];

		if ((p->kind == LOC_MEM_AT || p->kind == LOC_VALUE) && p->node >= l->nnodes)
			abort();
		if ((p->kind == LOC_REG || p->kind == LOC_MEM) && p->reg > 15)
			abort();
		for (k = 0; p->kind == LOC_BYTES && k < p->size; k++)
			sink += p->bytes[k];
	}
	sink += l->why ? strlen(l->why) : 0;
}

static void ask_type(struct types *t, type_id id, int depth)
{
	const struct type *y = type_get(t, id);
	struct type_string s;
	struct type_member m;
	uint64_t i;
	char *text = type_name(t, id);

	sink += strlen(text);
	free(text);
	if (depth == 0) {
		text = type_layout(t, id);
		sink += strlen(text);
		free(text);
		sink += type_is_string(t, id, &s);
		sink += type_member(t, id, "colour", &m);
	}
	sink += type_strip(t, id);
	for (i = 0; (y->kind == TYPE_STRUCT || y->kind == TYPE_UNION || y->kind == TYPE_FUNC) && i < y->n; i++) {
		sink += y->members[i].name ? strlen(y->members[i].name) : 0;
		if (depth < 3)
			ask_type(t, y->members[i].type, depth + 1);
	}
	for (i = 0; y->kind == TYPE_ENUM && i < y->n; i++)
		sink += strlen(y->values[i].name);
	if (depth < 3)
		ask_type(t, y->ref, depth + 1);
}

static void ask_var(struct types *t, const struct var *v)
{
	look_at(&v->loc);
	sink += v->name ? strlen(v->name) : 0;
	ask_type(t, v->type, 1);
}

static void ask_code(struct types *t, uint64_t pc, bool entry)
{
	const struct func_types *f;
	const char *file;
	var_list vars = { 0 };
	line_list lines = { 0 };
	struct line_site site;
	struct var v;
	size_t i;

	if (entry && types_func(t, pc, &f) == 0) {
		for (i = 0; i < f->nparams; i++)
			ask_var(t, &f->params[i]);
		ask_var(t, &f->retval);
		ask_type(t, f->type, 0);
		file = types_func_file(t, pc);
		sink += (f->name ? strlen(f->name) : 0) + (file ? strlen(file) : 0) + (f->linkage ? strlen(f->linkage) : 0);
	}
	types_vars_at(t, pc, &vars);
	for (i = 0; i < vars.n; i++)
		ask_var(t, &vars.v[i]);
	vec_free(&vars);
	if (types_var(t, pc, "i", &v) == 0)
		ask_var(t, &v);
	if (lines_at(t, pc, &site) == 0)
		sink += strlen(site.file) + (site.func ? strlen(site.func) : 0);
	lines_frames(t, pc, &lines);
	for (i = 0; i < lines.n; i++)
		sink += (lines.v[i].file ? strlen(lines.v[i].file) : 0) + (lines.v[i].func ? strlen(lines.v[i].func) : 0);
	vec_free(&lines);
}

static void ask_names(struct types *t)
{
	static const char *const types[] = { "struct node", "node", "word_t *[3]", "union either", "enum colour", "struct later",
					     "ns::Cls", "std::string", "alloc::string::String", "&str", "main.Point", "struct pair" };
	static const char *const vars[] = { "first", "counter", "per_thread", "ns::value" };
	inlined_list sites = { 0 };
	line_list lines = { 0 };
	struct var v;
	type_id id;
	int64_t n;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (type_find(t, types[i], 0, &id) == 0)
			ask_type(t, id, 0);
	for (i = 0; i < ARRAY_SIZE(vars); i++)
		if (types_global(t, vars[i], 0, &v) == 0)
			ask_var(t, &v);
	if (type_enumerator(t, "GREEN", 0, &id, &n) == 0)
		sink += type_value_name(t, id, n) != NULL;
	types_inlined(t, "twice", &sites);
	for (i = 0; i < sites.n; i++)
		sink += (sites.v[i].name ? strlen(sites.v[i].name) : 0) + (sites.v[i].file ? strlen(sites.v[i].file) : 0);
	vec_free(&sites);
	lines_find(t, "seed_dwarf.c", 30, &lines);
	vec_free(&lines);
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	struct module *m;
	struct types *t;
	size_t i;
	int r = module_open_memory(p, size, "fuzz", &m);

	if (r < 0)
		return r;
	r = module_types(m, &t);
	if (r == 0)
		ask_names(t);
	for (i = 0; r == 0 && i < m->funcs.n && i < 40; i++) {
		ask_code(t, m->funcs.v[i].addr, true);
		ask_code(t, m->funcs.v[i].addr + m->funcs.v[i].size / 2, false);
	}
	module_close(m);
	return r;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	return i == 0 ? read_seed("/proc/self/exe") : (struct seed){ 0 };
}
#endif
