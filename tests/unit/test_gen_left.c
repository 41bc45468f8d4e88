/* SPDX-License-Identifier: MIT */
/*
 * Calls whose frames go away: those between here and there are ended, each once, the innermost first; and no other, whatever
 * stack they are on and whoever writes in the tables meanwhile.
 */
#include "gen_world.h"

#include <pthread.h>

#define PAGE 4096ull
#define RCX 1
#define LEAVER_AT 8192		/* in the code; entries come before it, the landing behind it */
#define LANDING_AT 16384
#define LEAVERS 3

struct ended { uint64_t value, sp, left, time; };
static struct ended ended[64];
static uint32_t nended;
static uint64_t leavers[LEAVERS + 1];	/* the last one is not theirs */
static struct leave_desc desc;

struct left_world { struct world *w; struct ir_prog *left; struct gen_env env; };

/* By their time: they may be in the rings of several CPUs. */
static void note_ended(int ring, const struct event_head *e, const uint64_t *fields)
{
	uint32_t at = nended++;

	assert_true(at < ARRAY_SIZE(ended));
	for (; at && ended[at - 1].time > e->time; at--)
		ended[at] = ended[at - 1];
	ended[at] = (struct ended){ fields[0], fields[1], fields[2], e->time };
}

static void put_code(struct left_world *c, struct gen_landing *l)
{
	uint8_t *rw = code_rw + BODY_OFF;
	int n = gen_emit(&c->w->u, c->left, &c->env, &gen_at, (uint64_t)code_rx + BODY_OFF + LEAVER_AT, rw + LEAVER_AT);

	assert_true(n > 0 && n <= gen_measure(&c->w->u, c->left));
	gen_leaver_end(NULL, rw + LEAVER_AT + n);
	n = gen_landing(l, rw + LANDING_AT);
	assert_true(n > 0 && n <= GEN_LANDING_MAX);
	memcpy(rw + LANDING_AT + n, machine_back(), MACHINE_BACK);
}

/* An entry saves rdi; a call that is left is an event of that, its stack pointer and how it was left. */
static struct left_world left_begin(uint8_t how)
{
	struct left_world c = { .w = world_new(), .env = gen_make_env(true, NULL) };
	struct gen_landing l = { .how = how, .blob = (uint64_t)gen_blob(), .desc = (uint64_t)&desc, .slow = (uint64_t)code_rx };
	static const struct { uint8_t op; int64_t imm; } ins[] = { { IR_SAVED, 0 }, { IR_REG, 4 }, { IR_CTX, IR_CTX_LEFT } };
	uint32_t rdi = reg_of(c.w, RDI), record = gen_record(&c.w->u, 3, UINT32_MAX, false), regs[3];
	struct ir_ins *i = gen_ins(c.w->p, IR_SAVE);

	c.left = ir_prog_new(&c.w->u, IR_WHERE_EXIT, 0);
	c.left->is_left = true;
	c.w->p->where = IR_WHERE_ENTRY;
	c.w->p->nsaved = c.left->nsaved = 1;
	i->a = rdi;
	gen_ins(c.w->p, IR_RET);
	for (int k = 0; k < 3; k++) {
		regs[k] = gen_reg(c.left, IR_I);
		i = gen_ins(c.left, ins[k].op);
		i->imm = ins[k].imm;
		i->dst = regs[k];
	}
	i = gen_ins(c.left, IR_EMIT);
	i->record = record;
	for (int k = 0; k < 3; k++)
		gen_arg(c.left, i, IR_U64, regs[k], 0);
	gen_ins(c.left, IR_RET);
	memset(gen_unpaired, 0, sizeof(gen_unpaired));
	memset(gen_pairs, 0, sizeof(gen_pairs));
	put_code(&c, &l);
	for (int k = 0; k <= LEAVERS; k++)
		leavers[k] = (uint64_t)code_rx + BODY_OFF + LEAVER_AT;
	desc = (struct leave_desc){
		.pairs = c.env.pairs, .marks = GEN_PAIRS_TABLES(GEN_PAIR_BITS), .maps = c.env.pairs + 2 * GEN_PAIRS_TABLES(GEN_PAIR_BITS),
		.sums = c.env.pairs + GEN_PAIRS_SUMS(GEN_PAIR_BITS), .map_words = GEN_PAIRS_MAP_WORDS(GEN_PAIR_BITS),
		.nleavers = LEAVERS, .leavers = (uint64_t)leavers, .may_call = 1, .has_thread_insn = c.env.has_thread_insn,
	};
	gen_at.leaver = 2;
	return c;
}

static void left_end(struct left_world *c)
{
	gen_at.leaver = 0;
	ir_unit_free(&c->w->u);
	free(c->w);
}

static void enter_at(struct left_world *c, uint64_t sp, uint64_t value)
{
	assert_true(gen_place(&c->w->u, c->w->p, &c->env, 0) > 0);
	machine_fill(random_word() & 127, sp);
	machine_in.gpr[RDI] = value;
	machine_run();
}

static uint64_t sp_at(uint64_t below)
{
	return (uint64_t)gen_stack + GEN_STACK - GEN_KEPT - below;
}

/* Frames go away at sp; reg is what the landing hands over. Everything stays as it was. */
static void land(uint64_t sp, int reg, uint64_t value)
{
	uint64_t low = sp - LEAVE_STACK - 600 - (uint64_t)gen_stack;	/* code of the leaver has its own need, which it asks for */

	machine_fill(random_word() & 127, sp);
	machine_in.gpr[reg] = value;
	machine_body = (uint64_t)code_rx + BODY_OFF + LANDING_AT;
	memcpy(gen_before, gen_stack, sizeof(gen_stack));
	nended = 0;
	machine_run();
	drain(note_ended);
	if (sp - (uint64_t)gen_stack >= GEN_STACK)
		return;
	machine_check(gen_stack, gen_before, GEN_STACK);
	assert_memory_equal(gen_stack, gen_before, low);
}

static void expect(uint32_t n, uint64_t value, uint64_t sp, uint64_t left)
{
	assert_true(n < nended);
	assert_int_equal(ended[n].value, value);
	assert_int_equal(ended[n].sp, sp);
	assert_int_equal(ended[n].left, left);
}

static void calls_between_are_ended(void **state)
{
	struct left_world c = left_begin(LEAVE_RETURN);
	int whole = 0;

	for (int round = 0; round < 400; round++) {
		uint64_t at[12], from = 16 * (random_word() % 2400), to = from + 16 + 8 * (random_word() % 1200);
		uint32_t n = 1 + random_word() % 12, want = 0;

		for (uint32_t k = 0; k < n; k++) {	/* from the outermost on */
			at[k] = (k ? at[k - 1] : 0) + 8 + 8 * (random_word() % 300);
			enter_at(&c, sp_at(at[k]), 1000 + k);
		}
		if (gen_unpaired[64]) {		/* they were too many for their places, which is known */
			gen_unpaired[64] = 0;
			land(sp_at(40000), RCX, sp_at(0));
			assert_true(nended < n);
			continue;
		}
		whole++;
		land(sp_at(to), RCX, sp_at(from) - 8);	/* the new stack pointer is at `from` */
		for (uint32_t k = n; k-- > 0;)
			if (at[k] > from && at[k] <= to)
				expect(want++, 1000 + k, sp_at(at[k]), LEFT_THROWN);
		assert_int_equal(nended, want);
		land(sp_at(to), RCX, sp_at(from) - 8);
		assert_int_equal(nended, 0);
		land(sp_at(40000), RCX, sp_at(0));
		assert_int_equal(nended, n - want);
	}
	assert_true(whole > 200);
	assert_int_equal(gen_unpaired[0], 0);	/* nobody was sent to one that is over */
	left_end(&c);
}

static void marks_belong_to_their_keys(void **state)
{
	struct left_world c = left_begin(LEAVE_RETURN);
	struct pair_mark *m = NULL;

	enter_at(&c, sp_at(64), 7);
	for (size_t i = 0; i < GEN_PAIRS_TABLES(GEN_PAIR_BITS); i += GEN_PAIR_SIZE)
		if (*(uint64_t *)(gen_pairs + i))
			m = (struct pair_mark *)(gen_pairs + i + desc.marks);
	assert_non_null(m);
	assert_int_equal(m->sp, sp_at(64));
	assert_int_equal(m->leaver, 1);
	m->key ^= 1;			/* another thread is about to write it */
	land(sp_at(200), RCX, sp_at(0));
	assert_int_equal(nended, 0);
	m->key ^= 1;
	m->leaver = LEAVERS;		/* there is no such code */
	land(sp_at(200), RCX, sp_at(0));
	assert_int_equal(nended, 0);
	m->leaver = 0;
	leavers[0] = 0;			/* it is not there yet */
	land(sp_at(200), RCX, sp_at(0));
	assert_int_equal(nended, 0);
	m->leaver = 1;
	land(sp_at(200), RCX, sp_at(0));
	assert_int_equal(nended, 1);
	left_end(&c);
}

static void what_was_left_unseen_is_counted(void **state)
{
	struct left_world c = left_begin(LEAVE_RETURN);

	for (uint64_t k = 0; k < 5; k++) {
		enter_at(&c, sp_at(64), 7 + k);
		assert_int_equal(gen_unpaired[65], k);
	}
	land(sp_at(200), RCX, sp_at(0));
	assert_int_equal(nended, 1);
	expect(0, 11, sp_at(64), LEFT_THROWN);
	enter_at(&c, sp_at(64), 1);
	assert_int_equal(gen_unpaired[65], 4);
	left_end(&c);
}

static uint8_t *pages(int n)
{
	return map_or_die(n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* From the stack of a handler to another one: what is between is somebody's else. */
static void stacks_have_ends(void **state)
{
	struct left_world c = left_begin(LEAVE_RETURN);
	uint8_t *area = pages(8);
	uint64_t sp = (uint64_t)area + PAGE + 2048, call = (uint64_t)area + 5 * PAGE, to = (uint64_t)area + 6 * PAGE;

	enter_at(&c, call, 7);
	mprotect(area + 3 * PAGE, PAGE, PROT_NONE);
	land(sp, RCX, to);
	assert_int_equal(nended, 0);
	mprotect(area + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE);
	desc.may_call = 0;		/* there is nobody to ask */
	land(sp, RCX, to);
	assert_int_equal(nended, 0);
	desc.may_call = 1;
	land(to + 64, RCX, to);		/* the other way */
	assert_int_equal(nended, 0);
	land(sp, RCX, to);
	assert_int_equal(nended, 1);
	expect(0, 7, call, LEFT_THROWN);
	munmap(area, 8 * PAGE);
	left_end(&c);
}

static uint64_t mangled(uint64_t sp)
{
	uint64_t secret;

	__asm__("mov %%fs:0x30,%0" : "=r"(secret));
	sp ^= secret;
	return sp << 17 | sp >> 47;
}

/* The stack of the first thread, by what the descriptor says of it. */
static void jumps_on_the_first_stack(void **state)
{
	struct left_world c = left_begin(LEAVE_JMP_BUF);
	uint64_t buf[8] = { 0 }, *elsewhere = (uint64_t *)pages(2);

	for (int plain = 0; plain < 2; plain++) {
		desc.stack_top = (uint64_t)gen_stack + GEN_STACK;
		buf[6] = plain ? sp_at(32) : mangled(sp_at(32));
		enter_at(&c, sp_at(24), 5);
		enter_at(&c, sp_at(64), 7);
		land(sp_at(200), RDI, (uint64_t)buf);
		assert_int_equal(nended, 1);
		expect(0, 7, sp_at(64), LEFT_LONGJMP);
		enter_at(&c, sp_at(64), 8);	/* from the stack of a handler */
		land((uint64_t)elsewhere + 2 * PAGE - 8, RDI, (uint64_t)buf);
		assert_int_equal(nended, 1);
		expect(0, 8, sp_at(64), LEFT_LONGJMP);
		enter_at(&c, sp_at(64), 9);	/* from below: nothing has ended there */
		land(sp_at(16), RDI, (uint64_t)buf);
		assert_int_equal(nended, 0);
		desc.stack_top = 0;		/* and what is no stack of a thread may be that of a coroutine */
		land(sp_at(200), RDI, (uint64_t)buf);
		assert_int_equal(nended, 0);
	}
	munmap(elsewhere, 2 * PAGE);
	left_end(&c);
}

/* The C library jumps when a thread has ended. */
static void ends_of_threads(void **state)
{
	struct left_world c = left_begin(LEAVE_JMP_BUF);
	uint64_t buf[8] = { [6] = sp_at(32) };

	desc.stack_top = (uint64_t)gen_stack + GEN_STACK;
	desc.end = 0x500000;
	desc.end_size = 0x1000;
	for (uint64_t from = 0x4fffff; from <= 0x501000; from += from == 0x4fffff ? 1 : 0xfff + (from != 0x500000)) {
		enter_at(&c, sp_at(64), from);
		*(uint64_t *)sp_at(200) = from;	/* the return address */
		land(sp_at(200), RDI, (uint64_t)buf);
		assert_int_equal(nended, 1);
		expect(0, from, sp_at(64), from - 0x500000 < 0x1000 ? LEFT_THROWN : LEFT_LONGJMP);
	}
	left_end(&c);
}

static struct left_world *thread_world;

static void *on_a_thread(void *arg)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0) & -PAGE, sp = here - 20 * PAGE, buf[8];
	struct left_world *c = thread_world;

	((volatile uint8_t *)sp)[0] = 0;
	buf[6] = mangled(sp);
	enter_at(c, sp - 64, 7);
	land(sp - 2 * PAGE, RDI, (uint64_t)buf);
	assert_int_equal(nended, 1);
	expect(0, 7, sp - 64, LEFT_LONGJMP);
	enter_at(c, sp - 64, 8);
	mprotect((void *)(sp + 2 * PAGE), PAGE, PROT_NONE);	/* as the end of the stack would be */
	land(sp - 2 * PAGE, RDI, (uint64_t)buf);
	mprotect((void *)(sp + 2 * PAGE), PAGE, PROT_READ | PROT_WRITE);
	assert_int_equal(nended, 0);
	return NULL;
}

static void jumps_on_the_stack_of_a_thread(void **state)
{
	struct left_world c = left_begin(LEAVE_JMP_BUF);
	pthread_t thread;

	thread_world = &c;
	pthread_create(&thread, NULL, on_a_thread, NULL);
	pthread_join(thread, NULL);
	left_end(&c);
}

static void llvm_has_the_stack_pointer_in_memory(void **state)
{
	struct left_world c = left_begin(LEAVE_LLVM);
	uint64_t regs[17] = { [7] = sp_at(32) };

	enter_at(&c, sp_at(24), 5);
	enter_at(&c, sp_at(40), 7);
	land(sp_at(200), RDI, (uint64_t)regs);
	assert_int_equal(nended, 1);
	expect(0, 7, sp_at(40), LEFT_THROWN);
	left_end(&c);
}

/* With any number of bytes of stack left, and nothing mapped below. */
static void landings_look_how_much_stack_is_left(void **state)
{
	struct left_world c = left_begin(LEAVE_RETURN);
	uint8_t *area = pages(4);
	uint64_t low = (uint64_t)area + PAGE;
	int done = 0;

	mprotect(area, PAGE, PROT_NONE);
	for (uint64_t left = STACK_UNASKED; left < LEAVE_STACK + 600; left += 8) {
		enter_at(&c, low + 3 * PAGE - 64, left);
		land(low + left, RCX, low + 3 * PAGE - 16);
		assert_true(nended <= 1 && (left >= LEAVE_STACK || !nended));
		done += nended;
		if (!nended)
			land(low + 2 * PAGE, RCX, low + 3 * PAGE - 16);
		assert_int_equal(nended, 1);
	}
	assert_true(done > 10);
	munmap(area, 4 * PAGE);
	left_end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(calls_between_are_ended),
		test(marks_belong_to_their_keys),
		test(what_was_left_unseen_is_counted),
		test(stacks_have_ends),
		test(jumps_on_the_first_stack),
		test(ends_of_threads),
		test(jumps_on_the_stack_of_a_thread),
		test(llvm_has_the_stack_pointer_in_memory),
		test(landings_look_how_much_stack_is_left),
	};

	return cmocka_run_group_tests_name("gen_left", tests, NULL, NULL);
}
