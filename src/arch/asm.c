/* SPDX-License-Identifier: MIT */
/* What all CPUs have in common: the buffer, labels, and distances that are filled in at the end. */
#include "arch/asm.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

asm_label asm_new_label(struct assembler *a)
{
	vec_add(&a->labels);
	return a->labels.n;
}

void asm_bind(struct assembler *a, asm_label l)
{
	a->labels.v[l - 1].at = a->code.n;
	a->labels.v[l - 1].bound = true;
}

bool asm_is_used(const struct assembler *a, asm_label l)
{
	return l && a->labels.v[l - 1].used;
}

size_t asm_offset(const struct assembler *a, asm_label l)
{
	assert(a->labels.v[l - 1].bound);
	return a->labels.v[l - 1].at;
}

/* Room for n bytes more; a few at a time are written for each of many instructions. */
static uint8_t *room(struct assembler *a, size_t n)
{
	uint8_t *here;

	if (a->code.cap - a->code.n < n) {
		a->code.cap = 2 * a->code.cap + n + 1024;
		a->code.v = xrealloc(a->code.v, a->code.cap);
	}
	here = a->code.v + a->code.n;
	a->code.n += n;
	return here;
}

void asm_bytes(struct assembler *a, const void *bytes, size_t n)
{
	if (n)
		memcpy(room(a, n), bytes, n);
}

void asm_u32(struct assembler *a, uint32_t v)
{
	asm_bytes(a, &v, sizeof(v));
}

void asm_u64(struct assembler *a, uint64_t v)
{
	asm_bytes(a, &v, sizeof(v));
}

void asm_fill(struct assembler *a, size_t n)
{
	if (n)
		memset(room(a, n), a->ops->fill, n);
}

void asm_distance(struct assembler *a, asm_label to, uint8_t size)
{
	*vec_add(&a->fixups) = (struct asm_fixup){ a->code.n, to, size };
	a->labels.v[to - 1].used = true;
	memset(room(a, size), 0, size);
}

int asm_link(struct assembler *a)
{
	for (size_t i = 0; i < a->fixups.n; i++) {
		const struct asm_fixup *f = &a->fixups.v[i];

		if (!a->labels.v[f->label - 1].bound)
			return -EINVAL;
		if (!a->ops->reach(a->code.v + f->at, f->size, (int64_t)asm_offset(a, f->label) - (int64_t)(f->at + f->size)))
			return -ERANGE;
	}
	return 0;
}

void asm_free(struct assembler *a)
{
	vec_free(&a->code);
	vec_free(&a->labels);
	vec_free(&a->fixups);
}
