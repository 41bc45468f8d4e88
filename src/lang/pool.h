/* SPDX-License-Identifier: MIT */
/* Memory that is freed all at once: nodes, names and texts of one script. Always zeroed. */
#ifndef JAB_LANG_POOL_H
#define JAB_LANG_POOL_H

#include <stdarg.h>
#include <stddef.h>

struct pool { struct pool_chunk *chunks; };

void *pool_alloc(struct pool *pool, size_t size);
char *pool_text(struct pool *pool, const char *s, size_t len);	/* with a NUL behind */
char *pool_printf(struct pool *pool, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void pool_free(struct pool *pool);

#define pool_new(pool, T) ((T *)pool_alloc(pool, sizeof(T)))

#endif
