/* SPDX-License-Identifier: MIT */
/*
 * A script as it was written. Nodes live in the script's pool and know their place in the source.
 * check.c fills in the fields it owns (types, what a name means); nobody else changes a node.
 */
#ifndef JAB_LANG_AST_H
#define JAB_LANG_AST_H

#include <stdbool.h>
#include <stdint.h>
#include "lang/diag.h"
#include "lang/pool.h"
#include "sym/types/types.h"

struct vtype;		/* check.h */

/* A type as written: "unsigned long", "struct foo *", "uint8[8]", "ns::S". */
struct type_name {
	uint32_t at, len;
	const char *tag;	/* "struct", "union", "enum" or NULL */
	const char *name;	/* words joined by one blank, const and volatile left out */
	uint32_t pointers;
	uint32_t ndims;
	int64_t dims[4];	/* -1: [] */
	struct expr *of;	/* typeof(value) */
	struct type_name *of_type;	/* typeof(type) */
};

enum expr_kind {
	E_INT, E_FLOAT, E_STR, E_BOOL,
	E_VAR,			/* $name */
	E_PARAM,		/* $1: number in value */
	E_NPARAMS,		/* $# */
	E_MAP,			/* name[list] */
	E_NAME,			/* a word: builtin, local, argument, enumerator */
	E_CALL,			/* name(list) */
	E_NAMED,		/* name = a, an argument of record() or a field */
	E_MEMBER,		/* a.name; arrow: a->name */
	E_ELEMENT,		/* a.0: value */
	E_INDEX,		/* a[b] */
	E_UNARY,		/* op a: + - ! ~ * & */
	E_BINARY,		/* a op b, also && || */
	E_COND,			/* a ? b : c */
	E_CAST,			/* (to)a */
	E_SIZEOF,		/* a or to */
	E_OFFSETOF,		/* to (or a), name: a.b.c */
	E_TUPLE,		/* list */
	E_STEP,			/* a++ a-- ++a --a: op, prefix */
	E_ASSIGN,		/* a op= b; op 0: plain */
	E_BLOCK,		/* { body; a } */
	E_PLACE,		/* an address in the process: name (a symbol, or NULL) + value */
};

/* Operators are tokens (lex.h). */
struct expr {
	uint8_t kind;
	uint8_t op;
	bool prefix, arrow;	/* E_INT: prefix is set for characters; E_CAST, E_CALL: for a type written behind a field */
	uint8_t form;		/* E_INT, E_FLOAT: how it is written (lex.h) */
	bool has_keys;		/* E_MAP: [...] was written */
	uint32_t at, len;
	const char *name;
	uint64_t value;		/* E_INT, E_BOOL, E_PARAM, E_ELEMENT */
	double fvalue;
	uint32_t text_len;	/* E_STR: name holds the bytes */
	struct expr *a, *b, *c;
	struct expr **list;
	const char **fields;	/* E_TUPLE: of a record, the names of its values */
	uint32_t nlist;
	struct stmt *body;
	struct type_name *to;

	/* check.c */
	const struct vtype *type;
	int meaning;		/* E_NAME, E_CALL: number in a table of builtins */
	void *ref;		/* the variable, map, symbol it stands for */
};

enum stmt_kind {
	S_EXPR, S_LET, S_IF, S_WHILE, S_UNROLL, S_FOR_MAP, S_FOR_RANGE, S_BREAK, S_CONTINUE, S_RETURN, S_BLOCK,
};

struct stmt {
	uint8_t kind;
	uint32_t at, len;
	struct stmt *next;
	struct expr *a, *b;	/* condition, count, map, from and to, value */
	struct expr *var;	/* S_LET, S_FOR_*: E_VAR */
	struct type_name *type;	/* S_LET */
	struct stmt *body, *other;
	bool is_value;		/* S_EXPR: nothing stands behind it, so that it may be the value of its block */
};

enum probe_kind {
	PROBE_BEGIN, PROBE_END, PROBE_INTERVAL,
	PROBE_SITE,		/* spec: uprobe, uretprobe, insn */
	PROBE_CALL,		/* spec: entry and exit as one */
	PROBE_LINE,		/* file:line in spec_text */
};

struct probe {
	uint8_t kind;
	uint32_t at, len;
	const char *text;	/* as written, without NAME= and quotes */
	const char *name;	/* NAME, or NULL */
	uint64_t period;	/* PROBE_INTERVAL: ns */
	const char *object;	/* PROBE_LINE: may be NULL */
	const char *file;
	uint32_t line;
	struct probe_spec *spec;	/* owned by the script */
};

/* One action block; a probe line has fields instead of a body. */
struct clause {
	struct probe **probes;
	uint32_t nprobes;
	struct expr *predicate;	/* or NULL */
	struct stmt *body;	/* or NULL */
	struct expr **fields;	/* E_NAMED, others by their text; E_CAST with ":type" */
	uint32_t nfields;
	uint32_t nmore;		/* of these: last, for all probes; without others there are also those of a probe without fields */
	bool is_line;		/* C's arithmetic, as in the program; scripts have 64-bit integers */
	uint32_t at;
};

struct config { const char *name, *value; uint32_t at, len, value_at, value_len; };

struct map_decl { const char *name, *kind; uint64_t max_keys; uint32_t at, len; };

/* struct NAME { type name; ... }; in the preamble */
struct member_decl { struct type_name *type; const char *name; uint32_t bits; bool is_field; uint32_t at, len; };
struct struct_decl {
	const char *tag, *name;
	struct member_decl *members;
	uint32_t nmembers;
	bool packed;
	uint32_t at, len;
};
struct alias_decl { const char *name; struct type_name *type; };	/* typedef */
struct enum_decl { const char *name; struct type_value *items; uint32_t nitems; };

struct script {
	struct pool pool;
	struct diags diags;
	char *source;		/* a copy */
	VEC(struct clause *) clauses;
	VEC(struct config) configs;
	VEC(struct map_decl) maps;
	VEC(struct struct_decl) structs;
	VEC(struct enum_decl) enums;
	VEC(struct alias_decl) aliases;
	VEC(struct probe_spec *) specs;
	/* $1...: as given on the command line */
	char *const *params;
	uint32_t nparams;
	char *const *options;	/* --name=value, for getopt() */
	uint32_t noptions;
	bool unsafe;		/* system() may be used (--unsafe) */
};

/*
 * Read a script. Errors are in script->diags; -EINVAL if there are any. ret_script is always given
 * (also with errors) and freed by script_free(). name is shown in messages and must live on.
 */
int script_parse(const char *name, const char *text, size_t len, struct script **ret_script);

/* The same with $1... already known: probes may contain them (uprobe:$1:main). params must live on. */
int script_parse_params(const char *name, const char *text, size_t len, char *const *params, uint32_t nparams,
			struct script **ret_script);

/*
 * Read a probe line: [NAME=] [kind:] [object:] place [field ...] [if cexpr]. One clause. more: what all lines have; NULL:
 * nothing. line_check_context(): one context alone; -EINVAL with its message as sentence.
 */
struct line_more {
	char *const *contexts;		/* fields, as after -t */
	size_t ncontexts;
	const char *condition;		/* that must be true as well; NULL: none */
};
int line_parse(const char *text, const struct line_more *more, struct script **ret_script);
int line_check_context(const char *text);
bool line_is_field(const char *word);	/* can it only be meant as a field: argN, retval, a vector register, $... */
bool line_is_type(const char *word);	/* the name of a type of fields */
void script_free(struct script *s);

/* As S-expressions, one clause a line; for tests and --dump ast. Caller frees. */
char *script_dump(const struct script *s);

#endif
