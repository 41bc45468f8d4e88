/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_TLS_H
#define JAB_SESSION_TLS_H

#include "session/session.h"

/* Who asks: a program for a site in this module of this target. asked: the answer is good for this target only. */
struct tls_asker { struct jab *j; uint32_t target, loaded; bool asked; };

/*
 * Where thread-local variables are, as a distance from the thread pointer: the block of the asker's module, or for
 * a symbol ("errno") the variable itself, of the program or its libc. -ENOTSUP with a sentence that goes on
 * "... is thread-local, and".
 */
int tls_find(void *asker, const char *symbol, int64_t *ret_off);

/* constants.c: the live address of a variable of the asker's process, in any of its files; without a symbol that of `value` */
int object_find(void *asker, const char *symbol, uint64_t value, uint64_t *ret_at);

#endif
