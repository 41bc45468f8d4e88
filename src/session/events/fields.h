/* SPDX-License-Identifier: MIT */
/*
 * What a probe records, as a person writes it behind the probe or after -t, and as the pads and the
 * trace need it.
 *
 *	field   := [name "="] term [":" type]
 *	term    := argN | retval | $retval | REGISTER | $regs | $stack | backtrace | NAME
 *	context := regs | reg:REGISTER | TYPE:NAME:ADDRESS | stack[:BYTES] | backtrace[:FRAMES] | field
 *	type    := int ... | s8 ... s64 | u8 ... u64 | x8 ... x64 | char | bool | ptr | float | double
 *		 | TYPE[N] | string | string[LIMIT] | bytes[N]
 *
 * A string, an array and bytes stand in memory where the term points to.
 */
#ifndef JAB_SESSION_FIELDS_H
#define JAB_SESSION_FIELDS_H

#include "arch/event.h"
#include "arch/regs.h"
#include "base/mem.h"
#include "trace/ctf.h"

enum field_from {
	FROM_ARG,		/* argument number `value`, by the calling convention */
	FROM_RET,		/* return value */
	FROM_REG,		/* general register `reg` */
	FROM_VECTOR,		/* low bytes of vector register `reg` */
	FROM_STACK,		/* 8 bytes at the site's stack pointer + value */
	FROM_CONST,		/* value */
	FROM_PC,		/* the site's own address */
	FROM_WALK,		/* return addresses: only with CTF_ADDRS */
	FROM_NAME,		/* `symbol`: a name of the source, looked up for each function */
};

struct field {
	char *name;
	uint8_t from, reg;
	int64_t value;
	char *symbol;		/* FROM_CONST: the value is this symbol's address, plus value */
	bool deref;		/* the term is an address: what is recorded stands there */
	bool has_type;		/* it was written */
	bool is_result;		/* the return value: not there at tail calls */
	bool is_void;		/* and nowhere else: the function returns nothing */
	struct ctf_field type;	/* its name is ours */
	uint32_t limit;		/* bytes of a string or of the stack, frames of a backtrace */
};

typedef VEC(struct field) field_list;

/* The fields behind a probe. is_exit: retval is there, arguments are not. */
int fields_parse(const struct arch_regs *regs, const char *text, bool is_exit, field_list *list);

/* One -t. */
int fields_parse_context(const struct arch_regs *regs, const char *text, field_list *list);

/* For words that were meant as fields: is it argN, xmmN, retval or $...; is it the name of a type? */
bool fields_is_term(const struct arch_regs *regs, const char *word);
bool fields_is_type(const char *word);

void fields_free(field_list *list);

/* Can emit_event() write it, or does it take a checked read or more than 8 bytes? */
bool field_is_plain(const struct field *f);

#endif
