/* SPDX-License-Identifier: MIT */
/*
 * From the key of an aggregation to the offset of its value. If the key is made of numbers, its home entry is checked in line;
 * mostly the key is there. That agrees with table_find_in() (blob/table.h). All other cases call the blob.
 */
#include "gen/emit.h"

/* Has the blob find or insert the key. If the map is full, counts that and skips the aggregation. */
static void put_find(struct gen *g, struct cold *c)
{
	asm_label there = asm_new_label(&g->a);
	const struct ir_ins *i = c->p;

	g_call(g, i);					/* A = entry + PROG_KEY_BIAS, or PROG_FULL */
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_in(ASM_A), PROG_FULL);
	ins(g, branch_short, ASM_NE, there);
	g_error(g, i, IR_ERR_MAP_FULL);
	ins(g, jump, c->n[AGG_KEY_END]);
	asm_bind(&g->a, there);
	ins(g, mul_imm, ASM_64, ASM_A, ASM_A, g_map_place(g, i->map)->value_size);
	g_store_word(g, ASM_A, c->n[AGG_KEY_OFFSET]);
	ins(g, jump, c->then);
}

static void put_key_word(struct gen *g, const struct ir_ins *i, uint32_t k)
{
	g_load(g, ASM_A, g->p->args.v[i->first + k].reg);
}

static void put_factor(struct gen *g, uint64_t factor)
{
	ins(g, address, ASM_C, factor);
	ins(g, mul, ASM_B, ASM_C);
}

/* B = prog_hash() */
static void put_hash(struct gen *g, const struct ir_ins *i)
{
	ins(g, address, ASM_B, PROG_HASH_SEED);
	for (uint32_t k = 0; k < i->nkeys; k++) {
		put_key_word(g, i, k);
		ins(g, alu, ASM_XOR, ASM_64, ASM_B, ASM_A);
		put_factor(g, PROG_HASH_WORD);
		ins(g, move, ASM_64, ASM_C, ASM_B);
		ins(g, shift, ASM_SHR, ASM_64, ASM_C, 32);
		ins(g, alu, ASM_XOR, ASM_64, ASM_B, ASM_C);
	}
	put_factor(g, PROG_HASH_END);
}

void g_home_number(struct gen *g, const struct ir_ins *i)
{
	put_hash(g, i);
	ins(g, alu_wide, ASM_AND, ASM_32, ASM_B, maps_shape(&g->u->maps.v[i->map], g_map_place(g, i->map)).mask);
}

void g_entry_at(struct gen *g, const struct ir_ins *i)
{
	const struct map_place *p = g_map_place(g, i->map);

	ins(g, mul_imm, ASM_64, ASM_B, ASM_B, maps_shape(&g->u->maps.v[i->map], p).stride);
	ins(g, address, ASM_C, g->env->maps + p->table + sizeof(struct prog_table));
	ins(g, alu, ASM_ADD, ASM_64, ASM_B, ASM_C);
}

/* EQ: the key is in its home entry. Entries of aggregations are never reused, so it stays there. */
static void put_look(struct gen *g, const struct ir_ins *i, int32_t offset)
{
	g_home_number(g, i);
	ins(g, lea, ASM_32, ASM_C, asm_at(ASM_B, PROG_KEY_BIAS));
	ins(g, mul_imm, ASM_64, ASM_C, ASM_C, g_map_place(g, i->map)->value_size);
	g_store_word(g, ASM_C, offset);
	g_entry_at(g, i);
	ins(g, load, ASM_U32, ASM_C, asm_at(ASM_B, 0));
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_C), PROG_STATE);
	ins(g, alu_imm, ASM_XOR, ASM_32, asm_in(ASM_C), PROG_READY);
	for (uint32_t k = 0; k < i->nkeys; k++) {
		put_key_word(g, i, k);
		ins(g, alu_from, ASM_XOR, ASM_64, ASM_A, asm_far(ASM_B, offsetof(struct prog_entry, key) + 8 * k));
		ins(g, alu, ASM_OR, ASM_64, ASM_C, ASM_A);
		g->acc = IR_NONE;
	}
}

asm_label g_agg_key(struct gen *g, const struct ir_ins *i, int32_t offset)
{
	struct cold *c = g_cold(g, put_find);

	c->p = i;
	c->n[AGG_KEY_OFFSET] = offset;
	c->n[AGG_KEY_END] = asm_new_label(&g->a);
	if (g_is_heavy(g, i)) {
		ins(g, jump, c->here);
	} else {
		put_look(g, i, offset);
		ins(g, branch, ASM_NE, c->here);
	}
	asm_bind(&g->a, c->then);
	g->acc = IR_NONE;				/* both paths meet here */
	return c->n[AGG_KEY_END];
}
