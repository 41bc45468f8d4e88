/* SPDX-License-Identifier: MIT */
/*
 * What is known of Go's code. Where it is: a program may also have C code, whose functions use memory below the
 * stack pointer and run on system stacks. Where a thread has the address of g, the run time's record of its current
 * goroutine: code that is called from assembly loads it, always in the same way. And which functions begin by
 * comparing the stack pointer with the limit in g.
 */
#include "sym/priv.h"

#include "arch/arch.h"

#define ENOUGH 3	/* number of equal loads that are needed */

/*
 * The range of Go's code, from its own table. Older tables are not read: then all of a program is Go code if it has
 * no dynamic loader.
 */
static struct range go_range(const struct module *m)
{
	struct bytes table = go_table(m), funcs = { 0 };
	const struct sym_priv *v = priv(m);
	uint64_t start, n;

	if (table.p) {
		start = go_text_start(m, table);
		n = get64(table.p + 8);
		funcs = go_part(table, 64);
		if (funcs.n >= 4 && n <= (funcs.n - 4) / 8)
			return (struct range){ start, start + get32(funcs.p + n * 8) };
		return (struct range){ 0 };
	}
	for (size_t i = 0; i < v->image.nph; i++)
		if (v->image.ph[i].p_type == PT_INTERP)
			return (struct range){ 0 };
	return v->text.n ? v->text.v[0] : (struct range){ 0 };
}

static void find_g(struct module *m, struct range r)
{
	const uint8_t *code = r.hi > r.lo ? module_bytes(m, r.lo, r.hi - r.lo) : NULL;
	struct sym_priv *v = priv(m);
	int32_t off, first = 0;
	int n = 0;

	for (uint64_t i = 0; code && i + GO_LOAD_MOST <= r.hi - r.lo && n < ENOUGH; i++) {
		if (!m->arch->idioms->go_loads_g(code + i, &off) || off >= 0)
			continue;
		first = n ? first : off;
		if (off == first)
			n++;
	}
	v->go_g = n == ENOUGH ? first : 0;
}

static void look(struct module *m)
{
	struct sym_priv *v = priv(m);

	if (v->have_go)
		return;
	v->have_go = true;
	v->go_code = m->runtime->own_tables ? go_range(m) : (struct range){ 0 };
	find_g(m, v->go_code);
}

bool module_is_go_code(struct module *m, uint64_t addr)
{
	const struct sym_priv *v = priv(m);

	look(m);
	if (!v->go_code.hi)
		return m->runtime->own_tables;
	return addr - v->go_code.lo < v->go_code.hi - v->go_code.lo;
}

int32_t module_go_g(struct module *m)
{
	look(m);
	return priv(m)->go_g;
}

static const uint8_t *decode(const struct module *m, uint64_t at, struct insn *ret_insn)
{
	size_t room = INSN_MAX;
	const uint8_t *code;

	while (room && !module_bytes(m, at, room))
		room--;
	code = room ? module_bytes(m, at, room) : NULL;
	return code && m->arch->decode(code, room, at, ret_insn) == 0 ? code : NULL;
}

/* For a huge frame, whose subtraction may go below 0, there is a branch before the comparison. */
uint64_t module_behind_go_check(const struct module *m, uint64_t entry)
{
	uint64_t at = entry;
	bool checked = false;
	struct insn in;

	for (int i = 0; i < 6; i++) {
		const uint8_t *code = decode(m, at, &in);

		if (!code)
			return entry;
		at += in.len;
		if (checked)
			return in.kind == INSN_JCC ? at : entry;
		if (m->arch->idioms->go_checks_stack(code, in.len))
			checked = true;
		else if (!m->arch->idioms->go_prepares_check(code, in.len) && (in.kind != INSN_JCC || !i))
			return entry;
	}
	return entry;
}
