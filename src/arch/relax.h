/* SPDX-License-Identifier: MIT */
/* For loops of jab's own that wait for another CPU. */
#ifndef JAB_ARCH_RELAX_H
#define JAB_ARCH_RELAX_H

static inline void cpu_relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

#endif
