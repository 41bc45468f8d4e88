/* SPDX-License-Identifier: MIT */
/* One tracepoint with every kind of field, in C and C++ alike, and what has to be told of each (tests/e2e/test_tracepoint.py). */
#include <jab/tracepoint.h>

enum color { RED, GREEN = 5, BLUE = -1 };
struct point {
	short x;
	double y;
	const char *label;
	enum color color;
};
struct line {
	struct point from, to;
	char name[8];
	unsigned widths[3];
};

JAB_TRACEPOINT_ENUM(color, RED, GREEN, BLUE);
JAB_TRACEPOINT_STRUCT(point, struct point, ("x", x), ("y", y), ("label", label), ("color", color, JAB_ENUM(color)));
JAB_TRACEPOINT_STRUCT(line, struct line, ("from", from, JAB_STRUCT(point)), ("to", to, JAB_STRUCT(point)), ("name", name),
	("widths", widths));

/* In a header: a copy in each file that calls it, or one for all. */
static inline int from_header(int x)
{
	JAB_TRACEPOINT(every, inlined, ("x", x));
	return x + 1;
}
