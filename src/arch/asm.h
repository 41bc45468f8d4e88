/* SPDX-License-Identifier: MIT */
/*
 * An assembler. A generator of code names operations, registers by their role, and labels; the CPU's table (struct
 * asm_ops) writes the instructions. Code is written from top to bottom into a growing buffer, and asm_link() fills in the
 * branches at the end:
 *
 *	struct assembler a = { .ops = arch->assembler, .at = address };
 *	asm_label done = asm_new_label(&a);
 *
 *	a.ops->alu_imm(&a, ASM_CMP, ASM_32, asm_at(ASM_B, 0), 0);	if the 4 bytes at B are not 0,
 *	a.ops->branch(&a, ASM_EQ, done);
 *	a.ops->atomic_inc(&a, asm_at(ASM_B, 8));			the 8 bytes behind them are incremented
 *	asm_bind(&a, done);
 *	if (asm_link(&a) == 0)
 *		memcpy(out, a.code.v, a.code.n);
 *	asm_free(&a);
 *
 * Roles of registers. Work is done in A, B and C, in D and E where these are not enough, and in the vector registers
 * V0 and V1; F is for atomic_cas_pair only; a body of a pad saves those that it changes. All other registers hold the values of the traced program, and
 * are named by their number in the language (ASM_SITE).
 *
 *	A	results; dividend and quotient; the value that atomic_cas expects
 *	B	addresses, and the count of shift_by
 *	C	remainder of a division, upper half of a product
 *
 * Lengths matter: code is measured before the target is known. An operation whose constant or address may differ between
 * targets has a form of fixed length: address, imm32, alu_wide, and operands by asm_far(), asm_indexed_far() and asm_in_far().
 */
#ifndef JAB_ARCH_ASM_H
#define JAB_ARCH_ASM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

enum asm_reg {
	ASM_A, ASM_B, ASM_C, ASM_D, ASM_E, ASM_SP,
	ASM_ARG0, ASM_ARG1, ASM_ARG2, ASM_ARG3,	/* of a C function; they may be the same registers as A to E */
	ASM_F,			/* the lower word of what atomic_cas_pair stores */
	ASM_ASIDE,		/* one of ASM_KEPT that the code at event_spec.slow does not change */
	ASM_KEPT = 16,		/* + n: registers besides A, B and C that a C function may change; ops->nkept of them */
	ASM_SITE = 48,		/* + n: register n of the traced program */
};

enum asm_vec { ASM_V0, ASM_V1, ASM_SITE_V = 16 /* + n */ };

enum asm_width { ASM_8 = 1, ASM_16 = 2, ASM_32 = 4, ASM_64 = 8 };

/* What is loaded and extended. */
enum asm_type { ASM_U8, ASM_U16, ASM_U32, ASM_U64, ASM_I8, ASM_I16, ASM_I32 };

/* The lowest bit inverts a condition: asm_not(). Those with F are used after fcmp; UN: or one operand is not a number. */
enum asm_cond {
	ASM_EQ, ASM_NE,
	ASM_ULT, ASM_UGE, ASM_ULE, ASM_UGT,
	ASM_LT, ASM_GE, ASM_LE, ASM_GT,
	ASM_NEG, ASM_POS,
	ASM_FLT_UN, ASM_FGE, ASM_FLE_UN, ASM_FGT,
};

enum asm_alu { ASM_ADD, ASM_OR, ASM_SBB, ASM_AND, ASM_SUB, ASM_XOR, ASM_CMP, ASM_TEST };	/* SBB: and one more if the last SUB borrowed */
enum asm_unary { ASM_NOT, ASM_MINUS, ASM_INC, ASM_DEC };
enum asm_shift { ASM_SHL, ASM_SHR, ASM_SAR, ASM_ROL };
enum asm_float { ASM_FADD, ASM_FMUL, ASM_FSUB, ASM_FDIV, ASM_FMIN, ASM_FMAX };

typedef uint32_t asm_label;	/* 0: none */

/* An operand that is a register or in memory. */
enum asm_mode { ASM_IN_REG, ASM_IN_MEMORY, ASM_IN_TLS, ASM_IN_CODE };
struct asm_operand {
	uint8_t mode;		/* enum asm_mode */
	uint8_t reg;		/* the register, or the base */
	uint8_t index;		/* multiplied by scale, if that is not 0 */
	uint8_t scale;
	bool far;
	int32_t off;
	asm_label label;
};

#define asm_in(r) ((struct asm_operand){ .mode = ASM_IN_REG, .reg = (r) })
#define asm_in_far(r) ((struct asm_operand){ .mode = ASM_IN_REG, .reg = (r), .far = true })	/* the constant of alu_imm has a fixed length */
#define asm_at(base, o) ((struct asm_operand){ .mode = ASM_IN_MEMORY, .reg = (base), .off = (o) })
#define asm_far(base, o) ((struct asm_operand){ .mode = ASM_IN_MEMORY, .reg = (base), .off = (o), .far = true })	/* fixed length */
#define asm_indexed(base, i, s) ((struct asm_operand){ .mode = ASM_IN_MEMORY, .reg = (base), .index = (i), .scale = (s) })
#define asm_indexed_far(base, i, s, o) \
	((struct asm_operand){ .mode = ASM_IN_MEMORY, .reg = (base), .index = (i), .scale = (s), .off = (o), .far = true })
#define asm_tls(o) ((struct asm_operand){ .mode = ASM_IN_TLS, .off = (o) })	/* from the thread pointer */
#define asm_const(l) ((struct asm_operand){ .mode = ASM_IN_CODE, .label = (l) })	/* at a label */

struct asm_ops;

/* A branch, or another distance to a label: `size` bytes at `at`, counted from their end. */
struct asm_fixup { size_t at; asm_label label; uint8_t size; };

struct assembler {
	const struct asm_ops *ops;
	uint64_t at;			/* address at which the code will run */
	VEC(uint8_t) code;
	VEC(struct { size_t at; bool bound; bool used; }) labels;
	VEC(struct asm_fixup) fixups;
};

/* A restartable sequence of the kernel's (rseq). Its last instruction is the store that makes it happen. */
struct asm_sequence {
	int32_t rseq_off;		/* the rseq area, from the thread pointer */
	uint32_t sig;
	asm_label start, end, descriptor;	/* these are seq_begin's */
};

/* A CPU's instructions. An operation may change the flags unless it says otherwise, and only the registers that it names. */
struct asm_ops {
	uint8_t red_zone;		/* bytes below the stack pointer that belong to the traced program */
	uint8_t nregs;			/* registers that the language can name */
	uint8_t nkept;			/* see ASM_KEPT */
	uint8_t fill;			/* a byte that traps if it is run */
	uint16_t float_room;		/* bytes that float_enter takes */
	uint8_t page_shift;		/* of the smallest pages */

	/* The role of register n of the traced program: A, B, C or SP, or ASM_SITE + n if code leaves it alone. */
	enum asm_reg (*site)(unsigned int n);

	/* Moves, which leave the flags alone; except imm, which is as short as possible. */
	void (*move)(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_reg from);
	void (*imm)(struct assembler *a, enum asm_reg to, uint64_t v);
	void (*imm32)(struct assembler *a, enum asm_reg to, uint32_t v);		/* fixed length; flags stay */
	void (*address)(struct assembler *a, enum asm_reg to, uint64_t v);		/* likewise */
	void (*load)(struct assembler *a, enum asm_type t, enum asm_reg to, struct asm_operand from);
	void (*load_absolute)(struct assembler *a, uint64_t from);			/* A = 4 bytes */
	void (*store)(struct assembler *a, enum asm_width w, enum asm_reg from, struct asm_operand to);
	void (*store_imm)(struct assembler *a, enum asm_width w, struct asm_operand to, int32_t v);
	void (*lea)(struct assembler *a, enum asm_width w, enum asm_reg to, struct asm_operand of);
	void (*extend)(struct assembler *a, enum asm_type t, enum asm_reg to, enum asm_reg from);
	void (*select)(struct assembler *a, enum asm_cond c, enum asm_reg to, enum asm_reg from);	/* to = from, if c */
	void (*set)(struct assembler *a, enum asm_cond c, enum asm_reg to);		/* lowest byte of `to` = 1 if c, else 0 */

	/* Integers. `to` is the first operand as well; CMP and TEST only set the flags. */
	void (*alu)(struct assembler *a, enum asm_alu op, enum asm_width w, enum asm_reg to, enum asm_reg from);
	void (*alu_from)(struct assembler *a, enum asm_alu op, enum asm_width w, enum asm_reg to, struct asm_operand from);
	void (*alu_to)(struct assembler *a, enum asm_alu op, enum asm_width w, struct asm_operand to, enum asm_reg from);
	void (*alu_imm)(struct assembler *a, enum asm_alu op, enum asm_width w, struct asm_operand to, int32_t v);
	void (*alu_wide)(struct assembler *a, enum asm_alu op, enum asm_width w, enum asm_reg to, int32_t v);	/* fixed length */
	void (*unary)(struct assembler *a, enum asm_unary op, enum asm_width w, struct asm_operand to);
	void (*shift)(struct assembler *a, enum asm_shift op, enum asm_width w, enum asm_reg to, unsigned int n);
	void (*shift_by)(struct assembler *a, enum asm_shift op, enum asm_reg to);	/* by the lower bits of B */
	void (*mul)(struct assembler *a, enum asm_reg to, enum asm_reg by);
	void (*mul_imm)(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_reg from, int32_t by);
	void (*mul_full)(struct assembler *a, enum asm_reg by);			/* C and A = A * by, unsigned */
	void (*div)(struct assembler *a, enum asm_reg by);				/* A, C = A / by, A % by, signed */
	void (*udiv)(struct assembler *a, enum asm_reg by);				/* likewise unsigned; C must be 0 */
	void (*swap)(struct assembler *a, enum asm_width w, enum asm_reg to);		/* order of bytes; what is above them becomes 0 */
	void (*bit_flip)(struct assembler *a, enum asm_reg to, unsigned int bit);
	void (*highest_bit)(struct assembler *a, enum asm_reg to, enum asm_reg of);	/* which one; of 0 `to` stays */

	/* Branches. The short ones reach about 100 bytes. */
	void (*jump)(struct assembler *a, asm_label to);
	void (*jump_short)(struct assembler *a, asm_label to);
	void (*jump_as_branch)(struct assembler *a, asm_label to);			/* has the length of branch */
	void (*branch)(struct assembler *a, enum asm_cond c, asm_label to);
	void (*branch_short)(struct assembler *a, enum asm_cond c, asm_label to);
	void (*branch_b_zero)(struct assembler *a, asm_label to);			/* if B is 0; short; flags stay */
	void (*call)(struct assembler *a, uint64_t to);				/* A changes before it is there */
	void (*call_label)(struct assembler *a, asm_label to);
	void (*ret)(struct assembler *a);

	/* Atomic on memory that other threads change, in one order with all of them. */
	void (*atomic_inc)(struct assembler *a, struct asm_operand to);
	void (*atomic_add)(struct assembler *a, struct asm_operand to, enum asm_reg n);
	void (*atomic_add_imm)(struct assembler *a, struct asm_operand to, int32_t n);	/* 4 bytes */
	void (*atomic_fetch_add)(struct assembler *a, struct asm_operand to, enum asm_reg n);	/* n = what was there */
	void (*atomic_cas)(struct assembler *a, struct asm_operand to, enum asm_reg v);	/* if A is there: v, and EQ; else A = what is */
	void (*atomic_cas_pair)(struct assembler *a, struct asm_operand to);		/* 16 bytes: if they are A and C: F and B, and EQ; else A and C = what is */
	void (*atomic_set_bit)(struct assembler *a, enum asm_reg base, enum asm_reg bit);

	/* Floats: doubles, unless is_float. */
	void (*vload)(struct assembler *a, enum asm_vec to, struct asm_operand from);
	void (*vstore)(struct assembler *a, enum asm_vec from, struct asm_operand to);
	void (*vstore_site)(struct assembler *a, enum asm_vec from, struct asm_operand to);	/* of the traced program */
	void (*vmove)(struct assembler *a, enum asm_vec to, enum asm_vec from);
	void (*vset)(struct assembler *a, enum asm_width w, enum asm_vec to, enum asm_reg from);
	void (*vget)(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_vec from);
	void (*farith)(struct assembler *a, enum asm_float op, enum asm_vec to, enum asm_vec from);
	void (*farith_from)(struct assembler *a, enum asm_float op, enum asm_vec to, struct asm_operand from);
	void (*fcmp)(struct assembler *a, enum asm_vec x, enum asm_vec y);
	void (*fset_equal)(struct assembler *a, bool equal);				/* lowest byte of A, after fcmp; B changes */
	void (*fzero)(struct assembler *a, enum asm_vec to);
	void (*widen)(struct assembler *a, enum asm_vec to, enum asm_vec from);	/* float to double */
	void (*widen_from)(struct assembler *a, enum asm_vec to, struct asm_operand from);
	void (*narrow)(struct assembler *a, enum asm_vec to, enum asm_vec from);
	void (*from_int)(struct assembler *a, bool is_float);				/* V0 = A */
	void (*from_unsigned)(struct assembler *a, bool is_float);			/* V0 = A; A and B change */
	void (*to_int)(struct assembler *a);						/* A = V0, cut off */
	void (*to_unsigned)(struct assembler *a);					/* likewise; V0 and V1 change */
	void (*float_enter)(struct assembler *a, int32_t off);	/* saves V0, V1 and the mode at off(SP), and sets the usual mode */
	void (*float_leave)(struct assembler *a, int32_t off);

	/* What the CPU and the kernel have for the traced thread. */
	void (*flags_take)(struct assembler *a);		/* A = the flags, packed */
	void (*flags_give)(struct assembler *a);		/* the flags = A as flags_take left it; A changes */
	void (*flags_show)(struct assembler *a, int32_t off);	/* A = the flags register, by what was packed at off(SP); B changes */
	void (*c_enter)(struct assembler *a);			/* before a call of C code: what its ABI wants of the flags; pushes a word */
	void (*c_leave)(struct assembler *a);			/* after it; pops the word. B changes */
	void (*note_saved)(struct assembler *a, enum asm_reg base, int32_t off);	/* registers that C saves: u64[] by their number */
	void (*ticks)(struct assembler *a);			/* A and C = lower and upper half of the time stamp counter */
	void (*cpu)(struct assembler *a);			/* A = the CPU's number, as the kernel has it for all threads */
	void (*thread)(struct assembler *a);			/* A = the thread pointer */
	/*
	 * Is there stack down to `lowest` from SP? Calls the routine at `room` (EVENT_ROOM); two words from `save` on are
	 * used. EQ: there is. A, B and C change.
	 */
	void (*ask_room)(struct assembler *a, uint64_t room, int32_t lowest, int32_t save);

	/* Restartable sequences. A changes. No instruction is between the store of seq_begin and the start of the sequence. */
	void (*seq_begin)(struct assembler *a, struct asm_sequence *s);
	void (*seq_commit)(struct assembler *a, struct asm_sequence *s);	/* after the last instruction */
	/*
	 * The rest of a sequence, outside of it: its descriptor; `leave` is bound to code that ends the sequence without its commit;
	 * and an aborted sequence continues at the end of this.
	 */
	void (*seq_rest)(struct assembler *a, struct asm_sequence *s, asm_label leave);

	bool (*reach)(uint8_t *at, unsigned int size, int64_t distance);	/* fills in a fixup; false: too far */
};

asm_label asm_new_label(struct assembler *a);
void asm_bind(struct assembler *a, asm_label l);
bool asm_is_used(const struct assembler *a, asm_label l);		/* something leads there */
size_t asm_offset(const struct assembler *a, asm_label l);		/* of a label that is bound */
void asm_bytes(struct assembler *a, const void *bytes, size_t n);
void asm_u32(struct assembler *a, uint32_t v);
void asm_u64(struct assembler *a, uint64_t v);
void asm_fill(struct assembler *a, size_t n);				/* room that is never run */
void asm_distance(struct assembler *a, asm_label to, uint8_t size);	/* for the CPU: a fixup, and room for it */
int asm_link(struct assembler *a);	/* -ERANGE: a branch does not reach; -EINVAL: one leads to a label that is not bound */
void asm_free(struct assembler *a);

static inline enum asm_cond asm_not(enum asm_cond c)
{
	return c ^ 1;
}

#endif
