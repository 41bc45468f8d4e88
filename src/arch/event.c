/* SPDX-License-Identifier: MIT */
/* What is the same for the events of all CPUs. */
#include "arch/event.h"

#include <errno.h>

static bool field_is_good(const struct event_field *f, unsigned int regs, int32_t lowest)
{
	if (f->size != 1 && f->size != 2 && f->size != 4 && f->size != 8)
		return false;
	switch (f->kind) {
	case EVENT_REG:
	case EVENT_VECTOR:
		return f->reg < regs;
	case EVENT_IMM:
	case EVENT_ABS:
		return true;
	case EVENT_STACK:
		return f->value >= lowest && f->value <= EVENT_STACK_MAX;
	default:
		return false;
	}
}

int event_spec_check(const struct event_spec *spec, unsigned int regs, int32_t lowest)
{
	if (spec->nfields > EVENT_FIELDS_MAX || spec->lost_index > INT32_MAX / 8)
		return -ERANGE;
	if (spec->ring_size < RING_SIZE_MIN || spec->ring_size > RING_SIZE_MAX || spec->ring_size & (spec->ring_size - 1))
		return -EINVAL;
	for (uint32_t i = 0; i < spec->nfields; i++)
		if (!field_is_good(&spec->fields[i], regs, lowest))
			return -EINVAL;
	return 0;
}
