/* SPDX-License-Identifier: MIT */
/*
 * Emulates one instruction. It knows the integer instructions that generated code is made of and returns -ENOTSUP
 * for every other one: the caller must then let the thread itself run.
 *
 * The lock of a ring is always found taken: only a thread of the target can be its owner, and code that finds no
 * ring counts the event as lost. The other forms of compare-and-exchange that are known work on a ring whose lock
 * the thread already holds.
 */
#include "arch/x86/x86.h"

#include <stdbool.h>
#include <string.h>
#include "arch/cpu.h"
#include "arch/x86/arith.h"
#include "base/err.h"

enum { RAX = 0, RCX = 1, RDX = 2, RBX = 3, RSP = 4, RSI = 6, RDI = 7, R11 = 11 };

/* An instruction that is being emulated. The first error stays; nothing after it has an effect. */
struct doing {
	struct cpu *c;
	const struct cpu_memory *m;
	uint8_t code[INSN_MAX + 1];
	unsigned n, at;
	uint8_t rex;
	bool fs, lock;
	unsigned size;		/* size of the operands: 1, 4 or 8 */
	bool in_memory;		/* the ModRM operand is in memory */
	unsigned reg, rm;
	uint64_t addr;
	int err;
};

static void stop(struct doing *d, int err)
{
	if (!d->err)
		d->err = err;
}

static uint8_t next8(struct doing *d)
{
	if (d->at < d->n)
		return d->code[d->at++];
	stop(d, -EFAULT);
	return 0;
}

static uint64_t next(struct doing *d, unsigned len)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < len; i++)
		v |= (uint64_t)next8(d) << 8 * i;
	return v;
}

static uint64_t next_signed(struct doing *d, unsigned len)
{
	uint64_t v = next(d, len);

	return len == 1 ? (uint64_t)(int8_t)v : (uint64_t)(int32_t)v;
}

static uint64_t load(struct doing *d, uint64_t at, unsigned size)
{
	uint64_t v = 0;
	int r = d->err ? d->err : d->m->read(d->m->arg, at, &v, size);

	if (r < 0)
		stop(d, r);
	return v;
}

static void store(struct doing *d, uint64_t at, unsigned size, uint64_t v)
{
	int r = d->err ? d->err : d->m->write(d->m->arg, at, &v, size);

	if (r < 0)
		stop(d, r);
}

/* Without REX, byte registers 4 to 7 are ah to bh, which generated code never uses. */
static bool is_high_byte(const struct doing *d, unsigned n)
{
	return d->size == 1 && !d->rex && n >= 4;
}

static uint64_t get_reg(struct doing *d, unsigned n)
{
	if (is_high_byte(d, n))
		stop(d, -ENOTSUP);
	return cut(d->c->reg[n], d->size);
}

static void set_reg(struct doing *d, unsigned n, uint64_t v)
{
	if (is_high_byte(d, n))
		stop(d, -ENOTSUP);
	if (d->err)
		return;
	if (d->size == 1)
		d->c->reg[n] = (d->c->reg[n] & ~0xffull) | (uint8_t)v;
	else
		d->c->reg[n] = cut(v, d->size);
}

static uint64_t get_rm(struct doing *d)
{
	return d->in_memory ? load(d, d->addr, d->size) : get_reg(d, d->rm);
}

static void set_rm(struct doing *d, uint64_t v)
{
	if (d->in_memory)
		store(d, d->addr, d->size, v);
	else
		set_reg(d, d->rm, v);
}

static uint64_t read_sib(struct doing *d, unsigned mod)
{
	uint8_t sib = next8(d);
	unsigned index = (sib >> 3 & 7) | (d->rex & 2) << 2, base = (sib & 7) | (d->rex & 1) << 3;
	uint64_t at = 0;

	if (index != RSP)
		at += d->c->reg[index] << (sib >> 6);
	if ((base & 7) == 5 && mod == 0)
		return at + next_signed(d, 4);
	return at + d->c->reg[base];
}

/* imm: bytes that follow the operand, since rip-relative addresses count from the end of the instruction. */
static void read_modrm(struct doing *d, unsigned imm)
{
	uint8_t modrm = next8(d);
	unsigned mod = modrm >> 6;

	d->reg = (modrm >> 3 & 7) | (d->rex & 4) << 1;
	d->rm = (modrm & 7) | (d->rex & 1) << 3;
	d->in_memory = mod != 3;
	if (!d->in_memory)
		return;
	if ((modrm & 7) == 4) {
		d->addr = read_sib(d, mod);
	} else if ((modrm & 7) == 5 && mod == 0) {
		d->addr = next_signed(d, 4);
		d->addr += d->c->pc + d->at + imm;
	} else {
		d->addr = d->c->reg[d->rm];
	}
	if (mod)
		d->addr += next_signed(d, mod == 1 ? 1 : 4);
	if (d->fs)
		d->addr += d->c->tls;
}

static void set_flags(struct doing *d, uint64_t which, uint64_t value)
{
	d->c->flags = (d->c->flags & ~which) | (value & which);
}

static uint64_t arithmetic(struct doing *d, unsigned op, uint64_t a, uint64_t b)
{
	return arith_do(op, a, cut(b, d->size), d->size, &d->c->flags);
}

static bool condition(const struct cpu *c, unsigned n)
{
	return arith_condition(c->flags, n);
}

static void push(struct doing *d, uint64_t v)
{
	store(d, d->c->reg[RSP] - 8, 8, v);
	if (!d->err)
		d->c->reg[RSP] -= 8;
}

static uint64_t pop(struct doing *d)
{
	uint64_t v = load(d, d->c->reg[RSP], 8);

	if (!d->err)
		d->c->reg[RSP] += 8;
	return v;
}

/* Jumps count from the end of the instruction; x86_perform() adds its length. */
static void jump_by(struct doing *d, uint64_t distance)
{
	d->c->pc += distance;
}

/* add, or, ... cmp in their six forms. */
static void do_arithmetic(struct doing *d, uint8_t op)
{
	unsigned what = op >> 3, form = op & 7;
	uint64_t v;

	if (!(form & 1))
		d->size = 1;
	if (form >= 4) {
		v = arithmetic(d, what, get_reg(d, RAX), next_signed(d, d->size == 1 ? 1 : 4));
		if (what != ARITH_CMP)
			set_reg(d, RAX, v);
		return;
	}
	read_modrm(d, 0);
	if (form < 2) {
		v = arithmetic(d, what, get_rm(d), get_reg(d, d->reg));
		if (what != ARITH_CMP)
			set_rm(d, v);
		return;
	}
	v = arithmetic(d, what, get_reg(d, d->reg), get_rm(d));
	if (what != ARITH_CMP)
		set_reg(d, d->reg, v);
}

static void do_group1(struct doing *d, unsigned imm)
{
	uint64_t b, v;

	read_modrm(d, imm);
	b = next_signed(d, imm);
	v = arithmetic(d, d->reg & 7, get_rm(d), b);
	if ((d->reg & 7) != ARITH_CMP)
		set_rm(d, v);
}

static void do_shift(struct doing *d)
{
	unsigned by, bits = 8 * d->size;
	uint64_t v, out, turned;

	read_modrm(d, 1);
	by = next8(d) & (bits - 1);
	v = get_rm(d);
	if (!by || ((d->reg & 7) != 4 && (d->reg & 7) != 5)) {
		if (by)
			stop(d, -ENOTSUP);
		return;
	}
	out = (d->reg & 7) == 4 ? v >> (bits - by) & 1 : v >> (by - 1) & 1;
	turned = v;
	v = cut((d->reg & 7) == 4 ? v << by : v >> by, d->size);
	turned = (turned ^ v) >> (bits - 1) & 1;	/* OF of a shift by one: whether the sign has changed */
	set_rm(d, v);
	set_flags(d, STATUS, arith_flags(v, d->size) | (out ? CF : 0) | (turned ? OF : 0));
}

/* The only memory that other threads change at the same time. */
static void do_locked_inc(struct doing *d)
{
	uint64_t v = load(d, d->addr, 8);
	int r;

	if (d->size != 8 || !d->in_memory) {
		stop(d, -ENOTSUP);
		return;
	}
	r = d->err ? d->err : d->m->add(d->m->arg, d->addr, 1);
	if (r < 0)
		stop(d, r);
	arith_inc(v, d->size, &d->c->flags);
}

static void do_group5(struct doing *d)
{
	uint64_t v;

	read_modrm(d, 0);
	if (d->lock) {
		if (d->reg & 7)
			stop(d, -ENOTSUP);
		do_locked_inc(d);
		return;
	}
	if ((d->reg & 7) >= 2)
		d->size = 8;
	v = get_rm(d);
	switch (d->reg & 7) {
	case 0:
		set_rm(d, arith_inc(v, d->size, &d->c->flags));
		break;
	case 1:
		set_rm(d, arith_dec(v, d->size, &d->c->flags));
		break;
	case 2:
		push(d, d->c->pc + d->at);
		/* fall through */
	case 4:
		d->c->pc = v - d->at;
		break;
	case 6:
		push(d, v);
		break;
	default:
		stop(d, -ENOTSUP);
	}
}

/* pop computes the address it stores to with the stack pointer after the pop. */
static void do_pop_rm(struct doing *d)
{
	unsigned begin = d->at;
	uint64_t v = pop(d);

	d->at = begin;
	read_modrm(d, 0);
	d->size = 8;
	if (d->reg & 7)
		stop(d, -ENOTSUP);
	set_rm(d, v);
}

static void do_lahf(struct doing *d)
{
	uint64_t ah = (d->c->flags & (STATUS & ~OF)) | 2;

	d->c->reg[RAX] = (d->c->reg[RAX] & ~0xff00ull) | ah << 8;
}

static void do_rdtsc(struct doing *d)
{
	uint64_t now = __builtin_ia32_rdtsc();

	d->c->reg[RAX] = (uint32_t)now;
	d->c->reg[RDX] = now >> 32;
}

/*
 * cmpxchg as event_slow.c uses it: the lock of the ring in rcx, new value in rsi. A new value with an owner is an
 * attempt to take the lock, which fails.
 */
static void do_cmpxchg(struct doing *d)
{
	uint64_t v;

	read_modrm(d, 0);
	if (!d->lock || d->size != 8 || !d->in_memory || d->reg != RSI ||
	    d->addr != d->c->reg[RCX] + offsetof(struct ring_head, lock))
		stop(d, -ENOTSUP);
	v = get_rm(d);
	arithmetic(d, ARITH_CMP, get_reg(d, RAX), v);
	if (ring_lock_owner(get_reg(d, RSI)))
		set_flags(d, ZF, 0);
	else if (v == get_reg(d, RAX))
		set_rm(d, get_reg(d, RSI));
	set_reg(d, RAX, v);
}

/*
 * cmpxchg16b as event_slow.c uses it: head and lock of the ring in rdi. The lock is stored last, since its release
 * lets other threads in.
 */
static void do_cmpxchg16(struct doing *d)
{
	uint64_t *reg = d->c->reg, low, high;

	read_modrm(d, 0);
	if (!d->lock || d->size != 8 || !d->in_memory || (d->reg & 7) != 1 || d->addr != reg[RDI])
		stop(d, -ENOTSUP);
	low = load(d, d->addr, 8);
	high = load(d, d->addr + 8, 8);
	if (low == reg[RAX] && high == reg[RDX]) {
		store(d, d->addr, 8, reg[RBX]);
		store(d, d->addr + 8, 8, reg[RCX]);
		set_flags(d, ZF, ZF);
		return;
	}
	reg[RAX] = low;
	reg[RDX] = high;
	set_flags(d, ZF, 0);
}

/*
 * The check for stack (event_slow.c): the kernel can't be asked on behalf of the thread, so the answer is that
 * there is none.
 */
static void do_syscall(struct doing *d)
{
	if (d->c->reg[RAX] != NR_TIME)
		stop(d, -ENOTSUP);
	d->c->reg[RAX] = (uint64_t)-EFAULT;
	d->c->reg[RCX] = d->c->pc + d->at;
	d->c->reg[R11] = d->c->flags;
}

static void do_two_byte(struct doing *d)
{
	uint8_t op = next8(d);

	if (op >> 4 == 8) {
		uint64_t by = next_signed(d, 4);

		if (condition(d->c, op & 15))
			jump_by(d, by);
	} else if (op >> 4 == 9) {
		d->size = 1;
		read_modrm(d, 0);
		set_rm(d, condition(d->c, op & 15));
	} else if (op == 0x05) {
		do_syscall(d);
	} else if (op == 0x31) {
		do_rdtsc(d);
	} else if (op == 0x0d || op == 0x1f) {	/* prefetchw, nop */
		read_modrm(d, 0);
	} else if (op == 0xb1) {
		do_cmpxchg(d);
	} else if (op == 0xb6 || op == 0xb7) {	/* movzbl, movzwl */
		read_modrm(d, 0);
		set_reg(d, d->reg, d->in_memory ? load(d, d->addr, op - 0xb5) : (stop(d, -ENOTSUP), 0));
	} else if (op == 0xc7) {
		do_cmpxchg16(d);
	} else {
		stop(d, -ENOTSUP);
	}
}

/* push, pop and mov $imm name their register in the opcode. */
static void do_by_register(struct doing *d, uint8_t op)
{
	unsigned n = (op & 7) | (d->rex & 1) << 3;

	if (op >> 3 == 0x50 >> 3) {
		push(d, d->c->reg[n]);
	} else if (op >> 3 == 0x58 >> 3) {
		uint64_t v = pop(d);

		if (!d->err)
			d->c->reg[n] = v;
	} else {
		set_reg(d, n, next(d, d->size));
	}
}

static void do_move(struct doing *d, uint8_t op)
{
	uint64_t v;

	read_modrm(d, op == 0xc7 ? 4 : 0);
	switch (op) {
	case 0x63:
		v = d->in_memory ? load(d, d->addr, 4) : d->c->reg[d->rm];
		set_reg(d, d->reg, (int32_t)v);
		break;
	case 0x89:
		set_rm(d, get_reg(d, d->reg));
		break;
	case 0x8b:
		set_reg(d, d->reg, get_rm(d));
		break;
	case 0x8d:
		if (!d->in_memory || d->fs)
			stop(d, -ENOTSUP);
		set_reg(d, d->reg, d->addr);
		break;
	case 0xc7:
		if (d->reg & 7)
			stop(d, -ENOTSUP);
		set_rm(d, cut(next_signed(d, 4), d->size));
		break;
	}
}

static void do_branch(struct doing *d, uint8_t op)
{
	uint64_t by = next_signed(d, op == 0xe8 || op == 0xe9 ? 4 : 1);

	if (op == 0xe8)
		push(d, d->c->pc + d->at);
	if (op >> 4 == 7 ? condition(d->c, op & 15) : op != 0xe3 || !d->c->reg[RCX])
		jump_by(d, by);
}

static void do_flags(struct doing *d, uint8_t op)
{
	switch (op) {
	case 0x9c:
		push(d, d->c->flags & ~0x30000ull);
		break;
	case 0x9d:
		set_flags(d, POPF_CHANGES, pop(d));
		break;
	case 0x9e:
		set_flags(d, STATUS & ~OF, d->c->reg[RAX] >> 8);
		break;
	default:
		do_lahf(d);
	}
}

static void do_one_byte(struct doing *d, uint8_t op)
{
	switch (op) {
	case 0x50 ... 0x5f: case 0xb8 ... 0xbf:
		do_by_register(d, op);
		break;
	case 0x63: case 0x89: case 0x8b: case 0x8d: case 0xc7:
		do_move(d, op);
		break;
	case 0x70 ... 0x7f: case 0xe3: case 0xe8: case 0xe9: case 0xeb:
		do_branch(d, op);
		break;
	case 0x81:
		do_group1(d, 4);
		break;
	case 0x83:
		do_group1(d, 1);
		break;
	case 0x85:
		read_modrm(d, 0);
		arithmetic(d, ARITH_AND, get_rm(d), get_reg(d, d->reg));
		break;
	case 0x8f:
		do_pop_rm(d);
		break;
	case 0x90:
		break;
	case 0x9c ... 0x9f:
		do_flags(d, op);
		break;
	case 0xa1:
		set_reg(d, RAX, load(d, next(d, 8), d->size));
		break;
	case 0xa3:
		store(d, next(d, 8), d->size, get_reg(d, RAX));
		break;
	case 0xa9:
		arithmetic(d, ARITH_AND, get_reg(d, RAX), next_signed(d, 4));
		break;
	case 0xc1:
		do_shift(d);
		break;
	case 0xc3:
		d->c->pc = pop(d) - d->at;
		break;
	case 0xff:
		do_group5(d);
		break;
	default:
		stop(d, -ENOTSUP);
	}
}

/* Accepts prefixes that make no difference here; others are not known. */
static uint8_t read_prefixes(struct doing *d)
{
	uint8_t op;

	for (;;) {
		op = next8(d);
		if (op == 0x64)
			d->fs = true;
		else if (op == 0xf0)
			d->lock = true;
		else if (op != 0x3e)
			break;
	}
	if (op >> 4 == 4) {
		d->rex = op;
		op = next8(d);
	}
	d->size = d->rex & 8 ? 8 : 4;
	return op;
}

/* Only these are emulated with the atomicity that a lock prefix demands. */
static bool may_be_locked(const struct doing *d, uint8_t op)
{
	return op == 0xff || (op == 0x0f && (d->code[d->at] == 0xb1 || d->code[d->at] == 0xc7));
}

/* At the end of a mapping fewer bytes than the longest instruction may be readable. */
static void fetch(struct doing *d)
{
	for (d->n = INSN_MAX; d->n; d->n--)
		if (d->m->read(d->m->arg, d->c->pc, d->code, d->n) == 0)
			return;
}

int x86_perform(struct cpu *c, const struct cpu_memory *m)
{
	struct cpu next = *c;
	struct doing d = { .c = &next, .m = m };
	uint8_t op;

	fetch(&d);
	op = read_prefixes(&d);
	if (d.lock && !may_be_locked(&d, op))
		return -ENOTSUP;
	if (op == 0x0f)
		do_two_byte(&d);
	else if (op < 0x40 && (op & 7) < 6)
		do_arithmetic(&d, op);
	else
		do_one_byte(&d, op);
	if (d.err)
		return d.err;
	next.pc += d.at;
	*c = next;
	return 0;
}
