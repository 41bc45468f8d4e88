/* SPDX-License-Identifier: MIT */
/*
 * Random programs, run as native code and by the interpreter: integers and floats of all types, branches and
 * loops, plain and checked loads, text, maps and aggregations, stacks. Both must record the same, count the same
 * errors, leave the same in maps, and nothing of the machine may change.
 *
 *	fuzz_gen [-n PROGRAMS | -t SECONDS] [-s SEED]
 */
#include <getopt.h>
#include <inttypes.h>
#include <time.h>

#include "../unit/gen_run.h"
#include "base/err.h"
#include "gen_maps.h"

static uint64_t seed_state, refused, recorded;

static uint64_t next_random(void)
{
	uint64_t z = seed_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint32_t below(uint32_t n)
{
	return next_random() % n;
}

struct made {
	struct ir_unit u;
	struct ir_prog *p;
	uint32_t ints[256], floats[256];	/* that may be read */
	uint32_t nints, nfloats, nlabels;
	uint32_t stack;			/* register with the number of a stack; IR_NONE: none */
	bool memory, text, maps;
};

#define NSLOTS 4

/* Text, zeros here and there, and nothing behind it. */
static uint8_t *page;

static void make_page(void)
{
	if (!page) {
		page = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		munmap(page + 4096, 4096);
	}
	for (int i = 0; i < 4096; i++)
		page[i] = below(20) ? 'a' + below(3) : 0;
}

/* Some parts of the page and one of the stack: what is in them is loaded plainly. */
static void make_good(void)
{
	memset(&gen_good, 0, sizeof(gen_good));
	for (int k = 0; k < GEN_GOOD; k++) {
		uint32_t from = below(4) ? 3700 + below(396) : 0, len = below(2) ? 4096 - from : 1 + below(4096 - from);

		if (below(3))
			continue;
		gen_good.range[k].lo = (uint64_t)page + from;
		gen_good.range[k].len = MAX(len, GEN_GOOD_SHORT) - GEN_GOOD_SHORT;
	}
	if (below(2)) {
		uint32_t from = below(GEN_STACK - GEN_KEPT);

		gen_good.range[GEN_GOOD_STACK].lo = (uint64_t)gen_stack + from;
		gen_good.range[GEN_GOOD_STACK].len = GEN_STACK - from - GEN_GOOD_SHORT - below(GEN_KEPT);
	}
}

static int64_t any_number(void)
{
	static const int64_t odd[] = { 0, 1, -1, 2, 7, 31, 32, 63, 64, 127, 128, 255, 256, -128, 32767, -32768, 65535, INT32_MAX, INT32_MIN,
				       UINT32_MAX, INT64_MAX, INT64_MIN, 1ll << 62, -2 };

	return below(3) ? odd[below(ARRAY_SIZE(odd))] : (int64_t)(next_random() >> below(64));
}

static double any_double(void)
{
	static const double odd[] = { 0.0, -0.0, 1.0, -1.5, 0x1p63, -0x1p63, 0x1p64, 1e300, -1e-300, 0x1p-1074, 3.4e38, 1e-45, 0x1.fffffep127,
				      0x1.ffffffp127, 9007199254740993.0, 0.1 };
	double d;
	uint64_t bits = next_random();

	if (below(8) == 0)
		return below(2) ? __builtin_inf() : __builtin_nan("");
	if (below(2))
		return odd[below(ARRAY_SIZE(odd))];
	memcpy(&d, &bits, 8);
	return d;
}

static uint32_t int_of(struct made *m) { return m->ints[below(m->nints)]; }
static uint32_t float_of(struct made *m) { return m->floats[below(m->nfloats)]; }

/* Mostly a new register, now and then one that is there. */
static uint32_t new_int(struct made *m, bool in_branch)
{
	if (in_branch || m->nints >= 8 || below(4) == 0)
		return m->ints[below(m->nints)];
	return m->ints[m->nints++] = gen_reg(m->p, IR_I);
}

static uint32_t new_float(struct made *m, bool in_branch)
{
	if (in_branch || m->nfloats >= 3 || below(4) == 0)
		return m->floats[below(m->nfloats)];
	return m->floats[m->nfloats++] = gen_reg(m->p, IR_F);
}

static void add_int_op(struct made *m, bool in_branch)
{
	static const uint8_t ops[] = { IR_ADD, IR_SUB, IR_MUL, IR_DIV, IR_MOD, IR_AND, IR_OR, IR_XOR, IR_SHL, IR_SHR, IR_NEG, IR_NOT };
	static const uint8_t types[] = { IR_I32, IR_U32, IR_I64, IR_U64 };
	static const uint8_t casts[] = { IR_I8, IR_I16, IR_I32, IR_I64, IR_U8, IR_U16, IR_U32, IR_U64, IR_BOOL, IR_CHAR };
	uint32_t a = int_of(m), b = int_of(m), t = m->ints[0], t2 = m->ints[1];
	uint8_t type = types[below(4)], o = ops[below(ARRAY_SIZE(ops))];
	struct ir_ins *i;

	/* Operands are numbers of the type, as lower.c sees to it. */
	i = gen_ins(m->p, IR_CAST);
	i->a = a;
	i->type = type;
	i->dst = t;
	i = gen_ins(m->p, IR_CAST);
	i->a = b;
	i->type = type;
	i->dst = t2;
	i = gen_ins(m->p, o);
	i->type = type;
	i->a = t;
	i->b = o == IR_NEG || o == IR_NOT ? IR_NONE : t2;
	i->dst = new_int(m, in_branch);
	if (below(3) == 0) {
		i = gen_ins(m->p, IR_CAST);
		i->type = casts[below(ARRAY_SIZE(casts))];
		i->a = int_of(m);
		i->dst = new_int(m, in_branch);
	}
}

static void add_compare(struct made *m, bool in_branch)
{
	static const uint8_t types[] = { IR_I64, IR_U64, IR_F64 };
	struct ir_ins *i = gen_ins(m->p, IR_EQ + below(6));

	i->type = types[below(3)];
	i->a = i->type == IR_F64 ? float_of(m) : int_of(m);
	i->b = i->type == IR_F64 ? float_of(m) : int_of(m);
	i->dst = new_int(m, in_branch);
}

static void add_float_op(struct made *m, bool in_branch)
{
	static const uint8_t ops[] = { IR_ADD, IR_SUB, IR_MUL, IR_DIV, IR_NEG };
	struct ir_ins *i = gen_ins(m->p, ops[below(5)]);

	i->type = below(2) ? IR_F32 : IR_F64;
	i->a = float_of(m);
	i->b = i->op == IR_NEG ? IR_NONE : float_of(m);
	i->dst = new_float(m, in_branch);
}

static void add_conversion(struct made *m, bool in_branch)
{
	static const uint8_t types[] = { IR_I8, IR_I16, IR_I32, IR_I64, IR_U8, IR_U16, IR_U32, IR_U64, IR_BOOL };
	static const uint8_t ops[] = { IR_I2F, IR_U2F, IR_RAW2F, IR_F2F, IR_F2RAW, IR_F2I };
	int kind = below(6);
	struct ir_ins *i = gen_ins(m->p, ops[kind]);

	i->type = kind < 5 ? (below(2) ? IR_F32 : IR_F64) : types[below(9)];
	i->a = kind < 3 ? int_of(m) : float_of(m);
	if (kind >= 4)
		i->dst = new_int(m, in_branch);
	else
		i->dst = new_float(m, in_branch);
}

static void add_bits(struct made *m, bool in_branch)
{
	static const uint8_t swaps[] = { IR_U16, IR_U32, IR_U64 };
	struct ir_ins *i = gen_ins(m->p, below(2) ? IR_BITS : IR_BSWAP);
	uint32_t lo = below(64);

	i->a = int_of(m);
	i->type = i->op == IR_BSWAP ? swaps[below(3)] : below(2) ? IR_I64 : IR_U64;
	i->imm = lo | (1 + below(64 - lo)) << 8;
	i->dst = new_int(m, in_branch);
}

static void add_source(struct made *m, bool in_branch)
{
	static const uint8_t ctx[] = { IR_CTX_SITE, IR_CTX_PID, IR_CTX_TID, IR_CTX_NS_PID, IR_CTX_NS_TID, IR_CTX_UID, IR_CTX_GID, IR_CTX_NCPUS, IR_CTX_CPID, IR_CTX_THREAD };
	int kind = below(5);
	struct ir_ins *i = gen_ins(m->p, kind == 0 ? IR_CONST : kind == 1 ? IR_REG : kind == 2 ? IR_VECTOR : kind == 3 ? IR_FCONST : IR_CTX);

	if (kind == 0)
		i->imm = any_number();
	else if (kind == 1)
		i->imm = below(18);
	else if (kind == 2)
		i->imm = below(16);
	else if (kind == 3)
		i->fimm = any_double();
	else
		i->imm = ctx[below(ARRAY_SIZE(ctx))];
	i->type = kind == 2 ? (below(2) ? IR_F32 : IR_F64) : IR_U64;
	if (kind == 2 || kind == 3)
		i->dst = new_float(m, in_branch);
	else
		i->dst = new_int(m, in_branch);
}

/* Of the site's stack, by its pointer: good; of anywhere: checked. */
static void add_load(struct made *m, bool in_branch)
{
	static const uint8_t types[] = { IR_I8, IR_I16, IR_I32, IR_I64, IR_U8, IR_U16, IR_U32, IR_U64, IR_F32, IR_F64, IR_BOOL };
	bool good = !m->memory || below(3);
	uint32_t base = new_int(m, in_branch);
	struct ir_ins *i = gen_ins(m->p, good || below(2) ? IR_REG : IR_CONST);

	i->imm = i->op == IR_REG ? 4 : any_number();
	i->dst = base;
	i = gen_ins(m->p, IR_LOAD);
	i->type = types[below(ARRAY_SIZE(types))];
	i->a = base;
	i->imm = below(256);
	if (!good && below(16) == 0)
		i->imm = any_number();
	i->flags = good ? IR_GOOD : 0;
	i->bit = below(4);
	i->mask = good ? 0 : below(16);
	if (ir_is_float(i->type))
		i->dst = new_float(m, in_branch);
	else
		i->dst = new_int(m, in_branch);
}

/* Where the second one reads depends on the first, and is another place each time. */
static void add_chain(struct made *m, bool in_branch)
{
	uint32_t base = new_int(m, in_branch), far = new_int(m, in_branch), at = new_int(m, in_branch);
	struct ir_ins *i = gen_ins(m->p, IR_CONST);

	i->imm = (int64_t)page + (below(4) ? 3800 + below(200) : 4060 + below(40));
	i->dst = base;
	for (int k = 0; k < 3; k++) {
		i = gen_ins(m->p, IR_LOAD);
		i->type = k ? (below(2) ? IR_U32 : IR_I64) : IR_U8;
		i->a = k == 1 ? at : base;
		i->imm = below(20);
		i->bit = below(4);
		i->mask = below(4) ? 0 : below(16);
		i->dst = k == 2 ? base : far;
		if (k)
			continue;
		i = gen_ins(m->p, IR_ADD);
		i->a = base;
		i->b = far;
		i->dst = at;
	}
}

/* ---- text ---- */

static void add_read(struct made *m, bool in_branch)
{
	uint32_t address = new_int(m, in_branch), len = below(3) ? IR_NONE : int_of(m);
	struct ir_ins *i = gen_ins(m->p, IR_CONST);

	i->imm = below(8) ? (int64_t)page + 4096 - below(100) : any_number();
	i->dst = address;
	i = gen_ins(m->p, below(2) ? IR_READ_STR : IR_READ_BUF);
	i->slot = below(NSLOTS);
	i->a = address;
	i->b = len == address ? IR_NONE : len;
	i->imm = 1 + below(60);
	i->bit = below(4);
	i->mask = below(4) ? 0 : below(16);
}

static void add_text(struct made *m, bool in_branch)
{
	static const uint8_t types[] = { IR_I8, IR_I16, IR_I32, IR_I64, IR_U8, IR_U16, IR_U32, IR_U64, IR_BOOL };
	static const uint8_t ops[] = { IR_STR_CMP, IR_STR_LEN, IR_STR_FIND, IR_SLOT_LOAD, IR_SLOT_COPY, IR_SLOT_AND };
	struct ir_ins *i;

	if (below(2)) {
		add_read(m, in_branch);
		return;
	}
	i = gen_ins(m->p, ops[below(ARRAY_SIZE(ops))]);
	i->slot = below(i->op == IR_SLOT_COPY || i->op == IR_SLOT_AND ? NSLOTS : NSLOTS + 1);
	i->slot2 = i->op == IR_STR_LEN || i->op == IR_SLOT_LOAD ? IR_NONE : below(NSLOTS + 1);
	i->type = i->op == IR_SLOT_LOAD ? types[below(ARRAY_SIZE(types))] : IR_I64;
	i->imm = i->op == IR_SLOT_LOAD || (i->op == IR_STR_CMP && below(2)) ? below(20) : 0;
	if (i->op != IR_SLOT_COPY && i->op != IR_SLOT_AND)
		i->dst = new_int(m, in_branch);
}

static void make_slots(struct made *m)
{
	for (uint32_t k = 0; k <= NSLOTS; k++) {
		struct ir_slot *s = vec_add(&m->p->slots);

		*s = k < NSLOTS ? (struct ir_slot){ .cap = 1 + below(40) } : (struct ir_slot){ 3, xstrdup("abc") };
	}
}

/* ---- maps ---- */

#define NMAPS 4

static void make_maps(struct made *m)
{
	for (int k = 0; k < NMAPS; k++) {
		uint8_t kind = k == 0 ? IR_MAP_VALUE : IR_MAP_VALUE + below(IR_MAP_QUANTILE - IR_MAP_VALUE);
		struct ir_map *map = gen_map(&m->u, kind, below(2) ? IR_I64 : IR_U64, below(3));

		map->max_keys = 256;
		map->bits = below(4);
		map->lo = -5;
		map->hi = 40;
		map->step = 3;
		for (uint32_t i = 0; i < map->nkeys; i++)
			if (m->text && below(4) == 0)
				map->keys[i] = (struct ir_part){ .type = IR_STR, .cap = 1 + below(20) };
		if (m->text && kind == IR_MAP_VALUE && below(3) == 0)
			map->values[0] = (struct ir_part){ .type = IR_STR, .cap = 1 + below(20) };
	}
}

static void add_map_op(struct made *m, bool in_branch)
{
	static const uint8_t values[] = { IR_MAP_GET, IR_MAP_SET, IR_MAP_SET, IR_MAP_ADD, IR_MAP_DEL, IR_MAP_HAS, IR_MAP_LEN };
	static const uint8_t aggs[] = { IR_MAP_AGG, IR_MAP_AGG, IR_MAP_AGG, IR_MAP_GET, IR_MAP_DEL, IR_MAP_HAS, IR_MAP_LEN };
	uint32_t number = below(NMAPS), nkeys;
	const struct ir_map *map = &m->u.maps.v[number];
	bool is_value = map->kind == IR_MAP_VALUE, is_text = is_value && map->values[0].type == IR_STR;
	struct ir_ins *i = gen_ins(m->p, (is_value ? values : aggs)[below(7)]);

	if ((i->op == IR_MAP_ADD && is_text) || (i->op == IR_MAP_GET && !is_value && map->kind > IR_MAP_MAX))
		i->op = IR_MAP_HAS;
	i->map = number;
	nkeys = i->op == IR_MAP_LEN ? 0 : map->nkeys;
	for (uint32_t k = 0; k < nkeys; k++)
		gen_arg(m->p, i, map->keys[k].type, map->keys[k].type == IR_STR ? below(NSLOTS + 1) : int_of(m), 0);
	i->nkeys = nkeys;
	if (i->op == IR_MAP_ADD || (i->op == IR_MAP_AGG && map->kind != IR_MAP_COUNT))
		i->a = int_of(m);
	if (i->op == IR_MAP_SET)
		gen_arg(m->p, i, is_text ? IR_STR : IR_U64, is_text ? below(NSLOTS + 1) : int_of(m), 0);
	if (i->op == IR_MAP_GET)
		gen_arg(m->p, i, is_text ? IR_STR : IR_U64, is_text ? below(NSLOTS) : new_int(m, in_branch), 0);
	if (i->op == IR_MAP_HAS || i->op == IR_MAP_LEN || ((i->op == IR_MAP_DEL || i->op == IR_MAP_ADD || i->op == IR_MAP_GET) && below(2)))
		i->dst = new_int(m, in_branch);
}

static void add_other(struct made *m, bool in_branch)
{
	if (m->memory && below(3) == 0)
		add_chain(m, in_branch);
	else if (m->text && (below(2) || !m->maps))
		add_text(m, in_branch);
	else if (m->maps)
		add_map_op(m, in_branch);
	else
		add_compare(m, in_branch);
}

static void add_stack(struct made *m)
{
	struct ir_ins *i = gen_ins(m->p, IR_STACK);

	m->stack = i->dst = gen_reg(m->p, IR_I);
	i->imm = 1 + below(127);
}

static void add_some(struct made *m, int n, bool in_branch, int depth);

static void add_branch(struct made *m, int depth)
{
	uint32_t label = m->nlabels++;
	struct ir_ins *i;

	if (m->memory && below(4) == 0) {
		i = gen_ins(m->p, IR_IF_FAULT);
		i->mask = below(16);
	} else {
		add_compare(m, true);
		i = gen_ins(m->p, below(2) ? IR_JZ : IR_JNZ);
		i->a = below(2) ? m->p->ins.v[m->p->ins.n - 2].dst : int_of(m);
	}
	i->label = label;
	add_some(m, 1 + below(5), true, depth + 1);
	gen_ins(m->p, IR_LABEL)->label = label;
}

static void add_loop(struct made *m, int depth)
{
	uint32_t loop = m->nlabels++, out = m->nlabels++;
	struct ir_ins *i = gen_ins(m->p, IR_LOOP);

	i->label = loop;
	i->imm = 1 + below(5);
	add_some(m, 1 + below(4), true, depth + 1);
	i = gen_ins(m->p, below(2) ? IR_JZ : IR_JNZ);
	i->a = int_of(m);
	i->label = out;
	add_some(m, 1 + below(3), true, depth + 1);
	gen_ins(m->p, IR_LOOP_END)->label = loop;
	gen_ins(m->p, IR_LABEL)->label = out;
}

static void add_some(struct made *m, int n, bool in_branch, int depth)
{
	while (n--) {
		if (below(3) == 0) {
			add_other(m, in_branch);
			continue;
		}
		switch (below(depth < 2 ? 9 : 7)) {
		case 0: case 1: add_int_op(m, in_branch); break;
		case 2: add_float_op(m, in_branch); break;
		case 3: add_conversion(m, in_branch); break;
		case 4: add_bits(m, in_branch); break;
		case 5: add_source(m, in_branch); break;
		case 6: if (below(2)) add_load(m, in_branch); else add_compare(m, in_branch); break;
		case 7: add_branch(m, depth); break;
		case 8: add_loop(m, depth); break;
		}
	}
}

static void make_program(struct made *m)
{
	struct ir_ins *i;
	uint32_t record;

	*m = (struct made){ .memory = below(4) == 0, .text = below(3) == 0, .maps = below(3) == 0, .stack = IR_NONE };
	m->memory |= m->text;
	m->p = ir_prog_new(&m->u, IR_WHERE_SITE, 0);
	if (m->text)
		make_slots(m);
	if (m->maps)
		make_maps(m);
	for (int k = 0; k < 3; k++) {
		m->ints[m->nints++] = gen_reg(m->p, IR_I);
		i = gen_ins(m->p, below(2) ? IR_CONST : IR_REG);
		i->imm = i->op == IR_REG ? below(16) : any_number();
		i->dst = m->ints[k];
	}
	m->floats[m->nfloats++] = gen_reg(m->p, IR_F);
	i = gen_ins(m->p, below(2) ? IR_FCONST : IR_VECTOR);
	i->type = IR_F64;
	if (i->op == IR_VECTOR)
		i->imm = below(16);
	else
		i->fimm = any_double();
	i->dst = m->floats[0];
	add_some(m, 2 + below(20), false, 0);
	if (below(6) == 0)
		add_stack(m);
	record = gen_record(&m->u, (m->stack != IR_NONE) + m->nints + m->nfloats + (m->text ? NSLOTS : 0),
			    (m->stack != IR_NONE) + m->nints + m->nfloats, m->memory);
	i = gen_ins(m->p, IR_EMIT);
	i->record = record;
	if (m->stack != IR_NONE)
		gen_arg(m->p, i, IR_USTACK, m->stack, 0);
	for (uint32_t k = 0; k < m->nints; k++)
		gen_arg(m->p, i, IR_U64, m->ints[k], m->memory ? below(16) : 0);
	for (uint32_t k = 0; k < m->nfloats; k++)
		gen_arg(m->p, i, IR_F64, m->floats[k], m->memory ? below(16) : 0);
	for (uint32_t k = 0; m->text && k < NSLOTS; k++)
		gen_arg(m->p, i, IR_STR, k, below(16));
	gen_ins(m->p, IR_RET);
	m->p->nlabels = m->nlabels;
}

static bool same_number(const struct made *m, uint32_t k, uint64_t a, uint64_t b)
{
	double x, y;

	if (a == b)
		return true;
	memcpy(&x, &a, 8);
	memcpy(&y, &b, 8);
	k -= m->stack != IR_NONE;
	return k >= m->nints && k < m->nints + m->nfloats && x != x && y != y;		/* which NaN it is nobody cares */
}

static const char *compare(const struct made *m, const uint64_t *errors)
{
	const uint64_t *a = (const uint64_t *)gen_native.payload, *b = (const uint64_t *)gen_judged.payload;
	uint32_t skip = m->memory;

	if (gen_native.n != gen_judged.n || gen_native.id != gen_judged.id || gen_native.len != gen_judged.len)
		return "an event more or less, or another";
	if (skip && a[0] != b[0])
		return "the faults";
	for (uint32_t k = skip; k < gen_native.len / 8; k++)
		if (!same_number(m, k - skip, a[k], b[k]))
			return "a field";
	return memcmp(gen_errors[0], errors, sizeof(gen_errors[0])) ? "the errors" : NULL;
}

static void show(const struct made *m, const char *what, uint64_t number, uint64_t seed)
{
	const uint64_t *a = (const uint64_t *)gen_native.payload, *b = (const uint64_t *)gen_judged.payload;
	char *text = ir_dump(&m->u, m->p);

	printf("program %" PRIu64 " of seed %" PRIu64 ": %s\n%s", number, seed, what, text);
	for (uint32_t k = 0; k < gen_native.len / 8 && k < 32; k++)
		printf("  %2u: %016" PRIx64 " %016" PRIx64 "%s\n", k, a[k], b[k], a[k] == b[k] ? "" : " *");
	free(text);
}

static const char *run_rounds(struct made *m, uint64_t number, struct maps_reader *reader, struct store *store)
{
	struct interp in = { .unit = &m->u, .ops = &store_ops, .store = store };
	uint64_t errors[IR_ERRORS];
	const char *what = NULL;

	for (int round = 0; round < 3 && !what; round++) {
		make_page();
		make_good();
		gen_machine(next_random(), number % 16);
		memset(gen_errors, 0, sizeof(gen_errors));
		memset(in.errors, 0, sizeof(in.errors));
		what = gen_run(machine_run);
		gen_stack_number = ((uint64_t *)gen_native.payload)[m->memory];
		gen_judge(&in, m->p);
		memcpy(errors, in.errors, sizeof(errors));
		recorded += gen_native.n;
		if (!what)
			what = compare(m, errors);
	}
	return what ? what : compare_maps(&m->u, reader, store);
}

static const char *run_one(struct made *m, uint64_t number)
{
	struct maps_layout *l = NULL;
	struct gen_env env;
	struct maps_reader *reader;
	struct store *store;
	const char *what;
	int len;

	if (maps_layout_new(&m->u, ncpus, &l) < 0 || l->size > GEN_MAPS)
		return free(l), "no room for maps";
	if (m->maps || l->stacks)
		memset(gen_maps_memory, 0, l->size);
	maps_init(&m->u, l, gen_maps_memory);
	env = gen_make_env(number & 1, l);
	gen_fill = number & 2;
	len = gen_place(&m->u, m->p, &env, number % 64);
	if (len < 0) {
		free(l);
		refused += len == -ENOTSUP;
		return len == -ENOTSUP ? NULL : err_text();
	}
	reader = maps_reader_new(&m->u, l, gen_maps_memory);
	store = store_new(&m->u);
	what = run_rounds(m, number, reader, store);
	maps_reader_free(reader);
	store_free(store);
	free(l);
	return what;
}

int main(int argc, char **argv)
{
	uint64_t n = 1000, seed = 1, bad = 0, k;
	time_t end = 0;
	int c;

	while ((c = getopt(argc, argv, "n:s:t:")) > 0) {
		if (c == 'n')
			n = strtoull(optarg, NULL, 0);
		else if (c == 't')
			end = time(NULL) + atol(optarg);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	gen_set_up();
	for (k = 0; (end ? time(NULL) < end : k < n) && bad < 3; k++) {
		struct made m;
		const char *what;

		seed_state = seed * 0x100000001b3ull + k;
		make_page();
		make_program(&m);
		what = run_one(&m, k);
		if (what) {
			show(&m, what, k, seed);
			bad++;
		}
		ir_unit_free(&m.u);
	}
	printf("%" PRIu64 " programs, %" PRIu64 " refused, %" PRIu64 " events, %" PRIu64 " bad\n", k, refused, recorded, bad);
	return bad || refused > k / 2 || !recorded;
}
