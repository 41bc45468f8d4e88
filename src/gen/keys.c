/* SPDX-License-Identifier: MIT */
/*
 * The key of an aggregation becomes the offset of what belongs to it. Numbers are looked for where they belong, and mostly
 * they are there: table_find_in() would find the same (blob/table.h). Everything else is the blob's.
 */
#include "gen/emit.h"

/* Where there is no room that is counted, and it goes on where the aggregation ends. */
static void put_find(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;
	size_t there;

	g_call(g, i);					/* rax = entry + bias, or that there is no room */
	op(g, 0x83, 0xf8, PROG_FULL, 0x75, 0);		/* cmp  $PROG_FULL,%eax; jne 1f */
	there = g->a.code.n;
	g_error(g, i, IR_ERR_MAP_FULL);
	op(g, 0xe9);
	g_land(g, g_later(g), c->n[AGG_KEY_END]);
	g->a.code.v[there - 1] = g->a.code.n - there;
	op(g, 0x48, 0x69, 0xc0);			/* 1: imul $value_size,%rax,%rax */
	g_u32(g, g_map_place(g, i->map)->value_size);
	g_store_word(g, RAX, c->n[AGG_KEY_OFFSET]);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

static void put_key_word(struct gen *g, const struct ir_ins *i, uint32_t k)
{
	g_load(g, RAX, g->p->args.v[i->first + k].reg);
}

static void put_factor(struct gen *g, uint64_t factor)
{
	g_address(g, RDX, factor);
	op(g, 0x48, 0x0f, 0xaf, 0xca);			/* imul %rdx,%rcx */
}

/* rcx = prog_hash() */
static void put_hash(struct gen *g, const struct ir_ins *i)
{
	g_address(g, RCX, PROG_HASH_SEED);
	for (uint32_t k = 0; k < i->nkeys; k++) {
		put_key_word(g, i, k);
		op(g, 0x48, 0x31, 0xc1);			/* xor  %rax,%rcx */
		put_factor(g, PROG_HASH_WORD);
		op(g, 0x48, 0x89, 0xca, 0x48, 0xc1, 0xea, 32);	/* mov  %rcx,%rdx; shr $32,%rdx */
		op(g, 0x48, 0x31, 0xd1);			/* xor  %rdx,%rcx */
	}
	put_factor(g, PROG_HASH_END);
}

/* edx = 0: it is there. Entries of aggregations are not used again, so a key that can be seen stays. */
static void put_look(struct gen *g, const struct ir_ins *i, int32_t offset)
{
	const struct map_place *p = g_map_place(g, i->map);
	struct prog_shape t = maps_shape(&g->u->maps.v[i->map], p);

	put_hash(g, i);
	op(g, 0x81, 0xe1);				/* and  $mask,%ecx */
	g_u32(g, t.mask);
	op(g, 0x8d, 0x51, PROG_KEY_BIAS);		/* lea  bias(%rcx),%edx */
	op(g, 0x48, 0x69, 0xd2);			/* imul $value_size,%rdx,%rdx */
	g_u32(g, p->value_size);
	g_store_word(g, RDX, offset);
	op(g, 0x48, 0x69, 0xc9);			/* imul $stride,%rcx,%rcx */
	g_u32(g, t.stride);
	g_address(g, RDX, g->env->maps + p->table + sizeof(struct prog_table));
	op(g, 0x48, 0x01, 0xd1);			/* add  %rdx,%rcx */
	op(g, 0x8b, 0x11, 0x83, 0xe2, PROG_STATE);	/* mov  (%rcx),%edx; and $PROG_STATE,%edx */
	op(g, 0x83, 0xf2, PROG_READY);			/* xor  $PROG_READY,%edx */
	for (uint32_t k = 0; k < i->nkeys; k++) {
		put_key_word(g, i, k);
		op(g, 0x48, 0x33);			/* xor  key(%rcx),%rax */
		g_mem(g, RAX, RCX, offsetof(struct prog_entry, key) + 8 * k);
		op(g, 0x48, 0x09, 0xc2);		/* or   %rax,%rdx */
		g->acc = IR_NONE;
	}
}

size_t g_agg_key(struct gen *g, const struct ir_ins *i, int32_t offset)
{
	struct cold *c = g_cold(g, put_find);

	c->p = i;
	c->n[AGG_KEY_OFFSET] = offset;
	if (g_is_heavy(g, i)) {
		op(g, 0xe9);				/* jmp  find */
	} else {
		put_look(g, i, offset);
		op(g, 0x0f, 0x85);			/* jnz  find */
	}
	c->from[0] = g_later(g);
	c->back = g->a.code.n;
	g->acc = IR_NONE;				/* wherever we come from */
	return g->cold.n - 1;
}
