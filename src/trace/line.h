/* SPDX-License-Identifier: MIT */
/*
 * A line of output. Numbers are formatted without printf: printing takes most of the time of `jab view`. A line
 * that gets too long is marked as full and made again with more room.
 */
#ifndef JAB_TRACE_LINE_H
#define JAB_TRACE_LINE_H

#include "trace/trace.h"

struct line {
	char *p, *end;
	char *start;
	bool full;
	const struct trace_style *style;
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

static inline void put_word(struct line *l, const char *s)
{
	put_bytes(l, s, strlen(s));
}

/* line.c */
void put_decimal(struct line *l, uint64_t v);
void put_signed(struct line *l, int64_t v);
void put_padded(struct line *l, uint32_t v, unsigned int width);	/* padded with zeros */
void put_power(struct line *l, uint64_t v, unsigned int shift);	/* hexadecimal or octal, with its prefix */
void put_hex(struct line *l, const uint8_t *s, size_t n);
void put_float(struct line *l, double f, unsigned int bits);

int64_t shown_ns(const struct trace_style *style, const struct trace_event *ev);	/* print.c: its time, as the style wants it */

/* json.c */
void put_json_event(struct line *l, const struct trace_event *ev);

#endif
