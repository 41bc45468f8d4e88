/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_WALK_H
#define JAB_SESSION_WALK_H

#include "session/session.h"

struct walk_tables;

struct walk_tables *walk_prepare(struct jab *j, struct target *t);
size_t walk_size(const struct walk_tables *w);
void walk_write(const struct walk_tables *w, void *out);
void walk_free(struct walk_tables *w);

#endif
