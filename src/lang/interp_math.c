/* SPDX-License-Identifier: MIT */
/* Arithmetic as ir.h says it: this is what back ends are compared with. */
#include "lang/interp_run.h"

#include <string.h>

void interp_error(struct run *r, const struct ir_ins *i, enum ir_error e)
{
	if (!(i->flags & IR_QUIET))
		r->in->errors[e]++;
}

uint64_t interp_wrap(uint8_t type, uint64_t v)
{
	switch (type) {
	case IR_I8:	return (int64_t)(int8_t)v;
	case IR_I16:	return (int64_t)(int16_t)v;
	case IR_I32:	return (int64_t)(int32_t)v;
	case IR_U8:	return (uint8_t)v;
	case IR_U16:	return (uint16_t)v;
	case IR_U32:	return (uint32_t)v;
	case IR_BOOL:	return v != 0;
	case IR_CHAR:	return (int64_t)(int8_t)v;
	}
	return v;
}

static double float_of(uint32_t bytes)
{
	float f;

	memcpy(&f, &bytes, 4);
	return f;
}

static uint32_t bytes_of(float f)
{
	uint32_t bytes;

	memcpy(&bytes, &f, 4);
	return bytes;
}

static double round_to(uint8_t type, double v)
{
	return type == IR_F32 ? (double)(float)v : v;
}

static uint64_t divide(struct run *r, const struct ir_ins *i, uint64_t a, uint64_t b)
{
	bool sign = !ir_is_unsigned(i->type), mod = i->op == IR_MOD;
	int64_t least = i->type == IR_I32 ? INT32_MIN : INT64_MIN;

	if (!b || (sign && (int64_t)a == least && (int64_t)b == -1)) {
		interp_error(r, i, IR_ERR_DIV);
		return 0;
	}
	if (sign)
		return mod ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b;
	return mod ? a % b : a / b;
}

static uint64_t shift(const struct ir_ins *i, uint64_t a, uint64_t n)
{
	n &= i->type == IR_I32 || i->type == IR_U32 ? 31 : 63;
	if (i->op == IR_SHL)
		return a << n;
	return ir_is_unsigned(i->type) ? a >> n : (uint64_t)((int64_t)a >> n);
}

static uint64_t int_op(struct run *r, const struct ir_ins *i, uint64_t a, uint64_t b)
{
	switch (i->op) {
	case IR_ADD:	return a + b;
	case IR_SUB:	return a - b;
	case IR_MUL:	return a * b;
	case IR_DIV: case IR_MOD: return divide(r, i, a, b);
	case IR_AND:	return a & b;
	case IR_OR:	return a | b;
	case IR_XOR:	return a ^ b;
	case IR_SHL: case IR_SHR: return shift(i, a, b);
	case IR_NEG:	return -a;
	case IR_NOT:	return ~a;
	}
	return 0;
}

static double float_op(const struct ir_ins *i, double a, double b)
{
	switch (i->op) {
	case IR_ADD:	return a + b;
	case IR_SUB:	return a - b;
	case IR_MUL:	return a * b;
	case IR_DIV:	return a / b;
	case IR_NEG:	return -a;
	}
	return 0;
}

static bool compare(const struct ir_ins *i, num a, num b)
{
	bool f = ir_is_float(i->type), u = ir_is_unsigned(i->type);
	bool eq = f ? a.f == b.f : a.u == b.u, lt = f ? a.f < b.f : u ? a.u < b.u : a.i < b.i;
	bool gt = f ? a.f > b.f : u ? a.u > b.u : a.i > b.i;

	switch (i->op) {
	case IR_EQ:	return eq;
	case IR_NE:	return !eq;
	case IR_LT:	return lt;
	case IR_LE:	return lt || eq;
	case IR_GT:	return gt;
	default:	return gt || eq;
	}
}

static int64_t truncate_i64(double v)
{
	return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

static uint64_t float_to_int(const struct ir_ins *i, double v)
{
	if (i->type == IR_U64 && v >= 0x1p63)
		return (uint64_t)truncate_i64(v - 0x1p63) ^ 1ull << 63;
	if (i->type == IR_BOOL)
		return v != 0;
	return interp_wrap(i->type, truncate_i64(v));
}

static uint64_t swap(uint8_t type, uint64_t v)
{
	return type == IR_U16 ? __builtin_bswap16(v) : type == IR_U32 ? __builtin_bswap32(v) :
	       type == IR_U64 ? __builtin_bswap64(v) : v;
}

static uint64_t take_bits(const struct ir_ins *i, uint64_t v)
{
	unsigned int lo = i->imm & 63, n = i->imm >> 8 & 127;

	v >>= lo;
	if (n >= 64)
		return v;
	v &= (1ull << n) - 1;
	return ir_is_unsigned(i->type) || !(v >> (n - 1) & 1) ? v : v | ~0ull << n;
}

/* Pure computing. False: it is something else. */
bool interp_compute(struct run *r, const struct ir_ins *i)
{
	num a = i->a != IR_NONE ? r->regs[i->a] : (num){ 0 }, b = i->b != IR_NONE ? r->regs[i->b] : (num){ 0 };
	num *d = i->dst != IR_NONE ? &r->regs[i->dst] : NULL;

	switch (i->op) {
	case IR_CONST:	d->i = i->imm; return true;
	case IR_FCONST:	d->f = i->fimm; return true;
	case IR_MOV:	*d = a; return true;
	case IR_EQ: case IR_NE: case IR_LT: case IR_LE: case IR_GT: case IR_GE: d->u = compare(i, a, b); return true;
	case IR_CAST:	d->u = interp_wrap(i->type, a.u); return true;
	case IR_I2F:	d->f = i->type == IR_F32 ? (double)(float)a.i : (double)a.i; return true;
	case IR_U2F:	d->f = i->type == IR_F32 ? (double)(float)a.u : (double)a.u; return true;
	case IR_F2F:	d->f = round_to(i->type, a.f); return true;
	case IR_F2I:	d->u = float_to_int(i, a.f); return true;
	case IR_RAW2F:	d->f = i->type == IR_F32 ? float_of(a.u) : a.f; return true;
	case IR_F2RAW:	d->u = i->type == IR_F32 ? bytes_of(a.f) : a.u; return true;
	case IR_BSWAP:	d->u = swap(i->type, a.u); return true;
	case IR_BITS:	d->u = take_bits(i, a.u); return true;
	}
	if (i->op < IR_ADD || i->op > IR_NOT)
		return false;
	if (ir_is_float(i->type))
		d->f = round_to(i->type, float_op(i, a.f, b.f));
	else
		d->u = interp_wrap(i->type, int_op(r, i, a.u, b.u));
	return true;
}
