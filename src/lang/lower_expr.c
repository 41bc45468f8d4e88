/* SPDX-License-Identifier: MIT */
/* Expressions and conditions. */
#include "lang/lower.h"

#include <string.h>

#include "lang/lex.h"

static struct val error_val(void)
{
	return val_const(&v_i64, 0);
}

/* ---- arithmetic ---- */

static uint8_t op_of(uint8_t token)
{
	switch (token) {
	case '+':	return IR_ADD;
	case '-':	return IR_SUB;
	case '*':	return IR_MUL;
	case '/':	return IR_DIV;
	case '%':	return IR_MOD;
	case '&':	return IR_AND;
	case '|':	return IR_OR;
	case '^':	return IR_XOR;
	case T_SHL:	return IR_SHL;
	case T_SHR:	return IR_SHR;
	case T_EQ:	return IR_EQ;
	case T_NE:	return IR_NE;
	case '<':	return IR_LT;
	case '>':	return IR_GT;
	case T_LE:	return IR_LE;
	case T_GE:	return IR_GE;
	}
	return IR_NOP;
}

/* Both operands are of type t, or a shift's count. False: not now (division by zero). */
static bool fold_int(uint8_t op, const struct vtype *t, num a, num b, int64_t *ret)
{
	unsigned int n = b.u & (t->size == 4 ? 31 : 63);
	int64_t least = t->size == 4 ? INT32_MIN : INT64_MIN;

	switch (op) {
	case IR_ADD:	*ret = a.u + b.u; return true;
	case IR_SUB:	*ret = a.u - b.u; return true;
	case IR_MUL:	*ret = a.u * b.u; return true;
	case IR_AND:	*ret = a.u & b.u; return true;
	case IR_OR:	*ret = a.u | b.u; return true;
	case IR_XOR:	*ret = a.u ^ b.u; return true;
	case IR_SHL:	*ret = a.u << n; return true;
	case IR_SHR:	*ret = t->is_signed ? a.i >> n : (int64_t)(a.u >> n); return true;
	case IR_DIV: case IR_MOD:
		if (!b.u || (t->is_signed && a.i == least && b.i == -1))
			return false;
		if (t->is_signed)
			*ret = op == IR_DIV ? a.i / b.i : a.i % b.i;
		else
			*ret = op == IR_DIV ? a.u / b.u : a.u % b.u;
		return true;
	}
	return false;
}

/* a op b in type t; operands are converted, except the count of a shift. */
struct val lower_math(struct lower *w, uint8_t token, const struct vtype *t, const struct val *pa, const struct val *pb)
{
	uint8_t op = op_of(token);
	bool shift = op == IR_SHL || op == IR_SHR;
	const struct vtype *as = t->kind == V_PTR ? &v_u64 : t;
	struct val a = val_convert(w, pa, as), b = shift ? *pb : val_convert(w, pb, as), r;
	uint32_t ra, rb;
	int64_t k;

	if (a.kind == K_CONST && b.kind == K_CONST && fold_int(op, as, a.k, b.k, &k)) {
		r = val_const(&v_i64, k);
		r = val_convert(w, &r, as);
		r.type = t;
		return r;
	}
	ra = val_in_reg(w, &a);
	rb = val_in_reg(w, &b);
	return val_reg(t, lower_pure(w, op, v_ir(as), ra, rb, 0), a.mask | b.mask);
}

struct val lower_scaled(struct lower *w, const struct val *index, uint64_t size)
{
	struct val n = val_const(&v_i64, size);

	return size == 1 ? *index : lower_math(w, '*', &v_i64, index, &n);
}

/* pointer + integer, integer + pointer, pointer - integer, pointer - pointer */
static struct val pointer_math(struct lower *w, const struct expr *e, const struct val *a, const struct val *b)
{
	const struct vtype *pt = a->type->kind == V_PTR ? a->type : b->type;
	uint64_t size = MAX(v_pointee(w->pool, pt)->size, 1u);
	struct val s, n = val_const(&v_i64, size);

	if (a->type->kind == V_PTR && b->type->kind == V_PTR) {
		s = lower_math(w, '-', &v_i64, a, b);
		return size == 1 ? s : lower_math(w, '/', &v_i64, &s, &n);
	}
	s = lower_scaled(w, a->type->kind == V_PTR ? b : a, size);
	return lower_math(w, e->op, e->type, a->type->kind == V_PTR ? a : &s, a->type->kind == V_PTR ? &s : b);
}

/* Are the bytes of two slots the same (or not, as e says)? */
static struct val compare_slots(struct lower *w, const struct expr *e, const struct val *a, const struct val *b)
{
	uint32_t dst = lower_reg(w, IR_I), zero;
	struct ir_ins *i = lower_ins(w, IR_STR_CMP);

	i->slot = a->slot;
	i->slot2 = b->slot;
	i->dst = dst;
	zero = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 0);
	return val_reg(e->type, lower_pure(w, e->op == T_EQ ? IR_EQ : IR_NE, IR_I64, dst, zero, 0), a->mask | b->mask);
}

static struct val compare_texts(struct lower *w, const struct expr *e, const struct val *pa, const struct val *pb)
{
	struct val a, b;

	if (pa->type->kind == V_SITE || pb->type->kind == V_SITE) {
		lower_error(w, e, "this probe has several sites, so its name can be printed but not compared");
		return error_val();
	}
	a = val_text(w, pa, e->a);
	b = val_text(w, pb, e->b);
	return compare_slots(w, e, &a, &b);
}

/* Byte by byte. */
static struct val compare_arrays(struct lower *w, const struct expr *e, const struct val *pa, const struct val *pb)
{
	uint64_t size = pa->type->size;
	struct val a, b;

	if (size == 1 || size == 2 || size == 4 || size == 8) {
		a = val_number(w, pa, size);
		b = val_number(w, pb, size);
		return val_reg(e->type, lower_pure(w, e->op == T_EQ ? IR_EQ : IR_NE, IR_U64, val_in_reg(w, &a), val_in_reg(w, &b), 0),
			       a.mask | b.mask);
	}
	a = val_bytes(w, pa);
	b = val_bytes(w, pb);
	return compare_slots(w, e, &a, &b);
}

static struct val compare(struct lower *w, const struct expr *e, const struct val *pa, const struct val *pb);

/* All elements equal; each is compared as it would be alone. */
static struct val compare_tuples(struct lower *w, const struct expr *e, const struct val *a, const struct val *b)
{
	struct expr each = { .kind = E_BINARY, .op = T_EQ, .at = e->at, .len = e->len, .a = e->a, .b = e->b, .type = &v_i64 };
	struct val all = val_const(&v_i64, 1), one;
	uint32_t i;

	for (i = 0; i < a->n && i < b->n; i++) {
		one = compare(w, &each, &a->elems[i], &b->elems[v_field(b->type, a->type, i)]);
		all = lower_math(w, '&', &v_i64, &all, &one);
	}
	if (e->op != T_EQ) {
		one = val_const(&v_i64, 1);
		all = lower_math(w, '^', &v_i64, &all, &one);
	}
	all.type = e->type;
	return all;
}

static bool compare_const(uint8_t op, bool is_signed, num a, num b)
{
	bool lt = is_signed ? a.i < b.i : a.u < b.u, eq = a.u == b.u;

	switch (op) {
	case IR_EQ:	return eq;
	case IR_NE:	return !eq;
	case IR_LT:	return lt;
	case IR_LE:	return lt || eq;
	case IR_GT:	return !lt && !eq;
	}
	return !lt;
}

static struct val compare(struct lower *w, const struct expr *e, const struct val *pa, const struct val *pb)
{
	const struct vtype *ta = pa->type, *tb = pb->type, *t = &v_u64;
	struct val a, b;
	uint32_t ra, rb;

	if (ta->kind == V_TUPLE && tb->kind == V_TUPLE)
		return compare_tuples(w, e, pa, pb);
	if (ta->kind == V_BUF && tb->kind == V_BUF)
		return compare_slots(w, e, pa, pb);
	if (ta->kind == V_ARRAY && tb->kind == V_ARRAY && ta->size == tb->size && !(v_has_text(ta) && v_has_text(tb)))
		return compare_arrays(w, e, pa, pb);
	if (v_has_text(ta) || v_has_text(tb) || ta->kind == V_SITE || tb->kind == V_SITE)
		return compare_texts(w, e, pa, pb);
	if (v_is_number(ta) && v_is_number(tb))
		t = common_type(w->c, ta, tb);
	a = val_convert(w, pa, t);
	b = val_convert(w, pb, t);
	if (a.kind == K_CONST && b.kind == K_CONST)
		return val_const(e->type, compare_const(op_of(e->op), t->is_signed, a.k, b.k));
	ra = val_in_reg(w, &a);
	rb = val_in_reg(w, &b);
	return val_reg(e->type, lower_pure(w, op_of(e->op), t->kind == V_FLOAT ? IR_F64 : t->is_signed ? IR_I64 : IR_U64, ra, rb, 0),
		       a.mask | b.mask);
}

/* 1 or 0 from a condition. Its faults stay with the value. */
static struct val truth_value(struct lower *w, const struct expr *e)
{
	struct val r = place_new(w, &v_i64, false), one = val_const(&v_i64, 1), zero = val_const(&v_i64, 0);
	uint32_t no = lower_label(w), end = lower_label(w);
	size_t mark = w->known.n, first = w->p->ins.n;
	uint64_t mask = 0;

	lower_branch(w, e, false, no, no);
	place_set(w, &r, &one, e);
	lower_jump(w, IR_JMP, IR_NONE, end);
	lower_forget(w, mark);
	lower_place_label(w, no);
	place_set(w, &r, &zero, e);
	lower_forget(w, mark);
	lower_place_label(w, end);
	/* here nobody decides by it, so faults are not counted, but handed on */
	for (; first < w->p->ins.n; first++)
		if (w->p->ins.v[first].op == IR_IF_FAULT) {
			mask |= w->p->ins.v[first].mask;
			w->p->ins.v[first].flags |= IR_QUIET;
		}
	r.mask = mask;
	r.type = e->type;
	return r;
}

static struct val lower_binary(struct lower *w, const struct expr *e)
{
	struct val a, b;

	if (e->op == T_ANDAND || e->op == T_OROR)
		return truth_value(w, e);
	a = lower_expr(w, e->a);
	b = lower_expr(w, e->b);
	if (op_of(e->op) >= IR_EQ)
		return compare(w, e, &a, &b);
	if ((a.type->kind == V_PTR || b.type->kind == V_PTR) && (e->op == '+' || e->op == '-'))
		return pointer_math(w, e, &a, &b);
	return lower_divided(w, e->op, e->type, &a, &b);
}

static struct val negate(struct lower *w, const struct expr *e, uint8_t op)
{
	struct val a = lower_expr(w, e->a);

	a = val_convert(w, &a, e->type);
	if (a.kind == K_FCONST) {
		a.k.f = -a.k.f;
		return a;
	}
	if (a.kind == K_CONST) {
		struct val k = val_const(&v_i64, op == IR_NEG ? -a.k.u : ~a.k.u);

		return val_convert(w, &k, e->type);
	}
	return val_reg(e->type, lower_pure(w, op, v_ir(e->type), val_in_reg(w, &a), IR_NONE, 0), a.mask);
}

/* The object at an address: numbers are loaded at once. */
static struct val object_at(struct lower *w, const struct val *address, int64_t off, const struct vtype *type, bool good)
{
	struct val m = { .kind = K_MEM, .type = type, .reg = IR_NONE, .slot = IR_NONE, .off = off, .mask = address->mask,
			 .good = good };

	if (address->kind == K_CONST)
		m.off += address->k.i;
	else if (address->kind == K_MEM) {
		m.reg = address->reg;
		m.off += address->off;
	} else {
		m.reg = val_in_reg(w, address);
	}
	return v_is_scalar(type) ? val_load(w, &m) : m;
}

static struct val lower_unary(struct lower *w, const struct expr *e)
{
	struct val a;

	switch (e->op) {
	case '!':
		return truth_value(w, e);
	case '-':
		return negate(w, e, IR_NEG);
	case '~':
		return negate(w, e, IR_NOT);
	case '+':
		a = lower_expr(w, e->a);
		return val_convert(w, &a, e->type);
	case '*':
		a = lower_expr(w, e->a);
		if (a.kind == K_SLOT || a.kind == K_SLOT_MEM) {
			a.kind = K_SLOT_MEM;
			a.type = e->type;
			return v_is_scalar(e->type) ? val_load(w, &a) : a;
		}
		return object_at(w, &a, 0, e->type, a.kind == K_MEM && a.good);
	}
	return lower_address(w, e);
}

/* ---- casts, choices ---- */

/* C++: a base class need not be where the class begins. */
static struct val class_pointer(struct lower *w, const struct val *p, const struct vtype *to)
{
	const struct vtype *a = v_pointee(w->pool, p->type), *b = v_pointee(w->pool, to);
	struct val v = *p, off, zero = val_const(&v_u64, 0), there;
	uint64_t by = 0;
	bool up = v_base(a, b, &by);

	if ((!up && !v_base(b, a, &by)) || !by)
		return v;
	v.type = &v_u64;
	v = val_reg(&v_u64, val_in_reg(w, &v), v.mask);
	off = val_const(&v_u64, by);
	/* no object has no base */
	there = val_reg(&v_u64, lower_pure(w, IR_NE, IR_U64, v.reg, val_in_reg(w, &zero), 0), v.mask);
	off = lower_math(w, '*', &v_u64, &off, &there);
	v = lower_math(w, up ? '+' : '-', &v_u64, &v, &off);
	v.type = p->type;
	return v;
}

static struct val lower_cast(struct lower *w, const struct expr *e)
{
	struct val a = lower_expr(w, e->a), v;

	if (e->type->kind == V_STR)
		return val_text(w, &a, e->a);
	if (e->type->kind == V_ARRAY && (a.type->kind == V_PTR || e->a->type->is_raw))
		return object_at(w, &a, 0, e->type, false);
	if (e->type->kind == V_ARRAY) {
		v = val_number(w, &a, e->type->size);
		v.type = e->type;
		return v;
	}
	if (a.type->kind == V_ARRAY && e->type->kind == V_INT) {
		v = val_number(w, &a, a.type->size);
		return val_convert(w, &v, e->type);
	}
	if (e->type->kind == V_STRUCT)
		return a;
	if (e->type->kind == V_PTR && a.type->kind == V_PTR && a.type->types)
		a = class_pointer(w, &a, e->type);
	return val_convert(w, &a, e->type);
}

static struct val lower_choice(struct lower *w, const struct expr *e)
{
	uint32_t no = lower_label(w), end = lower_label(w);
	bool has_value = e->type->kind != V_VOID;
	struct val r = { 0 }, v;
	uint64_t mask = 0, cond;
	size_t mark = w->known.n, first = w->p->ins.n;

	if (has_value)
		r = place_new(w, e->type, false);
	lower_branch(w, e->a, false, no, no);
	for (cond = 0; first < w->p->ins.n; first++)
		cond |= w->p->ins.v[first].op == IR_IF_FAULT ? w->p->ins.v[first].mask : 0;
	w->maybe++;
	v = lower_expr(w, e->b);
	if (has_value)
		place_set(w, &r, &v, e->b);
	mask = val_mask(&r);
	lower_forget(w, mark);
	lower_jump(w, IR_JMP, IR_NONE, end);
	lower_place_label(w, no);
	v = lower_expr(w, e->c);
	if (has_value)
		place_set(w, &r, &v, e->c);
	w->maybe--;
	lower_forget(w, mark);
	lower_place_label(w, end);
	r.mask = val_mask(&r) | mask | cond;
	return r;
}

/* ---- variables ---- */

struct val lower_variable(struct lower *w, const struct expr *e)
{
	struct variable *v = e->ref;

	if (!v->val) {
		v->val = pool_new(w->pool, struct val);
		*v->val = place_new(w, v->type ? v->type : &v_i64, false);
	}
	return *v->val;
}

static bool changes(const struct expr *e)
{
	return e && (((e->kind == E_STEP || e->kind == E_ASSIGN) && e->a->kind == E_VAR) || e->kind == E_BLOCK || lower_steps(e));
}

bool lower_steps(const struct expr *e)
{
	uint32_t i;

	for (i = 0; e && i < e->nlist; i++)
		if (changes(e->list[i]))
			return true;
	return e && (changes(e->a) || changes(e->b) || changes(e->c));
}

/* Operands are seen in their order: in ($i, $i++) the first one is not what the second one leaves. */
static struct val as_it_is(struct lower *w, const struct val *v)
{
	struct val copy;

	if (!w->steps || v->kind != K_REG)
		return *v;
	copy = place_new(w, v->type, false);
	place_set(w, &copy, v, w->at);
	return copy;
}

/* What old op= by is computed in, old being of type t. Only dividing asks for the sign of the other one, too. */
const struct vtype *update_type(struct lower *w, uint8_t op, const struct vtype *t, const struct vtype *by)
{
	if (t->kind != V_INT)
		return t;
	return common_type(w->c, t, (op == '/' || op == '%') && by->kind == V_INT ? by : t);
}

static struct val assign_variable(struct lower *w, const struct expr *e)
{
	struct variable *var = e->a->ref;
	struct val b = lower_expr(w, e->b), old;

	if (e->op) {
		old = lower_variable(w, e->a);
		b = var->type->kind == V_PTR ? pointer_math(w, &(struct expr){ .op = e->op, .type = var->type }, &old, &b) :
		    lower_divided(w, e->op, update_type(w, e->op, var->type, b.type), &old, &b);
	}
	if (!var->val && (b.kind == K_SLOT || b.kind == K_SLOT_MEM) && v_is_object(b.type)) {
		var->val = pool_new(w->pool, struct val);
		*var->val = place_new(w, var->type, true);
	}
	lower_variable(w, e->a);
	place_set(w, var->val, &b, e->b);
	old = as_it_is(w, var->val);
	old.mask = b.mask;	/* what was there before is gone, if we are here */
	return old;
}

static struct val lower_step(struct lower *w, const struct expr *e)
{
	struct variable *var = e->a->ref;
	struct val old, n, copy, one;

	if (e->a->kind == E_MAP)
		return lower_map_step(w, e);
	old = lower_variable(w, e->a);
	copy = place_new(w, old.type, false);
	if (!e->prefix)
		place_set(w, &copy, &old, e);
	one = val_const(&v_i64, var->type->kind == V_PTR ? MAX(v_pointee(w->pool, var->type)->size, 1u) : 1);
	n = lower_math(w, e->op, old.type->kind == V_PTR ? &v_u64 : old.type, &old, &one);
	place_set(w, var->val, &n, e);
	return e->prefix ? as_it_is(w, var->val) : copy;
}

struct val lower_text(struct lower *w, const char *text, uint32_t len)
{
	return (struct val){ .kind = K_SLOT, .type = v_text(w->pool, len), .slot = lower_slot(w, len, text), .reg = IR_NONE };
}

static struct val lower_tuple(struct lower *w, const struct expr *e)
{
	struct val v = { .kind = K_TUPLE, .type = e->type, .n = e->nlist, .reg = IR_NONE, .slot = IR_NONE };
	uint32_t i;

	v.elems = pool_alloc(w->pool, (e->nlist + 1) * sizeof(*v.elems));
	for (i = 0; i < e->nlist; i++) {
		v.elems[i] = lower_expr(w, e->list[i]);
		if (e->type->elems[i]->kind == V_STR)
			v.elems[i] = val_text(w, &v.elems[i], e->list[i]);
	}
	return v;
}

static struct val lower_kind(struct lower *w, const struct expr *e)
{
	struct val r;

	switch ((enum expr_kind)e->kind) {
	case E_INT: case E_BOOL: case E_SIZEOF: case E_OFFSETOF: return val_const(e->type, e->value);
	case E_FLOAT:	return (struct val){ .kind = K_FCONST, .type = e->type, .k.f = e->fvalue, .reg = IR_NONE, .slot = IR_NONE };
	case E_STR:	return lower_text(w, e->name, e->text_len);
	case E_PARAM:	return e->ref ? val_const(e->type, *(const int64_t *)e->ref) : lower_text(w, e->name, e->text_len);
	case E_NPARAMS:	return val_const(e->type, w->l->script->nparams);
	case E_VAR:
		r = lower_variable(w, e);
		return as_it_is(w, &r);
	case E_MAP:	return lower_map_get(w, e);
	case E_NAME:	return lower_name(w, e);
	case E_CALL:	return lower_call(w, e);
	case E_MEMBER:	return lower_member(w, e);
	case E_ELEMENT:	return lower_element(w, e);
	case E_INDEX:	return lower_index(w, e);
	case E_UNARY:	return lower_unary(w, e);
	case E_BINARY:	return lower_binary(w, e);
	case E_COND:	return lower_choice(w, e);
	case E_CAST:	return lower_cast(w, e);
	case E_TUPLE:	return lower_tuple(w, e);
	case E_STEP:	return lower_step(w, e);
	case E_ASSIGN:
		if (e->a->kind == E_VAR)
			return assign_variable(w, e);
		return e->a->kind == E_MAP ? lower_map_assign(w, e) : lower_expr(w, e->b);
	case E_BLOCK:
		lower_statements(w, e->body);
		return e->a ? lower_expr(w, e->a) : (struct val){ .kind = K_VOID, .type = &v_void };
	case E_PLACE:	return lower_process_place(w, e);
	case E_NAMED:
		return lower_expr(w, e->a);
	}
	return error_val();
}

struct val lower_expr(struct lower *w, const struct expr *e)
{
	if (w->failed)
		return error_val();
	w->at = e;
	return lower_kind(w, e);
}

/* ---- conditions ---- */

static void branch_on_value(struct lower *w, const struct expr *e, bool sense, uint32_t label, uint32_t fault)
{
	struct val v = lower_expr(w, e), zero;
	uint32_t reg;

	if (v.kind == K_CONST || v.kind == K_FCONST) {
		if ((v.kind == K_CONST ? v.k.u != 0 : v.k.f != 0) == sense)
			lower_jump(w, IR_JMP, IR_NONE, label);
		return;
	}
	if (v.type->kind == V_FLOAT) {
		zero = (struct val){ .kind = K_FCONST, .type = &v_f64 };
		reg = val_in_reg(w, &zero);
		reg = lower_pure(w, IR_NE, IR_F64, val_in_reg(w, &v), reg, 0);
	} else {
		reg = val_in_reg(w, &v);
	}
	lower_if_fault(w, v.mask, fault);
	lower_jump(w, sense ? IR_JNZ : IR_JZ, reg, label);
}

void lower_branch(struct lower *w, const struct expr *e, bool sense, uint32_t label, uint32_t fault)
{
	uint32_t skip;
	size_t mark;

	if (e->kind == E_UNARY && e->op == '!') {
		lower_branch(w, e->a, !sense, label, fault);
	} else if (e->kind == E_BINARY && (e->op == T_ANDAND || e->op == T_OROR)) {
		if ((e->op == T_OROR) == sense) {	/* either one leads there */
			lower_branch(w, e->a, sense, label, fault);
			w->maybe++;
			lower_branch(w, e->b, sense, label, fault);
			w->maybe--;
			return;
		}
		skip = lower_label(w);
		mark = w->known.n;	/* parts of the first one may be jumped over, too */
		lower_branch(w, e->a, !sense, skip, fault);
		w->maybe++;
		lower_branch(w, e->b, sense, label, fault);
		w->maybe--;
		lower_forget(w, mark);
		lower_place_label(w, skip);
	} else {
		branch_on_value(w, e, sense, label, fault);
	}
}
