/* SPDX-License-Identifier: MIT */
#include "session/events/shapes.h"

#include <stdio.h>
#include <string.h>
#include "arch/arch.h"
#include "session/watches/go.h"
#include "session/scripts/units.h"
#include "session/stacks.h"

static bool has_other_rows(const struct jab *j, uint32_t row)
{
	for (uint32_t i = 0; i < j->rows.n; i++)
		if (i != row && j->rows.v[i].probe == j->rows.v[row].probe && j->rows.v[i].is_left == j->rows.v[row].is_left)
			return true;
	return false;
}

char *row_name(const struct jab *j, uint32_t row)
{
	const struct row *r = &j->rows.v[row];
	const struct probe_spec *spec = j->probes.v[r->probe].spec;
	struct module *m = j->files.v[r->file].m;
	const char *path = j->files.v[r->file].path, *slash = strrchr(path, '/');
	const char *func = r->func == UINT32_MAX ? "?" : func_name(m, &m->funcs.v[r->func]);
	bool is_copy = j->probes.v[r->probe].is_copies;
	const struct usdt *usdt = row_usdt(j, r);
	char off[32] = "";

	if (usdt)
		return xstrdup(spec->name && spec->place_kind == PLACE_NAME ? spec->name : usdt->shown);
	if (r->offset != UINT64_MAX)
		snprintf(off, sizeof(off), "+%#llx", (unsigned long long)r->offset);
	if (spec->name && !has_other_rows(j, row))
		return xstrdup(spec->name);
	return xasprintf("%s:%s%s%s%s%s", spec->name ? spec->name : slash ? slash + 1 : path,
			 is_copy ? spec->place : "", is_copy ? "@" : "", func, off,
			 r->is_return && spec->kind != SPEC_CALL ? "%return" : "");
}

int shape_declare(struct jab *j, uint32_t row)
{
	static const struct ir_record none;
	const struct ir_record *rec = unit_record(j, row);
	char *name = row_name(j, row);
	/* Events of a script have classes of their own. */
	int r = j->units.v[j->probes.v[j->rows.v[row].probe].unit - 1].is_line ? record_declare(j, row, name, unit_ir(j, row), rec ? rec : &none) : 0;

	free(name);
	return r;
}

/* Number + 1 of a row's record if there are stacks in it. */
static uint32_t find_stacked(const struct jab *j, uint32_t row)
{
	const struct ir_record *rec = unit_record(j, row);

	return rec && record_has_stacks(rec) ? rec - unit_ir(j, row)->records.v + 1 : 0;
}

int shapes_declare(struct jab *j)
{
	struct events *e = j->events;
	int r = 0;

	for (; !r && e->rows < j->rows.n; e->rows++) {
		r = shape_declare(j, e->rows);
		*vec_add(&e->stacked) = find_stacked(j, e->rows);
		e->any_stacks |= e->stacked.v[e->rows];
		vec_add(&e->recorded);
		vec_add(&e->unwritten);
	}
	return r;
}

size_t count_body(const struct arch *arch)
{
	struct count_spec with = { .has_rseq = true }, without = { .has_rseq = false };

	return MAX(arch->emit_count(NULL, 0, &with), arch->emit_count(NULL, 0, &without));
}

size_t shape_own_body(const struct jab *j, const struct site *s)
{
	return j->probes.v[s->probe].unit ? unit_body(j, s) : count_body(j->arch) + go_space(j, s);
}

int site_emit_count(const struct jab *j, const struct target *t, const struct site *s, uint64_t at, uint8_t *out)
{
	struct count_spec spec = t->spec;
	size_t space = go_space(j, s);
	int n;

	spec.index = j->counters.v[s->counter].index;
	spec.shared = counter_shared_at(t, spec.index);
	n = j->arch->emit_count(out + space, at + space, &spec);
	if (space && n > 0)
		go_put_space(j, s, GO_COUNT, spec.shared, n, out);
	return n < 0 ? n : (int)space + n;
}

int shape_emit_own(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out)
{
	const struct site *s = &j->sites.v[w->id];

	return j->probes.v[s->probe].unit ? unit_emit(j, t, w, at, out) : site_emit_count(j, main_part(j, t), s, at, out);
}
