/* SPDX-License-Identifier: MIT */
/* Types of expressions, a function a kind. */
#include "lang/check.h"

#include <string.h>

#include "base/err.h"
#include "lang/lex.h"

/* ---- numbers ---- */

static const struct vtype *promote(const struct checker *c, const struct vtype *t)
{
	if (t->kind != V_INT)
		return t;
	if (c->c_rules && (t->size < 4 || t->to_int))
		return &v_i32;
	if (c->c_rules && t->size == 4)
		return t->is_signed ? &v_i32 : &v_u32;
	return t->size == 8 && !t->is_signed ? &v_u64 : &v_i64;
}

const struct vtype *common_type(const struct checker *c, const struct vtype *a, const struct vtype *b)
{
	if (a->kind == V_FLOAT || b->kind == V_FLOAT)
		return (a->kind == V_FLOAT && a->size == 8) || (b->kind == V_FLOAT && b->size == 8) ? &v_f64 : &v_f32;
	a = promote(c, a);
	b = promote(c, b);
	if (a->size != b->size)
		return a->size > b->size ? a : b;
	return a->is_signed ? b : a;
}

const struct vtype *stored_type(struct checker *c, const struct vtype *t)
{
	const struct vtype **elems;
	uint64_t i;

	switch (t->kind) {
	case V_INT:
		if (t->is_bool || t->types || t->enums || t->is_raw)
			return t;
		return t->size == 8 && !t->is_signed ? &v_u64 : &v_i64;
	case V_FLOAT:
		return &v_f64;
	case V_STR:
		return v_text(c->l->pool, MAX(t->size, c->l->config.max_strlen));
	case V_BUF:
		return v_bytes(c->l->pool, MAX(t->size, c->l->config.max_strlen));
	case V_TUPLE:
		elems = pool_alloc(c->l->pool, (t->n + 1) * sizeof(*elems));
		for (i = 0; i < t->n; i++)
			elems[i] = stored_type(c, t->elems[i]);
		return v_record(c->l->pool, elems, t->fields, t->n);
	case V_ARRAY:
		return v_is_char_array(t) ? v_text(c->l->pool, MAX(t->n, c->l->config.max_strlen)) : t;
	case V_STRUCT:
		return v_has_text(t) ? v_text(c->l->pool, c->l->config.max_strlen) : t;
	}
	return t;
}

/* ---- operators ---- */

const struct vtype *check_no_operator(struct checker *c, const struct expr *e, const struct vtype *a, const struct vtype *b)
{
	struct pool *p = c->l->pool;

	if (a->kind == V_ERROR || (b && b->kind == V_ERROR))
		return &v_error;
	if (b)
		check_error(c, e, "'%s' can't be used on %s and %s%s", token_text(e->op), v_name(p, a), v_name(p, b),
			    e->op == '+' && v_is_text(a) && v_is_text(b) ? "; printf() puts strings together" : "");
	else
		check_error(c, e, "'%s' can't be used on %s", token_text(e->op), v_name(p, a));
	return &v_error;
}

static bool has_truth(const struct vtype *t)
{
	return v_is_number(t) || t->kind == V_PTR || t->kind == V_ERROR || t->kind == V_USYM;
}

static const struct vtype *truth_type(const struct checker *c)
{
	return c->c_rules ? &v_i32 : &v_bool;
}

static bool is_comparison(uint8_t op)
{
	return op == T_EQ || op == T_NE || op == '<' || op == '>' || op == T_LE || op == T_GE;
}

static bool text_like(const struct vtype *t)
{
	return v_has_text(t) || t->kind == V_SITE;
}

static const struct vtype *check_comparison(struct checker *c, struct expr *e, const struct vtype *a, const struct vtype *b)
{
	bool equality = e->op == T_EQ || e->op == T_NE;
	bool texts = text_like(a) || text_like(b);

	if (a->kind == V_ERROR || b->kind == V_ERROR)
		return truth_type(c);
	if (v_is_number(a) && v_is_number(b))
		return truth_type(c);
	if (texts && equality && (text_like(a) || v_can_text(a) || a->kind == V_PTR) &&
	    (text_like(b) || v_can_text(b) || b->kind == V_PTR))
		return truth_type(c);
	if (a->kind == V_TUPLE && b->kind == V_TUPLE && equality && v_same(a, b))
		return truth_type(c);
	if (a->kind == V_BUF && b->kind == V_BUF && equality)
		return truth_type(c);
	if (a->kind == V_ARRAY && b->kind == V_ARRAY && equality && a->size && a->size == b->size)
		return truth_type(c);
	if ((a->kind == V_PTR || a->kind == V_INT || a->kind == V_USYM || a->kind == V_STACK) &&
	    (b->kind == V_PTR || b->kind == V_INT || b->kind == V_USYM || b->kind == V_STACK))
		return truth_type(c);
	return check_no_operator(c, e, a, b);
}

static const struct vtype *check_pointer_math(struct checker *c, struct expr *e, const struct vtype *a, const struct vtype *b)
{
	if (e->op == '+' && a->kind == V_PTR && b->kind == V_INT)
		return a;
	if (e->op == '+' && a->kind == V_INT && b->kind == V_PTR)
		return b;
	if (e->op == '-' && a->kind == V_PTR && b->kind == V_INT)
		return a;
	if (e->op == '-' && a->kind == V_PTR && b->kind == V_PTR)
		return &v_i64;
	/* masks and the like: an address is a number */
	if ((a->kind == V_PTR || a->kind == V_INT) && (b->kind == V_PTR || b->kind == V_INT) && e->op != '*')
		return &v_u64;
	return check_no_operator(c, e, a, b);
}

static const struct vtype *check_binary(struct checker *c, struct expr *e)
{
	const struct vtype *a = check_value(c, e->a), *b = check_value(c, e->b), *t;

	if (e->op == T_ANDAND || e->op == T_OROR)
		return has_truth(a) && has_truth(b) ? truth_type(c) : check_no_operator(c, e, a, b);
	if (is_comparison(e->op))
		return check_comparison(c, e, a, b);
	if (a->kind == V_ERROR || b->kind == V_ERROR)
		return &v_error;
	if (a->kind == V_PTR || b->kind == V_PTR)
		return check_pointer_math(c, e, a, b);
	if (!v_is_number(a) || !v_is_number(b))
		return check_no_operator(c, e, a, b);
	if (e->op == T_SHL || e->op == T_SHR)
		return a->kind == V_INT && b->kind == V_INT ? promote(c, a) : check_no_operator(c, e, a, b);
	t = common_type(c, a, b);
	if (!c->c_rules && e->op == '-' && t->kind == V_INT)	/* as bpftrace has it: differences have a sign */
		t = &v_i64;
	if (t->kind == V_FLOAT && e->op != '+' && e->op != '-' && e->op != '*' && e->op != '/')
		return check_no_operator(c, e, a, b);
	return t;
}

static const struct vtype *check_deref(struct checker *c, struct expr *e, const struct vtype *a)
{
	const struct vtype *to;

	if (a->kind == V_INT && !c->c_rules)
		return &v_u64;		/* *arg0: bpftrace reads 8 bytes */
	if (a->kind == V_ARRAY && !a->held)
		return a->to;
	if (a->kind != V_PTR)
		return check_no_operator(c, e, a, NULL);
	to = v_pointee(c->l->pool, a);
	if (to->kind == V_VOID || (to->kind == V_STRUCT && !to->size && !to->decl)) {
		check_error(c, e, "can't read what %s points to: its type is not known", v_name(c->l->pool, a));
		return &v_error;
	}
	return to;
}

static const struct vtype *check_unary(struct checker *c, struct expr *e)
{
	const struct vtype *a = e->op == '&' ? check_place(c, e->a) : check_value(c, e->a);

	if (a->kind == V_ERROR && !v_is_odd(a))
		return a;
	switch (e->op) {
	case '!':
		return has_truth(a) ? truth_type(c) : check_no_operator(c, e, a, NULL);
	case '*':
		return check_deref(c, e, a);
	case '&':
		if (e->a->kind == E_VAR || e->a->kind == E_MAP) {
			check_error(c, e, "the address of a variable or map can't be taken");
			return &v_error;
		}
		if ((e->a->meaning == B_FIELD || (e->a->meaning == B_ARG && e->a->ref)) && (e->a->kind == E_NAME || e->a->kind == E_MEMBER)) {
			check_error(c, e, "the address of an argument of a static tracepoint can't be taken");
			return &v_error;
		}
		return v_pointer(c->l->pool, a);
	case '~':
		return a->kind == V_INT ? promote(c, a) : check_no_operator(c, e, a, NULL);
	}
	/* The lowest number there is: its digits alone are one more than the highest. */
	if (e->op == '-' && e->a->kind == E_INT && !e->a->form && e->a->value == 1ull << 63)
		return &v_i64;
	return v_is_number(a) ? promote(c, a) : check_no_operator(c, e, a, NULL);
}

/* ---- members ---- */

static const struct vtype *aggregate_of(struct checker *c, const struct vtype *t)
{
	if (t->kind == V_PTR)
		t = v_pointee(c->l->pool, t);
	return t && t->kind == V_STRUCT ? t : NULL;
}

static const struct vtype *check_member(struct checker *c, struct expr *e)
{
	const struct vtype *a, *s;
	struct vmember *m;

	if (check_is_args(c, e->a))
		return check_args_member(c, e);
	if (!c->c_rules && check_about(c, e))
		return check_expr(c, e);
	a = e->op == '.' || !e->op ? check_package_var(c, e) : NULL;
	if (a)
		return a;
	e->meaning = 0;
	a = check_value(c, e->a);
	if (a->kind == V_ERROR)
		return a;
	for (uint64_t i = 0; a->kind == V_TUPLE && a->fields && i < a->n; i++)
		if (strcmp(a->fields[i], e->name) == 0) {
			e->value = i;
			e->kind = E_ELEMENT;
			return a->elems[i];
		}
	s = aggregate_of(c, a);
	if (!s) {
		check_error(c, e, "%s has no members, so there is no '%s'", v_name(c->l->pool, a), e->name);
		return &v_error;
	}
	m = pool_new(c->l->pool, struct vmember);
	if (!v_member(c->l->pool, s, e->name, m)) {
		check_error(c, e, "%s", err_text());
		return &v_error;
	}
	e->ref = m;
	/* all values of such a bit-field are an int's, so C makes one of it */
	if (m->bit_size && m->bit_size < 32 && m->type->kind == V_INT && m->type->size == 4 && !m->type->enums && !m->type->types)
		m->type = v_to_int(c->l->pool, m->type);
	return m->type;
}

static const struct vtype *check_element(struct checker *c, struct expr *e)
{
	const struct vtype *a = check_value(c, e->a);

	if (a->kind == V_ERROR)
		return a;
	if (a->kind != V_TUPLE) {
		check_error(c, e, ".%llu needs a tuple, but this is %s", (unsigned long long)e->value, v_name(c->l->pool, a));
		return &v_error;
	}
	if (e->value >= a->n) {
		check_error(c, e, "the tuple has %llu elements; the last one is .%lld", (unsigned long long)a->n,
			    (long long)a->n - 1);
		return &v_error;
	}
	return a->elems[e->value];
}

static const struct vtype *check_index(struct checker *c, struct expr *e)
{
	const struct vtype *a = check_value(c, e->a), *b = check_value(c, e->b), *to;
	int64_t n;

	if (a->kind == V_ERROR || b->kind == V_ERROR)
		return &v_error;
	if (a->kind == V_TUPLE) {
		if (!const_int(e->b, &n) || n < 0 || (uint64_t)n >= a->n) {
			check_error(c, e->b, "the index of a tuple is a constant from 0 to %lld", (long long)a->n - 1);
			return &v_error;
		}
		e->value = n;
		return a->elems[n];
	}
	if (b->kind != V_INT) {
		check_error(c, e->b, "an index is an integer, but this is %s", v_name(c->l->pool, b));
		return &v_error;
	}
	if (a->kind == V_STR || a->kind == V_BUF)
		return a->kind == V_STR ? &v_char : &v_u8;
	to = a->kind == V_ARRAY ? a->to : a->kind == V_PTR ? v_pointee(c->l->pool, a) : NULL;
	if (!to || !to->size) {
		check_error(c, e, "%s has no elements that could be read", v_name(c->l->pool, a));
		return &v_error;
	}
	if (a->kind == V_ARRAY && a->n && const_int(e->b, &n) && (n < 0 || (uint64_t)n >= a->n)) {
		check_error(c, e->b, "the array ends at index %llu", (unsigned long long)a->n - 1);
		return &v_error;
	}
	return to;
}

/* ---- the rest ---- */

static const struct vtype *check_cond(struct checker *c, struct expr *e)
{
	const struct vtype *a, *b;

	check_condition(c, e->a);
	a = check_expr(c, e->b);
	b = check_expr(c, e->c);
	if (a->kind == V_ERROR || b->kind == V_ERROR)
		return a->kind == V_ERROR ? b : a;
	if (v_is_number(a) && v_is_number(b))
		return a == b ? a : common_type(c, a, b);
	if (v_has_text(a) && v_has_text(b))
		return v_text(c->l->pool, MAX(stored_type(c, a)->size, stored_type(c, b)->size));
	if (v_same(a, b) && a->kind != V_AGG)
		return a->kind == V_INT ? b : a;
	check_error(c, e, "the two values of ?: are %s and %s", v_name(c->l->pool, a), v_name(c->l->pool, b));
	return &v_error;
}

/* A number looked at as an array: (uint8[8])x, (uint8[])x. Those of a script have 8 bytes, if need be. */
static const struct vtype *check_array_cast(struct checker *c, struct expr *e, const struct vtype *a, const struct vtype *to)
{
	uint64_t size = to->n ? to->size : a->size;

	if (size != a->size && (c->c_rules || size > 8 || !(e->a->kind == E_INT || e->a->kind == E_VAR || e->a->kind == E_MAP))) {
		check_error(c, e, "%s has %llu bytes, but %s has %llu", v_name(c->l->pool, a), (unsigned long long)a->size,
			    v_name(c->l->pool, to), (unsigned long long)size);
		return &v_error;
	}
	if (size & (size - 1)) {
		check_error(c, e, "no integer has %llu bytes", (unsigned long long)size);
		return &v_error;
	}
	return v_held_array(c->l->pool, to->to, size / to->to->size);
}

/*
 * arg0:double: a float is passed in a vector register. Of an argument or a result whose type is not known, the one it would be
 * in is meant; of a vector register, that many bytes. False: e is something else.
 */
static bool take_vector(struct checker *c, struct expr *e, const struct vtype *to)
{
	if (e->kind != E_NAME || !(e->meaning == B_VECTOR || (e->type->is_raw && !e->ref && (e->meaning == B_ARG || e->meaning == B_RETVAL))))
		return false;
	if (e->meaning == B_ARG && e->value >= 8)
		check_error(c, e, "a function has no more than 8 arguments in vector registers");
	if (e->meaning == B_ARG)
		e->meaning = B_VARG;
	else if (e->meaning == B_VECTOR)
		e->value >>= 4;
	if (e->meaning != B_RETVAL)
		e->value = e->value << 4 | to->size;
	e->type = to;
	return true;
}

static const struct vtype *check_cast(struct checker *c, struct expr *e)
{
	const struct vtype *a = check_expr(c, e->a), *to = check_type_name(c, e->to);
	bool scalar = to->kind == V_INT || to->kind == V_PTR || to->kind == V_FLOAT;

	if (a->kind == V_ERROR || to->kind == V_ERROR)
		return to;
	if (e->prefix && to->kind == V_FLOAT && take_vector(c, e->a, to))
		return to;
	if (to->kind == V_STR && (a->kind == V_PTR || a->kind == V_INT || v_can_text(a)))
		return to;
	if (scalar && (v_is_number(a) || (a->kind == V_PTR && to->kind != V_FLOAT)))
		return to;
	if (to->kind == V_STRUCT && a->kind == V_STRUCT && v_same(a, to))
		return to;
	if (to->kind == V_ARRAY && (a->kind == V_PTR || a->is_raw) && c->c_rules && to->n)	/* w:int[3]: what it points to */
		return to;
	if (to->kind == V_ARRAY && a->kind == V_INT && to->to->kind == V_INT)
		return check_array_cast(c, e, a, to);
	if (to->kind == V_INT && a->kind == V_ARRAY && to->size == a->size)
		return to;
	if (to->kind == V_PTR && a->kind == V_ARRAY && !a->held)
		return to;
	check_error(c, e, "%s can't be cast to %s", v_name(c->l->pool, a), v_name(c->l->pool, to));
	return &v_error;
}

/* sizeof(ns::Class): only who knows the program can tell types from variables. */
static const struct vtype *type_or_value(struct checker *c, struct expr *e)
{
	struct var v;
	type_id id;

	if (e->to)
		return check_type_name(c, e->to);
	if (e->a->kind == E_NAME && c->site && c->site->types && types_var(c->site->types, c->site->pc, e->a->name, &v) < 0 &&
	    type_find(c->site->types, e->a->name, c->site->pc, &id) == 0)
		return v_from(c->l->pool, c->site->types, id);
	return check_place(c, e->a);
}

static const struct vtype *check_sizeof(struct checker *c, struct expr *e)
{
	const struct vtype *t = type_or_value(c, e);

	e->value = e->a && !e->to ? check_size(c, e->a, t) : t->size;
	return &v_u64;
}

static const struct vtype *check_offsetof(struct checker *c, struct expr *e)
{
	const struct vtype *t = type_or_value(c, e);
	char *names = xstrdup(e->name), *save, *name;
	struct vmember m;

	e->value = 0;
	for (name = strtok_r(names, ".", &save); name && t->kind != V_ERROR; name = strtok_r(NULL, ".", &save)) {
		t = t->kind == V_PTR ? v_pointee(c->l->pool, t) : t;
		if (t->kind != V_STRUCT || !v_member(c->l->pool, t, name, &m)) {
			check_error(c, e, "%s", t->kind == V_STRUCT ? err_text() : "only structs have members");
			t = &v_error;
			break;
		}
		e->value += m.bit_off / 8;
		t = m.type;
	}
	free(names);
	return &v_u64;
}

static const struct vtype *check_tuple(struct checker *c, struct expr *e)
{
	const struct vtype **elems = pool_alloc(c->l->pool, (e->nlist + 1) * sizeof(*elems));
	uint32_t i;

	for (i = 0; i < e->nlist; i++) {
		elems[i] = check_value(c, e->list[i]);
		if (elems[i]->kind == V_ERROR)
			return &v_error;
		if (v_has_text(elems[i]))
			elems[i] = stored_type(c, elems[i]);
	}
	return v_record(c->l->pool, elems, e->fields, e->nlist);
}

const struct vtype *check_variable(struct checker *c, struct expr *e)
{
	struct variable *v = variable_find(c, e->name, false);

	e->ref = v;
	if (!v) {
		check_error(c, e, "$%s is read before it is written", e->name);
		return &v_error;
	}
	return v->type ? v->type : &v_i64;
}

/* $1: a number if it reads as one, else a string. */
static const struct vtype *check_param(struct checker *c, struct expr *e)
{
	const struct script *s = c->l->script;
	const char *text = e->value <= s->nparams ? s->params[e->value - 1] : "0";
	int64_t *number = pool_new(c->l->pool, int64_t);
	char *end;

	errno = 0;
	*number = *text == '-' ? strtoll(text, &end, 0) : (int64_t)strtoull(text, &end, 0);
	e->name = text;
	e->text_len = strlen(text);
	if (*text && !*end && !errno) {
		e->ref = number;
		return *number < 0 && *text != '-' ? &v_u64 : &v_i64;
	}
	e->ref = NULL;
	return v_text(c->l->pool, e->text_len);
}

static const struct vtype *check_block_expr(struct checker *c, struct expr *e)
{
	const struct vtype *t;

	c->depth++;
	check_statements(c, e->body);
	c->depth--;
	t = e->a ? check_expr(c, e->a) : &v_void;	/* without a value: the body of a macro */
	return t->kind == V_AGG ? check_value(c, e->a) : t;
}

/* C: the first type that holds it, of those that its suffix allows; only hexadecimal and octal ones become unsigned unasked. */
static const struct vtype *number_type(const struct checker *c, const struct expr *e)
{
	bool is_unsigned = e->form & NUMBER_UNSIGNED, may = is_unsigned || e->form & NUMBER_NOT_DECIMAL;

	if (c->c_rules && !(e->form & NUMBER_LONG)) {
		if (!is_unsigned && (e->prefix || e->value <= INT32_MAX))
			return &v_i32;
		if (may && e->value <= UINT32_MAX)
			return &v_u32;
	}
	return (c->c_rules && is_unsigned) || (e->value > INT64_MAX && !e->prefix) ? &v_u64 : &v_i64;
}

static const struct vtype *check_kind(struct checker *c, struct expr *e)
{
	switch ((enum expr_kind)e->kind) {
	case E_INT:	return number_type(c, e);
	case E_FLOAT:	return e->form & NUMBER_FLOAT ? &v_f32 : &v_f64;
	case E_STR:	return v_text(c->l->pool, e->text_len);
	case E_BOOL:	return &v_bool;
	case E_VAR:	return check_variable(c, e);
	case E_PARAM:	return check_param(c, e);
	case E_NPARAMS:	return &v_i64;
	case E_MAP:	return check_map(c, e);
	case E_NAME:	return check_name(c, e);
	case E_CALL:	return check_call(c, e);
	case E_MEMBER:	return check_member(c, e);
	case E_ELEMENT:	return check_element(c, e);
	case E_INDEX:	return check_index(c, e);
	case E_UNARY:	return check_unary(c, e);
	case E_BINARY:	return check_binary(c, e);
	case E_COND:	return check_cond(c, e);
	case E_CAST:	return check_cast(c, e);
	case E_PLACE:	return &v_void_ptr;
	case E_SIZEOF:	return check_sizeof(c, e);
	case E_OFFSETOF: return check_offsetof(c, e);
	case E_TUPLE:	return check_tuple(c, e);
	case E_STEP:	return check_step(c, e);
	case E_ASSIGN:	return check_assign(c, e);
	case E_BLOCK:	return check_block_expr(c, e);
	case E_NAMED:
		check_error(c, e, "named values (%s=...) belong into record()", e->name);
		return &v_error;
	}
	return &v_error;
}

const struct vtype *check_expr(struct checker *c, struct expr *e)
{
	e->type = check_kind(c, e);
	if (v_is_odd(e->type)) {
		check_error(c, e, "a value of type %s can't be read", v_name(c->l->pool, e->type));
		e->type = &v_error;
	}
	return e->type;
}

static const struct vtype *with_value(struct checker *c, struct expr *e, const struct vtype *t)
{
	if (t->kind == V_AGG)
		check_error(c, e, "%s() must be assigned to a map: @x = %s(...)", e->name, e->name);
	else if (t->kind == V_VOID)
		check_error(c, e, "this has no value");
	else if (t->kind == V_ARGS)
		check_error(c, e, "args stands in front of a name: args.x");
	else
		return t;
	return &v_error;
}

const struct vtype *check_value(struct checker *c, struct expr *e)
{
	return with_value(c, e, check_expr(c, e));
}

/* What has an address or a size, though there may be no way to hold its value. */
const struct vtype *check_place(struct checker *c, struct expr *e)
{
	return with_value(c, e, e->type = check_kind(c, e));
}

void check_condition(struct checker *c, struct expr *e)
{
	const struct vtype *t = check_value(c, e);

	if (e->kind == E_ASSIGN && !e->op && !c->quiet)
		diag_warn(c->l->diags, e->at, e->len, "this assigns; '==' compares");
	if (!has_truth(t))
		check_error(c, e, "a condition is a number or a pointer, but this is %s", v_name(c->l->pool, t));
}
