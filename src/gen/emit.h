/* SPDX-License-Identifier: MIT */
/*
 * What the files of the back end share. Code is written once from top to bottom by the assembler (arch/asm.h), which
 * names registers by role; what is rarely run (cold parts, constants) is noted and written behind the end, or into a hole in
 * the middle (g_cold_unless()).
 *
 * THE FRAME, from SP:	[ring, registers kept over calls, what float_enter saves,]
 *			words for the operands of calls, words of registers of the program, flags, C, B, A
 *
 * Those at its top come first, and before all else is touched it is known that there is stack for it (door.c).
 *
 * A register of the program that is written once, by a constant or by what a machine register holds at
 * the site, has no word: it is used as it is. Work is done in A, B, C, V0 and V1, the only
 * ones that change; so all other machine registers hold the site's values at any time.
 */
#ifndef JAB_GEN_EMIT_H
#define JAB_GEN_EMIT_H

#include "arch/arch.h"
#include "arch/asm.h"
#include "arch/rseq.h"
#include "blob/program.h"
#include "gen/gen.h"
#include "gen/maps.h"

enum home { HOME_NONE, HOME_IMM, HOME_REG, HOME_WORD };

struct place {
	uint8_t home;
	uint8_t reg;
	bool fixed;		/* a constant that is the same at all sites */
	int32_t off;		/* from SP */
	int64_t imm;
};

/* Of a call's duration: A is that, or C its highest bit and HAND_BIT. */
enum at_hand { NOT_AT_HAND, AT_HAND, BIT_AT_HAND };
#define HAND_BIT 32

struct gen;

/* A part of the code that is written behind the end. */
struct cold {
	void (*put)(struct gen *g, struct cold *c);
	asm_label here;		/* where it begins, unless it binds that further down; */
	asm_label then;		/* and where it goes on */
	struct asm_sequence seq;
	uint64_t n[4];
	const void *p;
};

struct gen {
	const struct arch *arch;
	const struct ir_unit *u;
	const struct ir_prog *p;
	const struct gen_env *env;
	const struct gen_site *site;
	const struct maps_layout *layout;
	struct assembler a;
	struct place *places;	/* by register of the program */
	uint32_t *reads;	/* how often each is read */
	uint32_t *defs;
	asm_label *labels;	/* of the program's; g_label() */
	asm_label *heads;	/* of loops */
	int32_t *rounds;	/* of loops: word that counts */
	VEC(struct cold) cold;
	asm_label to_out;	/* the way out, */
	asm_label to_early;	/* the short way out, */
	asm_label to_end;	/* and behind the code */
	VEC(struct { asm_label label; uint64_t value; }) constants;	/* of the door */
	bool b_used;		/* at the door */
	VEC(struct { asm_label description; const struct ir_ins *i; }) ops;	/* calls that want theirs */
	uint64_t bits;		/* faults that may have happened */
	uint64_t entry_bits;	/* at the exit of a call: those that only its entry can have had */
	uint32_t acc;		/* register of the program that A holds; IR_NONE */
	size_t now;		/* instruction */
	int32_t frame;		/* bytes */
	int32_t head;		/* of it: where those words are that the door writes */
	int32_t ring, keep, fp;	/* if there are calls, floats */
	int32_t pair;		/* if calls of functions are paired */
	enum at_hand at_hand;	/* at the exit of a call */
	size_t hole;		/* for the cold parts; 0: there is none */
	size_t hole_size;	/* once it is known how long it must be */
	size_t hot;		/* length of all but the cold parts */
	int32_t out;		/* words for operands of calls */
	uint32_t nout;
	bool calls, heavy, floats, stacks;
	int32_t below;		/* what is called needs so much stack */
	asm_label routine[2];	/* local subroutine: light, heavy; 0: not wanted */
	uint32_t *slots;	/* where each slot is: offset in scratch memory */
	uint64_t *texts;	/* constants: where they stand in the code */
	uint32_t area;		/* in scratch memory: where operations work */
	uint32_t scratch;	/* bytes of scratch memory */
	int error;
};

/* words of a call probe, at its entry and at its exits; what is saved is behind them */
enum { PAIR_KEY, PAIR_COUNT };
enum { PAIR_NS, PAIR_FAULTS };

/* words of the head */
#define FRAME_FLAGS(g) ((g)->head)
#define FRAME_C(g) ((g)->head + 8)
#define FRAME_B(g) ((g)->head + 16)
#define FRAME_A(g) ((g)->head + 24)
#define HEAD_SIZE 32
#define ASK_SIZE 16		/* below it, only while the door asks for stack */

bool g_is_work(enum asm_reg r);				/* the door saves it: A, B, C */
int32_t g_work_word(const struct gen *g, enum asm_reg r);	/* where */
int32_t g_site_sp(const struct gen *g);			/* the site's stack pointer, from ours */

/* Stack that is needed below the frame, with return addresses. */
#define BELOW_FLAGS 8
#define BELOW_EVENT 88
#define BELOW_BLOB 24		/* the local routine and the flags; the blob's own need is measured when it is built */

/* code.c */
#define ins(g, op, ...) ((g)->a.ops->op(&(g)->a, ##__VA_ARGS__))	/* an operation of the assembler: arch/asm.h */
asm_label g_label(struct gen *g, uint32_t label);	/* of a label of the program */
void g_move_sp(struct gen *g, int32_t by);
void g_in_page(struct gen *g, int32_t off, uint32_t n);
void g_count(struct gen *g, enum asm_reg reg, uint64_t counter);	/* one more there, whoever else counts; reg changes */
bool g_ids_are_theirs(const struct gen *g, const struct ir_ins *i);
struct cold *g_cold(struct gen *g, void (*put)(struct gen *, struct cold *));
void g_cold_unless(struct gen *g, enum asm_cond cc, struct cold *c);	/* go on if cc; c is the last that was noted */
void g_error(struct gen *g, const struct ir_ins *i, enum ir_error e);	/* count it; A stays */

/* operands */
void g_load(struct gen *g, enum asm_reg reg, uint32_t r);	/* reg = register of the program */
void g_store(struct gen *g, uint32_t r);		/* register of the program = A */
void g_set(struct gen *g, uint32_t r);			/* likewise, unless the next instruction takes it from A */
void g_load_word(struct gen *g, enum asm_reg reg, int32_t off);
void g_store_word(struct gen *g, enum asm_reg reg, int32_t off);
void g_zero_word(struct gen *g, int32_t off);
void g_load_f(struct gen *g, enum asm_vec v, uint32_t r);
void g_store_f(struct gen *g, enum asm_vec v, uint32_t r);
bool g_is_imm32(const struct gen *g, uint32_t r, int32_t *ret);
void g_arg(struct gen *g, const struct ir_arg *a, int32_t off);	/* word at off = a number */

/* analyse.c */
int g_analyse(struct gen *g);
int32_t g_stack(const struct gen *g);	/* bytes below the site's stack pointer; once that was done */
void g_analysis_free(struct gen *g);

/* door.c */
size_t g_door(struct gen *g);		/* to the frame; returns the instruction to go on with */
void g_early(struct gen *g);		/* the short way out, which ends at the end of the code */
void g_load_head(struct gen *g);	/* what the door has stored, with the flags; and the stack pointer */

/* each puts the instruction, or says that it isn't its own */
bool g_compute(struct gen *g, const struct ir_ins *i);		/* compute.c */
void g_wrap(struct gen *g, uint8_t type);			/* A is cut to a type and extended again */
bool g_load_memory(struct gen *g, const struct ir_ins *i);	/* loads.c */
enum asm_cond g_condition(const struct ir_ins *i);		/* of a comparison: what holds */
bool g_float(struct gen *g, const struct ir_ins *i);		/* floats.c */
bool g_site(struct gen *g, const struct ir_ins *i);		/* site.c */
void g_clock(struct gen *g, uint64_t since);			/* A = ns; B and C change */
void g_join(struct gen *g);					/* A = C << 32 | A */
void g_ns(struct gen *g);					/* A: ticks -> ns; likewise */
bool g_control(struct gen *g, const struct ir_ins *i);		/* control.c */
bool g_action(struct gen *g, const struct ir_ins *i);		/* action.c */
bool g_is_plain_event(const struct gen *g, const struct ir_ins *i);
bool g_map(struct gen *g, const struct ir_ins *i);		/* aggs.c */
void g_highest_bit(struct gen *g);				/* of A: C; -1 of 0 */
bool g_wants_bit(const struct gen *g, const struct ir_ins *i);	/* of its value, nothing else */
const struct map_place *g_map_place(const struct gen *g, uint32_t map);
uint32_t g_agg_words(const struct gen *g, const struct ir_ins *i);
asm_label g_agg_key(struct gen *g, const struct ir_ins *i, int32_t offset);	/* keys.c: a label for the aggregation's end */
enum { AGG_KEY_OFFSET, AGG_KEY_END };
bool g_call(struct gen *g, const struct ir_ins *i);		/* calls.c */
bool g_pair(struct gen *g, const struct ir_ins *i);		/* pairs.c */
void g_pair_start(struct gen *g);
void g_pair_enter(struct gen *g, const struct ir_ins *ret);
void g_pair_forget(struct gen *g);
void g_pair_leave(struct gen *g);
void g_pair_duration(struct gen *g);
bool g_is_duration(const struct gen *g, uint32_t r);		/* of a call: not negative */
uint32_t g_pair_words(const struct gen *g);
uint32_t g_pair_word(const struct gen *g, uint32_t n);	/* of saved value n */
/* left.c: calls that are left without a return */
enum { LEFT_SP = 8, LEFT_HOW = 16 };		/* from the stack pointer of who has called the routine */
int32_t g_left_word(const struct gen *g, int32_t off);
void g_left_unseen(struct gen *g, struct cold *c);
void g_left_mark(struct gen *g);		/* B: slot, C: its new key; A and C change */
void g_routines(struct gen *g);
void g_heavy(struct gen *g, const struct ir_ins *i);	/* the call alone: operands are there */
void g_descriptions(struct gen *g);
int32_t g_event_word(const struct gen *g, const struct ir_ins *i, uint32_t k);	/* of field k of an event by call */
bool g_is_heavy(const struct gen *g, const struct ir_ins *i);
bool g_is_call(const struct gen *g, const struct ir_ins *i);

/* describe.c */
uint32_t g_event_len(const struct gen *g, const struct ir_ins *i);	/* the most it can have */
bool g_fits_ring(struct gen *g, uint32_t len);
bool g_reads_agg(const struct gen *g, const struct ir_ins *i);	/* or deletes it */
struct prog_agg g_describe_agg(const struct gen *g, const struct ir_ins *i);
uint32_t g_describe_load(const struct gen *g, const struct ir_ins *i, struct prog_op *d, struct prog_ahead *ret_ahead);
void g_describe_stack(const struct gen *g, const struct ir_ins *i, struct prog_op *d);

/* What can't be done here: remembers the sentence. Returns -ENOTSUP. */
int g_refuse(const struct gen *g, const char *what);

#endif
