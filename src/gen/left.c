/* SPDX-License-Identifier: MIT */
/*
 * Calls that are left by an exception or by longjmp (blob/leave.h). An entry notes where its call can be found; a program
 * with is_left ends it; and a pad where frames go away starts the search.
 */
#include "gen/emit.h"

#include <string.h>

#include "blob/blob.h"

/* Who has called is above the frame and the room for a red zone, which nobody has here. */
int32_t g_left_word(const struct gen *g, int32_t off)
{
	return g->frame + 128 + off;
}

/*
 * A slot has got a new key. Goroutines are never left so, and have no fixed stack pointer. The lower half of the key goes last: before
 * it, a reader in another thread takes the mark for that of the last call, or for none.
 */
void g_left_mark(struct gen *g)
{
	uint32_t marks = GEN_PAIRS_TABLES(g->env->pair_bits);

	if (!g->site->leaver || (g->site->g_off && g->env->pairs))
		return;
	op(g, 0x48, 0x8d);				/* lea  site's rsp,%rax */
	g_rsp(g, RAX, g->frame + 128 + 8 * g->site->pushed);
	op(g, 0x48, 0x89);				/* mov  %rax,sp(mark) */
	g_mem(g, RAX, RCX, marks + offsetof(struct pair_mark, sp));
	op(g, 0xc7);					/* movl $leaver,leaver(mark) */
	g_mem(g, 0, RCX, marks + offsetof(struct pair_mark, leaver));
	g_u32(g, g->site->leaver - 1);
	op(g, 0x89);					/* mov  %edx,key(mark) */
	g_mem(g, RDX, RCX, marks + offsetof(struct pair_mark, key));
	g_address(g, RAX, g->env->pairs);
	op(g, 0x48, 0x89, 0xca, 0x48, 0x29, 0xc2);	/* mov  %rcx,%rdx; sub %rax,%rdx */
	op(g, 0x48, 0xc1, 0xea, PAIR_UNIT_SHIFT);	/* shr  $6,%rdx: its bit */
	op(g, 0x48, 0x8b);				/* mov  sp(mark),%rax */
	g_mem(g, RAX, RCX, marks + offsetof(struct pair_mark, sp));
	op(g, 0x48, 0xc1, 0xe8, 12, 0x69, 0xc0);	/* shr  $12,%rax; imul $hash,%eax,%eax */
	g_u32(g, LEAVE_HASH);
	op(g, 0xc1, 0xe8, 32 - LEAVE_MAPS_SHIFT, 0x69, 0xc0);	/* shr $26,%eax; imul $bits of a map,%eax,%eax */
	g_u32(g, 64 * GEN_PAIRS_MAP_WORDS(g->env->pair_bits));
	op(g, 0x48, 0x01, 0xc2);			/* add  %rax,%rdx */
	g_address(g, RAX, g->env->pairs + 2 * GEN_PAIRS_TABLES(g->env->pair_bits));
	op(g, 0xf0, 0x48, 0x0f, 0xab, 0x10);		/* lock bts %rdx,(%rax) */
	op(g, 0x48, 0xc1, 0xea, 6);			/* shr  $6,%rdx: the word */
	g_address(g, RAX, g->env->pairs + GEN_PAIRS_SUMS(g->env->pair_bits));
	op(g, 0xf0, 0x48, 0x0f, 0xab, 0x10);		/* lock bts %rdx,(%rax) */
}

/* rcx: slot. The last call of this function with this stack pointer is still open there, and can't be any more. */
void g_left_unseen(struct gen *g, struct cold *c)
{
	g_address(g, RAX, g->env->unpaired + 8 * (g->env->nclauses + 1 + g->p->clause));
	op(g, 0xf0, 0x48, 0xff, 0x00, 0xe9);		/* lock incq (%rax) */
	g_land(g, g_later(g), c->back);
}

/* ---- the pad where frames go away ---- */

/* Words of its frame. What is needed to ask for stack comes first, at the top: more must not be written before. */
enum { W_R10 = 0, W_R9 = 8, W_R8 = 16, W_RSI = 24, W_RDI = 32, W_R11 = 40, W_FLAGS = 48, W_RDX = 56, W_RCX = 64, W_RAX = 72, W_SIZE = 80 };
#define W_STORED (128 + W_SIZE - W_FLAGS)

static const struct { uint8_t reg, word; } kept[] = {
	{ RDI, W_RDI }, { R11, W_R11 }, { RSI, W_RSI }, { R8, W_R8 }, { R9, W_R9 }, { R10, W_R10 },
};

/* Returns the branch of those who have no stack for it. */
static size_t put_ask(struct gen *g, const struct gen_landing *l)
{
	size_t have, back, none;

	op(g, 0x8d);					/* lea  flags(%rsp),%ecx */
	g_rsp(g, RCX, W_FLAGS);
	op(g, 0x81, 0xe1);				/* and  $4095,%ecx */
	g_u32(g, 4095);
	op(g, 0x81, 0xf9);				/* cmp  $need - stored,%ecx */
	g_u32(g, LEAVE_STACK - W_STORED);
	op(g, 0x0f, 0x83);				/* jae  2f */
	have = g_later(g);
	g_store_word(g, R11, W_R11);
	g_store_word(g, RDI, W_RDI);
	op(g, 0x48, 0x8d);				/* lea  lowest(%rsp),%rdi */
	g_rsp(g, RDI, 128 + W_SIZE - LEAVE_STACK);
	op(g, 0x48, 0x8d, 0x15);			/* lea  1f(%rip),%rdx */
	back = g_later(g);
	g_address(g, RAX, l->slow + EVENT_ROOM);
	op(g, 0xff, 0xe0);				/* jmp  *%rax */
	g_land(g, back, g->a.code.n);
	g_load_word(g, R11, W_R11);			/* 1: */
	g_load_word(g, RDI, W_RDI);
	op(g, 0x85, 0xc9, 0x0f, 0x85);			/* test %ecx,%ecx; jnz none */
	none = g_later(g);
	g_land(g, have, g->a.code.n);			/* 2: */
	return none;
}

static void put_hand_over(struct gen *g, const struct gen_landing *l)
{
	op(g, 0x9c, 0xfc);				/* pushf; cld */
	if (l->how == LEAVE_RETURN)
		g_load_word(g, RDX, 8 + W_RCX);
	else
		op(g, 0x48, 0x89, 0xfa);		/* mov  %rdi,%rdx */
	op(g, 0x48, 0x8d);				/* lea  site's rsp,%rsi */
	g_rsp(g, RSI, 8 + W_SIZE + 128);
	g_address(g, RDI, l->desc);
	g_mov_imm(g, RCX, l->how);
	g_address(g, RAX, l->blob + blob_offset(BLOB_LEAVE));
	op(g, 0xff, 0xd0);				/* call *%rax */
	op(g, 0x59, 0xf6, 0xc5, 4, 0x74, 1, 0xfd);	/* pop  %rcx; test $4,%ch; jz 1f; std */
}

int gen_landing(const struct gen_landing *l, uint8_t *out)
{
	struct gen g = { .a = { .ops = arch_host()->assembler } };
	size_t none;
	int n;

	op(&g, 0x48, 0x8d);				/* lea  -(128 + frame)(%rsp),%rsp */
	g_rsp(&g, RSP, -(128 + W_SIZE));
	g_store_word(&g, RAX, W_RAX);
	op(&g, 0x9f, 0x0f, 0x90, 0xc0);			/* lahf; seto %al */
	g_store_word(&g, RAX, W_FLAGS);
	g_store_word(&g, RCX, W_RCX);
	g_store_word(&g, RDX, W_RDX);
	none = put_ask(&g, l);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		g_store_word(&g, kept[i].reg, kept[i].word);
	put_hand_over(&g, l);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		g_load_word(&g, kept[i].reg, kept[i].word);
	g_land(&g, none, g.a.code.n);
	g_load_word(&g, RCX, W_RCX);
	g_load_word(&g, RDX, W_RDX);
	g_load_word(&g, RAX, W_FLAGS);
	op(&g, 0x04, 0x7f, 0x9e);			/* add  $127,%al; sahf */
	g_load_word(&g, RAX, W_RAX);
	op(&g, 0x48, 0x8d);				/* lea  128 + frame(%rsp),%rsp */
	g_rsp(&g, RSP, 128 + W_SIZE);
	n = g.a.code.n;
	if (out)
		memcpy(out, g.a.code.v, n);
	asm_free(&g.a);
	return n;
}
