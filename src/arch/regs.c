/* SPDX-License-Identifier: MIT */
#include "arch/regs.h"

#include <string.h>

int reg_number(const struct arch_regs *regs, const char *name)
{
	for (uint32_t i = 0; i <= reg_flags(regs); i++)
		if (!strcmp(regs->names[i], name))
			return i;
	return -1;
}

int reg_number_of_any(const struct arch_regs *regs, const char *name)
{
	for (uint32_t i = 0; i <= reg_flags(regs); i++)
		if (!strcmp(regs->names[i], name) || (regs->others[i] && !strcmp(regs->others[i], name)))
			return i;
	return -1;
}

int reg_of_dwarf(const struct arch_regs *regs, uint64_t number)
{
	return number < regs->n ? regs->dwarf[number] : -1;
}
