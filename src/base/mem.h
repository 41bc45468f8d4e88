/* SPDX-License-Identifier: MIT */
/*
 * Memory of the tracer itself. Functions that allocate return memory always; what happens if there is none depends on
 * the caller far above (api/api.h):
 *
 *	mem_try()	computes without touching a target: the stack is unwound to mem_try(), with a jump
 *	mem_hold()	targets may be stopped or half changed, so that nothing can be left out: the reserve is given back
 *			to malloc(), and the allocation is repeated
 *	neither		the process ends with a message. For a target that is the same as a killed tracer, and the undo
 *			record covers it (see `jab recover`)
 */
#ifndef JAB_BASE_MEM_H
#define JAB_BASE_MEM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap);
FILE *xmemstream(char **text, size_t *len);	/* as open_memstream(); it can't seek, but has ftell() */
__attribute__((noreturn)) void mem_exhausted(void);	/* for a library that has run out of memory: jumps to mem_try() or ends the process */

/*
 * A frame is the scope of a mem_try() or mem_hold() (hold: no jump). Each thread has its own innermost frame; mem_enter() makes f
 * the innermost, mem_leave() the one around it. A jump leaks memory that was allocated within the frame and is not yet
 * reachable from outside.
 */
struct mem_frame { jmp_buf jmp; struct mem_frame *outer; bool hold; };
void mem_enter(struct mem_frame *f, bool hold);
void mem_leave(struct mem_frame *f);
bool mem_reserve(size_t size);	/* makes sure that this thread has a reserve of `size` bytes; false: there is not enough memory */
void mem_drop_reserve(void);	/* before the thread ends */

/* The value of expr; or, after a jump, that of `otherwise`. */
#define mem_try(expr, otherwise) ({ \
	struct mem_frame frame_; \
	__typeof__(expr) value_; \
	mem_enter(&frame_, false); \
	if (setjmp(frame_.jmp) == 0) \
		value_ = (expr); \
	else \
		value_ = (otherwise); \
	mem_leave(&frame_); \
	value_; \
})

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
