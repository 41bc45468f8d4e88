/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_TYPED_H
#define JAB_SESSION_TYPED_H

#include "session/events/fields.h"
#include "sym/sym.h"

/* A field with FROM_NAME: what it is at a link address. `where` begins the sentence of an error. */
int typed_lookup(struct module *m, uint64_t pc, struct field *f, const char *where);

/* Many functions at once: nobody wants to wait for all their names. */
#define MOST_NAMED 100

/*
 * What a function returns, of the type that it has; unchanged where that is not known. A sentence if it is no number.
 * 1: the compiler may have changed how the function is called.
 */
int typed_result(struct module *m, uint64_t entry, struct field *f, const char *where);
bool typed_result_is_more(struct module *m, uint64_t entry, const struct field *f);	/* than the place that f reads holds */
bool typed_has_text(struct module *m, uint64_t entry);	/* a parameter is text: const char *, std::string, &str ... */
bool typed_has_function(struct module *m, uint64_t entry);	/* is anything known of it? */

/* The parameters of a function, or its return value, as far as they are known and numbers. false: they may be wrong. */
bool typed_parameters(struct module *m, uint64_t entry, bool is_exit, field_list *list);

#endif
