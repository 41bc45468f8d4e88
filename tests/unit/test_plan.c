/* SPDX-License-Identifier: MIT */
/*
 * Which tactic a place gets, as a table. A program is written as bytes: "|" begins the next
 * function, "/" ends one (what follows up to the next "|" is filler). It stands at 0x400000, and the
 * address space around it is free unless the row says otherwise.
 */
#include "plan_program.h"

#define AVOID_EVICT (1 << TACTIC_EVICT)
#define AVOID_PUN (1 << TACTIC_PUN)

static const struct gap everywhere[] = { { 0x10000, 0x300000 }, { 0x500000, 0x90000000 } };
static const struct gap nowhere[] = { { 1ull << 40, 1ull << 41 } };

struct row {
	const char *what, *bytes;
	uint32_t at;
	uint8_t kind;
	uint8_t exit_kind;
	uint8_t tactic;
	const char *reason;	/* part of it; NULL: any */
	uint32_t neighbour;	/* offset + 1; 0: none */
	uint32_t avoid;
	bool no_room;
	uint32_t bias;		/* moves the page borders */
	uint32_t foreign;	/* offset + 1 of a byte that somebody else has changed; 0: none */
};

#define ENTRY .kind = WANT_ENTRY
#define INSN .kind = WANT_INSN
#define EXIT .kind = WANT_EXIT

static const struct row rows[] = {
	{ "a nop of five bytes",		"0f1f440000 c3", 0, ENTRY, .tactic = TACTIC_NOP },
	{ "several nops",			"90 6690 0f1f00 c3", 0, ENTRY, .tactic = TACTIC_NOP },
	{ "push; mov; sub",			"55 4889e5 4883ec10 c9 c3", 0, ENTRY, .tactic = TACTIC_JUMP },
	{ "behind an endbr64",			"f30f1efa 55 4889e5 4883ec10 c9 c3", 0, ENTRY, .tactic = TACTIC_JUMP },
	{ "jmp rel32",				"e900000000 | 31c0 c3", 0, EXIT, EXIT_JMP, .tactic = TACTIC_JUMP },
	{ "a short function with filler",	"31c0 c3 / cccccc | 55 c3", 0, ENTRY, .tactic = TACTIC_SLACK },
	{ "a lone ret with filler",		"c3 / 6690 0f1f00 | 55 c3", 0, EXIT, .tactic = TACTIC_SLACK },
	{ "a ret behind four bytes",		"488d4701 c3 | 55 c3", 4, EXIT, .tactic = TACTIC_BACK },
	{ "a ret that is a target: its line is too short to go back",
						"85ff 7404 488d4701 c3 | b801000000 c3", 8, EXIT,
						.tactic = TACTIC_EVICT, .neighbour = 10,
						.reason = "the function ends after 1 byte" },
	{ "a direct call",			"e801000000 c3 c3", 0, INSN, .tactic = TACTIC_RETARGET },
	{ "a call through a slot",		"ff1500000000 c3", 0, INSN, .tactic = TACTIC_RETARGET },
	{ "a conditional tail jump",		"85ff 0f8402000000 31c0 | c3", 2, EXIT, EXIT_JCC, .tactic = TACTIC_RETARGET },
	{ "a jump into the third instruction",	"85c0 31ff ffcf 75fc c3 / cccccccccccccc", 0, INSN, .tactic = TACTIC_HOP,
						.reason = "branch target 4 bytes into it (branch)" },
	{ "two bytes before a loop's head hop", "31c0 ffc0 83f80a 75f9 c3 / cccccccccc | 90 c3", 0, ENTRY,
						.tactic = TACTIC_HOP, .reason = "branch target 2 bytes into it (branch)" },
	{ "the same without filler evicts",	"31c0 ffc0 83f80a 75f9 c3", 0, ENTRY, .tactic = TACTIC_EVICT,
						.reason = "branch target 2 bytes", .neighbour = 3 },
	{ "or leans on the bytes as they are",	"31c0 83c040 83f80a 75f8 c3", 0, ENTRY, .tactic = TACTIC_PUN,
						.avoid = AVOID_EVICT },
	{ "or displaces ten bytes nearby",	"31c0 ffc0 83f80a 75f9 b801000000 ba02000000 c3", 0, ENTRY,
						.tactic = TACTIC_HOP_NEIGHBOUR, .neighbour = 3,
						.avoid = AVOID_EVICT | AVOID_PUN },
	{ "a call behind a push is not displaced",
						"53 e802000000 5b c3 | c3", 0, ENTRY, .tactic = TACTIC_EVICT,
						.reason = "a call 1 byte into it", .neighbour = 2 },
	{ "just before an indirect call",	"488b4708 4889c7 ffd0 c3", 7, INSN, .tactic = TACTIC_BACK },
	{ "just before a syscall",		"b827000000 0f05 c3", 5, INSN, .tactic = TACTIC_BACK },
	{ "just before anything, at the worst",	"b801000000 7402 31c0 | c3", 5, INSN, .tactic = TACTIC_BACK, .avoid = ~0u },
	{ "but not for the way that a branch takes",
						"b801000000 7402 31c0 | c3", 5, EXIT, EXIT_JCC, .tactic = TACTIC_NONE,
						.avoid = ~0u },
	{ "a syscall that is a target",		"4885ff 7405 b827000000 0f05 c3", 10, INSN, .tactic = TACTIC_NONE,
						.reason = "is a syscall" },
	{ "sigreturn",				"48c7c00f000000 0f05", 0, ENTRY, .tactic = TACTIC_NONE,
						.reason = "signal return" },
	{ "inside an instruction",		"55 4889e5 5d c3", 2, INSN, .tactic = TACTIC_NONE,
						.reason = "inside an instruction; try +1 or +4" },
	{ "behind the last function",		"55 c3 / cccc", 40, INSN, .tactic = TACTIC_NONE,
						.reason = "no function" },
	{ "no room for pads",			"55 4889e5 4883ec10 c9 c3", 0, ENTRY, .tactic = TACTIC_NONE,
						.no_room = true },
	{ "a jump across a page border hops",	"c3 / cccccccccccc | 55 4889e5 4883ec10 c9 c3", 7, ENTRY,
						.tactic = TACTIC_HOP, .reason = "two pages", .bias = 0xff7 },
	{ "unless there is no other way",	"c3 | 55 4889e5 4883ec10 c9 c3", 1, ENTRY, .tactic = TACTIC_JUMP,
						.avoid = AVOID_EVICT | AVOID_PUN, .bias = 0xffd },
	{ "a hop into another page is none",	"85c0 31ff ffcf 75fc c3 / cccccccccccccc", 0, INSN,
						.tactic = TACTIC_EVICT, .neighbour = 5, .bias = 0xff7 },
	{ "nor do bytes in two pages make a jump together",
						"31c0 83c040 83f80a 75f8 c3", 0, ENTRY, .tactic = TACTIC_PUN,
						.reason = "branch target 2 bytes", .bias = 0xffe },
	{ "a call across a border stays as it is",
						"b801000000 e801000000 c3 c3", 5, INSN, .tactic = TACTIC_BACK,
						.reason = "two pages", .bias = 0xff9 },
	{ "over a breakpoint",			"55 4889e5 4883ec10 c9 c3", 0, ENTRY, .tactic = TACTIC_NONE, .foreign = 1,
						.reason = "differs from its file" },
	{ "a breakpoint in the window",		"55 4889e5 4883ec10 c9 c3 / cccccccccc", 0, ENTRY, .tactic = TACTIC_NONE,
						.foreign = 2, .reason = "differs from its file" },
	{ "a breakpoint behind the window",	"55 4889e5 4883ec10 c9 c3", 0, ENTRY, .tactic = TACTIC_JUMP, .foreign = 9 },
	{ "filler with a breakpoint is no place to hop to",
						"85c0 31ff ffcf 75fc c3 / cccccccccccccc", 0, INSN, .tactic = TACTIC_EVICT,
						.neighbour = 5, .foreign = 13 },
	{ "nothing leans on a breakpoint",	"31c0 83c040 83f80a 75f8 c3", 0, ENTRY, .tactic = TACTIC_NONE,
						.avoid = AVOID_EVICT, .foreign = 3 },
	{ "a branch past a prefix",		"7501 f0480fc107 c3", 2, INSN, .tactic = TACTIC_PUN,
						.reason = "branch target 1 byte into it (branch)" },
	{ "an endbr64 in the window",		"55 f30f1efa 4889e5 5d c3", 0, ENTRY, .tactic = TACTIC_NONE,
						.reason = "an endbr64 in it" },
	{ "filler that is branched to",		"85ff 7401 c3 0f1f4000 31c0 c3", 4, EXIT, .tactic = TACTIC_BACK,
						.reason = "branch target 1 byte into it (branch)" },
	{ "another function branches into it",	"55 4889e5 4883ec10 c9 c3 | 31c0 ebf3", 0, ENTRY, .tactic = TACTIC_EVICT,
						.reason = "branch target 1 byte into it (branch)", .neighbour = 2 },
	{ "the last byte of the text",		"85ff 7401 90 c3", 5, EXIT, .tactic = TACTIC_NONE,
						.reason = "the function ends after 1 byte" },
};

static struct plan *plan_of(struct module *m, struct room *room, uint64_t bias, struct code **ret_code)
{
	struct plan *p;

	assert_int_equal(code_open(m, ret_code), 0);
	assert_int_equal(plan_create(*ret_code, room, bias, 40, &p), 0);
	return p;
}

static void check_row(const struct row *row)
{
	struct want w = { .addr = BASE + TEXT_OFF + row->at, .kind = row->kind, .exit_kind = row->exit_kind };
	struct room *room = row->no_room ? room_create(nowhere, 1) : room_create(everywhere, 2);
	struct program pr;
	struct module *m;
	struct code *code;
	struct plan *p;
	int missed;

	parse(row->bytes, &pr);
	m = make_module(&pr);
	p = plan_of(m, room, row->bias, &code);
	plan_avoid(p, row->avoid);
	if (row->foreign)
		plan_foreign(p, BASE + TEXT_OFF + row->foreign - 1, BASE + TEXT_OFF + row->foreign);
	missed = plan_solve(p, &w, 1);
	if (w.tactic != row->tactic)
		fail_msg("%s: %s (%s), not %s", row->what, tactic_name(w.tactic), w.reason ? w.reason : "",
			 tactic_name(row->tactic));
	assert_int_equal(missed, row->tactic == TACTIC_NONE);
	if (row->reason && (!w.reason || !strstr(w.reason, row->reason)))
		fail_msg("%s: \"%s\", not \"%s\"", row->what, w.reason ? w.reason : "", row->reason);
	if (w.tactic == TACTIC_NONE)
		assert_non_null(w.reason);
	if (w.neighbour != (row->neighbour ? BASE + TEXT_OFF + row->neighbour - 1 : 0))
		fail_msg("%s: neighbour at %+lld", row->what, (long long)(w.neighbour - BASE - TEXT_OFF));
	plan_free(p);
	room_free(room);
	code_close(code);
	module_close(m);
}

static void table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

/* Several wants at once: what each gets, and the edits that come out. */
struct fix { struct room *room; struct module *m; struct code *code; struct plan *p; uint8_t *view[64]; uint64_t at[64]; int n; };

static void fix_open(struct fix *x, const char *bytes)
{
	struct program pr;

	memset(x, 0, sizeof(*x));
	parse(bytes, &pr);
	x->m = make_module(&pr);
	x->room = room_create(everywhere, 2);
	x->p = plan_of(x->m, x->room, 0, &x->code);
}

static void fix_close(struct fix *x)
{
	for (int i = 0; i < x->n; i++)
		free(x->view[i]);
	plan_free(x->p);
	room_free(x->room);
	code_close(x->code);
	module_close(x->m);
}

static void body(void *arg, const struct want *w, uint64_t at, uint8_t *out)
{
	uint32_t id = w->id;
	(void)arg;
	(void)at;
	memset(out, 0x90, 40);
	out[0] = 0xb8;			/* mov $id,%eax marks it */
	memcpy(out + 1, &id, 4);
}

static uint8_t *view(void *arg, uint64_t at)
{
	struct fix *x = arg;

	assert_true(x->n < 64);
	x->at[x->n] = at;
	return x->view[x->n++] = xcalloc(1, 4096);
}

static void emit(struct fix *x, struct text_patch *patch)
{
	struct plan_output out = { x, body, view };

	memset(patch, 0, sizeof(*patch));
	assert_int_equal(plan_emit(x->p, &out, patch), 0);
}

static void patch_free(struct text_patch *patch)
{
	vec_free(&patch->edits);
	vec_free(&patch->moves_in);
	vec_free(&patch->moves_out);
}

static struct want at(uint32_t off, uint8_t kind, uint32_t id)
{
	return (struct want){ .addr = BASE + TEXT_OFF + off, .kind = kind, .id = id };
}

/*
 * The bytes behind the window lead to nearly 2 GB below the module, where there is room for a jump only. Room for the pad is above
 * the module: the module reaches both, but one does not reach the other.
 */
static void pads_are_in_reach_of_what_leads_there(void **state)
{
	const uint64_t bias = 1ull << 32, from = BASE + TEXT_OFF + bias, lo = from + 5 + (int64_t)(int32_t)0x80c08300, page = lo & -4096ull;
	const struct gap gaps[] = { { page, page + 4096 }, { from + (1 << 30), from + (1 << 30) + 65536 } };
	struct want w = at(0, WANT_ENTRY, 1);
	struct text_patch patch;
	struct program pr;
	struct fix x = { 0 };

	(void)state;
	parse("31c0 83c080 83f80a 75f8 c3", &pr);
	x.m = make_module(&pr);
	x.room = room_create(gaps, 2);
	assert_int_equal(room_alloc_at(x.room, lo - page, page, page + 1, 0, 1), page);
	assert_int_equal(room_alloc_at(x.room, page + 4096 - (lo + 16), lo + 16, lo + 17, 0, 1), lo + 16);
	x.p = plan_of(x.m, x.room, bias, &x.code);
	plan_avoid(x.p, AVOID_EVICT);
	plan_solve(x.p, &w, 1);
	emit(&x, &patch);
	patch_free(&patch);
	fix_close(&x);
}

static void sites_close_together_share(void **state)
{
	struct want w[] = { at(0, WANT_ENTRY, 1), at(1, WANT_INSN, 2), at(4, WANT_INSN, 3), at(0, WANT_INSN, 4) };
	struct text_patch patch;
	struct fix x;

	(void)state;
	fix_open(&x, "55 4889e5 4883ec10 c9 c3");
	assert_int_equal(plan_solve(x.p, w, 4), 0);
	assert_int_equal(w[0].tactic, TACTIC_JUMP);
	assert_int_equal(w[1].tactic, TACTIC_SHARED);
	assert_int_equal(w[2].tactic, TACTIC_SHARED);
	assert_int_equal(w[3].tactic, TACTIC_JUMP);
	emit(&x, &patch);
	assert_int_equal(patch.edits.n, 1);
	assert_int_equal(patch.edits.v[0].len, 5);
	assert_int_equal(patch.edits.v[0].new[0], 0xe9);
	/* bodies 1 and 4, push, body 2, mov, body 3, sub, leave (its own window came first), jump back */
	assert_int_equal(x.n, 1);
	assert_int_equal(x.view[0][1], 1);
	assert_int_equal(x.view[0][41], 4);
	assert_int_equal(x.view[0][80], 0x55);
	assert_int_equal(x.view[0][82], 2);
	assert_memory_equal(x.view[0] + 121, "\x48\x89\xe5", 3);
	assert_int_equal(x.view[0][125], 3);
	assert_memory_equal(x.view[0] + 164, "\x48\x83\xec\x10\xc9\xe9", 6);
	/* inner instructions lead to their bodies, copies lead back */
	assert_int_equal(patch.moves_in.n, 3);
	assert_int_equal(patch.moves_in.v[0].from.v, BASE + TEXT_OFF + 1);
	assert_int_equal(patch.moves_in.v[0].to.v, x.at[0] + 81);
	assert_int_equal(patch.moves_out.n, 6);	/* start, push, mov, sub, leave, the jump back */
	patch_free(&patch);
	fix_close(&x);
}

static void a_window_swallows_the_next(void **state)
{
	struct want w[] = { at(3, WANT_INSN, 1), at(0, WANT_ENTRY, 2) };
	struct text_patch patch;
	struct fix x;

	(void)state;
	fix_open(&x, "4889f8 4801f0 4883c001 c3");
	assert_int_equal(plan_solve(x.p, w, 2), 0);
	assert_int_equal(w[0].tactic, TACTIC_SHARED);
	assert_int_equal(w[1].tactic, TACTIC_JUMP);
	emit(&x, &patch);
	assert_int_equal(patch.edits.n, 1);
	assert_int_equal(patch.edits.v[0].at.v, BASE + TEXT_OFF);
	patch_free(&patch);
	fix_close(&x);
}

static void a_hop_has_two_edits(void **state)
{
	struct want w = at(0, WANT_ENTRY, 1);
	struct text_patch patch;
	struct fix x;

	(void)state;
	fix_open(&x, "31c0 ffc0 83f80a 75f9 c3 / cccccccccc | 90 c3");
	assert_int_equal(plan_solve(x.p, &w, 1), 0);
	assert_int_equal(w.tactic, TACTIC_HOP);
	emit(&x, &patch);
	assert_int_equal(patch.edits.n, 2);
	assert_int_equal(patch.edits.v[0].len, 2);
	assert_int_equal(patch.edits.v[0].new[0], 0xeb);
	assert_int_equal(patch.edits.v[0].new[1], 8);
	assert_int_equal(patch.edits.v[1].at.v, BASE + TEXT_OFF + 10);
	assert_int_equal(patch.edits.v[1].resume.v, BASE + TEXT_OFF);
	assert_int_equal(patch.edits.v[1].new[0], 0xe9);
	patch_free(&patch);
	fix_close(&x);
}

/* The jump of a short site and that of its neighbour are read as one run of bytes by the CPU. */
static void evicted_bytes_lead_to_the_pad(void **state)
{
	struct want w = at(0, WANT_ENTRY, 1);
	uint8_t text[16];
	struct text_patch patch;
	struct fix x;
	int32_t disp;

	(void)state;
	fix_open(&x, "53 e802000000 5b c3 | c3");
	assert_int_equal(plan_solve(x.p, &w, 1), 0);
	emit(&x, &patch);
	assert_int_equal(patch.edits.n, 2);
	memcpy(text, module_bytes(x.m, BASE + TEXT_OFF, 9), 9);
	for (size_t i = 0; i < patch.edits.n; i++)
		memcpy(text + (patch.edits.v[i].at.v - BASE - TEXT_OFF), patch.edits.v[i].new, patch.edits.v[i].len);
	assert_int_equal(text[0], 0xe9);
	assert_int_equal(text[1], 0xe8);	/* still a call: its return address is right */
	memcpy(&disp, text + 1, 4);
	assert_true(BASE + TEXT_OFF + 5 + disp == x.at[0] || BASE + TEXT_OFF + 5 + disp == x.at[1]);
	patch_free(&patch);
	fix_close(&x);
}

static void the_taken_way_of_a_branch(void **state)
{
	struct want w[] = { at(2, WANT_EXIT, 7), at(2, WANT_INSN, 9) };
	struct text_patch patch;
	struct fix x;

	(void)state;
	w[0].exit_kind = EXIT_JCC;
	fix_open(&x, "85ff 0f8402000000 31c0 | c3");
	assert_int_equal(plan_solve(x.p, w, 2), 0);
	emit(&x, &patch);
	/* body 9; je stub; jump back; stub: body 7; jump to the target */
	assert_int_equal(x.n, 1);
	assert_int_equal(x.view[0][1], 9);
	assert_memory_equal(x.view[0] + 40, "\x0f\x84\x05\0\0\0\xe9", 7);
	assert_int_equal(x.view[0][52], 7);
	assert_int_equal(x.view[0][91], 0xe9);
	patch_free(&patch);
	fix_close(&x);
}

static void a_reset_gives_the_room_back(void **state)
{
	area_list areas = { 0 };
	struct want w = at(0, WANT_ENTRY, 1);
	struct fix x;

	(void)state;
	fix_open(&x, "53 e802000000 5b c3 | c3");
	assert_int_equal(plan_solve(x.p, &w, 1), 0);
	room_areas(x.room, &areas);
	assert_true(areas.n);
	plan_reset(x.p);
	areas.n = 0;
	room_areas(x.room, &areas);
	assert_int_equal(areas.n, 0);
	vec_free(&areas);
	fix_close(&x);
}

/* In Go a goroutine may be parked at any instruction: none but the first of a window is overwritten. */
static void go_keeps_instructions_valid(void **state)
{
	struct want w[] = { at(0, WANT_ENTRY, 1), at(18, WANT_EXIT, 2) };
	struct text_patch patch;
	struct fix x;

	(void)state;
	/* 0: cmp 16(%r14),%rsp; 4: jbe 19; 6: push %rbp; mov %rsp,%rbp; 10: mov $1,%eax; pop %rbp; ret ... */
	fix_open(&x, "493b6610 760d 55 4889e5 b801000000 90 5d 90 c3 90 e8e5ffffff ebe5");
	x.m->runtime = &runtime_go;
	assert_int_equal(plan_solve(x.p, w, 2), 0);
	emit(&x, &patch);
	for (size_t i = 0; i < patch.edits.n; i++) {
		uint64_t off = patch.edits.v[i].at.v - BASE - TEXT_OFF;
		uint64_t end = off + patch.edits.v[i].len;
		static const uint8_t starts[] = { 0, 4, 6, 7, 10, 15, 16, 17, 18, 19, 20, 25 };

		assert_true(off >= 6 || off + patch.edits.v[i].len <= 6);
		for (size_t k = 0; k < sizeof(starts); k++)
			assert_false(starts[k] > off && starts[k] < end);
	}
	patch_free(&patch);
	fix_close(&x);
}

/* Its tables have no instruction where the second jump of a hop would be. */
static void go_has_no_hops(void **state)
{
	static const struct { const char *bytes; uint8_t without_go; } cases[] = {
		{ "31c0 ffc0 83f80a 75f9 c3 / cccccccccc | 90 c3", TACTIC_HOP },
		{ "31c0 ffc0 83f80a 75f9 b801000000 ba02000000 c3", TACTIC_HOP_NEIGHBOUR },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct want w = at(0, WANT_ENTRY, 1);
		struct fix x;

		fix_open(&x, cases[i].bytes);
		plan_avoid(x.p, AVOID_EVICT | AVOID_PUN);
		plan_solve(x.p, &w, 1);
		assert_int_equal(w.tactic, cases[i].without_go);
		x.m->runtime = &runtime_go;
		plan_solve(x.p, &w, 1);
		assert_int_equal(w.tactic, TACTIC_NONE);
		fix_close(&x);
	}
}

/* A nil check that faults in a pad would end a Go program that recovers from it. */
static void go_faults_where_it_did(void **state)
{
	struct want w[] = { at(6, WANT_INSN, 1) }, first[] = { at(0, WANT_INSN, 1) };
	struct fix x;

	(void)state;
	/* push %rax; mov $1,%eax; mov 0x1234(%rbx),%rcx; pop %rax; ret */
	fix_open(&x, "50 b801000000 488b8b34120000 58 c3");
	assert_int_equal(plan_solve(x.p, w, 1), 0);
	assert_int_equal(w[0].tactic, TACTIC_JUMP);
	x.m->runtime = &runtime_go;
	assert_int_equal(plan_solve(x.p, w, 1), 0);
	assert_int_equal(w[0].tactic, TACTIC_BACK);
	assert_non_null(strstr(w[0].reason, "may fault"));
	fix_close(&x);

	/* without a frame Go finds the caller: mov 0x1234(%rbx),%rcx; ret */
	fix_open(&x, "488b8b34120000 c3");
	x.m->runtime = &runtime_go;
	assert_int_equal(plan_solve(x.p, first, 1), 0);
	assert_int_equal(first[0].tactic, TACTIC_JUMP);
	fix_close(&x);

	/* nothing but itself could be moved: mov 8(%rbx),%rcx; jmp back to it; pop %rax; ret */
	fix_open(&x, "488b4b08 ebfa 58 c3");
	x.m->runtime = &runtime_go;
	assert_int_equal(plan_solve(x.p, first, 1), 1);
	assert_string_equal(first[0].reason, "it may fault, and the program looks at where that happens");
	fix_close(&x);
}

/* What the CPU reads of a jump at e, of which some bytes may be those that were there before. */
static size_t jump_len(const struct edit *e)
{
	return e->new[0] == 0xe9 ? 5 : e->new[0] == 0x0f ? 6 : e->len;
}

static void apply(uint8_t *text, const struct text_patch *patch)
{
	for (size_t i = 0; i < patch->edits.n; i++)
		memcpy(text + (patch->edits.v[i].at.v - BASE - TEXT_OFF), patch->edits.v[i].new, patch->edits.v[i].len);
}

/* A second plan for the instruction at `off`, made when the jumps of the first are there. Returns whether it has a place. */
static bool plan_second(struct fix *x, const struct text_patch *first, const uint8_t *text, size_t len, uint32_t off)
{
	struct plan_output out = { x, body, view };
	struct want w = at(off, WANT_INSN, 3);
	struct text_patch patch = { 0 };
	uint8_t after[256];
	struct plan *p;
	int missed;

	assert_int_equal(plan_create(x->code, x->room, 0, 40, &p), 0);
	plan_beside(p, x->p);
	missed = plan_solve(p, &w, 1);
	assert_int_equal(plan_emit(p, &out, &patch), 0);
	memcpy(after, text, len);
	apply(after, &patch);
	for (size_t i = 0; i < first->edits.n; i++) {
		uint64_t from = first->edits.v[i].at.v - BASE - TEXT_OFF;

		for (size_t k = from; k < from + jump_len(&first->edits.v[i]) && k < len; k++)
			assert_int_equal(after[k], text[k]);
	}
	for (size_t i = 0; i < first->moves_in.n; i++)		/* what was moved to a pad is not moved again */
		for (size_t k = 0; k < patch.edits.n; k++)
			assert_true(patch.edits.v[k].at.v + patch.edits.v[k].len <= first->moves_in.v[i].from.v ||
				    patch.edits.v[k].at.v > first->moves_in.v[i].from.v);
	plan_free(p);
	patch_free(&patch);
	for (int i = 0; i < x->n; i++)
		free(x->view[i]);
	x->n = 0;
	return !missed;
}

/* Every way to place a jump, and then another one beside it. */
static void a_second_plan_keeps_away(void **state)
{
	unsigned int placed = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct want w = at(row->at, row->kind, 1);
		struct text_patch patch;
		uint8_t text[256];
		struct fix x;
		size_t len = 0;

		if (row->bias || row->no_room || row->foreign)
			continue;
		fix_open(&x, row->bytes);
		w.exit_kind = row->exit_kind;
		plan_avoid(x.p, row->avoid);
		plan_solve(x.p, &w, 1);
		emit(&x, &patch);
		while (len < sizeof(text) && module_bytes(x.m, BASE + TEXT_OFF, len + 1))
			len++;
		memcpy(text, module_bytes(x.m, BASE + TEXT_OFF, len), len);
		apply(text, &patch);
		for (uint32_t off = 0; off < len && len < sizeof(text); off++)
			placed += plan_second(&x, &patch, text, len, off);
		patch_free(&patch);
		fix_close(&x);
	}
	assert_in_range(placed, 20, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(a_second_plan_keeps_away),
		cmocka_unit_test(pads_are_in_reach_of_what_leads_there),
		cmocka_unit_test(sites_close_together_share),
		cmocka_unit_test(a_window_swallows_the_next),
		cmocka_unit_test(a_hop_has_two_edits),
		cmocka_unit_test(evicted_bytes_lead_to_the_pad),
		cmocka_unit_test(the_taken_way_of_a_branch),
		cmocka_unit_test(a_reset_gives_the_room_back),
		cmocka_unit_test(go_keeps_instructions_valid),
		cmocka_unit_test(go_has_no_hops),
		cmocka_unit_test(go_faults_where_it_did),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
