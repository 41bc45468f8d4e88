/* SPDX-License-Identifier: MIT */
/*
 * main() of a stripped program. It is in no symbol table, but the program's first instructions pass its address to the C library
 * (code_idioms.main_of_start). It counts only if the unwind tables have a function at that address.
 */
#include "sym/priv.h"

#include "arch/arch.h"

static const struct fde_range *fde_that_begins(struct module *m, uint64_t addr)
{
	size_t i;

	for (i = 0; i < priv(m)->fdes.n; i++)
		if (priv(m)->fdes.v[i].lo == addr)
			return &priv(m)->fdes.v[i];
	return NULL;
}

void main_collect(struct module *m, raw_list *list)
{
	const uint8_t *start = module_bytes(m, m->entry, START_LEN);
	uint64_t addr = start ? m->arch->idioms->main_of_start(start, m->entry) : 0;
	const struct fde_range *fde = addr ? fde_that_begins(m, addr) : NULL;
	size_t i;

	if (!fde || !in_text(m, addr))
		return;
	for (i = 0; i < list->n; i++)
		if (list->v[i].addr == addr || strcmp(list->v[i].name, "main") == 0)
			return;
	raw_add(list, (struct raw_symbol){
		.addr = addr, .size = fde->hi - fde->lo, .name = "main", .source = FROM_EH_FRAME, .type = STT_FUNC,
	}, strlen("main"));
}
