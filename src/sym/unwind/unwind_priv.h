/* SPDX-License-Identifier: MIT */
/* Shared by the makers of unwind tables: several sources of rules add them, in order of address, to one writer. */
#ifndef JAB_SYM_UNWIND_PRIV_H
#define JAB_SYM_UNWIND_PRIV_H

#include "arch/arch.h"
#include "sym/priv.h"
#include "sym/unwind/unwind.h"

/* unwind.c: collects rows. Addresses must not go backwards; of several rules for one address the last one counts. */
struct row_writer;
void row_add(struct row_writer *w, uint64_t addr, const struct unwind_rule *rule);

/* unwind_cfi.c: where a register of the caller is */
enum cfi_how { CFI_SAME, CFI_AT_CFA, CFI_AT_FP, CFI_IN_REG, CFI_UNDEFINED, CFI_OTHER };
struct cfi_place { uint8_t how; int64_t n; };

/* The state of the call frame instructions. Registers have DWARF's numbers. */
struct cfi_state {
	uint8_t kind;		/* kind of the CFA: enum unwind_kind */
	uint64_t reg;
	int64_t off, add;
	struct cfi_place ra, fp, extra, sp;
};

void cfi_start(const struct arch *arch, const struct frame_cie *cie, struct cfi_state *ret);
void cfi_run(const struct arch *arch, const struct frame_fde *fde, const struct cfi_state *start, struct row_writer *w);

/* unwind_gaps.c: code without an FDE, [lo, hi) */
void gap_rows(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w);
bool sigreturn_row(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w);	/* if it is a signal return */

/* Finds the code that ends a signal handler, from offset *off on; false: there is no more. */
bool find_sigreturn(const struct arch *a, const uint8_t *code, size_t n, size_t *off, size_t *ret_len);
size_t func_from(const struct module *m, uint64_t addr);	/* the first function at or after addr */

/* unwind_code.c: the height of the stack at a function's first instruction, and the rule where it is so high */
struct stack_height height_at_entry(const struct arch *a);
struct unwind_rule rule_of_height(const struct arch *a, const struct stack_height *h);

/* rows for [lo, hi) from the instructions; false where that is too much code */
bool code_rows(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w);

/* unwind_go.c: rows for [lo, hi) from Go's own table; false where it has none */
bool go_rows(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w);

#endif
