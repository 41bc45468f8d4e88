/* SPDX-License-Identifier: MIT */
/*
 * Call probes: the exit of a call finds the values that the clause program at its entry has saved. The key is made of the
 * stack pointer, the function and the clause's switch word. In Go, where stacks move, the goroutine and the distance from the
 * top of its stack take the place of the stack pointer. The tables are private to a process and have no locks; one is for
 * calls with few saved values, the other for calls with more. A slot is
 *
 *	u64 key, u32 time[2]
 *	u64 check, faults, saved values		if values are saved
 *
 * A key may be in one of GEN_PAIR_WAYS slots; if all are in use, the call in the first one is evicted. A slot whose key is 0
 * was never used. A slot whose time has the upper half PAIR_FREE holds no open call; it keeps its last key, and the next call
 * with that key only writes the time. A call with another key must take the slot by a compare-and-exchange of the key, or two
 * threads could take the same slot.
 *
 * If a thread takes a slot while a call with the slot's old key enters it, the thread of that call sees that the key has
 * changed, after it has written its time, and frees the slot. The exits of both calls then find no entry, and are counted. Saved
 * values could still be a mixture, if both threads wrote them at the same time: `check` is the xor of the key, the faults and
 * all values, and the exit compares it.
 *
 * Reading the time stamp counter waits for all earlier instructions and delays all later ones. So an exit does most of its
 * work before it reads the counter, and the measured time does not include that work: docs/why/calls.md.
 */
#include "gen/emit.h"

#define SLOT_TIME 8
#define SLOT_HIGH PAIR_HIGH
#define SLOT_CHECK 16
#define SLOT_FAULTS 24
#define SLOT_SAVED 32

#define FEW_SHIFT 6
#define FEW (((1 << FEW_SHIFT) - SLOT_SAVED) / 8)
#define MANY_SHIFT (FEW_SHIFT + GEN_PAIR_MANY)
#define FREE PAIR_FREE

#define HASH_FROM 26		/* the hash: bits of the product from here up, which depend on low and high bits of the key */

_Static_assert(1 << FEW_SHIFT == GEN_PAIR_SIZE, "gen.h counts in these");
_Static_assert(SLOT_SAVED + 8 * GEN_SAVED_MAX <= 1 << MANY_SHIFT, "a slot has room for all");

#define SLOT(off) asm_at(ASM_B, off)		/* of the slot at B */
#define SAVED(k) asm_far(ASM_B, SLOT_SAVED + 8 * (k))

static int32_t word(const struct gen *g, int n)
{
	return g->pair + 8 * n;
}

/* At an exit the faults of the entry have a word only if the clause program tests them. */
static int first_saved(const struct gen *g)
{
	if (g->p->where == IR_WHERE_ENTRY)
		return PAIR_COUNT + 1;
	return g->entry_bits ? PAIR_FAULTS + 1 : PAIR_FAULTS;
}

uint32_t g_pair_words(const struct gen *g)
{
	return first_saved(g) + g->p->nsaved;
}

uint32_t g_pair_word(const struct gen *g, uint32_t n)
{
	return word(g, first_saved(g) + n);
}

static bool has_few(const struct ir_prog *p)
{
	return p->nsaved <= FEW;
}

static int slot_shift(const struct gen *g)
{
	return has_few(g->p) ? FEW_SHIFT : MANY_SHIFT;
}

static uint32_t slot_size(const struct gen *g)
{
	return 1u << slot_shift(g);
}

uint32_t gen_open_calls(const struct ir_prog *p, uint32_t pair_bits)
{
	return 1u << (pair_bits - (has_few(p) ? 0 : GEN_PAIR_MANY));
}

/*
 * Go: replaces the stack pointer in A by a number that stays the same when the stack moves: its distance from the top of the
 * stack, xor the address of g, rotated out of the bits of the distance. g never moves; its second word is the stack's top.
 */
static void put_distance(struct gen *g)
{
	asm_label none = asm_new_label(&g->a);

	ins(g, load, ASM_U64, ASM_B, asm_tls(g->site->g_off));
	ins(g, branch_b_zero, none);			/* a thread that Go did not create */
	ins(g, alu_from, ASM_SUB, ASM_64, ASM_A, asm_at(ASM_B, 8));
	ins(g, shift, ASM_ROL, ASM_64, ASM_B, 24);
	ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_B);
	asm_bind(&g->a, none);
}

/* Mixes the clause's switch word into the key: a slot written before the last switch has another key. */
static void put_switched(struct gen *g)
{
	ins(g, address, ASM_B, g->env->enabled + 4ull * g->p->clause);
	ins(g, load, ASM_U32, ASM_C, asm_at(ASM_B, 0));
	ins(g, mul_imm, ASM_64, ASM_C, ASM_C, 0x632be5ab);
	ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_C);
}

/*
 * Mixes in the number of entries that were skipped for lack of stack: the exit of a skipped call must not find the slot of an
 * earlier call with the same stack pointer.
 */
static void put_missed(struct gen *g)
{
	ins(g, address, ASM_B, g->site->missed);
	ins(g, load, ASM_U32, ASM_C, asm_at(ASM_B, 0));
	ins(g, swap, ASM_64, ASM_C);
	ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_C);
}

/* Whether the key is just the stack pointer plus a constant made of the function and the clause, as it mostly is. */
static bool key_is_plain(const struct gen *g)
{
	return !g->site->g_off && !g->site->missed && !g->env->enabled;
}

static void put_plain_key(struct gen *g, enum asm_reg reg)
{
	uint64_t h = (g->site->func + 0x632be59bd9b4e019u * g->p->clause) * 0x9e3779b97f4a7c15u;

	if (g->p->is_left) {
		g_load_word(g, reg, g_left_word(g, LEFT_SP));
		ins(g, alu_imm, ASM_ADD, ASM_64, asm_in_far(reg), h >> 34);
		return;
	}
	ins(g, lea, ASM_64, reg, asm_at(ASM_SP, (int32_t)(h >> 34) + g_site_sp(g)));
}

static void put_key(struct gen *g)
{
	put_plain_key(g, ASM_A);
	if (g->site->g_off)
		put_distance(g);
	if (g->env->enabled)
		put_switched(g);
	if (g->site->missed)
		put_missed(g);
}

/* At an entry: reg = the key, computed again or loaded from the frame. */
static void put_same_key(struct gen *g, enum asm_reg reg)
{
	if (key_is_plain(g))
		put_plain_key(g, reg);
	else
		g_load_word(g, reg, word(g, PAIR_KEY));
}

/* A = key, B = the first slot that it may be in */
static void put_home(struct gen *g)
{
	uint32_t last = gen_open_calls(g->p, g->env->pair_bits) - 1;
	int from = HASH_FROM;

	put_key(g);
	if (g->site->g_off) {				/* here keys differ in all bits, not only in the lower ones */
		from = __builtin_clzll(last);
		ins(g, address, ASM_B, 0x9e3779b97f4a7c15);
		ins(g, mul, ASM_B, ASM_A);
	} else {
		ins(g, mul_imm, ASM_64, ASM_B, ASM_A, 0x9e3779b1);
	}
	ins(g, shift, ASM_SHR, ASM_64, ASM_B, from - slot_shift(g));
	ins(g, alu_wide, ASM_AND, ASM_32, ASM_B, last << slot_shift(g));
	ins(g, address, ASM_C, g->env->pairs + (has_few(g->p) ? 0 : GEN_PAIRS_FEW(g->env->pair_bits)));
	ins(g, alu, ASM_ADD, ASM_64, ASM_B, ASM_C);
}

static void put_high(struct gen *g, uint32_t v)
{
	ins(g, store_imm, ASM_32, SLOT(SLOT_HIGH), v);
}

/* EQ: no call is open in the slot at B */
static void put_is_free(struct gen *g)
{
	ins(g, alu_imm, ASM_CMP, ASM_32, SLOT(SLOT_HIGH), FREE);
}

static void put_next_slot(struct gen *g)
{
	ins(g, alu_wide, ASM_ADD, ASM_64, ASM_B, slot_size(g));
}

static void put_first_slot(struct gen *g)
{
	ins(g, alu_wide, ASM_SUB, ASM_64, ASM_B, slot_size(g) * GEN_PAIR_WAYS);
}

/* Compares the number of slots that are still to be tried with n */
static void put_are_left(struct gen *g, int n)
{
	ins(g, alu_imm, ASM_CMP, ASM_64, asm_at(ASM_SP, word(g, PAIR_COUNT)), n);
}

/* A: key in the slot, C: the key of this call. Branches to `claimed` if the slot could be taken; else continues. */
static void put_try(struct gen *g, asm_label claimed)
{
	asm_label unused = asm_new_label(&g->a), no = asm_new_label(&g->a);

	ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
	ins(g, branch_short, ASM_EQ, unused);
	put_are_left(g, GEN_PAIR_WAYS);
	ins(g, branch_short, ASM_UGT, no);
	put_is_free(g);
	ins(g, branch_short, ASM_NE, no);
	asm_bind(&g->a, unused);
	ins(g, atomic_cas, SLOT(0), ASM_C);
	ins(g, branch_short, ASM_NE, no);
	ins(g, jump, claimed);
	asm_bind(&g->a, no);
}

/*
 * A: key; the first slot has another one. B = a slot for it. The first round looks for a slot that was never used, the second
 * also takes one that holds no open call, since a call with that slot's old key may be entering it now. Other threads may try
 * to take the same slot.
 */
static void put_claim(struct gen *g, struct cold *c)
{
	asm_label again = asm_new_label(&g->a), claimed = asm_new_label(&g->a), further = asm_new_label(&g->a);

	g_store_word(g, ASM_A, word(g, PAIR_KEY));
	ins(g, store_imm, ASM_64, asm_at(ASM_SP, word(g, PAIR_COUNT)), 2 * GEN_PAIR_WAYS);
	asm_bind(&g->a, again);
	ins(g, load, ASM_U64, ASM_A, SLOT(0));
	g_load_word(g, ASM_C, word(g, PAIR_KEY));
	ins(g, alu, ASM_CMP, ASM_64, ASM_A, ASM_C);
	ins(g, branch, ASM_EQ, c->then);
	put_try(g, claimed);
	put_next_slot(g);
	ins(g, unary, ASM_DEC, ASM_64, asm_at(ASM_SP, word(g, PAIR_COUNT)));
	put_are_left(g, GEN_PAIR_WAYS);
	ins(g, branch_short, ASM_NE, further);
	put_first_slot(g);
	asm_bind(&g->a, further);
	put_are_left(g, 0);
	ins(g, branch, ASM_NE, again);
	g_count(g, ASM_A, g->env->unpaired + 8 * g->env->nclauses);
	put_first_slot(g);
	ins(g, store, ASM_64, ASM_C, SLOT(0));
	asm_bind(&g->a, claimed);
	put_high(g, 0);					/* not free: no other thread takes it */
	g_left_mark(g);
	ins(g, jump, c->then);
}

/* The exit of a call whose entry was not found, or whose saved values are damaged: counts it and ends. */
static void put_spoilt_exit(struct gen *g, struct cold *c)
{
	g_count(g, ASM_B, g->env->unpaired + 8ull * g->p->clause);
	ins(g, jump, g->to_out);
}

/* No entry was found. That is not counted if the entry's clause program lets only some calls be watched. */
static void put_unpaired(struct gen *g, struct cold *c)
{
	if (!g->p->choosy)
		put_spoilt_exit(g, c);
	else
		ins(g, jump, g->to_out);
}

/* A: key, which is not in the first slot. B = the slot that has it. */
static void put_search(struct gen *g, struct cold *c)
{
	asm_label again = asm_new_label(&g->a);

	ins(g, imm, ASM_C, GEN_PAIR_WAYS - 1);
	asm_bind(&g->a, again);
	put_next_slot(g);
	ins(g, alu_to, ASM_CMP, ASM_64, SLOT(0), ASM_A);
	ins(g, branch, ASM_EQ, c->then);
	ins(g, unary, ASM_DEC, ASM_32, asm_in(ASM_C));
	ins(g, branch, ASM_NE, again);
	put_unpaired(g, c);
}

/* B: slot. Stores the fault word; it is 0 if no ring was taken, since every read that can fail takes one first. */
static void put_entry_faults(struct gen *g)
{
	asm_label none = asm_new_label(&g->a);

	g_load_word(g, ASM_C, g->ring);
	ins(g, alu, ASM_TEST, ASM_64, ASM_C, ASM_C);
	ins(g, branch_short, ASM_EQ, none);
	ins(g, load, ASM_U64, ASM_C, asm_far(ASM_C, offsetof(struct ring_ref, scratch)));
	ins(g, load, ASM_U64, ASM_C, asm_far(ASM_C, PROG_RUN + offsetof(struct prog_run, faults)));
	asm_bind(&g->a, none);
	ins(g, store, ASM_64, ASM_C, SLOT(SLOT_FAULTS));
	ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_C);
}

/*
 * For a call that is not to be watched: frees the slots with its key. It may have the stack pointer of an earlier call that
 * was left by longjmp or an exception, and its exit must not be paired with that call's entry.
 */
void g_pair_forget(struct gen *g)
{
	put_home(g);
	for (int k = 0; k < GEN_PAIR_WAYS; k++) {
		int32_t at = slot_size(g) * k;
		asm_label other = asm_new_label(&g->a);

		ins(g, alu_to, ASM_CMP, ASM_64, asm_far(ASM_B, at), ASM_A);
		ins(g, branch_short, ASM_NE, other);
		ins(g, store_imm, ASM_32, asm_far(ASM_B, at + SLOT_HIGH), FREE);
		asm_bind(&g->a, other);
	}
}

static void put_unwatched(struct gen *g, struct cold *c)
{
	g_pair_forget(g);
	ins(g, jump, g->to_out);
}

/* B: slot. Stores the saved values, with faults and check. */
static void put_values(struct gen *g)
{
	if (!g->p->nsaved)
		return;
	put_same_key(g, ASM_A);
	if (g->bits)
		put_entry_faults(g);
	else
		ins(g, store_imm, ASM_64, SLOT(SLOT_FAULTS), 0);
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		g_load_word(g, ASM_C, g_pair_word(g, k));
		ins(g, store, ASM_64, ASM_C, SAVED(k));
		ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_C);
	}
	ins(g, store, ASM_64, ASM_A, SLOT(SLOT_CHECK));
}

/* B: slot. From here on a call is open in it: its time is now, or has the upper half 0 if no duration is asked for. */
static void put_entered(struct gen *g)
{
	if (g->p->timed) {
		ins(g, ticks);
		ins(g, store, ASM_32, ASM_A, SLOT(SLOT_TIME));
		ins(g, store, ASM_32, ASM_C, SLOT(SLOT_HIGH));
	} else {
		put_high(g, 0);
	}
}

/* Another thread took the slot before this one wrote its time into it: frees the slot. */
static void put_spoilt(struct gen *g, struct cold *c)
{
	put_high(g, FREE);
	ins(g, jump, c->then);
}

/* The end of the clause program at an entry. Its result says whether the call is to be watched. */
void g_pair_enter(struct gen *g, const struct ir_ins *ret)
{
	int32_t imm = 1;
	struct cold c, claim;

	if (ret->a != IR_NONE && !g_is_imm32(g, ret->a, &imm)) {
		c = *g_cold(g, put_unwatched);
		g_load(g, ASM_A, ret->a);
		ins(g, alu, ASM_TEST, ASM_64, ASM_A, ASM_A);
		ins(g, branch, ASM_EQ, c.here);
	} else if (!imm) {
		g_pair_forget(g);
		return;
	}
	g->acc = IR_NONE;
	put_home(g);
	if (!key_is_plain(g))
		g_store_word(g, ASM_A, word(g, PAIR_KEY));
	claim = *g_cold(g, put_claim);
	ins(g, alu_to, ASM_CMP, ASM_64, SLOT(0), ASM_A);
	ins(g, branch, ASM_NE, claim.here);
	c = *g_cold(g, g_left_unseen);
	put_is_free(g);
	ins(g, branch, ASM_NE, c.here);
	asm_bind(&g->a, claim.then);
	asm_bind(&g->a, c.then);
	put_values(g);
	put_entered(g);
	put_same_key(g, ASM_C);
	ins(g, alu_to, ASM_CMP, ASM_64, SLOT(0), ASM_C);
	c = *g_cold(g, put_spoilt);
	g_cold_unless(g, ASM_EQ, &c);			/* else put_spoilt() */
	asm_bind(&g->a, c.then);
}

/* The entry of this call had faults: adds them to the fault word of the exit. */
static void put_exit_faults(struct gen *g, struct cold *c)
{
	static const struct ir_ins take = { .op = IR_SAVED, .dst = IR_NONE, .a = IR_NONE, .b = IR_NONE, .slot = IR_NONE, .slot2 = IR_NONE };

	g_heavy(g, &take);
	ins(g, jump, c->then);
}

bool g_is_duration(const struct gen *g, uint32_t r)
{
	for (size_t i = 0; i < g->p->ins.n; i++)
		if (g->p->ins.v[i].dst == r && ir_is_duration(&g->p->ins.v[i]))
			return g->defs[r] == 1;
	return false;
}

static int durations(const struct gen *g)
{
	int n = 0;

	for (size_t i = 0; i < g->p->ins.n; i++)
		n += ir_is_duration(&g->p->ins.v[i]);
	return n;
}

/*
 * What the short way of put_duration() can't handle; the difference of times is C << 32 | A. The slot is free; or the
 * difference is negative, because the counters of two CPUs differ, and is taken as 0; or it is 2^32 ticks or more; or the
 * highest bit of less than 1 ns is asked for; or the counter is slow.
 */
static void put_far(struct gen *g, struct cold *c)
{
	asm_label open = asm_new_label(&g->a), later = asm_new_label(&g->a);

	put_is_free(g);
	ins(g, branch_short, ASM_NE, open);
	put_unpaired(g, c);
	asm_bind(&g->a, open);
	ins(g, alu, ASM_TEST, ASM_32, ASM_C, ASM_C);
	ins(g, branch_short, ASM_POS, later);
	ins(g, imm, ASM_A, 0);
	ins(g, imm, ASM_C, 0);
	asm_bind(&g->a, later);
	g_join(g);
	g_store_word(g, ASM_B, word(g, PAIR_NS));
	g_ns(g);
	g_load_word(g, ASM_B, word(g, PAIR_NS));
	if (g->at_hand == BIT_AT_HAND) {
		g_highest_bit(g);
		ins(g, alu_imm, ASM_ADD, ASM_64, asm_in(ASM_C), HAND_BIT);
	}
	ins(g, jump, c->then);
}

/*
 * A = ns since the time in the slot at B; or, for BIT_AT_HAND, C = the number of its highest bit + HAND_BIT. A difference
 * below 2^32 ticks needs only one 64-bit multiplication; if it is at least 1 ns, the highest bit is found in the product
 * before the shift.
 */
static void put_duration(struct gen *g)
{
	uint64_t mult = g->env->mult;
	struct cold c = *g_cold(g, put_far);

	ins(g, ticks);
	ins(g, alu_from, ASM_SUB, ASM_32, ASM_A, SLOT(SLOT_TIME));
	ins(g, alu_from, ASM_SBB, ASM_32, ASM_C, SLOT(SLOT_HIGH));
	if (mult > UINT32_MAX)
		ins(g, jump_as_branch, c.here);		/* the product could exceed 64 bits */
	else
		g_cold_unless(g, ASM_EQ, &c);		/* else put_far() */
	if (g->at_hand == BIT_AT_HAND) {		/* less than 1 ns? */
		ins(g, alu_wide, ASM_CMP, ASM_32, ASM_A, mult ? (UINT32_MAX + mult) / mult : 0);
		ins(g, branch, ASM_ULT, c.here);
	}
	if (mult <= INT32_MAX) {
		ins(g, mul_imm, ASM_64, ASM_A, ASM_A, mult);
	} else {
		ins(g, imm32, ASM_C, mult);
		ins(g, mul, ASM_A, ASM_C);
	}
	if (g->at_hand == BIT_AT_HAND)
		ins(g, highest_bit, ASM_C, ASM_A);
	else
		ins(g, shift, ASM_SHR, ASM_64, ASM_A, 32);
	asm_bind(&g->a, c.then);
}

/* B: slot. Loads the saved values into the frame, and compares their check. */
static void put_saved_values(struct gen *g)
{
	struct cold *c;

	if (!g->p->nsaved)
		return;
	ins(g, load, ASM_U64, ASM_A, SLOT(0));
	ins(g, load, ASM_U64, ASM_C, SLOT(SLOT_FAULTS));
	if (g->entry_bits)
		g_store_word(g, ASM_C, word(g, PAIR_FAULTS));
	ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_C);
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		ins(g, load, ASM_U64, ASM_C, SAVED(k));
		g_store_word(g, ASM_C, g_pair_word(g, k));
		ins(g, alu, ASM_XOR, ASM_64, ASM_A, ASM_C);
	}
	ins(g, alu_from, ASM_CMP, ASM_64, ASM_A, SLOT(SLOT_CHECK));
	c = g_cold(g, put_spoilt_exit);
	ins(g, branch, ASM_NE, c->here);
}

/* A duration that is used only once, by the first instructions, stays in its register. */
static enum at_hand at_hand(const struct gen *g)
{
	const struct ir_ins *i = g->p->ins.v;

	if (!g->p->timed || durations(g) != 1 || g->p->nsaved || !ir_is_duration(i))
		return NOT_AT_HAND;
	if (g->p->ins.n > 1 && i[1].a == i->dst && g_wants_bit(g, &i[1]) && g_is_duration(g, i->dst) && !g->entry_bits)
		return BIT_AT_HAND;
	return AT_HAND;
}

/* The start of the clause program at an exit. */
void g_pair_leave(struct gen *g)
{
	struct cold c = *g_cold(g, put_search);

	if (!g->p->timed && durations(g))
		g->error = g_refuse(g, "the duration of a call whose entry has read no clock");
	g->at_hand = at_hand(g);
	put_home(g);
	ins(g, alu_to, ASM_CMP, ASM_64, SLOT(0), ASM_A);
	ins(g, branch, ASM_NE, c.here);			/* rare: not in the first slot */
	asm_bind(&g->a, c.then);
	if (g->p->timed) {
		put_duration(g);
	} else {
		put_is_free(g);
		c = *g_cold(g, put_unpaired);
		ins(g, branch, ASM_EQ, c.here);
	}
	if (g->p->timed && !g->at_hand)
		g_store_word(g, ASM_A, word(g, PAIR_NS));
	put_saved_values(g);
	put_high(g, FREE);
	if (!g->entry_bits)
		return;
	c = *g_cold(g, put_exit_faults);
	ins(g, alu_imm, ASM_CMP, ASM_64, asm_at(ASM_SP, word(g, PAIR_FAULTS)), 0);
	ins(g, branch, ASM_NE, c.here);
	asm_bind(&g->a, c.then);
}

/* A = ns since the entry */
void g_pair_duration(struct gen *g)
{
	if (!g->at_hand)
		g_load_word(g, ASM_A, word(g, PAIR_NS));
}

bool g_pair(struct gen *g, const struct ir_ins *i)
{
	if ((i->op == IR_SAVE || i->op == IR_SAVED) && (uint64_t)i->imm >= g->p->nsaved) {
		g->error = g_refuse(g, "a saved value with a number out of range");
		return true;
	}
	if (i->op == IR_SAVE) {
		g_load(g, ASM_A, i->a);
		g_store_word(g, ASM_A, g_pair_word(g, i->imm));
		return true;
	}
	if (i->op == IR_SAVED) {
		if (g->defs[i->dst] == 1)
			return true;		/* that word is its place */
		g->acc = IR_NONE;
		g_load_word(g, ASM_A, g_pair_word(g, i->imm));
		g_store(g, i->dst);
		return true;
	}
	return false;
}

/* Saved values are 0 if IR_SAVE is skipped by a branch. */
void g_pair_start(struct gen *g)
{
	for (uint32_t k = 0; k < g->p->nsaved; k++)
		g_zero_word(g, g_pair_word(g, k));
}
