/* SPDX-License-Identifier: MIT */
/*
 * Code that compilers, linkers and C libraries write in one way, known by its bytes. Only an exact match counts.
 */
#ifndef JAB_ARCH_IDIOMS_H
#define JAB_ARCH_IDIOMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define START_LEN 64		/* bytes of a program's first instructions that are looked at */
#define STUB_LEN 16
#define ERRNO_MOST 64

/* The decoded instructions of a function. */
struct insn;
struct code_view {
	const uint8_t *bytes;
	const struct insn *insns;
	const uint32_t *at;	/* offset of each from lo */
	uint32_t n;
	uint64_t lo, hi;
};

/* How the address of an indirect jump is made. */
enum jump_origin { JUMP_MADE_UNKNOWN, JUMP_MADE_BY_SUM, JUMP_MADE_BY_LOAD, JUMP_MADE_BY_PLAIN_LOAD, JUMP_MADE_BY_TABLE };

struct jump_from {
	uint8_t origin;		/* enum jump_origin */
	bool marked;		/* the jump says of itself that it is that of a switch */
	int reg;		/* the register; -1: it jumps by memory */
	uint64_t table;		/* of BY_TABLE: its address; 0: it is no constant */
};

struct long_code { const char *bytes; size_t len; };

struct code_idioms {
	struct long_code musl_cancel;	/* the body of musl's cancellable system call */
	uint8_t landing_len;	/* bytes of the mark of indirect branches (INSN_ENDBR); */
	uint8_t landing[4];	/* these */

	/* The address of main() that a program's first instructions at addr pass to glibc; 0: they are others. START_LEN bytes. */
	uint64_t (*main_of_start)(const uint8_t *code, uint64_t addr);

	/* Whether a stub of the PLT begins here, and whose slot it jumps by. STUB_LEN bytes. */
	bool (*stub)(const uint8_t *code, uint64_t addr, uint64_t *ret_slot);

	/* __errno_location() of musl: offset of errno from the thread pointer; 0: it is another function. */
	int64_t (*errno_offset)(const uint8_t *code, size_t len);

	/* The end of a function of an unwinder that goes on in another frame: __builtin_eh_return(). */
	const struct code_bytes *eh_return;	/* up to one of length 0 */

	/*
	 * Go. Whether the instructions at code, GO_LOAD_MOST bytes, load the address of g, and from which offset of the thread pointer; whether
	 * an instruction prepares the comparison of the stack pointer with the limit in g; whether it is that.
	 */
	bool (*go_loads_g)(const uint8_t *code, int32_t *ret_off);
	bool (*go_prepares_check)(const uint8_t *code, size_t len);
	bool (*go_checks_stack)(const uint8_t *code, size_t len);

	/* Whether it takes an address relative to the pc (insn.target), or one that is an immediate. */
	bool (*takes_address)(const uint8_t *code, size_t len);
	bool (*takes_immediate)(const uint8_t *code, size_t len, uint64_t *ret_value);

	/* Of instruction number `jump`, which jumps by a register (reg; -1: as its operand says). False: it is none. */
	bool (*jump_from)(const struct code_view *v, uint32_t jump, int reg, struct jump_from *ret);
	/* Whether the frame is released in the straight line that leads there. */
	bool (*frame_goes)(const struct code_view *v, uint32_t jump);
	/* Whether the function loads the address of a label of its own into this register. */
	bool (*takes_own_label)(const struct code_view *v, int reg);

	/* The register by whose value a thunk (retpoline) goes on; *ret_exit: offset of its ret. -1: there is none. THUNK_MOST bytes. */
	int (*thunk)(const uint8_t *code, size_t len, size_t *ret_exit);

	/* Whether four bytes that look like the signature of a restartable sequence are an operand, `before` bytes into code. */
	bool (*is_operand)(const uint8_t *at, size_t before);
};

#define GO_LOAD_MOST 11
#define THUNK_MOST 42
#define THUNK_SEARCH 32		/* bytes from a thunk's call to its target */

#endif
