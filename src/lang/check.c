/* SPDX-License-Identifier: MIT */
/*
 * Types of a clause at one kind of site. Integers of a script are C's as if int had 64 bits: what is
 * narrower becomes int64, only uint64 stays unsigned. A probe line computes as the program does.
 *
 * Variables belong to their clause, maps to the script. Both hold what was first written to them.
 */
#include "lang/check.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define MOST_NAMING 32

void check_error(struct checker *c, const struct expr *e, const char *fmt, ...)
{
	va_list ap;
	char *text;

	c->failed = true;
	if (c->quiet)
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	diag_error(c->l->diags, e->at, e->len, "%s", text);
	free(text);
}

struct map_info *map_find(struct lang *l, const char *name, uint32_t at)
{
	struct map_info *m;
	size_t i;

	for (i = 0; i < l->maps.n; i++)
		if (strcmp(l->maps.v[i]->name, name) == 0)
			return l->maps.v[i];
	m = pool_new(l->pool, struct map_info);
	m->name = name;
	m->at = at;
	m->max_keys = l->config.max_map_keys;
	m->number = IR_NONE;
	*vec_add(&l->maps) = m;
	return m;
}

static struct variable *variable_new(struct checker *c, const char *name)
{
	struct variable *v = pool_new(c->l->pool, struct variable);

	v->name = name;
	v->nested = c->depth > 0;
	*vec_add(&c->vars) = v;
	return v;
}

struct variable *variable_find(struct checker *c, const char *name, bool make)
{
	size_t i;

	for (i = c->vars.n; i-- > 0;)
		if (strcmp(c->vars.v[i]->name, name) == 0)
			return c->vars.v[i];
	return make ? variable_new(c, name) : NULL;
}

/* ---- types by name ---- */

static const struct vtype *find_struct(struct checker *c, const struct type_name *t)
{
	size_t i;

	for (i = 0; i < c->l->structs.n; i++)
		if (strcmp(c->l->structs.v[i]->decl->name, t->name) == 0)
			return c->l->structs.v[i];
	return NULL;
}

static const struct vtype *find_enum(struct checker *c, const struct type_name *t)
{
	size_t i;

	for (i = 0; i < c->l->enums.n; i++) {
		const char *name = c->l->enums.v[i]->enums->name;

		if (name && strcmp(name, t->name) == 0)
			return c->l->enums.v[i];
	}
	return NULL;
}

/* typedef; the last one of a name wins. */
static const struct vtype *find_alias(struct checker *c, const struct type_name *t)
{
	const struct script *s = c->l->script;
	const struct vtype *v = NULL;
	size_t i;

	for (i = s->aliases.n; i-- > 0 && !v;)
		if (strcmp(s->aliases.v[i].name, t->name) == 0 && c->naming < MOST_NAMING) {
			c->naming++;
			v = check_type_name(c, s->aliases.v[i].type);
			c->naming--;
		}
	return v;
}

static const struct vtype *base_type(struct checker *c, const struct type_name *t)
{
	struct expr where = { .at = t->at, .len = t->len };
	const struct vtype *v = t->tag ? NULL : v_basic(t->name);
	char *name;
	type_id id;
	int r;

	if (t->of_type)
		return t->of_type == t ? &v_error : check_type_name(c, t->of_type);
	if (t->of)
		return check_place(c, t->of);
	if (!v && !t->tag && strcmp(t->name, "string") == 0)
		v = v_text(c->l->pool, c->l->config.max_strlen);
	if (!v)
		v = t->tag && strcmp(t->tag, "enum") == 0 ? find_enum(c, t) : find_struct(c, t);
	if (!v && !t->tag)
		v = find_enum(c, t);
	if (!v && !t->tag)
		v = find_alias(c, t);
	if (v)
		return v;
	if (!c->site && t->tag && t->pointers)	/* in a definition: what it points to need not be known */
		return &v_void;
	name = xasprintf("%s%s%s", t->tag ? t->tag : "", t->tag ? " " : "", t->name);
	if (c->site && c->site->types) {
		r = type_find(c->site->types, name, c->site->pc, &id);
		if (r == 0)
			v = v_from(c->l->pool, c->site->types, id);
		else
			check_error(c, &where, "%s", err_text());
	} else {
		check_error(c, &where, "unknown type '%s'%s", name, c->site && c->site->at == LANG_TRACER ? "" :
			    "; the program has no debug info that would define it");
	}
	free(name);
	return v ? v : &v_error;
}

const struct vtype *check_type_name(struct checker *c, const struct type_name *t)
{
	const struct vtype *v = base_type(c, t);
	uint32_t i;

	if (v->kind == V_ERROR)
		return v;
	for (i = 0; i < t->pointers; i++)
		v = v_pointer(c->l->pool, v);
	for (i = t->ndims; i-- > 0;)
		v = v_array(c->l->pool, v, t->dims[i] < 0 ? 0 : t->dims[i]);
	return v;
}

/* ---- statements ---- */

static void check_block(struct checker *c, struct stmt *s)
{
	c->depth++;
	check_statements(c, s);
	c->depth--;
}

static void set_variable(struct checker *c, struct expr *var, const struct vtype *type, const struct expr *value)
{
	struct variable *v = variable_find(c, var->name, true);

	var->ref = v;
	if (type->kind == V_VOID || type->kind == V_AGG) {
		check_error(c, value, "this has no value that a variable could hold");
		type = &v_error;
	}
	type = stored_type(c, type);
	if (!v->type || v->type->kind == V_ERROR)
		v->type = type;
	else if (!v_same(v->type, type))
		check_error(c, value, "$%s holds %s, but this is %s", var->name, v_name(c->l->pool, v->type),
			    v_name(c->l->pool, type));
	var->type = v->type;
}

static void check_let(struct checker *c, struct stmt *s)
{
	const struct vtype *t = s->a ? check_value(c, s->a) : NULL, *as = s->type ? check_type_name(c, s->type) : NULL;
	struct variable *v;

	if (!t && !as) {
		v = variable_find(c, s->var->name, true);
		v->nested = true;
		s->var->ref = v;
		return;
	}
	if (as) {	/* as narrow as it says */
		v = variable_find(c, s->var->name, true);
		if (!v->type)
			v->type = as;
		v->declared = true;
		v->nested = !t || c->depth;
		s->var->ref = v;
	}
	set_variable(c, s->var, t ? t : as, s->a ? s->a : s->var);
	v = s->var->ref;
	if (!as && !v->first) {
		v->first = s->a;
		v->literals = s->a && s->a->kind == E_INT && s->a->value <= INT64_MAX;
	}
}

static void check_unroll(struct checker *c, struct stmt *s)
{
	int64_t n;

	check_expr(c, s->a);
	if (!const_int(s->a, &n) || n < 1 || n > 100)
		check_error(c, s->a, "unroll takes a constant from 1 to 100");
	check_block(c, s->body);
}

static void check_loop(struct checker *c, struct stmt *s)
{
	check_condition(c, s->a);
	c->loops++;
	check_block(c, s->body);
	c->loops--;
}

/* ((key, key), value) */
static const struct vtype *pair_type(struct checker *c, const struct map_info *m)
{
	const struct vtype **pair = pool_alloc(c->l->pool, 2 * sizeof(*pair));

	pair[0] = m->nkeys == 1 ? m->keys[0] : v_tuple(c->l->pool, m->keys, m->nkeys);
	pair[1] = m->value;
	if (m->value->kind == V_AGG)
		pair[1] = m->num == IR_F64 ? &v_f64 : m->num == IR_U64 ? &v_u64 : &v_i64;
	return v_tuple(c->l->pool, pair, 2);
}

/* The loop's variable is its own, and nobody's behind it. */
static void loop_body(struct checker *c, struct stmt *s, const struct vtype *type)
{
	struct variable *v;

	c->depth++;
	v = variable_new(c, s->var->name);
	v->type = type;
	s->var->ref = v;
	s->var->type = type;
	c->loops++;
	check_statements(c, s->body);
	c->loops--;
	c->depth--;
	v->name = "";
}

static void check_for_map(struct checker *c, struct stmt *s)
{
	struct map_info *m = map_find(c->l, s->a->name, s->a->at);
	const struct vtype *type = &v_error;

	s->a->ref = m;
	if (c->site && c->site->at != LANG_TRACER)
		check_error(c, s->a, "for over a map works in begin, end and interval only");
	if (m->value && !m->keyed)
		check_error(c, s->a, "%s has no keys to go over", m->name);
	else if (!m->value)
		check_error(c, s->a, "%s is never written", m->name);
	else if (m->value->kind == V_AGG && m->value->agg >= IR_MAP_STATS)
		check_error(c, s->a, "for can't go over %s: %s has no single value", m->name, v_name(c->l->pool, m->value));
	else
		type = pair_type(c, m);
	loop_body(c, s, type);
}

static void check_for_range(struct checker *c, struct stmt *s)
{
	const struct vtype *a = check_value(c, s->a), *b = check_value(c, s->b);

	if (a->kind != V_INT && a->kind != V_ERROR)
		check_error(c, s->a, "a range goes from one integer to another");
	if (b->kind != V_INT && b->kind != V_ERROR)
		check_error(c, s->b, "a range goes from one integer to another");
	loop_body(c, s, &v_i64);
}

/* An expression alone: its value is thrown away, so it should do something. */
static void check_effect(struct checker *c, struct expr *e)
{
	if (e->kind == E_ASSIGN || e->kind == E_STEP || e->kind == E_CALL || e->kind == E_BLOCK)
		return;
	if (e->kind == E_COND) {
		check_effect(c, e->b);
		check_effect(c, e->c);
	} else if (!c->quiet && e->type->kind != V_ERROR) {
		diag_warn(c->l->diags, e->at, e->len, "this value is not used");
	}
}

static void check_stmt(struct checker *c, struct stmt *s)
{
	struct expr where = { .at = s->at, .len = s->len };

	switch ((enum stmt_kind)s->kind) {
	case S_EXPR:
		if (check_expr(c, s->a)->kind == V_AGG)
			check_error(c, s->a, "%s() must be assigned to a map: @x = %s(...)", s->a->name, s->a->name);
		check_effect(c, s->a);
		break;
	case S_LET:	check_let(c, s); break;
	case S_IF:
		check_condition(c, s->a);
		check_block(c, s->body);
		check_block(c, s->other);
		break;
	case S_WHILE:	check_loop(c, s); break;
	case S_UNROLL:	check_unroll(c, s); break;
	case S_FOR_MAP:	check_for_map(c, s); break;
	case S_FOR_RANGE: check_for_range(c, s); break;
	case S_BREAK: case S_CONTINUE:
		if (!c->loops)
			check_error(c, &where, "%s outside of a loop", s->kind == S_BREAK ? "break" : "continue");
		break;
	case S_RETURN:
		if (s->a)
			check_value(c, s->a);
		break;
	case S_BLOCK:	check_block(c, s->body); break;
	}
}

/* Nothing behind it is reached. */
static bool leaves(const struct stmt *s)
{
	return s->kind == S_RETURN || s->kind == S_BREAK || s->kind == S_CONTINUE ||
	       (s->kind == S_EXPR && s->a->kind == E_CALL && strcmp(s->a->name, "exit") == 0);
}

void check_statements(struct checker *c, struct stmt *s)
{
	for (; s; s = s->next) {
		check_stmt(c, s);
		if (s->next && !c->quiet && leaves(s))
			diag_warn(c->l->diags, s->next->at, s->next->len, "Unreachable statement");
	}
}

/* ---- clauses ---- */

/* $params, $regs: lower.c writes them all. */
static bool is_many(struct expr *f)
{
	uint32_t number;

	if (f->kind != E_NAME || f->name[0] != '$')
		return false;
	f->meaning = builtin_find(f->name, &number);
	return f->meaning == B_PARAMS || f->meaning == B_REGS;
}

static void check_fields(struct checker *c)
{
	const struct vtype *t;
	uint32_t i;

	for (i = 0; i < c->clause->nfields; i++) {
		struct expr *f = c->clause->fields[i];

		if (f->kind == E_NAMED)
			f = f->a;
		if (is_many(f))
			continue;
		t = check_expr(c, f);
		if (t->kind == V_VOID || t->kind == V_AGG)
			check_error(c, f, "this has no value that could be recorded");
		else if (t->kind == V_TUPLE)
			check_error(c, f, "a field can't be a tuple");
	}
}

int check_clause(struct checker *c)
{
	c->c_rules = c->clause->is_line;
	if (c->clause->predicate)
		check_condition(c, c->clause->predicate);
	check_statements(c, c->clause->body);
	check_fields(c);
	return c->failed ? fail(-EINVAL, "%s has errors", c->l->diags->name) : 0;
}
