/* SPDX-License-Identifier: MIT */
/*
 * Random programs, run as native code and by the interpreter: integers and floats of all types, branches and
 * loops, plain and checked loads. Both must record the same, count the same errors, and nothing of the
 * machine may change.
 *
 *	fuzz_gen [-n PROGRAMS] [-s SEED]
 */
#include <getopt.h>
#include <inttypes.h>

#include "../unit/gen_run.h"
#include "base/err.h"

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
	bool memory;
};

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
	int kind = below(4);
	struct ir_ins *i = gen_ins(m->p, kind == 0 ? IR_I2F : kind == 1 ? IR_U2F : kind == 2 ? IR_F2F : IR_F2I);

	i->type = kind < 3 ? (below(2) ? IR_F32 : IR_F64) : types[below(9)];
	i->a = kind < 2 ? int_of(m) : float_of(m);
	if (kind == 3)
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
	static const uint8_t ctx[] = { IR_CTX_SITE, IR_CTX_PID, IR_CTX_TID, IR_CTX_UID, IR_CTX_GID, IR_CTX_NCPUS, IR_CTX_CPID };
	int kind = below(5);
	struct ir_ins *i = gen_ins(m->p, kind == 0 ? IR_CONST : kind == 1 ? IR_REG : kind == 2 ? IR_XMM : kind == 3 ? IR_FCONST : IR_CTX);

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
	static const uint8_t types[] = { IR_I8, IR_I16, IR_I32, IR_I64, IR_U8, IR_U16, IR_U32, IR_U64, IR_F32, IR_F64 };
	bool good = !m->memory || below(3);
	uint32_t base = new_int(m, in_branch);
	struct ir_ins *i = gen_ins(m->p, good || below(2) ? IR_REG : IR_CONST);

	i->imm = i->op == IR_REG ? 4 : any_number();
	i->dst = base;
	i = gen_ins(m->p, IR_LOAD);
	i->type = types[below(10)];
	i->a = base;
	i->imm = below(256);
	i->flags = good ? IR_GOOD : 0;
	i->bit = below(4);
	i->mask = good ? 0 : below(16);
	if (ir_is_float(i->type))
		i->dst = new_float(m, in_branch);
	else
		i->dst = new_int(m, in_branch);
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

	*m = (struct made){ .memory = below(4) == 0 };
	m->p = ir_prog_new(&m->u, IR_WHERE_SITE, 0);
	for (int k = 0; k < 3; k++) {
		m->ints[m->nints++] = gen_reg(m->p, IR_I);
		i = gen_ins(m->p, below(2) ? IR_CONST : IR_REG);
		i->imm = i->op == IR_REG ? below(16) : any_number();
		i->dst = m->ints[k];
	}
	m->floats[m->nfloats++] = gen_reg(m->p, IR_F);
	i = gen_ins(m->p, below(2) ? IR_FCONST : IR_XMM);
	i->type = IR_F64;
	if (i->op == IR_XMM)
		i->imm = below(16);
	else
		i->fimm = any_double();
	i->dst = m->floats[0];
	add_some(m, 2 + below(20), false, 0);
	record = gen_record(&m->u, m->nints + m->nfloats, UINT32_MAX, m->memory);
	i = gen_ins(m->p, IR_EMIT);
	i->record = record;
	for (uint32_t k = 0; k < m->nints; k++)
		gen_arg(m->p, i, IR_U64, m->ints[k], m->memory ? below(16) : 0);
	for (uint32_t k = 0; k < m->nfloats; k++)
		gen_arg(m->p, i, IR_F64, m->floats[k], m->memory ? below(16) : 0);
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
	return k >= m->nints && x != x && y != y;		/* which NaN it is nobody cares */
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

static const char *run_one(struct made *m, uint64_t number)
{
	struct gen_env env = gen_make_env(number & 1, NULL);
	uint64_t errors[IR_ERRORS];
	struct interp in = { .unit = &m->u };
	const char *what = NULL;
	int len = gen_place(&m->u, m->p, &env, number % 64);

	if (len == -ENOTSUP) {
		refused++;
		return NULL;
	}
	if (len < 0)
		return err_text();
	for (int round = 0; round < 3 && !what; round++) {
		gen_machine(next_random(), number % 16);
		memset(gen_errors, 0, sizeof(gen_errors));
		memset(in.errors, 0, sizeof(in.errors));
		what = gen_run(machine_run);
		gen_judge(&in, m->p);
		memcpy(errors, in.errors, sizeof(errors));
		recorded += gen_native.n;
		if (!what)
			what = compare(m, errors);
	}
	return what;
}

int main(int argc, char **argv)
{
	uint64_t n = 1000, seed = 1, bad = 0;
	int c;

	while ((c = getopt(argc, argv, "n:s:")) > 0) {
		if (c == 'n')
			n = strtoull(optarg, NULL, 0);
		else if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	gen_set_up();
	for (uint64_t k = 0; k < n && bad < 3; k++) {
		struct made m;
		const char *what;

		seed_state = seed * 0x100000001b3ull + k;
		make_program(&m);
		what = run_one(&m, k);
		if (what) {
			show(&m, what, k, seed);
			bad++;
		}
		ir_unit_free(&m.u);
	}
	printf("%" PRIu64 " programs, %" PRIu64 " refused, %" PRIu64 " events, %" PRIu64 " bad\n", n, refused, recorded, bad);
	return bad || refused > n / 2 || !recorded;
}
