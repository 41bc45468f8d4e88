/* SPDX-License-Identifier: MIT */
/*
 * How much of a goroutine's stack a body may take. A Go function that compares the stack pointer with the limit has
 * 800 bytes below its frame, kept free for those functions that don't compare: more than any body needs. How many of
 * these are open where one of them is entered nobody knows, so there the body looks how much is left (arch.emit_space), and
 * the hit is lost if that is too little. Most of them call nothing and are called by one that has compared: then 664 are left.
 * A body at an instruction looks in any case: it may be one that is reached when the comparison has failed.
 */
#include "session/watches/go.h"

#include <string.h>
#include "arch/event.h"
#include "gen/gen.h"
#include "session/scripts/units.h"

#define LEFT_MOST 640		/* asked for where nobody has compared */
#define COUNT_NEED 160

static struct module *module_of(const struct jab *j, const struct site *s)
{
	return j->files.v[j->rows.v[j->counters.v[s->counter].row].file].m;	/* its target may be gone */
}

/* What runs before there is any thread-local storage, on a stack that the kernel has made. */
static bool is_first(struct module *m, const struct site *s)
{
	static const char *const names[] = { "_rt0_", "runtime.rt0_go", "runtime.settls" };
	const char *name = s->func < m->funcs.n ? func_name(m, &m->funcs.v[s->func]) : "";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

static uint64_t entry_of(const struct module *m, const struct site *s)
{
	return s->func < m->funcs.n ? m->funcs.v[s->func].addr : s->addr;
}

static bool on_goroutine(struct module *m, const struct site *s)
{
	return m->runtime->moves_stacks && module_is_go_code(m, entry_of(m, s)) && !is_first(m, s);
}

int32_t go_g_off(const struct jab *j, const struct site *s)
{
	struct module *m = module_of(j, s);

	return on_goroutine(m, s) ? module_go_g(m) : 0;
}

/* True if a body there runs before any comparison, or in a function without one. */
static bool is_tight(struct module *m, const struct site *s)
{
	uint64_t entry = entry_of(m, s), behind;

	if (!on_goroutine(m, s))
		return false;
	behind = module_behind_go_check(m, entry);
	return behind == entry || (s->kind == WANT_INSN && s->addr < behind);
}

/* Any instruction may be one of those that call the run time because the comparison has found too little. */
static bool must_look(struct module *m, const struct site *s)
{
	return is_tight(m, s) || (s->kind == WANT_INSN && on_goroutine(m, s));
}

int go_stack(const struct jab *j, const struct site *s)
{
	return is_tight(module_of(j, s), s) ? LEFT_MOST : 0;
}

size_t go_space(const struct jab *j, const struct site *s)
{
	struct module *m = module_of(j, s);

	return module_go_g(m) && must_look(m, s) ? SPACE_LEN : 0;
}

void go_put_space(const struct jab *j, const struct site *s, enum go_body kind, uint64_t instead, size_t body, uint8_t *out)
{
	struct space_spec spec = { module_go_g(module_of(j, s)), COUNT_NEED, instead, body };

	if (kind == GO_PROGRAM)
		spec.need = unit_stack(&j->programs.v[j->counters.v[s->counter].program - 1]);
	j->arch->emit_space(out, &spec);
}

/* Of a call, the entry and all exits, since they are of one function and both programs are looked at. */
static const char *why_not(const struct jab *j, const struct site *s)
{
	uint32_t program = j->counters.v[s->counter].program;
	const struct program *p = program ? &j->programs.v[program - 1] : NULL;
	struct module *m = module_of(j, s);

	if (!m->runtime->moves_stacks || !on_goroutine(m, s))
		return NULL;
	if (!module_go_g(m) && must_look(m, s))
		return "it can't be seen how much of its stack a goroutine has left there";
	if (!module_go_g(m) && p && p->progs[1])
		return "it can't be seen there which goroutine runs: Go moves their stacks, and calls are not found again";
	if (p && is_tight(m, s) && unit_stack(p) > LEFT_MOST)
		return "the clause needs more stack than a Go function has that does not check how much there is";
	return NULL;
}

void go_refuse(struct jab *j)
{
	for (size_t i = 0; i < j->sites.n; i++) {
		struct site *s = &j->sites.v[i];
		const char *why = s->counter == UINT32_MAX ? NULL : why_not(j, s);

		if (!why)
			continue;
		s->counter = UINT32_MAX;
		s->reason = why;
		site_refused(j, s);
	}
}
