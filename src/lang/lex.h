/* SPDX-License-Identifier: MIT */
/* Words of the language. The parser asks for one at a time, because probes are read in another way. */
#ifndef JAB_LANG_LEX_H
#define JAB_LANG_LEX_H

#include "lang/diag.h"
#include "lang/pool.h"

enum token_kind {
	T_END,
	T_INT, T_FLOAT, T_STR,
	T_WORD,			/* also keywords */
	T_VAR,			/* $x; $1 and $# too */
	T_MAP,			/* @ or @x */
	T_BAD,			/* already complained about */
	/* operators and signs; single characters are themselves below 128 */
	T_FIRST_OP = 128,
	T_ARROW, T_INC, T_DEC, T_SHL, T_SHR, T_LE, T_GE, T_EQ, T_NE, T_ANDAND, T_OROR, T_RANGE, T_SCOPE,
	T_ADD_SET, T_SUB_SET, T_MUL_SET, T_DIV_SET, T_MOD_SET, T_AND_SET, T_OR_SET, T_XOR_SET, T_SHL_SET, T_SHR_SET,
	T_ELLIPSIS,
};

/* How a number is written; C makes its type of that. */
enum number_form { NUMBER_UNSIGNED = 1 << 0, NUMBER_LONG = 1 << 1, NUMBER_NOT_DECIMAL = 1 << 2, NUMBER_FLOAT = 1 << 3 };

struct token {
	uint8_t kind;
	uint8_t form;		/* T_INT, T_FLOAT: enum number_form */
	uint32_t at, len;
	uint64_t value;		/* T_INT */
	double fvalue;		/* T_FLOAT */
	const char *text;	/* T_STR: bytes; T_WORD, T_VAR, T_MAP: the name without its sign */
	uint32_t text_len;
};

struct lexer {
	const char *s;		/* NUL behind it */
	uint32_t size, pos;
	struct pool *pool;
	struct diags *diags;
	bool unclosed;		/* a string or comment; what follows may be inside out */
};

/* Skip blanks and comments. */
void lex_blanks(struct lexer *l);
struct token lex_next(struct lexer *l);

/* "+", "<<=", ...: how a token is written; "number" and the like for the others. */
const char *token_text(uint8_t kind);

/* The operator behind "+=" and its like, 0 if it is none. */
uint8_t token_assigns(uint8_t kind);

#endif
