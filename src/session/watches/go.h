/* SPDX-License-Identifier: MIT */
/* Bodies on the stacks of goroutines. */
#ifndef JAB_SESSION_GO_H
#define JAB_SESSION_GO_H

#include <stddef.h>
#include <stdint.h>

struct jab;
struct site;

/* The most that a program may take of the stack there, 0 for no such limit; and leaving sites out where it can't be done. */
int go_stack(const struct jab *j, const struct site *s);
void go_refuse(struct jab *j);

/* Where a thread of Go's has the address of g, if the function of this site is Go's; 0: not, or not known. */
int32_t go_g_off(const struct jab *j, const struct site *s);

enum go_body { GO_COUNT, GO_PROGRAM };

/* Bytes in front of each body of a site, 0: none; and what stands there. Hits without enough stack count `instead`. */
size_t go_space(const struct jab *j, const struct site *s);
void go_put_space(const struct jab *j, const struct site *s, enum go_body kind, uint64_t instead, size_t body, uint8_t *out);

#endif
