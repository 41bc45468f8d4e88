/* SPDX-License-Identifier: MIT */
/*
 * Shared by the implementation of code.h. A function is analysed in two steps. "Raw" is what its own bytes say:
 * instructions, direct branches, the branches that leave it. "Linked" adds what comes from elsewhere: its cold
 * parts, tables, pointers, landing pads; after that exits, filler and doubt can be determined. Only linked bodies
 * are returned. The raw step never needs another body, so linking can't recurse without end.
 */
#ifndef JAB_PAD_CODE_PRIV_H
#define JAB_PAD_CODE_PRIV_H

#include "pad/code.h"

#define NO_FUNC SIZE_MAX
#define NO_INSN UINT32_MAX

typedef VEC(uint64_t) addr_list;

/* A branch out of a body: a direct one, or (kind INSN_JMP_IND) an entry of its jump table. */
struct out_edge { uint64_t from, to; uint8_t kind; };

enum indirect { IND_TAIL, IND_TABLE, IND_LOST };	/* leaves the function; stays inside; stays inside, target unknown */
struct ind_jump { uint64_t addr; uint8_t what; };

struct body {
	struct fcode f;		/* must be first: a struct fcode returned by code.h is the start of a struct body */
	const uint8_t *bytes;	/* of [f.lo, f.hi) */
	uint32_t *at;		/* offset of each instruction from f.lo */
	size_t num;		/* index in m->funcs */
	bool linked, tables_done;
	VEC(struct out_edge) outs;
	VEC(struct ind_jump) inds;
	addr_list stays;	/* jumps to thunks, and returns of thunks, that don't leave; sorted */
	addr_list leas;		/* addresses taken with lea, for tables */
	VEC(uint32_t) parts;	/* functions that form one with this: its cold parts; of a cold part also its owners */
	VEC(struct span) filler;
	VEC(struct span) orphans;	/* blocks that no known branch reaches, ascending */
};

/* A branch found by the scan of the whole text; its bytes may be in the middle of another instruction. */
enum edge_state { EDGE_UNKNOWN, EDGE_REAL, EDGE_FALSE };
struct cross_edge { uint64_t to, from; uint8_t state; };
struct extra_target { uint64_t addr; uint8_t why; };

struct code_priv {
	struct body **bodies;	/* one slot per function */
	uint64_t entered_at_call;	/* address of that function of the run time; 0: there is none */
	addr_list pointers;	/* words in data that point into text, sorted */
	bool have_pointers;
	VEC(struct cross_edge) cross; /* sorted by to */
	bool have_cross;
	VEC(struct extra_target) extra; /* sorted by addr */
	uint16_t *cells;	/* of a plan that is done, all zero, for the next one; NULL: none */
	size_t cells_size;
};

static inline struct code_priv *priv(struct code *c)
{
	return c->priv;
}

/* code.c */
size_t code_find(struct code *c, uint64_t addr);	/* number of the function that contains addr */
uint64_t code_func_end(struct code *c, size_t num);
size_t code_starts_up_to(struct code *c, uint64_t addr); /* how many functions begin at or below it */
uint64_t code_next_start(struct code *c, uint64_t addr); /* first start >= addr, or UINT64_MAX */
const struct segment *code_text_at(struct code *c, uint64_t addr);
struct body *code_raw(struct code *c, size_t num);
struct body *code_linked(struct code *c, size_t num);
void code_forget(struct code *c, size_t num);
void body_mark(struct body *b, uint64_t addr, enum target_why why);

static inline bool body_holds(const struct body *b, uint64_t addr)
{
	return addr >= b->f.lo && addr < b->f.end;
}

/* code_target.c */
const addr_list *code_pointers(struct code *c);
void addr_sort(addr_list *list);	/* and removes duplicates */
size_t addr_lower(const addr_list *list, uint64_t addr); /* first element >= addr */
void code_mark_extra(struct code *c, struct body *b);

/* code_link.c */
void code_link(struct code *c, struct body *b);

/* code_tables.c */
void code_find_tables(struct code *c, struct body *b);
enum indirect code_jump_by(struct code *c, struct body *b, uint32_t insn, int reg);

/* code_thunk.c */
void code_find_thunks(struct code *c, struct body *b);

/* code_cross.c */
void code_scan_text(struct code *c);
size_t cross_lower(struct code *c, uint64_t addr);
bool cross_confirm(struct code *c, size_t edge);

#endif
