/* SPDX-License-Identifier: MIT */
/*
 * Finds the call by which a function was entered. A parameter that a function did not keep may still be known to
 * its caller: the debug info describes at the call what was passed ("the second argument is the value of that register"), and
 * the return address of the function identifies the call.
 *
 * That is valid only for a call instruction to this function, and only if nothing came in between: a function that
 * ends in a jump to another one, which ends in a jump back to the first, has the same return address and other
 * arguments. So jumps are followed, and if one of them has an unknown target, nothing is known.
 */
#include "sym/types/types_priv.h"

#include "sym/names/sort.h"

#define MOST_JUMPS 256		/* most functions that are followed for a jump back */

typedef VEC(struct sort_key) ref_list;
struct answer { uint64_t entry; const char *why; struct dw_call *v; size_t n; };

struct dw_calls {
	ref_list refs;		/* sorted. addr: target of a call instruction; index: its end, relative to lo */
	uint64_t lo;
	VEC(struct answer) answers;
};

void dw_calls_free(struct types *t)
{
	if (!t->calls)
		return;
	vec_free(&t->calls->refs);
	vec_free(&t->calls->answers);
	free(t->calls);
	t->calls = NULL;
}

/* Finds bytes that look like "call rel32". Those that are none are excluded later: no debug info describes them. */
static void add_refs(struct module *m, struct range r, uint64_t lo, ref_list *refs)
{
	const uint8_t *p = module_bytes(m, r.lo, r.hi - r.lo);
	uint64_t i;

	for (i = 0; p && i + 5 <= r.hi - r.lo; i++) {
		uint64_t end = r.lo + i + 5, to;

		if (p[i] != 0xe8)
			continue;
		to = end + (int32_t)get32(p + i + 1);
		if (in_text(m, to) && end - lo <= UINT32_MAX)
			*vec_add(refs) = (struct sort_key){ to, end - lo };
	}
}

static struct dw_calls *calls_of(struct types *t)
{
	struct sym_priv *p = priv(t->m);
	size_t i;

	if (t->calls)
		return t->calls;
	t->calls = xcalloc(1, sizeof(*t->calls));
	t->calls->lo = t->m->lo;
	for (i = 0; i < p->text.n; i++)
		add_refs(t->m, p->text.v[i], t->calls->lo, &t->calls->refs);
	sort_keys(t->calls->refs.v, t->calls->refs.n);
	return t->calls;
}

static bool is_call(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site;
}

static bool address_of(Dwarf_Die *die, unsigned int name, uint64_t *ret_addr)
{
	Dwarf_Attribute attr;
	Dwarf_Addr a;

	if (!dwarf_attr(die, name, &attr) || dwarf_formaddr(&attr, &a) != 0)
		return false;
	*ret_addr = a;
	return true;
}

/* The return address of the call; before DWARF 5 that was its "low_pc". */
static bool return_of(Dwarf_Die *die, uint64_t *ret_addr)
{
	return address_of(die, DW_AT_call_return_pc, ret_addr) ||
	       (dwarf_tag(die) == DW_TAG_GNU_call_site && address_of(die, DW_AT_low_pc, ret_addr));
}

static bool is_tail(Dwarf_Die *die)
{
	return die_flag(die, DW_AT_call_tail_call) || die_flag(die, DW_AT_GNU_tail_call);
}

/* Calls each() for every call below a function's entry, until it returns true. */
typedef bool each_call(void *arg, Dwarf_Die *call);

static bool walk_calls(Dwarf_Die *scope, int depth, each_call *each, void *arg)
{
	Dwarf_Die die;

	if (depth > MOST_DEPTH || !die_first(scope, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);

		if (is_call(&die) && each(arg, &die))
			return true;
		if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_try_block ||
		     tag == DW_TAG_catch_block) && walk_calls(&die, depth + 1, each, arg))
			return true;
	} while (die_next(&die));
	return false;
}

/* ---- jumps to other functions ---- */

struct jumps { struct types *t; uint64_t entry; VEC(uint64_t) seen; const char *why; };

/* The function's linkage name, or its plain name if it has none. */
static const char *full_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *s = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));

	return s ? s : die_name(die);
}

/* Whether there is the function at `to` that the debug info names as the target of the jump. */
static bool is_jump_to(struct jumps *j, uint64_t to, Dwarf_Die *callee)
{
	const char *name = full_name(callee), *other;
	struct unit *u;
	Dwarf_Die die;
	uint64_t entry;

	if (!dw_func_die(j->t, to, &u, &die) || !dw_entry_pc(&die, &entry) || entry != to)
		return false;
	other = full_name(&die);
	return name && other && strcmp(name, other) == 0;
}

/* The length of a jump is not known, so each form that could end there is tried. */
static bool find_jump(struct jumps *j, Dwarf_Die *call, Dwarf_Die *callee, uint64_t *ret_to)
{
	uint64_t end, at;
	const uint8_t *p;

	if (return_of(call, &end)) {
		p = module_bytes(j->t->m, end - 5, 5);
		at = end + (p ? (int32_t)get32(p + 1) : 0);
		if (p && (p[0] == 0xe9 || (p[0] & 0xf0) == 0x80) && is_jump_to(j, *ret_to = at, callee))
			return true;
		at = end + (p ? (int8_t)p[4] : 0);
		return p && (p[3] == 0xeb || (p[3] & 0xf0) == 0x70) && is_jump_to(j, *ret_to = at, callee);
	}
	if (!address_of(call, DW_AT_call_pc, &at))
		return false;
	p = module_bytes(j->t->m, at, 5);
	if (p && p[0] == 0xe9)
		*ret_to = at + 5 + (int32_t)get32(p + 1);
	else if (p && p[0] == 0xeb)
		*ret_to = at + 2 + (int8_t)p[1];
	else
		return false;
	return is_jump_to(j, *ret_to, callee);
}

static bool follow(void *arg, Dwarf_Die *call)
{
	struct jumps *j = arg;
	Dwarf_Die callee;
	uint64_t to = 0;
	size_t i;

	if (!is_tail(call))
		return false;
	if ((!die_ref(call, DW_AT_call_origin, &callee) && !die_ref(call, DW_AT_abstract_origin, &callee)) ||
	    !find_jump(j, call, &callee, &to)) {
		j->why = "it is not kept up to this address, and its function may have been entered by a jump";
		return true;
	}
	if (to == j->entry)
		j->why = "it is not kept up to this address, and its function also jumps to itself";
	for (i = 0; i < j->seen.n && j->seen.v[i] != to; i++)
		;
	if (i == j->seen.n)
		*vec_add(&j->seen) = to;
	return j->why || j->seen.n > MOST_JUMPS;
}

static bool tells_all_jumps(Dwarf_Die *func)
{
	return die_flag(func, DW_AT_call_all_calls) || die_flag(func, DW_AT_call_all_tail_calls) ||
	       die_flag(func, DW_AT_GNU_all_call_sites) || die_flag(func, DW_AT_GNU_all_tail_call_sites);
}

/* NULL: a return address in a caller proves that the arguments are those of that call. Otherwise the reason why not. */
static const char *way_back(struct types *t, uint64_t entry)
{
	struct jumps j = { .t = t, .entry = entry };
	struct unit *u;
	Dwarf_Die die;
	size_t i;

	*vec_add(&j.seen) = entry;
	for (i = 0; i < j.seen.n && !j.why; i++) {
		if (i >= MOST_JUMPS || !dw_func_die(t, j.seen.v[i], &u, &die) || !tells_all_jumps(&die))
			j.why = "it is not kept up to this address, and not all jumps to its function are known";
		else
			walk_calls(&die, 0, follow, &j);
	}
	vec_free(&j.seen);
	return j.why;
}

/* ---- calls ---- */

struct wanted { uint64_t ret; Dwarf_Die *found; };

static bool returns_there(void *arg, Dwarf_Die *call)
{
	struct wanted *w = arg;
	uint64_t ret;

	if (is_tail(call) || !return_of(call, &ret) || ret != w->ret)
		return false;
	*w->found = *call;
	return true;
}

static bool find_call(struct types *t, uint64_t ret, struct dw_call *ret_call)
{
	struct dw_call c = { .ret = ret };
	struct wanted w = { .ret = ret, .found = &c.call };
	struct unit *u;
	uint64_t entry;

	/* code that the linker has removed still has the address 0 */
	if (!dw_func_die(t, ret - 1, &u, &c.caller) || !dw_entry_pc(&c.caller, &entry) || !in_text(t->m, entry) ||
	    !walk_calls(&c.caller, 0, returns_there, &w))
		return false;
	*ret_call = c;
	return true;
}

static size_t first_ref(const struct dw_calls *c, uint64_t to)
{
	size_t a = 0, b = c->refs.n;

	while (a < b) {
		size_t mid = a + (b - a) / 2;

		if (c->refs.v[mid].addr < to)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

static void answer(struct types *t, struct dw_calls *c, struct answer *a)
{
	struct dw_call found[MOST_CALLS];
	size_t i = first_ref(c, a->entry), end = i;

	while (end < c->refs.n && c->refs.v[end].addr == a->entry)
		end++;
	a->why = end - i > MOST_CALLS ? "it is not kept up to this address, and its function is called from too many places" :
		 way_back(t, a->entry);
	for (; !a->why && i < end; i++)
		a->n += find_call(t, c->lo + c->refs.v[i].index, &found[a->n]);
	if (!a->why && !a->n)
		a->why = "it is not kept up to this address, and no call of its function is described";
	a->v = types_alloc(t, a->n * sizeof(*a->v));
	memcpy(a->v, found, a->n * sizeof(*a->v));
}

const char *dw_calls_to(struct types *t, uint64_t entry, const struct dw_call **ret_calls, size_t *ret_n)
{
	struct dw_calls *c = calls_of(t);
	struct answer a = { .entry = entry };
	size_t i;

	for (i = 0; i < c->answers.n && c->answers.v[i].entry != entry; i++)
		;
	if (i == c->answers.n) {
		answer(t, c, &a);
		*vec_add(&c->answers) = a;
	}
	a = c->answers.v[i];
	*ret_calls = a.v;
	*ret_n = a.n;
	return a.why;
}

static bool is_register(Dwarf_Die *die, uint64_t reg)
{
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!die_place(die, DW_AT_location, &attr) || dwarf_getlocation(&attr, &ops, &n) != 0 || n != 1)
		return false;
	return (ops[0].atom == DW_OP_reg0 + reg && reg < 32) || (ops[0].atom == DW_OP_regx && ops[0].number == reg);
}

bool dw_call_value(const struct dw_call *call, uint64_t reg, Dwarf_Attribute *ret_attr)
{
	Dwarf_Die die = call->call;

	if (!die_first(&die, &die))
		return false;
	do {
		int tag = dwarf_tag(&die);

		if ((tag == DW_TAG_call_site_parameter || tag == DW_TAG_GNU_call_site_parameter) && is_register(&die, reg))
			return die_place(&die, DW_AT_call_value, ret_attr) || die_place(&die, DW_AT_GNU_call_site_value, ret_attr);
	} while (die_next(&die));
	return false;
}
