/* SPDX-License-Identifier: MIT */
/*
 * Random expressions, computed three times: as native code with every register given, by the interpreter, and by
 * C that the system's compiler made of the same text. Names and types come from the debug info of this program.
 * All three must agree on each result, on whether the condition holds, and on whether a division had no answer. Where
 * memory can't be read C has nothing to say; native code and interpreter must still agree on what failed and where.
 *
 *	fuzz_expr [-n PROGRAMS | -t SECONDS] [-s SEED] [-b BATCH] [-k]	-k: keep the C file
 */
#include <getopt.h>
#include <link.h>
#include <time.h>

#include "../unit/gen_run.h"
#include "base/err.h"
#include "expr_batch.h"
#include "expr_good.h"
#include "lang/format.h"
#include "lang/lang.h"

#define GOOD_ROUNDS 16		/* inputs a program */
#define BAD_ROUNDS 2		/* with pointers that lead nowhere */

static struct { uint64_t programs, results, distinct, inputs, evaluated, faults, divisions, refused; } total;

/* ---- the function whose names are used; never called ---- */

__attribute__((noinline, used)) uint64_t world(EXPR_PARAMS);
__attribute__((noinline, used)) uint64_t world(EXPR_PARAMS)
{
	return va + vb + vc + vd + p->i8 + *q + (int)x + (int)y + sa + sb + LARGE;
}

static struct module *self;
static struct lang_site site;

static bool open_self(void)
{
	uint64_t bias = _r_debug.r_map->l_addr, link = (uint64_t)(uintptr_t)world - bias;
	struct types *types;

	if (module_open("", "/proc/self/exe", &self) < 0 || module_types(self, &types) < 0)
		return false;
	site = (struct lang_site){ .at = LANG_ENTRY, .types = types, .pc = link, .entry = link, .bias = bias };
	return true;
}

static const struct lang_site *site_of(void *arg, uint32_t clause)
{
	return &site;
}

/* ---- how many different ones there were ---- */

static uint64_t *seen;
static size_t seen_size, nseen;

static bool is_new(uint64_t hash)
{
	size_t i;

	if (2 * nseen >= seen_size) {
		uint64_t *old = seen;
		size_t n = seen_size;

		seen_size = n ? 4 * n : 4096;
		seen = xcalloc(seen_size, 8);
		nseen = 0;
		for (i = 0; i < n; i++)
			if (old[i])
				is_new(old[i]);
		free(old);
	}
	hash |= !hash;
	for (i = hash % seen_size; seen[i]; i = (i + 1) % seen_size)
		if (seen[i] == hash)
			return false;
	seen[i] = hash;
	nseen++;
	return true;
}

static bool text_is_new(const char *s)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
	return is_new(h ^ h >> 29);
}

/* ---- inputs ---- */

struct input {
	int8_t va;
	uint16_t vb;
	int32_t vc;
	uint64_t vd;
	float x;
	double y;
	int16_t sa;
	uint32_t sb;
};

static struct thing *things;		/* two of them at the end of a page, nothing behind it */
static struct thing *p_now;
static unsigned char *q_now;

static double any_double(void)
{
	static const double odd[] = {
		0.0, -0.0, 1.0, -1.5, 0.5, 0x1p63, -0x1p63, 0x1.fffffffffffffp62, 0x1p64, 0x1.fffffffffffffp63, 0x1p31, -0x1p31, 0x1p32, 2147483647.5,
		1e300, -1e-300, 0x1p-1074, 0x1p-1022, 0x1p-149, 0x1p-150, 3.4e38, 0x1.fffffep127, 0x1.ffffffp127, 9007199254740993.0, 0.1, -255.5,
	};
	uint64_t bits = expr_random();
	double d;

	switch (below(8)) {
	case 0:	return below(3) ? (below(2) ? __builtin_inf() : -__builtin_inf()) : __builtin_nan("");
	case 1:	memcpy(&d, &bits, 8); return d;
	case 2:	return (int64_t)odd_number() / 16.0;
	case 3:	return (double)odd_number();
	}
	return odd[below(ARRAY_SIZE(odd))];
}

static void fill_thing(struct thing *t, struct thing *next)
{
	uint64_t v;

	for (size_t i = 0; i + 8 <= sizeof(*t); i += 8) {
		v = odd_number();
		memcpy((char *)t + i, &v, 8);
	}
	t->yes = below(2);
	t->f = any_double();
	t->d = any_double();
	t->u16 = odd_number();
	t->i8 = odd_number();
	t->i16 = odd_number();
	t->u32 = odd_number();
	if (below(2))
		t->ud = any_double();
	t->next = next;
	t->ip = &t->arr[below(3)];
	t->up = &t->u16;
	t->dp = &t->d;
}

/* C's float -> double -> float makes a signalling NaN quiet, ours need not: they hold the same nothing. */
static struct input make_input(void)
{
	fill_thing(&things[0], &things[1]);
	fill_thing(&things[1], &things[0]);
	p_now = &things[0];
	q_now = (unsigned char *)things;
	return (struct input){ odd_number(), odd_number(), odd_number(), odd_number(), any_double(), any_double(), odd_number(), odd_number() };
}

static uint64_t nowhere(void)
{
	static const uint64_t bad[] = { 0, 1, 8, 0x1000, 0xdead000000000000, 0xffff800000000000, ~0ull, ~7ull, 0x7fffffffe000, 1ull << 47 };

	return below(3) ? bad[below(ARRAY_SIZE(bad))] : (uint64_t)(things + 2) - below(4) * 40;
}

static void spoil_pointers(void)
{
	uint32_t which = below(5);

	if (which == 0 || below(3) == 0)
		p_now = (struct thing *)nowhere();
	if (which == 1 || below(3) == 0)
		q_now = (unsigned char *)nowhere();
	if (which == 2)
		things[0].next = (struct thing *)nowhere();
	if (which == 3)
		things[0].ip = (int *)nowhere();
	if (which == 4)
		things[1].next = (struct thing *)nowhere();
	things[0].up = below(4) ? things[0].up : (uint16_t *)nowhere();
	things[0].dp = below(4) ? things[0].dp : (double *)nowhere();
}

/* What is above a narrow value in its register nobody may look at. */
static void give_registers(const struct input *in)
{
	uint64_t high = expr_random(), xmm = expr_random(), *stack = (uint64_t *)machine_in.gpr[4];

	machine_in.gpr[7] = (high & ~0xffull) | (uint8_t)in->va;
	machine_in.gpr[6] = (high & ~0xffffull) | in->vb;
	machine_in.gpr[2] = high << 32 | (uint32_t)in->vc;
	machine_in.gpr[1] = in->vd;
	machine_in.gpr[8] = (uint64_t)p_now;
	machine_in.gpr[9] = (uint64_t)q_now;
	memcpy(&xmm, &in->x, 4);
	memcpy(machine_in.fx + 160, &xmm, 8);
	memcpy(machine_in.high[0], &xmm, 8);
	memcpy(machine_in.fx + 176, &in->y, 8);
	memcpy(machine_in.high[1], &in->y, 8);
	memcpy(stack + 1, &(uint64_t){ (high & ~0xffffull) | (uint16_t)in->sa }, 8);
	memcpy(stack + 2, &(uint64_t){ high << 32 | in->sb }, 8);
}

/* ---- three answers ---- */

static bool read_memory(void *data, uint64_t addr, void *buf, size_t len)
{
	uint64_t from = (uint64_t)things, size = 2 * sizeof(*things);

	if (addr < from || addr - from > size - len || len > size)
		return gen_read(data, addr, buf, len);
	memcpy(buf, (void *)addr, len);
	return true;
}

/* As gen_run(), without the look at the whole stack. */
static void run_native(void)
{
	memset(&gen_native, 0, offsetof(struct gen_seen, payload));
	machine_run();
	drain(gen_look);
}

static void run_judge(struct interp *in, const struct ir_prog *p)
{
	struct interp_site s = gen_interp_site();

	memset(&gen_judged, 0, offsetof(struct gen_seen, payload));
	memset(in->errors, 0, sizeof(in->errors));
	interp_run(in, p, &s);
}

static uint64_t one_nan(uint64_t u)
{
	double d;

	memcpy(&d, &u, 8);
	return d != d ? 0x7ff8000000000000 : u;
}

/* A float that was recorded as it was in its register (IR_SHOW_RAW), as the double that C computes. */
static uint64_t widened(uint64_t u)
{
	double d;
	float f;

	memcpy(&f, &u, 4);
	d = f;
	memcpy(&u, &d, 8);
	return u;
}

/* Floats of an event are doubles, all with the same NaN. */
static void tidy(const struct program *p, const struct ir_record *r, struct gen_seen *s)
{
	uint64_t *v = (uint64_t *)s->payload, faults = r->faulty ? v[0] : 0;

	for (uint32_t i = 0; i < p->n && s->n; i++) {
		if (r->fields[i].type == IR_F32 && r->fields[i].show == IR_SHOW_RAW)
			v[i + r->faulty] = widened(v[i + r->faulty]);
		if (p->is_float[i] && !(faults >> i & 1))
			v[i + r->faulty] = one_nan(v[i + r->faulty]);
	}
}

/* NULL, or what is not the same with native code. */
static const char *compare_judge(const struct interp *in)
{
	if (gen_native.n != gen_judged.n || gen_native.len != gen_judged.len)
		return "native: an event more or less";
	if (gen_native.n && memcmp(gen_native.payload, gen_judged.payload, gen_native.len))
		return "native: a result";
	if (memcmp(gen_errors[0], in->errors, sizeof(gen_errors[0])))
		return "native: the errors";
	return NULL;
}

static const char *compare_c(const struct batch *b, const struct program *p, const struct ir_record *r, const struct input *in,
			     const struct interp *judge, uint64_t *out)
{
	const uint64_t *v = (const uint64_t *)gen_judged.payload;
	int holds;

	*b->divisions = 0;
	holds = p->run(in->va, in->vb, in->vc, in->vd, p_now, q_now, in->x, in->y, in->sa, in->sb, out);
	if (holds != (int)gen_judged.n)
		return "C: the condition";
	if (holds && r->faulty && v[0])
		return "C: a fault";
	for (uint32_t i = 0; i < p->n && holds; i++)
		if (v[i + r->faulty] != out[i])
			return "C: a result";
	if (!*b->divisions != !judge->errors[IR_ERR_DIV])
		return "C: divisions that have no answer";
	total.divisions += *b->divisions > 0;
	return NULL;
}

static void show(const struct program *p, const char *what, const struct input *in, const uint64_t *out)
{
	const uint64_t *a = (const uint64_t *)gen_native.payload, *b = (const uint64_t *)gen_judged.payload;

	printf("%s\n  %s\n  C: %s\n", what, p->ours, p->c);
	printf("  va %d vb %u vc %d vd %#" PRIx64 " p %p q %p x %a y %a sa %d sb %u\n", in->va, in->vb, in->vc, in->vd, (void *)p_now,
	       (void *)q_now, in->x, in->y, in->sa, in->sb);
	printf("  events %u %u, native interpreter C:\n", gen_native.n, gen_judged.n);
	for (uint32_t i = 0; i < gen_judged.len / 8 && i < 8; i++)
		printf("  %u: %#" PRIx64 " %#" PRIx64 " %#" PRIx64 "\n", i, a[i], b[i], i < EXPR_MOST ? out[i] : 0);
}

static bool check_input(const struct batch *b, const struct program *p, struct interp *in, const struct ir_prog *prog, uint32_t round)
{
	struct input input = make_input();
	bool bad = round >= GOOD_ROUNDS;
	const struct ir_record *r = &in->unit->records.v[0];
	uint64_t out[EXPR_MOST] = { 0 };
	const char *what = NULL;

	if (bad)
		spoil_pointers();
	give_registers(&input);
	memset(gen_errors, 0, sizeof(gen_errors[0]));
	if (round == 0)
		what = gen_run(machine_run);
	else
		run_native();
	run_judge(in, prog);
	tidy(p, r, &gen_native);
	tidy(p, r, &gen_judged);
	if (!what)
		what = compare_judge(in);
	if (!what && !bad && !p->wild)
		what = compare_c(b, p, r, &input, in, out);
	total.inputs++;
	total.evaluated += gen_judged.n ? p->n : 0;
	total.faults += gen_judged.n && r->faulty && *(uint64_t *)gen_judged.payload;
	if (what)
		show(p, what, &input, out);
	return !what;
}

static bool check_program(const struct batch *b, const struct program *p, struct lang *lang, const struct ir_prog *prog, uint32_t number)
{
	struct interp in = { .unit = lang_unit(lang), .ops = &store_ops, .read = read_memory, .emit = gen_emitted };
	struct maps_layout *l = NULL;
	struct gen_env env;
	bool good = true;
	int len;

	if (maps_layout_new(in.unit, ncpus, &l) < 0)
		return false;
	env = gen_make_env(number & 1, l);
	len = gen_place(in.unit, prog, &env, number % 64);
	if (len < 0) {
		total.refused++;
		good = len == -E2BIG || len == -ENOTSUP;
		if (!good)
			printf("no code: %s\n%s\n", p->ours, err_text());
	} else {
		gen_machine(expr_random(), number % 16);
		make_good(things, 2 * sizeof(*things));
		for (uint32_t r = 0; r < GOOD_ROUNDS + BAD_ROUNDS && good; r++)
			good = check_input(b, p, &in, prog, r);
	}
	free(l);
	return good;
}

/* True: all agree. */
static bool check_one(const struct batch *b, uint32_t n)
{
	const struct program *p = &b->v[n];
	struct ir_prog *progs[2];
	struct script *script;
	struct lang *lang = NULL;
	int err = p->c_rules ? line_parse(p->ours, NULL, &script) : script_parse("fuzz", p->ours, strlen(p->ours), &script);
	bool good;

	if (err == 0)
		err = lang_new(script, &lang);
	if (err == 0)
		err = lang_infer(lang, site_of, NULL);
	if (err == 0)
		err = lang_compile(lang, 0, &site, progs);
	if (err < 0 && p->wild) {	/* it has seen that an index is too large */
		total.refused++;
		err = 1;
	}
	if (err < 0) {
		char *why = diags_text(&script->diags);

		printf("not compiled: %s\n%s", p->ours, why);
		free(why);
	}
	good = err == 0 ? check_program(b, p, lang, progs[0], n) : err > 0;
	lang_free(lang);
	script_free(script);
	total.programs++;
	total.results += p->n;
	if (text_is_new(p->ours))
		total.distinct += p->n;
	return good;
}

static uint32_t run_batch(uint32_t n, const char *dir, bool optimized, uint32_t most_bad)
{
	struct batch b = { .v = xcalloc(n, sizeof(*b.v)), .n = n };
	uint32_t bad = 0;

	for (uint32_t i = 0; i < n; i++)
		make_program(&b.v[i]);
	if (load_batch(&b, dir, optimized))
		for (uint32_t i = 0; i < n && bad < most_bad; i++)
			bad += !check_one(&b, i);
	else
		printf("the C side failed (%s)\n", dir), bad = most_bad;
	free_batch(&b);
	return bad;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void make_world(void)
{
	uint8_t *at = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	mprotect(at + 4096, 4096, PROT_NONE);
	things = (struct thing *)(at + 4096) - 2;
	gen_set_up();
}

int main(int argc, char **argv)
{
	uint64_t count = 1000, size = 1500, most_bad = 10, bad = 0, seed = 1;
	double seconds = 0, end;
	char dir[] = "/tmp/jab-expr-XXXXXX", *src;
	bool kept = false;
	int opt;

	while ((opt = getopt(argc, argv, "n:t:s:b:k")) != -1) {
		switch (opt) {
		case 'n': count = strtoull(optarg, NULL, 0); break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 'b': size = strtoull(optarg, NULL, 0); break;
		case 'k': kept = true; break;
		default: return 2;
		}
	}
	if (!open_self() || !mkdtemp(dir)) {
		fprintf(stderr, "fuzz_expr: %s (it reads its own debug info)\n", *err_text() ? err_text() : dir);
		return 2;
	}
	expr_seed = seed;
	make_world();
	for (end = now() + seconds; (seconds ? now() < end : total.programs < count) && bad < most_bad;)
		bad += run_batch(seconds ? size : MIN(size, count - total.programs), dir, below(8) == 0, most_bad - bad);
	src = xasprintf("%s/e.c", dir);
	if (!kept) {
		unlink(src);
		rmdir(dir);
	}
	free(src);
	free(seen);
	module_close(self);
	printf("seed %" PRIu64 ": %" PRIu64 " programs with %" PRIu64 " expressions (%" PRIu64 " in texts that differ), %" PRIu64 " runs, %" PRIu64 " values, %" PRIu64
	       " runs with faults, %" PRIu64 " with divisions by nothing; %" PRIu64 " refused, %" PRIu64 " bad\n", seed, total.programs,
	       total.results, total.distinct, total.inputs, total.evaluated, total.faults, total.divisions, total.refused, bad);
	return bad || total.refused > total.programs / 4 || !total.evaluated || !total.faults || !total.divisions;
}
