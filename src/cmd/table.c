/* SPDX-License-Identifier: MIT */
#include "cmd/table.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "base/clock.h"
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

int table_read(struct table *t, struct jab *j)
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
	return 0;
}

int table_fill(struct table *t, struct jab *j)
{
	int r = table_read(t, j);

	if (r == 0 && t->rows.n)
		qsort(t->rows.v, t->rows.n, sizeof(*t->rows.v), compare);
	return r;
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

/* ---- the live table ---- */

static struct termios saved_terminal;

/* The live table uses the terminal's alternate screen; the former content comes back at its end. Ctrl-C stays a signal. */
static void take_terminal(const struct table *t, FILE *to)
{
	struct termios raw = saved_terminal;

	if (t->view.keys) {
		raw.c_lflag &= ~(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;	/* not 0: a shell that has the terminal after Ctrl-Z would read its end */
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs("\033[?1049h\033[?25l", to);
}

void table_begin(struct table *t, FILE *to, bool keys)
{
	t->view.keys = keys && tcgetattr(STDIN_FILENO, &saved_terminal) == 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
	take_terminal(t, to);
}

/* After Ctrl-Z the shell has given the terminal its own mode back: a read would wait for a whole line. */
static bool was_taken(const struct table *t)
{
	struct termios now;

	return t->view.keys && tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &now) == 0 && now.c_lflag & ICANON;
}

void table_end(struct table *t, FILE *to)
{
	fputs("\033[?25h\033[?1049l", to);
	fflush(to);
	if (t->view.keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_terminal);
}

static void filter_key(struct table_view *v, char c)
{
	size_t n = strlen(v->filter);

	if (c == '\n' || c == '\r') {
		v->typing = false;
	} else if (c == 27) {
		v->typing = false;
		v->filter[0] = '\0';
	} else if (c == 127 || c == 8) {
		v->filter[n ? n - 1 : 0] = '\0';
	} else if (c >= ' ' && c < 127 && n + 1 < sizeof(v->filter)) {
		v->filter[n] = c;
		v->filter[n + 1] = '\0';
	}
}

static void one_key(struct table_view *v, char c)
{
	switch (c) {
	case 'q':
		v->quit = true;
		break;
	case 'p':
	case ' ':
		v->paused = !v->paused;
		break;
	case 'h':
		v->sort = SORT_HITS;
		break;
	case 'r':
		v->sort = SORT_RATE;
		break;
	case 'n':
		v->sort = SORT_NAME;
		break;
	case '/':
		v->typing = true;
		v->filter[0] = '\0';
		break;
	case 27:
		v->filter[0] = '\0';
		break;
	}
}

static struct winsize terminal_size(FILE *to)
{
	struct winsize size = { .ws_row = 25, .ws_col = 80 };

	ioctl(fileno(to), TIOCGWINSZ, &size);
	return size;
}

bool table_keys(struct table *t, FILE *to)
{
	struct winsize size = terminal_size(to);
	bool changed = size.ws_row != t->view.rows || size.ws_col != t->view.columns;
	struct pollfd key = { .fd = STDIN_FILENO, .events = POLLIN };
	char c;

	if (was_taken(t)) {
		take_terminal(t, to);
		changed = true;
	}
	while (t->view.keys && poll(&key, 1, 0) == 1 && read(STDIN_FILENO, &c, 1) == 1) {
		if (t->view.typing)
			filter_key(&t->view, c);
		else
			one_key(&t->view, c);
		changed = true;
	}
	return changed;
}

static int by_rate(const void *a, const void *b)
{
	const struct table_row *x = a, *y = b;
	uint64_t i = x->c.hits - x->before, k = y->c.hits - y->before;

	return i != k ? i < k ? 1 : -1 : compare(a, b);
}

static int by_name(const void *a, const void *b)
{
	const struct table_row *x = a, *y = b;
	int r = strcmp(x->c.function, y->c.function);

	return r ? r : x->c.offset < y->c.offset ? -1 : x->c.offset > y->c.offset;
}

/*
 * The first `most` rows in the order of the view, of those that have hits and whose names match. Of very many rows few are
 * shown, so they are not all sorted: each is compared with the last one that is chosen.
 */
static size_t choose_rows(struct table *t, const struct table_row **rows, size_t most)
{
	static int (*const orders[])(const void *, const void *) = { compare, by_rate, by_name };
	int (*order)(const void *, const void *) = orders[t->view.sort];
	size_t n = 0, lo, hi;

	for (size_t i = 0; i < t->rows.n; i++) {
		const struct table_row *row = &t->rows.v[i];

		if (!row->c.hits || (*t->view.filter && !strcasestr(row->c.function, t->view.filter)))
			continue;
		if (n == most && order(row, rows[n - 1]) >= 0)
			continue;
		for (lo = 0, hi = n; lo < hi;) {
			size_t mid = lo + (hi - lo) / 2;

			if (order(row, rows[mid]) < 0)
				hi = mid;
			else
				lo = mid + 1;
		}
		n += n < most;
		memmove(rows + lo + 1, rows + lo, (n - 1 - lo) * sizeof(*rows));
		rows[lo] = row;
	}
	return n;
}

static void put_head(struct table *t, FILE *f, double elapsed, uint64_t sum, int columns)
{
	static const char *const sorts[] = { "hits", "rate", "name" };
	char line[512];
	int n = snprintf(line, sizeof(line), "%.1f s, %zu functions, %" PRIu64 " hits, by %s%s%s%s%s", elapsed, t->rows.n, sum,
			 sorts[t->view.sort], t->view.paused ? ", paused" : "", *t->view.filter || t->view.typing ? ", filter: " : "",
			 t->view.filter, t->view.typing ? "_" : "");

	if (n < (int)sizeof(line))
		snprintf(line + n, sizeof(line) - n, "   %s", t->view.keys ? "h r n: sort  /: filter  p: pause  q: quit" : "(Ctrl-C ends it)");
	fprintf(f, "\033[H%.*s\033[K\r\n%14s %12s  %.*s\033[K\r\n", columns, line, "HITS", "PER SECOND", MAX(columns - 29, 8), "FUNCTION");
}

/* One write, over what is there: nothing is cleared before it is drawn again, so nothing flickers. */
void table_live(struct table *t, FILE *to, double elapsed)
{
	struct winsize size = terminal_size(to);
	int width = size.ws_col > 50 ? size.ws_col - 29 : 21;
	size_t most = size.ws_row > 6 ? size.ws_row - 3 : 10, n, len;
	uint64_t sum = 0, start = now_ns();
	const struct table_row **rows = xcalloc(most, sizeof(*rows));
	char *text;
	FILE *f = xmemstream(&text, &len);

	t->view.rows = size.ws_row;
	t->view.columns = size.ws_col;
	for (size_t i = 0; i < t->rows.n; i++)
		sum += t->rows.v[i].c.hits;
	put_head(t, f, elapsed, sum, size.ws_col);
	n = choose_rows(t, rows, most);
	for (size_t i = 0; i < n; i++) {
		double rate = t->seconds > 0 ? (rows[i]->c.hits - rows[i]->before) / t->seconds : 0;
		char name[512];

		name_text(&rows[i]->c, name, sizeof(name));
		fprintf(f, "%14" PRIu64 " %12.0f  %.*s\033[K\r\n", rows[i]->c.hits, rate, width, name);
	}
	fputs("\033[J", f);
	fclose(f);
	fwrite(text, 1, len, to);
	fflush(to);
	free(text);
	free(rows);
	t->view.draw_ms = MAX(t->view.draw_ms, (now_ns() - start) / 1e6);
}

static bool is_listed(const struct table *t, const struct jab_count *c, bool all)
{
	return c->hits || (c->open > 0 && !c->not_placed) || all || t->rows.n <= 20;
}

static void final_row(FILE *to, const struct jab_count *c)
{
	char name[4096];

	name_text(c, name, sizeof(name));
	if (c->not_placed)
		fprintf(to, "%14s  %s\n", "not placed", name);
	else
		fprintf(to, "%14" PRIu64 "  %s\n", c->hits, name);
}

/*
 * Functions without a hit are not listed, only their number, unless `all` is set or there are few rows. On a terminal that has
 * fewer lines the most frequent come last, where they stay visible.
 */
void table_final(struct table *t, FILE *to, bool all)
{
	size_t silent = 0, missing = 0, listed = 0;
	bool upwards;

	for (size_t i = 0; i < t->rows.n; i++) {
		const struct jab_count *c = &t->rows.v[i].c;
		bool is = is_listed(t, c, all);

		listed += is;
		silent += !is && !c->not_placed;
		missing += !is && c->not_placed;
	}
	upwards = isatty(fileno(to)) && listed + 5 > terminal_size(to).ws_row;
	if (!upwards)
		fprintf(to, "%14s  %s\n", "HITS", "FUNCTION");
	if (upwards && silent)
		fprintf(to, "%14s  %zu more function%s not hit (-a lists them)\n", "0", silent, silent == 1 ? " was" : "s were");
	for (size_t i = 0; i < t->rows.n; i++) {
		const struct jab_count *c = &t->rows.v[upwards ? t->rows.n - 1 - i : i].c;

		if (is_listed(t, c, all))
			final_row(to, c);
	}
	if (!upwards && silent)
		fprintf(to, "%14s  %zu more function%s not hit (-a lists them)\n", "0", silent, silent == 1 ? " was" : "s were");
	if (missing)
		fprintf(to, "%14s  %zu more function%s (-a lists them, `jab check` says why)\n", "not placed", missing, &"s"[missing == 1]);
	if (upwards)
		fprintf(to, "%14s  %s\n", "HITS", "FUNCTION");
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
