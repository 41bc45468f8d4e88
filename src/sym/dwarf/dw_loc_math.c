/* SPDX-License-Identifier: MIT */
/*
 * Arithmetic of location expressions. Plain values have 64 bits and are compared and divided as signed ones, but
 * with an unsigned remainder. Where the program computes otherwise, compilers specify the type of the operands: the
 * result then has that type and is truncated to its size.
 */
#include "sym/dwarf/dw_loc.h"

static const char not_supported[] = "its place is described in a way that is not supported";

static bool is_const(struct symbolic *s, uint16_t n)
{
	return loc_at(s, n).op == LOP_CONST;
}

static uint16_t constant(struct symbolic *s, int64_t v)
{
	return loc_make(s, LOP_CONST, 0, 0, v);
}

static uint16_t extended(struct symbolic *s, uint16_t n, unsigned int size, bool sign)
{
	return size >= 8 || !size ? n : loc_make(s, sign ? LOP_SEXT : LOP_ZEXT, n, 0, size);
}

/* A shift by 64 or more gives 0, or the sign. */
static uint16_t shifted(struct symbolic *s, uint8_t op, uint16_t a, uint16_t b)
{
	uint16_t all, fits;

	if (is_const(s, b) && (uint64_t)loc_at(s, b).imm < 64)
		return loc_make(s, op, a, b, 0);
	all = op == LOP_SAR ? loc_make(s, LOP_SAR, a, constant(s, 63), 0) : constant(s, 0);
	fits = loc_make(s, LOP_ULT, b, constant(s, 64), 0);
	return loc_make(s, LOP_IF, fits, loc_make(s, op, a, b, 0), all);
}

/* A program does not divide by zero; if the divisor is 0 here, the result is unknown. */
static uint16_t divided(struct symbolic *s, uint8_t op, uint16_t a, uint16_t b)
{
	uint16_t n = loc_make(s, op, a, b, 0);

	return is_const(s, b) && loc_at(s, b).imm ? n : loc_make(s, LOP_KNOWN, n, b, 0);
}

static uint16_t plain(struct symbolic *s, uint8_t op, uint16_t a, uint16_t b)
{
	switch (op) {
	case LOP_ADD:
		return is_const(s, b) ? loc_plus(s, a, loc_at(s, b).imm) : is_const(s, a) ? loc_plus(s, b, loc_at(s, a).imm) :
		       loc_make(s, op, a, b, 0);
	case LOP_SUB:
		return is_const(s, b) ? loc_plus(s, a, -(uint64_t)loc_at(s, b).imm) : loc_make(s, op, a, b, 0);
	case LOP_SHL: case LOP_SHR: case LOP_SAR:
		return shifted(s, op, a, b);
	case LOP_SDIV: case LOP_UDIV: case LOP_UMOD:
		return divided(s, op, a, b);
	default:
		return loc_make(s, op, a, b, 0);
	}
}

/* Comparison of unsigned 64-bit values. Narrower ones are extended, so a signed comparison is right for them. */
static uint16_t compared(struct symbolic *s, uint8_t op, uint16_t a, uint16_t b)
{
	switch (op) {
	case LOP_SLT: return loc_make(s, LOP_ULT, a, b, 0);
	case LOP_SLE: return loc_make(s, LOP_ULE, a, b, 0);
	case LOP_SGT: return loc_make(s, LOP_ULT, b, a, 0);
	case LOP_SGE: return loc_make(s, LOP_ULE, b, a, 0);
	default: return loc_make(s, op, a, b, 0);
	}
}

static void binary(struct symbolic *s, uint8_t op)
{
	struct loc_item b = loc_pop_item(s), a = loc_pop_item(s);
	unsigned int size = a.sort & 15;
	bool sign = a.sort & SORT_SIGNED;

	if (a.sort != b.sort || (a.sort && op == LOP_UMOD && sign)) {
		loc_give_up(s, not_supported);
		return;
	}
	if (op >= LOP_EQ && op <= LOP_SGE) {
		loc_push(s, size == 8 && !sign ? compared(s, op, a.node, b.node) : loc_make(s, op, a.node, b.node, 0));
		return;
	}
	if (a.sort && op == LOP_SDIV && !sign)
		op = LOP_UDIV;
	if (a.sort && (op == LOP_SHR || op == LOP_SAR))
		a.node = extended(s, a.node, size, op == LOP_SAR);
	loc_push_sort(s, extended(s, plain(s, op, a.node, b.node), size, sign), a.sort);
}

static void unary(struct symbolic *s, uint8_t op)
{
	struct loc_item a = loc_pop_item(s);

	loc_push_sort(s, extended(s, loc_make(s, op, a.node, 0, 0), a.sort & 15, a.sort & SORT_SIGNED), a.sort);
}

static void absolute(struct symbolic *s)
{
	struct loc_item a = loc_pop_item(s);
	uint16_t sign;

	if (a.sort && !(a.sort & SORT_SIGNED)) {
		loc_push_sort(s, a.node, a.sort);
		return;
	}
	sign = loc_make(s, LOP_SAR, a.node, constant(s, 63), 0);
	a.node = loc_make(s, LOP_SUB, loc_make(s, LOP_XOR, a.node, sign, 0), sign, 0);
	loc_push_sort(s, extended(s, a.node, a.sort & 15, true), a.sort);
}

static void shuffle(struct symbolic *s, const Dwarf_Op *op)
{
	uint64_t pick = op->atom == DW_OP_dup ? 0 : op->atom == DW_OP_over ? 1 : op->number;
	struct loc_item a, b, c;

	switch (op->atom) {
	case DW_OP_drop:
		loc_pop(s);
		break;
	case DW_OP_swap:
		a = loc_pop_item(s), b = loc_pop_item(s);
		loc_push_sort(s, a.node, a.sort), loc_push_sort(s, b.node, b.sort);
		break;
	case DW_OP_rot:
		a = loc_pop_item(s), b = loc_pop_item(s), c = loc_pop_item(s);
		loc_push_sort(s, a.node, a.sort), loc_push_sort(s, c.node, c.sort), loc_push_sort(s, b.node, b.sort);
		break;
	default:
		if (pick >= (uint64_t)s->depth) {
			loc_give_up(s, not_supported);
			return;
		}
		a = s->stack[s->depth - 1 - pick];
		loc_push_sort(s, a.node, a.sort);
	}
}

bool loc_arithmetic(struct symbolic *s, const Dwarf_Op *op)
{
	static const struct { uint8_t atom, lop; } two[] = {
		{ DW_OP_plus, LOP_ADD }, { DW_OP_minus, LOP_SUB }, { DW_OP_mul, LOP_MUL }, { DW_OP_and, LOP_AND },
		{ DW_OP_or, LOP_OR }, { DW_OP_xor, LOP_XOR }, { DW_OP_shl, LOP_SHL }, { DW_OP_shr, LOP_SHR },
		{ DW_OP_shra, LOP_SAR }, { DW_OP_div, LOP_SDIV }, { DW_OP_mod, LOP_UMOD }, { DW_OP_eq, LOP_EQ },
		{ DW_OP_ne, LOP_NE }, { DW_OP_lt, LOP_SLT }, { DW_OP_le, LOP_SLE }, { DW_OP_gt, LOP_SGT },
		{ DW_OP_ge, LOP_SGE },
	};
	struct loc_item a;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(two); i++)
		if (two[i].atom == op->atom) {
			binary(s, two[i].lop);
			return true;
		}
	switch (op->atom) {
	case DW_OP_plus_uconst:
		a = loc_pop_item(s);
		loc_push_sort(s, extended(s, loc_plus(s, a.node, op->number), a.sort & 15, a.sort & SORT_SIGNED), a.sort);
		return true;
	case DW_OP_neg: unary(s, LOP_NEG); return true;
	case DW_OP_not: unary(s, LOP_NOT); return true;
	case DW_OP_abs: absolute(s); return true;
	case DW_OP_dup: case DW_OP_drop: case DW_OP_over: case DW_OP_pick: case DW_OP_swap: case DW_OP_rot:
		shuffle(s, op);
		return true;
	default: return false;
	}
}

void loc_convert(struct symbolic *s, const Dwarf_Op *op)
{
	bool is_plain = (op->atom == DW_OP_convert || op->atom == DW_OP_GNU_convert || op->atom == DW_OP_reinterpret ||
			 op->atom == DW_OP_GNU_reinterpret) && !op->number;
	struct loc_item a = loc_pop_item(s);
	uint64_t size = 0, how = 0;
	bool sign, whole;
	Dwarf_Die type;

	if (is_plain) {
		loc_push(s, a.node);
		return;
	}
	if (dwarf_getlocation_die(s->attr, op, &type) != 0 || !die_number(&type, DW_AT_byte_size, &size) ||
	    !die_number(&type, DW_AT_encoding, &how))
		size = 0;
	sign = how == DW_ATE_signed || how == DW_ATE_signed_char;
	whole = sign || how == DW_ATE_unsigned || how == DW_ATE_boolean || how == DW_ATE_unsigned_char || how == DW_ATE_address;
	if (!whole || (size != 1 && size != 2 && size != 4 && size != 8))
		loc_give_up(s, "its place is computed with floating point or wide numbers");
	else
		loc_push_sort(s, extended(s, a.node, size, sign), size | (sign ? SORT_SIGNED : 0));
}
