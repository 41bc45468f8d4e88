/* SPDX-License-Identifier: MIT */
/*
 * Emulates the instructions that pads are made of: those of count.c, and the forms of relocate.c without memory. A thread that
 * was stopped has lost its exclusive access, so a store-exclusive fails here as it would there; the load before it, tried
 * again, is done together with the addition and the store.
 */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/encode.h"
#include "base/err.h"

#define NZCV_SHIFT 28

static bool holds(uint64_t flags, int cond)
{
	bool n = flags >> (NZCV_SHIFT + 3) & 1, z = flags >> (NZCV_SHIFT + 2) & 1, c = flags >> (NZCV_SHIFT + 1) & 1;
	bool v = flags >> NZCV_SHIFT & 1, yes;

	switch (cond >> 1) {
	case 0: yes = z; break;
	case 1: yes = c; break;
	case 2: yes = n; break;
	case 3: yes = v; break;
	case 4: yes = c && !z; break;
	case 5: yes = n == v; break;
	case 6: yes = n == v && !z; break;
	default: return true;
	}
	return yes != (cond & 1);
}

static uint64_t value_of(const struct cpu *c, int x)
{
	return x == A64_ZR ? 0 : c->reg[x];
}

static void set(struct cpu *c, int x, uint64_t v)
{
	if (x != A64_ZR)
		c->reg[x] = v;
}

/* Direct branches; false: it is none. */
static bool branch(struct cpu *c, const struct insn *in, uint32_t w)
{
	uint64_t v = value_of(c, w & 31);
	bool taken;

	if (in->kind == INSN_JMP)
		taken = true;
	else if (in->kind != INSN_JCC)
		return false;
	else if ((w & 0xff000000) == 0x54000000)
		taken = holds(c->flags, w & 15);
	else if ((w & 0x7e000000) == 0x36000000)
		taken = (v >> ((w >> 31) << 5 | (w >> 19 & 31)) & 1) == (w >> 24 & 1);
	else
		taken = ((w >> 31 ? v : (uint32_t)v) != 0) == (w >> 24 & 1);
	c->pc = taken ? in->target : c->pc + 4;
	return true;
}

/* The loop of put_exclusive(), from its load on. */
static int add_one(struct cpu *c, const struct cpu_memory *m, uint32_t w)
{
	int x = w & 31, n = w >> 5 & 31;
	uint32_t rest[3];
	int r = m->read(m->arg, c->pc + 4, rest, sizeof(rest));

	if (r < 0)
		return r;
	if (rest[0] != a64_add_imm(x, x, 1) || (rest[1] & 0xffe0ffff) != a64_stxr(0, x, n) || rest[2] >> 24 != 0x35)
		return -ENOTSUP;
	r = m->add(m->arg, c->reg[n], 1);
	if (r < 0)
		return r;
	set(c, rest[1] >> 16 & 31, 0);
	c->pc += 16;
	return 0;
}

static int pair(struct cpu *c, const struct cpu_memory *m, uint32_t w)
{
	int x = w & 31, n = w >> 5 & 31, y = w >> 10 & 31, r;
	int64_t off = 8 * a64_signed(w >> 15 & 0x7f, 7);
	bool load = w >> 22 & 1;
	int mode = w >> 23 & 3;			/* 1: post, 2: offset, 3: pre */
	uint64_t v[2] = { value_of(c, x), value_of(c, y) }, at = c->reg[n] + (mode == 1 ? 0 : off);

	r = load ? m->read(m->arg, at, v, sizeof(v)) : m->write(m->arg, at, &v[0], 8);
	if (r == 0 && !load)
		r = m->write(m->arg, at + 8, &v[1], 8);
	if (r < 0)
		return r;
	if (mode != 2)
		c->reg[n] += off;
	if (load) {
		set(c, x, v[0]);
		set(c, y, v[1]);
	}
	c->pc += 4;
	return 0;
}

/* ldr and str with a constant offset. */
static int one(struct cpu *c, const struct cpu_memory *m, uint32_t w)
{
	int x = w & 31;
	uint64_t v = value_of(c, x), at = c->reg[w >> 5 & 31] + 8 * (w >> 10 & 0xfff);
	bool load = w >> 22 & 1;
	int r = load ? m->read(m->arg, at, &v, 8) : m->write(m->arg, at, &v, 8);

	if (r < 0)
		return r;
	if (load)
		set(c, x, v);
	c->pc += 4;
	return 0;
}

static int compute(struct cpu *c, uint32_t w)
{
	int x = w & 31, n = w >> 5 & 31, shift = 16 * (w >> 21 & 3);
	uint64_t imm = (uint64_t)(w >> 5 & 0xffff) << shift;

	if ((w & 0xff800000) == 0xd2800000)
		set(c, x, imm);
	else if ((w & 0xff800000) == 0xf2800000)
		set(c, x, (value_of(c, x) & ~(0xffffull << shift)) | imm);
	else if ((w & 0xffc00000) == 0x91000000)
		c->reg[x] = c->reg[n] + (w >> 10 & 0xfff);
	else if ((w & 0xffc00000) == 0xd1000000)
		c->reg[x] = c->reg[n] - (w >> 10 & 0xfff);
	else if ((w & 0xffe0fc00) == a64_stxr(0, 0, 0))
		set(c, w >> 16 & 31, 1);
	else if (w != A64_NOP)
		return -ENOTSUP;
	c->pc += 4;
	return 0;
}

int a64_perform(struct cpu *c, const struct cpu_memory *m)
{
	uint8_t code[4];
	struct insn in;
	uint32_t w;
	int r = m->read(m->arg, c->pc, code, sizeof(code));

	if (r < 0)
		return r;
	r = a64_decode(code, sizeof(code), c->pc, &in);
	if (r < 0)
		return -ENOTSUP;
	w = a64_word(code);
	if (branch(c, &in, w))
		return 0;
	if ((w & 0xfffffc1f) == a64_br(0)) {
		c->pc = value_of(c, w >> 5 & 31);
		return 0;
	}
	if ((w & 0xfffffc00) == a64_ldxr(0, 0))
		return add_one(c, m, w);
	if ((w & 0xffe0fc1f) == a64_stadd(0, 0)) {
		r = m->add(m->arg, c->reg[w >> 5 & 31], value_of(c, w >> 16 & 31));
		c->pc += r == 0 ? 4 : 0;
		return r;
	}
	if ((w & 0xfe000000) == 0xa8000000 && (w >> 23 & 3))
		return pair(c, m, w);
	if ((w & 0xff800000) == 0xf9000000)
		return one(c, m, w);
	return compute(c, w);
}
