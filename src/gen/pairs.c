/* SPDX-License-Identifier: MIT */
/*
 * Calls: what the program at the entry has saved is found again by the one at the exit, by the stack pointer,
 * the function, and how often its clause was switched; in Go, where stacks move, not by the stack pointer but by the goroutine
 * and how far from the top of its stack it is. The tables are private to a process and have no locks; one is for calls with few saved
 * values, the other for all others. A slot is
 *
 *	u64 key, u32 time[2]
 *	u64 check, faults, saved values		where values are saved
 *
 * Each key has GEN_PAIR_WAYS slots it may stand in; if all are taken, the first one loses. A slot is nobody's if its key is 0, and
 * free if its time is one that never comes; then it still has its last key, and the next call with that one needs no more than
 * to write the time. All others must exchange the key, or two of them could take the same slot.
 *
 * One who takes a slot just while its last user comes back spoils it: whoever was slow sees that the key has changed when he has
 * written the time, and frees it; the exits that find nothing then are counted. Saved values could still be mixed with those of another,
 * written in the same nanoseconds: the check is all of them and the key, xored.
 *
 * rdtsc waits for all that is before it and lets nothing go on behind it, so most of the work of an exit is done before, and the time that
 * is measured does not get longer by it: docs/why/calls.md.
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

#define HASH_FROM 26		/* the bits of a product that depend on the lowest and on high ones of a key */

_Static_assert(1 << FEW_SHIFT == GEN_PAIR_SIZE, "gen.h counts in these");
_Static_assert(SLOT_SAVED + 8 * GEN_SAVED_MAX <= 1 << MANY_SHIFT, "a slot has room for all");

/* reg, off(%rcx) */
static void put_slot(struct gen *g, int reg, int8_t off)
{
	op(g, 0x41 | reg << 3, off);
}

static int32_t word(const struct gen *g, int n)
{
	return g->pair + 8 * n;
}

/* Faults of the entry have a word only where somebody looks at them. */
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
 * rax is the stack pointer: make of it what stays the same while the stack moves. g never moves and begins with the
 * stack's ends. Its address goes where no bits of a distance are.
 */
static void put_distance(struct gen *g)
{
	size_t none;

	op(g, 0x64, 0x48, 0x8b, 0x0c, 0x25);		/* mov  %fs:g,%rcx */
	g_u32(g, g->site->g_off);
	op(g, 0xe3, 0);					/* jrcxz 1f: no thread of Go's */
	none = g->a.code.n;
	op(g, 0x48, 0x2b, 0x41, 8);			/* sub  8(%rcx),%rax */
	op(g, 0x48, 0xc1, 0xc1, 24);			/* rol  $24,%rcx */
	op(g, 0x48, 0x31, 0xc8);			/* xor  %rcx,%rax */
	g->a.code.v[none - 1] = g->a.code.n - none;		/* 1: */
}

/* What was noted before the clause was switched has another key. */
static void put_switched(struct gen *g)
{
	g_address(g, RCX, g->env->enabled + 4ull * g->p->clause);
	op(g, 0x8b, 0x11, 0x48, 0x69, 0xd2);		/* mov  (%rcx),%edx; imul $odd,%rdx,%rdx */
	g_u32(g, 0x632be5ab);
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
}

/* Likewise what was noted before the last entry that could not be: the place of that one may be taken. */
static void put_missed(struct gen *g)
{
	g_address(g, RCX, g->site->missed);
	op(g, 0x8b, 0x11, 0x48, 0x0f, 0xca);		/* mov  (%rcx),%edx; bswap %rdx */
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
}

/* A key is the stack pointer and a number that stands for the function and the clause; mostly there is nothing else. */
static bool key_is_plain(const struct gen *g)
{
	return !g->site->g_off && !g->site->missed && !g->env->enabled;
}

static void put_plain_key(struct gen *g, int reg)
{
	uint64_t h = (g->site->func + 0x632be59bd9b4e019u * g->p->clause) * 0x9e3779b97f4a7c15u;

	if (g->p->is_left) {
		g_load_word(g, reg, g_left_word(g, LEFT_SP));
		op(g, 0x48, 0x81, 0xc0 | reg);		/* add  $number,%reg */
		g_u32(g, h >> 34);
		return;
	}
	op(g, 0x48, 0x8d);				/* lea  site's rsp + number,%reg */
	g_rsp(g, reg, (int32_t)(h >> 34) + g->frame + 128 + 8 * g->site->pushed);
}

static void put_key(struct gen *g)
{
	put_plain_key(g, RAX);
	if (g->site->g_off)
		put_distance(g);
	if (g->env->enabled)
		put_switched(g);
	if (g->site->missed)
		put_missed(g);
}

/* At an entry, once more: in reg. */
static void put_same_key(struct gen *g, int reg)
{
	if (key_is_plain(g))
		put_plain_key(g, reg);
	else
		g_load_word(g, reg, word(g, PAIR_KEY));
}

/* rax = key, rcx = the first slot it may stand in */
static void put_home(struct gen *g)
{
	uint32_t last = gen_open_calls(g->p, g->env->pair_bits) - 1;
	int from = HASH_FROM;

	put_key(g);
	if (g->site->g_off) {				/* all bits of its key differ, not only the lower ones */
		from = __builtin_clzll(last);
		g_address(g, RCX, 0x9e3779b97f4a7c15);
		op(g, 0x48, 0x0f, 0xaf, 0xc8);		/* imul %rax,%rcx */
	} else {
		op(g, 0x48, 0x69, 0xc8);		/* imul $odd,%rax,%rcx */
		g_u32(g, 0x9e3779b1);
	}
	op(g, 0x48, 0xc1, 0xe9, from - slot_shift(g));	/* shr  $from - shift,%rcx */
	op(g, 0x81, 0xe1);				/* and  $last << shift,%ecx */
	g_u32(g, last << slot_shift(g));
	g_address(g, RDX, g->env->pairs + (has_few(g->p) ? 0 : GEN_PAIRS_FEW(g->env->pair_bits)));
	op(g, 0x48, 0x01, 0xd1);			/* add  %rdx,%rcx */
}

static void put_high(struct gen *g, uint32_t v)
{
	op(g, 0xc7);					/* movl $v,high(%rcx) */
	put_slot(g, 0, SLOT_HIGH);
	g_u32(g, v);
}

static void put_is_free(struct gen *g)
{
	op(g, 0x81);					/* cmpl $FREE,high(%rcx) */
	put_slot(g, 7, SLOT_HIGH);
	g_u32(g, FREE);
}

/*
 * rax: key. rcx = a slot for it, if the first one has another. First one that is nobody's is looked for, then one that is free: its
 * last user may come back just now. Either may be wanted by another thread at the same time.
 */
static void put_claim(struct gen *g, struct cold *c)
{
	size_t again, nobodys, first, taken, lost, claimed;

	g_store_word(g, RAX, word(g, PAIR_KEY));
	op(g, 0x48, 0xc7);				/* movq $2 * ways,count(%rsp) */
	g_rsp(g, 0, word(g, PAIR_COUNT));
	g_u32(g, 2 * GEN_PAIR_WAYS);
	again = g->a.code.n;
	op(g, 0x48, 0x8b, 0x01);			/* 1: mov (%rcx),%rax */
	g_load_word(g, RDX, word(g, PAIR_KEY));
	op(g, 0x48, 0x39, 0xd0, 0x0f, 0x84);		/* cmp  %rdx,%rax; je back */
	g_land(g, g_later(g), c->back);
	op(g, 0x48, 0x85, 0xc0, 0x74, 0);		/* test %rax,%rax; jz 2f */
	nobodys = g->a.code.n;
	op(g, 0x48, 0x83);				/* cmpq $ways,count(%rsp) */
	g_rsp(g, 7, word(g, PAIR_COUNT));
	op(g, GEN_PAIR_WAYS, 0x77, 0);			/* ja   3f */
	first = g->a.code.n;
	put_is_free(g);
	op(g, 0x75, 0);					/* jne  3f */
	taken = g->a.code.n;
	g->a.code.v[nobodys - 1] = g->a.code.n - nobodys;
	op(g, 0xf0, 0x48, 0x0f, 0xb1, 0x11, 0x75, 0);	/* 2: lock cmpxchg %rdx,(%rcx); jne 3f */
	lost = g->a.code.n;
	op(g, 0xe9);					/* jmp  claimed */
	claimed = g_later(g);
	g->a.code.v[first - 1] = g->a.code.n - first;
	g->a.code.v[taken - 1] = g->a.code.n - taken;
	g->a.code.v[lost - 1] = g->a.code.n - lost;
	op(g, 0x48, 0x81, 0xc1);			/* 3: add $size,%rcx */
	g_u32(g, slot_size(g));
	op(g, 0x48, 0xff);				/* decq count(%rsp) */
	g_rsp(g, 1, word(g, PAIR_COUNT));
	op(g, 0x48, 0x83);				/* cmpq $ways,count(%rsp) */
	g_rsp(g, 7, word(g, PAIR_COUNT));
	op(g, GEN_PAIR_WAYS, 0x75, 7, 0x48, 0x81, 0xe9);	/* jne 4f; sub $size * ways,%rcx */
	g_u32(g, slot_size(g) * GEN_PAIR_WAYS);
	op(g, 0x48, 0x83);				/* 4: cmpq $0,count(%rsp) */
	g_rsp(g, 7, word(g, PAIR_COUNT));
	op(g, 0, 0x0f, 0x85);				/* jne  1b */
	g_land(g, g_later(g), again);
	g_address(g, RAX, g->env->unpaired + 8 * g->env->nclauses);
	op(g, 0xf0, 0x48, 0xff, 0x00);			/* lock incq (%rax) */
	op(g, 0x48, 0x81, 0xe9);			/* sub  $size * ways,%rcx */
	g_u32(g, slot_size(g) * GEN_PAIR_WAYS);
	op(g, 0x48, 0x89, 0x11);			/* mov  %rdx,(%rcx) */
	g_land(g, claimed, g->a.code.n);
	put_high(g, 0);					/* claimed: so nobody else takes it */
	g_left_mark(g);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

static void put_spoilt_exit(struct gen *g, struct cold *c)
{
	g_address(g, RCX, g->env->unpaired + 8ull * g->p->clause);
	op(g, 0xf0, 0x48, 0xff, 0x01, 0xe9);		/* lock incq (%rcx) */
	g_to_out(g);
}

/* Where some calls are not watched this says nothing. */
static void put_unpaired(struct gen *g, struct cold *c)
{
	if (!g->p->choosy) {
		put_spoilt_exit(g, c);
		return;
	}
	op(g, 0xe9);
	g_to_out(g);
}

/* rax: key, which is not in the first slot. rcx = the slot that has it. */
static void put_search(struct gen *g, struct cold *c)
{
	size_t again;

	g_mov_imm(g, RDX, GEN_PAIR_WAYS - 1);
	again = g->a.code.n;
	op(g, 0x48, 0x81, 0xc1);			/* add  $size,%rcx */
	g_u32(g, slot_size(g));
	op(g, 0x48, 0x39, 0x01, 0x0f, 0x84);		/* cmp  %rax,(%rcx); je back */
	g_land(g, g_later(g), c->back);
	op(g, 0xff, 0xca, 0x0f, 0x85);			/* dec  %edx; jnz again */
	g_land(g, g_later(g), again);
	put_unpaired(g, c);
}

/* rcx: slot. Without a ring there were none. */
static void put_entry_faults(struct gen *g)
{
	size_t none;

	g_load_word(g, RDX, g->ring);
	op(g, 0x48, 0x85, 0xd2, 0x74, 0);		/* test %rdx,%rdx; jz 1f */
	none = g->a.code.n;
	op(g, 0x48, 0x8b);				/* mov  scratch(%rdx),%rdx */
	g_mem(g, RDX, RDX, offsetof(struct ring_ref, scratch));
	op(g, 0x48, 0x8b);				/* mov  faults(%rdx),%rdx */
	g_mem(g, RDX, RDX, PROG_RUN + offsetof(struct prog_run, faults));
	g->a.code.v[none - 1] = g->a.code.n - none;
	op(g, 0x48, 0x89);				/* 1: mov %rdx,faults(%rcx) */
	put_slot(g, RDX, SLOT_FAULTS);
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
}

/*
 * A call that nobody wants to watch may have the stack pointer of one that was left by longjmp or an exception: its
 * exit must not be taken for that of the other.
 */
void g_pair_forget(struct gen *g)
{
	put_home(g);
	for (int k = 0; k < GEN_PAIR_WAYS; k++) {
		int32_t at = slot_size(g) * k;

		op(g, 0x48, 0x39);			/* cmp  %rax,slot(%rcx) */
		g_mem(g, RAX, RCX, at);
		op(g, 0x75, 10, 0xc7);			/* jne  1f; movl $FREE,slot + high(%rcx) */
		g_mem(g, 0, RCX, at + SLOT_HIGH);
		g_u32(g, FREE);				/* 1: */
	}
}

static void put_unwatched(struct gen *g, struct cold *c)
{
	g_pair_forget(g);
	op(g, 0xe9);
	g_to_out(g);
}

/* rcx: slot */
static void put_values(struct gen *g)
{
	if (!g->p->nsaved)
		return;
	put_same_key(g, RAX);
	if (g->bits) {
		put_entry_faults(g);
	} else {
		op(g, 0x48, 0xc7);			/* movq $0,faults(%rcx) */
		put_slot(g, 0, SLOT_FAULTS);
		g_u32(g, 0);
	}
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		g_load_word(g, RDX, g_pair_word(g, k));
		op(g, 0x48, 0x89);			/* mov  %rdx,saved(%rcx) */
		g_mem(g, RDX, RCX, SLOT_SAVED + 8 * k);
		op(g, 0x48, 0x31, 0xd0);		/* xor  %rdx,%rax */
	}
	op(g, 0x48, 0x89);				/* mov  %rax,check(%rcx) */
	put_slot(g, RAX, SLOT_CHECK);
}

/* rcx: slot. It is taken from now on, by a time that comes or by the one that was first of all. */
static void put_entered(struct gen *g)
{
	if (g->p->timed) {
		op(g, 0x0f, 0x31, 0x89);		/* rdtsc; mov %eax,time(%rcx) */
		put_slot(g, RAX, SLOT_TIME);
		op(g, 0x89);				/* mov  %edx,high(%rcx) */
		put_slot(g, RDX, SLOT_HIGH);
	} else {
		put_high(g, 0);
	}
}

/* While we were about to write, another has taken the slot. Now it has our time in it. */
static void put_spoilt(struct gen *g, struct cold *c)
{
	put_high(g, FREE);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* At the end of the program at the entry: does it want the call to be watched? */
void g_pair_enter(struct gen *g, const struct ir_ins *ret)
{
	int32_t imm = 1;
	struct cold *c;
	size_t claim;

	if (ret->a != IR_NONE && !g_is_imm32(g, ret->a, &imm)) {
		c = g_cold(g, put_unwatched);
		g_load(g, RAX, ret->a);
		op(g, 0x48, 0x85, 0xc0, 0x0f, 0x84);	/* test %rax,%rax; jz unwatched */
		c->from[0] = g_later(g);
	} else if (!imm) {
		g_pair_forget(g);
		return;
	}
	g->acc = IR_NONE;
	put_home(g);
	if (!key_is_plain(g))
		g_store_word(g, RAX, word(g, PAIR_KEY));
	op(g, 0x48, 0x39, 0x01, 0x0f, 0x85);		/* cmp  %rax,(%rcx); jne claim */
	c = g_cold(g, put_claim);
	claim = g->cold.n - 1;
	c->from[0] = g_later(g);
	put_is_free(g);
	op(g, 0x0f, 0x85);				/* jne  unseen */
	c = g_cold(g, g_left_unseen);
	c->from[0] = g_later(g);
	c->back = g->cold.v[claim].back = g->a.code.n;
	put_values(g);
	put_entered(g);
	put_same_key(g, RDX);
	op(g, 0x48, 0x39, 0x11);			/* cmp  %rdx,(%rcx) */
	c = g_cold(g, put_spoilt);
	g_cold_unless(g, ASM_EQ, c);				/* je   1f, or it is spoilt */
	c->back = g->a.code.n;
}

/* The entry of this call has had faults: they are put where those of the exit are. */
static void put_exit_faults(struct gen *g, struct cold *c)
{
	static const struct ir_ins take = { .op = IR_SAVED, .dst = IR_NONE, .a = IR_NONE, .b = IR_NONE, .slot = IR_NONE, .slot2 = IR_NONE };

	g_heavy(g, &take);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
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

/* edx:eax: ticks, and no small number of them. Was it free? Do the clocks of two CPUs differ? */
static void put_far(struct gen *g, struct cold *c)
{
	size_t open, later;

	put_is_free(g);
	op(g, 0x75, 0);					/* jne  1f */
	open = g->a.code.n;
	put_unpaired(g, c);
	g->a.code.v[open - 1] = g->a.code.n - open;
	op(g, 0x85, 0xd2, 0x79, 0);			/* 1: test %edx,%edx; jns 2f */
	later = g->a.code.n;
	op(g, 0x31, 0xc0, 0x31, 0xd2);			/* xor  %eax,%eax; xor %edx,%edx */
	g->a.code.v[later - 1] = g->a.code.n - later;
	op(g, 0x48, 0xc1, 0xe2, 32, 0x48, 0x09, 0xd0);	/* 2: shl $32,%rdx; or %rdx,%rax */
	g_store_word(g, RCX, word(g, PAIR_NS));
	g_ns(g);
	g_load_word(g, RCX, word(g, PAIR_NS));
	if (g->at_hand == BIT_AT_HAND) {
		g_highest_bit(g);
		op(g, 0x48, 0x83, 0xc2, HAND_BIT);	/* add  $HAND_BIT,%rdx */
	}
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/*
 * rax = ns since the time in the slot at rcx, or rdx its highest bit. Less than 2^32 ticks need only one short multiplication, and where
 * it is more than 0 ns the highest bit of the product is known before it is shifted.
 */
static void put_duration(struct gen *g)
{
	uint64_t mult = g->env->mult;
	struct cold *c = g_cold(g, put_far);

	op(g, 0x0f, 0x31, 0x2b);			/* rdtsc; sub time(%rcx),%eax */
	put_slot(g, RAX, SLOT_TIME);
	op(g, 0x1b);					/* sbb  high(%rcx),%edx */
	put_slot(g, RDX, SLOT_HIGH);
	if (mult > UINT32_MAX) {
		op(g, 0x90, 0xe9);			/* nop; jmp far: what follows would not do */
		c->from[0] = g_later(g);
	} else {
		g_cold_unless(g, ASM_EQ, c);			/* jz   1f, or it is far */
	}
	if (g->at_hand == BIT_AT_HAND) {
		op(g, 0x3d);				/* 1: cmp $what is 1 ns,%eax */
		g_u32(g, mult ? (UINT32_MAX + mult) / mult : 0);
		op(g, 0x0f, 0x82);			/* jb   far */
		c->from[1] = g_later(g);
	}
	if (mult <= INT32_MAX) {
		op(g, 0x48, 0x69, 0xc0);		/* imul $mult,%rax,%rax */
		g_u32(g, mult);
	} else {
		op(g, 0xba);				/* mov  $mult,%edx */
		g_u32(g, mult);
		op(g, 0x48, 0x0f, 0xaf, 0xc2);		/* imul %rdx,%rax */
	}
	if (g->at_hand == BIT_AT_HAND)
		op(g, 0x48, 0x0f, 0xbd, 0xd0);		/* bsr  %rax,%rdx */
	else
		op(g, 0x48, 0xc1, 0xe8, 32);		/* shr  $32,%rax */
	c->back = g->a.code.n;
}

/* rcx: slot */
static void put_saved_values(struct gen *g)
{
	struct cold *c;

	if (!g->p->nsaved)
		return;
	op(g, 0x48, 0x8b, 0x01, 0x48, 0x8b);		/* mov  (%rcx),%rax; mov faults(%rcx),%rdx */
	put_slot(g, RDX, SLOT_FAULTS);
	if (g->entry_bits)
		g_store_word(g, RDX, word(g, PAIR_FAULTS));
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		op(g, 0x48, 0x8b);			/* mov  saved(%rcx),%rdx */
		g_mem(g, RDX, RCX, SLOT_SAVED + 8 * k);
		g_store_word(g, RDX, g_pair_word(g, k));
		op(g, 0x48, 0x31, 0xd0);
	}
	op(g, 0x48, 0x3b);				/* cmp  check(%rcx),%rax */
	put_slot(g, RAX, SLOT_CHECK);
	op(g, 0x0f, 0x85);				/* jne  unpaired */
	c = g_cold(g, put_spoilt_exit);
	c->from[0] = g_later(g);
}

/* What is wanted at once and only once stays where it is. */
static enum at_hand at_hand(const struct gen *g)
{
	const struct ir_ins *i = g->p->ins.v;

	if (!g->p->timed || durations(g) != 1 || g->p->nsaved || !ir_is_duration(i))
		return NOT_AT_HAND;
	if (g->p->ins.n > 1 && i[1].a == i->dst && g_wants_bit(g, &i[1]) && g_is_duration(g, i->dst) && !g->entry_bits)
		return BIT_AT_HAND;
	return AT_HAND;
}

/* At the start of the program at the exit. */
void g_pair_leave(struct gen *g)
{
	struct cold *c = g_cold(g, put_search);

	if (!g->p->timed && durations(g))
		g->error = g_refuse(g, "the duration of a call whose entry has read no clock");
	g->at_hand = at_hand(g);
	put_home(g);
	op(g, 0x48, 0x39, 0x01, 0x0f, 0x85);		/* cmp  %rax,(%rcx); jne search: mostly it is the first */
	c->from[0] = g_later(g);
	c->back = g->a.code.n;
	if (g->p->timed) {
		put_duration(g);
	} else {
		put_is_free(g);
		op(g, 0x0f, 0x84);			/* je   unpaired */
		c = g_cold(g, put_unpaired);
		c->from[0] = g_later(g);
	}
	if (g->p->timed && !g->at_hand)
		g_store_word(g, RAX, word(g, PAIR_NS));
	put_saved_values(g);
	put_high(g, FREE);
	if (!g->entry_bits)
		return;
	op(g, 0x48, 0x83);				/* cmpq $0,faults(%rsp) */
	g_rsp(g, 7, word(g, PAIR_FAULTS));
	op(g, 0, 0x0f, 0x85);				/* jne */
	c = g_cold(g, put_exit_faults);
	c->from[0] = g_later(g);
	c->back = g->a.code.n;
}

/* rax = ns since the entry */
void g_pair_duration(struct gen *g)
{
	if (!g->at_hand)
		g_load_word(g, RAX, word(g, PAIR_NS));
}

bool g_pair(struct gen *g, const struct ir_ins *i)
{
	if ((i->op == IR_SAVE || i->op == IR_SAVED) && (uint64_t)i->imm >= g->p->nsaved) {
		g->error = g_refuse(g, "a value that nobody has saved");
		return true;
	}
	if (i->op == IR_SAVE) {
		g_load(g, RAX, i->a);
		g_store_word(g, RAX, g_pair_word(g, i->imm));
		return true;
	}
	if (i->op == IR_SAVED) {
		if (g->defs[i->dst] == 1)
			return true;		/* that word is its place */
		g->acc = IR_NONE;
		g_load_word(g, RAX, g_pair_word(g, i->imm));
		g_store(g, i->dst);
		return true;
	}
	return false;
}

/* SAVE may be jumped over: what is saved then is 0. */
void g_pair_start(struct gen *g)
{
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		op(g, 0x48, 0xc7);			/* movq $0,saved(%rsp) */
		g_rsp(g, 0, g_pair_word(g, k));
		g_u32(g, 0);
	}
}
