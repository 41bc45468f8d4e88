/* SPDX-License-Identifier: MIT */
#include "cmd/table.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include "base/cxxname.h"
#include "base/text.h"
#include "cmd/common.h"

static int add_row(void *arg, const struct jab_count *c)
{
	struct table *t = arg;
	struct table_row *row = vec_add(&t->rows);
	size_t i = t->rows.n - 1;

	row->c = *c;
	row->before = i < t->nlast ? t->last[i] : 0;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct table_row *x = a, *y = b;
	int r;

	if (x->c.hits != y->c.hits)
		return x->c.hits < y->c.hits ? 1 : -1;
	r = strcmp(x->c.function, y->c.function);
	return r ? r : x->c.offset < y->c.offset ? -1 : x->c.offset > y->c.offset;
}

int table_fill(struct table *t, struct jab *j)
{
	int r;

	t->rows.n = 0;
	r = jab_each_count(j, add_row, t);
	if (r < 0)
		return r;
	t->last = xrealloc(t->last, t->rows.n * sizeof(*t->last));
	t->nlast = t->rows.n;
	for (size_t i = 0; i < t->rows.n; i++)
		t->last[i] = t->rows.v[i].c.hits;
	qsort(t->rows.v, t->rows.n, sizeof(*t->rows.v), compare);
	return 0;
}

void table_free(struct table *t)
{
	vec_free(&t->rows);
	free(t->last);
}

static void name_text(const struct jab_count *c, char *out, size_t room)
{
	const char *function = c->function;
	char brief[4096];
	int n = text_safe(c->module, strlen(c->module), "", out, room);

	if (n + 1 < (int)room)
		out[n++] = ':';
	if (!look.full_names && cxx_short_name(c->function, strlen(c->function), brief, sizeof(brief)))
		function = brief;
	n += text_safe(function, strlen(function), "", out + n, room - n);

	if (c->has_offset && n < (int)room)
		n += snprintf(out + n, room - n, "+%#" PRIx64, c->offset);
	if (c->is_return && n < (int)room)
		n += snprintf(out + n, room - n, "%%return");
	if (c->open > 0 && !c->not_placed && n < (int)room)
		n += snprintf(out + n, room - n, "  (%" PRId64 " left open)", c->open);
	if (c->unplaced && !c->not_placed && n < (int)room)
		snprintf(out + n, room - n, "  (%" PRIu32 " exit%s not covered)", c->unplaced, c->unplaced == 1 ? "" : "s");
}

/* The live table uses the terminal's alternate screen; the former content comes back at its end. */
void table_begin(FILE *to)
{
	fputs("\033[?1049h", to);
}

void table_end(FILE *to)
{
	fputs("\033[?1049l", to);
	fflush(to);
}

void table_live(struct table *t, FILE *to, double elapsed)
{
	struct winsize size = { .ws_row = 25, .ws_col = 80 };
	uint64_t sum = 0;
	size_t most;
	int width;

	ioctl(fileno(to), TIOCGWINSZ, &size);
	most = size.ws_row > 6 ? size.ws_row - 3 : 10;
	width = size.ws_col > 50 ? size.ws_col - 29 : 21;
	for (size_t i = 0; i < t->rows.n; i++)
		sum += t->rows.v[i].c.hits;
	fprintf(to, "\033[H\033[2J%.1f s, %zu functions, %" PRIu64 " hits   (Ctrl-C ends it)\n", elapsed, t->rows.n,
		sum);
	fprintf(to, "%14s %12s  %s\n", "HITS", "PER SECOND", "FUNCTION");
	for (size_t i = 0; i < t->rows.n && i < most && t->rows.v[i].c.hits; i++) {
		const struct table_row *row = &t->rows.v[i];
		double rate = t->seconds > 0 ? (row->c.hits - row->before) / t->seconds : 0;
		char name[512];

		name_text(&row->c, name, sizeof(name));
		fprintf(to, "%14" PRIu64 " %12.0f  %.*s\n", row->c.hits, rate, width, name);
	}
	fflush(to);
}

/* Functions without a hit are not listed, only their number, unless `all` is set or there are few rows. */
void table_final(struct table *t, FILE *to, bool all)
{
	size_t silent = 0, missing = 0;

	fprintf(to, "%14s  %s\n", "HITS", "FUNCTION");
	for (size_t i = 0; i < t->rows.n; i++) {
		const struct jab_count *c = &t->rows.v[i].c;
		char name[4096];

		if (!c->hits && (c->open <= 0 || c->not_placed) && !all && t->rows.n > 20) {
			silent += !c->not_placed;
			missing += c->not_placed;
			continue;
		}
		name_text(c, name, sizeof(name));
		if (c->not_placed)
			fprintf(to, "%14s  %s\n", "not placed", name);
		else
			fprintf(to, "%14" PRIu64 "  %s\n", c->hits, name);
	}
	if (silent)
		fprintf(to, "%14s  %zu more function%s not hit (-a lists them)\n", "0", silent, silent == 1 ? " was" : "s were");
	if (missing)
		fprintf(to, "%14s  %zu more function%s (-a lists them, `jab check` says why)\n", "not placed", missing, &"s"[missing == 1]);
}

void table_json(struct table *t, FILE *to)
{
	for (size_t i = 0; i < t->rows.n; i++) {
		const struct jab_count *c = &t->rows.v[i].c;

		putc('{', to);
		json_pair(to, "probe", c->probe, true);
		json_pair(to, "module", c->module, false);
		json_pair(to, "function", c->function, false);
		if (c->has_offset)
			fprintf(to, ",\"offset\":%" PRIu64, c->offset);
		fprintf(to, ",\"hits\":%" PRIu64, c->hits);
		if (c->open >= 0)
			fprintf(to, ",\"open\":%" PRId64, c->open);
		if (c->unplaced)
			fprintf(to, ",\"unplaced_exits\":%" PRIu32, c->unplaced);
		if (c->not_placed)
			fputs(",\"placed\":false", to);
		fputs("}\n", to);
	}
}
