/* SPDX-License-Identifier: MIT */
/* The CPUs that this build traces. */
#include "arch/arch.h"

#include "base/mem.h"

static const struct arch *const all[] = { &arch_x86_64 };

const struct arch *arch_of_machine(uint16_t elf_machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->elf_machine == elf_machine)
			return all[i];
	return NULL;
}

const struct arch *arch_host(void)
{
	return all[0];
}

const char *arch_names(void)
{
	return all[0]->name;
}
