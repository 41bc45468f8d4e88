/* SPDX-License-Identifier: MIT */
/* Unwinding of code without tables: what its instructions do to the stack. */
#ifndef JAB_ARCH_UNWIND_H
#define JAB_ARCH_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEIGHT_UNKNOWN INT32_MIN

/*
 * The CFA is `depth` above the stack pointer and `fp` above the frame pointer; the caller's frame pointer, `extra` and the return
 * address are saved at CFA + n (0: not saved).
 */
struct stack_height {
	int32_t depth, fp;
	int16_t saved_fp, saved_extra, saved_ra;
	uint8_t kind;		/* sym/unwind/unwind_code.c */
};

struct unwind_abi {
	uint8_t extra;		/* the third register that a CFA is based on at a call; NO_REG: there is none */

	/* Applies the effect of a plain instruction that uses the stack. */
	void (*follow)(struct stack_height *h, const uint8_t *code, size_t len);

	/* Whether the bytes, two at least, are what fills the room between functions. */
	bool (*is_padding)(const uint8_t *code);
};

#endif
