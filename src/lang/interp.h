/* SPDX-License-Identifier: MIT */
/*
 * Executes programs one instruction at a time. It is the judge of what a program means, and runs the
 * clauses that live in the tracer. Nothing here is fast.
 */
#ifndef JAB_LANG_INTERP_H
#define JAB_LANG_INTERP_H

#include "arch/regs.h"
#include "lang/ir.h"
#include "lang/store.h"

#define INTERP_SAVED 32

/* The moment that a program runs at. */
struct interp_site {
	uint64_t regs[CPU_REGS + 2];	/* as IR_REG numbers them */
	uint64_t vectors[CPU_VECTORS];	/* low lanes */
	uint64_t ctx[IR_CTX_END];	/* by enum ir_ctx */
	const char *comm;
	uint64_t saved[INTERP_SAVED];	/* between the entry and the exit program of a call */
	uint64_t faults;		/* of the entry program, for the exit program */
};

struct interp {
	const struct ir_unit *unit;
	const struct map_ops *ops;
	void *store;
	uint64_t errors[IR_ERRORS];
	uint64_t *cells;		/* unit->ncells */
	bool exited;
	int64_t exit_status;
	/* Of the caller. read: false is a fault; a NULL one always fails. */
	void *data;
	bool (*read)(void *data, uint64_t addr, void *buf, size_t len);
	uint64_t (*stack)(void *data, uint32_t frames);
	void (*emit)(void *data, uint32_t record, const uint8_t *payload, size_t len);
	void (*enable)(void *data, uint32_t clause, bool on);
	void (*moment)(void *data, struct interp_site *at);	/* NSECS, ELAPSED and RAND as they are now; NULL: as they stand */
};

/* Returns the value of IR_RET (1 if it has none), -EINVAL if the program makes no sense. */
int64_t interp_run(struct interp *in, const struct ir_prog *p, struct interp_site *site);

#endif
