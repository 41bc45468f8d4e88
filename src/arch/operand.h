/* SPDX-License-Identifier: MIT */
/*
 * An operand as an assembler writes it, which is how notes of static tracepoints say where their arguments are:
 * "%rax", "$-5", "-8(%rbp,%rcx,4)", "counter+8(%rip)"; "w0", "[sp, 12]".
 */
#ifndef JAB_ARCH_OPERAND_H
#define JAB_ARCH_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum operand_kind {
	OPERAND_REG,		/* general register reg, from bit `shift` on */
	OPERAND_VECTOR,		/* low bytes of vector register reg */
	OPERAND_CONST,		/* value, and the address of the symbol if there is one */
	OPERAND_MEM,		/* memory at base + index * scale + value, and the address of the symbol if there is one */
};

#define OPERAND_NONE 0xff	/* base, index: there is none */

struct text_operand {
	uint8_t kind;
	uint8_t reg, shift;
	uint8_t base, index, scale;
	bool of_thread;		/* the address counts from the thread pointer; the symbol is thread-local */
	int64_t value;
	const char *symbol;	/* in the text, not terminated; NULL: none */
	size_t symbol_len;
};

/* Reads a number (0NNN, NNN, 0xNNN, with a sign) at *at, before end. false: there is none, or it has more than 64 bits. */
bool operand_number(const char **at, const char *end, int64_t *ret_value);

#endif
