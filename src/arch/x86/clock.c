/* SPDX-License-Identifier: MIT */
#include "arch/x86/x86.h"

#ifdef __x86_64__
#include <cpuid.h>

static bool is_steady(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}
#else
static bool is_steady(void)
{
	return false;	/* it is not this machine's */
}
#endif

const struct clock_abi x86_clock = { is_steady };
