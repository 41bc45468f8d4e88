/* SPDX-License-Identifier: MIT */
/*
 * Memory of the tracer itself. Running out of it ends the tracer with a message: for the target that is the same as
 * a killed tracer, and the undo record covers it (see `jab recover`).
 */
#ifndef JAB_BASE_MEM_H
#define JAB_BASE_MEM_H

#include <stddef.h>
#include <stdlib.h>

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Growing arrays. VEC(int) list = { 0 }; *vec_add(&list) = 7; for (i < list.n) list.v[i]; vec_add() appends a
 * zeroed element and returns its address; pointers into v are invalid after the next vec_add().
 */
#define VEC(T) struct { T *v; size_t n, cap; }
#define vec_add(vec) \
	((vec)->v = vec_grow((vec)->v, (vec)->n, &(vec)->cap, sizeof(*(vec)->v)), \
	 &(vec)->v[(vec)->n++])
#define vec_free(vec) (free((vec)->v), (vec)->v = NULL, (vec)->n = (vec)->cap = 0)

void *vec_grow(void *v, size_t n, size_t *cap, size_t size);

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
