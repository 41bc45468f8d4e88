/* SPDX-License-Identifier: MIT */
/*
 * The program's variables by where they are: registers, memory, constants, and what has to be computed from
 * these, as the debug info says.
 */
#include "lang/lower.h"

#include <string.h>

#include "base/addr.h"
#include "base/err.h"

/* Memory at so many bytes of this module's block, or of a variable that has a name. */
struct val lower_thread_local(struct lower *w, const char *symbol, int64_t byte, const struct vtype *type, const struct expr *e)
{
	const struct lang_site *s = w->c->site;
	struct val v = val_reg(type, lower_pure(w, IR_CTX, IR_I64, IR_NONE, IR_NONE, IR_CTX_THREAD), 0);
	int64_t off = 0;

	if (s->tls && s->tls(s->arg, symbol, &off) < 0)
		lower_error(w, e, "'%s' is thread-local, and %s", e->name, err_text());
	v.kind = K_MEM;
	v.off = off + byte;
	return v;
}

static uint8_t node_op(uint8_t op)
{
	static const uint8_t ops[] = {
		[LOP_ADD] = IR_ADD, [LOP_SUB] = IR_SUB, [LOP_MUL] = IR_MUL, [LOP_AND] = IR_AND, [LOP_OR] = IR_OR,
		[LOP_XOR] = IR_XOR, [LOP_SHL] = IR_SHL, [LOP_SHR] = IR_SHR, [LOP_SAR] = IR_SHR, [LOP_SDIV] = IR_DIV,
		[LOP_UMOD] = IR_MOD, [LOP_UDIV] = IR_DIV, [LOP_EQ] = IR_EQ, [LOP_NE] = IR_NE, [LOP_SLT] = IR_LT,
		[LOP_SLE] = IR_LE, [LOP_SGT] = IR_GT, [LOP_SGE] = IR_GE, [LOP_ULT] = IR_LT, [LOP_ULE] = IR_LE,
	};

	return op < ARRAY_SIZE(ops) ? ops[op] : IR_NOP;
}

static uint8_t sized(unsigned int bytes, bool sign)
{
	return (sign ? IR_I8 : IR_U8) + (bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 0);
}

static struct val node_load(struct lower *w, const struct val *address, unsigned int bytes)
{
	struct val m = *address;

	m.kind = K_MEM;
	m.type = bytes == 1 ? &v_u8 : bytes == 2 ? &v_u16 : bytes == 4 ? &v_u32 : &v_u64;
	m.good = false;
	if (address->kind == K_CONST) {
		m.reg = IR_NONE;
		m.off = address->k.i;
	}
	return val_load(w, &m);
}

static struct val node_math(struct lower *w, const struct loc_node *n, const struct val *a, const struct val *b)
{
	bool is_signed = n->op == LOP_SAR || n->op == LOP_SDIV || (n->op >= LOP_SLT && n->op <= LOP_SGE);
	uint32_t ra = val_in_reg(w, a), rb = val_in_reg(w, b);

	return val_reg(&v_u64, lower_pure(w, node_op(n->op), is_signed ? IR_I64 : IR_U64, ra, rb, 0), a->mask | b->mask);
}

/* One of two, as a number says that is there only when it runs. The same choice is made once. */
static struct val node_choice(struct lower *w, const struct val *cond, const struct val *then, const struct val *other)
{
	uint32_t is = val_in_reg(w, cond), a = val_in_reg(w, then), b = val_in_reg(w, other), end;
	uint64_t mask = cond->mask | then->mask | other->mask;
	struct val v = place_new(w, &v_u64, false), from = val_reg(&v_u64, b, 0);
	size_t i;

	for (i = 0; i < w->known.n; i++) {
		const struct known *k = &w->known.v[i];

		if (k->op == IR_MOV && k->a == is && k->b == a && k->imm == b)
			return val_reg(&v_u64, k->dst, mask);
	}
	end = lower_label(w);
	place_set(w, &v, &from, NULL);
	lower_jump(w, IR_JZ, is, end);
	from.reg = a;
	place_set(w, &v, &from, NULL);
	lower_place_label(w, end);
	*vec_add(&w->known) = (struct known){ .op = IR_MOV, .a = is, .b = a, .imm = b, .dst = v.reg };
	return val_reg(&v_u64, v.reg, mask);
}

/*
 * Where nobody knows a value, the read of an address that is none says so, in the way of all reads that
 * fail: what is computed from it is marked, and what it is shows in the address.
 */
uint64_t lower_unknown(struct lower *w, uint32_t address)
{
	struct val m = val_reg(&v_u64, address, 0);
	size_t mark = w->known.n, i;
	uint32_t end;

	for (i = 0; i < mark; i++)
		if (w->known.v[i].op == IR_IF_FAULT && w->known.v[i].a == address)
			return w->known.v[i].mask;
	end = lower_label(w);
	lower_jump(w, IR_JZ, address, end);
	m.kind = K_MEM;
	m = val_load(w, &m);
	lower_forget(w, mark);
	lower_place_label(w, end);
	/* once is enough */
	*vec_add(&w->known) = (struct known){ .op = IR_IF_FAULT, .a = address, .b = IR_NONE, .mask = m.mask };
	return m.mask;
}

static struct val node_known(struct lower *w, const struct val *v, const struct val *is_known)
{
	struct val zero = val_const(&v_u64, 0), lost = val_const(&v_u64, ADDR_NOT_KEPT), r;
	uint32_t z = val_in_reg(w, &zero), l = val_in_reg(w, &lost), k = val_in_reg(w, is_known), none;

	none = lower_pure(w, IR_EQ, IR_U64, k, z, 0);
	none = lower_pure(w, IR_MUL, IR_U64, none, l, 0);
	r = val_reg(&v_u64, val_in_reg(w, v), v->mask | is_known->mask);
	r.mask |= lower_unknown(w, none);
	return r;
}

static struct val node_value(struct lower *w, const struct loc_node *n, const struct val *vals, const struct expr *e)
{
	const struct val *a = &vals[n->a], *b = &vals[n->b];

	switch ((enum loc_op)n->op) {
	case LOP_CONST:	return val_const(&v_u64, n->imm);
	case LOP_REG:	return lower_site_reg(w, n->a);
	case LOP_ADDR:	return val_const(&v_u64, lower_live(w, n->imm));
	case LOP_LOAD:	return node_load(w, a, n->imm);
	case LOP_NEG:	return val_reg(&v_u64, lower_pure(w, IR_NEG, IR_U64, val_in_reg(w, a), IR_NONE, 0), a->mask);
	case LOP_NOT:	return val_reg(&v_u64, lower_pure(w, IR_NOT, IR_U64, val_in_reg(w, a), IR_NONE, 0), a->mask);
	case LOP_SEXT: case LOP_ZEXT:
		return val_reg(&v_u64, lower_pure(w, IR_CAST, sized(n->imm, n->op == LOP_SEXT), val_in_reg(w, a), IR_NONE, 0), a->mask);
	case LOP_TLS: {
		struct val v = lower_thread_local(w, NULL, n->imm, &v_u64, e);

		return val_address(w, &v);
	}
	case LOP_IF:	return node_choice(w, a, b, &vals[n->imm]);
	case LOP_KNOWN:	return node_known(w, a, b);
	default:
		return node_math(w, n, a, b);
	}
}

static bool uses_nodes(uint8_t op)
{
	return op != LOP_CONST && op != LOP_REG && op != LOP_ADDR && op != LOP_TLS;
}

/* Those that the last one is made of; the others may belong to other pieces. */
static bool *needed_nodes(struct lower *w, const struct loc *loc, uint32_t last)
{
	bool *needed = pool_alloc(w->pool, (size_t)loc->nnodes + 1);
	uint32_t i;

	memset(needed, 0, (size_t)loc->nnodes + 1);
	needed[last] = true;
	for (i = last + 1; i-- > 0;) {
		const struct loc_node *n = &loc->nodes[i];

		if (!needed[i] || !uses_nodes(n->op))
			continue;
		needed[n->a] = true;
		if (n->op != LOP_LOAD && n->op != LOP_NEG && n->op != LOP_NOT && n->op != LOP_SEXT && n->op != LOP_ZEXT)
			needed[n->b] = true;
		if (n->op == LOP_IF)
			needed[n->imm] = true;
	}
	return needed;
}

struct val lower_nodes(struct lower *w, const struct loc *loc, uint32_t last, const struct expr *e)
{
	struct val *vals = pool_alloc(w->pool, ((size_t)loc->nnodes + 1) * sizeof(*vals));
	const bool *needed;
	uint32_t i;

	last = MIN(last, loc->nnodes ? loc->nnodes - 1 : 0);
	needed = needed_nodes(w, loc, last);
	for (i = 0; i < loc->nnodes && i <= last; i++)
		if (needed[i])
			vals[i] = node_value(w, &loc->nodes[i], vals, e);
	return vals[last];
}

static struct val object(struct lower *w, const struct val *address, const struct vtype *type)
{
	struct val m = { .kind = K_MEM, .type = type, .reg = IR_NONE, .slot = IR_NONE, .mask = address->mask };

	if (address->kind == K_CONST)
		m.off = address->k.i;
	else
		m.reg = val_in_reg(w, address);
	return v_is_scalar(type) ? val_load(w, &m) : m;
}

struct val lower_bits(struct lower *w, struct val v, const struct vtype *type)
{
	float f;

	if (type->kind == V_FLOAT && v.kind == K_CONST) {
		memcpy(&f, &v.k, sizeof(f));
		if (type->size == 4)
			v.k.f = f;
		v.kind = K_FCONST;
	} else if (type->kind == V_FLOAT) {
		v.reg = lower_pure(w, IR_RAW2F, v_ir(type), v.reg, IR_NONE, 0);
	} else if (v.kind == K_CONST) {
		if (type->is_bool)	/* only the low byte is its own */
			v.k.u &= 0xff;
		v.type = &v_u64;
		v = val_convert(w, &v, type);
	} else {
		if (type->is_bool)
			v.reg = lower_pure(w, IR_CAST, IR_U8, v.reg, IR_NONE, 0);
		if (type->kind == V_INT && type->size < 8)
			v.reg = lower_pure(w, IR_CAST, v_ir(type), v.reg, IR_NONE, 0);
	}
	v.type = type;
	return v;
}

struct val lower_vector_bits(struct lower *w, uint32_t number)
{
	uint32_t low = lower_pure(w, IR_VECTOR, IR_F64, IR_NONE, IR_NONE, number);

	return val_reg(&v_u64, lower_pure(w, IR_F2RAW, IR_F64, low, IR_NONE, 0), 0);
}

static struct val bytes_const(struct lower *w, const struct loc_piece *p, const struct vtype *type)
{
	struct val v = val_const(&v_u64, 0);

	memcpy(&v.k, p->bytes, MIN(p->size, 8u));
	return lower_bits(w, v, type);
}

struct val lower_located(struct lower *w, const struct loc *loc, const struct vtype *type, const struct expr *e)
{
	const struct loc_piece *p = &loc->pieces[0];
	struct val v;

	if (v_is_object(type) && (loc->n > 1 || (p->kind != LOC_MEM && p->kind != LOC_GLOBAL && p->kind != LOC_TLS && p->kind != LOC_MEM_AT)))
		return (struct val){ .kind = K_PIECES, .type = type, .loc = loc, .reg = IR_NONE, .slot = IR_NONE };
	if (loc->n != 1) {
		v = (struct val){ .kind = K_PIECES, .type = type, .loc = loc, .reg = IR_NONE, .slot = IR_NONE };
		return pieces_load(w, &v);
	}
	switch ((enum loc_kind)p->kind) {
	case LOC_REG:
		return lower_bits(w, lower_site_reg(w, p->reg), type);
	case LOC_VECTOR:
		if (type->kind == V_FLOAT)
			return val_reg(type, lower_pure(w, IR_VECTOR, v_ir(type), IR_NONE, IR_NONE, p->reg), 0);
		return lower_bits(w, lower_vector_bits(w, p->reg), type);
	case LOC_MEM:
		v = lower_site_reg(w, p->reg);
		v.kind = K_MEM;
		v.type = type;
		v.off = p->off;
		v.good = p->reg == w->l->arch->regs->sp && p->off >= STACK_GOOD_MIN && p->off <= STACK_GOOD_MAX;
		return v_is_scalar(type) ? val_load(w, &v) : v;
	case LOC_GLOBAL:
		v = val_const(&v_u64, lower_live(w, p->off));
		return object(w, &v, type);	/* a program may shut pages of its own data: see gen/loads.c */
	case LOC_CONST:
		return lower_bits(w, val_const(&v_u64, p->off), type);
	case LOC_MEM_AT:
		v = lower_nodes(w, loc, p->node, e);
		return object(w, &v, type);
	case LOC_VALUE:
		return lower_bits(w, lower_nodes(w, loc, p->node, e), type);
	case LOC_BYTES:
		if (v_is_scalar(type))
			return bytes_const(w, p, type);
		break;
	case LOC_TLS:
		v = lower_thread_local(w, NULL, p->off, type, e);
		return v_is_scalar(type) ? val_load(w, &v) : v;
	case LOC_ST: case LOC_GONE:
		break;
	}
	lower_error(w, e, "'%s' can't be read here: %s", e->name, loc->why ? loc->why : "it is in a place that is not supported yet");
	return val_const(&v_i64, 0);
}

/* A variable, or what it refers to. */
struct val lower_var(struct lower *w, const struct var *v, const struct vtype *type, const struct expr *e)
{
	struct val a;
	bool is_ref;

	v_of_var(w->pool, w->c->site->types, v->type, &is_ref);
	if (!is_ref)
		return lower_located(w, &v->loc, type, e);
	a = lower_located(w, &v->loc, &v_void_ptr, e);
	return object(w, &a, type);
}
