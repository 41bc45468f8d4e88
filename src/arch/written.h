/* SPDX-License-Identifier: MIT */
/*
 * Code that was written through jab's own mapping and that a target will execute through another one.
 *
 * x86 keeps instruction fetch coherent with stores. aarch64 does not: the written bytes must be cleaned from the data cache to the point
 * of unification, and stale bytes invalidated in instruction caches. Data caches are looked up by physical address, so the first works
 * through any mapping. The second is done here by jab's address, which is enough where instruction caches are PIPT. Where they are VIPT (CTR_EL0.L1Ip),
 * another address may be another line; there the kernel invalidates all of them when the jumps are written to the text
 * (flush_ptrace_access() for /proc/PID/mem), which comes after the pads, and when a page is first mapped to be executed, as the desk's is.
 * Each thread of the target then returns from its ptrace stop by an exception return, which is the isb that it needs.
 */
#ifndef JAB_ARCH_WRITTEN_H
#define JAB_ARCH_WRITTEN_H

#include <stddef.h>

static inline void code_written(void *at, size_t len)
{
	__builtin___clear_cache((char *)at, (char *)at + len);	/* nothing on x86 */
}

#endif
