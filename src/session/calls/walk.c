/* SPDX-License-Identifier: MIT */
/*
 * Tables for backtraces: of every module that a target has mapped, and of the vDSO, which is read from
 * its memory. Modules that come later have none; there the walk goes by frame pointers.
 */
#include "arch/page.h"
#include "session/calls/walk.h"

#include <string.h>
#include "base/err.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"
#include "sym/unwind/unwind.h"

struct walk_tables {
	VEC(struct unwind_place) places;
	struct module *vdso;
	size_t size;
};

static void add_vdso(struct target *t, struct walk_tables *w)
{
	const struct map *m = NULL;
	uint8_t *bytes;

	for (size_t i = 0; i < t->proc->maps.n; i++)
		if (!strcmp(t->proc->maps.v[i].path, "[vdso]"))
			m = &t->proc->maps.v[i];
	if (!m)
		return;
	bytes = xrealloc(NULL, m->end - m->start);
	if (!proc_read(t->proc, TADDR(m->start), bytes, m->end - m->start) &&
	    !module_open_memory(bytes, m->end - m->start, "[vdso]", &w->vdso))
		*vec_add(&w->places) = (struct unwind_place){ w->vdso, m->start - (PAGE_DOWN(w->vdso->lo)) };
	free(bytes);
}

struct walk_tables *walk_prepare(struct jab *j, struct target *t)
{
	struct walk_tables *w = xcalloc(1, sizeof(*w));

	for (size_t i = 0; i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];

		if (target_open_file(j, t, l) < 0) {
			log_info("%s; backtraces through it go by frame pointers", err_text());
			continue;
		}
		*vec_add(&w->places) = (struct unwind_place){ j->files.v[l->file].m, l->bias };
	}
	add_vdso(t, w);
	w->size = unwind_size(w->places.v, w->places.n);
	return w;
}

size_t walk_size(const struct walk_tables *w)
{
	return w ? (w->size + 63) & ~63ul : 0;
}

void walk_write(const struct walk_tables *w, void *out)
{
	unwind_write(w->places.v, w->places.n, out);
}

void walk_free(struct walk_tables *w)
{
	if (!w)
		return;
	module_close(w->vdso);
	vec_free(&w->places);
	free(w);
}
