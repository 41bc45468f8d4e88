/* SPDX-License-Identifier: MIT */
/*
 * Where the address of an indirect jump comes from. A switch is
 *
 *	lea T(%rip),%a; movslq (%a,%i,4),%b; add %a,%b; jmp *%b		distances from T, 4 bytes each
 *	jmp *T(,%i,8)    or    mov (%a,%i,8),%b; jmp *%b		addresses, 8 bytes each
 *
 * The decoder returns no operands, hence the small reader of raw bytes here; it knows only these instructions.
 */
#include "arch/x86/tables.h"

#include <string.h>

#include "arch/arch.h"

#define LOOK_BACK 24		/* instructions before the jump in which its address is searched */

/* Prefixes, opcode and operand bytes of an instruction with one-byte opcode. */
struct shape {
	uint8_t rex, op, modrm, sib;
	bool notrack, two_bytes;
	const uint8_t *disp;	/* after ModRM and SIB */
	const uint8_t *end;
};

static bool is_legacy_prefix(uint8_t b)
{
	return b == 0x66 || b == 0x67 || b == 0xf0 || b == 0xf2 || b == 0xf3 || b == 0x2e ||
	       b == 0x36 || b == 0x3e || b == 0x26 || b == 0x64 || b == 0x65;
}

static bool read_shape(const uint8_t *p, size_t len, struct shape *ret_shape)
{
	struct shape s = { .end = p + len };

	while (p < s.end && is_legacy_prefix(*p))
		s.notrack |= *p++ == 0x3e;
	if (p < s.end && (*p & 0xf0) == 0x40)
		s.rex = *p++;
	if (p >= s.end)
		return false;
	s.op = *p++;
	if (s.op == 0x0f && p < s.end) {
		s.two_bytes = true;
		s.op = *p++;
	}
	s.disp = p;
	if (p < s.end) {
		s.modrm = *p++;
		if ((s.modrm & 0xc0) != 0xc0 && (s.modrm & 7) == 4 && p < s.end)
			s.sib = *p++;
		s.disp = p;
	}
	*ret_shape = s;
	return true;
}

static int shape_reg(const struct shape *s)
{
	return (s->modrm >> 3 & 7) | (s->rex & 4) << 1;
}

static int shape_rm(const struct shape *s)
{
	return (s->modrm & 7) | (s->rex & 1) << 3;
}

static bool is_reg_form(const struct shape *s)
{
	return s->modrm >> 6 == 3;
}

/* Whether the operand has an index with a scale of 1 << scale bytes. */
static bool is_indexed(const struct shape *s, int scale)
{
	bool index = (s->sib >> 3 & 7) != 4 || (s->rex & 2);

	return !is_reg_form(s) && (s->modrm & 7) == 4 && s->sib >> 6 == scale && index;
}

/* The constant address before the index: T(,%i,8). */
static bool constant_base(const struct shape *s, uint64_t *ret_base)
{
	int32_t disp;

	if (s->modrm >> 6 || (s->sib & 7) != 5 || s->end - s->disp < 4)
		return false;
	memcpy(&disp, s->disp, sizeof(disp));
	*ret_base = (int64_t)disp;
	return true;
}

bool x86_takes_address(const uint8_t *p, size_t len)
{
	struct shape s;

	return read_shape(p, len, &s) && s.op == 0x8d && !s.two_bytes;
}

/* Whether this is an immediate of mov or push that may be an address, as in programs at fixed addresses. */
bool x86_takes_immediate(const uint8_t *p, size_t len, uint64_t *ret_value)
{
	struct shape s;
	uint32_t v;

	if (len < 5 || !read_shape(p, len, &s) || s.two_bytes)
		return false;
	if (s.op != 0xc7 && s.op != 0x68 && (s.op & 0xf8) != 0xb8)
		return false;
	if ((s.op & 0xf8) == 0xb8 && (s.rex & 8)) {
		memcpy(ret_value, p + len - 8, 8);
		return true;
	}
	memcpy(&v, p + len - 4, sizeof(v));
	*ret_value = v;
	return true;
}

static bool shape_at(const struct code_view *v, uint32_t insn, struct shape *ret_shape)
{
	return read_shape(v->bytes + v->at[insn], v->insns[insn].len, ret_shape);
}

/* A load from a variable of the frame, or from the sum of two registers: unoptimized code reads a table like that. */
static bool is_plain_load(const struct shape *s)
{
	int base = (s->modrm & 7) == 4 ? s->sib & 7 : s->modrm & 7;

	return is_indexed(s, 0) || (!(s->rex & 1) && (base == 4 || (base == 5 && s->modrm >> 6)));
}

static enum jump_origin origin_of_write(const struct shape *s, int *reg, uint64_t *ret_base)
{
	int r = *reg;

	switch (s->op) {
	case 0x01:	/* add reg, rm */
	case 0x29:	/* sub reg, rm */
		return is_reg_form(s) && shape_rm(s) == r ? JUMP_MADE_BY_SUM : JUMP_MADE_UNKNOWN;
	case 0x03:	/* add rm, reg */
	case 0x2b:	/* sub rm, reg */
		return shape_reg(s) == r ? JUMP_MADE_BY_SUM : JUMP_MADE_UNKNOWN;
	case 0x8d:	/* lea (a,b), reg */
		return shape_reg(s) == r && is_indexed(s, 0) ? JUMP_MADE_BY_SUM : JUMP_MADE_UNKNOWN;
	case 0x89:	/* mov reg, rm: follow the copy */
		if (is_reg_form(s) && shape_rm(s) == r)
			*reg = shape_reg(s);
		return JUMP_MADE_UNKNOWN;
	case 0x8b:
		if (shape_reg(s) != r)
			return JUMP_MADE_UNKNOWN;
		if (is_reg_form(s)) {
			*reg = shape_rm(s);
			return JUMP_MADE_UNKNOWN;
		}
		if (!is_indexed(s, 3))
			return is_plain_load(s) ? JUMP_MADE_BY_PLAIN_LOAD : JUMP_MADE_BY_LOAD;
		if (!constant_base(s, ret_base))
			*ret_base = 0;
		return JUMP_MADE_BY_TABLE;
	default:
		return JUMP_MADE_UNKNOWN;
	}
}

static enum jump_origin find_origin(const struct code_view *v, uint32_t jump, int reg, uint64_t *ret_base)
{
	for (uint32_t i = jump; i-- > 0 && jump - i <= LOOK_BACK; ) {
		enum jump_origin o;
		struct shape s;

		if (!shape_at(v, i, &s) || s.two_bytes)
			continue;
		if ((s.op & 0xf8) == 0x58 && ((s.op & 7) | (s.rex & 1) << 3) == reg)
			return JUMP_MADE_BY_LOAD;	/* pop */
		o = origin_of_write(&s, &reg, ret_base);
		if (o != JUMP_MADE_UNKNOWN)
			return o;
	}
	return JUMP_MADE_UNKNOWN;
}

/* Whether the function loads the address of a label of its own into this register. */
bool x86_takes_own_label(const struct code_view *v, int reg)
{
	for (uint32_t i = 0; i < v->n; i++) {
		struct shape s;
		int32_t disp;

		if (!shape_at(v, i, &s) || s.two_bytes || s.op != 0x8d || (s.modrm & 0xc7) != 5 ||
		    shape_reg(&s) != reg || s.end - s.disp < 4)
			continue;
		memcpy(&disp, s.disp, sizeof(disp));
		if (v->lo + v->at[i] + v->insns[i].len + disp - v->lo < v->hi - v->lo)
			return true;
	}
	return false;
}

/*
 * Whether the frame is released in the straight line that leads to the jump. Then it is a call of a computed
 * address (a symbol's value plus the base of its library), not a switch.
 */
bool x86_frame_goes(const struct code_view *v, uint32_t jump)
{
	for (uint32_t i = jump; i-- > 0 && jump - i <= 8; ) {
		uint8_t kind = v->insns[i].kind;
		struct shape s;

		if (kind == INSN_RET || kind == INSN_JMP || kind == INSN_JMP_IND)
			break;
		if (!shape_at(v, i, &s) || s.two_bytes)
			continue;
		if ((s.op & 0xf8) == 0x58 || s.op == 0xc9)	/* pop, leave */
			return true;
		if ((s.op == 0x83 || s.op == 0x81) && (s.modrm == 0xc4))	/* add $n, %rsp */
			return true;
		if (s.op == 0x01 || s.op == 0x03)
			break;
	}
	return false;
}

bool x86_jump_from(const struct code_view *v, uint32_t jump, int reg, struct jump_from *ret)
{
	struct shape s;

	*ret = (struct jump_from){ .reg = reg };
	if (reg < 0) {
		if (!shape_at(v, jump, &s))
			return false;
		ret->marked = s.notrack;
		if (!is_reg_form(&s)) {
			ret->reg = -1;
			ret->origin = is_indexed(&s, 3) ? JUMP_MADE_BY_TABLE : JUMP_MADE_BY_LOAD;
			if (!is_indexed(&s, 3) || !constant_base(&s, &ret->table))
				ret->table = 0;
			return true;
		}
		ret->reg = shape_rm(&s);
	}
	ret->origin = find_origin(v, jump, ret->reg, &ret->table);
	return true;
}
