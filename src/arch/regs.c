/* SPDX-License-Identifier: MIT */
#include "arch/regs.h"

#include <string.h>

int reg_number(const struct arch_regs *regs, const char *name)
{
	for (int i = 0; i < regs->n; i++)
		if (!strcmp(regs->names[i], name))
			return i;
	return -1;
}
