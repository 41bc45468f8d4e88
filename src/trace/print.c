/* SPDX-License-Identifier: MIT */
/*
 * Events as text, one line each, followed by the frames of a backtrace:
 *
 *	1234.567890123 [001] prog 77/78 libc:malloc size=24 name="a\n" list=[1,2] key="cut"... where=<fault>
 *		0x7f0e4a2c9f50 libc.so.6:malloc
 *		0x55d1c0a012f4 prog:main+0x24
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/addr.h"
#include "base/cxxname.h"
#include "trace/line.h"

#define PROBE_COLOUR "\033[1;36m"
#define FIELD_COLOUR "\033[32m"
#define FAULT_COLOUR "\033[31m"
#define DIM "\033[2m"
#define PLAIN "\033[0m"

static inline void put_colour(struct line *l, const char *colour)
{
	if (l->style->colour)
		put_word(l, colour);
}

static void put_escaped(struct line *l, uint8_t c)
{
	static const char hex[] = "0123456789abcdef";

	if (c == '"' || c == '\\')
		put_bytes(l, (char[]){ '\\', c }, 2);
	else if (c == '\n')
		put_bytes(l, "\\n", 2);
	else
		put_bytes(l, (char[]){ '\\', 'x', hex[c >> 4], hex[c & 15] }, 4);
}

/* Writes plain characters in runs, the others one by one. */
static void put_text(struct line *l, const uint8_t *s, size_t n)
{
	size_t from = 0, i;

	for (i = 0; i < n; i++)
		if (s[i] < 0x20 || s[i] >= 0x7f || s[i] == '"' || s[i] == '\\') {
			put_bytes(l, (const char *)s + from, i - from);
			put_escaped(l, s[i]);
			from = i + 1;
		}
	put_bytes(l, (const char *)s + from, n - from);
}

/* A signed number in another base shows its own bits, not all 64. */
static void put_number(struct line *l, const struct trace_value *v)
{
	const struct ctf_field *f = v->field;

	if (f->kind == CTF_FLOAT)
		put_float(l, v->f, f->bits);
	else if (f->base == 16 || f->base == 8)
		put_power(l, f->bits == 64 ? v->u : v->u & ((1ull << f->bits) - 1), f->base == 16 ? 4 : 3);
	else if (f->kind == CTF_SIGNED)
		put_signed(l, v->i);
	else
		put_decimal(l, v->u);
}

/* The name of an enum's value; a value without a name as a number. */
static void put_scalar(struct line *l, const struct trace_value *v)
{
	const char *name = v->field->nvalues ? field_value_name(v->field, v->i) : NULL;

	if (name)
		put_text(l, (const uint8_t *)name, strlen(name));
	else
		put_number(l, v);
}

static void put_array(struct line *l, const struct trace_value *v)
{
	for (uint32_t i = 0; i < v->len; i++) {
		struct trace_value e = trace_element(v, i);

		put_char(l, i ? ',' : '[');
		put_number(l, &e);
	}
	put_char(l, ']');
}

static void put_fault(struct line *l, const struct trace_value *v)
{
	put_colour(l, FAULT_COLOUR);
	put_word(l, v->has_address && v->address == ADDR_TAIL_CALL ? "<tail call>" :
		 v->has_address && v->address == ADDR_NOT_KEPT ? "<optimized out>" :
		 v->has_address && v->address == ADDR_NO_RESULT ? "<void>" :
		 v->has_address && v->address == ADDR_NO_FRAME ? "<none>" :
		 v->fault == READ_FAULT ? "<fault>" : "<unreadable>");
	put_colour(l, PLAIN);
}

static void put_value(struct line *l, const struct trace_value *v)
{
	if (v->fault != READ_WELL) {
		put_fault(l, v);
	} else if (v->field->kind == CTF_STRING || v->field->is_text) {
		put_char(l, '"');
		put_text(l, v->bytes, v->len);
		put_char(l, '"');
		if (v->cut)
			put_bytes(l, "...", 3);
	} else if (v->field->kind == CTF_BYTES) {
		put_hex(l, v->bytes, v->len);
	} else if (v->field->count) {
		put_array(l, v);
	} else {
		put_scalar(l, v);
	}
}

int64_t shown_ns(const struct trace_style *style, const struct trace_event *ev)
{
	const struct trace_printed *p = style->printed;
	int64_t from = 0, ns;

	if (style->time == TIME_WALL)
		from = -style->realtime_ns;
	else if (style->time != TIME_BOOT && p)
		from = !p->any ? ev->ns : style->time == TIME_RELATIVE ? p->first : p->last;
	return __builtin_sub_overflow(ev->ns, from, &ns) ? ev->ns : ns;
}

/* "14:05:09": a conversion with a time zone is slow, and most events are in the same second as the one before. */
static void put_day_time(struct line *l, struct trace_printed *p, int64_t seconds)
{
	time_t t = seconds;
	struct tm tm;

	if ((seconds != p->second || !*p->day_time) && localtime_r(&t, &tm)) {
		strftime(p->day_time, sizeof(p->day_time), "%H:%M:%S", &tm);
		p->second = seconds;
	}
	put_word(l, p->day_time);
}

static void put_time(struct line *l, const struct trace_event *ev)
{
	int64_t shown = shown_ns(l->style, ev);
	uint64_t ns = shown < 0 ? -(uint64_t)shown : (uint64_t)shown;

	put_colour(l, DIM);
	if (l->style->time == TIME_WALL && l->style->printed && shown >= 0) {
		put_day_time(l, l->style->printed, ns / NS_PER_S);
	} else {
		if (shown < 0)
			put_char(l, '-');
		put_decimal(l, ns / NS_PER_S);
	}
	put_char(l, '.');
	put_padded(l, ns % NS_PER_S, 9);
}

/* A name of one word: columns stay where they are. */
static void put_comm(struct line *l, const char *comm)
{
	for (const char *p = comm; *p; p++)
		if (*p == ' ')
			put_word(l, "\\x20");
		else
			put_text(l, (const uint8_t *)p, 1);
	if (*comm)
		put_char(l, ' ');
}

static void put_name(struct line *l, const char *name, size_t n)
{
	char brief[1024];
	size_t len = l->style->full_names ? 0 : cxx_short_name(name, n, brief, sizeof(brief));

	put_text(l, (const uint8_t *)(len ? brief : name), len ? len : n);
}

static void put_head(struct line *l, const struct trace_event *ev)
{
	put_time(l, ev);
	put_bytes(l, " [", 2);
	if (ev->cpu == CTF_NO_CPU)
		put_bytes(l, "---", 3);
	else if (ev->cpu < 1000)
		put_padded(l, ev->cpu, 3);
	else
		put_decimal(l, ev->cpu);
	put_bytes(l, "] ", 2);
	put_colour(l, PLAIN);
	if (l->style->comm)
		put_comm(l, l->style->comm(l->style->arg, ev));
	put_decimal(l, ev->pid);
	put_char(l, '/');
	put_decimal(l, ev->tid);
	put_char(l, ' ');
	put_colour(l, PROBE_COLOUR);
	put_name(l, ev->class->name, strlen(ev->class->name));
	put_colour(l, PLAIN);
}

/* Whether the field _faults need not be shown, because each of its bits belongs to a field that shows the fault. */
static bool is_said(const struct trace_event *ev, const struct trace_value *v)
{
	size_t behind = ev->class->n - 1;
	uint32_t marks = v->u | v->u >> 32;

	return behind >= 32 || marks >> behind == 0;
}

static void put_field(struct line *l, const struct trace_value *v)
{
	put_char(l, ' ');
	put_colour(l, FIELD_COLOUR);
	put_word(l, v->field->name);
	put_colour(l, PLAIN);
	put_char(l, '=');
	put_value(l, v);
}

static void put_address_name(struct line *l, const struct trace_event *ev, uint64_t address, bool is_return)
{
	char name[1024];
	size_t n = l->style->name ? l->style->name(l->style->arg, ev, address, is_return, name, sizeof(name)) : 0;

	if (!n)
		return;
	put_char(l, ' ');
	put_name(l, name, MIN(n, sizeof(name)));
}

static void put_frames(struct line *l, const struct trace_event *ev, const struct trace_value *v)
{
	for (uint32_t i = 0; i < v->len; i++) {
		uint64_t address = trace_element(v, i).u;

		put_bytes(l, "\t", 1);
		put_colour(l, DIM);
		put_power(l, address, 4);
		put_colour(l, PLAIN);
		put_address_name(l, ev, address, i > 0);
		put_char(l, '\n');
	}
	if (v->fault != READ_WELL) {
		put_bytes(l, "\t", 1);
		put_fault(l, v);
		put_char(l, '\n');
	}
}

static void put_readable(struct line *l, const struct trace_event *ev)
{
	size_t i = 0, pos = 0, frames = 0;
	struct trace_value v;

	put_head(l, ev);
	while (trace_value(ev, &i, &pos, &v)) {
		if (v.field->kind == CTF_ADDRS)
			frames++;
		else if (i > 1 || !ev->class->has_faults || !is_said(ev, &v))
			put_field(l, &v);
	}
	put_char(l, '\n');
	for (i = pos = 0; frames && trace_value(ev, &i, &pos, &v);)
		if (v.field->kind == CTF_ADDRS)
			put_frames(l, ev, &v);
}

static void put_event(struct line *l, const struct trace_event *ev)
{
	if (l->style->json)
		put_json_event(l, ev);
	else
		put_readable(l, ev);
}

static void note_printed(struct trace_printed *p, int64_t ns)
{
	if (!p)
		return;
	if (!p->any)
		p->first = ns;
	p->any = true;
	p->last = ns;
}

static int flush_line(FILE *out, const struct line *l)
{
	size_t n = l->p - l->start;

	return fwrite_unlocked(l->start, 1, n, out) == n ? (int)n : -EIO;
}

int trace_print(FILE *out, const struct trace_event *ev, const struct trace_style *style)
{
	char small[2048];
	struct line l = { small, small + sizeof(small), small, false, style };
	size_t size = sizeof(small);
	int r;

	put_event(&l, ev);
	while (l.full) {
		if (l.start != small)
			free(l.start);
		size *= 4;
		l.start = l.p = xcalloc(1, size);
		l.end = l.p + size;
		l.full = false;
		put_event(&l, ev);
	}
	r = flush_line(out, &l);
	note_printed(style->printed, ev->ns);
	if (l.start != small)
		free(l.start);
	return r;
}

int trace_print_event(FILE *out, const struct trace_event *ev)
{
	static const struct trace_style plain;

	return trace_print(out, ev, &plain);
}
