/* SPDX-License-Identifier: MIT */
/*
 * How much of a goroutine's stack a program may take. A Go function that compares the stack pointer with the limit has
 * 800 bytes below its frame, kept free for those functions that don't compare; how many of these are open where one of
 * them is entered nobody knows. So less is taken there, and a clause that needs more leaves such functions out.
 */
#include "session/units.h"

#include <string.h>
#include "gen/gen.h"

#define UNCHECKED 512

static bool checks_stack(const struct module *m, uint64_t entry)
{
	static const struct { uint8_t before, first[4], check[4]; } ways[] = {
		{ 0, { 0x49, 0x3b, 0x66, 0x10 }, { 0x49, 0x3b, 0x66, 0x10 } },	/* cmp 16(%r14),%rsp */
		{ 5, { 0x4c, 0x8d, 0x64, 0x24 }, { 0x4d, 0x3b, 0x66, 0x10 } },	/* lea -8(%rsp),%r12; cmp 16(%r14),%r12 */
		{ 8, { 0x4c, 0x8d, 0xa4, 0x24 }, { 0x4d, 0x3b, 0x66, 0x10 } },	/* lea -400(%rsp),%r12; cmp likewise */
		{ 9, { 0x64, 0x48, 0x8b, 0x0c }, { 0x48, 0x3b, 0x61, 0x10 } },	/* before 1.17: mov %fs:-8,%rcx; cmp 16(%rcx),%rsp */
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		const uint8_t *c = module_bytes(m, entry, ways[i].before + 4);

		if (c && !memcmp(c, ways[i].first, 4) && !memcmp(c + ways[i].before, ways[i].check, 4))
			return true;
	}
	return false;
}

int go_stack(const struct module *m, uint64_t entry)
{
	return m->is_go && !checks_stack(m, entry) ? UNCHECKED : 0;
}

static bool fits(const struct jab *j, const struct site *s)
{
	const struct counter *c = &j->counters.v[s->counter];
	const struct program *p = &j->programs.v[c->program - 1];
	const struct module *m = j->files.v[j->rows.v[c->row].file].m;	/* its target may be gone */
	const struct ir_unit *ir = lang_unit(j->units.v[p->unit].lang);
	int most = go_stack(m, s->func < m->funcs.n ? m->funcs.v[s->func].addr : s->addr);

	for (int i = 0; most && i < 2 && p->progs[i]; i++)
		if (gen_stack_need(ir, p->progs[i]) > most)
			return false;
	return true;
}

/* Of a call, the entry and all exits, since they are of one function and both programs are looked at. */
void go_refuse(struct jab *j)
{
	for (size_t i = 0; i < j->sites.n; i++) {
		struct site *s = &j->sites.v[i];

		if (s->counter == UINT32_MAX || !j->counters.v[s->counter].program || fits(j, s))
			continue;
		s->counter = UINT32_MAX;
		s->reason = "the clause needs more stack than a Go function has that does not check how much there is";
		j->probes.v[s->probe].refused++;
	}
}
