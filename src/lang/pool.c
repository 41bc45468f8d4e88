/* SPDX-License-Identifier: MIT */
#include "lang/pool.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"

#define CHUNK 8192

struct pool_chunk {
	struct pool_chunk *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

static struct pool_chunk *add_chunk(struct pool *pool, size_t size)
{
	struct pool_chunk *c = xcalloc(1, sizeof(*c) + size);

	c->size = size;
	c->next = pool->chunks;
	pool->chunks = c;
	return c;
}

void *pool_alloc(struct pool *pool, size_t size)
{
	struct pool_chunk *c = pool->chunks;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (!c || c->size - c->used < size)
		c = add_chunk(pool, MAX(size, CHUNK));
	p = c->bytes + c->used;
	c->used += size;
	return p;
}

char *pool_text(struct pool *pool, const char *s, size_t len)
{
	char *copy = pool_alloc(pool, len + 1);

	if (len)
		memcpy(copy, s, len);
	return copy;
}

char *pool_printf(struct pool *pool, const char *fmt, ...)
{
	va_list ap;
	char *s, *copy;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	copy = pool_text(pool, s, strlen(s));
	free(s);
	return copy;
}

void pool_free(struct pool *pool)
{
	struct pool_chunk *c, *next;

	for (c = pool->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	pool->chunks = NULL;
}
