/* SPDX-License-Identifier: MIT */
/*
 * Plans that run. This program plans its own functions, maps the pads into itself, writes the
 * jumps and calls the functions: results must be those of before, and each instruction's counter
 * must show what single-stepping has shown. The functions are of the shapes that make planning
 * hard. Then the same with the patch put in and taken out in the middle of a run.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <link.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "pad/plan.h"

#include <cmocka.h>

#include "plan_functions.h"

#define NFUNC ARRAY_SIZE(functions)
#define ARGS 10
#define WANTS_MAX 2048

static struct module *m;
static struct code *code;
static uint64_t bias;
static gap_list gaps;
static long expected[NFUNC][ARGS];

/* Single steps: how often each byte's instruction ran, and how often a branch there was taken. */
static uint32_t *ran, *taken;
static uint8_t *lens;		/* of the instruction there */
static uint64_t text_lo, text_size;
static uint64_t last_pc, last_next;
static volatile uint64_t counters[WANTS_MAX];

/* Filled by plan_in(); the step handler may put it in or out. */
static struct text_patch patch;
static area_list areas;
static enum { STEP_COUNT, STEP_PUT_IN, STEP_TAKE_OUT } step_mode;
static int steps_left, steps_done;

static void write_edits(bool in)
{
	for (size_t i = 0; i < patch.edits.n; i++) {
		const struct edit *e = &patch.edits.v[i];
		volatile uint8_t *at = (void *)e->at.v;

		for (int k = 0; k < e->len; k++)
			at[k] = in ? e->new[k] : e->old[k];
	}
}

static void count_step(uint64_t pc)
{
	uint64_t at = pc - text_lo;

	if (last_pc && pc != last_next)
		taken[last_pc - text_lo]++;
	last_pc = 0;
	if (at >= text_size)
		return;
	ran[at]++;
	if (!memcmp((void *)pc, "\x0f\x05", 2))
		ran[at + 2]++;	/* the kernel does not report the step behind a syscall */
	last_pc = lens[at] ? pc : 0;
	last_next = pc + lens[at];
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	greg_t *pc = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	const struct move *v = step_mode == STEP_PUT_IN ? patch.moves_in.v : patch.moves_out.v;
	size_t n = step_mode == STEP_PUT_IN ? patch.moves_in.n : patch.moves_out.n;

	(void)sig;
	(void)info;
	if (step_mode == STEP_COUNT) {
		count_step(*pc);
		return;
	}
	for (size_t i = 0; i < n && !steps_done; i++)
		if (v[i].from.v == (uint64_t)*pc && steps_left-- == 0) {
			*pc = v[i].to.v;
			write_edits(step_mode == STEP_PUT_IN);
			steps_done = 1;
		}
}

static long stepped(function f, long arg)
{
	long r;

	last_pc = 0;
	__asm__ volatile("sub $128,%%rsp; pushfq; orq $0x100,(%%rsp); popfq; call *%1; pushfq;"
			 "andq $~0x100,(%%rsp); popfq; add $128,%%rsp"
			 : "=a"(r), "+r"(f), "+D"(arg)
			 :: "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1");
	return r;
}

static int add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	bias = info->dlpi_addr;
	return 1;		/* the first one is the program */
}

static void read_gaps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi, last = 1 << 20;
	char line[512];

	gaps.n = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &lo, &hi) != 2 || lo >> 47)
			continue;
		if (lo > last + (1 << 20))
			*vec_add(&gaps) = (struct gap){ last + (1 << 19), lo - (1 << 19) };
		last = strstr(line, "[heap]") ? hi + (64 << 20) : hi;
	}
	fclose(f);
}

static int setup(void **state)
{
	struct sigaction sa = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	(void)state;
	dl_iterate_phdr(add_module, NULL);
	assert_int_equal(module_open("", "/proc/self/exe", &m), 0);
	assert_int_equal(code_open(m, &code), 0);
	sigaction(SIGTRAP, &sa, NULL);
	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];
		uint64_t lo = (s->addr + bias) & -4096ull;

		if (!(s->prot & PROT_EXEC) || (uint64_t)x_leaf - bias - s->addr >= s->memsz)
			continue;
		text_lo = s->addr + bias;
		text_size = s->memsz;
		assert_int_equal(mprotect((void *)lo, s->addr + bias + s->memsz - lo,
					  PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	}
	assert_true(text_size);
	ran = xcalloc(text_size, sizeof(*ran));
	taken = xcalloc(text_size, sizeof(*taken));
	lens = xcalloc(text_size, 1);
	for (size_t f = 0; f < NFUNC; f++)
		for (long a = 0; a < ARGS; a++)
			expected[f][a] = functions[f].f(a);
	read_gaps();
	return 0;
}

static void run_stepped(void)
{
	memset(ran, 0, text_size * sizeof(*ran));
	step_mode = STEP_COUNT;
	for (size_t f = 0; f < NFUNC; f++)
		for (long a = 0; a < ARGS; a++)
			assert_int_equal(stepped(functions[f].f, a), expected[f][a]);
}

/* Counts its id; keeps everything else. */
static const uint8_t body_head[] = {
	0x48, 0x8d, 0x64, 0x24, 0x80,			/* lea -128(%rsp),%rsp */
	0x9c, 0x50, 0x48, 0xb8,				/* pushf; push %rax; movabs $..,%rax */
};
static const uint8_t body_tail[] = {
	0xf0, 0x48, 0xff, 0x00, 0x58, 0x9d,		/* lock incq (%rax); pop %rax; popf */
	0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0,		/* lea 128(%rsp),%rsp */
};
#define BODY (sizeof(body_head) + 8 + sizeof(body_tail))

static void put_body(void *arg, const struct want *w, uint64_t at, uint8_t *out)
{
	uint32_t id = w->id;
	const volatile uint64_t *counter = &counters[id];

	(void)arg;
	(void)at;
	memcpy(out, body_head, sizeof(body_head));
	memcpy(out + sizeof(body_head), &counter, 8);
	memcpy(out + sizeof(body_head) + 8, body_tail, sizeof(body_tail));
}

static uint8_t *identity(void *arg, uint64_t at)
{
	(void)arg;
	return (uint8_t *)at;
}

static int want_order(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return (x->at.v > y->at.v) - (x->at.v < y->at.v);
}

static void check_edits(void)
{
	qsort(patch.edits.v, patch.edits.n, sizeof(*patch.edits.v), want_order);
	for (size_t i = 0; i < patch.edits.n; i++) {
		const struct edit *e = &patch.edits.v[i];

		assert_memory_equal((void *)e->at.v, e->old, e->len);
		if (i)
			assert_true(e[-1].at.v + e[-1].len <= e->at.v);
	}
}

static uint32_t avoid;

/* Plan, map and write the pads. The text is not touched yet. */
static int plan_in(struct want *wants, size_t n)
{
	struct plan_output out = { NULL, put_body, identity };
	struct room *room = room_create(gaps.v, gaps.n);
	struct plan *p;
	int missed;

	assert_true(n <= WANTS_MAX);
	for (size_t i = 0; i < n; i++)
		wants[i].id = i;
	assert_int_equal(plan_create(code, room, bias, BODY, &p), 0);
	plan_avoid(p, avoid);
	missed = plan_solve(p, wants, n);
	room_areas(room, &areas);
	for (size_t i = 0; i < areas.n; i++) {
		size_t len = areas.v[i].hi - areas.v[i].lo;
		void *at = mmap((void *)areas.v[i].lo, len, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		assert_ptr_equal(at, areas.v[i].lo);
		memset(at, 0xcc, len);
	}
	assert_int_equal(plan_emit(p, &out, &patch), 0);
	check_edits();
	memset((void *)counters, 0, sizeof(counters));
	for (size_t i = 0; i < n; i++)	/* the plan's own sentences go with it */
		wants[i].reason = NULL;
	plan_free(p);
	room_free(room);
	return missed;
}

static void unplan(void)
{
	for (size_t i = 0; i < areas.n; i++)
		munmap((void *)areas.v[i].lo, areas.v[i].hi - areas.v[i].lo);
	areas.n = 0;
	patch.edits.n = patch.moves_in.n = patch.moves_out.n = 0;
}

static void run_patched(const char *how)
{
	write_edits(true);
	for (size_t f = 0; f < NFUNC; f++)
		for (long a = 0; a < ARGS; a++) {
			long r = functions[f].f(a);

			if (r == expected[f][a])
				continue;
			write_edits(false);
			fail_msg("%s: %s(%ld) = %ld, not %ld", how, functions[f].name, a, r, expected[f][a]);
		}
	write_edits(false);
}

static const char *where(uint64_t addr)
{
	static char text[100];
	const struct func *f = module_func_at(m, addr);

	snprintf(text, sizeof(text), "%s+%llu", f && f->name ? f->name : "?",
		 (unsigned long long)(f ? addr - f->addr : addr));
	return text;
}

static unsigned int seen[TACTIC_TRAP + 1];

static void check_counts(const struct want *wants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct want *w = &wants[i];
		uint64_t at = w->addr + bias - text_lo;
		uint64_t want = w->kind == WANT_EXIT && w->exit_kind == EXIT_JCC ? taken[at] : ran[at];

		if (w->tactic != TACTIC_NONE && counters[i] != want)
			fail_msg("%s (%s): counted %llu, ran %llu", where(w->addr), tactic_name(w->tactic),
				 (unsigned long long)counters[i], (unsigned long long)want);
		seen[w->tactic]++;
	}
}

typedef VEC(struct want) want_list;

static const struct fcode *fcode_of(size_t f)
{
	const struct fcode *fc = code_func(code, (uint64_t)functions[f].f - bias);

	assert_non_null(fc);
	assert_false(fc->broken);
	return fc;
}

static void insns_of(size_t f, want_list *wants)
{
	const struct fcode *fc = fcode_of(f);
	uint64_t at = fc->lo;

	for (size_t i = 0; i < fc->insns.n && at < fc->end; at += fc->insns.v[i++].len)
		*vec_add(wants) = (struct want){ .addr = at, .kind = WANT_INSN };
}

static void exits_of(size_t f, want_list *wants)
{
	const struct fcode *fc = fcode_of(f);

	for (size_t i = 0; i < fc->exits.n; i++)
		*vec_add(wants) = (struct want){ .addr = fc->exits.v[i].addr, .kind = WANT_EXIT,
						 .exit_kind = fc->exits.v[i].kind };
}

/* A jcc's taken way is seen by what comes next: the stepper must know where falling through goes. */
static void learn_lengths(void)
{
	for (size_t f = 0; f < NFUNC; f++) {
		const struct fcode *fc = fcode_of(f);
		uint64_t at = fc->lo + bias - text_lo;

		for (size_t i = 0; i < fc->insns.n; at += fc->insns.v[i++].len)
			lens[at] = fc->insns.v[i].len;
	}
}

static void round_trip(want_list *wants, const char *how, int *missed)
{
	*missed += plan_in(wants->v, wants->n);
	run_patched(how);
	check_counts(wants->v, wants->n);
	unplan();
	wants->n = 0;
}

static void every_instruction_at_once(void **state)
{
	want_list wants = { 0 };
	int missed = 0;

	(void)state;
	for (size_t f = 0; f < NFUNC; f++)
		insns_of(f, &wants);
	assert_true(wants.n > 250);
	round_trip(&wants, "all instructions", &missed);
	printf("all instructions at once: %d missed\n", missed);
	assert_true(missed <= 12);
	vec_free(&wants);
}

static void every_function_by_itself(void **state)
{
	want_list wants = { 0 };
	int missed = 0;

	(void)state;
	for (size_t f = 0; f < NFUNC; f++) {
		insns_of(f, &wants);
		round_trip(&wants, functions[f].name, &missed);
	}
	printf("each function's instructions: %d missed\n", missed);
	assert_true(missed <= 12);
	vec_free(&wants);
}

static void every_instruction_alone(void **state)
{
	want_list all = { 0 }, one = { 0 };
	int missed = 0;

	(void)state;
	for (size_t f = 0; f < NFUNC; f++)
		insns_of(f, &all);
	for (size_t i = 0; i < all.n; i++) {
		*vec_add(&one) = all.v[i];
		round_trip(&one, where(all.v[i].addr), &missed);
	}
	printf("%zu instructions alone: %d missed\n", all.n, missed);
	assert_true(missed <= 2);
	vec_free(&all);
	vec_free(&one);
}

static void random_sets(void **state)
{
	static const uint32_t masks[] = {
		0, 1 << TACTIC_HOP, 1 << TACTIC_HOP | 1 << TACTIC_EVICT, 1 << TACTIC_JUMP, 1 << TACTIC_BACK,
		1 << TACTIC_HOP | 1 << TACTIC_EVICT | 1 << TACTIC_PUN,
		1 << TACTIC_JUMP | 1 << TACTIC_BACK | 1 << TACTIC_HOP | 1 << TACTIC_PUN,
		1 << TACTIC_JUMP | 1 << TACTIC_BACK | 1 << TACTIC_HOP | 1 << TACTIC_EVICT,
		1 << TACTIC_JUMP | 1 << TACTIC_HOP | 1 << TACTIC_EVICT | 1 << TACTIC_PUN,
	};
	want_list all = { 0 }, some = { 0 };
	unsigned int seed = 7;
	int missed = 0;

	(void)state;
	for (size_t f = 0; f < NFUNC; f++) {
		insns_of(f, &all);
		exits_of(f, &all);
	}
	for (int round = 0; round < 400; round++) {
		unsigned int odds = 2 + round % 13;

		avoid = masks[round % ARRAY_SIZE(masks)];
		for (size_t i = 0; i < all.n; i++)
			if ((seed = seed * 1103515245 + 12345) >> 16 & 0xff && (seed >> 16) % odds == 0)
				*vec_add(&some) = all.v[i];
		round_trip(&some, "random set", &missed);
	}
	avoid = 0;
	vec_free(&all);
	vec_free(&some);
	for (int t = TACTIC_NONE; t < TACTIC_TRAP; t++)
		printf("%s %u%s", tactic_name(t), seen[t], t + 1 < TACTIC_TRAP ? ", " : "\n");
	for (int t = TACTIC_NOP; t < TACTIC_TRAP; t++)
		assert_true(seen[t]);
}

static void entries_and_exits(void **state)
{
	want_list wants = { 0 };
	int missed = 0;

	(void)state;
	for (size_t f = 0; f < NFUNC; f++) {
		exits_of(f, &wants);
		/* An entry's loops are the function's own business: x_endbr counts behind its mark. */
		if (functions[f].f != x_endbr)
			*vec_add(&wants) = (struct want){ .addr = (uint64_t)functions[f].f - bias,
							  .kind = WANT_ENTRY };
	}
	round_trip(&wants, "entries and exits", &missed);
	assert_int_equal(missed, 0);
	vec_free(&wants);
}

/* A thread that stands in a window when the jumps come, or in a pad when they go. */
static void moved_in_the_middle(void **state)
{
	want_list wants = { 0 };
	int moves = 0;

	(void)state;
	for (size_t f = 0; f < NFUNC; f++)
		insns_of(f, &wants);
	plan_in(wants.v, wants.n);
	for (int out = 0; out < 2; out++)
		for (size_t f = 0; f < NFUNC; f++)
			for (int k = 0; k < 40; k++) {
				long a = k % ARGS, r;

				if (out)
					write_edits(true);
				steps_left = k;
				steps_done = 0;
				step_mode = out ? STEP_TAKE_OUT : STEP_PUT_IN;
				r = stepped(functions[f].f, a);
				moves += steps_done;
				write_edits(false);
				if (r != expected[f][a])
					fail_msg("%s(%ld) moved %s at %d: %ld, not %ld", functions[f].name, a,
						 out ? "out" : "in", k, r, expected[f][a]);
			}
	printf("%d moves\n", moves);
	assert_true(moves > 200);
	unplan();
	vec_free(&wants);
}

static void steps(void **state)
{
	(void)state;
	learn_lengths();
	run_stepped();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps),
		cmocka_unit_test(every_instruction_alone),
		cmocka_unit_test(every_function_by_itself),
		cmocka_unit_test(every_instruction_at_once),
		cmocka_unit_test(entries_and_exits),
		cmocka_unit_test(random_sets),
		cmocka_unit_test(moved_in_the_middle),
	};

	return cmocka_run_group_tests_name("plan, running", tests, setup, NULL);
}
