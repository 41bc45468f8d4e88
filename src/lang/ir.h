/* SPDX-License-Identifier: MIT */
/*
 * The border between the language and what runs it. A clause of a script (or a probe line) becomes
 * one program for each kind of site it is put on; src/gen turns programs into pad code, interp.c
 * executes them as the judge and for the clauses that run in the tracer (begin, end, interval).
 *
 * VALUES. A program has numbered registers, each of 64 bits, of one of two classes that never
 * changes: integers (IR_I) and doubles (IR_F). A register may be written many times. Invariants:
 *   - an integer of a narrow type is held extended to 64 bits as its type says, so comparing and
 *     indexing never care for widths; only what can overflow its type is wrapped again (IR_CAST);
 *   - a float is held as the double of the same value; IR_F32 arithmetic rounds its result.
 * Text and bytes live in numbered slots: a u32 length, and up to `cap` bytes. Constant slots are
 * read-only, the others empty when a program starts. Strings never contain a NUL.
 *
 * CONTROL FLOW. Instructions run in order. Branches go to an IR_LABEL further down, never up; the
 * only way up is IR_LOOP_END/IR_EACH_END to the head of the loop it closes, and loops have a
 * constant bound. Loops nest properly and nobody jumps into one. A register that is read was
 * written before on every path (lower.c sees to that).
 *
 * FAULTS. Any read of the target's memory may fail. A program has one fault word, 0 at its start;
 * each instruction that reads memory has a `bit` in it, set when the read fails (and never cleared;
 * two reads may share a bit). Its result is then 0 or empty, and the address that failed is kept for
 * that bit. Everything computed from it is garbage that nobody looks at, because whoever uses a
 * value names the bits it depends on, as a mask that is known when compiling:
 *   - fields of an event: a field whose mask meets the fault word is marked in the event's own fault
 *     word (bit = number of the field), and holds the address of the first failed bit instead;
 *   - IR_IF_FAULT jumps: a condition that faults is false, and counted;
 *   - map keys and values: IR_IF_FAULT jumps over the statement, and it is counted;
 *   - a read through an address: if its own `mask` is met, it doesn't happen: its bit is set too
 *     and inherits the address of the first failed bit of the mask.
 * So a good read costs nothing beyond itself. Loads with IR_GOOD need no check and have no bit.
 *
 * ERRORS are counted per program and kind (enum ir_error), never fatal.
 */
#ifndef JAB_LANG_IR_H
#define JAB_LANG_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/mem.h"
#include "blob/leave.h"

#define IR_NONE UINT32_MAX	/* no register, no slot */

struct vtype;			/* lang/type.h */

enum ir_class { IR_I, IR_F };

/* What a value means. The first ten are also the types of arithmetic, and with IR_BOOL (any byte is 1 or 0 then) of loads. */
enum ir_type {
	IR_I8, IR_I16, IR_I32, IR_I64, IR_U8, IR_U16, IR_U32, IR_U64,
	IR_F32, IR_F64,
	/* held as an integer, shown in another way */
	IR_BOOL,		/* true, false */
	IR_PTR,			/* 0x... */
	IR_CHAR,
	IR_ENUM,		/* as the type ir_arg.show says: the name of a value, an address, an array */
	IR_USTACK,		/* the number of a stack that the target has stored once; show is ir_stack_mode */
	IR_USYM,		/* an address, shown as symbol+offset */
	IR_PROBE, IR_FUNC,	/* the number of a site, shown as its probe or its function */
	IR_TIME,		/* ns, formatted with string number `show` (strftime) */
	/* in slots */
	IR_STR,
	IR_BUF,			/* any bytes; so many as are there */
	IR_STRUCT,		/* the bytes of an object; show is the type */
	IR_ARRAY,		/* in fields of events only: `cap` bytes, zeros behind those that are there; show is the type of an
				   array of numbers, or of bytes */
	IR_ADDRS,		/* likewise: addresses, 8 bytes each */
};

/* `show` of IR_U64: a register as it is; what it holds may be narrower. A field is hexadecimal. */
#define IR_SHOW_RAW 1

/* `show` of fields with other unsigned integers. A field of IR_F32 with IR_SHOW_RAW: its low 4 bytes are the float itself. */
#define IR_SHOW_OCTAL 2

/* `show` of IR_STR: its cap is the common limit and not one of its own, so one that fills it was cut. */
#define IR_SHOW_LIMIT 1

enum ir_stack_mode { IR_STACK_BPFTRACE, IR_STACK_PERF, IR_STACK_RAW };

static inline bool ir_in_slot(uint8_t type) { return type >= IR_STR; }
static inline bool ir_is_float(uint8_t type) { return type == IR_F32 || type == IR_F64; }
static inline bool ir_is_unsigned(uint8_t type) { return (type >= IR_U8 && type <= IR_U64) || type >= IR_BOOL; }
/* bytes of a number in memory */
static inline unsigned int ir_size(uint8_t type)
{
	return type == IR_F32 ? 4 : type == IR_BOOL ? 1 : type >= IR_F64 ? 8 : 1u << (type & 3);
}

enum ir_op {
	IR_NOP,

	/* Constants and copies. */
	IR_CONST,		/* dst = imm */
	IR_FCONST,		/* dst = fimm */
	IR_MOV,			/* dst = a (same class) */

	/* What is known at the site. */
	IR_REG,			/* dst = register imm, as struct arch_regs numbers them. The stack pointer is the
				   program's own at the site, the pc the site's address */
	IR_VECTOR,			/* dst (F) = low lane of vector register imm, type IR_F32 or IR_F64 */
	IR_CTX,			/* dst = enum ir_ctx imm */
	IR_COMM,		/* slot = name of the thread */
	IR_STACK,		/* dst = number of the user stack, at most imm frames */
	IR_FRAMES,		/* slot = return addresses of the user stack, at most imm, 8 bytes each; bit: the walk ended at memory
				   that can't be read, and those up to there are in the slot */
	IR_SAVE,		/* saved[imm] = a (either class): for the exit program of the same call */
	IR_SAVED,		/* dst = saved[imm] */

	/*
	 * Integers. type is I32, U32, I64 or U64 and the result is wrapped to it. Division truncates;
	 * by zero, and the smallest number by -1, gives 0 and IR_ERR_DIV. A shift takes the low 5 or 6
	 * bits of its count (by the width of type); right shifts of signed types keep the sign.
	 * With F32 and F64: ADD SUB MUL DIV NEG as IEEE says (x / 0 is no error).
	 */
	IR_ADD, IR_SUB, IR_MUL, IR_DIV, IR_MOD,
	IR_AND, IR_OR, IR_XOR, IR_SHL, IR_SHR,
	IR_NEG, IR_NOT,		/* dst = -a, ~a */
	/* dst (I) = 1 or 0. type says how to compare: I64 signed, U64 unsigned, F64 (false with a NaN; NE is true). */
	IR_EQ, IR_NE, IR_LT, IR_LE, IR_GT, IR_GE,
	IR_CAST,		/* dst = a cut to type (I8...U64, BOOL: a != 0) and extended again */
	IR_I2F, IR_U2F,		/* dst (F) = (double)(int64_t)a, (double)(uint64_t)a; rounded to type */
	IR_F2F,			/* dst (F) = a rounded to type (F32) */
	IR_F2I,			/* dst = a truncated to int64, then cut to type. Out of range: 0x8000... as cvttsd2si;
				   for IR_U64 from 2^63 on: truncated (a - 2^63), sign bit flipped */
	IR_RAW2F,		/* dst (F) = the float of which the low bits of a are the bytes: type F32, F64 */
	IR_F2RAW,		/* dst = the bytes of a as a float of that type */
	IR_BSWAP,		/* dst = the bytes of a (type U16, U32, U64) reversed */

	/* Memory. */
	IR_LOAD,		/* dst = *(type *)(a + imm); bit, mask; flag IR_GOOD */
	IR_BITS,		/* dst = bits [imm & 63, + (imm >> 8)) of a, extended as type: bit-fields */
	IR_READ_STR,		/* slot = text at a, up to a NUL, b (if any) or imm bytes, whatever is first; bit, mask */
	IR_READ_BUF,		/* slot = min(b or imm, imm) bytes at a; bit, mask */

	/* Slots. */
	IR_SLOT_COPY,		/* slot = slot2, cut to what fits */
	IR_SLOT_AND,		/* slot &= slot2, byte by byte, as far as both go */
	IR_SLOT_LOAD,		/* dst = *(type *)(bytes of slot + a (if any) + imm); beyond its length: 0 and IR_ERR_RANGE */
	IR_STR_CMP,		/* dst = 0 if the texts (at most imm bytes of them; 0: all) are equal, else -1 or 1 as memcmp */
	IR_STR_LEN,		/* dst = length of slot */
	IR_STR_FIND,		/* dst = where slot2 first occurs in slot, or -1 */

	/* Control. */
	IR_LABEL,		/* label */
	IR_JMP,			/* to label */
	IR_JZ, IR_JNZ,		/* if a is 0, is not 0 */
	IR_IF_FAULT,		/* if the fault word meets mask: count IR_ERR_FAULT, go to label */
	IR_LOOP,		/* head of loop `label`: at most imm rounds */
	IR_LOOP_END,		/* one round more, if that is allowed; else IR_ERR_LOOP and go on behind */
	IR_RET,			/* end of the program (the last instruction always is one) */

	/* Maps; keys are args[first, +nkeys), values behind them. */
	IR_MAP_GET,		/* values (destinations) = map[keys]; 0 or empty where absent. dst (if any) = was it there */
	IR_MAP_SET,		/* map[keys] = values */
	IR_MAP_ADD,		/* map[keys] += a at once (absent counts as 0); dst (if any) = the value before. One
				   integer value; nothing is lost between threads */
	IR_MAP_AGG,		/* give a to the aggregation map[keys]; COUNT has no a. Floats: class of a says so */
	IR_MAP_DEL,		/* forget map[keys]; dst (if any) = was it there */
	IR_MAP_HAS,		/* dst = is it there */
	IR_MAP_LEN,		/* dst = number of keys */
	IR_EACH,		/* head of loop `label` over all keys: keys and values are destinations. Only in programs
				   that run in the tracer (IR_WHERE_TRACER) */
	IR_EACH_END,

	/* Actions. */
	IR_EMIT,		/* write event `record` with args[first, +n) as its fields */
	IR_EXIT,		/* IR_EMIT of a record of kind IR_RECORD_EXIT (its one field is a, the status), and
				   the end of this program */
	IR_EVERY,		/* dst = 1 each imm-th time, else 0; cell */
	IR_LIMIT,		/* dst = 1 the first imm times, then 0; cell */
	IR_RATE,		/* dst = 1 at most imm times per second, else 0; cell */
	IR_ENABLE,		/* switch clause imm on (a != 0) or off */
	IR_NOPS
};

enum ir_ctx {
	IR_CTX_SITE,		/* number of the site */
	IR_CTX_PID, IR_CTX_TID, IR_CTX_CPU,
	IR_CTX_NSECS,		/* CLOCK_MONOTONIC in ns, or as near as the time stamp counter gets */
	IR_CTX_ELAPSED,		/* ns since the start of the run */
	IR_CTX_DURATION,	/* ns since the entry of this call (exit programs of call probes) */
	IR_CTX_UID, IR_CTX_GID,
	IR_CTX_RAND,		/* 32 bits */
	IR_CTX_NCPUS,
	IR_CTX_CPID,		/* the process started with -c, or 0 */
	IR_CTX_THREAD,		/* the thread pointer: thread-local variables are at fixed distances from it, as far
				   as the site says so. A thread without any may have any number there */
	IR_CTX_TAIL,		/* ADDR_TAIL_CALL at an exit that goes on in another function, else 0 */
	IR_CTX_LEFT,		/* enum call_left: how the frame of a call was left (programs with is_left) */
	IR_CTX_NS_PID, IR_CTX_NS_TID,	/* in the target's own pid namespace */
	IR_CTX_END
};

enum ir_error {
	IR_ERR_FAULT,		/* a condition, key or value could not be read */
	IR_ERR_DIV, IR_ERR_RANGE, IR_ERR_LOOP,
	IR_ERR_MAP_FULL,
	IR_ERR_IDS,		/* our number of the process or thread is not known */
	IR_ERR_DELETE,		/* delete of what was not there (and nobody looked at the answer) */
	IR_ERRORS
};

enum ir_flags {
	IR_GOOD = 1 << 0,	/* this address can't fail: the stack from the red zone to the word at the stack pointer */
	IR_QUIET = 1 << 1,	/* don't count it */
	IR_PARTIAL = 1 << 2,	/* IR_READ_BUF: what can't be read is left out at the end; no fault, unless no read is allowed */
};

struct ir_ins {
	uint8_t op, type, flags, bit;	/* bit: 0...63, where reading may fail */
	uint32_t dst, a, b;		/* registers or IR_NONE */
	uint32_t slot, slot2;		/* or IR_NONE */
	uint32_t label;
	uint32_t map, record, cell;
	uint32_t first;			/* of args */
	uint16_t n, nkeys;		/* all args, and how many of them are keys */
	union { int64_t imm; double fimm; };
	uint64_t mask;
	uint32_t at;			/* offset in the source, for messages and dumps */
};

/* An operand of an instruction that has many: a register, or a slot, as its type says. */
struct ir_arg {
	uint8_t type;			/* enum ir_type */
	uint32_t reg;			/* number of the register or slot */
	uint32_t show;			/* see enum ir_type */
	uint64_t mask;			/* faults it depends on (fields) */
};

struct ir_slot {
	uint32_t cap;			/* bytes */
	const char *text;		/* a constant of cap bytes; NULL: scratch */
};

/*
 * A key or value of a map. Strings have a cap; longer ones are cut when stored. Two keys are equal
 * if all parts are (strings: length and bytes; floats: their bits).
 */
struct ir_part { uint8_t type; uint32_t cap, show; };

enum ir_map_kind {
	IR_MAP_VALUE,			/* parts as in values */
	IR_MAP_COUNT, IR_MAP_SUM, IR_MAP_AVG, IR_MAP_MIN, IR_MAP_MAX, IR_MAP_STATS,
	IR_MAP_HIST,			/* log2 buckets, each cut into 2^bits */
	IR_MAP_LHIST,			/* below lo, (hi - lo) / step buckets, from hi on */
	IR_MAP_QUANTILE,
};

/*
 * Aggregations of one map all have the same kind. MAP_GET of COUNT, SUM, MIN, MAX, AVG gives the
 * merged number (values: one I64, U64 or F64 destination); the others can't be read by programs.
 */
struct ir_map {
	char *name;			/* with its @ */
	uint8_t kind;
	uint8_t num;			/* aggregations: IR_I64, IR_U64 or IR_F64 */
	uint16_t nkeys, nvalues;	/* no keys: a single cell */
	struct ir_part *keys, *values;
	char *key_shape, *value_shape;	/* how tuples are shown, as in IR_RECORD_PRINT */
	uint32_t max_keys;
	uint8_t bits;			/* HIST: 0...5 */
	int64_t lo, hi, step;		/* LHIST */
	uint32_t nquantiles;
	double *quantiles;		/* 0...1 */
	bool declared_lru;
	bool is_counted;		/* a program that runs in the target asks how many keys it has */
};

/* What the reader does with an event. */
enum ir_record_kind {
	IR_RECORD_PRINTF,		/* text: format */
	IR_RECORD_PRINT,		/* a value and a newline; text is its shape: "%", or "(%, (%, %))" for tuples */
	IR_RECORD_EVENT,		/* record(): a typed event, named fields */
	IR_RECORD_PRINT_MAP,		/* fields: top, div */
	IR_RECORD_CLEAR, IR_RECORD_ZERO,
	IR_RECORD_TIME,			/* text: strftime format */
	IR_RECORD_CAT,			/* text: format of the path */
	IR_RECORD_SYSTEM,		/* text: format of a command for the shell */
	IR_RECORD_JOIN,			/* text: separator; fields: how many there are, then the strings */
	IR_RECORD_ERRORF, IR_RECORD_WARNF,
	IR_RECORD_EXIT,			/* by IR_EXIT; one field: the status. The run ends */
};

/* Of system() and cat(): what the kernel says is taken instead of what is in the event. */
enum ir_known { IR_KNOWN_NOT, IR_KNOWN_PID, IR_KNOWN_TID, IR_KNOWN_COMM };

#define IR_WORD_MORE 255

struct ir_field {
	char *name;			/* NULL: none */
	uint8_t type;
	uint8_t known;			/* enum ir_known */
	uint8_t words;			/* a text of so many numbers, of which this one is the first; IR_WORD_MORE: one of the others */
	uint32_t cap;			/* slots: most bytes */
	uint32_t show;
};

/*
 * Payload of an event, behind struct event_head: if `faulty`, one u64 with a bit for each field that failed (with at most 32
 * fields bit 32 + i: field i, if no read was allowed); then the fields, each 8-aligned and padded with zeros to 8:
 *	a number	8 bytes (floats as double, F32 too)
 *	IR_ARRAY	its cap
 *	IR_ADDRS	u32 count, u32 0, count times u64
 *	other slots	u32 length, the bytes
 * The length of a string counts a NUL behind it, which only one that fills its cap does not have. What failed is the address
 * instead of a number and in the first 8 bytes of an array, the addresses that were found, or a slot with "<fault>" or
 * "<unreadable>", its NUL and the address. So an event can be written to a trace as it stands (trace/ctf.h).
 */
#define IR_FAULT_TEXT "<fault>"
#define IR_FAULT_LEN 16u
#define IR_REFUSED_TEXT "<unreadable>"
#define IR_REFUSED_LEN 21u

struct ir_record {
	uint8_t kind;
	bool faulty;
	uint32_t map;			/* PRINT_MAP, CLEAR, ZERO */
	uint32_t nfields;
	struct ir_field *fields;
	char *text;
	uint32_t text_len;
	uint32_t at, len;		/* offset in the source, bytes there */
	uint32_t owner;			/* struct lang_site; with IR_OWNER_LEFT: of a program with is_left */
};

#define IR_OWNER_LEFT 0x80000000u

void ir_record_free(struct ir_record *r);	/* what it owns */

/* The most bytes an event's payload can have. */
uint32_t ir_record_room(const struct ir_record *r);

enum ir_where {
	IR_WHERE_SITE,			/* in the target, at a site */
	IR_WHERE_ENTRY,			/* in the target, at the entry of a call probe: computes what is saved.
					   Ends with IR_RET: a = 1 the call is watched, a = 0 it is not */
	IR_WHERE_EXIT,			/* at the exit; its fault word begins as that of the entry program ended */
	IR_WHERE_TRACER,		/* begin, end, interval: no registers, no memory */
};

struct ir_prog {
	uint8_t where;
	uint32_t clause;		/* number in the script */
	VEC(struct ir_ins) ins;
	VEC(struct ir_arg) args;
	VEC(uint8_t) regs;		/* class of each register */
	VEC(struct ir_slot) slots;
	uint32_t nlabels, nsaved;
	bool placed;			/* has addresses in it: good for this bias only */
	bool choosy;			/* at the exit: some calls are not watched, by what their entry said */
	bool timed;			/* entry and exit: the duration is asked for */
	bool is_left;			/* for an exit that is none: the frame is gone, there is no return value and no register */
	struct ir_prog *left;		/* of an exit: such a program for the same calls; NULL: none */
	uint32_t rounds;		/* the most loop rounds that can happen, nested ones multiplied */
};

static inline bool ir_is_duration(const struct ir_ins *i)
{
	return i->op == IR_CTX && i->imm == IR_CTX_DURATION;
}

/* All programs of a script share maps, records, cells and strings. */
struct arch;

struct ir_unit {
	VEC(struct ir_map) maps;
	VEC(struct ir_record) records;	/* by number; event ids are the session's matter */
	VEC(char *) strings;		/* IR_TIME formats */
	VEC(const struct vtype *) shown; /* types that `show` numbers; they live with the script */
	VEC(struct ir_prog *) progs;
	uint32_t ncells;		/* u64 each, for EVERY, LIMIT, RATE */
	const struct arch *arch;	/* whose registers the programs name; NULL: the one that jab runs on */
};

struct ir_prog *ir_prog_new(struct ir_unit *u, enum ir_where where, uint32_t clause);
void ir_progs_drop(struct ir_unit *u, size_t n);	/* all but the first n */
void ir_unit_free(struct ir_unit *u);

/*
 * Is this program well formed: registers of the right class, written before read, labels and loops
 * as promised above? NULL if so, else what is wrong (static text). Back ends may rely on it.
 */
const char *ir_verify(const struct ir_unit *u, const struct ir_prog *p);

/* One line an instruction. Caller frees. */
char *ir_dump(const struct ir_unit *u, const struct ir_prog *p);

#endif
