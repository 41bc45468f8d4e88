/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

static _Thread_local struct mem_frame *frame;
static _Thread_local void *reserve;
static _Thread_local size_t reserve_size;

void mem_enter(struct mem_frame *f, bool hold)
{
	f->outer = frame;
	f->hold = hold;
	frame = f;
}

void mem_leave(struct mem_frame *f)
{
	frame = f->outer;
}

bool mem_reserve(size_t size)
{
	void *more;

	if (reserve && reserve_size >= size)
		return true;
	more = malloc(size);
	if (!more)
		return false;
	free(reserve);
	reserve = more;
	reserve_size = size;
	return true;
}

void mem_drop_reserve(void)
{
	free(reserve);
	reserve = NULL;
}

void mem_exhausted(void)
{
	if (frame && !frame->hold)
		longjmp(frame->jmp, 1);
	fputs("jab: out of memory\n", stderr);
	abort();
}

/* Returns if the allocation should be tried again. */
static void no_memory(void)
{
	if (!reserve || !frame || !frame->hold)
		mem_exhausted();
	free(reserve);
	reserve = NULL;
}

void *xcalloc(size_t n, size_t size)
{
	void *p;

	while (!(p = calloc(n ? n : 1, size ? size : 1)))
		no_memory();
	return p;
}

void *xrealloc(void *p, size_t size)
{
	void *more;

	while (!(more = realloc(p, size ? size : 1)))
		no_memory();
	return more;
}

char *xstrdup(const char *s)
{
	return xstrndup(s, SIZE_MAX);
}

char *xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = xrealloc(NULL, len + 1);

	memcpy(copy, s, len);
	copy[len] = 0;
	return copy;
}

char *xvasprintf(const char *fmt, va_list ap)
{
	va_list again;
	char *s;
	int n;

	do {
		va_copy(again, ap);
		n = vasprintf(&s, fmt, again);
		va_end(again);
		if (n < 0)
			no_memory();
	} while (n < 0);
	return s;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}

struct stream { char **text; size_t *len, cap; };

static ssize_t stream_write(void *cookie, const char *bytes, size_t n)
{
	struct stream *s = cookie;

	if (s->cap - *s->len <= n) {
		size_t more = MAX(2 * s->cap, *s->len + n + 1);

		*s->text = xrealloc(*s->text, more);
		s->cap = more;
	}
	memcpy(*s->text + *s->len, bytes, n);
	*s->len += n;
	(*s->text)[*s->len] = 0;
	return n;
}

/* Only for ftell(): the position is always the end of the text. */
static int stream_seek(void *cookie, off64_t *at, int whence)
{
	const struct stream *s = cookie;

	if (whence == SEEK_SET ? *at != (off64_t)*s->len : *at != 0)
		return -1;
	*at = *s->len;
	return 0;
}

static int stream_close(void *cookie)
{
	free(cookie);
	return 0;
}

/* The C library's open_memstream() loses the text if there is no memory when the stream is closed. */
FILE *xmemstream(char **text, size_t *len)
{
	cookie_io_functions_t f = { .write = stream_write, .seek = stream_seek, .close = stream_close };
	struct stream *s = xcalloc(1, sizeof(*s));
	FILE *file;

	*s = (struct stream){ text, len, 64 };
	*text = xcalloc(1, s->cap);
	*len = 0;
	while (!(file = fopencookie(s, "w", f)))
		no_memory();
	return file;
}

void *vec_grow(void *v, size_t n, size_t *cap, size_t size)
{
	if (n == *cap) {
		size_t more = *cap ? *cap * 2 : 8;

		v = xrealloc(v, more * size);
		*cap = more;
	}
	memset((char *)v + n * size, 0, size);
	return v;
}
