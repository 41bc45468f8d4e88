/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *must(void *p)
{
	if (!p) {
		fputs("jab: out of memory\n", stderr);
		abort();
	}
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t size)
{
	return must(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
	return must(strdup(s));
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return must(n < 0 ? NULL : s);
}

void *vec_grow(void *v, size_t n, size_t *cap, size_t size)
{
	if (n == *cap) {
		*cap = *cap ? *cap * 2 : 8;
		v = xrealloc(v, *cap * size);
	}
	memset((char *)v + n * size, 0, size);
	return v;
}
