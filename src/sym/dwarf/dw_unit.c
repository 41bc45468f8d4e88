/* SPDX-License-Identifier: MIT */
/*
 * Units: which one an address belongs to, and its content. A unit is walked once, without the bodies of functions,
 * when it is first needed: that yields its names, its functions and the scopes around them (an entry has no
 * reference to its parent).
 */
#include "sym/types/types_priv.h"

#include "sym/names/sort.h"

#define NO_SCOPE UINT32_MAX

struct unit *unit_of(struct types *t, Dwarf_Die *die)
{
	uint32_t i = table_get(&t->by_cu, die->cu);

	return i ? &t->units.v[i - 1] : NULL;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Every unit has its code ranges in its first entry; .debug_aranges may be incomplete. */
static void read_ranges(struct types *t)
{
	uint32_t i;

	t->have_ranges = true;
	for (i = 0; i < t->main.n; i++) {
		struct unit *u = &t->units.v[t->main.first + i];
		Dwarf_Addr base, lo, hi;
		ptrdiff_t at = 0;

		while ((at = dwarf_ranges(&u->die, at, &base, &lo, &hi)) > 0)
			if (lo < hi && lo)	/* 0: code that the linker has removed */
				*vec_add(&t->ranges) = (struct unit_range){ lo, hi, t->main.first + i };
	}
	if (t->ranges.n)
		qsort(t->ranges.v, t->ranges.n, sizeof(*t->ranges.v), compare_ranges);
}

struct unit *unit_at(struct types *t, uint64_t pc)
{
	size_t a = 0, b, tries;

	if (!t->have_ranges)
		read_ranges(t);
	b = t->ranges.n;
	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (t->ranges.v[mid].lo <= pc)
			a = mid + 1;
		else
			b = mid;
	}
	/* Ranges may overlap where identical code was folded: a few earlier ones are checked. */
	for (tries = 0; a > 0 && tries < MOST_DEPTH; a--, tries++)
		if (pc < t->ranges.v[a - 1].hi)
			return &t->units.v[t->ranges.v[a - 1].unit];
	return NULL;
}

uint32_t name_hash(const char *name, size_t len)
{
	uint32_t h = 2166136261u;

	while (len--)
		h = (h ^ (uint8_t)*name++) * 16777619u;
	return h;
}

static void add_entry(struct unit *u, Dwarf_Die *die, int tag)
{
	const char *name = die_name(die);

	if (name)
		*vec_add(&u->entries) = (struct entry){
			name_hash(name, strlen(name)), tag, die_flag(die, DW_AT_declaration), name, die->addr
		};
}

static void add_code(code_list *codes, Dwarf_Die *die)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;

	if (!dwarf_hasattr(die, DW_AT_low_pc) && !dwarf_hasattr(die, DW_AT_ranges))
		return;
	while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0)
		if (lo < hi)
			*vec_add(codes) = (struct code){ lo, hi, die->addr };
}

static void add_import(struct types *t, struct unit *u, Dwarf_Die *die)
{
	struct unit *to;
	Dwarf_Die unit;

	if (!die_ref(die, DW_AT_import, &unit))
		return;
	to = unit_of(t, &unit);
	if (to && to != u)
		*vec_add(&u->imports) = to - t->units.v;
}

struct walk { struct types *t; struct unit *u; bool names; };

static void walk(struct walk *w, Dwarf_Die *parent, uint32_t outer, int depth);

static void walk_scope(struct walk *w, Dwarf_Die *die, uint32_t outer, int depth)
{
	struct unit *u = w->u;
	const uint8_t *hi = outer == NO_SCOPE ? u->end : u->scopes.v[outer].hi;

	if (!w->names)
		*vec_add(&u->scopes) = (struct scope){ die->addr, hi, outer };
	walk(w, die, w->names ? NO_SCOPE : u->scopes.n - 1, depth + 1);
}

static bool is_class(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_interface_type;
}

static void visit(struct walk *w, Dwarf_Die *die, uint32_t outer, int depth)
{
	struct unit *u = w->u;
	bool nests = u->lang == LANG_CXX || u->lang == LANG_RUST;
	int tag = dwarf_tag(die);

	if (tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_enumeration_type || (nests && is_class(tag)))
		walk_scope(w, die, outer, depth);
	if (tag == DW_TAG_subprogram && !w->names)
		add_code(&u->codes, die);
	if (!w->names)
		return;
	switch (tag) {
	case DW_TAG_imported_unit:
		add_import(w->t, u, die);
		break;
	case DW_TAG_structure_type: case DW_TAG_class_type: case DW_TAG_union_type: case DW_TAG_interface_type:
	case DW_TAG_enumeration_type: case DW_TAG_subprogram: case DW_TAG_typedef: case DW_TAG_base_type:
	case DW_TAG_unspecified_type: case DW_TAG_variable: case DW_TAG_enumerator:
		add_entry(u, die, tag);
	}
}

static void walk(struct walk *w, Dwarf_Die *parent, uint32_t outer, int depth)
{
	struct unit *u = w->u;
	Dwarf_Die die;
	bool more;

	if (depth >= MOST_DEPTH || !die_first(parent, &die))
		return;
	do {
		size_t mine = u->scopes.n;
		const uint8_t *at = die.addr;

		visit(w, &die, outer, depth);
		more = die_next(&die);
		/* Scopes that end with their parent get their end here. */
		for (; more && mine < u->scopes.n && u->scopes.v[mine].lo >= at; mine++)
			u->scopes.v[mine].hi = MIN(u->scopes.v[mine].hi, (const uint8_t *)die.addr);
	} while (more);
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->die < y->die ? -1 : x->die > y->die;
}

static int compare_codes(const void *a, const void *b)
{
	const struct code *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The number after some words of the producer's name; 0: they are not in it. */
static uint16_t version_in(const char *producer, const char *words)
{
	const char *at = producer ? strstr(producer, words) : NULL;

	return at ? MIN(strtoul(at + strlen(words), NULL, 10), 9999u) : 0;
}

/* Reads the compiler's version: compilers differ in how they pass uncommon types. */
static void read_producer(struct unit *u)
{
	Dwarf_Attribute attr;
	const char *by = dwarf_formstring(dwarf_attr(&u->die, DW_AT_producer, &attr));

	u->go_regs = u->lang == LANG_GO && by && strstr(by, "regabi");
	u->clang = version_in(by, "clang version ");
	u->rustc = version_in(by, "rustc version 1.");
}

void unit_codes(struct types *t, struct unit *u)
{
	struct walk w = { t, u, false };

	if (u->have_codes)
		return;
	u->have_codes = true;
	read_producer(u);
	walk(&w, &u->die, NO_SCOPE, 0);
	if (u->codes.n)
		qsort(u->codes.v, u->codes.n, sizeof(*u->codes.v), compare_codes);
}

static void walk_nested(struct unit *u, Dwarf_Die *parent, int depth)
{
	Dwarf_Die die;

	if (depth > 8 || !die_first(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram)
			add_code(&u->nested, &die);
		if (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block)
			walk_nested(u, &die, depth + 1);
	} while (die_next(&die));
}

void unit_nested(struct unit *u)
{
	if (u->have_nested)
		return;
	u->have_nested = true;
	walk_nested(u, &u->die, 0);
	if (u->nested.n)
		qsort(u->nested.v, u->nested.n, sizeof(*u->nested.v), compare_codes);
}

void unit_names(struct types *t, struct unit *u)
{
	struct walk w = { t, u, true };

	if (u->have_names)
		return;
	u->have_names = true;
	walk(&w, &u->die, NO_SCOPE, 0);
	if (u->entries.n)
		qsort(u->entries.v, u->entries.n, sizeof(*u->entries.v), compare_entries);
}

static uint32_t scope_of(const struct unit *u, const uint8_t *die)
{
	size_t a = 0, b = u->scopes.n;
	uint32_t s;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (u->scopes.v[mid].lo < die)
			a = mid + 1;
		else
			b = mid;
	}
	for (s = a ? a - 1 : NO_SCOPE; s != NO_SCOPE && die >= u->scopes.v[s].hi; s = u->scopes.v[s].outer)
		;
	return s;
}

bool unit_scope_die(struct types *t, Dwarf_Die *die, Dwarf_Die *ret_die)
{
	struct unit *u = unit_of(t, die);
	uint32_t s;

	if (!u)
		return false;
	unit_codes(t, u);
	s = scope_of(u, die->addr);
	return s != NO_SCOPE && die_at(u, u->scopes.v[s].lo, ret_die);
}

/*
 * A definition outside of its class gets its name from the declaration inside of it, and the scope is that of the
 * declaration.
 */
static void to_declaration(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	int i;

	for (i = 0; i < 16; i++)
		if (!dwarf_formref_die(dwarf_attr(die, DW_AT_specification, &attr), die) &&
		    !dwarf_formref_die(dwarf_attr(die, DW_AT_abstract_origin, &attr), die))
			return;
}

/* The name of a scope; NULL: it does not qualify the names in it, like an enum in C. */
static const char *scope_name(struct unit *u, const struct scope *s)
{
	const char *name;
	Dwarf_Die die;

	if (!die_at(u, s->lo, &die))
		return NULL;
	if (dwarf_tag(&die) == DW_TAG_enumeration_type && !die_flag(&die, DW_AT_enum_class))
		return NULL;
	name = die_name(&die);
	return name ? name : "(anonymous namespace)";
}

const char *unit_qualified(struct types *t, struct unit *u, Dwarf_Die *die)
{
	const char *name = die_name(die), *parts[MOST_DEPTH];
	Dwarf_Die at = *die;
	size_t n = 0, len;
	uint32_t s;
	char *out;

	if (!name || !u || (u->lang != LANG_CXX && u->lang != LANG_RUST))
		return name;
	to_declaration(&at);
	u = unit_of(t, &at);
	if (!u)
		return name;
	unit_codes(t, u);
	len = strlen(name) + 1;
	for (s = scope_of(u, at.addr); s != NO_SCOPE && n < MOST_DEPTH; s = u->scopes.v[s].outer) {
		parts[n] = scope_name(u, &u->scopes.v[s]);
		if (parts[n])
			len += strlen(parts[n++]) + 2;
	}
	if (!n)
		return name;
	out = types_alloc(t, len);
	while (n--) {
		strcat(out, parts[n]);
		strcat(out, "::");
	}
	return strcat(out, name);
}
