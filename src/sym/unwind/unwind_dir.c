/* SPDX-License-Identifier: MIT */
/* The unwind tables of all modules of a process, in one piece of memory. */
#include "sym/unwind/unwind.h"

#include "base/mem.h"
#include <string.h>

struct entry { struct unwind_span span; const struct unwind_data *data; };
typedef VEC(struct entry) entry_list;

static int by_address(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->span.lo > y->span.lo) - (x->span.lo < y->span.lo);
}

static void collect(const struct unwind_place *places, size_t n, entry_list *list)
{
	uint64_t lo, hi;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct unwind_data *d = module_unwind(places[i].module, &lo, &hi);

		if (d)
			*vec_add(list) = (struct entry){
				.span = { lo + places[i].bias, hi + places[i].bias, 0 }, .data = d,
			};
	}
	if (list->n)
		qsort(list->v, list->n, sizeof(*list->v), by_address);
}

/* Sets the offset of each table; returns the total size. */
static size_t lay_out(entry_list *list)
{
	size_t at = sizeof(struct unwind_dir) + list->n * sizeof(struct unwind_span), i, k;

	for (i = 0; i < list->n; i++) {
		for (k = 0; k < i && list->v[k].data != list->v[i].data; k++)
			;
		list->v[i].span.data = k < i ? list->v[k].span.data : (int64_t)at;
		if (k == i)
			at += list->v[i].data->size;
	}
	return at;
}

size_t unwind_size(const struct unwind_place *places, size_t n)
{
	entry_list list = { 0 };
	size_t size;

	collect(places, n, &list);
	size = lay_out(&list);
	vec_free(&list);
	return size;
}

void unwind_write(const struct unwind_place *places, size_t n, void *out)
{
	struct unwind_dir *dir = out;
	entry_list list = { 0 };
	size_t i;

	collect(places, n, &list);
	lay_out(&list);
	dir->n = list.n;
	for (i = 0; i < list.n; i++) {
		dir->span[i] = list.v[i].span;
		memcpy((char *)out + list.v[i].span.data, list.v[i].data, list.v[i].data->size);
	}
	vec_free(&list);
}
