/* SPDX-License-Identifier: MIT */
/* The clock of events: a counter of the CPU that every process can read with one instruction. */
#ifndef JAB_ARCH_TICKS_H
#define JAB_ARCH_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>

static inline uint64_t ticks_now(void)
{
	return __rdtsc();
}

/* Whether it runs at one rate in all sleep states. Otherwise its ticks are no measure of time. */
static inline bool ticks_are_even(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}
#elif defined(__aarch64__)

/* isb: no earlier than what was done before. The generic timer always runs at one rate. */
static inline uint64_t ticks_now(void)
{
	uint64_t v;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v) : : "memory");
	return v;
}

static inline bool ticks_are_even(void)
{
	return true;
}
#endif

#endif
