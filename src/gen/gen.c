/* SPDX-License-Identifier: MIT */
#include "gen/emit.h"

#include <string.h>

#include "base/err.h"

int g_refuse(const struct gen *g, const char *what)
{
	return fail(-ENOTSUP, "%s can't be compiled for a target", what);
}

/* The second part of the prologue, after the door. */
static void put_enter(struct gen *g)
{
	if (g->heavy)
		g_zero_word(g, g->ring);
	if (g->floats)
		ins(g, float_enter, g->fp);
}

/* The epilogue. Releases the lock of the ring, if one was taken. */
static void put_leave(struct gen *g)
{
	asm_label none = asm_new_label(&g->a);

	if (g->floats)
		ins(g, float_leave, g->fp);
	if (g->heavy) {
		g_load_word(g, ASM_B, g->ring);
		ins(g, branch_b_zero, none);
		ins(g, load, ASM_U64, ASM_C, asm_far(ASM_B, offsetof(struct ring_ref, scratch)));
		ins(g, load, ASM_U32, ASM_C, asm_far(ASM_C, offsetof(struct bulk_context, pid)));
		ins(g, load, ASM_U64, ASM_B, asm_far(ASM_B, offsetof(struct ring_ref, ring)));
		ins(g, call, g->env->event.slow + EVENT_GIVE_BACK);
	}
	asm_bind(&g->a, none);
	g_load_head(g);
}

static const char *const refused[IR_NOPS] = {
	[IR_EACH] = "a loop over a map",
};

static void put_program(struct gen *g, size_t from)
{
	g->acc = IR_NONE;
	for (g->now = from; g->now < g->p->ins.n && !g->error; g->now++) {
		const struct ir_ins *i = &g->p->ins.v[g->now];

		if (!g_compute(g, i) && !g_load_memory(g, i) && !g_float(g, i) && !g_site(g, i) && !g_control(g, i) && !g_map(g, i) &&
		    !g_action(g, i) && !g_pair(g, i) && !g_call(g, i))
			g->error = g_refuse(g, refused[i->op] ? refused[i->op] : "an instruction of this clause");
	}
}

static void put_cold_parts(struct gen *g)
{
	for (size_t k = 0; k < g->cold.n && !g->error; k++) {
		struct cold c = g->cold.v[k];

		asm_bind(&g->a, c.here);
		g->acc = IR_NONE;
		c.put(g, &c);
	}
}

/* Writes cold parts, local routines and descriptions: after the hot code, or into the hole. */
static int put_rest(struct gen *g)
{
	if (!g->hole)
		ins(g, jump, g->to_end);
	g->hot = g->a.code.n - g->hole_size;
	if (g->hole_size)
		g->a.code.n = g->hole;
	put_cold_parts(g);
	g_routines(g);
	g_descriptions(g);
	if (g->hole_size) {
		if (!g->error && g->a.code.n > g->hole + g->hole_size)
			g->error = g_refuse(g, "code whose second pass is longer than the first");
		g->a.code.n = g->hot + g->hole_size;
	}
	return g->error;
}

static int put_all(struct gen *g)
{
	size_t asked;
	int r = g_analyse(g);

	if (r < 0)
		return r;
	if (g->p->where == IR_WHERE_TRACER)
		return g_refuse(g, "a clause that runs in the tracer");
	if (g->env->scratch_size && g->heavy && g->scratch > g->env->scratch_size)
		return fail(-ENOTSUP, "a clause needs %u KiB of scratch memory for its text and events; there are %u", (g->scratch + 1023) >> 10,
			    g->env->scratch_size >> 10);
	g->to_out = asm_new_label(&g->a);
	g->to_early = asm_new_label(&g->a);
	g->to_end = asm_new_label(&g->a);
	asked = g_door(g);
	put_enter(g);
	if (g->p->where == IR_WHERE_ENTRY)
		g_pair_start(g);
	else if (g->p->where == IR_WHERE_EXIT)
		g_pair_leave(g);
	put_program(g, asked);
	asm_bind(&g->a, g->to_out);
	put_leave(g);
	r = put_rest(g);
	if (r < 0)
		return r;
	g_early(g);
	asm_bind(&g->a, g->to_end);
	if (asm_link(&g->a) < 0)
		return g_refuse(g, "a branch over so much code");
	return g->a.code.n > GEN_CODE_MAX ? g_refuse(g, "a clause of so many instructions") : (int)g->a.code.n;
}

static struct gen new_gen(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env, const struct gen_site *site)
{
	const struct arch *arch = u->arch ? u->arch : arch_host();

	return (struct gen){ .arch = arch, .a = { .ops = arch->assembler }, .u = u, .p = p, .env = env, .site = site };
}

/* *hole_size: 0 in a first pass; returns the size that the hole must have, 0 if there is none */
static int write_code(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env, const struct gen_site *site,
		      uint64_t at, uint8_t *out, size_t *hole_size)
{
	struct gen g = new_gen(u, p, env, site);
	int r;

	g.a.at = at;
	g.layout = env->layout;
	g.hole_size = *hole_size;
	r = put_all(&g);

	if (r > 0 && out)
		memcpy(out, g.a.code.v, r);
	*hole_size = r > 0 && g.hole ? r - g.hot : 0;
	g_analysis_free(&g);
	asm_free(&g.a);
	vec_free(&g.cold);
	vec_free(&g.constants);
	vec_free(&g.ops);
	return r;
}

static int generate(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env,
		    const struct gen_site *site, uint64_t at, uint8_t *out)
{
	size_t hole_size = 0;
	int r = write_code(u, p, env, site, at, out, &hole_size);

	return out && hole_size ? write_code(u, p, env, site, at, out, &hole_size) : r;
}

int gen_measure(const struct ir_unit *u, const struct ir_prog *p)
{
	struct gen_env env = { .enabled = 1, .timeless = 8, .ids_table = 8, .pair_bits = GEN_PAIR_BITS_MIN, .good = 8, .known = 8, .known_cpus = 1, .mult = UINT64_MAX };
	struct gen_site site = { .addr = 0x123456789abcdef, .number = 0x123456789abcdef, .pushed = 1,
				 .leaver = p->is_left ? 0 : 1, .g_off = -8, .missed = 8, .need = GEN_STACK_MAX + 1 };	/* values that need the longest code */
	const char *wrong = ir_verify(u, p);
	int most = 0;

	if (wrong)
		return fail(-EINVAL, "the clause program is invalid: %s", wrong);
	for (int way = 0; way < 8; way++) {
		int n;

		env.event.has_rseq = env.event.has_tid = way & 1;
		env.event.overwrite = way & 2;
		env.event.ring_size = way & 4 ? RING_SIZE_MAX : RING_SIZE_MIN;
		n = generate(u, p, &env, &site, 0, NULL);
		if (n < 0)
			return n;
		most = MAX(most, n);
	}
	return most;
}

int gen_scratch(const struct ir_unit *u, const struct ir_prog *p)
{
	struct gen_env env = { .enabled = 1, .pair_bits = GEN_PAIR_BITS_MIN };
	struct gen_site site = { 0 };
	struct gen g = new_gen(u, p, &env, &site);
	int r = g_analyse(&g);

	if (r == 0 && g.heavy)
		r = g.scratch;
	g_analysis_free(&g);
	return r;
}

int gen_stack_need(const struct ir_unit *u, const struct ir_prog *p)
{
	struct gen_env env = { .enabled = 1, .ids_table = 8, .pair_bits = GEN_PAIR_BITS_MIN };
	struct gen_site site = { 0 };
	struct gen g = new_gen(u, p, &env, &site);
	int r = g_analyse(&g);

	if (r == 0)
		r = g_stack(&g);
	g_analysis_free(&g);
	return r;
}

uint32_t gen_event_max(const struct ir_unit *u, const struct ir_prog *p)
{
	struct gen g = new_gen(u, p, NULL, NULL);
	uint32_t most = 0;

	for (size_t i = 0; i < p->ins.n; i++)
		if (p->ins.v[i].op == IR_EMIT || p->ins.v[i].op == IR_EXIT)
			most = MAX(most, g_event_len(&g, &p->ins.v[i]));
	return most;
}

int gen_emit(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env,
	     const struct gen_site *site, uint64_t at, uint8_t *out)
{
	if ((p->where == IR_WHERE_ENTRY || p->where == IR_WHERE_EXIT) && (!env->pairs || env->pair_bits < GEN_PAIR_BITS_MIN ||
									 env->pair_bits > GEN_PAIR_BITS_MAX))
		return fail(-EINVAL, "there is no memory to pair calls in");
	return generate(u, p, env, site, at, out);
}
