/* SPDX-License-Identifier: MIT */
/* The assembler's table for x86-64; integers and branches. */
#include "arch/x86/asm.h"
#include "arch/x86/x86.h"

#include <assert.h>
#include <string.h>

static const uint8_t kept[] = { RDI, RSI, R8, R9, R10, R11 };

int x86_reg(enum asm_reg r)
{
	static const uint8_t roles[] = {
		[ASM_A] = RAX, [ASM_B] = RCX, [ASM_C] = RDX, [ASM_D] = RSI, [ASM_E] = RDI, [ASM_SP] = RSP,
		[ASM_ARG0] = RDI, [ASM_ARG1] = RSI, [ASM_ARG2] = RDX, [ASM_ARG3] = RCX, [ASM_F] = RBX, [ASM_ASIDE] = R8,
	};

	if (r >= ASM_SITE)
		return r - ASM_SITE;
	if (r >= ASM_KEPT)
		return kept[r - ASM_KEPT];
	return roles[r];
}

static enum asm_reg site(unsigned int n)
{
	switch (n) {
	case RAX: return ASM_A;
	case RCX: return ASM_B;
	case RDX: return ASM_C;
	case RSP: return ASM_SP;
	}
	return ASM_SITE + n;
}

int x86_cc(enum asm_cond c)
{
	static const uint8_t cc[] = {
		[ASM_EQ] = 4, [ASM_NE] = 5, [ASM_ULT] = 2, [ASM_UGE] = 3, [ASM_ULE] = 6, [ASM_UGT] = 7,
		[ASM_LT] = 12, [ASM_GE] = 13, [ASM_LE] = 14, [ASM_GT] = 15, [ASM_NEG] = 8, [ASM_POS] = 9,
		[ASM_FLT_UN] = 2, [ASM_FGE] = 3, [ASM_FLE_UN] = 6, [ASM_FGT] = 7,
	};

	return cc[c];
}

/* ---- encoding ---- */

static void put_opcode(struct assembler *a, uint16_t opcode)
{
	if (opcode > 0xff)
		bytes(a, opcode >> 8);
	bytes(a, opcode);
}

static void put_rex(struct assembler *a, uint8_t rex)
{
	if (rex)
		bytes(a, 0x40 | rex);
}

static void put_prefix(struct assembler *a, uint8_t prefix)
{
	if (prefix)
		bytes(a, prefix);
}

void x86_enc_reg(struct assembler *a, uint8_t prefix, bool wide, uint16_t opcode, int reg, int rm)
{
	put_prefix(a, prefix);
	put_rex(a, wide << 3 | (reg & 8) >> 1 | (rm & 8) >> 3);
	put_opcode(a, opcode);
	bytes(a, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

/* The words of the frame, which are at the stack pointer, have a displacement always. */
static void put_address(struct assembler *a, int reg, const struct asm_operand *o)
{
	int base = x86_reg(o->reg) & 7, index = o->scale ? x86_reg(o->index) & 7 : RSP;
	bool has_sib = o->scale || base == RSP;
	uint8_t mod = o->far || o->off != (int8_t)o->off ? 0x80 : o->off || base == RSP || base == RBP ? 0x40 : 0;

	bytes(a, mod | (reg & 7) << 3 | (has_sib ? RSP : base));
	if (has_sib)
		bytes(a, (o->scale ? __builtin_ctz(o->scale) : 0) << 6 | index << 3 | base);
	if (mod == 0x80)
		asm_u32(a, o->off);
	else if (mod)
		bytes(a, o->off);
}

void x86_enc(struct assembler *a, uint8_t prefix, bool wide, uint16_t opcode, int reg, struct asm_operand o)
{
	uint8_t rex = wide << 3 | (reg & 8) >> 1;

	if (o.mode == ASM_IN_REG) {
		x86_enc_reg(a, prefix, wide, opcode, reg, x86_reg(o.reg));
		return;
	}
	if (o.mode == ASM_IN_TLS)
		bytes(a, 0x64);				/* %fs: */
	put_prefix(a, prefix);
	if (o.mode == ASM_IN_MEMORY)
		rex |= (x86_reg(o.reg) & 8) >> 3 | (o.scale ? (x86_reg(o.index) & 8) >> 2 : 0);
	put_rex(a, rex);
	put_opcode(a, opcode);
	if (o.mode == ASM_IN_MEMORY) {
		put_address(a, reg, &o);
	} else if (o.mode == ASM_IN_TLS) {
		bytes(a, 0x04 | (reg & 7) << 3, 0x25);
		asm_u32(a, o.off);
	} else {
		bytes(a, 0x05 | (reg & 7) << 3);	/* label(%rip) */
		asm_distance(a, o.label, 4);
	}
}

/* ---- moves ---- */

static void move(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_reg from)
{
	if (w == ASM_64 && x86_reg(to) == x86_reg(from))
		return;
	x86_enc_reg(a, 0, w == ASM_64, 0x89, x86_reg(from), x86_reg(to));
}

static void imm32(struct assembler *a, enum asm_reg to, uint32_t v)
{
	int r = x86_reg(to);

	put_rex(a, r >> 3);
	bytes(a, 0xb8 | (r & 7));			/* mov  $v,%reg32 */
	asm_u32(a, v);
}

void x86_asm_address(struct assembler *a, enum asm_reg to, uint64_t v)
{
	int r = x86_reg(to);

	bytes(a, 0x48 | r >> 3, 0xb8 | (r & 7));	/* movabs $v,%reg */
	asm_u64(a, v);
}

static void imm(struct assembler *a, enum asm_reg to, uint64_t v)
{
	int r = x86_reg(to);

	if (!v) {
		x86_enc_reg(a, 0, false, 0x31, r, r);	/* xor  %reg32,%reg32 */
	} else if (v <= UINT32_MAX) {
		imm32(a, to, v);
	} else if ((int64_t)v == (int32_t)v) {
		x86_enc_reg(a, 0, true, 0xc7, 0, r);	/* mov  $v,%reg, extended */
		asm_u32(a, v);
	} else {
		x86_asm_address(a, to, v);
	}
}

static void load(struct assembler *a, enum asm_type t, enum asm_reg to, struct asm_operand from)
{
	static const uint16_t how[] = {
		[ASM_U8] = 0x0fb6, [ASM_U16] = 0x0fb7, [ASM_U32] = 0x8b, [ASM_U64] = 0x8b,
		[ASM_I8] = 0x0fbe, [ASM_I16] = 0x0fbf, [ASM_I32] = 0x63,
	};

	x86_enc(a, 0, t != ASM_U32, how[t], x86_reg(to), from);
}

static void load_absolute(struct assembler *a, uint64_t from)
{
	bytes(a, 0xa1);					/* movabs from,%eax */
	asm_u64(a, from);
}

static void store(struct assembler *a, enum asm_width w, enum asm_reg from, struct asm_operand to)
{
	x86_enc(a, w == ASM_16 ? PREFIX_16 : 0, w == ASM_64, w == ASM_8 ? 0x88 : 0x89, x86_reg(from), to);
}

static void store_imm(struct assembler *a, enum asm_width w, struct asm_operand to, int32_t v)
{
	assert(w == ASM_32 || w == ASM_64);
	x86_enc(a, 0, w == ASM_64, 0xc7, 0, to);
	asm_u32(a, v);
}

static void lea(struct assembler *a, enum asm_width w, enum asm_reg to, struct asm_operand of)
{
	x86_enc(a, 0, w == ASM_64, 0x8d, x86_reg(to), of);
}

static void extend(struct assembler *a, enum asm_type t, enum asm_reg to, enum asm_reg from)
{
	static const uint16_t how[] = { [ASM_U8] = 0x0fb6, [ASM_U16] = 0x0fb7, [ASM_I8] = 0x0fbe, [ASM_I16] = 0x0fbf, [ASM_I32] = 0x63 };

	if (t == ASM_U64)
		move(a, ASM_64, to, from);
	else if (t == ASM_U32)
		move(a, ASM_32, to, from);
	else if (t == ASM_I32 && x86_reg(to) == RAX && x86_reg(from) == RAX)
		bytes(a, 0x48, 0x98);			/* cltq */
	else
		x86_enc_reg(a, 0, t >= ASM_I8, how[t], x86_reg(to), x86_reg(from));
}

static void select_if(struct assembler *a, enum asm_cond c, enum asm_reg to, enum asm_reg from)
{
	x86_enc_reg(a, 0, true, 0x0f40 | x86_cc(c), x86_reg(to), x86_reg(from));	/* cmovcc */
}

static void set(struct assembler *a, enum asm_cond c, enum asm_reg to)
{
	x86_enc_reg(a, 0, false, 0x0f90 | x86_cc(c), 0, x86_reg(to));			/* setcc */
}

/* ---- integers ---- */

/* The digit of an operation, which is in its opcodes as well. */
static const uint8_t digits[] = {
	[ASM_ADD] = 0, [ASM_OR] = 1, [ASM_SBB] = 3, [ASM_AND] = 4, [ASM_SUB] = 5, [ASM_XOR] = 6, [ASM_CMP] = 7,
};

static void alu_to(struct assembler *a, enum asm_alu op, enum asm_width w, struct asm_operand to, enum asm_reg from)
{
	uint8_t opcode = op == ASM_TEST ? 0x84 : digits[op] << 3;

	x86_enc(a, w == ASM_16 ? PREFIX_16 : 0, w == ASM_64, opcode | (w != ASM_8), x86_reg(from), to);
}

static void alu(struct assembler *a, enum asm_alu op, enum asm_width w, enum asm_reg to, enum asm_reg from)
{
	alu_to(a, op, w, asm_in(to), from);
}

static void alu_from(struct assembler *a, enum asm_alu op, enum asm_width w, enum asm_reg to, struct asm_operand from)
{
	assert(op != ASM_TEST);
	x86_enc(a, w == ASM_16 ? PREFIX_16 : 0, w == ASM_64, digits[op] << 3 | 2 | (w != ASM_8), x86_reg(to), from);
}

static void alu_imm(struct assembler *a, enum asm_alu op, enum asm_width w, struct asm_operand to, int32_t v)
{
	bool is_byte = v == (int8_t)v && !(to.mode == ASM_IN_REG && to.far);

	assert(op != ASM_TEST && (is_byte || w >= ASM_32));
	if (w == ASM_8 && to.mode == ASM_IN_REG && x86_reg(to.reg) == RAX) {
		bytes(a, digits[op] << 3 | 4, v);	/* op   $v,%al */
		return;
	}
	x86_enc(a, w == ASM_16 ? PREFIX_16 : 0, w == ASM_64, w == ASM_8 ? 0x80 : is_byte ? 0x83 : 0x81, digits[op], to);
	if (is_byte)
		bytes(a, v);
	else
		asm_u32(a, v);
}

static void alu_wide(struct assembler *a, enum asm_alu op, enum asm_width w, enum asm_reg to, int32_t v)
{
	assert(op != ASM_TEST && w >= ASM_32);
	if (x86_reg(to) == RAX) {
		put_rex(a, w == ASM_64 ? 8 : 0);
		bytes(a, digits[op] << 3 | 5);		/* op   $v,%eax */
	} else {
		x86_enc_reg(a, 0, w == ASM_64, 0x81, digits[op], x86_reg(to));
	}
	asm_u32(a, v);
}

static void unary(struct assembler *a, enum asm_unary op, enum asm_width w, struct asm_operand to)
{
	static const struct { uint8_t opcode, digit; } how[] = {
		[ASM_NOT] = { 0xf7, 2 }, [ASM_MINUS] = { 0xf7, 3 }, [ASM_INC] = { 0xff, 0 }, [ASM_DEC] = { 0xff, 1 },
	};

	assert(w >= ASM_32);
	x86_enc(a, 0, w == ASM_64, how[op].opcode, how[op].digit, to);
}

static const uint8_t shifts[] = { [ASM_SHL] = 4, [ASM_SHR] = 5, [ASM_SAR] = 7, [ASM_ROL] = 0 };

static void shift(struct assembler *a, enum asm_shift op, enum asm_width w, enum asm_reg to, unsigned int n)
{
	x86_enc_reg(a, 0, w == ASM_64, 0xc1, shifts[op], x86_reg(to));
	bytes(a, n);
}

static void shift_by(struct assembler *a, enum asm_shift op, enum asm_reg to)
{
	x86_enc_reg(a, 0, true, 0xd3, shifts[op], x86_reg(to));
}

static void mul(struct assembler *a, enum asm_reg to, enum asm_reg by)
{
	x86_enc_reg(a, 0, true, 0x0faf, x86_reg(to), x86_reg(by));
}

static void mul_imm(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_reg from, int32_t by)
{
	x86_enc_reg(a, 0, w == ASM_64, 0x69, x86_reg(to), x86_reg(from));
	asm_u32(a, by);
}

static void mul_full(struct assembler *a, enum asm_reg by)
{
	x86_enc_reg(a, 0, true, 0xf7, 4, x86_reg(by));
}

static void divide(struct assembler *a, enum asm_reg by)
{
	bytes(a, 0x48, 0x99);				/* cqto */
	x86_enc_reg(a, 0, true, 0xf7, 7, x86_reg(by));	/* idiv */
}

static void udiv(struct assembler *a, enum asm_reg by)
{
	x86_enc_reg(a, 0, true, 0xf7, 6, x86_reg(by));
}

static void swap(struct assembler *a, enum asm_width w, enum asm_reg to)
{
	int r = x86_reg(to);

	if (w == ASM_16) {
		x86_enc_reg(a, PREFIX_16, false, 0xc1, shifts[ASM_ROL], r);
		bytes(a, 8);
		extend(a, ASM_U16, to, to);
		return;
	}
	put_rex(a, (w == ASM_64) << 3 | r >> 3);
	bytes(a, 0x0f, 0xc8 | (r & 7));			/* bswap */
}

static void bit_flip(struct assembler *a, enum asm_reg to, unsigned int bit)
{
	x86_enc_reg(a, 0, true, 0x0fba, 7, x86_reg(to));	/* btc */
	bytes(a, bit);
}

static void highest_bit(struct assembler *a, enum asm_reg to, enum asm_reg of)
{
	x86_enc_reg(a, 0, true, 0x0fbd, x86_reg(to), x86_reg(of));	/* bsr */
}

/* ---- branches ---- */

static void jump(struct assembler *a, asm_label to)
{
	bytes(a, 0xe9);
	asm_distance(a, to, 4);
}

static void jump_short(struct assembler *a, asm_label to)
{
	bytes(a, 0xeb);
	asm_distance(a, to, 1);
}

static void jump_as_branch(struct assembler *a, asm_label to)
{
	bytes(a, 0x90);					/* nop */
	jump(a, to);
}

static void branch(struct assembler *a, enum asm_cond c, asm_label to)
{
	bytes(a, 0x0f, 0x80 | x86_cc(c));
	asm_distance(a, to, 4);
}

static void branch_short(struct assembler *a, enum asm_cond c, asm_label to)
{
	bytes(a, 0x70 | x86_cc(c));
	asm_distance(a, to, 1);
}

static void branch_b_zero(struct assembler *a, asm_label to)
{
	bytes(a, 0xe3);					/* jrcxz */
	asm_distance(a, to, 1);
}

static void call(struct assembler *a, uint64_t to)
{
	x86_asm_address(a, ASM_A, to);
	bytes(a, 0xff, 0xd0);				/* call *%rax */
}

static void call_label(struct assembler *a, asm_label to)
{
	bytes(a, 0xe8);
	asm_distance(a, to, 4);
}

static void ret(struct assembler *a)
{
	bytes(a, 0xc3);
}

static bool reach(uint8_t *at, unsigned int size, int64_t distance)
{
	int32_t rel = distance;

	if (rel != distance || (size == 1 && rel != (int8_t)rel))
		return false;
	memcpy(at, &rel, size);
	return true;
}

/* ---- atomic ---- */

static void atomic_inc(struct assembler *a, struct asm_operand to)
{
	x86_enc(a, PREFIX_LOCK, true, 0xff, 0, to);
}

static void atomic_add(struct assembler *a, struct asm_operand to, enum asm_reg n)
{
	x86_enc(a, PREFIX_LOCK, true, 0x01, x86_reg(n), to);
}

static void atomic_add_imm(struct assembler *a, struct asm_operand to, int32_t n)
{
	x86_enc(a, PREFIX_LOCK, false, 0x81, 0, to);
	asm_u32(a, n);
}

static void atomic_fetch_add(struct assembler *a, struct asm_operand to, enum asm_reg n)
{
	x86_enc(a, PREFIX_LOCK, true, 0x0fc1, x86_reg(n), to);	/* xadd */
}

static void atomic_cas(struct assembler *a, struct asm_operand to, enum asm_reg v)
{
	x86_enc(a, PREFIX_LOCK, true, 0x0fb1, x86_reg(v), to);	/* cmpxchg */
}

static void atomic_cas_pair(struct assembler *a, struct asm_operand to)
{
	x86_enc(a, PREFIX_LOCK, true, 0x0fc7, 1, to);			/* cmpxchg16b */
}

static void atomic_set_bit(struct assembler *a, enum asm_reg base, enum asm_reg bit)
{
	x86_enc(a, PREFIX_LOCK, true, 0x0fab, x86_reg(bit), asm_at(base, 0));	/* bts */
}

const struct asm_ops x86_asm = {
	.red_zone = 128, .nregs = 16, .nkept = sizeof(kept), .fill = 0xcc, .float_room = 40, .page_shift = 12, .site = site,
	.move = move, .imm = imm, .imm32 = imm32, .address = x86_asm_address, .load = load, .load_absolute = load_absolute,
	.store = store, .store_imm = store_imm, .lea = lea, .extend = extend, .select = select_if, .set = set,
	.alu = alu, .alu_from = alu_from, .alu_to = alu_to, .alu_imm = alu_imm, .alu_wide = alu_wide, .unary = unary,
	.shift = shift, .shift_by = shift_by, .mul = mul, .mul_imm = mul_imm, .mul_full = mul_full, .div = divide,
	.udiv = udiv, .swap = swap, .bit_flip = bit_flip, .highest_bit = highest_bit,
	.jump = jump, .jump_short = jump_short, .jump_as_branch = jump_as_branch, .branch = branch,
	.branch_short = branch_short, .branch_b_zero = branch_b_zero, .call = call, .call_label = call_label, .ret = ret,
	.reach = reach, .atomic_inc = atomic_inc, .atomic_add = atomic_add, .atomic_add_imm = atomic_add_imm,
	.atomic_fetch_add = atomic_fetch_add, .atomic_cas = atomic_cas, .atomic_cas_pair = atomic_cas_pair, .atomic_set_bit = atomic_set_bit,
	.vload = x86_vload, .vstore = x86_vstore, .vstore_site = x86_vstore_site, .vmove = x86_vmove, .vset = x86_vset,
	.vget = x86_vget, .farith = x86_farith, .farith_from = x86_farith_from, .fcmp = x86_fcmp,
	.fset_equal = x86_fset_equal, .fzero = x86_fzero, .widen = x86_widen, .widen_from = x86_widen_from,
	.narrow = x86_narrow, .from_int = x86_from_int, .from_unsigned = x86_from_unsigned, .to_int = x86_to_int,
	.to_unsigned = x86_to_unsigned, .float_enter = x86_float_enter, .float_leave = x86_float_leave,
	.flags_take = x86_flags_take, .flags_give = x86_flags_give, .flags_show = x86_flags_show, .c_enter = x86_c_enter,
	.c_leave = x86_c_leave, .note_saved = x86_note_saved, .ticks = x86_ticks, .cpu = x86_cpu,
	.thread = x86_thread, .ask_room = x86_ask_room, .seq_begin = x86_seq_begin,
	.seq_commit = x86_seq_commit, .seq_rest = x86_seq_rest,
};
