/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_TYPED_H
#define JAB_SESSION_TYPED_H

#include "session/fields.h"
#include "sym/sym.h"

/* A field with FROM_NAME: what it is at a link address. `where` begins the sentence of an error. */
int typed_lookup(struct module *m, uint64_t pc, struct field *f, const char *where);

/* What a function returns, of the type that it has; unchanged where that is not known or no number. */
void typed_result(struct module *m, uint64_t entry, struct field *f);

/* The parameters of a function, or its return value, as far as they are known and numbers. */
void typed_parameters(struct module *m, uint64_t entry, bool is_exit, field_list *list);

#endif
