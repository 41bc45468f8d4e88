/* SPDX-License-Identifier: MIT */
/*
 * Calls: what the program at the entry has saved is found again by the one at the exit, by the stack pointer,
 * the function, and how often its clause was switched; in Go, where stacks move, not by the stack pointer but by the goroutine
 * and how far from the top of its stack it is. The table is private to a process and has no locks. A slot is
 *
 *	u64 key, time stamp, faults, saved values, check
 *
 * and the check is all others xored: a slot that two threads have written at once, or one half written, is
 * nobody's. Each key has GEN_PAIR_WAYS slots it may stand in; if all are taken, the first one loses.
 *
 * Bit 0 of a key says that the slot is taken. At the exit only that bit is cleared: the next call with this key finds its slot as
 * it was left, and takes it by a plain store. Others must exchange it, or two of them could take the same. (One who takes it
 * just while the other comes back spoils that call: it is counted as one whose entry was not found.)
 */
#include "gen/emit.h"

#define SLOT_TIME 8
#define SLOT_FAULTS 16
#define SLOT_SAVED 24
#define SLOT_CHECK(nsaved) (SLOT_SAVED + 8 * (nsaved))

_Static_assert(SLOT_CHECK(GEN_SAVED_MAX) + 8 <= GEN_PAIR_SIZE, "a slot has room for all");

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

/* rax = time stamp; rdx changes */
static void put_time(struct gen *g)
{
	op(g, 0x0f, 0x31);				/* rdtsc */
	op(g, 0x48, 0xc1, 0xe2, 32, 0x48, 0x09, 0xd0);	/* shl  $32,%rdx; or %rdx,%rax */
}

/*
 * rax is the stack pointer: make of it what stays the same while the stack moves. g never moves and begins with the
 * stack's ends. Its address goes where no bits of a distance are.
 */
static void put_distance(struct gen *g)
{
	size_t none;

	if (!g->site->g_off)
		return;
	op(g, 0x64, 0x48, 0x8b, 0x0c, 0x25);		/* mov  %fs:g,%rcx */
	g_u32(g, g->site->g_off);
	op(g, 0xe3, 0);					/* jrcxz 1f: no thread of Go's */
	none = g->code.n;
	op(g, 0x48, 0x2b, 0x41, 8);			/* sub  8(%rcx),%rax */
	op(g, 0x48, 0xc1, 0xc1, 24);			/* rol  $24,%rcx */
	op(g, 0x48, 0x31, 0xc8);			/* xor  %rcx,%rax */
	g->code.v[none - 1] = g->code.n - none;		/* 1: */
}

/* What was noted before the clause was switched has another key. */
static void put_switched(struct gen *g)
{
	if (!g->env->enabled)
		return;
	g_address(g, RCX, g->env->enabled + 4ull * g->p->clause);
	op(g, 0x8b, 0x11, 0x48, 0x69, 0xd2);		/* mov  (%rcx),%edx; imul $odd,%rdx,%rdx */
	g_u32(g, 0x632be5ab);
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
}

/* Likewise what was noted before the last entry that could not be: the place of that one may be taken. */
static void put_missed(struct gen *g)
{
	if (!g->site->missed)
		return;
	g_address(g, RCX, g->site->missed);
	op(g, 0x8b, 0x11, 0x48, 0x0f, 0xca);		/* mov  (%rcx),%edx; bswap %rdx */
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
}

/* rax = key, rcx = the first slot it may stand in */
static void put_home(struct gen *g)
{
	op(g, 0x48, 0x8d);				/* lea  site's rsp,%rax */
	g_rsp(g, RAX, g->frame + 128 + 8 * g->site->pushed);
	put_distance(g);
	g_address(g, RCX, g->site->func + 0x632be59bd9b4e019u * g->p->clause);
	op(g, 0x48, 0x31, 0xc8);			/* xor  %rcx,%rax */
	put_switched(g);
	put_missed(g);
	op(g, 0x48, 0x83, 0xc8, 1);			/* or   $1,%rax */
	g_address(g, RCX, 0x9e3779b97f4a7c15);
	op(g, 0x48, 0x0f, 0xaf, 0xc8);			/* imul %rax,%rcx */
	op(g, 0x48, 0xc1, 0xe9, 64 - g->env->pair_bits);	/* shr  $64 - bits,%rcx */
	op(g, 0x48, 0x69, 0xc9);			/* imul $size,%rcx,%rcx */
	g_u32(g, GEN_PAIR_SIZE);
	g_address(g, RDX, g->env->pairs);
	op(g, 0x48, 0x01, 0xd1);			/* add  %rdx,%rcx */
}

/*
 * rcx = a slot for the key, none of whose first choice fits. A free one may be wanted by another thread at the same time, so it is
 * taken by an exchange. If all are taken, the first one loses.
 */
static void put_claim(struct gen *g, struct cold *c)
{
	size_t again, taken;

	op(g, 0x48, 0xc7);				/* movq $ways,count(%rsp) */
	g_rsp(g, 0, word(g, PAIR_COUNT));
	g_u32(g, GEN_PAIR_WAYS);
	again = g->code.n;
	op(g, 0x48, 0x8b, 0x01);			/* 1: mov (%rcx),%rax */
	g_load_word(g, RDX, word(g, PAIR_KEY));
	op(g, 0x48, 0x39, 0xd0, 0x0f, 0x84);		/* cmp  %rdx,%rax; je back: it never returned */
	g_land(g, g_later(g), c->back);
	op(g, 0xa8, 1, 0x75, 0);			/* test $1,%al; jnz 2f */
	taken = g->code.n;
	op(g, 0xf0, 0x48, 0x0f, 0xb1, 0x11, 0x0f, 0x84);	/* lock cmpxchg %rdx,(%rcx); je back */
	g_land(g, g_later(g), c->back);
	g->code.v[taken - 1] = g->code.n - taken;
	op(g, 0x48, 0x81, 0xc1);			/* 2: add $size,%rcx */
	g_u32(g, GEN_PAIR_SIZE);
	op(g, 0x48, 0xff);				/* decq count(%rsp) */
	g_rsp(g, 1, word(g, PAIR_COUNT));
	op(g, 0x0f, 0x85);				/* jnz  1b */
	g_land(g, g_later(g), again);
	g_address(g, RDX, g->env->unpaired + 8 * g->env->nclauses);
	op(g, 0xf0, 0x48, 0xff, 0x02);			/* lock incq (%rdx) */
	op(g, 0x48, 0x81, 0xe9);			/* sub  $size * ways,%rcx */
	g_u32(g, GEN_PAIR_SIZE * GEN_PAIR_WAYS);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* rcx = the slot with the key in rax. Falls through if there is none. Returns the branches of those who have it. */
static void put_search(struct gen *g, size_t found[2])
{
	size_t again;

	op(g, 0x48, 0x39, 0x01, 0x0f, 0x84);		/* cmp  %rax,(%rcx); je found: mostly it is the first */
	found[0] = g_later(g);
	g_mov_imm(g, RDX, GEN_PAIR_WAYS - 1);
	again = g->code.n;
	op(g, 0x48, 0x81, 0xc1);			/* add  $size,%rcx */
	g_u32(g, GEN_PAIR_SIZE);
	op(g, 0x48, 0x39, 0x01, 0x0f, 0x84);		/* cmp  %rax,(%rcx); je found */
	found[1] = g_later(g);
	op(g, 0xff, 0xca, 0x0f, 0x85);			/* dec  %edx; jnz again */
	g_land(g, g_later(g), again);
}

/* rcx: slot. Without a ring there were none. */
static void put_entry_faults(struct gen *g)
{
	size_t none;

	g_load_word(g, RDX, g->ring);
	op(g, 0x48, 0x85, 0xd2, 0x74, 0);		/* test %rdx,%rdx; jz 1f */
	none = g->code.n;
	op(g, 0x48, 0x8b);				/* mov  scratch(%rdx),%rdx */
	g_mem(g, RDX, RDX, offsetof(struct ring_head, bulk.scratch));
	op(g, 0x48, 0x8b);				/* mov  faults(%rdx),%rdx */
	g_mem(g, RDX, RDX, PROG_RUN + offsetof(struct prog_run, faults));
	g->code.v[none - 1] = g->code.n - none;
	op(g, 0x48, 0x89);				/* 1: mov %rdx,faults(%rcx) */
	g_mem(g, RDX, RCX, SLOT_FAULTS);
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
		op(g, 0x48, 0x39);			/* cmp  %rax,slot(%rcx) */
		g_mem(g, RAX, RCX, GEN_PAIR_SIZE * k);
		op(g, 0x75, 11, 0x48, 0xc7);		/* jne  1f; movq $0,slot(%rcx) */
		g_mem(g, 0, RCX, GEN_PAIR_SIZE * k);
		g_u32(g, 0);				/* 1: */
	}
}

static void put_unwatched(struct gen *g, struct cold *c)
{
	g_pair_forget(g);
	op(g, 0xe9);
	g_to_out(g);
}

/* At the end of the program at the entry: does it want the call to be watched? */
void g_pair_enter(struct gen *g, const struct ir_ins *ret)
{
	int32_t imm = 1;
	struct cold *c;

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
	g_store_word(g, RAX, word(g, PAIR_KEY));
	op(g, 0x48, 0x8d, 0x50, 0xff);			/* lea  -1(%rax),%rdx */
	op(g, 0x48, 0x39, 0x11, 0x0f, 0x85);		/* cmp  %rdx,(%rcx); jne claim */
	c = g_cold(g, put_claim);
	c->from[0] = g_later(g);
	c->back = g->code.n;
	put_time(g);
	op(g, 0x48, 0x89);				/* mov  %rax,time(%rcx) */
	g_mem(g, RAX, RCX, SLOT_TIME);
	if (g->bits) {
		put_entry_faults(g);
	} else {
		op(g, 0x48, 0xc7);			/* movq $0,faults(%rcx) */
		g_mem(g, 0, RCX, SLOT_FAULTS);
		g_u32(g, 0);
	}
	op(g, 0x48, 0x33);				/* xor  key(%rsp),%rax */
	g_rsp(g, RAX, word(g, PAIR_KEY));
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		g_load_word(g, RDX, g_pair_word(g, k));
		op(g, 0x48, 0x89);			/* mov  %rdx,saved(%rcx) */
		g_mem(g, RDX, RCX, SLOT_SAVED + 8 * k);
		op(g, 0x48, 0x31, 0xd0);		/* xor  %rdx,%rax */
	}
	op(g, 0x48, 0x89);				/* mov  %rax,check(%rcx) */
	g_mem(g, RAX, RCX, SLOT_CHECK(g->p->nsaved));
	g_load_word(g, RAX, word(g, PAIR_KEY));
	op(g, 0x48, 0x89, 0x01);			/* mov  %rax,(%rcx): last, what it says is there */
}

static void put_unpaired(struct gen *g, struct cold *c)
{
	g_address(g, RCX, g->env->unpaired + 8ull * g->p->clause);
	op(g, 0xf0, 0x48, 0xff, 0x01);			/* lock incq (%rcx) */
	op(g, 0xe9);
	g_to_out(g);
}

/* The entry of this call has had faults: they are put where those of the exit are. */
static void put_exit_faults(struct gen *g, struct cold *c)
{
	static const struct ir_ins take = { .op = IR_SAVED, .dst = IR_NONE, .a = IR_NONE, .b = IR_NONE, .slot = IR_NONE, .slot2 = IR_NONE };

	g_heavy(g, &take);
	op(g, 0xe9);
	g_land(g, g_later(g), c->back);
}

/* At the start of the program at the exit. */
void g_pair_leave(struct gen *g)
{
	struct cold *c;
	size_t found[2], none = 0, wrong;

	put_time(g);
	g_store_word(g, RAX, word(g, PAIR_LEFT));
	put_home(g);
	put_search(g, found);
	op(g, 0xe9);
	if (g->p->choosy)
		g_to_out(g);
	else
		none = g_later(g);
	g_land(g, found[0], g->code.n);
	g_land(g, found[1], g->code.n);
	op(g, 0x48, 0x8b);				/* mov  time(%rcx),%rdx */
	g_mem(g, RDX, RCX, SLOT_TIME);
	g_store_word(g, RDX, word(g, PAIR_ENTERED));
	op(g, 0x48, 0x31, 0xd0);			/* xor  %rdx,%rax */
	if (g->entry_bits) {
		op(g, 0x48, 0x8b);			/* mov  faults(%rcx),%rdx */
		g_mem(g, RDX, RCX, SLOT_FAULTS);
		g_store_word(g, RDX, word(g, PAIR_FAULTS));
		op(g, 0x48, 0x31, 0xd0);
	} else {
		op(g, 0x48, 0x33);			/* xor  faults(%rcx),%rax */
		g_mem(g, RAX, RCX, SLOT_FAULTS);
	}
	for (uint32_t k = 0; k < g->p->nsaved; k++) {
		op(g, 0x48, 0x8b);			/* mov  saved(%rcx),%rdx */
		g_mem(g, RDX, RCX, SLOT_SAVED + 8 * k);
		g_store_word(g, RDX, g_pair_word(g, k));
		op(g, 0x48, 0x31, 0xd0);
	}
	op(g, 0x48, 0x3b);				/* cmp  check(%rcx),%rax */
	g_mem(g, RAX, RCX, SLOT_CHECK(g->p->nsaved));
	op(g, 0x0f, 0x85);				/* jne  unpaired */
	wrong = g_later(g);
	op(g, 0x48, 0x83, 0x21, 0xfe);			/* andq $-2,(%rcx) */
	c = g_cold(g, put_unpaired);
	c->from[0] = wrong;
	c->from[1] = none;
	if (!g->entry_bits)
		return;
	op(g, 0x48, 0x83);				/* cmpq $0,faults(%rsp) */
	g_rsp(g, 7, word(g, PAIR_FAULTS));
	op(g, 0, 0x0f, 0x85);				/* jne */
	c = g_cold(g, put_exit_faults);
	c->from[0] = g_later(g);
	c->back = g->code.n;
}

/* rax = ns since the entry */
void g_pair_duration(struct gen *g)
{
	g_load_word(g, RAX, word(g, PAIR_LEFT));
	op(g, 0x48, 0x2b);				/* sub  entered(%rsp),%rax */
	g_rsp(g, RAX, word(g, PAIR_ENTERED));
	g_ns(g);
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
