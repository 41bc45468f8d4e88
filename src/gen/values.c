/* SPDX-License-Identifier: MIT */
/*
 * Maps whose keys are numbers and whose value is one number: read, test, set, add and delete. The key's home entry is looked at in
 * line, as table_find_in() does (blob/table.h); mostly the key is there. All other cases call the blob.
 *
 *	read, test	state, key, value, and the state again: the value belongs to the key if the state is the same
 *	set, add	one exchange of state and value (16 bytes) for what they were when the key was compared
 *	delete		one exchange of the state: the entry becomes vacant. It keeps its key, and its seat in the count of keys
 *
 * A vacant entry of the same key is set as if it had the value 0 before. Then the key must not be in an entry further from home
 * as well, where another thread may have inserted it since the delete. Entries in use never become free again, so a free
 * entry next to home says that there is none; it is looked at before and, as another thread may come in between, after the
 * exchange. That pairs with the search of table_put() after its exchange to READY: at least one of the two threads sees the other.
 * If it is not free any more, the exchange is taken back, and the blob does the operation.
 *
 * Vacant entries are made only where table_sweep() is short, while the table is not nearly full (each search for room would sweep)
 * and if no clause program asks for the number of keys.
 */
#include "gen/emit.h"

#include <string.h>

#define STATE_STEP 0xffffff		/* the state's lower bits: what a change of state changes */

_Static_assert((STATE_STEP | PROG_HASH) == ~0ull && (PROG_TURNS | PROG_STATE) == STATE_STEP, "table_next() in two instructions");

enum { BY_BLOB, WORD_D, WORD_F };	/* n[] of struct cold: label of the call; words that save D and F */

static struct prog_shape shape_of(const struct gen *g, const struct ir_ins *i)
{
	return maps_shape(&g->u->maps.v[i->map], g_map_place(g, i->map));
}

static uint64_t table_at(const struct gen *g, const struct ir_ins *i)
{
	return g->env->maps + g_map_place(g, i->map)->table;
}

bool g_is_value(const struct gen *g, const struct ir_ins *i)
{
	return i->op >= IR_MAP_GET && i->op <= IR_MAP_HAS && i->op != IR_MAP_AGG && g->u->maps.v[i->map].kind == IR_MAP_VALUE &&
	       !g_is_heavy(g, i);
}

/* to = table_next(from, ...) for a change of the state by `step` */
static void put_next(struct gen *g, enum asm_reg to, enum asm_reg from, enum prog_state was, enum prog_state becomes)
{
	ins(g, lea, ASM_64, to, asm_at(from, (int32_t)PROG_TURN + becomes - was));
	ins(g, alu, ASM_XOR, ASM_64, to, from);
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(to), STATE_STEP);
	ins(g, alu, ASM_XOR, ASM_64, to, from);
}

/* B = the key's home entry, C = its state, A = the lower bits of C. Branches to `other` if it has another key. */
static void put_look(struct gen *g, const struct ir_ins *i, asm_label other)
{
	if (i->nkeys)
		g_home_number(g, i);
	else
		ins(g, imm, ASM_B, 0);
	g_entry_at(g, i);
	ins(g, load, ASM_U64, ASM_C, asm_at(ASM_B, 0));
	for (uint32_t k = 0; k < i->nkeys; k++) {
		g_load(g, ASM_A, g->p->args.v[i->first + k].reg);
		ins(g, alu_from, ASM_CMP, ASM_64, ASM_A, asm_far(ASM_B, offsetof(struct prog_entry, key) + 8 * k));
		ins(g, branch, ASM_NE, other);
	}
	ins(g, move, ASM_32, ASM_A, ASM_C);
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_A), PROG_STATE);
	g->acc = IR_NONE;
}

/* EQ: the entry after home (at `home`) is free. A and C change. */
static void put_next_free(struct gen *g, const struct ir_ins *i, enum asm_reg home)
{
	struct prog_shape t = shape_of(g, i);
	uint64_t first = table_at(g, i) + sizeof(struct prog_table);

	ins(g, lea, ASM_64, ASM_A, asm_far(home, t.stride));
	ins(g, address, ASM_C, first + (t.mask + 1ull) * t.stride);
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_C);
	ins(g, address, ASM_C, first);
	ins(g, select, ASM_EQ, ASM_A, ASM_C);
	ins(g, load, ASM_U64, ASM_A, asm_at(ASM_A, 0));
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_A), PROG_STATE);
}

/* ---- read, test, delete ---- */

/* The result of an operation that finds no key. */
static void put_absent(struct gen *g, const struct ir_ins *i)
{
	ins(g, imm, ASM_A, 0);
	if (i->op == IR_MAP_GET)
		g_store_word(g, ASM_A, g->places[g->p->args.v[i->first + i->nkeys].reg].off);
	if (i->dst != IR_NONE)
		g_store_word(g, ASM_A, g->places[i->dst].off);
	else if (i->op == IR_MAP_DEL)
		g_error(g, i, IR_ERR_DELETE);
}

/* The home entry has another key, or is not ready. As table_find_in(): the search ends at a free entry. */
static void put_not_home(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;
	asm_label absent = asm_new_label(&g->a);

	ins(g, load, ASM_U64, ASM_A, asm_at(ASM_B, 0));
	ins(g, alu_imm, ASM_AND, ASM_32, asm_in(ASM_A), PROG_STATE);
	ins(g, branch, ASM_EQ, absent);
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_in(ASM_A), PROG_DELETED);
	ins(g, branch, ASM_ULT, c->n[BY_BLOB]);
	if (i->nkeys) {
		put_next_free(g, i, ASM_B);
		ins(g, branch, ASM_NE, c->n[BY_BLOB]);
	}
	asm_bind(&g->a, absent);
	put_absent(g, i);
	ins(g, jump, c->then);
}

static void put_by_blob(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;

	g_blob_call(g, i);
	g->acc = IR_NONE;
	ins(g, jump, c->then);
}

static void put_get(struct gen *g, const struct ir_ins *i, asm_label by_blob)
{
	ins(g, load, ASM_U64, ASM_A, asm_at(ASM_B, offsetof(struct prog_entry, value)));
	ins(g, alu_from, ASM_CMP, ASM_64, ASM_C, asm_at(ASM_B, 0));
	ins(g, branch, ASM_NE, by_blob);
	g_store_word(g, ASM_A, g->places[g->p->args.v[i->first + i->nkeys].reg].off);
}

static bool makes_vacant(const struct gen *g, const struct ir_ins *i)
{
	return shape_of(g, i).mask < PROG_SWEEP_MOST && !g->u->maps.v[i->map].is_counted;
}

static void put_flag(struct gen *g, struct cold *c)
{
	ins(g, store_imm, ASM_64, asm_at(ASM_B, offsetof(struct prog_table, vacant)), 1);
	ins(g, jump, c->then);
}

static void put_delete(struct gen *g, const struct ir_ins *i, asm_label by_blob)
{
	struct prog_shape t = shape_of(g, i);
	struct cold *c;

	if (i->nkeys) {
		ins(g, address, ASM_A, table_at(g, i));
		ins(g, alu_imm, ASM_CMP, ASM_64, asm_at(ASM_A, 0), t.max_keys - t.max_keys / 8);
		ins(g, branch, ASM_UGE, by_blob);
	}
	ins(g, move, ASM_64, ASM_A, ASM_C);
	put_next(g, ASM_C, ASM_A, PROG_READY, PROG_VACANT);
	ins(g, atomic_cas, asm_at(ASM_B, 0), ASM_C);
	ins(g, branch, ASM_NE, by_blob);
	ins(g, address, ASM_B, table_at(g, i));
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, offsetof(struct prog_table, vacant)), 0);
	c = g_cold(g, put_flag);
	ins(g, branch, ASM_EQ, c->here);
	asm_bind(&g->a, c->then);
}

static void put_find(struct gen *g, const struct ir_ins *i, asm_label by_blob)
{
	struct cold *c = g_cold(g, put_not_home);
	asm_label then = c->then, here = c->here;

	c->p = i;
	c->n[BY_BLOB] = by_blob;
	put_look(g, i, here);
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_in(ASM_A), PROG_READY);
	ins(g, branch, ASM_NE, here);
	if (i->op == IR_MAP_GET) {
		put_get(g, i, by_blob);
	} else if (i->op == IR_MAP_DEL) {
		put_delete(g, i, by_blob);
	} else {
		ins(g, alu_from, ASM_CMP, ASM_64, ASM_C, asm_at(ASM_B, 0));
		ins(g, branch, ASM_NE, by_blob);
	}
	if (i->dst != IR_NONE) {
		ins(g, imm, ASM_A, 1);
		g_store_word(g, ASM_A, g->places[i->dst].off);
	}
	asm_bind(&g->a, then);
}

/* ---- set, add ---- */

static void put_saved(struct gen *g, const struct cold *c)
{
	g_load_word(g, ASM_D, c->n[WORD_D]);
	g_load_word(g, ASM_F, c->n[WORD_F]);
}

/* The exchange failed. */
static void put_changed(struct gen *g, struct cold *c)
{
	put_saved(g, c);
	ins(g, jump, c->n[BY_BLOB]);
}

/*
 * Another thread has inserted a key next to home meanwhile; it may be the same key. If the value has been changed since by a
 * thread that found the key here, it stays here.
 */
static void put_take_back(struct gen *g, struct cold *c)
{
	asm_label stays = asm_new_label(&g->a);

	ins(g, move, ASM_64, ASM_A, ASM_F);
	ins(g, move, ASM_64, ASM_C, ASM_B);
	put_next(g, ASM_F, ASM_A, PROG_READY, PROG_VACANT);
	ins(g, atomic_cas_pair, asm_at(ASM_D, 0));
	put_saved(g, c);
	ins(g, branch, ASM_NE, stays);
	ins(g, jump, c->n[BY_BLOB]);
	asm_bind(&g->a, stays);
	ins(g, imm, ASM_A, 0);
	ins(g, jump, c->then);
}

static void put_value(struct gen *g, const struct ir_ins *i)
{
	g_load(g, ASM_A, i->op == IR_MAP_ADD ? i->a : g->p->args.v[i->first + i->nkeys].reg);
	g->acc = IR_NONE;
}

/* B, C: the home entry and its state, A: the lower bits of the state, which is not READY. */
static void put_vacant(struct gen *g, struct cold *c)
{
	const struct ir_ins *i = c->p;
	struct cold *x;
	asm_label changed, back;

	ins(g, alu_imm, ASM_CMP, ASM_32, asm_in(ASM_A), PROG_VACANT);
	ins(g, branch, ASM_NE, c->n[BY_BLOB]);
	x = g_cold(g, put_changed);
	memcpy(x->n, c->n, sizeof(c->n));
	changed = x->here;
	put_value(g, i);
	ins(g, move, ASM_64, ASM_F, ASM_A);
	ins(g, move, ASM_64, ASM_D, ASM_C);
	if (i->nkeys) {
		put_next_free(g, i, ASM_B);
		ins(g, branch, ASM_NE, changed);
	}
	ins(g, move, ASM_64, ASM_A, ASM_D);
	ins(g, move, ASM_64, ASM_D, ASM_B);
	ins(g, move, ASM_64, ASM_B, ASM_F);
	put_next(g, ASM_F, ASM_A, PROG_VACANT, PROG_READY);
	ins(g, load, ASM_U64, ASM_C, asm_at(ASM_D, offsetof(struct prog_entry, value)));
	ins(g, atomic_cas_pair, asm_at(ASM_D, 0));
	ins(g, branch, ASM_NE, changed);
	if (i->nkeys) {
		x = g_cold(g, put_take_back);
		memcpy(x->n, c->n, sizeof(c->n));
		x->then = c->then;
		back = x->here;
		put_next_free(g, i, ASM_D);
		ins(g, branch, ASM_NE, back);
	}
	put_saved(g, c);
	ins(g, imm, ASM_A, 0);
	ins(g, jump, c->then);
}

/* Leaves the value before in A. */
static void put_change(struct gen *g, const struct ir_ins *i, asm_label by_blob)
{
	int32_t words = g->out + 8 * (i->n + 1);
	struct cold vacant, *c = g_cold(g, put_vacant);

	c->p = i;
	c->n[BY_BLOB] = by_blob;
	c->n[WORD_D] = words;
	c->n[WORD_F] = words + 8;
	vacant = *c;
	put_look(g, i, by_blob);
	g_store_word(g, ASM_D, words);
	g_store_word(g, ASM_F, words + 8);
	ins(g, alu_imm, ASM_CMP, ASM_32, asm_in(ASM_A), PROG_READY);
	ins(g, branch, ASM_NE, vacant.here);
	put_value(g, i);
	ins(g, move, ASM_64, ASM_D, ASM_B);
	ins(g, move, ASM_64, ASM_B, ASM_A);
	ins(g, move, ASM_64, ASM_A, ASM_C);
	ins(g, move, ASM_64, ASM_F, ASM_C);
	ins(g, load, ASM_U64, ASM_C, asm_at(ASM_D, offsetof(struct prog_entry, value)));
	if (i->op == IR_MAP_ADD)
		ins(g, alu, ASM_ADD, ASM_64, ASM_B, ASM_C);
	c = g_cold(g, put_changed);
	memcpy(c->n, vacant.n, sizeof(c->n));
	ins(g, atomic_cas_pair, asm_at(ASM_D, 0));
	ins(g, branch, ASM_NE, c->here);
	put_saved(g, &vacant);
	ins(g, move, ASM_64, ASM_A, ASM_C);
	asm_bind(&g->a, vacant.then);
	if (i->dst != IR_NONE)
		g_store_word(g, ASM_A, g->places[i->dst].off);
}

void g_value(struct gen *g, const struct ir_ins *i)
{
	struct cold *c;
	asm_label by_blob, done;

	if (i->op == IR_MAP_DEL && !makes_vacant(g, i)) {
		g_blob_call(g, i);
		return;
	}
	c = g_cold(g, put_by_blob);
	by_blob = c->here;
	done = c->then;
	c->p = i;
	if (i->op == IR_MAP_SET || i->op == IR_MAP_ADD)
		put_change(g, i, by_blob);
	else
		put_find(g, i, by_blob);
	asm_bind(&g->a, done);
	g->acc = IR_NONE;
}
