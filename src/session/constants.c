/* SPDX-License-Identifier: MIT */
/* Variables of a process at an address or by their symbol, as contexts name them. The same variable is elsewhere in each target. */
#include "session/session.h"

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
static int find_symbol(struct jab *j, struct target *t, const char *symbol, uint64_t value, uint64_t *ret_at)
{
	for (int pass = 1; pass >= 0; pass--)
		for (size_t i = 0; i < t->loaded.n; i++) {
			struct loaded *l = &t->loaded.v[i];
			uint64_t addr, size;

			if (l->is_exe != pass || target_open_file(j, t, l))
				continue;
			if (module_object(j->files.v[l->file].m, symbol, &addr, &size)) {
				*ret_at = addr + l->bias + value;
				return 0;
			}
		}
	return fail(-ENOENT, "no variable '%s' in process %d or its libraries", symbol,
		    t->proc ? t->proc->pid : 0);
}

/* `at` is a link address of the module or, without a module, a live address. */
static uint64_t find_number(struct target *t, const struct loaded *program, const struct module *m,
			    uint64_t value)
{
	if (program && t->proc && !m->is_exec && !proc_map_at(t->proc, value) &&
	    is_in_program(m, value, 1))
		return value + program->bias;
	return value;
}

int object_find(void *asker, const char *symbol, uint64_t value, uint64_t *ret_at)
{
	struct tls_asker *a = asker;
	struct target *t = main_part(a->j, &a->j->targets.v[a->target]);
	struct loaded *program = program_of(a->j, t);

	a->asked = true;
	if (symbol)
		return find_symbol(a->j, t, symbol, value, ret_at);
	*ret_at = find_number(t, program, program ? a->j->files.v[program->file].m : NULL, value);
	return 0;
}
