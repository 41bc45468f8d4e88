/* SPDX-License-Identifier: MIT */
/*
 * The scopes around an address: the function, the blocks in it, and the functions that were inlined into it; and
 * the variables in them.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"
#include <stdio.h>

Dwarf_CFI *dw_eh_frame(struct types *t)
{
	if (!t->eh_elf) {
		t->eh_elf = elf_memory((char *)t->m->image, t->m->image_size);
		if (t->eh_elf)
			t->eh = dwarf_getcfi_elf(t->eh_elf);
	}
	return t->eh;
}

bool dw_entry_pc(Dwarf_Die *die, uint64_t *ret_pc)
{
	Dwarf_Addr base, lo, hi, pc;

	if (dwarf_hasattr(die, DW_AT_entry_pc) && dwarf_entrypc(die, &pc) == 0) {
		*ret_pc = pc;
		return true;
	}
	if (dwarf_ranges(die, 0, &base, &lo, &hi) <= 0)
		return false;
	*ret_pc = lo;
	return true;
}

static const struct code *code_at(const code_list *codes, uint64_t pc)
{
	size_t a = 0, b = codes->n, tries;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (codes->v[mid].lo <= pc)
			a = mid + 1;
		else
			b = mid;
	}
	for (tries = 0; a > 0 && tries < MOST_DEPTH; a--, tries++)
		if (pc < codes->v[a - 1].hi)
			return &codes->v[a - 1];
	return NULL;
}

bool dw_func_die(struct types *t, uint64_t pc, struct unit **ret_unit, Dwarf_Die *ret_die)
{
	struct unit *u = unit_at(t, pc);
	const struct code *c;

	if (!u)
		return false;
	unit_codes(t, u);
	c = code_at(&u->codes, pc);
	if (!c) {
		unit_nested(u);
		c = code_at(&u->nested, pc);
	}
	if (!c || !die_at(u, c->die, ret_die))
		return false;
	*ret_unit = u;
	return true;
}

static bool has_code(Dwarf_Die *die, uint64_t pc)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0)
		if (pc - lo < hi - lo)
			return true;
	return false;
}

/*
 * Empty ranges count: gcc may say that an inlined function is entered at an address although the instruction there
 * is not its own. Its parameters are known there.
 */
static bool holds(Dwarf_Die *die, uint64_t pc)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;
	uint64_t entry;

	if (has_code(die, pc))
		return true;
	while ((at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0)
		if (lo == pc && hi == pc)
			return true;
	return dwarf_tag(die) == DW_TAG_inlined_subroutine && dw_entry_pc(die, &entry) && entry == pc;
}

/* A scope with code at the address takes precedence over one that only begins there, unless the latter is the probed copy. */
static bool inner_scope(Dwarf_Die *parent, uint64_t pc, bool is_copy, Dwarf_Die *ret_scope)
{
	bool begins = false;
	Dwarf_Die die;

	if (!die_first(parent, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);

		if ((tag != DW_TAG_lexical_block && tag != DW_TAG_inlined_subroutine) || !holds(&die, pc))
			continue;
		if (is_copy || has_code(&die, pc)) {
			*ret_scope = die;
			return true;
		}
		if (!begins)
			*ret_scope = die;
		begins = true;
	} while (die_next(&die));
	return begins;
}

int dw_scopes(struct types *t, uint64_t pc, bool is_copy, struct unit **ret_unit, scope_chain *chain)
{
	struct unit *u;
	Dwarf_Die die, swap;
	size_t i;

	if (!dw_func_die(t, pc, &u, &die))
		return fail(-ENODATA, "%s: no debug info for the code at %#llx", t->m->path, (unsigned long long)pc);
	do {
		*vec_add(chain) = die;
	} while (chain->n < MOST_DEPTH && inner_scope(&chain->v[chain->n - 1], pc, is_copy, &die));
	for (i = 0; i < chain->n / 2; i++) {
		swap = chain->v[i];
		chain->v[i] = chain->v[chain->n - 1 - i];
		chain->v[chain->n - 1 - i] = swap;
	}
	*ret_unit = u;
	return 0;
}

struct asked { struct types *t; struct unit *u; uint64_t pc; const char *name; bool at_entry; Dwarf_Die *func; };

static void add_var(struct asked *q, Dwarf_Die *die, int tag, uint16_t depth, var_list *list)
{
	struct var v = { .name = die_name(die), .depth = depth, .from = VAR_BY_DWARF };
	bool listed;

	if (!v.name || (q->name && strcmp(v.name, q->name) != 0))
		return;
	v.kind = tag == DW_TAG_formal_parameter ? VAR_PARAM : VAR_LOCAL;
	/* "extern int x;" in a function */
	if (die_flag(die, DW_AT_declaration)) {
		if (types_global(q->t, v.name, q->pc, &v) == 0)
			*vec_add(list) = v;
		return;
	}
	v.type = die_type(q->t, die);
	v.loc = dw_location(q->t, die, q->func, q->pc, type_get(q->t, v.type)->size, &listed);
	if (die_flag(die, DW_AT_artificial))
		v.flags |= VAR_ARTIFICIAL;
	if (v.kind == VAR_LOCAL && v.loc.n == 1 && v.loc.pieces[0].kind == LOC_GLOBAL)
		v.kind = VAR_STATIC;
	*vec_add(list) = v;
}

static void add_scope(struct asked *q, Dwarf_Die *scope, uint16_t depth, bool skip_params, var_list *list)
{
	Dwarf_Die die;

	if (!die_first(scope, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_variable || (tag == DW_TAG_formal_parameter && !skip_params))
			add_var(q, &die, tag, depth, list);
	} while (die_next(&die) && list->n < MOST_MEMBERS);
}

/*
 * Adds variables that the source declares in a scope, but this copy of it does not mention: statics, which need not
 * be repeated, and variables that were optimised away, which still hide outer ones of the same name.
 */
static void add_missing(struct asked *q, Dwarf_Die *scope, uint16_t depth, size_t first, var_list *list)
{
	Dwarf_Attribute attr;
	Dwarf_Die abstract, die;
	size_t i;

	if (!dwarf_formref_die(dwarf_attr(scope, DW_AT_abstract_origin, &attr), &abstract) || !die_first(&abstract, &die))
		return;
	do {
		int tag = dwarf_tag(&die);
		const char *name = tag == DW_TAG_formal_parameter || tag == DW_TAG_variable ? die_name(&die) : NULL;

		for (i = first; name && i < list->n && (!list->v[i].name || strcmp(list->v[i].name, name) != 0); i++)
			;
		if (name && i == list->n)
			add_var(q, &die, tag, depth, list);
	} while (die_next(&die) && list->n < MOST_MEMBERS);
}

/* At the first instruction the calling convention takes precedence. */
static bool add_params(struct asked *q, uint16_t depth, var_list *list)
{
	const struct func_types *f;
	uint32_t i;

	if (types_func(q->t, q->pc, &f) < 0)
		return false;
	for (i = 0; i < f->nparams; i++) {
		if (!f->params[i].name || (q->name && strcmp(f->params[i].name, q->name) != 0))
			continue;
		*vec_add(list) = f->params[i];
		list->v[list->n - 1].depth = depth;
	}
	return true;
}

static void collect_scope(struct asked *q, scope_chain *chain, size_t i, var_list *list)
{
	size_t first = list->n;
	uint64_t entry;
	bool by_abi = i == chain->n - 1 && dw_entry_pc(q->func, &entry) && entry == q->pc && add_params(q, i, list);

	add_scope(q, &chain->v[i], i, by_abi, list);
	add_missing(q, &chain->v[i], i, first, list);
}

/*
 * Counts the scopes that only begin at an address, where the instruction is not theirs. They come after all others:
 * a variable requested there is that of the function around it, unless the copy itself is probed. At the first
 * instruction of the function itself all of them only begin.
 */
static size_t mere_beginnings(const scope_chain *chain, uint64_t pc)
{
	size_t i = chain->n;
	uint64_t entry;

	if (i && dw_entry_pc(&chain->v[i - 1], &entry) && entry == pc)
		return i - 1;
	while (i > 0 && (i == chain->n || has_code(&chain->v[i - 1], pc)))
		i--;
	return i;
}

static int collect(struct types *t, uint64_t pc, const char *name, bool is_copy, var_list *list)
{
	struct asked q = { .t = t, .pc = pc, .name = name };
	scope_chain chain = { 0 };
	int r = dw_scopes(t, pc, is_copy, &q.u, &chain);
	size_t late = is_copy || r ? 0 : mere_beginnings(&chain, pc);

	for (size_t k = 0; r == 0 && k < chain.n && !(name && list->n); k++) {
		q.func = &chain.v[chain.n - 1];
		collect_scope(&q, &chain, k < chain.n - late ? k + late : k - (chain.n - late), list);
	}
	vec_free(&chain);
	return r;
}

int types_vars_at(struct types *t, uint64_t pc, var_list *list)
{
	return collect(t, pc, NULL, true, list);
}

static int no_such_var(struct types *t, uint64_t pc, const char *name, bool is_copy)
{
	var_list list = { 0 };
	char has[256] = "";
	size_t n = 0, i;

	collect(t, pc, NULL, is_copy, &list);
	for (i = 0; i < list.n && n < 200; i++)
		n += snprintf(has + n, sizeof(has) - n, "%s%.40s", i ? ", " : "", list.v[i].name);
	vec_free(&list);
	if (!n)
		return fail(-ENOENT, "there is no variable %s", name);
	return fail(-ENOENT, "there is no variable %s; there are %s%s", name, has, n >= 200 ? ", ..." : "");
}

static int find_var(struct types *t, uint64_t pc, const char *name, bool is_copy, struct var *ret_var)
{
	var_list list = { 0 };
	int r = collect(t, pc, name, is_copy, &list);

	if (list.n)
		*ret_var = list.v[0];
	else if (r == 0 || r == -ENODATA)
		r = types_global(t, name, pc, ret_var) == 0 ? 0 : no_such_var(t, pc, name, is_copy);
	vec_free(&list);
	return r;
}

int types_var(struct types *t, uint64_t pc, const char *name, struct var *ret_var)
{
	return find_var(t, pc, name, false, ret_var);
}

int types_copy_var(struct types *t, uint64_t pc, const char *name, struct var *ret_var)
{
	return find_var(t, pc, name, true, ret_var);
}

/* The entry that has a location; else one that is not just a declaration. */
static Dwarf_Die *best_global(die_list *list)
{
	Dwarf_Die *kept = NULL;
	size_t i;

	for (i = 0; i < list->n; i++) {
		if (dwarf_hasattr_integrate(&list->v[i], DW_AT_location) ||
		    dwarf_hasattr_integrate(&list->v[i], DW_AT_const_value))
			return &list->v[i];
		if (!kept && !die_flag(&list->v[i], DW_AT_declaration))
			kept = &list->v[i];
	}
	return kept;
}

/*
 * Whether the variable is linked into the program. The linker leaves out unused ones; their entry then says byte 0,
 * which may be that of another variable.
 */
static bool is_linked(const struct types *t, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
	uint64_t byte;

	return name && module_tls_symbol(t->m, name, &byte);
}

/* The names that thread_local! gives a variable, in the order of the compiler's versions. */
static void find_rust_local(struct types *t, struct unit *near, const char *name, die_list *list)
{
	static const char *const inside[] = {
		"{constant#0}::{closure#0}::__RUST_STD_INTERNAL_VAL", "{constant#0}::{closure#1}::__RUST_STD_INTERNAL_VAL",
		"{constant#0}::{closure#0}::VAL", "{constant#0}::{closure#1}::VAL", "__getit::VAL", "__getit::__KEY",
	};

	for (size_t i = 0; !list->n && i < ARRAY_SIZE(inside); i++) {
		char *full = xasprintf("%s::%s", name, inside[i]);

		dw_find(t, near, full, FIND_VARIABLE, 1, list);
		free(full);
		if (list->n && !is_linked(t, &list->v[0]))
			list->n = 0;
	}
}

int types_global(struct types *t, const char *name, uint64_t near, struct var *ret_var)
{
	struct unit *u = near ? unit_at(t, near) : NULL;
	struct var v = { .from = VAR_BY_DWARF };
	die_list list = { 0 };
	Dwarf_Die *die;
	bool listed;
	int r = 0;

	dw_find(t, u, name, FIND_VARIABLE, 1, &list);
	if (!list.n && u && u->lang == LANG_RUST)
		find_rust_local(t, u, name, &list);
	die = best_global(&list);
	if (die && !dwarf_hasattr_integrate(die, DW_AT_location)) {
		dw_find_copies(t, die, &list);
		die = best_global(&list);
	}
	if (die) {
		v.name = unit_qualified(t, unit_of(t, die), die);
		v.type = die_type(t, die);
		v.kind = die_flag(die, DW_AT_external) ? VAR_GLOBAL : VAR_STATIC;
		v.loc = dw_location(t, die, NULL, 0, type_get(t, v.type)->size, &listed);
		*ret_var = v;
	} else if (list.n) {
		r = fail(-ENOENT, "%s only declares %s; another file of the program has it", t->m->path, name);
	} else {
		r = fail(-ENOENT, "no global or static variable %s in %s", name, t->m->path);
	}
	vec_free(&list);
	return r;
}
