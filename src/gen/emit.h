/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the back end. Code is written once, from first to last instruction, by the assembler (arch/asm.h),
 * which names registers by role. Rarely executed code (cold parts) and constants are queued and written after the end, or
 * into a hole in the middle (g_cold_unless()).
 *
 * THE FRAME, from SP up:	[ring, registers kept over calls, what float_enter saves,]
 *				operands of calls, words of IR registers, flags, C, B, A
 *
 * The last four words, the head, are written first; the words below them are written only after the check that the stack has
 * room for the whole frame (door.c).
 *
 * An IR register that is written once, by a constant or with the site's value of a machine register, has no word: its
 * constant or machine register is used directly. Only A, B, C, V0 and V1 are changed, so all other machine registers keep the
 * site's values.
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

/* At the exit of a call: A holds its duration (AT_HAND), or C holds the number of its highest bit + HAND_BIT (BIT_AT_HAND). */
enum at_hand { NOT_AT_HAND, AT_HAND, BIT_AT_HAND };
#define HAND_BIT 32

struct gen;

/* Rarely executed code, written by put() after the end of the hot code. */
struct cold {
	void (*put)(struct gen *g, struct cold *c);
	asm_label here;		/* its start, unless put() binds the label further down */
	asm_label then;		/* where it jumps back to in the hot code */
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
	struct place *places;	/* of each IR register */
	uint32_t *reads;	/* number of reads of each IR register */
	uint32_t *defs;		/* number of writes */
	asm_label *labels;	/* of IR labels; g_label() */
	asm_label *heads;	/* start of each loop, by its IR label */
	int32_t *rounds;	/* word that counts its rounds, by its IR label */
	VEC(struct cold) cold;
	asm_label to_out;	/* epilogue: restores everything */
	asm_label to_early;	/* short epilogue, for hits that end in the door */
	asm_label to_end;	/* the end of the code */
	VEC(struct { asm_label label; uint64_t value; }) constants;	/* used by the door */
	bool b_used;		/* the door has stored B in the frame and uses it */
	VEC(struct { asm_label description; const struct ir_ins *i; }) ops;	/* calls of the blob, whose descriptions are to be written */
	uint64_t bits;		/* fault bits that may be set */
	uint64_t entry_bits;	/* at the exit of a call: those of them that only the entry can have set */
	uint32_t acc;		/* the IR register whose value is in A; IR_NONE */
	size_t now;		/* number of the IR instruction being compiled */
	int32_t frame;		/* size in bytes */
	int32_t head;		/* offset of the head, the four words that the door writes */
	int32_t ring, keep, fp;	/* offsets: ring and kept registers if `calls`, floating-point state if `floats` */
	int32_t pair;		/* offset of the words of a call probe */
	enum at_hand at_hand;	/* at the exit of a call */
	size_t hole;		/* offset in the code of the hole for the cold parts; 0: none */
	size_t hole_size;	/* 0 in the first pass, which finds it out */
	size_t hot;		/* length of the code without the cold parts */
	int32_t out;		/* offset of nout words for operands of calls */
	uint32_t nout;
	bool calls, heavy, floats, stacks;	/* the program calls the blob, with scratch memory, uses floats, records stacks */
	int32_t below;		/* stack that called routines need below the frame */
	asm_label routine[2];	/* local subroutines of calls.c: light, heavy; 0: not used */
	uint32_t *slots;	/* offset of each slot in scratch memory */
	uint64_t *texts;	/* address of each constant text, in the code */
	uint32_t area;		/* offset in scratch memory of the operations' working memory */
	uint32_t scratch;	/* bytes of scratch memory */
	int error;
};

/* words of a call probe at its entry, and at its exits; the saved values follow */
enum { PAIR_KEY, PAIR_COUNT };
enum { PAIR_NS, PAIR_FAULTS };

/* words of the head */
#define FRAME_FLAGS(g) ((g)->head)
#define FRAME_C(g) ((g)->head + 8)
#define FRAME_B(g) ((g)->head + 16)
#define FRAME_A(g) ((g)->head + 24)
#define HEAD_SIZE 32
#define ASK_SIZE 16		/* bytes below the head that ask_room uses */

bool g_is_work(enum asm_reg r);				/* A, B or C, which the door saves */
int32_t g_work_word(const struct gen *g, enum asm_reg r);	/* offset of its word */
int32_t g_site_sp(const struct gen *g);			/* offset of the site's stack pointer from SP */

/* Stack that is needed below the frame, with return addresses. */
#define BELOW_FLAGS 8
#define BELOW_EVENT 88
#define BELOW_BLOB 24		/* the local routine and the flags; plus blob_depth(), which is measured at build time */

/* code.c */
#define ins(g, op, ...) ((g)->a.ops->op(&(g)->a, ##__VA_ARGS__))	/* an operation of the assembler: arch/asm.h */
asm_label g_label(struct gen *g, uint32_t label);	/* of an IR label */
void g_move_sp(struct gen *g, int32_t by);
void g_in_page(struct gen *g, int32_t off, uint32_t n);
void g_count(struct gen *g, enum asm_reg reg, uint64_t counter);	/* atomic increment; reg changes */
bool g_ids_are_theirs(const struct gen *g, const struct ir_ins *i);
struct cold *g_cold(struct gen *g, void (*put)(struct gen *, struct cold *));
void g_cold_unless(struct gen *g, enum asm_cond cc, struct cold *c);	/* continue if cc, else branch to c, the last of g->cold */
void g_error(struct gen *g, const struct ir_ins *i, enum ir_error e);	/* counts an error; A is kept */

/* operands */
void g_load(struct gen *g, enum asm_reg reg, uint32_t r);	/* reg = IR register r */
void g_store(struct gen *g, uint32_t r);		/* IR register r = A */
void g_set(struct gen *g, uint32_t r);			/* as g_store(), but no store if only the next instruction uses it, from A */
void g_load_word(struct gen *g, enum asm_reg reg, int32_t off);
void g_store_word(struct gen *g, enum asm_reg reg, int32_t off);
void g_zero_word(struct gen *g, int32_t off);
void g_load_f(struct gen *g, enum asm_vec v, uint32_t r);
void g_store_f(struct gen *g, enum asm_vec v, uint32_t r);
bool g_is_imm32(const struct gen *g, uint32_t r, int32_t *ret);
void g_arg(struct gen *g, const struct ir_arg *a, int32_t off);	/* word at off = argument, a number */

/* analyse.c */
int g_analyse(struct gen *g);
int32_t g_stack(const struct gen *g);	/* bytes used below the site's stack pointer; valid after g_analyse() */
void g_analysis_free(struct gen *g);

/* door.c */
size_t g_door(struct gen *g);		/* the prologue; returns the number of the first IR instruction that it does not cover */
void g_early(struct gen *g);		/* the short epilogue, at the end of the code */
void g_load_head(struct gen *g);	/* restores A, B, C, the flags and SP from the frame */

/* each emits code for an IR instruction; false: it is one of another file */
bool g_compute(struct gen *g, const struct ir_ins *i);		/* compute.c */
void g_wrap(struct gen *g, uint8_t type);			/* A is truncated to a type and extended to 64 bits */
bool g_load_memory(struct gen *g, const struct ir_ins *i);	/* loads.c */
/*
 * Loads from the address in C if it is in known memory (known.c): A is the value, and goes on at `then`. Otherwise goes on at its end. A, B and C
 * change.
 */
void g_load_known(struct gen *g, enum asm_type type, asm_label then);
enum asm_cond g_condition(const struct ir_ins *i);		/* the condition for which a comparison is true */
bool g_float(struct gen *g, const struct ir_ins *i);		/* floats.c */
bool g_site(struct gen *g, const struct ir_ins *i);		/* site.c */
void g_clock(struct gen *g, uint64_t since);			/* A = ns; B and C change */
void g_join(struct gen *g);					/* A = C << 32 | A */
void g_ns(struct gen *g);					/* A: ticks -> ns; B and C change */
bool g_control(struct gen *g, const struct ir_ins *i);		/* control.c */
bool g_action(struct gen *g, const struct ir_ins *i);		/* action.c */
bool g_is_plain_event(const struct gen *g, const struct ir_ins *i);
bool g_map(struct gen *g, const struct ir_ins *i);		/* aggs.c */
void g_highest_bit(struct gen *g);				/* C = number of the highest bit of A; -1 if A is 0 */
bool g_wants_bit(const struct gen *g, const struct ir_ins *i);	/* of its operand it uses the highest bit only */
const struct map_place *g_map_place(const struct gen *g, uint32_t map);
uint32_t g_agg_words(const struct gen *g, const struct ir_ins *i);
asm_label g_agg_key(struct gen *g, const struct ir_ins *i, int32_t offset);	/* keys.c; returns a label to bind after the aggregation */
enum { AGG_KEY_OFFSET, AGG_KEY_END };
void g_home_number(struct gen *g, const struct ir_ins *i);	/* B = number of the key's home; A and C change */
void g_entry_at(struct gen *g, const struct ir_ins *i);	/* B = address of the entry with number B; C changes */
bool g_is_value(const struct gen *g, const struct ir_ins *i);	/* values.c: code in the pad does it, mostly without the blob */
void g_value(struct gen *g, const struct ir_ins *i);
#define VALUE_WORDS 2						/* of the frame, which g_value() needs beside the operands */
void g_blob_call(struct gen *g, const struct ir_ins *i);	/* calls.c: the operation by the blob */
bool g_call(struct gen *g, const struct ir_ins *i);		/* calls.c */
bool g_pair(struct gen *g, const struct ir_ins *i);		/* pairs.c */
void g_pair_start(struct gen *g);
void g_pair_enter(struct gen *g, const struct ir_ins *ret);
void g_pair_forget(struct gen *g);
void g_pair_leave(struct gen *g);
void g_pair_duration(struct gen *g);
bool g_is_duration(const struct gen *g, uint32_t r);		/* IR register r is the duration of a call, so never negative */
uint32_t g_pair_words(const struct gen *g);
uint32_t g_pair_word(const struct gen *g, uint32_t n);	/* offset of the word of saved value n */
/* left.c: calls that are left without a return */
enum { LEFT_SP = 8, LEFT_HOW = 16 };		/* a leaver's arguments: offsets from SP at its entry */
int32_t g_left_word(const struct gen *g, int32_t off);
void g_left_unseen(struct gen *g, struct cold *c);
void g_left_mark(struct gen *g);		/* B: slot, C: its new key; A and C change */
/* calls.c */
void g_routines(struct gen *g);
void g_heavy(struct gen *g, const struct ir_ins *i);	/* only the call; the operands have been stored */
void g_descriptions(struct gen *g);
int32_t g_event_word(const struct gen *g, const struct ir_ins *i, uint32_t k);	/* offset of the word of field k */
bool g_is_heavy(const struct gen *g, const struct ir_ins *i);
bool g_is_call(const struct gen *g, const struct ir_ins *i);

/* describe.c */
uint32_t g_event_len(const struct gen *g, const struct ir_ins *i);	/* greatest length */
bool g_fits_ring(struct gen *g, uint32_t len);
bool g_reads_agg(const struct gen *g, const struct ir_ins *i);	/* reads or deletes an aggregation */
struct prog_agg g_describe_agg(const struct gen *g, const struct ir_ins *i);
uint32_t g_describe_load(const struct gen *g, const struct ir_ins *i, struct prog_op *d, struct prog_ahead *ret_ahead);
void g_describe_stack(const struct gen *g, const struct ir_ins *i, struct prog_op *d);

/* The error for an operation that is not implemented in targets. Returns -ENOTSUP. */
int g_refuse(const struct gen *g, const char *what);

#endif
