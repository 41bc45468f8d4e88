/* SPDX-License-Identifier: MIT */
/*
 * What programs of the language add to a call, beside an empty pad and a pad that reads the time stamp
 * counter. A site of five bytes jumps to a pad and back. Each figure is the best of many rounds that take turns, minus
 * that of the empty pad in the same run; the second column is the whole call with its pad.
 */
#include <time.h>

#include "../tests/unit/gen_run.h"
#include "base/err.h"
#include "lang/lang.h"

#define CALLS 100000
#define ROUNDS 40
#define ROOM 3072			/* for each way */

typedef uint64_t call_fn(uint64_t a, uint64_t b, uint64_t c);

struct way {
	const char *name;
	const char *script;		/* NULL: bytes of `code` */
	uint8_t code[32];
	int len;
	uint64_t mask;			/* keys: arg0 runs over so many */
	uint64_t arg1;
	bool slow;			/* fewer calls will do: a round should fit between two other programs */
	enum lang_at at;		/* 0: LANG_ENTRY */
	double best;
	call_fn *call;
	struct maps_reader *maps;
	const struct ir_unit *u;
};

static struct way ways[] = {
	{ .name = "empty pad" },
	{ .name = "rdtsc", .code = { 0x50, 0x52, 0x0f, 0x31, 0x5a, 0x58 }, .len = 6 },
	{ .name = "false condition", .script = "uprobe:/x:f /arg0 == 0x123456/ { @ = count(); }" },
	{ .name = "false: two of them", .script = "uprobe:/x:f /arg1 == 5 && arg0 > 0x12345678/ { @ = count(); }", .arg1 = 5 },
	{ .name = "count()", .script = "uprobe:/x:f { @ = count(); }" },
	{ .name = "sum()", .script = "uprobe:/x:f { @ = sum(arg1); }", .arg1 = 5 },
	{ .name = "hist()", .script = "uprobe:/x:f { @ = hist(arg1); }", .arg1 = 1000 },
	{ .name = "count(), 1000 keys", .script = "uprobe:/x:f { @[arg0] = count(); }", .mask = 1000 },
	{ .name = "@x++", .script = "uprobe:/x:f { @x++; }" },
	{ .name = "@[tid] = nsecs", .script = "uprobe:/x:f { @[tid] = nsecs; }" },
	{ .name = "@[tid] set and deleted", .script = "uprobe:/x:f { @s[tid] = nsecs; @d = hist(nsecs - @s[tid]); delete(@s[tid]); }" },
	{ .name = "the same, 1000 keys", .script = "uprobe:/x:f { @s[arg0] = nsecs; @d = hist(nsecs - @s[arg0]); delete(@s[arg0]); }", .mask = 1000 },
	{ .name = "@[tid]++", .script = "uprobe:/x:f { @n[tid]++; }" },
	{ .name = "@[tid] = arg1", .script = "uprobe:/x:f { @n[tid] = arg1; }" },
	{ .name = "false: @[tid] is absent", .script = "uprobe:/x:f /@n[arg0]/ { @n[1] = 2; }" },
	{ .name = "@[text] = count()", .script = "uprobe:/x:f { @n[\"abc\"] = count(); }" },
	{ .name = "@x = count(), read", .script = "uprobe:/x:f { @ = count(); if (@ == 0x123456789) { @y++; } }" },
	{ .name = "call, hist(duration)", .script = "call:/x:f { @ = hist(duration); }", .at = LANG_CALL },
	{ .name = "three pointers, plain", .script = "uprobe:/x:f /5 == *(uint64 *)(*(uint64 *)(*(uint64 *)arg1))/ { @ = count(); }", .arg1 = 2 },
	{ .name = "the same on the stack", .script = "uprobe:/x:f /5 == *(uint64 *)(*(uint64 *)(*(uint64 *)arg1))/ { @ = count(); }", .arg1 = 4 },
	{ .name = "the same, asked", .script = "uprobe:/x:f /5 == *(uint64 *)(*(uint64 *)(*(uint64 *)arg1))/ { @ = count(); }", .arg1 = 3, .slow = true },
	{ .name = "@[ustack] = count()", .script = "uprobe:/x:f { @[ustack] = count(); }" },
	{ .name = "printf of two numbers", .script = "uprobe:/x:f { printf(\"%d %d\\n\", arg0, arg1); }" },
	{ .name = "printf of a string", .script = "uprobe:/x:f { printf(\"%s\\n\", str(arg1)); }", .arg1 = 1, .slow = true },
};

/* Three pointers in a row, and a number. */
static uint64_t chain[4];

static uint64_t make_chain(uint64_t *at)
{
	for (int i = 0; i < 3; i++)
		at[i] = (uint64_t)&at[i + 1];
	at[3] = 6;
	return (uint64_t)at;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static struct lang_site site = { .at = LANG_ENTRY, .func = "f", .probe = "uprobe:/x:f" };

static const struct lang_site *where(void *arg, uint32_t clause)
{
	return &site;
}

/* Its maps stay where they are put. */
static int compile(struct way *w, uint64_t at, uint8_t *out)
{
	static uint64_t used;
	struct script *s;
	struct lang *l;
	struct ir_prog *p[2];
	struct maps_layout *layout;
	struct gen_site gs = { .addr = at, .number = 1 };
	struct gen_env env;
	int len;

	if (script_parse("bench", w->script, strlen(w->script), &s) < 0 || lang_new(s, &l) < 0)
		return fputs(diags_text(&s->diags), stderr), -EINVAL;
	site.at = w->at ? w->at : LANG_ENTRY;
	lang_infer(l, where, NULL);
	if (lang_compile(l, 0, &site, p) < 0 || maps_layout_new(lang_unit(l), ncpus, &layout) < 0 || gen_measure(lang_unit(l), p[0]) < 0)
		return fputs(diags_text(&s->diags), stderr), -EINVAL;
	env = gen_make_env(true, layout);
	env.event.overwrite = true;
	env.maps += used;
	maps_init(lang_unit(l), layout, gen_maps_memory + used);
	w->u = lang_unit(l);
	w->maps = maps_reader_new(w->u, layout, gen_maps_memory + used);
	used += (layout->size + 4095) & ~4095ull;
	len = gen_emit(lang_unit(l), p[0], &env, &gs, at, out);
	if (len > 0 && p[1])
		len += gen_emit(lang_unit(l), p[1], &env, &gs, at + len, out + len);
	return len;
}

/* f: jmp pad; ret. pad: work; lea (%rdi,%rsi),%rax; jmp back */
static int place(struct way *w, int n)
{
	uint8_t *rw = code_rw + 4096 + n * ROOM, *rx = code_rx + 4096 + n * ROOM, *p = rw + 64;
	int len = w->len;
	int32_t rel;

	if (4096 + (n + 1) * ROOM > CODE_SIZE)
		return fail(-ENOSPC, "no room for so many ways");
	if (w->script)
		len = compile(w, (uint64_t)rx + 64, p);
	else
		memcpy(p, w->code, len);
	if (len < 0 || len > ROOM - 128)
		return -EINVAL;
	memcpy(p + len, (const uint8_t[]){ 0x48, 0x8d, 0x04, 0x37, 0xe9 }, 5);
	rel = (rw + 5) - (p + len + 9);
	memcpy(p + len + 5, &rel, 4);
	rw[0] = 0xe9;
	rel = 64 - 5;
	memcpy(rw + 1, &rel, 4);
	rw[5] = 0xc3;
	w->call = (call_fn *)rx;
	w->best = 1e18;
	return 0;
}

static void measure(struct way *w)
{
	uint64_t mask = w->mask ? w->mask : 1, key = 0;
	int calls = w->slow ? CALLS / 500 : CALLS;
	double start = now(), ns;

	for (int i = 0; i < calls; i++) {
		w->call(key, w->arg1, 0);
		key = key + 1 == mask ? 0 : key + 1;
	}
	ns = (now() - start) / calls;
	if (ns < w->best)
		w->best = ns;
}

/* What was added up must be all calls, or the figure is worth nothing. */
static bool counted(const struct way *w)
{
	struct map_list list = { 0 };
	uint64_t sum = 0;

	if (!w->u || !w->u->maps.n || w->u->maps.v[0].kind == IR_MAP_VALUE || strstr(w->script, "==") || w->u->maps.v[0].kind == IR_MAP_SUM)
		return true;
	maps_reader_ops.list(w->maps, 0, &list);
	for (size_t i = 0; i < list.n; i++)
		sum += list.v[i].agg->count;
	vec_free(&list);
	return sum == (uint64_t)CALLS * ROUNDS;
}

int main(void)
{
	size_t n = ARRAY_SIZE(ways);
	uint64_t on_stack[4];

	gen_good.range[0].lo = (uint64_t)chain;
	gen_good.range[0].len = sizeof(chain) - GEN_GOOD_SHORT;
	gen_good.range[GEN_GOOD_STACK].lo = (uint64_t)on_stack - 65536;
	gen_good.range[GEN_GOOD_STACK].len = 65536 + sizeof(on_stack) - GEN_GOOD_SHORT;
	gen_set_up();
	reset_rings(1 << 20);
	gen_set_up();
	for (size_t i = 0; i < n; i++) {
		if (ways[i].arg1 >= 2 && ways[i].arg1 <= 4)
			ways[i].arg1 = make_chain(ways[i].arg1 == 2 ? chain : ways[i].arg1 == 3 ? xcalloc(4, 8) : on_stack);
		if (ways[i].arg1 == 1)
			ways[i].arg1 = (uint64_t)"a string of some length";
		if (place(&ways[i], i) < 0)
			printf("%-24s can't be made: %s\n", ways[i].name, err_text());
	}
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < n; i++)
			if (ways[i].call)
				measure(&ways[i]);
	printf("%-24s %8s %8s\n", "", "added", "call");
	for (size_t i = 0; i < n; i++)
		if (ways[i].call)
			printf("%-24s %8.2f %8.2f ns%s\n", ways[i].name, ways[i].best - ways[0].best, ways[i].best,
			       counted(&ways[i]) ? "" : "  WRONG COUNT");
	return 0;
}
