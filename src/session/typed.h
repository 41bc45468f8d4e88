/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_TYPED_H
#define JAB_SESSION_TYPED_H

#include "session/fields.h"
#include "sym/sym.h"

/* A field with FROM_NAME: what it is at a link address. `where` begins the sentence of an error. */
int typed_lookup(struct module *m, uint64_t pc, struct field *f, const char *where);

/* The parameters of a function, or its return value, as far as they are known and numbers. */
void typed_parameters(struct module *m, uint64_t entry, bool is_exit, field_list *list);

#endif
