/* SPDX-License-Identifier: MIT */
/*
 * Inlined functions. The copies refer to the one entry that describes the function; they are in its own unit, or,
 * after link-time optimisation and dwz, in one that refers to it by its offset in the whole file. That offset is
 * searched as bytes, in the way that dw_find.c searches names.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"

struct inline_search {
	struct types *t;
	const char *name;
	die_list wanted;
	uint64_t caller;
	inlined_list *list;
};

#define MOST_SITES 1000000
#define MOST_FOREIGN 16		/* most descriptions that are searched in other units, too */

static bool is_wanted(struct inline_search *q, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin = *die;
	size_t i;
	int hops;

	for (hops = 0; hops < 8; hops++) {
		if (!dwarf_formref_die(dwarf_attr(&origin, hops && dwarf_hasattr(&origin, DW_AT_specification) ?
						  DW_AT_specification : DW_AT_abstract_origin, &attr), &origin))
			return false;
		for (i = 0; i < q->wanted.n; i++)
			if (q->wanted.v[i].addr == origin.addr)
				return true;
	}
	return false;
}

static void add_site(struct inline_search *q, Dwarf_Die *die)
{
	struct inlined_site *s;
	uint64_t entry, v;

	if (!dw_entry_pc(die, &entry) || !in_text(q->t->m, entry) || q->list->n >= MOST_SITES)
		return;
	s = vec_add(q->list);
	s->entry = entry;
	s->caller = q->caller;
	s->name = unit_qualified(q->t, unit_of(q->t, die), die);
	if (die_number(die, DW_AT_call_line, &v))
		s->line = v;
	s->file = die_file(die, DW_AT_call_file);
}

static void walk(struct inline_search *q, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > MOST_DEPTH || !die_first(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_inlined_subroutine && is_wanted(q, &die))
			add_site(q, &die);
		if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block)
			walk(q, &die, depth + 1);
	} while (die_next(&die));
}

static void walk_unit(struct inline_search *q, struct unit *u)
{
	const uint8_t *last = NULL;
	size_t i;

	unit_codes(q->t, u);
	for (i = 0; i < u->codes.n; i++) {
		Dwarf_Die func;

		/* Hot and cold parts belong to one function. */
		if (u->codes.v[i].die == last || !die_at(u, u->codes.v[i].die, &func) ||
		    !dw_entry_pc(&func, &q->caller) || q->caller != u->codes.v[i].lo)
			continue;
		last = u->codes.v[i].die;
		walk(q, &func, 0);
	}
}

static void mark_users(struct inline_search *q, uint8_t *marked)
{
	struct types *t = q->t;
	size_t i, k;

	for (i = 0; i < q->wanted.n; i++) {
		struct unit *u = unit_of(t, &q->wanted.v[i]);
		uint32_t off = dwarf_dieoffset(&q->wanted.v[i]);

		if (u)
			marked[u - t->units.v] = 1;
		if (q->wanted.n <= MOST_FOREIGN)
			dw_mark_units(t, &off, sizeof(off), marked);
	}
	for (k = 0; k < t->units.n; k++)
		for (i = 0; marked[k] && i < t->units.v[k].imports.n; i++)
			marked[t->units.v[k].imports.v[i]] = 1;
}

static int compare_sites(const void *a, const void *b)
{
	const struct inlined_site *x = a, *y = b;

	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

int types_inlined(struct types *t, const char *name, inlined_list *list)
{
	struct inline_search q = { .t = t, .name = name, .list = list };
	size_t before = list->n, i;
	char *plain = xstrdup(name);
	uint8_t *marked;

	plain[strcspn(plain, "(")] = 0;
	if (dw_find(t, NULL, plain, FIND_FUNCTION, SIZE_MAX, &q.wanted) == 0) {
		marked = xcalloc(1, t->units.n + 1);
		mark_users(&q, marked);
		for (i = 0; i < t->units.n; i++)
			if (marked[i])
				walk_unit(&q, &t->units.v[i]);
		free(marked);
	}
	free(plain);
	vec_free(&q.wanted);
	if (list->n > before)
		qsort(list->v + before, list->n - before, sizeof(*list->v), compare_sites);
	return list->n - before;
}
