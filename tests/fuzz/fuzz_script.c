/* SPDX-License-Identifier: MIT */
/*
 * Random scripts of several clauses: maps, aggregations, text, tuples, loops, branches and call probes, on values
 * of all kinds and memory that can't always be read. Each is run for a number of hits as native code and by the
 * interpreter; both must write the same events, count the same errors and leave the same in maps.
 *
 *	fuzz_script [-n SCRIPTS | -t SECONDS] [-s SEED] [-p]	-p: only print the scripts
 */
#include <getopt.h>
#include <link.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "../unit/gen_run.h"
#include "base/err.h"
#include "expr_good.h"
#include "expr_world.h"
#include "gen_maps.h"
#include "lang/lang.h"
#include "script_make.h"

#define CLAUSES SCRIPT_CLAUSES
#define HITS 24
#define ROOM 9000		/* code of one program */

static struct { uint64_t scripts, refused, hits, events, faults, entries; } total;

/* ---- the world ---- */

__attribute__((noinline, used)) uint64_t world(EXPR_PARAMS);
__attribute__((noinline, used)) uint64_t world(EXPR_PARAMS)
{
	return va + vb + vc + vd + p->i8 + *q + (int)x + (int)y + sa + sb + LARGE;
}

static struct module *self;
static struct lang_site sites[CLAUSES + 1];
static uint8_t *page;		/* things, then text; nothing behind it */

static bool open_self(void)
{
	uint64_t bias = _r_debug.r_map->l_addr, link = (uint64_t)(uintptr_t)world - bias;
	struct types *types;

	if (module_open("", "/proc/self/exe", &self) < 0 || module_types(self, &types) < 0)
		return false;
	for (int i = 1; i <= CLAUSES; i++)
		sites[i] = (struct lang_site){ .at = LANG_ENTRY, .types = types, .pc = link, .entry = link, .bias = bias };
	sites[0] = (struct lang_site){ .at = LANG_TRACER, .probe = "begin", .func = "" };
	return true;
}

static const struct lang_site *site_of(void *arg, uint32_t clause)
{
	return &sites[clause];
}

static void make_memory(void)
{
	struct thing *t = (struct thing *)page;

	for (int i = 0; i < 4096; i += 8) {
		uint64_t v = odd_number();

		memcpy(page + i, &v, 8);
	}
	for (int i = 2048; i < 4096; i++)
		page[i] = below(8) ? 'a' + below(3) : 0;
	t[0].next = below(8) ? &t[1] : NULL;
	t[1].next = &t[0];
	t[0].ip = t[0].arr;
	t[0].up = &t[1].u16;
	t[0].dp = &t[1].d;
	memcpy(t[0].bytes, below(2) ? "abc" : "\0\0\0", 4);
}

static void make_machine(void)
{
	machine_fill(expr_random() & 127, machine_in.gpr[4]);
	for (int i = 0; i < 16; i++)
		if (i != 4 && below(2))
			machine_in.gpr[i] = odd_number();
	machine_in.gpr[8] = below(8) ? (uint64_t)page : odd_number();
	machine_in.gpr[9] = below(8) ? (uint64_t)page + 4096 - below(100) : odd_number();
}

/* ---- both ways ---- */

struct seen { uint8_t v[65536]; size_t n; uint32_t events; };
static struct seen native_seen, judged_seen;

static void see(struct seen *s, uint32_t id, const void *payload, size_t len)
{
	s->events++;
	if (s->n + 8 + len > sizeof(s->v))
		return;
	memcpy(s->v + s->n, &id, 4);
	memcpy(s->v + s->n + 4, &(uint32_t){ len }, 4);
	memcpy(s->v + s->n + 8, payload, len);
	s->n += 8 + len;
}

/* Events of one hit: they may stand in several rings, so their order is that of time. */
static struct one { struct event_head head; uint8_t payload[4096]; } now_seen[512];
static uint32_t nnow;

static void look_native(int ring, const struct event_head *e, const uint64_t *fields)
{
	uint32_t i = nnow++;

	if (i >= ARRAY_SIZE(now_seen))
		abort();
	for (; i && now_seen[i - 1].head.time > e->time; i--)
		now_seen[i] = now_seen[i - 1];
	now_seen[i].head = *e;
	memcpy(now_seen[i].payload, fields, e->len - sizeof(*e));
}

static void look_judged(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	see(&judged_seen, gen_ids[record], payload, len);
}

struct run {
	struct script *script;
	struct lang *lang;
	struct ir_prog *progs[CLAUSES + 1][2];
	uint64_t body[CLAUSES + 1][2];
	struct maps_layout *layout;
	struct maps_reader *reader;
	struct store *store;
	struct interp in;
	uint64_t cells[256];
};

static int compile(struct run *r, const char *text)
{
	int err = script_parse("fuzz", text, strlen(text), &r->script);

	for (uint32_t i = 1; err == 0 && i < r->script->clauses.n; i++)
		sites[i].at = r->script->clauses.v[i]->probes[0]->kind == PROBE_CALL ? LANG_CALL : LANG_ENTRY;
	if (err == 0)
		err = lang_new(r->script, &r->lang);
	if (err == 0)
		err = lang_infer(r->lang, site_of, NULL);
	for (uint32_t i = 0; err == 0 && i < r->script->clauses.n; i++)
		err = lang_compile(r->lang, i, &sites[i], r->progs[i]);
	return err;
}

/* -ENOTSUP: too large to be run here. */
static int place(struct run *r, bool has_rseq)
{
	const struct ir_unit *u = lang_unit(r->lang);
	struct gen_env env;
	int err;

	if (maps_layout_new(u, ncpus, &r->layout) < 0 || r->layout->size > GEN_MAPS || u->ncells > 256 || u->records.n > 256)
		return -ENOTSUP;
	memset(gen_maps_memory, 0, r->layout->size);
	maps_init(u, r->layout, gen_maps_memory);
	env = gen_make_env(has_rseq, r->layout);
	for (uint32_t i = 1; i < r->script->clauses.n; i++)
		for (uint32_t k = 0; k < 2 && r->progs[i][k]; k++) {
			err = gen_measure(u, r->progs[i][k]);
			if (err > ROOM)
				return -ENOTSUP;
			if (err >= 0)
				err = gen_place(u, r->progs[i][k], &env, (2 * (i - 1) + k) * (ROOM + 64));
			if (err < 0)
				return err;
			r->body[i][k] = machine_body;
		}
	return 0;
}

static void start(struct run *r)
{
	const struct ir_unit *u = lang_unit(r->lang);

	memset(gen_errors, 0, sizeof(gen_errors));
	memset(gen_cells, 0, sizeof(gen_cells));
	memset(gen_pairs, 0, sizeof(gen_pairs));
	native_seen.n = native_seen.events = judged_seen.n = judged_seen.events = 0;
	r->reader = maps_reader_new(u, r->layout, gen_maps_memory);
	r->store = store_new(u);
	r->in = (struct interp){ .unit = u, .ops = &store_ops, .store = r->store, .cells = r->cells, .read = gen_read, .emit = look_judged };
}

static void run_native(uint64_t body)
{
	machine_body = body;
	machine_run();
	nnow = 0;
	drain(look_native);
	for (uint32_t i = 0; i < nnow; i++)
		see(&native_seen, now_seen[i].head.id, now_seen[i].payload, now_seen[i].head.len - sizeof(now_seen[i].head));
}

/* NULL, or what is not the same. */
static const char *one_hit(struct run *r, uint32_t clause)
{
	uint64_t errors[IR_ERRORS] = { 0 };
	struct interp_site s;
	bool is_call = r->progs[clause][1];

	make_memory();
	make_machine();
	s = gen_interp_site();
	s.comm = "a fuzzer";
	run_native(r->body[clause][0]);
	if (interp_run(&r->in, r->progs[clause][0], &s) == 1 && is_call) {
		machine_in.gpr[0] = s.regs[0] = odd_number();
		run_native(r->body[clause][1]);
		interp_run(&r->in, r->progs[clause][1], &s);
	}
	for (uint32_t i = 0; i <= CLAUSES; i++)
		for (uint32_t e = 0; e < IR_ERRORS; e++)
			errors[e] += gen_errors[i][e];
	total.hits++;
	if (native_seen.events != judged_seen.events)
		return "an event more or less";
	if (native_seen.n != judged_seen.n || memcmp(native_seen.v, judged_seen.v, native_seen.n))
		return "an event";
	return memcmp(errors, r->in.errors, sizeof(errors)) ? "the errors" : NULL;
}

static const char *run_hits(struct run *r)
{
	const char *what = NULL;
	struct map_list list = { 0 };

	start(r);
	gen_machine(0, below(16));
	make_good(page, 4096);
	for (int i = 0; i < HITS && !what; i++)
		what = one_hit(r, 1 + below(r->script->clauses.n - 1));
	if (!what)
		what = compare_maps(lang_unit(r->lang), r->reader, r->store);
	for (uint32_t i = 0; i < lang_unit(r->lang)->maps.n; i++)
		store_ops.list(r->store, i, &list);
	total.entries += list.n;
	vec_free(&list);
	total.events += judged_seen.events;
	total.faults += r->in.errors[IR_ERR_FAULT] != 0;
	return what;
}

static void show_difference(const struct run *r)
{
	const struct ir_unit *u = lang_unit(r->lang);

	for (uint32_t e = 0; e < IR_ERRORS; e++) {
		uint64_t n = 0;

		for (uint32_t i = 0; i <= CLAUSES; i++)
			n += gen_errors[i][e];
		printf("  errors %u: %" PRIu64 " %" PRIu64 "\n", e, n, r->in.errors[e]);
	}
	for (size_t i = 0; i + 8 <= native_seen.n && i + 8 <= judged_seen.n; i += 8)
		if (memcmp(native_seen.v + i, judged_seen.v + i, 8))
			printf("  at %zu: %.8s %.8s, %016" PRIx64 " %016" PRIx64 "\n", i, native_seen.v + i, judged_seen.v + i,
			       *(uint64_t *)(native_seen.v + i), *(uint64_t *)(judged_seen.v + i));
	for (uint32_t map = 0; map < u->maps.n; map++) {
		struct ir_unit one = { .maps = { u->maps.v + map, 1, 1 } };

		printf("  %s: %zu keys there\n", one.maps.v[0].name, (size_t)maps_reader_ops.len(r->reader, map));
	}
}

static void end_run(struct run *r)
{
	maps_reader_free(r->reader);
	if (r->store)
		store_free(r->store);
	free(r->layout);
	lang_free(r->lang);
	script_free(r->script);
	free(r);
}

static bool check_script(uint64_t number, bool only_print)
{
	struct run *r = xcalloc(1, sizeof(*r));
	struct gen g = { 0 };
	const char *what = NULL;
	int err;

	make_script(&g);
	gen_fill = number & 2;
	if (only_print) {
		printf("%s\n", g.ours.p);
	} else if ((err = compile(r, g.ours.p)) < 0) {
		char *why = diags_text(&r->script->diags);

		printf("not compiled: %s\n%s", g.ours.p, why);
		free(why);
		what = "";
	} else if ((err = place(r, number & 1)) < 0) {
		total.refused++;
		what = err == -ENOTSUP ? NULL : err_text();
	} else {
		what = run_hits(r);
	}
	if (what && *what) {
		printf("script %" PRIu64 ": %s\n%s\n", number, what, g.ours.p);
		if (r->store)
			show_difference(r);
	}
	total.scripts++;
	if (!only_print)
		end_run(r);
	free(g.ours.p);
	free(g.c.p);
	return !what;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* On one CPU: sums of floats depend on the order. */
static void set_up(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	prctl(PR_SET_NAME, "a fuzzer");
	page = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	mprotect(page + 4096, 4096, PROT_NONE);
	gen_set_up();
}

int main(int argc, char **argv)
{
	uint64_t count = 500, seed = 1, bad = 0;
	double seconds = 0, end;
	bool only_print = false;
	int opt;

	while ((opt = getopt(argc, argv, "n:t:s:p")) != -1) {
		switch (opt) {
		case 'n': count = strtoull(optarg, NULL, 0); break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 'p': only_print = true; break;
		default: return 2;
		}
	}
	if (!open_self())
		return 2;
	set_up();
	for (end = now() + seconds; (seconds ? now() < end : total.scripts < count) && bad < 5;) {
		expr_seed = seed * 0x100000001b3ull + total.scripts;
		bad += !check_script(total.scripts, only_print);
	}
	module_close(self);
	if (only_print)
		return 0;
	printf("seed %" PRIu64 ": %" PRIu64 " scripts, %" PRIu64 " too large, %" PRIu64 " hits, %" PRIu64 " events, %" PRIu64 " keys, %" PRIu64
	       " with faults, %" PRIu64 " bad\n", seed, total.scripts, total.refused, total.hits, total.events, total.entries, total.faults, bad);
	return bad || total.refused > total.scripts / 2 || !total.events || !total.entries;
}
