/* SPDX-License-Identifier: MIT */
/*
 * Finds a name in all units without reading them. Names are offsets into one table of strings: the offset of the
 * name is looked up there, then the bytes of .debug_info are searched for that number (or, if names are numbered
 * once more, the table of numbers). A hit may be an accident, but a name without a hit does not exist: only the few
 * units with a hit are walked. It takes about as long as reading the section, and needs no index.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"

typedef VEC(uint32_t) u32_list;

struct wanted {
	const char *name, *last;	/* the whole name, and the part after its last "::" */
	size_t len;			/* length of last */
	uint32_t hash;
	enum find_what what;
};

/*
 * The part after the last :: outside of brackets: "a::B<c::d>" is B<c::d>. Rust's fat pointers are structs in no
 * namespace: "*const [a::B]", "&dyn a::B".
 */
static const char *last_part(const char *name)
{
	const char *last = name;
	int depth = 0;
	size_t i;

	if (*name == '*' || *name == '&')
		return name;
	for (i = 0; name[i]; i++) {
		if (name[i] == '<' || name[i] == '(')
			depth++;
		else if (name[i] == '>' || name[i] == ')')
			depth--;
		else if (depth == 0 && name[i] == ':' && name[i + 1] == ':')
			last = &name[i + 2];
	}
	return *last ? last : name;
}

bool tag_is_alias(int tag)
{
	return tag == DW_TAG_typedef || tag == DW_TAG_base_type || tag == DW_TAG_unspecified_type;
}

static bool tag_fits(enum find_what what, int tag)
{
	bool structure = tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_interface_type;

	switch (what) {
	case FIND_STRUCT: return structure;
	case FIND_UNION: return tag == DW_TAG_union_type;
	case FIND_ENUM: return tag == DW_TAG_enumeration_type;
	case FIND_TYPEDEF: return tag_is_alias(tag);
	case FIND_VARIABLE: return tag == DW_TAG_variable;
	case FIND_FUNCTION: return tag == DW_TAG_subprogram;
	case FIND_ENUMERATOR: return tag == DW_TAG_enumerator;
	case FIND_TYPE: break;
	}
	return structure || tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type ||
	       tag_is_alias(tag);
}

/* Whether the qualified name ends with the wanted one, at a boundary. */
static bool name_fits(const char *full, const char *wanted)
{
	size_t n = strlen(full), k = strlen(wanted);

	if (strncmp(wanted, "::", 2) == 0)
		return strcmp(full, wanted + 2) == 0;
	return n >= k && strcmp(full + n - k, wanted) == 0 &&
	       (n == k || (n - k >= 2 && full[n - k - 1] == ':'));
}

static size_t first_entry(const struct unit *u, uint32_t hash)
{
	size_t a = 0, b = u->entries.n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (u->entries.v[mid].hash < hash)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

static void find_in(struct types *t, struct unit *u, const struct wanted *w, die_list *list, die_list *declared)
{
	size_t i;

	unit_names(t, u);
	for (i = first_entry(u, w->hash); i < u->entries.n && u->entries.v[i].hash == w->hash; i++) {
		const struct entry *e = &u->entries.v[i];
		const char *full;
		Dwarf_Die die;

		if (!tag_fits(w->what, e->tag) || strcmp(e->name, w->last) != 0 || !die_at(u, e->die, &die))
			continue;
		full = w->last == w->name ? w->name : unit_qualified(t, u, &die);
		if (!full || !name_fits(full, w->name))
			continue;
		*(e->declared ? vec_add(declared) : vec_add(list)) = die;
	}
}

/* Finds the offsets of a string in a table of strings. The linker may have made it the end of another one. */
static void find_string(struct bytes str, const char *s, size_t len, u32_list *list)
{
	const uint8_t *p = str.p, *end = str.p + str.n, *hit;
	u32_list ends = { 0 };

	for (; p < end && (hit = memmem(p, end - p, s, len + 1)); p = hit + 1) {
		bool whole = hit == str.p || !hit[-1];

		*(whole ? vec_add(list) : vec_add(&ends)) = hit - str.p;
	}
	if (list->n)
		vec_free(&ends);
	else
		list->v = ends.v, list->n = ends.n, list->cap = ends.cap;
}

/* The units that may contain the name. */
struct hits {
	const struct types *t;
	uint8_t *bits;		/* a byte per unit */
	const struct wanted *what;	/* NULL: any hit counts */
};

enum { NO_HIT, HIT_DECLARED, HIT_MAYBE };

static size_t unit_holding(const struct types *t, size_t first, size_t n, const uint8_t *p)
{
	size_t a = first, b = first + n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if ((const uint8_t *)t->units.v[mid].die.addr <= p)
			a = mid + 1;
		else
			b = mid;
	}
	return a > first ? a - 1 : first;
}

/*
 * A name is mostly the first attribute, so the entry begins a few bytes before it. If an entry there has its name
 * exactly at the hit, this shows whether it is only a declaration, or of another kind. That may be an accident, so
 * it only decides which units are walked first.
 */
static int looks_like(struct hits *h, const struct unit *u, const uint8_t *hit)
{
	int back, best = NO_HIT;

	for (back = 1; back <= 3 && h->what; back++) {
		Dwarf_Attribute attr;
		Dwarf_Die die;

		if (!die_at(u, hit - back, &die) || dwarf_tag(&die) == DW_TAG_invalid ||
		    !dwarf_attr(&die, DW_AT_name, &attr) || attr.valp != hit)
			continue;
		if (tag_fits(h->what->what, dwarf_tag(&die)) && !die_flag(&die, DW_AT_declaration))
			return HIT_MAYBE;
		best = HIT_DECLARED;
	}
	return best ? best : HIT_MAYBE;
}

/* Marks all units of `in` that contain these bytes; after a good hit the rest of its unit is skipped. */
static void scan_bytes(struct hits *h, const struct dw_file *f, struct bytes in, const void *bytes, size_t n)
{
	const uint8_t *p = in.p, *end = p ? p + in.n : NULL, *hit;
	bool info = in.p == f->info.p;
	size_t first = info ? f->first : f->first + f->ninfo;

	while (p && p < end && (hit = memmem(p, end - p, bytes, n))) {
		size_t u = unit_holding(h->t, first, info ? f->ninfo : f->n - f->ninfo, hit);
		const struct unit *unit = &h->t->units.v[u];

		p = hit + 1;
		if (u >= h->t->units.n || hit < (const uint8_t *)unit->die.addr || hit >= unit->end)
			continue;
		h->bits[u] = MAX(h->bits[u], looks_like(h, unit, hit));
		if (h->bits[u] == HIT_MAYBE)
			p = MAX(p, unit->end);
	}
}

/* Names by number: marks units whose part of .debug_str_offsets has one of the offsets. */
static void scan_numbered(struct hits *h, const struct dw_file *f, const u32_list *offsets)
{
	struct bytes b = f->str_offsets;
	size_t i, k, at, u;

	for (u = f->first; b.p && u < f->first + f->n; u++) {
		Dwarf_Die die = h->t->units.v[u].die;
		uint64_t base, next;
		Dwarf_Attribute attr;
		Dwarf_Word v;

		if (h->bits[u] || dwarf_formudata(dwarf_attr(&die, DW_AT_str_offsets_base, &attr), &v) != 0)
			continue;
		base = v;
		if (base < 8 || base > b.n)
			continue;
		/* unit_length counts from the version field, 4 bytes before the first offset */
		next = base - 4 + get32(b.p + base - 8);
		for (at = base; at + 4 <= MIN(next, b.n) && !h->bits[u]; at += 4)
			for (i = get32(b.p + at), k = 0; k < offsets->n; k++)
				if (offsets->v[k] == i)
					h->bits[u] = HIT_MAYBE;
	}
}

/* If there are more strings than this, all units are walked. Happens only for names of a letter or two. */
#define MOST_STRINGS 64

static void scan(struct hits *h, const struct dw_file *f, const struct bytes *str, const struct wanted *w)
{
	u32_list offsets = { 0 };
	size_t i;

	if (str->p)
		find_string(*str, w->last, w->len, &offsets);
	if (offsets.n > MOST_STRINGS)
		memset(h->bits + f->first, HIT_MAYBE, f->n);
	for (i = 0; i < offsets.n && offsets.n <= MOST_STRINGS; i++) {
		scan_bytes(h, f, f->info, &offsets.v[i], 4);
		scan_bytes(h, f, f->types, &offsets.v[i], 4);
	}
	if (offsets.n)
		scan_numbered(h, f, &offsets);
	vec_free(&offsets);
	/* Short names are in .debug_info itself. */
	scan_bytes(h, f, f->info, w->last, w->len + 1);
	scan_bytes(h, f, f->types, w->last, w->len + 1);
}

void dw_mark_units(struct types *t, const void *bytes, size_t n, uint8_t *marked)
{
	struct hits h = { t, marked, NULL };

	scan_bytes(&h, &t->main, t->main.info, bytes, n);
}

/* Link-time optimisation: the entry with a location refers to the one with the name by its offset. */
void dw_find_copies(struct types *t, Dwarf_Die *of, die_list *list)
{
	uint8_t *marked = xcalloc(1, t->units.n + 1);
	uint32_t off = dwarf_dieoffset(of);
	size_t i, k;

	dw_mark_units(t, &off, sizeof(off), marked);
	for (i = 0; i < t->units.n; i++) {
		struct unit *u = &t->units.v[i];

		if (marked[i])
			unit_names(t, u);
		for (k = 0; marked[i] && k < u->entries.n; k++) {
			Dwarf_Attribute attr;
			Dwarf_Die die, origin;

			if (die_at(u, u->entries.v[k].die, &die) &&
			    dwarf_formref_die(dwarf_attr(&die, DW_AT_abstract_origin, &attr), &origin) &&
			    origin.addr == of->addr)
				*vec_add(list) = die;
		}
	}
	free(marked);
}

static void find_near(struct types *t, struct unit *u, const struct wanted *w, size_t most, die_list *list,
		      die_list *declared, int *budget)
{
	size_t i;

	if ((*budget)-- <= 0)
		return;
	find_in(t, u, w, list, declared);
	for (i = 0; i < u->imports.n && list->n < most; i++)
		find_near(t, &t->units.v[u->imports.v[i]], w, most, list, declared, budget);
}

static void find_everywhere(struct types *t, struct unit *near, const struct wanted *w, size_t most,
			    die_list *list, die_list *declared)
{
	struct hits h = { t, xcalloc(1, t->units.n + 1), w };
	int round;
	size_t i;

	scan(&h, &t->main, &t->main.str, w);
	if (t->alt.dw) {
		scan(&h, &t->main, &t->alt.str, w);
		scan(&h, &t->alt, &t->alt.str, w);
	}
	for (round = HIT_MAYBE; round >= HIT_DECLARED; round--)
		for (i = 0; i < t->units.n && list->n < most; i++)
			if (h.bits[i] == round && &t->units.v[i] != near)
				find_in(t, &t->units.v[i], w, list, declared);
	free(h.bits);
}

#define MOST_ASKED 256

/*
 * A script looks up the same names at each of its sites, and each unit that only declares a struct needs the one
 * that defines it: the first result is kept, also a negative one.
 */
static struct asked_name *asked_before(const struct types *t, const struct wanted *w)
{
	size_t i;

	for (i = 0; i < t->asked.n; i++)
		if (t->asked.v[i].what == w->what && strcmp(t->asked.v[i].name, w->name) == 0)
			return &t->asked.v[i];
	return NULL;
}

static void keep_answer(struct types *t, const struct wanted *w, const die_list *list, const die_list *declared)
{
	struct asked_name *a;

	if (t->asked.n == MOST_ASKED)
		return;
	a = vec_add(&t->asked);
	*a = (struct asked_name){ .name = types_string(t, w->name), .what = w->what, .defined = list->n, .declared = declared->n };
	if (list->n || declared->n)
		a->die = list->n ? list->v[0] : declared->v[0];
}

/* Searches outside of the nearest unit; if only one is wanted, the first one of an earlier search is used. */
static void find_elsewhere(struct types *t, struct unit *near, const struct wanted *w, size_t most, die_list *list, die_list *declared)
{
	const struct asked_name *a = asked_before(t, w);

	if (a && !a->defined && !a->declared)
		return;
	if (a && most == 1) {
		*vec_add(a->defined ? list : declared) = a->die;
		return;
	}
	find_everywhere(t, near, w, most, list, declared);
	if (!a)
		keep_answer(t, w, list, declared);
}

int dw_find(struct types *t, struct unit *near, const char *name, enum find_what what, size_t most,
	    die_list *list)
{
	struct wanted w = { name, last_part(name), 0, 0, what };
	die_list declared = { 0 };
	int budget = 1000;	/* imports: dwz makes a few dozen; damaged debug info may have cycles */

	w.len = strlen(w.last);
	w.hash = name_hash(w.last, w.len);
	if (w.len > MOST_NAME)
		return -ENOENT;
	if (near)
		find_near(t, near, &w, most, list, &declared, &budget);
	if (!list->n || most == SIZE_MAX)
		find_elsewhere(t, near, &w, most, list, &declared);
	if (!list->n && declared.n)
		*vec_add(list) = declared.v[0];
	vec_free(&declared);
	return list->n ? 0 : -ENOENT;
}
