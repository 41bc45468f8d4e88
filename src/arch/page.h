/* SPDX-License-Identifier: MIT */
/* The size of a page. A kernel with larger ones (aarch64 has some) is refused, see proc_check_machine(). */
#ifndef JAB_ARCH_PAGE_H
#define JAB_ARCH_PAGE_H

#define PAGE 4096ull

/* Down and up to a multiple of it. */
#define PAGE_DOWN(at) ((at) & ~(PAGE - 1))
#define PAGE_UP(at) PAGE_DOWN((at) + PAGE - 1)

#endif
