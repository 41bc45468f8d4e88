/* SPDX-License-Identifier: MIT */
/* The counter that events take their time from (asm_ops.ticks), as jab itself reads it. */
#ifndef JAB_ARCH_CLOCK_H
#define JAB_ARCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
static inline uint64_t cpu_ticks(void)
{
	return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t cpu_ticks(void)
{
	uint64_t v;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v) : : "memory");
	return v;
}
#endif

struct clock_abi {
	bool (*is_steady)(void);	/* whether it has one rate in all sleep states; otherwise its ticks are no measure of time */
};

#endif
