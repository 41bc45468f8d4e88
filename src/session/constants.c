/* SPDX-License-Identifier: MIT */
/*
 * Fields that read a variable at an address or by its symbol. The same variable is elsewhere in each
 * target. The kernel is asked for it, also where it is the program's own: a page of that may have
 * lost the right to be read (docs/why/reads.md).
 */
#include "session/events/shapes.h"

#include <string.h>
#include <sys/mman.h>
#include "base/err.h"
#include "session/watches/tls.h"

/* Whether a segment of the program that can be read has this link address. */
static bool is_in_program(const struct module *m, uint64_t addr, uint64_t len)
{
	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];

		if ((s->prot & PROT_READ) && addr >= s->addr && addr - s->addr < s->memsz &&
		    len <= s->memsz - (addr - s->addr))
			return true;
	}
	return false;
}

static struct loaded *program_of(struct jab *j, struct target *t)
{
	for (size_t i = 0; i < t->loaded.n; i++)
		if (t->loaded.v[i].is_exe && !target_open_file(j, t, &t->loaded.v[i]))
			return &t->loaded.v[i];
	return NULL;
}

/* Searches the program first, then the libraries in the order of their addresses. */
static int find_symbol(struct jab *j, struct target *t, const struct field *f, uint64_t *ret_at)
{
	for (int pass = 1; pass >= 0; pass--)
		for (size_t i = 0; i < t->loaded.n; i++) {
			struct loaded *l = &t->loaded.v[i];
			uint64_t addr, size;

			if (l->is_exe != pass || target_open_file(j, t, l))
				continue;
			if (module_object(j->files.v[l->file].m, f->symbol, &addr, &size)) {
				*ret_at = addr + l->bias + f->value;
				return 0;
			}
		}
	return fail(-ENOENT, "no variable '%s' in process %d or its libraries", f->symbol,
		    t->proc ? t->proc->pid : 0);
}

/* `at` is a link address of the module or, without a module, a live address. */
static uint64_t find_number(struct target *t, const struct loaded *program, const struct module *m,
			    const struct field *f)
{
	if (program && t->proc && !m->is_exec && !proc_map_at(t->proc, f->value) &&
	    is_in_program(m, f->value, 1))
		return f->value + program->bias;
	return f->value;
}

static int resolve_one(struct jab *j, struct target *t, struct field *f)
{
	struct loaded *program = program_of(j, t);
	const struct module *m = program ? j->files.v[program->file].m : NULL;
	uint64_t at = 0;
	int r = 0;

	if (f->symbol)
		r = find_symbol(j, t, f, &at);
	else
		at = find_number(t, program, m, f);
	if (r < 0)
		return r;
	*vec_add(&t->constants) = (struct constant){ f, at };
	return 0;
}

static int resolve_list(struct jab *j, struct target *t, field_list *list)
{
	int r = 0;

	for (size_t i = 0; !r && i < list->n; i++)
		if (list->v[i].from == FROM_CONST)
			r = resolve_one(j, t, &list->v[i]);
	return r;
}

int constants_resolve_one(struct jab *j, uint32_t target)
{
	struct target *t = &j->targets.v[target];
	int r = 0;

	if (t->lost || t->main != target || t->scout)
		return 0;
	r = resolve_list(j, t, &j->events->context);
	for (size_t k = 0; !r && k < j->probes.n; k++)
		r = resolve_list(j, t, &j->probes.v[k].fields);
	return r;
}

int constants_resolve(struct jab *j)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < j->targets.n; i++)
		r = constants_resolve_one(j, i);
	return r;
}

uint64_t target_constant(const struct target *t, const struct field *f)
{
	for (size_t i = 0; f->from == FROM_CONST && i < t->constants.n; i++)
		if (t->constants.v[i].field == f)
			return t->constants.v[i].value;
	return 0;
}

int object_find(void *asker, const char *symbol, uint64_t value, uint64_t *ret_at)
{
	struct tls_asker *a = asker;
	struct target *t = main_part(a->j, &a->j->targets.v[a->target]);
	struct loaded *program = program_of(a->j, t);
	const struct field f = { .symbol = (char *)symbol, .value = value };

	a->asked = true;
	if (symbol)
		return find_symbol(a->j, t, &f, ret_at);
	*ret_at = find_number(t, program, program ? a->j->files.v[program->file].m : NULL, &f);
	return 0;
}
