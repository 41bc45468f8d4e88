/* SPDX-License-Identifier: MIT */
/* Telling a trace which files are mapped where and what threads are called. */
#ifndef JAB_SESSION_NAMES_H
#define JAB_SESSION_NAMES_H

#include "session/session.h"

struct names;

int names_modules(struct jab *j, struct target *t);
int names_threads(struct jab *j, struct target *t);
void names_free(struct names *n);

#endif
