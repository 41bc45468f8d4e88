/* SPDX-License-Identifier: MIT */
/*
 * Rows of Go code from its own table (see gotab.c), which even stripped programs have: for each function how far
 * the stack pointer is below its value at entry, by address. A frame that is not empty has the caller's frame pointer right
 * below the return address.
 *
 * In a function's record: pcsp at 16, an offset into the pc tables; one byte of flags, whose offset depends on the
 * version. A pc table is pairs of variable length numbers, change of the value (zigzag) and length of the code for
 * which it is valid, up to a change of 0.
 */
#include "sym/unwind/unwind_priv.h"

#define GO_1_18 0xfffffff0u
#define FLAG_TOP 1	/* the goroutine's outermost frame */

struct go {
	struct bytes names, funcs, pcs;
	uint64_t text, n;
	uint32_t flag_at;
};

static bool go_open(const struct module *m, struct go *g)
{
	struct bytes table = m->runtime->own_tables ? go_table(m) : (struct bytes){ 0 };

	if (!table.p)
		return false;
	g->funcs = go_part(table, 64);
	g->names = go_part(table, 32);
	g->pcs = go_part(table, 56);
	g->text = go_text_start(m, table);
	g->n = g->funcs.n < 4 ? 0 : MIN(get64(table.p + 8), (g->funcs.n - 4) / 8);
	g->flag_at = get32(table.p) == GO_1_18 ? 37 : 41;
	return g->pcs.p && g->n;
}

static uint64_t func_addr(const struct go *g, uint64_t i)
{
	return g->text + get32(g->funcs.p + i * 8);
}

/* Where calls don't push it, the return address is at the stack pointer of a frame that is not empty. */
static struct unwind_rule rule_of(const struct arch *a, int32_t depth)
{
	uint8_t pushes = a->go_call->pushes;
	struct unwind_rule rule = { .kind = UNWIND_CFA, .reg = a->regs->sp, .off = depth + pushes, .ra = pushes ? -pushes : -depth };

	if (depth < 0 || depth > (pushes ? INT32_MAX - pushes : INT16_MAX - 8))
		return (struct unwind_rule){ .kind = UNWIND_STOP };
	if (depth > 0) {
		rule.flags = UNWIND_FP_CFA;
		rule.fp = rule.ra - 8;
	} else if (!pushes) {
		rule.flags = UNWIND_RA_REG;
		rule.ra = a->go_call->link;
	}
	return rule;
}

static void depth_rows(const struct arch *a, const struct go *g, uint32_t pcsp, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	struct reader r = reader_of(g->pcs);
	struct unwind_rule rule;
	int32_t depth = -1;
	bool first = true;

	read_skip(&r, pcsp);
	while (lo < hi && !r.bad) {
		uint32_t change = read_uleb(&r);

		if (!change && !first)
			break;
		first = false;
		depth += (change & 1) ? ~(change >> 1) : change >> 1;
		rule = rule_of(a, depth);
		row_add(w, lo, &rule);
		lo += (uint32_t)read_uleb(&r);
	}
}

/*
 * Go's own tracebacks also stop at the frames that start threads and signal handlers. This walk continues: a thread
 * was started by another function, and a handler has interrupted one.
 */
static bool is_outermost(const struct go *g, uint32_t record)
{
	static const char *const others[] = { "runtime.mstart", "runtime.sigtramp" };
	uint32_t name = get32(g->funcs.p + record + 4);
	size_t i;

	if (!(g->funcs.p[record + g->flag_at] & FLAG_TOP))
		return false;
	for (i = 0; i < ARRAY_SIZE(others); i++)
		if (name < g->names.n && g->names.n - name > strlen(others[i]) &&
		    memcmp(g->names.p + name, others[i], strlen(others[i])) == 0)
			return false;
	return true;
}

static void function_rows(struct module *m, const struct go *g, uint64_t i, uint64_t hi, struct row_writer *w)
{
	static const struct unwind_rule none, top = { .kind = UNWIND_END };
	uint64_t lo = func_addr(g, i), end = MIN(func_addr(g, i + 1), hi);
	uint32_t record = get32(g->funcs.p + i * 8 + 4), pcsp;

	if (end <= lo || g->funcs.n < 48 || record > g->funcs.n - 48)
		return;
	pcsp = get32(g->funcs.p + record + 16);
	if (sigreturn_row(m, lo, end, w))
		;
	else if (is_outermost(g, record))
		row_add(w, lo, &top);
	else if (pcsp)
		depth_rows(m->arch, g, pcsp, lo, end, w);
	else
		row_add(w, lo, &none);
}

bool go_rows(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	static const struct unwind_rule none;
	struct go g;
	uint64_t a = 0, b, mid;

	if (!go_open(m, &g) || func_addr(&g, 0) >= hi || func_addr(&g, g.n) <= lo)
		return false;
	for (b = g.n; a < b;) {
		mid = (a + b) / 2;
		if (func_addr(&g, mid) < lo)
			a = mid + 1;
		else
			b = mid;
	}
	for (; a < g.n && func_addr(&g, a) < hi; a++)
		function_rows(m, &g, a, hi, w);
	if (a == g.n)
		row_add(w, func_addr(&g, a), &none);
	return true;
}
