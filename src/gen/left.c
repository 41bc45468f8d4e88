/* SPDX-License-Identifier: MIT */
/*
 * Calls that are left by an exception or by longjmp (blob/leave.h). An entry stores a mark, from which its open call can be
 * found; a clause program with is_left (a leaver) ends the call; the pad of a landing starts the search.
 */
#include "gen/emit.h"

#include <string.h>

#include "blob/blob.h"

/* A leaver's arguments are above its frame and the space of a red zone, which the frame of every clause program leaves. */
int32_t g_left_word(const struct gen *g, int32_t off)
{
	return g->frame + g->a.ops->red_zone + off;
}

/*
 * Writes the mark of a slot that has got a new key, and sets its bit in the bitmaps. Not for Go: goroutines are never left
 * this way, and their keys have no stack pointer. The lower half of the key is stored last: until then it does not match the
 * slot's key, so a reader in another thread ignores the mark.
 */
void g_left_mark(struct gen *g)
{
	uint32_t marks = GEN_PAIRS_TABLES(g->env->pair_bits);

	if (!g->site->leaver || (g->site->g_off && g->env->pairs))
		return;
	ins(g, lea, ASM_64, ASM_A, asm_at(ASM_SP, g_site_sp(g)));
	ins(g, store, ASM_64, ASM_A, asm_far(ASM_B, marks + offsetof(struct pair_mark, sp)));
	ins(g, store_imm, ASM_32, asm_far(ASM_B, marks + offsetof(struct pair_mark, leaver)), g->site->leaver - 1);
	ins(g, store, ASM_32, ASM_C, asm_far(ASM_B, marks + offsetof(struct pair_mark, key)));
	ins(g, address, ASM_A, g->env->pairs);
	ins(g, move, ASM_64, ASM_C, ASM_B);
	ins(g, alu, ASM_SUB, ASM_64, ASM_C, ASM_A);
	ins(g, shift, ASM_SHR, ASM_64, ASM_C, PAIR_UNIT_SHIFT);		/* number of the slot's bit */
	ins(g, load, ASM_U64, ASM_A, asm_far(ASM_B, marks + offsetof(struct pair_mark, sp)));
	ins(g, shift, ASM_SHR, ASM_64, ASM_A, 12);
	ins(g, mul_imm, ASM_32, ASM_A, ASM_A, LEAVE_HASH);
	ins(g, shift, ASM_SHR, ASM_32, ASM_A, 32 - LEAVE_MAPS_SHIFT);
	ins(g, mul_imm, ASM_32, ASM_A, ASM_A, 64 * GEN_PAIRS_MAP_WORDS(g->env->pair_bits));	/* bits of the maps before this page's */
	ins(g, alu, ASM_ADD, ASM_64, ASM_C, ASM_A);
	ins(g, address, ASM_A, g->env->pairs + 2 * GEN_PAIRS_TABLES(g->env->pair_bits));
	ins(g, atomic_set_bit, ASM_A, ASM_C);
	ins(g, shift, ASM_SHR, ASM_64, ASM_C, 6);			/* number of the word, a bit of the sums */
	ins(g, address, ASM_A, g->env->pairs + GEN_PAIRS_SUMS(g->env->pair_bits));
	ins(g, atomic_set_bit, ASM_A, ASM_C);
}

/*
 * B: slot. An earlier call of this function with this stack pointer is still open there; its frame is gone, but no probe saw
 * it leave. Counts that.
 */
void g_left_unseen(struct gen *g, struct cold *c)
{
	g_count(g, ASM_A, g->env->unpaired + 8 * (g->env->nclauses + 1 + g->p->clause));
	ins(g, jump, c->then);
}

/* ---- the pad of a landing ---- */

/*
 * Words of its frame: the registers kept over a call, then the flags, C, B and A. The last four are stored before the check
 * for stack; nothing else may be stored before it, except that ask_room uses the two words below the flags.
 */
#define NKEPT 6
enum { W_ASK = 8 * (NKEPT - 2), W_FLAGS = 8 * NKEPT, W_C = W_FLAGS + 8, W_B = W_C + 8, W_A = W_B + 8, W_SIZE = W_A + 8 };

/* The order in which the kept registers are stored, and the word of each. */
static const struct { uint8_t n, word; } kept[NKEPT] = { { 0, 32 }, { 5, 40 }, { 1, 24 }, { 2, 16 }, { 3, 8 }, { 4, 0 } };

static void put_ask(struct gen *g, const struct gen_landing *l, asm_label none)
{
	int32_t zone = g->a.ops->red_zone, stored = zone + W_SIZE - W_FLAGS;
	asm_label have = asm_new_label(&g->a);

	g_in_page(g, W_FLAGS, LEAVE_STACK - stored);
	ins(g, branch, ASM_UGE, have);
	ins(g, ask_room, l->slow + EVENT_ROOM, zone + W_SIZE - LEAVE_STACK, W_ASK);
	ins(g, branch, ASM_NE, none);
	asm_bind(&g->a, have);
}

_Static_assert(128 + W_SIZE + 16 == LEAVE_STACK_PAD, "the flags and the return address come below the frame");

/* The `where` of blob_leave() is the site's B for LEAVE_RETURN, otherwise the first argument of the function at the site. */
static void put_hand_over(struct gen *g, const struct gen_landing *l)
{
	ins(g, c_enter);
	if (l->how == LEAVE_RETURN)
		g_load_word(g, ASM_ARG2, 8 + W_B);
	else
		ins(g, move, ASM_64, ASM_ARG2, ASM_ARG0);
	ins(g, lea, ASM_64, ASM_ARG1, asm_at(ASM_SP, 8 + W_SIZE + g->a.ops->red_zone));
	ins(g, address, ASM_ARG0, l->desc);
	ins(g, imm, ASM_ARG3, l->how);
	ins(g, call, l->blob + blob_offset(BLOB_LEAVE));
	ins(g, c_leave);
}

static void put_landing(struct gen *g, const struct gen_landing *l)
{
	asm_label none = asm_new_label(&g->a);

	g_move_sp(g, -(g->a.ops->red_zone + W_SIZE));
	g_store_word(g, ASM_A, W_A);
	ins(g, flags_take);
	g_store_word(g, ASM_A, W_FLAGS);
	g_store_word(g, ASM_B, W_B);
	g_store_word(g, ASM_C, W_C);
	put_ask(g, l, none);
	for (size_t i = 0; i < NKEPT; i++)
		g_store_word(g, ASM_KEPT + kept[i].n, kept[i].word);
	put_hand_over(g, l);
	for (size_t i = 0; i < NKEPT; i++)
		g_load_word(g, ASM_KEPT + kept[i].n, kept[i].word);
	asm_bind(&g->a, none);
	g_load_word(g, ASM_B, W_B);
	g_load_word(g, ASM_C, W_C);
	g_load_word(g, ASM_A, W_FLAGS);
	ins(g, flags_give);
	g_load_word(g, ASM_A, W_A);
	g_move_sp(g, g->a.ops->red_zone + W_SIZE);
}

int gen_landing(const struct gen_landing *l, uint8_t *out)
{
	const struct arch *arch = l->arch ? l->arch : arch_host();
	struct gen g = { .arch = arch, .a = { .ops = arch->assembler } };
	int n;

	put_landing(&g, l);
	n = asm_link(&g.a) < 0 || arch->assembler->nkept != NKEPT ? g_refuse(&g, "the probe of a landing") : (int)g.a.code.n;
	if (out && n > 0)
		memcpy(out, g.a.code.v, n);
	asm_free(&g.a);
	return n;
}

void gen_leaver_end(const struct arch *arch, uint8_t *out)
{
	struct assembler a = { .ops = (arch ? arch : arch_host())->assembler };

	a.ops->ret(&a);
	memcpy(out, a.code.v, MIN(a.code.n, GEN_LEAVER_MORE));
	asm_free(&a);
}
