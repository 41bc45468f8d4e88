/* SPDX-License-Identifier: MIT */
/*
 * Where does a jump fit? For each file: every function entry, every exit and every instruction
 * planned alone, then all entries at once, and all entries and exits at once. Prints a table, and with -j FILE
 * one JSON line for every place that got no tactic, with the reason.
 *
 *	coverage [-j misses.jsonl] [-n every-Nth-function] [-i] FILE...
 *
 * -i leaves the instructions out, -n takes a part of a large file for them.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "pad/plan.h"

enum what { ENTRIES, EXITS, INSNS, ENTRIES_TOGETHER, TOGETHER, WHATS };
static const char *const what_names[] = { "entries", "exits", "instructions", "all entries", "all at once" };

struct tally { uint64_t n, by[TACTIC_TRAP + 1], ns; };

struct run {
	struct module *m;
	struct code *code;
	struct room *room;
	struct plan *plan;
	struct tally tally[WHATS];
	uint64_t with_exits, all_exits, uncertain, areas;
	const char *name;
};

static FILE *misses;
static unsigned int every = 1;
static bool with_insns = true;

/* Processor time: other load on the machine does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void print_miss(struct run *r, enum what what, const struct want *w)
{
	const struct func *f = module_func_at(r->m, w->addr);

	if (misses)
		fprintf(misses, "{\"file\":\"%s\",\"what\":\"%s\",\"address\":\"%#llx\",\"function\":\"%s\","
			"\"reason\":\"%s\"}\n", r->m->path, what_names[what], (unsigned long long)w->addr,
			f && f->name ? f->name : "", w->reason ? w->reason : "");
}

static void count(struct run *r, enum what what, const struct want *w)
{
	r->tally[what].n++;
	r->tally[what].by[w->tactic]++;
	if (w->tactic == TACTIC_NONE)
		print_miss(r, what, w);
}

static bool alone(struct run *r, enum what what, struct want w)
{
	uint64_t start = cpu_ns();

	plan_solve(r->plan, &w, 1);
	r->tally[what].ns += cpu_ns() - start;
	count(r, what, &w);
	return w.tactic != TACTIC_NONE;
}

static void exits_of(struct run *r, const struct fcode *f)
{
	bool all = true;

	for (size_t i = 0; i < f->exits.n; i++)
		all &= alone(r, EXITS, (struct want){ .addr = f->exits.v[i].addr, .kind = WANT_EXIT,
						      .exit_kind = f->exits.v[i].kind });
	r->with_exits += f->exits.n != 0;
	r->all_exits += f->exits.n && all;
}

static void insns_of(struct run *r, const struct fcode *f)
{
	uint64_t addr = f->lo;

	for (size_t i = 0; i < f->insns.n && addr < f->end; i++) {
		alone(r, INSNS, (struct want){ .addr = addr, .kind = WANT_INSN });
		addr += f->insns.v[i].len;
	}
}

static bool is_entry(const struct func *f)
{
	return !(f->flags & FUNC_COLD);
}

static void one_function(struct run *r, size_t i, void *wants)
{
	typedef VEC(struct want) want_list;
	const struct func *fn = &r->m->funcs.v[i];
	want_list *all = wants;
	const struct fcode *f;

	if (is_entry(fn)) {
		struct want w = { .addr = fn->addr, .kind = WANT_ENTRY };

		alone(r, ENTRIES, w);
		*vec_add(all) = w;
	}
	f = code_func(r->code, fn->addr);
	if (!f || f->broken)
		return;
	r->uncertain += f->uncertain;
	if (is_entry(fn)) {
		exits_of(r, f);
		for (size_t k = 0; k < f->exits.n; k++)
			*vec_add(all) = (struct want){ .addr = f->exits.v[k].addr, .kind = WANT_EXIT,
						       .exit_kind = f->exits.v[k].kind };
	}
	if (with_insns && i % every == 0)
		insns_of(r, f);
	plan_reset(r->plan);
	code_drop(r->code, f);
}

static void together(struct run *r, enum what what, struct want *wants, size_t n)
{
	uint64_t start = cpu_ns();
	area_list areas = { 0 };

	for (size_t i = 0; i < n; i++)
		wants[i].id = i;
	plan_solve(r->plan, wants, n);
	r->tally[what].ns = cpu_ns() - start;
	for (size_t i = 0; i < n; i++)
		count(r, what, &wants[i]);
	room_areas(r->room, &areas);
	r->areas = areas.n;
	vec_free(&areas);
}

static void print_table(const struct run *r)
{
	printf("%s: %zu functions, %llu uncertain\n", r->m->path, r->m->funcs.n, (unsigned long long)r->uncertain);
	printf("  %-13s%10s%10s", "", "sites", "covered");
	for (int t = TACTIC_NOP; t < TACTIC_TRAP; t++)
		printf("%9.8s", tactic_name(t));
	printf("%8s%9s\n", "none", "us each");
	for (int w = 0; w < WHATS; w++) {
		const struct tally *t = &r->tally[w];

		if (!t->n)
			continue;
		printf("  %-13s%10llu%9.4f%%", what_names[w], (unsigned long long)t->n,
		       100.0 * (t->n - t->by[TACTIC_NONE]) / t->n);
		for (int k = TACTIC_NOP; k < TACTIC_TRAP; k++)
			printf("%9llu", (unsigned long long)t->by[k]);
		printf("%8llu%9.2f\n", (unsigned long long)t->by[TACTIC_NONE], t->ns / 1e3 / t->n);
	}
	printf("  functions with every exit: %llu of %llu (%.4f%%); mappings for all at once: %llu\n",
	       (unsigned long long)r->all_exits, (unsigned long long)r->with_exits,
	       r->with_exits ? 100.0 * r->all_exits / r->with_exits : 100.0, (unsigned long long)r->areas);
	fflush(stdout);
}

static int run_file(const char *path, struct run *r)
{
	VEC(struct want) wants = { 0 };
	gap_list gaps = { 0 };
	size_t body;
	int err;

	err = module_open("", path, &r->m);
	if (err < 0)
		return err;
	err = code_open(r->m, &r->code);
	if (err < 0)
		return err;
	room_assume(r->m, &gaps);
	r->room = room_create(gaps.v, gaps.n);
	vec_free(&gaps);
	body = r->code->arch->emit_count(NULL, 0, &(struct count_spec){ .has_rseq = true });
	err = plan_create(r->code, r->room, room_assume_bias(r->m), body, &r->plan);
	if (err < 0)
		return err;
	for (size_t i = 0; i < r->m->funcs.n; i++)
		if (is_entry(&r->m->funcs.v[i]))
			*vec_add(&wants) = (struct want){ .addr = r->m->funcs.v[i].addr, .kind = WANT_ENTRY };
	together(r, ENTRIES_TOGETHER, wants.v, wants.n);
	wants.n = 0;
	for (size_t i = 0; i < r->m->funcs.n; i++)
		one_function(r, i, &wants);
	together(r, TOGETHER, wants.v, wants.n);
	print_table(r);
	vec_free(&wants);
	plan_free(r->plan);
	room_free(r->room);
	code_close(r->code);
	module_close(r->m);
	return 0;
}

static void add_up(struct run *sum, const struct run *r)
{
	for (int w = 0; w < WHATS; w++) {
		sum->tally[w].n += r->tally[w].n;
		sum->tally[w].ns += r->tally[w].ns;
		for (int k = 0; k <= TACTIC_TRAP; k++)
			sum->tally[w].by[k] += r->tally[w].by[k];
	}
	sum->with_exits += r->with_exits;
	sum->all_exits += r->all_exits;
	sum->uncertain += r->uncertain;
	sum->areas += r->areas;
}

int main(int argc, char **argv)
{
	struct module total = { .path = "all files" };
	struct run sum = { .m = &total };
	int c, failed = 0;

	while ((c = getopt(argc, argv, "j:n:i")) != -1) {
		if (c == 'j')
			misses = fopen(optarg, "w");
		else if (c == 'n')
			every = MAX(atoi(optarg), 1);
		else if (c == 'i')
			with_insns = false;
		else
			return 2;
	}
	for (int i = optind; i < argc; i++) {
		struct run r = { 0 };

		if (run_file(argv[i], &r) < 0) {
			fprintf(stderr, "coverage: %s\n", err_text());
			failed = 1;
			continue;
		}
		add_up(&sum, &r);
	}
	if (argc - optind > 1)
		print_table(&sum);
	if (misses)
		fclose(misses);
	return failed;
}
