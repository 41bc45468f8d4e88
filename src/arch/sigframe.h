/* SPDX-License-Identifier: MIT */
/*
 * The frame that the kernel lays on a stack for a signal, and that rt_sigreturn takes back. jab writes one itself for a thread
 * that it borrows (proc/borrow/frame.c).
 */
#ifndef JAB_ARCH_SIGFRAME_H
#define JAB_ARCH_SIGFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/thread.h"

#define CONTEXT_MOST 640		/* bytes of a context */
#define VECTORS_MAX 16384	/* most bytes of vector registers */

#define FRAME_WORDS 80		/* of a frame that are looked at; no frame is shorter */
#define FRAME_MOST (64 * 1024ull)	/* bytes of a frame, vector registers included */

struct signal_abi {
	uint32_t vector_set;		/* of PTRACE_GETREGSET: the vector registers */
	uint16_t vector_least;		/* that many bytes it has at least */

	uint16_t context_len;		/* bytes of what write_context writes; the vector registers follow */

	/* What the kernel writes, by words from the lowest one on, which is the address of the restorer. */
	uint8_t sp, pc, flags, stack_sp, stack_flags, stack_size, vectors_at;
	uint8_t nregs, reg[CPU_REGS];
	uint64_t mark;			/* not 0: the word at vectors_at is this, and no address */
	uint16_t to_vectors;		/* bytes from the frame to the vector registers, */
	uint16_t to_own_vectors;	/* and of one that write_context has made, from a word below that */

	/* Whether there can be such a frame at that address, by what no handler changes: */
	bool (*may_be)(uint64_t at, const uint64_t *frame);
	/* Whether its vector registers have the kernel's marks. */
	bool (*is_marked)(const uint64_t *frame, const struct cpu_memory *m);

	/*
	 * Registers that a system call discards, which a borrowed thread so gets back from a copy. wide_set: of PTRACE_GETREGSET, 0: there
	 * are none. wide_in_use: whether these bytes of it say that they matter. add_wide: appends them to what take_vectors has made, of
	 * `len` bytes; returns the new length, 0: a frame can't hold so many.
	 */
	uint32_t wide_set;
	bool (*wide_in_use)(const uint8_t *set, size_t len);
	size_t (*add_wide)(uint8_t *vectors, size_t len, const uint8_t *set, size_t set_len);

	/* Takes its time: it is called before anything is stopped. */
	void (*prepare)(void);

	/*
	 * Turns `len` bytes of that set into those of a frame, which may be longer by 64 bytes at most. Returns their length.
	 * In a frame their address is a multiple of 64.
	 */
	size_t (*take_vectors)(uint8_t *set, size_t len);

	/* Writes a context of context_len bytes; the alternate signal stack stays as it is. vectors: their address */
	void (*write_context)(uint8_t *out, const struct thread_regs *r, uint64_t mask, uint64_t vectors);

	/* Whether these three words, a pc and what follows, can be of user code's registers in the kernel's order. */
	bool (*is_context)(const uint64_t *pc);
};

/* What the word at vectors_at of a frame of the kernel's at this address is. */
static inline uint64_t sigframe_mark(const struct signal_abi *abi, uint64_t at)
{
	return abi->mark ? abi->mark : at + abi->to_vectors;
}

#endif
