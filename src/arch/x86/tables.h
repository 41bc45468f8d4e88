/* SPDX-License-Identifier: MIT */
/* Where indirect jumps come from; see arch/idioms.h. */
#ifndef JAB_ARCH_X86_TABLES_H
#define JAB_ARCH_X86_TABLES_H

#include "arch/idioms.h"

bool x86_takes_address(const uint8_t *code, size_t len);
bool x86_takes_immediate(const uint8_t *code, size_t len, uint64_t *ret_value);
bool x86_jump_from(const struct code_view *v, uint32_t jump, int reg, struct jump_from *ret);
bool x86_frame_goes(const struct code_view *v, uint32_t jump);
bool x86_takes_own_label(const struct code_view *v, int reg);

#endif
