/* SPDX-License-Identifier: MIT */
/*
 * Backtraces, prepared in the tracer: the call frame information of a module as a compact table that code inside
 * the target can use without other help. See unwind_table.h for the format.
 */
#ifndef JAB_SYM_UNWIND_H
#define JAB_SYM_UNWIND_H

#include "sym/sym.h"
#include "sym/unwind/unwind_table.h"

/*
 * Returns the table of a module; NULL if nothing is known of its code. The table is made at the first call and
 * lives with the module. ret_lo and ret_hi: the code it covers, in link addresses.
 */
const struct unwind_data *module_unwind(struct module *m, uint64_t *ret_lo, uint64_t *ret_hi);

/*
 * All modules of a process as one piece of memory: directory and tables. A module may be listed more than once (its
 * table is written once). Modules without a table are left out. The size is a multiple of 8, never 0.
 *
 * To add a module later, a new directory is written whose distances lead to the old and the new tables.
 */
struct unwind_place { struct module *module; uint64_t bias; };
size_t unwind_size(const struct unwind_place *places, size_t n);
void unwind_write(const struct unwind_place *places, size_t n, void *out);

#endif
