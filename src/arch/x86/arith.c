/* SPDX-License-Identifier: MIT */
/* Addition, subtraction and bit operations with the flags that the CPU sets. AF of bit operations is undefined. */
#include "arch/x86/arith.h"

uint64_t arith_flags(uint64_t v, unsigned size)
{
	uint64_t f = 0;

	v = cut(v, size);
	f |= v ? 0 : ZF;
	f |= v >> (8 * size - 1) ? SF : 0;
	f |= __builtin_parity(v & 0xff) ? 0 : PF;
	return f;
}

static void set(uint64_t *flags, uint64_t which, uint64_t value)
{
	*flags = (*flags & ~which) | (value & which);
}

static uint64_t add(uint64_t a, uint64_t b, unsigned carry, unsigned size, uint64_t *flags,
		    uint64_t which)
{
	uint64_t sum = cut(a + b + carry, size), f = arith_flags(sum, size);

	f |= sum < a || (carry && sum == a) ? CF : 0;
	f |= (a ^ b ^ sum) & AF;
	f |= ((a ^ sum) & (b ^ sum)) >> (8 * size - 1) & 1 ? OF : 0;
	set(flags, which, f);
	return sum;
}

static uint64_t sub(uint64_t a, uint64_t b, unsigned borrow, unsigned size, uint64_t *flags,
		    uint64_t which)
{
	uint64_t rest = cut(a - b - borrow, size), f = arith_flags(rest, size);

	f |= a < b || (borrow && a == b) ? CF : 0;
	f |= (a ^ b ^ rest) & AF;
	f |= ((a ^ b) & (a ^ rest)) >> (8 * size - 1) & 1 ? OF : 0;
	set(flags, which, f);
	return rest;
}

static uint64_t bits(uint64_t v, unsigned size, uint64_t *flags)
{
	set(flags, STATUS, arith_flags(v, size));
	return v;
}

uint64_t arith_do(unsigned op, uint64_t a, uint64_t b, unsigned size, uint64_t *flags)
{
	unsigned carry = *flags & CF;

	switch (op) {
	case ARITH_ADD: return add(a, b, 0, size, flags, STATUS);
	case ARITH_ADC: return add(a, b, carry, size, flags, STATUS);
	case ARITH_SUB: case ARITH_CMP: return sub(a, b, 0, size, flags, STATUS);
	case ARITH_SBB: return sub(a, b, carry, size, flags, STATUS);
	case ARITH_OR: return bits(a | b, size, flags);
	case ARITH_AND: return bits(a & b, size, flags);
	default: return bits(a ^ b, size, flags);
	}
}

uint64_t arith_inc(uint64_t v, unsigned size, uint64_t *flags)
{
	return add(v, 1, 0, size, flags, STATUS & ~CF);
}

uint64_t arith_dec(uint64_t v, unsigned size, uint64_t *flags)
{
	return sub(v, 1, 0, size, flags, STATUS & ~CF);
}

bool arith_condition(uint64_t f, unsigned n)
{
	bool less = !(f & SF) != !(f & OF), yes = false;

	switch (n >> 1) {
	case 0: yes = f & OF; break;
	case 1: yes = f & CF; break;
	case 2: yes = f & ZF; break;
	case 3: yes = f & (CF | ZF); break;
	case 4: yes = f & SF; break;
	case 5: yes = f & PF; break;
	case 6: yes = less; break;
	case 7: yes = less || (f & ZF); break;
	}
	return yes != (n & 1);
}
