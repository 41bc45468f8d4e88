/* SPDX-License-Identifier: MIT */
/*
 * Source lines. The line table of a unit is decoded when an address in it is first looked up. For a line of a file,
 * the units that list such a file are found first: by the bytes of its name in the tables, in the way that
 * dw_find.c finds names, so the tables of all other units are not read.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"

static const char *func_at(struct types *t, uint64_t pc, const uint8_t **ret_scope)
{
	scope_chain chain = { 0 };
	const char *name = NULL;
	struct unit *u;
	size_t i;

	*ret_scope = NULL;
	dw_scopes(t, pc, true, &u, &chain);
	for (i = 0; i < chain.n && !*ret_scope; i++)
		if (dwarf_tag(&chain.v[i]) != DW_TAG_lexical_block) {
			name = unit_qualified(t, unit_of(t, &chain.v[i]), &chain.v[i]);
			*ret_scope = chain.v[i].addr;
		}
	vec_free(&chain);
	return name;
}

static bool row_of(Dwarf_Line *line, struct line_site *ret_site)
{
	Dwarf_Addr addr;
	int number, column = 0;
	const char *file = dwarf_linesrc(line, NULL, NULL);

	if (!file || dwarf_lineaddr(line, &addr) != 0 || dwarf_lineno(line, &number) != 0)
		return false;
	dwarf_linecol(line, &column);
	*ret_site = (struct line_site){ .addr = addr, .file = file, .line = number, .column = column };
	return true;
}

int lines_at(struct types *t, uint64_t pc, struct line_site *ret_site)
{
	struct unit *u = unit_at(t, pc);
	Dwarf_Line *line = u ? dwarf_getsrc_die(&u->die, pc) : NULL;
	const uint8_t *scope;
	struct line_site s;

	if (!line || !row_of(line, &s))
		return fail(-ENODATA, "%s: no source line for %#llx", t->m->path, (unsigned long long)pc);
	s.addr = pc;
	s.func = func_at(t, pc, &scope);
	*ret_site = s;
	return 0;
}

static void outer_line(Dwarf_Die *inlined, struct line_site *s)
{
	uint64_t v;

	s->file = die_file(inlined, DW_AT_call_file);
	s->line = die_number(inlined, DW_AT_call_line, &v) ? v : 0;
	s->column = die_number(inlined, DW_AT_call_column, &v) ? v : 0;
}

int lines_frames(struct types *t, uint64_t pc, line_list *list)
{
	scope_chain chain = { 0 };
	struct line_site s;
	struct unit *u;
	size_t i;
	int r = lines_at(t, pc, &s);

	if (r < 0)
		return r;
	if (dw_scopes(t, pc, true, &u, &chain) < 0)
		*vec_add(list) = s;
	for (i = 0; i < chain.n; i++) {
		if (dwarf_tag(&chain.v[i]) == DW_TAG_lexical_block)
			continue;
		s.func = unit_qualified(t, unit_of(t, &chain.v[i]), &chain.v[i]);
		*vec_add(list) = s;
		outer_line(&chain.v[i], &s);
	}
	vec_free(&chain);
	return 0;
}

/* "b.c" and "a/b.c" match /src/a/b.c. */
static bool file_fits(const char *file, const char *wanted)
{
	size_t n = strlen(file), k = strlen(wanted);

	while (strncmp(wanted, "./", 2) == 0)
		wanted += 2, k -= 2;
	return n >= k && strcmp(file + n - k, wanted) == 0 && (n == k || *wanted == '/' || file[n - k - 1] == '/');
}

struct line_search {
	struct types *t;
	const char *file;
	uint32_t line;		/* the requested line */
	uint32_t best;		/* the nearest line with code, at or after it; 0: none yet */
	bool file_seen;
	line_list rows;
};

/* Keeps all rows of the nearest line so far. */
static void take_row(struct line_search *q, const struct line_site *s)
{
	if (s->line < q->line || (q->best && s->line > q->best) || !in_text(q->t->m, s->addr))
		return;
	if (s->line != q->best) {
		q->best = s->line;
		q->rows.n = 0;
	}
	*vec_add(&q->rows) = *s;
}

static bool knows_file(struct line_search *q, struct unit *u)
{
	Dwarf_Files *files;
	size_t n, i;

	if (dwarf_getsrcfiles(&u->die, &files, &n) != 0)
		return false;
	for (i = 0; i < n; i++) {
		const char *name = dwarf_filesrc(files, i, NULL, NULL);

		if (name && file_fits(name, q->file))
			return true;
	}
	return false;
}

static void search_unit(struct line_search *q, struct unit *u)
{
	const char *last = NULL;
	bool fits = false;
	Dwarf_Lines *lines;
	size_t n, i;

	if (!knows_file(q, u))
		return;
	q->file_seen = true;
	if (dwarf_getsrclines(&u->die, &lines, &n) != 0)
		return;
	for (i = 0; i < n; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		struct line_site s;
		bool stmt = false, end = false;

		if (dwarf_linebeginstatement(line, &stmt) != 0 || !stmt ||
		    dwarf_lineendsequence(line, &end) != 0 || end || !row_of(line, &s))
			continue;
		/* All names of one file are the same pointer. */
		if (s.file != last)
			fits = file_fits(s.file, q->file);
		last = s.file;
		if (fits)
			take_row(q, &s);
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct line_site *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Keeps the lowest address in each function and in each inlined copy. */
static void keep_first(struct line_search *q, line_list *list)
{
	VEC(const uint8_t *) seen = { 0 };
	size_t i, k;

	if (q->rows.n)
		qsort(q->rows.v, q->rows.n, sizeof(*q->rows.v), compare_rows);
	for (i = 0; i < q->rows.n; i++) {
		const uint8_t *scope;

		if (i && q->rows.v[i].addr == q->rows.v[i - 1].addr)
			continue;
		q->rows.v[i].func = func_at(q->t, q->rows.v[i].addr, &scope);
		for (k = 0; k < seen.n && seen.v[k] != scope; k++)
			;
		if (k < seen.n)
			continue;
		*vec_add(&seen) = scope;
		*vec_add(list) = q->rows.v[i];
	}
	vec_free(&seen);
}

int lines_find(struct types *t, const char *file, uint32_t line, line_list *list)
{
	struct line_search q = { .t = t, .file = file, .line = line };
	uint8_t *marked = xcalloc(1, t->units.n + 1);
	uint32_t i;

	dw_mark_file(t, file, marked);
	for (i = 0; i < t->main.n; i++)
		if (marked[t->main.first + i])
			search_unit(&q, &t->units.v[t->main.first + i]);
	free(marked);
	keep_first(&q, list);
	vec_free(&q.rows);
	if (q.best)
		return 0;
	if (q.file_seen)
		return fail(-ENODATA, "%s has no code at line %u or behind it", file, line);
	return fail(-ENOENT, "no source file %s in the debug info of %s", file, t->m->path);
}
