/* SPDX-License-Identifier: MIT */
/*
 * A function's parameters at its first instruction. There the debug info of unoptimised code is wrong (it says
 * where the prologue will have put them), while the calling convention is right for every function that other
 * modules can call. A compiler that knows all callers may pass parameters otherwise: then only a location list,
 * which is about single instructions, is right.
 */
#include "sym/types/types_priv.h"

#include "base/err.h"

struct param { Dwarf_Die die; type_id type; bool result, artificial; const char *name; };
typedef VEC(struct param) param_list;

struct job {
	struct types *t;
	struct unit *u;
	Dwarf_Die *die;
	uint64_t entry;
	struct func_types *f;
	param_list params;
	bool local;	/* all callers are known */
	bool changed;	/* all callers are known to use a convention of their own */
	bool unsure;	/* it is not known whether callers do */
};

static void add_param(struct job *j, Dwarf_Die *die)
{
	struct param *p = vec_add(&j->params);

	p->die = *die;
	p->name = die_name(die);
	p->type = die_type(j->t, die);
	p->result = j->u->lang == LANG_GO && die_flag(die, DW_AT_variable_parameter);
	p->artificial = die_flag(die, DW_AT_artificial);
}

/* Finds the entry below `concrete` that is a copy of the parameter `of`. */
static bool find_copy(Dwarf_Die *concrete, Dwarf_Die *of, Dwarf_Die *ret_die)
{
	Dwarf_Attribute attr;
	Dwarf_Die die, origin;

	if (!die_first(concrete, &die))
		return false;
	do
		if (dwarf_tag(&die) == DW_TAG_formal_parameter &&
		    dwarf_formref_die(dwarf_attr(&die, DW_AT_abstract_origin, &attr), &origin) &&
		    origin.addr == of->addr) {
			*ret_die = die;
			return true;
		}
	while (die_next(&die));
	return false;
}

/*
 * Lists the parameters in the order of their declaration. A copy of a function lacks parameters that were optimised
 * away, and constructors lack those that only some of their copies have.
 */
static void list_params(struct job *j)
{
	Dwarf_Attribute attr;
	Dwarf_Die abstract, die, copy;
	bool is_copy = dwarf_formref_die(dwarf_attr(j->die, DW_AT_abstract_origin, &attr), &abstract);

	if (!die_first(is_copy ? &abstract : j->die, &die))
		return;
	do {
		if (dwarf_tag(&die) == DW_TAG_unspecified_parameters)
			j->f->variadic = true;
		if (dwarf_tag(&die) != DW_TAG_formal_parameter || j->params.n >= 256)
			continue;
		if (!is_copy)
			add_param(j, &die);
		else if (find_copy(j->die, &die, &copy))
			add_param(j, &copy);
		else if (!die_flag(&die, DW_AT_artificial))
			add_param(j, &die);
	} while (die_next(&die));
}

static bool same_place(const struct loc *a, const struct loc *b)
{
	uint32_t i;

	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++) {
		const struct loc_piece *x = &a->pieces[i], *y = &b->pieces[i];

		if (x->kind != y->kind)
			return false;
		if ((x->kind == LOC_REG || x->kind == LOC_VECTOR || x->kind == LOC_MEM) &&
		    (x->reg != y->reg || x->off != y->off))
			return false;
	}
	return true;
}

static bool has_gone(const struct loc *l)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		if (l->pieces[i].kind == LOC_GONE)
			return true;
	return l->n == 0;
}

/* "f.constprop.0", "f.isra.0", "f.part.0": made for particular callers. LLVM marks such functions by an attribute. */
static bool is_changed(struct job *j)
{
	const struct func *f = module_func_at(j->t->m, j->entry);
	uint64_t how;

	if (die_number(j->die, DW_AT_calling_convention, &how) && how == DW_CC_nocall)
		return true;
	return f && f->name && (strstr(f->name, ".constprop.") || strstr(f->name, ".isra.") || strstr(f->name, ".part."));
}

static uint8_t convention(struct job *j)
{
	if (j->u->lang == LANG_GO)
		return j->u->go_regs ? ABI_GO : ABI_GO_STACK;
	if (j->u->lang != LANG_RUST)
		return ABI_C;
	/* A function that is extern "C" has an unmangled name and C's convention. */
	return j->f->linkage && (strncmp(j->f->linkage, "_ZN", 3) == 0 || strncmp(j->f->linkage, "_R", 2) == 0) ?
	       ABI_RUST : ABI_C;
}

/* Go: results come after all parameters, with all registers free again. */
static void place_by_abi(struct job *j, struct var *vars)
{
	struct abi a = { .t = j->t, .kind = convention(j), .clang = j->u->clang, .rustc = j->u->rustc };
	size_t i;

	abi_hidden_result(&a, j->f->ret);
	for (i = 0; i < j->params.n; i++)
		if (!j->params.v[i].result)
			vars[i].loc = abi_param(&a, j->params.v[i].type, dw_is_indirect(&j->params.v[i].die) &&
						type_get(j->t, type_strip(j->t, j->params.v[i].type))->kind != TYPE_PTR &&
						j->u->lang == LANG_CXX);
	a.ints = a.floats = 0;
	a.stack = (a.stack + 7) & ~7ull;
	for (i = 0; i < j->params.n; i++)
		if (j->params.v[i].result)
			vars[i].loc = abi_param(&a, j->params.v[i].type, false);
}

/* Unoptimised code has one location for each variable, and nothing inlined. */
static bool is_optimised(Dwarf_Die *scope, int depth)
{
	Dwarf_Attribute attr;
	Dwarf_Die die;
	int tag;

	if (dwarf_hasattr(scope, DW_AT_call_all_calls) || dwarf_hasattr(scope, DW_AT_GNU_all_call_sites))
		return true;
	if (!die_first(scope, &die))
		return false;
	do {
		tag = dwarf_tag(&die);
		if (tag == DW_TAG_inlined_subroutine)
			return true;
		if ((tag == DW_TAG_formal_parameter || tag == DW_TAG_variable) &&
		    (!dwarf_attr_integrate(&die, DW_AT_location, &attr) || dwarf_whatform(&attr) != DW_FORM_exprloc))
			return true;
		if (tag == DW_TAG_lexical_block && depth < 16 && is_optimised(&die, depth + 1))
			return true;
	} while (die_next(&die));
	return false;
}

/*
 * LLVM leaves out parameters of functions whose callers it knows. Since version 16 it marks these functions
 * (DW_CC_nocall), but not methods.
 */
static bool may_have_changed(struct job *j)
{
	Dwarf_Attribute attr;
	const char *by = dwarf_formstring(dwarf_attr(&j->u->die, DW_AT_producer, &attr));

	return by && (strstr(by, "clang") || strstr(by, "rustc") || strstr(by, "LLVM")) && j->local &&
	       is_optimised(j->die, 0);
}

static bool is_constant(const struct loc *l)
{
	return l->n == 1 && (l->pieces[0].kind == LOC_CONST || l->pieces[0].kind == LOC_BYTES);
}

static bool is_argument_register(const struct call_abi *call, const struct loc_piece *p)
{
	if (p->kind == LOC_VECTOR)
		return p->reg < call->float_args;
	for (size_t i = 0; p->kind == LOC_REG && i < call->nargs; i++)
		if (call->args[i] == p->reg)
			return true;
	return false;
}

/* LLVM writes a register without a list if the variable is there from the beginning of the function to its end. */
static bool is_there_always(struct job *j, const struct loc *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (!is_argument_register(j->t->m->arch->c_call, &l->pieces[i]))
			return false;
	return j->unsure && l->n;
}

/*
 * Where the debug info is exact, it is compared with the convention; where the compiler was free to deviate, it
 * takes precedence.
 */
static void check_with_lists(struct job *j, struct var *vars)
{
	struct loc *listed = xcalloc(j->params.n + 1, sizeof(*listed));
	bool *exact = xcalloc(j->params.n + 1, sizeof(*exact)), differs = false, clone = j->changed;
	size_t i;

	for (i = 0; i < j->params.n; i++) {
		struct param *p = &j->params.v[i];

		if (p->result)
			continue;
		listed[i] = dw_location(j->t, &p->die, j->die, j->entry, type_get(j->t, p->type)->size, &exact[i]);
		exact[i] |= is_there_always(j, &listed[i]);
		if (!exact[i] || has_gone(&listed[i]) || same_place(&listed[i], &vars[i].loc))
			continue;
		if (has_gone(&vars[i].loc)) {	/* the convention does not determine it */
			vars[i].from = VAR_BY_DWARF;
			vars[i].loc = listed[i];
		} else {
			vars[i].flags |= VAR_DISPUTED;
			differs = true;
		}
	}
	for (i = 0; i < j->params.n && j->local; i++) {
		if (j->params.v[i].result || !(clone || differs || is_constant(&listed[i])))
			continue;
		vars[i].from = VAR_BY_DWARF;
		if (exact[i] || has_gone(&listed[i]) || is_constant(&listed[i]))
			vars[i].loc = listed[i];
		else	/* a location on the stack, which is filled only later */
			vars[i].loc = loc_gone("the compiler changed how this function is called; "
					       "it is known some instructions later");
	}
	for (i = 0; i < j->params.n && j->unsure; i++)
		if (vars[i].from == VAR_BY_ABI && !(exact[i] && same_place(&listed[i], &vars[i].loc)))
			vars[i].flags |= VAR_UNSURE;
	free(listed);
	free(exact);
}

static void place_params(struct job *j)
{
	struct var *vars = types_alloc(j->t, j->params.n * sizeof(*vars));
	size_t i;

	for (i = 0; i < j->params.n; i++) {
		vars[i].name = j->params.v[i].name;
		vars[i].type = j->params.v[i].type;
		vars[i].kind = j->params.v[i].result ? VAR_RETURN : VAR_PARAM;
		vars[i].from = VAR_BY_ABI;
		vars[i].flags = (j->params.v[i].artificial ? VAR_ARTIFICIAL : 0) |
				(j->params.v[i].result ? VAR_RESULT : 0);
	}
	place_by_abi(j, vars);
	check_with_lists(j, vars);
	j->f->params = vars;
}

static type_id go_result_type(struct job *j, size_t first, size_t n)
{
	struct type_member *m = types_alloc(j->t, n * sizeof(*m));
	uint64_t at = 0, align = 1, a, i, k = 0;

	for (i = first; i < j->params.n; i++) {
		if (!j->params.v[i].result)
			continue;
		a = abi_align(j->t, j->params.v[i].type);
		align = MAX(align, a);
		at = (at + a - 1) & -a;
		m[k++] = (struct type_member){ .name = j->params.v[i].name, .type = j->params.v[i].type, .bit_off = at * 8 };
		at += type_get(j->t, j->params.v[i].type)->size;
	}
	return type_new(j->t, &(struct type){ .kind = TYPE_STRUCT, .size = (at + align - 1) & -align, .n = k, .members = m });
}

/* Several results become one struct. */
static void place_go_results(struct job *j)
{
	const struct var *vars = j->f->params;
	struct pieces p = { 0 };
	size_t n = 0, first = 0, i, k;
	uint64_t at = 0, a;

	for (i = j->params.n; i > 0; i--)
		if (j->params.v[i - 1].result) {
			n++;
			first = i - 1;
		}
	if (!n)
		return;
	j->f->ret = n == 1 ? j->params.v[first].type : go_result_type(j, first, n);
	for (i = first; i < j->params.n; i++) {
		if (!j->params.v[i].result)
			continue;
		a = abi_align(j->t, j->params.v[i].type);
		if (at & (a - 1))
			pieces_add(&p, (struct loc_piece){ .kind = LOC_CONST, .size = -at & (a - 1) });
		at = (at + a - 1) & -a;
		for (k = 0; k < vars[i].loc.n; k++)
			pieces_add(&p, vars[i].loc.pieces[k]);
		at += type_get(j->t, j->params.v[i].type)->size;
	}
	j->f->retval.loc = pieces_loc(j->t, &p);
}

/* -g1 describes functions, but no types: a function without a type may return anything there. */
static bool has_types(struct job *j)
{
	size_t i;

	if (j->params.n)
		return true;
	unit_names(j->t, j->u);
	for (i = 0; i < j->u->entries.n; i++)
		if (tag_is_alias(j->u->entries.v[i].tag))
			return true;
	return j->u->imports.n;
}

/*
 * The address for a result in memory is handed over as the first parameter. In C a register has it at the return (call_abi.result_at). Rust's own
 * convention does not say so: newer compilers leave anything there, and debug info does not tell which functions do.
 */
static void place_rust_result(struct job *j, struct abi *a)
{
	if (a->kind != ABI_RUST || !abi_returns_in_memory(a, j->f->ret))
		return;
	j->f->result_at = j->f->retval;
	j->f->result_at.loc = abi_pointed(a, type_get(j->t, type_strip(j->t, j->f->ret))->size);
	j->f->retval.loc = loc_gone("it is in memory, and Rust does not keep its address until the return; "
				    "a call: probe keeps it from the entry");
}

static void place_return(struct job *j)
{
	struct abi a = { .t = j->t, .kind = convention(j), .clang = j->u->clang, .rustc = j->u->rustc };

	j->f->retval = (struct var){ .kind = VAR_RETURN, .from = VAR_BY_ABI };
	if (j->u->lang == LANG_GO)
		place_go_results(j);
	else
		j->f->retval.loc = abi_return(&a, j->f->ret);
	j->f->retval.type = j->f->ret;
	j->f->is_void = type_strip(j->t, j->f->ret) == TYPE_ID_VOID && has_types(j);
	if (j->changed || j->unsure)
		j->f->retval.flags |= VAR_UNSURE;
	place_rust_result(j, &a);
}

/* A result is not a parameter, though the debug info lists it among them: it is not available before the return. */
static void results_last(struct job *j)
{
	struct var *vars = types_alloc(j->t, j->params.n * sizeof(*vars));
	uint32_t n = 0;

	for (size_t i = 0; i < j->params.n; i++)
		if (!j->params.v[i].result)
			vars[n++] = j->f->params[i];
	j->f->nparams = n;
	for (size_t i = 0; i < j->params.n; i++)
		if (j->params.v[i].result)
			vars[n++] = j->f->params[i];
	j->f->nresults = n - j->f->nparams;
	j->f->params = vars;
}

static type_id proto_of(struct job *j)
{
	struct type_member *m = types_alloc(j->t, j->params.n * sizeof(*m));
	size_t i, n = 0;

	for (i = 0; i < j->params.n; i++)
		if (!j->params.v[i].artificial && !j->params.v[i].result)
			m[n++] = (struct type_member){ .name = j->params.v[i].name, .type = j->params.v[i].type };
	return type_new(j->t, &(struct type){ .kind = TYPE_FUNC, .ref = j->f->ret, .n = n, .members = m,
					      .flags = j->f->variadic ? TYPE_VARIADIC : 0 });
}

static const char *linkage_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) &&
	    !dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		return NULL;
	return dwarf_formstring(&attr);
}

static void describe(struct job *j)
{
	struct func_types *f = j->f;
	int line = 0;

	f->name = unit_qualified(j->t, j->u, j->die);
	f->linkage = linkage_of(j->die);
	f->entry = j->entry;
	f->lang = j->u->lang;
	f->external = die_flag(j->die, DW_AT_external);
	f->ret = die_type(j->t, j->die);
	dwarf_decl_line(j->die, &line);
	f->line = line;
	j->changed = is_changed(j);
	j->local = !f->external || f->lang == LANG_RUST || j->changed;
	j->unsure = may_have_changed(j);
}

int types_func(struct types *t, uint64_t entry, const struct func_types **ret_func)
{
	uint32_t known = table_get(&t->funcs, (void *)(uintptr_t)entry);
	struct job j = { .t = t, .entry = entry };
	uint64_t pc;
	Dwarf_Die die;

	if (known) {
		*ret_func = t->func_list.v[known - 1];
		return 0;
	}
	if (!dw_func_die(t, entry, &j.u, &die))
		return fail(-ENODATA, "%s: no debug info for the function at %#llx", t->m->path, (unsigned long long)entry);
	if (!dw_entry_pc(&die, &pc) || pc != entry)
		return fail(-ENOENT, "%s: no function begins at %#llx", t->m->path, (unsigned long long)entry);
	j.die = &die;
	j.f = types_alloc(t, sizeof(*j.f));
	describe(&j);
	list_params(&j);
	place_params(&j);
	place_return(&j);
	results_last(&j);
	j.f->type = proto_of(&j);
	vec_free(&j.params);
	*vec_add(&t->func_list) = j.f;
	table_put(&t->funcs, (void *)(uintptr_t)entry, t->func_list.n);
	*ret_func = j.f;
	return 0;
}

const char *types_func_file(struct types *t, uint64_t entry)
{
	struct unit *u;
	Dwarf_Die die;

	return dw_func_die(t, entry, &u, &die) ? die_file(&die, DW_AT_decl_file) : NULL;
}

char *types_func_declare(struct types *t, uint64_t entry)
{
	const struct func_types *f;

	if (types_func(t, entry, &f) < 0)
		return NULL;
	return type_declare(t, f->type, f->name ? f->name : "?");
}
