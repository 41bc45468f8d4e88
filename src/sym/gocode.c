/* SPDX-License-Identifier: MIT */
/*
 * What can be told of Go's code. Where it is: a program may have C beside it, whose functions keep things below the stack
 * pointer and run on stacks of the system's. And where a thread has the address of g, the run time's record of the goroutine
 * that it runs: whatever is called from assembly loads it, always in the same way.
 */
#include "sym/priv.h"

#define ENOUGH 3	/* loads that agree */

/* From its own table. Older ones are not read: all of a program is Go's if nothing is linked to it at run time. */
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

/* mov %fs:off,%r14 in one step or in two, or into rcx (before Go 1.17). */
static bool loads_g(const uint8_t *c, int32_t *ret_off)
{
	bool one = !memcmp(c, "\x64\x4c\x8b\x34\x25", 5) || !memcmp(c, "\x64\x48\x8b\x0c\x25", 5);

	if (!one && (memcmp(c, "\x49\xc7\xc6", 3) || memcmp(c + 7, "\x64\x4d\x8b\x36", 4)))
		return false;
	*ret_off = get32(c + (one ? 5 : 3));
	return true;
}

#define LOAD_MOST 11

static void find_g(struct module *m, struct range r)
{
	const uint8_t *code = r.hi > r.lo ? module_bytes(m, r.lo, r.hi - r.lo) : NULL;
	struct sym_priv *v = priv(m);
	int32_t off, first = 0;
	int n = 0;

	for (uint64_t i = 0; code && i + LOAD_MOST <= r.hi - r.lo && n < ENOUGH; i++) {
		if ((code[i] != 0x64 && code[i] != 0x49) || !loads_g(code + i, &off) || off >= 0)
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
	v->go_code = m->is_go ? go_range(m) : (struct range){ 0 };
	find_g(m, v->go_code);
}

bool module_is_go_code(struct module *m, uint64_t addr)
{
	const struct sym_priv *v = priv(m);

	look(m);
	return addr - v->go_code.lo < v->go_code.hi - v->go_code.lo;
}

int32_t module_go_g(struct module *m)
{
	look(m);
	return priv(m)->go_g;
}
