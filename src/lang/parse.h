/* SPDX-License-Identifier: MIT */
/* The parser's own parts. One function a grammar rule, the rule above it. */
#ifndef JAB_LANG_PARSE_H
#define JAB_LANG_PARSE_H

#include "lang/ast.h"
#include "lang/lex.h"

#define PARSE_DEPTH 120		/* of nesting; deeper ones come from damaged input only */
#define PARSE_CHAIN 500		/* a + b + c... */

struct macro { const char *name; uint32_t pos; bool busy; };	/* #define name ...; where its text begins */

struct macro_param { uint8_t kind; const char *name; };		/* T_VAR, T_MAP or T_WORD */
struct block_macro { const char *name; uint32_t pos; struct macro_param *params; uint32_t nparams; bool is_line; };	/* macro name(...) {, #define name(...) */

struct parser {
	struct script *script;
	struct lexer lex;
	struct token tok;
	uint32_t last_end;	/* where the token before ended */
	uint32_t depth;
	bool in_predicate;	/* a '/' in front of '{' ends the expression */
	bool in_line;		/* a probe line: a field ends where the next one begins */
	bool panic;		/* an error was said; be quiet until we are back in step */
	VEC(struct macro) macros;
	VEC(struct block_macro) blocks;
	struct macro_use *use;	/* whose body we are in; NULL: none */
	uint32_t uses;
};

/* parse.c */
void parse_advance(struct parser *p);
void parse_rewind(struct parser *p, uint32_t pos);	/* read again from there */
bool parse_is(const struct parser *p, uint8_t kind);
bool parse_is_word(const struct parser *p, const char *word);
bool parse_accept(struct parser *p, uint8_t kind);
bool parse_accept_word(struct parser *p, const char *word);
bool parse_expect(struct parser *p, uint8_t kind, const char *where);
void parse_error(struct parser *p, const char *what);	/* "expected WHAT, found ..." */
void parse_error_in(struct parser *p, const char *what, const char *where);
bool parse_deeper(struct parser *p);	/* false: too deep; pair with p->depth-- */
struct stmt *parse_statements(struct parser *p, struct expr **ret_value);
struct stmt *parse_if(struct parser *p);

/* parse_expr.c */
struct expr *parse_expr(struct parser *p);		/* with assignment */
struct expr *parse_value(struct parser *p);		/* without */
struct expr *parse_new(struct parser *p, uint8_t kind, uint32_t at);
struct expr *parse_done(struct parser *p, struct expr *e);	/* sets len */
uint32_t parse_list(struct parser *p, uint8_t close, bool named, struct expr ***ret_list);

/* parse_type.c */
bool type_starts(struct parser *p);
struct type_name *parse_type(struct parser *p);
bool parse_struct_decl(struct parser *p);
bool parse_enum_decl(struct parser *p);
bool parse_typedef(struct parser *p);

/* parse_preamble.c */
bool parse_preamble(struct parser *p);	/* false: this is a clause */

/* parse_macro.c */
void parse_macro(struct parser *p);
void parse_define(struct parser *p, uint32_t at);	/* #define with parameters, from its name on */
struct expr *parse_macro_use(struct parser *p, const char *name);	/* NULL: it is no macro, or panic */
struct expr *parse_macro_arg(struct parser *p, const char *name);	/* NULL: no parameter */
const char *parse_macro_var(struct parser *p, const char *name);	/* what $name is called here */
const char *parse_macro_map(struct parser *p, const char *name);
struct type_name *parse_macro_type(struct parser *p);	/* a parameter that typeof(...) was handed over for; NULL: this is none */
bool parse_macro_is_type(const struct parser *p);

/* parse_sugar.c */
struct expr *parse_sugar(struct parser *p, struct expr *e);	/* a call as what it stands for; most stay */

struct expr *parse_or(struct parser *p, struct expr *e);	/* a ?: b, behind the colon */
struct expr *parse_container_of(struct parser *p, struct expr *e);	/* behind the name */

/* parse_if.c */
struct expr *parse_if_value(struct parser *p);
struct expr *parse_as_value(struct parser *p, const struct stmt *s);	/* an if that has a value in each branch; NULL: it has none */

/* parse_probe.c */
struct probe *parse_probe(struct parser *p);
const char *parse_probe_kind(const char *s, const char *word);	/* what is behind "word:"; NULL: s begins otherwise */
const char *parse_probe_name(struct parser *p, struct probe *pr, const char *s);	/* sets the name; what is behind its '=' */
bool parse_probe_text(struct parser *p, struct probe *pr);	/* reads pr->text */

/* parse_line.c */
bool parse_line(struct parser *p, struct clause *c);
bool parse_context(struct parser *p, struct clause *c);		/* p->lex is at its beginning, and ends with it */
bool parse_line_condition(struct parser *p, struct clause *c);	/* likewise: one more, which must be true as well */

#endif
