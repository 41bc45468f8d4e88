/* SPDX-License-Identifier: MIT */
/*
 * The code in a pad that counts a hit: one atomic increment of a counter that all threads share. It keeps every register and the
 * flags; below the stack pointer there is no red zone.
 *
 * Relaxed: a counter is a statistic, and the tracer reads the last values when the threads are stopped or gone, which orders
 * them. Where the CPU has `stadd`, it is used: a loop of exclusive accesses would never end under a debugger that steps
 * through it.
 */
#include "arch/aarch64/aarch64.h"

#include "arch/aarch64/encode.h"
#include "base/err.h"

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

bool a64_has_lse(void)
{
#ifdef __aarch64__
	return getauxval(AT_HWCAP) & HWCAP_ATOMICS;
#else
	return false;
#endif
}

/* x16: the counter's address, x17: the value, x15: whether the store has failed */
static void put_exclusive(uint8_t **p)
{
	a64_put(p, a64_str(15, A64_SP, 16));
	a64_put(p, a64_ldxr(17, 16));
	a64_put(p, a64_add_imm(17, 17, 1));
	a64_put(p, a64_stxr(15, 17, 16));
	a64_put(p, a64_cbz32(15, true, -12));
	a64_put(p, a64_ldr(15, A64_SP, 16));
}

int a64_emit_count(uint8_t *out, uint64_t at, const struct count_spec *spec)
{
	uint8_t scratch[COUNT_MAX];
	uint8_t *base = out ? out : scratch, *p = base;

	if (spec->index > INT32_MAX / 8)
		return -ERANGE;
	a64_put(&p, a64_stp_pre(16, 17, A64_SP, -32));
	a64_put_address(&p, 16, spec->shared);
	if (a64_has_lse()) {
		a64_put(&p, a64_movz(17, 1, 0));
		a64_put(&p, a64_stadd(17, 16));
	} else {
		put_exclusive(&p);
	}
	a64_put(&p, a64_ldp_post(16, 17, A64_SP, 32));
	return p - base;
}
