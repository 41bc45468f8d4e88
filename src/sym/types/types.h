/* SPDX-License-Identifier: MIT */
/*
 * Types, variables and source lines of one module, from its DWARF. The interface is like BTF's, so that the
 * kernel's types can be added: a type is a number, 0 is void, and everything else is requested by number.
 *
 * Nothing is read before it is requested. A type gets its number as soon as it is mentioned, but its debugging
 * entry is read by the first type_get(), so a probe on one function reads that function's compile unit and no
 * other.
 *
 * All pointers returned here are valid until module_close(). Addresses are link addresses as in sym.h. The debug
 * info is untrusted input: invalid parts become TYPE_UNKNOWN, LOC_GONE or an error with a message. Not to be used
 * from two threads at once for the same module.
 */
#ifndef JAB_SYM_TYPES_H
#define JAB_SYM_TYPES_H

#include "sym/sym.h"

struct types;

/*
 * The types of a module; they live with it and belong to it. -ENODATA with a message if there is no debug info,
 * -ENOTSUP if it is in .dwo files.
 */
int module_types(struct module *m, struct types **ret_types);

typedef uint32_t type_id;
#define TYPE_ID_VOID 0u

enum type_kind {
	TYPE_VOID,
	TYPE_INT,		/* also bool and characters, see flags */
	TYPE_FLOAT,		/* size 4, 8, 16 (x87 or quad: TYPE_QUAD) */
	TYPE_PTR,		/* ref: the type that it points to */
	TYPE_REF,		/* C++ & and && (TYPE_RVALUE): in memory and registers it is a pointer */
	TYPE_ARRAY,		/* ref: element; n of them */
	TYPE_STRUCT,		/* also class (TYPE_CLASS) */
	TYPE_UNION,
	TYPE_ENUM,		/* ref: the underlying integer, if known */
	TYPE_FWD,		/* struct, union, class or enum that is only declared: type_strip() finds its
				   definition, if another unit of this module has one */
	TYPE_TYPEDEF,
	TYPE_CONST, TYPE_VOLATILE, TYPE_RESTRICT, TYPE_ATOMIC,
	TYPE_FUNC,		/* ref: return type; members: parameters */
	TYPE_MEMBER_PTR,	/* C++ pointer to member: ref is the member's type */
	TYPE_UNKNOWN,		/* damaged, or a kind that is not supported */
};

enum type_flags {
	TYPE_SIGNED = 1 << 0,
	TYPE_BOOL = 1 << 1,
	TYPE_CHAR = 1 << 2,
	TYPE_CLASS = 1 << 3,	/* written with `class` */
	TYPE_VARIADIC = 1 << 4,	/* function with ... */
	TYPE_VECTOR = 1 << 5,	/* array that is one SIMD value */
	TYPE_UNSIZED = 1 << 6,	/* array of unknown or run-time length: n is 0 */
	TYPE_COMPLEX = 1 << 7,	/* two floats of size / 2 */
	TYPE_RVALUE = 1 << 8,
	TYPE_QUAD = 1 << 9,	/* 16 bytes of IEEE quad, not of x87 */
	TYPE_DECIMAL = 1 << 10,
	TYPE_FWD_UNION = 1 << 11, TYPE_FWD_ENUM = 1 << 12,	/* which word to print for a TYPE_FWD */
	TYPE_BY_REFERENCE = 1 << 13, /* C++ class that is passed by address, because it has a copy constructor or destructor */
};

enum member_flags {
	MEMBER_BASE = 1 << 0,	/* a base class; its members are found through it */
	MEMBER_VIRTUAL = 1 << 1, /* virtual base: its offset is known only at run time */
	MEMBER_ARTIFICIAL = 1 << 2, /* made by the compiler: _vptr */
	MEMBER_DISCR = 1 << 3,	/* Rust: the discriminant */
	MEMBER_VARIANT = 1 << 4, /* Rust: one of several variants at the same offset, valid if the MEMBER_DISCR has this
				    value */
};

/* Also a parameter of a TYPE_FUNC: then only name and type are used. */
struct type_member {
	const char *name;	/* NULL: anonymous struct or union; its members are found through it */
	type_id type;
	uint64_t bit_off;	/* from the start of the struct; little endian, so bit 0 is the lowest of byte 0 */
	uint32_t bit_size;	/* 0: no bit-field */
	uint32_t flags;
	uint64_t variant;	/* MEMBER_VARIANT: value of the discriminant; ~0: any other */
};

struct type_value { const char *name; int64_t value; };	/* of an enum; unsigned ones are cast */

struct type {
	const char *name;	/* "foo", "ns::Cls", "main.Point"; NULL if it has none */
	uint64_t size;		/* in bytes; 0 where not known */
	type_id ref;
	uint8_t kind;		/* enum type_kind */
	uint32_t flags;		/* enum type_flags */
	uint32_t align;		/* 0: not specified */
	uint32_t least_align;	/* of a struct: alignment that one of its members requests; of a typedef: that it requests
				   itself; 0: none */
	uint64_t n;		/* elements, members, values, parameters */
	union {
		const struct type_member *members;
		const struct type_value *values;
	};
};

/* Never NULL: an invalid number is a TYPE_UNKNOWN. The returned pointer stays valid. */
const struct type *type_get(struct types *t, type_id id);

/* Removes typedefs and qualifiers; a declaration is replaced by the definition in another unit. */
type_id type_strip(struct types *t, type_id id);

/*
 * Finds a type by its name in C's spelling: "int", "unsigned long", "foo_t", "struct foo", "enum e", "ns::Cls",
 * "alloc::string::String", "main.Point", each with any "const", "*" and "[N]" after it. near: an address in the
 * code where the name is used, whose own unit is searched first (0: none). C's basic types are found even if the
 * program does not use them. -ENOENT with a message.
 */
int type_find(struct types *t, const char *name, uint64_t near, type_id *ret_id);

type_id type_pointer_to(struct types *t, type_id id);
type_id type_array_of(struct types *t, type_id id, uint64_t n);

/*
 * Finds the member of a struct, union or class, through anonymous members and base classes. (Does not follow a
 * pointer to one.) bit_off counts from the start of the outermost struct. -ENOENT with a message that has similar
 * names; -ENOTSUP for members of virtual bases.
 */
int type_member(struct types *t, type_id id, const char *name, struct type_member *ret_member);

/* Finds the value of an enumerator, first in the enums of `near`'s unit, then in all others. */
int type_enumerator(struct types *t, const char *name, uint64_t near, type_id *ret_id, int64_t *ret_value);
const char *type_value_name(struct types *t, type_id id, int64_t value);	/* NULL if the value has no name */

/* Strings that are not char *: std::string, std::string_view, &str, String, Go's string. */
struct type_string {
	uint32_t ptr_off, len_off;	/* bytes from the start of the object */
	uint8_t len_size;
};
bool type_is_string(struct types *t, type_id id, struct type_string *ret_string);

/* In C's spelling. The caller frees the result. */
char *type_name(struct types *t, type_id id);
char *type_declare(struct types *t, type_id id, const char *name);	/* "char buf[16]", "int (*f)(int)" */
char *type_layout(struct types *t, type_id id);	/* a struct with its members, offsets and sizes, one per line */

/*
 * Where a value is: pieces in the order of their bytes. Almost always one piece of one of the first five kinds.
 * Other locations are a list of nodes, each of which uses only earlier ones, so that a code generator can go
 * through it once from the start.
 */
enum loc_kind {
	LOC_REG,		/* in general register reg, by its number (struct arch_regs) */
	LOC_VECTOR,		/* in the low bytes of vector register reg */
	LOC_MEM,		/* in memory at reg + off */
	LOC_GLOBAL,		/* in memory at link address off */
	LOC_CONST,		/* the value is off; padding between pieces that is not passed is 0 */
	LOC_TLS,		/* in memory, off bytes into this module's block of thread-local storage */
	LOC_ST,			/* register reg of a stack of floating point registers */
	LOC_BYTES,		/* the value is the bytes at `bytes` (size of them) */
	LOC_MEM_AT,		/* in memory at the address that node computes */
	LOC_VALUE,		/* the value is the one that node computes */
	LOC_GONE,		/* not available: see loc.why */
};

enum loc_op {
	LOP_CONST,		/* imm */
	LOP_REG,		/* general register a, as at the probed address */
	LOP_ADDR,		/* link address imm (add the module's bias) */
	LOP_TLS,		/* address of byte imm of this module's thread-local block */
	LOP_LOAD,		/* zero-extended imm (1, 2, 4, 8) bytes at address a */
	LOP_ADD, LOP_SUB, LOP_MUL, LOP_AND, LOP_OR, LOP_XOR,
	LOP_SHL, LOP_SHR, LOP_SAR,	/* a by b, which is less than 64 */
	LOP_SDIV, LOP_UMOD,	/* by zero: any result; a LOP_KNOWN excludes that */
	LOP_UDIV,
	LOP_EQ, LOP_NE, LOP_SLT, LOP_SLE, LOP_SGT, LOP_SGE,	/* 0 or 1, signed */
	LOP_ULT, LOP_ULE,
	LOP_NEG, LOP_NOT,
	LOP_SEXT, LOP_ZEXT,	/* the low imm bytes of a, extended */
	LOP_IF,			/* a != 0 ? b : node imm */
	LOP_KNOWN,		/* a, if b is not 0; otherwise the value is not known */
};

struct loc_node {
	uint8_t op;
	uint16_t a, b;		/* earlier nodes; LOP_REG: a is the register */
	int64_t imm;
};

struct loc_piece {
	uint8_t kind;		/* enum loc_kind */
	uint8_t reg;
	uint16_t node;
	uint32_t size;		/* bytes of this piece */
	int64_t off;
	const uint8_t *bytes;
};

struct loc {
	const struct loc_piece *pieces;
	uint32_t n;
	uint32_t nnodes;
	const struct loc_node *nodes;
	const char *why;	/* if a piece is LOC_GONE: the reason as the end of a sentence, "it is optimised away here" */
};

/* Whether the value is one piece that is available. */
static inline bool loc_is_whole(const struct loc *l)
{
	return l->n == 1 && l->pieces[0].kind != LOC_GONE;
}

/* Whether all pieces of the value are available. */
static inline bool loc_is_there(const struct loc *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->pieces[i].kind == LOC_GONE)
			return false;
	return l->n > 0;
}

enum var_kind { VAR_PARAM, VAR_LOCAL, VAR_GLOBAL, VAR_STATIC, VAR_RETURN };
enum var_from {
	VAR_BY_ABI,		/* the calling convention, trusted at entry */
	VAR_BY_DWARF,		/* the debug info's location for this address */
};

enum var_flags {
	VAR_ARTIFICIAL = 1 << 0, /* made by the compiler: `this` */
	VAR_RESULT = 1 << 1,	/* Go: a named result, not available before the return */
	VAR_DISPUTED = 1 << 2,	/* calling convention and debug info disagree; `from` says which one was used */
	VAR_UNSURE = 1 << 3,	/* the compiler knew all callers and may have changed how they call */
};

struct var {
	const char *name;	/* NULL: an unnamed parameter */
	type_id type;
	uint8_t kind;		/* enum var_kind */
	uint8_t from;		/* enum var_from */
	uint8_t flags;
	uint16_t depth;		/* scopes outwards from the address: 0 is innermost; inlined functions count */
	struct loc loc;
};

typedef VEC(struct var) var_list;	/* the caller frees it with vec_free() */

enum types_lang { LANG_C, LANG_CXX, LANG_RUST, LANG_GO, LANG_OTHER };

/*
 * A function: where its parameters are at its first instruction, and where its return value will be at the return.
 * Compilers follow the ABI unless they know all callers (static functions, clones): for these a location list that
 * covers the first instruction takes precedence.
 */
struct func_types {
	const char *name;	/* qualified, without parameters */
	const char *linkage;	/* as in the symbol table, where it differs; else NULL */
	uint64_t entry;
	type_id type;		/* TYPE_FUNC */
	type_id ret;
	uint8_t lang;		/* enum types_lang */
	bool external, variadic;
	bool is_void;		/* it returns nothing; false if the debug info has no types at all */
	uint32_t line;		/* line in types_func_file() */
	uint32_t nparams, nresults;
	const struct var *params;	/* behind them Go's results, each for itself: loc as in retval */
	struct var retval;	/* loc at the ret instruction; a large one in memory, but see result_at */
	struct var result_at;	/* Rust: a result in memory, loc at the entry, where its address is known; it is written
				   by the time of the return. loc.n == 0: none, retval is to be used */
};

int types_func(struct types *t, uint64_t entry, const struct func_types **ret_func);
const char *types_func_file(struct types *t, uint64_t entry);	/* reads the unit's line table; NULL where not known */
char *types_func_declare(struct types *t, uint64_t entry);	/* "int f(char *a, ...)"; caller frees; NULL if not known */

/*
 * Lists all locals and parameters at an address, innermost scope first, including those of inlined functions.
 * Statics and globals outside of functions are not listed: types_global() finds them. A name that is shadowed is
 * listed again later. At a function's first instruction parameters are as in types_func().
 */
int types_vars_at(struct types *t, uint64_t pc, var_list *list);

/* Finds a variable of types_vars_at() by name, or a static or global; the innermost one. -ENOENT with similar names. */
int types_var(struct types *t, uint64_t pc, const char *name, struct var *ret_var);

/*
 * Like types_var(), for a probe on an inlined copy of a function: its variables come first, even if the instruction
 * belongs to another function.
 */
int types_copy_var(struct types *t, uint64_t pc, const char *name, struct var *ret_var);

/* Finds a global or static by name ("ns::x" too); in the unit of `near` first. -ENOENT if there is none. */
int types_global(struct types *t, const char *name, uint64_t near, struct var *ret_var);

/* One place where the compiler has inlined a copy of a function. */
struct inlined_site {
	uint64_t entry;		/* first instruction of the copy: can be probed */
	uint64_t caller;	/* entry of the function that contains it */
	const char *name;
	const char *file;	/* source position of the call; NULL, 0 if not known */
	uint32_t line;
};
typedef VEC(struct inlined_site) inlined_list;

/* Lists the inlined copies of a function. Returns how many were added (0 is no error). name: plain or qualified. */
int types_inlined(struct types *t, const char *name, inlined_list *list);

/* Source lines: lines.c */
struct line_site {
	uint64_t addr;
	const char *file;	/* as given to the compiler, with its directory */
	uint32_t line, column;
	const char *func;	/* NULL if not known */
};
typedef VEC(struct line_site) line_list;

/*
 * Finds the addresses at which a line begins, one per function and per inlined copy. file matches by its last path
 * components ("b.c" and "a/b.c" both match /src/a/b.c). For a line without code the next line with code is used.
 * -ENOENT if there is no such file, -ENODATA if it has no such line.
 */
int lines_find(struct types *t, const char *file, uint32_t line, line_list *list);

/* Finds the line of an address; func is the innermost function, including inlined ones. */
int lines_at(struct types *t, uint64_t pc, struct line_site *ret_site);

/*
 * Lists the frames at an address, for a backtrace: the inlined functions at pc from the innermost outwards, then
 * the function itself.
 */
int lines_frames(struct types *t, uint64_t pc, line_list *list);

#endif
