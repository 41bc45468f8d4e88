/* SPDX-License-Identifier: MIT */
/* A DWARF expression while it is evaluated symbolically, with registers instead of values: dw_loc*.c. */
#ifndef JAB_SYM_DW_LOC_H
#define JAB_SYM_DW_LOC_H

#include "arch/regs.h"
#include "sym/types/types_priv.h"

#define MOST_STACK 64

/* The registers of the caller, as nodes. */
struct outer { uint16_t reg[CPU_REGS]; uint32_t known; };

/*
 * A value on the expression stack. sort is 0 for a plain 64-bit value, which most expressions use; otherwise the
 * value has a type and is kept extended from its size.
 */
#define SORT_SIGNED 0x10
struct loc_item { uint16_t node; uint8_t sort; };	/* sort: size in bytes | SORT_SIGNED */

struct symbolic {
	struct types *t;
	Dwarf_Die *func;
	uint64_t pc, size;
	bool at_entry;
	int nested;
	const struct outer *outer;	/* set: evaluated in the caller's frame, at its call */
	Dwarf_Attribute *attr;
	const char *why;	/* set: evaluation failed, for this reason */
	VEC(struct loc_node) nodes;
	VEC(struct loc_piece) pieces;
	struct loc_item stack[MOST_STACK];
	int depth;
	/* result of the last operations, until DW_OP_piece or the end */
	enum { IS_NONE, IS_REGISTER, IS_VALUE, IS_BYTES } is;
	uint64_t reg;
	const uint8_t *bytes;
	uint64_t nbytes;
};

void loc_give_up(struct symbolic *s, const char *why);
uint16_t loc_make(struct symbolic *s, uint8_t op, uint16_t a, uint16_t b, int64_t imm);
struct loc_node loc_at(struct symbolic *s, uint16_t n);
void loc_push(struct symbolic *s, uint16_t n);
void loc_push_sort(struct symbolic *s, uint16_t n, uint8_t sort);
uint16_t loc_pop(struct symbolic *s);
struct loc_item loc_pop_item(struct symbolic *s);
uint16_t loc_plus(struct symbolic *s, uint16_t a, int64_t c);	/* a + c in the simplest form */
void loc_push_reg(struct symbolic *s, uint64_t reg, int64_t off);	/* DWARF's number */
void loc_push_cfa(struct symbolic *s);
void loc_run(struct symbolic *s, const Dwarf_Op *ops, size_t n);

/* dw_loc_math.c */
bool loc_arithmetic(struct symbolic *s, const Dwarf_Op *op);	/* false: op is not arithmetic */
void loc_convert(struct symbolic *s, const Dwarf_Op *op);	/* converts the last value to the type that op names */

/* dw_loc_entry.c */
void loc_push_entry(struct symbolic *s, const Dwarf_Op *op);
bool loc_is_kept(struct symbolic *s, uint16_t address);	/* whether what a caller says of this memory is still true */

#endif
