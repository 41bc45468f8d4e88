/* SPDX-License-Identifier: MIT */
/*
 * Jumps that take the place of instructions of the traced program: their length and reach, what forms they have, and how
 * branches are found that lead to the bytes that they take.
 *
 * A CPU whose jumps are as long as any of its instructions needs only the first part: nothing can lead into the middle of a jump, and the
 * planner's other tactics (pad/tactic_*.c) have nothing to do.
 */
#ifndef JAB_ARCH_JUMPS_H
#define JAB_ARCH_JUMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct insn;

/* Branches that keep their opcode and get another destination, in their last 4 bytes. */
enum retarget { RETARGET_NONE, RETARGET_CALL, RETARGET_CALL_SLOT, RETARGET_JCC };

/* A search for branches of a text that lead into the middle of functions. */
struct branch_search {
	const uint8_t *text;		/* bytes from text_lo to text_hi */
	uint64_t text_lo, text_hi;
	uint64_t all_lo, all_span;	/* all texts, */
	const uint8_t *inner;		/* and a bit for each byte of them that matters */
	void (*found)(void *arg, uint64_t from, uint64_t to);
	void *arg;
};

/*
 * Searches of bytes, each of which may be the start of an instruction. Whatever they find is to be confirmed; what they don't find is not
 * there. [first, first + width) are offsets in code.
 */
struct branch_scan {
	uint16_t near;		/* a short branch reaches no further, its own length included */

	/* Whether code of a function at addr branches into these bytes of itself, or jumps indirectly. fixed: addresses are constants. */
	bool (*enters)(const uint8_t *code, size_t size, uint64_t addr, uint32_t first, uint32_t width, bool fixed);

	/* Likewise by a long branch or an address; not decoded. */
	bool (*far_may_enter)(const uint8_t *code, size_t size, uint64_t addr, uint32_t first, uint32_t width, bool fixed);

	/* Distances of four bytes, and short branches, in a whole text. */
	bool (*any_distance)(const uint8_t *code, size_t size, uint32_t first, uint32_t width);
	bool (*any_short)(const uint8_t *code, size_t size, uint32_t first, uint32_t width);

	/* Offset of the next byte from `from` on that may take an address relative to the pc; *ret_to: that, as an offset. size: there is none. */
	size_t (*next_address)(const uint8_t *code, size_t size, size_t from, int64_t *ret_to);

	/* All branches in [lo, hi) of the text that lead out of it, to bytes that matter. */
	void (*list)(const struct branch_search *s, uint64_t lo, uint64_t hi);
};

struct jump_abi {
	uint8_t len;		/* bytes of a jump (arch.jump) */
	uint8_t insn_least;	/* bytes of the shortest instruction, which is what instructions are aligned to */
	uint64_t reach;		/* of a jump, with a margin */
	void (*fill)(uint8_t *out, size_t n);	/* writes instructions that do nothing */
	/* Whether an instruction that does not continue (INSN_STOP) is what compilers put where nothing goes on. */
	bool (*is_end)(const uint8_t *code);

	/* A jump is `opcode` and a distance from its end, four bytes, the lowest first; prefixes before it change nothing. 0: it has another form. */
	uint8_t opcode, prefix;
	uint8_t short_len, short_opcode;	/* the same with a distance of one byte */

	/*
	 * The destination of the branch is to be changed: writes the bytes before it to head, of which there are in->len - 4. NULL: the
	 * branch is moved like any other instruction.
	 */
	enum retarget (*retarget)(const uint8_t *code, const struct insn *in, uint8_t *head);
	uint8_t slot_len;		/* bytes of a jump to where a word leads, */
	int (*by_slot)(uint8_t *out, uint64_t from, uint64_t slot);	/* which this writes; -ERANGE */

	const struct branch_scan *scan;	/* NULL: nothing leads into the middle of a jump */
};

#endif
