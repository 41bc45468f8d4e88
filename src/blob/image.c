/* SPDX-License-Identifier: MIT */
/* The blob as the tracer sees it. Its bytes are in a file that embed.py generates. */
#include "blob/blob.h"

#include <string.h>

#include "arch/arch.h"
#include "base/err.h"

uint32_t blob_offset(enum blob_entry entry)
{
	uint32_t offset;

	memcpy(&offset, blob_image + 4 * entry, sizeof(offset));
	return offset;
}

uint32_t blob_depth(enum blob_work work)
{
	return blob_work_depths[work];
}

static bool size_is_good(uint8_t size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Only an address that depends on no register but the stack pointer can be known to stay mapped. */
static bool place_is_good(const struct bulk_field *f)
{
	bool fixed = f->reg == arch_host()->regs->sp || f->reg == BULK_NO_REG;

	if (f->reg >= arch_host()->regs->n && f->reg != BULK_NO_REG)
		return false;
	if (f->flags & BULK_GOOD && (!fixed || f->flags & BULK_DEREF))
		return false;
	return !(f->flags & BULK_GOOD_PTR) || (fixed && f->flags & BULK_DEREF);
}

static bool field_is_good(const struct bulk_field *f)
{
	switch (f->kind) {
	case EVENT_REG:
		return size_is_good(f->size) && f->reg <= reg_flags(arch_host()->regs);
	case EVENT_VECTOR:
		return size_is_good(f->size) && f->reg < arch_host()->regs->nvectors;
	case EVENT_IMM:
	case EVENT_ABS:
		return size_is_good(f->size);
	case EVENT_STACK:
		return size_is_good(f->size) && f->value >= EVENT_STACK_MIN && f->value <= EVENT_STACK_MAX;
	case EVENT_MEM:
		return size_is_good(f->size) && place_is_good(f);
	case EVENT_BYTES:
	case EVENT_STRING:
		return f->limit && place_is_good(f);
	case EVENT_BACKTRACE:
		return f->limit;
	default:
		return false;
	}
}

int blob_check(const struct bulk_field *fields, uint32_t n)
{
	int traces = 0;

	if (n > BULK_FIELDS_MAX)
		return -ERANGE;
	for (uint32_t i = 0; i < n; i++) {
		traces += fields[i].kind == EVENT_BACKTRACE;
		if (!field_is_good(&fields[i]) || traces > 1)
			return -EINVAL;
	}
	return bulk_max_len(fields, n) > BULK_LEN_MAX ? -ERANGE : 0;
}
