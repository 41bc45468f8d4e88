/* SPDX-License-Identifier: MIT */
/*
 * Events as text, one line each:
 *
 *	1234.567890123 [001] 77/78 libc:malloc size=24 name="a\n"
 *
 * Numbers are formatted by hand: printing is where the time of `jab view` goes.
 */
#include <errno.h>
#include <stdio.h>

#include "trace/trace.h"

static const char pairs[] =
	"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
	"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
	"8081828384858687888990919293949596979899";

/* Room for one event: each byte of payload may become four characters; each field has a name. */
struct line {
	char *p, *end;
	char *start;
	bool full;
};

static inline void put_bytes(struct line *l, const char *s, size_t n)
{
	if ((size_t)(l->end - l->p) < n) {
		l->full = true;
		return;
	}
	memcpy(l->p, s, n);
	l->p += n;
}

static inline void put_char(struct line *l, char c)
{
	put_bytes(l, &c, 1);
}

static void put_decimal(struct line *l, uint64_t v)
{
	char digits[20], *p = digits + sizeof(digits);

	for (; v >= 100; v /= 100)
		memcpy(p -= 2, pairs + v % 100 * 2, 2);
	if (v >= 10)
		memcpy(p -= 2, pairs + v * 2, 2);
	else
		*--p = '0' + v;
	put_bytes(l, p, digits + sizeof(digits) - p);
}

/* With zeros in front, to this width. */
static void put_padded(struct line *l, uint32_t v, unsigned int width)
{
	char digits[9];

	for (unsigned int i = width; i-- > 0; v /= 10)
		digits[i] = '0' + v % 10;
	put_bytes(l, digits, width);
}

/* Hexadecimal or octal, with its prefix. */
static void put_power(struct line *l, uint64_t v, unsigned int shift)
{
	char digits[26], *p = digits + sizeof(digits);

	do {
		*--p = "0123456789abcdef"[v & ((1u << shift) - 1)];
		v >>= shift;
	} while (v);
	if (shift == 4)
		*--p = 'x';
	if (shift == 4 || *p != '0')
		*--p = '0';
	put_bytes(l, p, digits + sizeof(digits) - p);
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

/* Plain characters in runs; the others one by one. */
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

static void put_hex(struct line *l, const uint8_t *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		put_char(l, "0123456789abcdef"[s[i] >> 4]);
		put_char(l, "0123456789abcdef"[s[i] & 15]);
	}
}

static void put_float(struct line *l, double f, unsigned int bits)
{
	char text[40];
	int n = snprintf(text, sizeof(text), "%.*g", bits == 32 ? 9 : 17, f);

	put_bytes(l, text, n);
}

/* A signed number in another base shows its own bits, not all 64. */
static void put_integer(struct line *l, const struct trace_value *v)
{
	const struct ctf_field *f = v->field;

	if (f->base == 16 || f->base == 8) {
		put_power(l, f->bits == 64 ? v->u : v->u & ((1ull << f->bits) - 1), f->base == 16 ? 4 : 3);
	} else if (f->kind == CTF_SIGNED && v->i < 0) {
		put_char(l, '-');
		put_decimal(l, -(uint64_t)v->i);
	} else {
		put_decimal(l, v->u);
	}
}

static void put_value(struct line *l, const struct trace_value *v)
{
	switch (v->field->kind) {
	case CTF_FLOAT:
		put_float(l, v->f, v->field->bits);
		break;
	case CTF_STRING:
		put_char(l, '"');
		put_text(l, v->bytes, v->len);
		put_char(l, '"');
		break;
	case CTF_BYTES:
		put_hex(l, v->bytes, v->len);
		break;
	default:
		put_integer(l, v);
	}
}

static void put_head(struct line *l, const struct trace_event *ev)
{
	uint64_t ns = ev->ns < 0 ? -(uint64_t)ev->ns : (uint64_t)ev->ns;

	if (ev->ns < 0)
		put_char(l, '-');
	put_decimal(l, ns / NS_PER_S);
	put_char(l, '.');
	put_padded(l, ns % NS_PER_S, 9);
	put_bytes(l, " [", 2);
	if (ev->cpu < 1000)
		put_padded(l, ev->cpu, 3);
	else
		put_decimal(l, ev->cpu);
	put_bytes(l, "] ", 2);
	put_decimal(l, ev->pid);
	put_char(l, '/');
	put_decimal(l, ev->tid);
	put_char(l, ' ');
	put_text(l, (const uint8_t *)ev->class->name, strlen(ev->class->name));
}

static void put_event(struct line *l, const struct trace_event *ev)
{
	size_t i = 0, pos = 0;
	struct trace_value v;

	put_head(l, ev);
	while (trace_value(ev, &i, &pos, &v)) {
		put_char(l, ' ');
		put_bytes(l, v.field->name, strlen(v.field->name));
		put_char(l, '=');
		put_value(l, &v);
	}
	put_char(l, '\n');
}

static int flush_line(FILE *out, const struct line *l)
{
	size_t n = l->p - l->start;

	return fwrite_unlocked(l->start, 1, n, out) == n ? 0 : -EIO;
}

int trace_print_event(FILE *out, const struct trace_event *ev)
{
	char small[2048];
	struct line l = { small, small + sizeof(small), small, false };
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
	if (l.start != small)
		free(l.start);
	return r;
}
