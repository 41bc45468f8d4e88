/* SPDX-License-Identifier: MIT */
/* jab check: plans the probes and prints tactic and cost of each site. Changes nothing in a target. */
#include <inttypes.h>
#include <string.h>
#include "base/err.h"
#include "base/text.h"
#include "cmd/common.h"

static text_list pids;
static bool json, summary_only, misses, alone;

static const struct opt opts[] = {
	{ 'p', "pid", "PID|NAME", OPT_LIST, &pids, "plan for this process; may be repeated" },
	{ 's', "summary", NULL, OPT_FLAG, &summary_only, "only the sums per tactic" },
	{ 0, "alone", NULL, OPT_FLAG, &alone, "plan each site as if it were the only one" },
	{ 'm', "misses", NULL, OPT_FLAG, &misses, "only the sites that can't be placed" },
	{ 0, "json", NULL, OPT_FLAG, &json, "one JSON object a line" },
	{ 'v', "verbose", NULL, OPT_MORE, &log_level, "print what happens" },
	{ 0 }
};

struct tally {
	const char *tactic[16];
	size_t n[16], sites, refused, noreturn;
};

static void tally_add(struct tally *t, const char *tactic)
{
	size_t i;

	if (!strcmp(tactic, "noreturn")) {
		t->noreturn++;
		return;
	}
	for (i = 0; i < ARRAY_SIZE(t->n) - 1 && t->tactic[i] && strcmp(t->tactic[i], tactic); i++)
		;
	t->tactic[i] = tactic;
	t->n[i]++;
	t->sites++;
	if (!strcmp(tactic, "none"))
		t->refused++;
}

static void print_json(const struct jab_site *s)
{
	putchar('{');
	json_pair(stdout, "probe", s->probe, true);
	json_pair(stdout, "module", s->module, false);
	json_pair(stdout, "function", s->function, false);
	printf(",\"offset\":%" PRIu64 ",\"kind\":\"%s\",\"address\":\"0x%" PRIx64 "\"", s->offset, s->kind,
	       s->address);
	json_pair(stdout, "tactic", s->tactic, false);
	json_pair(stdout, "cost", s->cost, false);
	json_pair(stdout, "reason", s->reason, false);
	if (s->neighbour)
		printf(",\"neighbour\":\"0x%" PRIx64 "\"", s->neighbour);
	puts("}");
}

static void print_line(const struct jab_site *s)
{
	printf("%#14" PRIx64 "  %-10s %-22s ", s->address, s->tactic, s->cost);
	print_safe(stdout, base_name(s->module));
	putchar(':');
	write_safe(stdout, s->function, strnlen(s->function, s->offset ? 90 : 120), "");
	if (s->offset)
		printf("+%#" PRIx64, s->offset);
	if (s->neighbour)
		printf("  (slows %#" PRIx64 ")", s->neighbour);
	if (s->reason[0])
		fputs("  ", stdout);
	print_safe(stdout, s->reason);
	putchar('\n');
}

static int each_site(void *arg, const struct jab_site *s)
{
	struct tally *t = arg;

	tally_add(t, s->tactic);
	if (summary_only || (misses && strcmp(s->tactic, "none")))
		return 0;
	if (json)
		print_json(s);
	else
		print_line(s);
	return 0;
}

static void print_tally(const struct tally *t, struct jab *j)
{
	struct jab_times times = *jab_get_times(j);

	if (json) {
		printf("{\"summary\":{\"sites\":%zu,\"refused\":%zu,\"noreturn\":%zu,\"tactics\":{", t->sites,
		       t->refused, t->noreturn);
		for (size_t i = 0; i < ARRAY_SIZE(t->n) && t->n[i]; i++)
			printf("%s\"%s\":%zu", i ? "," : "", t->tactic[i], t->n[i]);
		printf("},\"symbols_ns\":%" PRIu64 ",\"plan_ns\":%" PRIu64 "}}\n", times.symbols_ns, times.plan_ns);
		return;
	}
	printf("%zu site%s", t->sites, t->sites == 1 ? "" : "s");
	for (size_t i = 0; i < ARRAY_SIZE(t->n) && t->n[i]; i++)
		printf(", %s %zu", t->tactic[i], t->n[i]);
	if (t->noreturn)
		printf("; %zu function%s", t->noreturn, t->noreturn == 1 ? " never returns" : "s never return");
	printf("; %.3f %% placed (symbols %.1f ms, plan %.1f ms)\n",
	       t->sites ? 100.0 * (t->sites - t->refused) / t->sites : 0, times.symbols_ns / 1e6,
	       times.plan_ns / 1e6);
}

static int check(struct jab *j, const text_list *words, size_t first)
{
	struct tally t = { 0 };
	int r = 0;

	for (size_t i = first; !r && i < words->n; i++)
		r = jab_add_probe(j, words->v[i], NULL);
	if (!r)
		r = jab_plan(j, alone ? JAB_PLAN_ALONE : 0);
	if (r < 0)
		return complain(j);
	if (!json && !summary_only)
		printf("%14s  %-10s %-22s %s\n", "ADDRESS", "TACTIC", "COST", "PLACE");
	jab_each_site(j, each_site, &t);
	print_tally(&t, j);
	return 0;
}

static int run(text_list *words, char **rest)
{
	struct jab_options options = { .size = sizeof(options), .log_level = log_level };
	size_t first = pids.n ? 0 : 1;
	struct jab *j;
	int r = 0;

	if (rest || words->n <= first) {
		fprintf(stderr, "jab check: name a process (-p PID) or a file, and a probe; try `jab check --help`\n");
		return 2;
	}
	if (jab_new(&options, &j) < 0)
		return complain(NULL);
	for (size_t i = 0; !r && i < pids.n; i++)
		r = attach_word(j, pids.v[i]);
	if (!pids.n)
		r = jab_open_file(j, words->v[0]);
	r = r < 0 ? complain(j) : check(j, words, first);
	jab_free(j);
	return r;
}

const struct command cmd_check = {
	"check", "(-p PID|NAME | FILE) [OPTIONS] PROBE...",
	"Show how each site would be placed: tactic, cost class, reason.", opts, run
};
