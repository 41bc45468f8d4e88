/* SPDX-License-Identifier: MIT */
#include "lang/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

#define WIDEST 160	/* bytes of a source line that are shown */

static void find_line(const struct diags *d, struct diag *g)
{
	size_t i, start = 0;

	g->line = 1;
	for (i = 0; i < g->at; i++)
		if (d->source[i] == '\n') {
			g->line++;
			start = i + 1;
		}
	g->column = g->at - start + 1;
}

struct diag diag_at(const struct diags *d, uint32_t at, uint32_t len)
{
	struct diag g = { .at = MIN(at, d->size) };

	g.len = MIN(len, d->size - g.at);
	find_line(d, &g);
	return g;
}

static void add(struct diags *d, bool warning, uint32_t at, uint32_t len, const char *fmt, va_list ap)
{
	struct diag *g;
	char *text;
	size_t i;

	for (i = 0; i < d->list.n; i++)		/* one complaint a place */
		if (d->list.v[i].at == at && d->list.v[i].warning == warning)
			return;
	if ((warning ? d->list.n - d->errors : d->errors) >= DIAG_MOST)
		return;
	g = vec_add(&d->list);
	g->at = MIN(at, d->size);
	g->len = MIN(len, d->size - g->at);
	g->warning = warning;
	text = xvasprintf(fmt, ap);
	g->text = xcalloc(4, strlen(text) + 1);
	text_safe(text, strlen(text), "", g->text, 4 * strlen(text) + 1);
	free(text);
	find_line(d, g);
	d->errors += !warning;
}

void diag_error(struct diags *d, uint32_t at, uint32_t len, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(d, false, at, len, fmt, ap);
	va_end(ap);
}

void diag_warn(struct diags *d, uint32_t at, uint32_t len, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(d, true, at, len, fmt, ap);
	va_end(ap);
}

char *diags_take_back(struct diags *d, size_t n)
{
	char *text = NULL;

	for (size_t i = n; i < d->list.n; i++) {
		struct diag *g = &d->list.v[i];

		d->errors -= !g->warning;
		if (!text && !g->warning)
			text = xstrdup(g->text);
		free(g->text);
	}
	d->list.n = n;
	return text ? text : xstrdup("");
}

static int by_place(const void *pa, const void *pb)
{
	const struct diag *a = pa, *b = pb;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* A source line, each character in its own columns, so that the caret fits. */
static void print_source(FILE *f, const char *s, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		n = text_plain(s + i, len - i);
		if (n)
			fwrite(s + i, 1, n, f);
		else
			fputc(s[i] == '\t' ? ' ' : '?', f);
		n += !n;
	}
}

/* Of the character that begins at p: letters of the east and pictures are twice as wide, which libc knows only in some locales. */
static int columns(const char *p)
{
	static const struct { uint32_t lo, hi; } wide[] = {
		{ 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f },
		{ 0xff00, 0xff60 }, { 0xffe0, 0xffe6 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd },
	};
	const unsigned char *s = (const unsigned char *)p;
	uint32_t c = 0;

	if ((s[0] & 0xc0) == 0x80)	/* a part of the one before */
		return 0;
	if ((s[0] & 0xf0) == 0xe0 && s[1] && s[2])
		c = (s[0] & 15) << 12 | (s[1] & 63) << 6 | (s[2] & 63);
	else if ((s[0] & 0xf8) == 0xf0 && s[1] && s[2] && s[3])
		c = (s[0] & 7) << 18 | (s[1] & 63) << 12 | (s[2] & 63) << 6 | (s[3] & 63);
	for (size_t i = 0; i < ARRAY_SIZE(wide); i++)
		if (c >= wide[i].lo && c <= wide[i].hi)
			return 2;
	return 1;
}

static void repeat(FILE *f, char c, int n)
{
	while (n-- > 0)
		fputc(c, f);
}

/* "name:1:9-62: ", or "name:1-3: " for what goes over several lines; ends are exclusive, as bpftrace has them. */
static void print_place(FILE *f, const struct diags *d, const struct diag *g)
{
	uint32_t lines = 0, i;

	for (i = 0; i < g->len; i++)
		lines += d->source[g->at + i] == '\n' && i + 1 < g->len;
	print_safe(f, d->name);
	if (lines)
		fprintf(f, ":%u-%u: ", g->line, g->line + lines);
	else
		fprintf(f, ":%u:%u-%u: ", g->line, g->column, g->column + MAX(g->len, 1u));
}

void diag_place(FILE *f, const struct diags *d, uint32_t at, uint32_t len)
{
	struct diag g = diag_at(d, at, len);

	print_place(f, d, &g);
}

static void print_one(FILE *f, const struct diags *d, const struct diag *g)
{
	size_t start = g->at - (g->column - 1), end = g->at, i, left, n;

	print_place(f, d, g);
	fprintf(f, "%s: %s\n", g->warning ? "WARNING" : "ERROR", g->text);
	while (end < d->size && d->source[end] != '\n')
		end++;
	if (end > g->at && d->source[end - 1] == '\r')
		end--;
	/* of a very long line, the part around the place */
	left = g->column > WIDEST / 2 ? g->at - WIDEST / 2 : start;
	end = MIN(end, left + WIDEST);
	if (end == start)
		return;
	print_source(f, d->source + left, end - left);
	fputc('\n', f);
	for (i = left; i < g->at; i++)
		repeat(f, ' ', columns(d->source + i));
	fputc('~', f);
	for (n = 1, i = g->at + 1; n < g->len && i < end; n++, i++)
		repeat(f, '~', columns(d->source + i));
	fputc('\n', f);
}

char *diags_text(struct diags *d)
{
	char *text = NULL;
	size_t size, i;
	FILE *f = xmemstream(&text, &size);

	if (!f)
		return xstrdup("out of memory\n");
	if (d->list.n)
		qsort(d->list.v, d->list.n, sizeof(d->list.v[0]), by_place);
	for (i = 0; i < d->list.n; i++)
		if (!d->list.v[i].warning || !d->no_warnings)
			print_one(f, d, &d->list.v[i]);
	if (d->errors >= DIAG_MOST)
		print_safe(f, d->name);
	if (d->errors >= DIAG_MOST)
		fputs(": more errors may follow\n", f);
	fclose(f);
	return text;
}

void diags_free(struct diags *d)
{
	size_t i;

	for (i = 0; i < d->list.n; i++)
		free(d->list.v[i].text);
	vec_free(&d->list);
	d->errors = 0;
}
