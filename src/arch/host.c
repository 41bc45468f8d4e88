/* SPDX-License-Identifier: MIT */
#include "arch/arch.h"

const struct arch_ops *arch_host(void)
{
	return &arch_x86_64;
}
