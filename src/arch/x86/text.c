/* SPDX-License-Identifier: MIT */
/* Instructions as text, to show what a pad does. */
#include "arch/x86/x86.h"

#include <stdio.h>
#include <Zydis/Zydis.h>

#include "base/err.h"

/* The address that an operand is or points to; 0: it is a small number or a register. */
static uint64_t address_of(const ZydisDisassembledInstruction *d, const ZydisDecodedOperand *o)
{
	ZyanU64 value;

	if (o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && !o->imm.is_relative)
		return o->imm.value.u >= 1 << 16 ? o->imm.value.u : 0;
	if (ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&d->info, o, d->runtime_address, &value)))
		return value;
	return 0;
}

int x86_text(const uint8_t *code, size_t room, uint64_t addr, char *out, size_t out_room, uint64_t *ret_names)
{
	ZydisDisassembledInstruction d;
	uint64_t names = 0;

	if (!ZYAN_SUCCESS(ZydisDisassembleATT(ZYDIS_MACHINE_MODE_LONG_64, addr, code, room, &d)))
		return -EILSEQ;
	for (int i = 0; !names && i < d.info.operand_count_visible; i++)
		names = address_of(&d, &d.operands[i]);
	snprintf(out, out_room, "%s", d.text);
	*ret_names = names;
	return d.info.length;
}
