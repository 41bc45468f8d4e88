/* SPDX-License-Identifier: MIT */
/*
 * Indirect jumps: which of them stay inside the function, and where they go. Compilers emit a switch in two ways:
 *
 *	lea T(%rip),%a; movslq (%a,%i,4),%b; add %a,%b; jmp *%b		distances from T, 4 bytes each
 *	jmp *T(,%i,8)    or    mov (%a,%i,8),%b; jmp *%b		addresses, 8 bytes each
 *
 * For the first kind every address that the function takes with lea is tried as a table and read for as long as its
 * entries lead to instructions of this function. LLVM fills unused entries with the address of the function's end:
 * not a target, but the table continues. A false table only adds targets that are not needed. Addresses of the
 * second kind are found by their relocations (code_pointers()); here it is only decided whether the jump stays
 * inside. All other jumps are tail calls, except sums whose target is unknown: these are counted as lost.
 *
 * The decoder returns no operands, hence the small reader of raw bytes here; it knows only these instructions.
 */
#include "pad/code_priv.h"

#include <string.h>

#define TABLE_MAX 65536		/* most entries of one table that are read */
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

bool code_is_lea(const uint8_t *p, size_t len)
{
	struct shape s;

	return read_shape(p, len, &s) && s.op == 0x8d && !s.two_bytes;
}

/* Whether this is an immediate of mov or push that may be an address, as in programs at fixed addresses. */
bool code_imm_address(const uint8_t *p, size_t len, uint64_t *ret_value)
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

static bool shape_at(const struct body *b, uint32_t insn, struct shape *ret_shape)
{
	return read_shape(b->bytes + b->at[insn], b->f.insns.v[insn].len, ret_shape);
}

/* A load from a variable of the frame, or from the sum of two registers: unoptimized code reads a table like that. */
static bool is_plain_load(const struct shape *s)
{
	int base = (s->modrm & 7) == 4 ? s->sib & 7 : s->modrm & 7;

	return is_indexed(s, 0) || (!(s->rex & 1) && (base == 4 || (base == 5 && s->modrm >> 6)));
}

/* How the value of the register of a `jmp *reg` was computed. */
enum origin { MADE_UNKNOWN, MADE_BY_SUM, MADE_BY_LOAD, MADE_BY_PLAIN_LOAD, MADE_BY_LOAD8 };

static enum origin origin_of_write(const struct shape *s, int *reg, uint64_t *ret_base)
{
	int r = *reg;

	switch (s->op) {
	case 0x01:	/* add reg, rm */
	case 0x29:	/* sub reg, rm */
		return is_reg_form(s) && shape_rm(s) == r ? MADE_BY_SUM : MADE_UNKNOWN;
	case 0x03:	/* add rm, reg */
	case 0x2b:	/* sub rm, reg */
		return shape_reg(s) == r ? MADE_BY_SUM : MADE_UNKNOWN;
	case 0x8d:	/* lea (a,b), reg */
		return shape_reg(s) == r && is_indexed(s, 0) ? MADE_BY_SUM : MADE_UNKNOWN;
	case 0x89:	/* mov reg, rm: follow the copy */
		if (is_reg_form(s) && shape_rm(s) == r)
			*reg = shape_reg(s);
		return MADE_UNKNOWN;
	case 0x8b:
		if (shape_reg(s) != r)
			return MADE_UNKNOWN;
		if (is_reg_form(s)) {
			*reg = shape_rm(s);
			return MADE_UNKNOWN;
		}
		if (!is_indexed(s, 3))
			return is_plain_load(s) ? MADE_BY_PLAIN_LOAD : MADE_BY_LOAD;
		if (!constant_base(s, ret_base))
			*ret_base = 0;
		return MADE_BY_LOAD8;
	default:
		return MADE_UNKNOWN;
	}
}

static enum origin find_origin(const struct body *b, uint32_t jump, int reg, uint64_t *ret_base)
{
	for (uint32_t i = jump; i-- > 0 && jump - i <= LOOK_BACK; ) {
		enum origin o;
		struct shape s;

		if (!shape_at(b, i, &s) || s.two_bytes)
			continue;
		if ((s.op & 0xf8) == 0x58 && ((s.op & 7) | (s.rex & 1) << 3) == reg)
			return MADE_BY_LOAD;	/* pop */
		o = origin_of_write(&s, &reg, ret_base);
		if (o != MADE_UNKNOWN)
			return o;
	}
	return MADE_UNKNOWN;
}

/* Whether the function loads the address of a label of its own into this register. */
static bool takes_own_label(const struct body *b, int reg)
{
	for (uint32_t i = 0; i < b->f.insns.n; i++) {
		struct shape s;
		int32_t disp;

		if (!shape_at(b, i, &s) || s.two_bytes || s.op != 0x8d || (s.modrm & 0xc7) != 5 ||
		    shape_reg(&s) != reg || s.end - s.disp < 4)
			continue;
		memcpy(&disp, s.disp, sizeof(disp));
		if (body_holds(b, b->f.lo + b->at[i] + b->f.insns.v[i].len + disp))
			return true;
	}
	return false;
}

/*
 * Whether the frame is released in the straight line that leads to the jump. Then it is a call of a computed
 * address (a symbol's value plus the base of its library), not a switch.
 */
static bool frame_goes(const struct body *b, uint32_t jump)
{
	for (uint32_t i = jump; i-- > 0 && jump - i <= 8; ) {
		uint8_t kind = b->f.insns.v[i].kind;
		struct shape s;

		if (kind == INSN_RET || kind == INSN_JMP || kind == INSN_JMP_IND)
			break;
		if (!shape_at(b, i, &s) || s.two_bytes)
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

/*
 * Whether `to` is in a cold part of this function, or this is a cold part of that function: one of them is marked
 * cold and they branch to each other; or a plain branch of this function leads to the same address, like the
 * default of a switch.
 */
static bool is_related(struct code *c, struct body *b, size_t num, uint64_t to)
{
	struct body *other;

	if (num == NO_FUNC || num == b->num)
		return false;
	for (size_t i = 0; i < b->outs.n; i++)
		if (b->outs.v[i].to == to)
			return true;
	if (!((c->m->funcs.v[num].flags | b->f.func->flags) & FUNC_COLD))
		return false;
	for (size_t i = 0; i < b->outs.n; i++)
		if (code_find(c, b->outs.v[i].to) == num)
			return true;
	other = code_raw(c, num);
	for (size_t i = 0; i < other->outs.n; i++)
		if (body_holds(b, other->outs.v[i].to))
			return true;
	return false;
}

/*
 * Adds the target of one entry; false if it can't be an entry: the table ends there. Counts the entries that lead
 * to an instruction.
 */
static bool take_entry(struct code *c, struct body *b, uint64_t from, uint64_t to, size_t *found)
{
	struct body *other;
	size_t num;

	if (to == b->f.end)
		return true;
	if (body_holds(b, to)) {
		if (b->f.index[to - b->f.lo] == NO_INSN)
			return false;
		body_mark(b, to, TARGET_TABLE);
		++*found;
		return true;
	}
	num = code_find(c, to);
	if (!is_related(c, b, num, to))
		return false;
	other = code_raw(c, num);
	if (other->f.index[to - other->f.lo] == NO_INSN)
		return false;
	*vec_add(&b->outs) = (struct out_edge){ from, to, INSN_JMP_IND };
	++*found;
	return true;
}

/* Another table of this function begins there: this one has ended. */
static bool begins_other(const struct body *b, uint64_t addr)
{
	size_t i = addr_lower(&b->leas, addr);

	return i < b->leas.n && b->leas.v[i] == addr;
}

static bool read_distance(struct code *c, uint64_t at, int32_t *ret_distance)
{
	const uint8_t *p = module_bytes(c->m, at, sizeof(*ret_distance));

	if (p)
		memcpy(ret_distance, p, sizeof(*ret_distance));
	return p;
}

/* Distances count from `base`, which is the table itself in compiled code. */
static size_t read_table4(struct code *c, struct body *b, uint64_t table, uint64_t base, uint64_t jump)
{
	size_t found = 0;

	for (size_t n = 0; n < TABLE_MAX; n++) {
		int32_t distance;

		if (n && begins_other(b, table + 4 * n))
			break;
		if (!read_distance(c, table + 4 * n, &distance) ||
		    !take_entry(c, b, jump, base + distance, &found))
			break;
	}
	return found;
}

/* Whether the table's entries may be distances from this label. Five in a row are taken as proof. */
static bool fits_label(struct code *c, const struct body *b, uint64_t table, uint64_t label)
{
	for (size_t n = 0; n < 5; n++) {
		int32_t distance;
		uint64_t to;

		if (!read_distance(c, table + 4 * n, &distance))
			return false;
		to = label + distance;
		if (!body_holds(b, to) || b->f.index[to - b->f.lo] == NO_INSN)
			return false;
	}
	return true;
}

/* In glibc's printf the distances count from a label of its own, which it takes with lea as well. */
static size_t try_labels(struct code *c, struct body *b, uint64_t table, uint64_t jump)
{
	size_t found = 0;

	for (size_t i = addr_lower(&b->leas, b->f.lo); i < b->leas.n && body_holds(b, b->leas.v[i]); i++)
		if (fits_label(c, b, table, b->leas.v[i]))
			found += read_table4(c, b, table, b->leas.v[i], jump);
	return found;
}

static size_t read_table8(struct code *c, struct body *b, uint64_t table, uint64_t jump)
{
	size_t found = 0;

	for (size_t n = 0; n < TABLE_MAX; n++) {
		const uint8_t *p = module_bytes(c->m, table + 8 * n, 8);
		uint64_t to;

		if (!p)
			break;
		memcpy(&to, p, sizeof(to));
		if (!take_entry(c, b, jump, to, &found))
			break;
	}
	return found;
}

/* Tries every lea of the function: the one for this jump may be far away from it. */
static size_t try_tables4(struct code *c, struct body *b, uint64_t jump)
{
	size_t found = 0;

	addr_sort(&b->leas);
	for (size_t i = 0; i < b->leas.n; i++) {
		uint64_t table = b->leas.v[i];
		size_t n;

		if (body_holds(b, table))
			continue;
		n = read_table4(c, b, table, table, jump);
		found += n ? n : try_labels(c, b, table, jump);
	}
	return found;
}

/* Whether there are pointers into the body other than to its entry. */
static bool has_inner_pointers(struct code *c, const struct body *b)
{
	const addr_list *list = code_pointers(c);
	size_t i = addr_lower(list, b->f.lo + 1);

	return i < list->n && list->v[i] < b->f.end;
}

static enum indirect classify_table8(struct code *c, struct body *b, uint64_t base, uint64_t jump)
{
	if (base)
		return read_table8(c, b, base, jump) ? IND_TABLE : IND_TAIL;
	return has_inner_pointers(c, b) ? IND_TABLE : IND_TAIL;
}

static enum indirect classify(struct code *c, struct body *b, uint64_t addr)
{
	uint32_t insn = b->f.index[addr - b->f.lo];
	uint64_t base = 0;
	struct shape s;

	if (!shape_at(b, insn, &s))
		return IND_TAIL;
	if (!is_reg_form(&s)) {
		if (!is_indexed(&s, 3))
			return IND_TAIL;
		if (!constant_base(&s, &base))
			base = 0;
		return classify_table8(c, b, base, addr);
	}
	return code_jump_by(c, b, insn, shape_rm(&s), s.notrack);
}

/* Classifies the jump at instruction `insn` to the address in a register. */
enum indirect code_jump_by(struct code *c, struct body *b, uint32_t insn, int reg, bool notrack)
{
	uint64_t base = 0;

	switch (find_origin(b, insn, reg, &base)) {
	case MADE_BY_SUM:
		return frame_goes(b, insn) ? IND_TAIL : IND_LOST;	/* counts as lost until a table is found */
	case MADE_BY_LOAD8:
		return classify_table8(c, b, base, b->f.lo + b->at[insn]);
	case MADE_BY_PLAIN_LOAD:
		return has_inner_pointers(c, b) && !frame_goes(b, insn) ? IND_TABLE : IND_TAIL;
	case MADE_BY_LOAD:
		return IND_TAIL;
	default:
		return takes_own_label(b, reg) ? IND_TABLE : notrack ? IND_LOST : IND_TAIL;
	}
}

void code_find_tables(struct code *c, struct body *b)
{
	uint64_t sum = 0;
	size_t found;

	if (b->tables_done)
		return;
	b->tables_done = true;
	if (c->arch->one_insn) {	/* targets don't matter, only whether the jump leaves the function */
		for (size_t i = 0; i < b->inds.n; i++)
			b->inds.v[i].what = c->arch->stays(b->bytes + (b->inds.v[i].addr - b->f.lo), b->inds.v[i].addr - b->f.lo) ?
					    IND_TABLE : IND_TAIL;
		return;
	}
	for (size_t i = 0; i < b->inds.n; i++)
		b->inds.v[i].what = classify(c, b, b->inds.v[i].addr);
	code_find_thunks(c, b);
	for (size_t i = 0; i < b->inds.n; i++)
		if (b->inds.v[i].what == IND_LOST)
			sum = b->inds.v[i].addr;
	if (!sum)
		return;
	found = try_tables4(c, b, sum);
	for (size_t i = 0; i < b->inds.n && found; i++)
		if (b->inds.v[i].what == IND_LOST)
			b->inds.v[i].what = IND_TABLE;
}
