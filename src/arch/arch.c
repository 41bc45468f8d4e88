/* SPDX-License-Identifier: MIT */
/* The CPU that this build traces: the one that it runs on. */
#include "arch/arch.h"

#include "arch/asm.h"
#include "base/mem.h"

#if defined(__x86_64__)
#define HOST arch_x86_64
#elif defined(__aarch64__)
#define HOST arch_aarch64
#else
#error "there is no folder in src/arch for this CPU"
#endif

static const struct arch *const all[] = { &HOST };

const struct arch *arch_of_machine(uint16_t elf_machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->elf_machine == elf_machine)
			return all[i];
	return NULL;
}

const char *arch_lacks(const struct arch *a, enum arch_part part)
{
	if (part == ARCH_EVENTS && !a->emit_event)
		return "events";
	if (part == ARCH_LANGUAGE && !a->assembler->move)
		return "conditions, expressions and scripts";
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
