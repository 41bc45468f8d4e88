/* SPDX-License-Identifier: MIT */
/* The interpreter's own parts. */
#ifndef JAB_LANG_INTERP_RUN_H
#define JAB_LANG_INTERP_RUN_H

#include "lang/interp.h"

struct slot { uint8_t *p; uint32_t len; };

/* A walk over a map works on a copy: the loop may delete what it sees. */
struct row { struct bytes key, value; num agg; };
struct each { VEC(struct row) rows; };

struct run {
	struct interp *in;
	const struct ir_prog *p;
	struct interp_site *site;
	num *regs;
	struct slot *slots;
	uint64_t faults;
	uint64_t fault_addr[64];
	uint64_t *rounds;		/* by label, of open loops */
	struct each *each;		/* by label */
	uint32_t *places;		/* index of each label's instruction; loops: of their end */
	uint32_t *heads;
	size_t pc;
};

/* interp_math.c */
void interp_error(struct run *r, const struct ir_ins *i, enum ir_error e);
uint64_t interp_wrap(uint8_t type, uint64_t v);		/* cut to type and extended again */
bool interp_compute(struct run *r, const struct ir_ins *i);	/* false: it is something else */

#endif
