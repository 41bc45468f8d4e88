/* SPDX-License-Identifier: MIT */
/*
 * Backtraces, prepared outside: the call frame information of a module as a compact table that code
 * inside the target can use without help. See unwind_table.h for the form.
 */
#ifndef JAB_SYM_UNWIND_H
#define JAB_SYM_UNWIND_H

#include "sym/sym.h"
#include "sym/unwind_table.h"

/*
 * The table of a module; NULL where nothing is known of its code. Made when first asked for; it
 * lives with the module. ret_lo and ret_hi are the code it is about, in link addresses.
 */
const struct unwind_data *module_unwind(struct module *m, uint64_t *ret_lo, uint64_t *ret_hi);

/*
 * The whole process as one piece of memory: directory and tables. The same module may be there more
 * than once (its table is not). Modules without a table are left out. The size is a multiple of 8,
 * never 0.
 *
 * Who wants to add a module later writes a new directory whose distances lead to old and new tables.
 */
struct unwind_place { struct module *module; uint64_t bias; };
size_t unwind_size(const struct unwind_place *places, size_t n);
void unwind_write(const struct unwind_place *places, size_t n, void *out);

#endif
