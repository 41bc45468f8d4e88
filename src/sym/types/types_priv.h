/* SPDX-License-Identifier: MIT */
/* Shared by the readers of debug info: types*.c, dw_*.c and lines.c. */
#ifndef JAB_SYM_TYPES_PRIV_H
#define JAB_SYM_TYPES_PRIV_H

#include "sym/priv.h"
#include "sym/types/types.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

/*
 * Damaged debug info can nest and refer without end. These limits are beyond what compilers emit; beyond them the
 * result is "unknown".
 */
#define MOST_DEPTH 64		/* references, scopes in scopes */
#define MOST_MEMBERS 65536
#define MOST_ARRAY (1ull << 40)	/* bytes */

/* A namespace, class or enum of a unit, from the start of its entry to the end. Sorted by lo, in the order of the walk. */
struct scope { const uint8_t *lo, *hi; uint32_t outer; };

/* A name in a unit outside of functions. Sorted by hash. */
struct entry { uint32_t hash; uint16_t tag; bool declared; const char *name; const uint8_t *die; };

/* Code of a function. Sorted by lo. */
struct code { uint64_t lo, hi; const uint8_t *die; };
typedef VEC(struct code) code_list;

/* One compile, partial or type unit. The entries below its first one are read on demand. */
struct unit {
	Dwarf_Die die;
	const uint8_t *end;
	uint8_t lang;		/* enum types_lang */
	bool go_regs;		/* Go's register ABI */
	uint16_t clang, rustc;	/* compiler version: of clang the first number, of rustc the second; 0: another compiler */
	bool have_codes, have_nested, have_names;
	VEC(struct scope) scopes;
	VEC(struct entry) entries;
	code_list codes, nested;
	VEC(uint32_t) imports;	/* dwz: units that count as part of this one */
};

struct unit_range { uint64_t lo, hi; uint32_t unit; };

/* One file of debug info: the module's, or the one to which dwz has moved common parts. */
struct dw_file {
	Elf *elf;
	Dwarf *dw;
	struct content unpacked;	/* a copy of the file in which libelf records the sections that it has unpacked */
	struct bytes info, types, str, str_offsets, line, line_str;
	uint32_t first, n;	/* its units... */
	uint32_t ninfo;		/* ...of which this many are in .debug_info, before those in .debug_types */
};

struct slot { Dwarf_Die die; struct type *type; bool loading; };

struct hashed { const void *key; uint32_t id; };
struct table { struct hashed *v; size_t n, cap; };	/* cap is a power of two */

/* A name that was searched in all units, and the result. */
struct asked_name {
	const char *name;
	uint8_t what;		/* enum find_what */
	bool defined, declared;	/* by die; neither: the name was not found */
	Dwarf_Die die;
};

struct types {
	struct module *m;
	struct extra extra;	/* the debug file, if it is not the module itself */
	struct content common;	/* the file of common parts */
	struct dw_file main, alt;
	Dwarf_CFI *eh, *debug_frame;
	Elf *eh_elf;		/* the module's own file: a debug file has no .eh_frame */
	bool have_ranges;
	VEC(struct unit) units;
	VEC(struct unit_range) ranges;
	VEC(struct slot) slots;	/* by type_id */
	struct table by_cu;	/* Dwarf_CU -> index + 1 in units, which does not move after opening */
	struct table by_die;	/* entry's address -> type_id */
	struct table funcs;	/* entry address -> index + 1 in func_list */
	VEC(struct func_types *) func_list;
	VEC(void *) chunks;
	uint8_t *chunk_at;
	size_t chunk_left;
	VEC(struct { const char *name; uint8_t kind; type_id id; }) resolved;	/* declarations */
	VEC(struct asked_name) asked;	/* dw_find.c */
	struct dw_calls *calls;	/* NULL until it is first needed */
	unsigned int depth;
};

/* types.c */
void *types_alloc(struct types *t, size_t size);	/* zeroed, lives with t */
char *types_string(struct types *t, const char *s);
uint32_t table_get(const struct table *b, const void *key);	/* 0: not found */
void table_put(struct table *b, const void *key, uint32_t id);
type_id type_new(struct types *t, const struct type *type);
type_id type_of_die(struct types *t, Dwarf_Die *die);
Dwarf_Die *type_die(struct types *t, type_id id);	/* NULL if it does not come from the debug info */

/* dw_open.c */
int dw_open(struct types *t);
void dw_close(struct types *t);

/* dw_alt.c: maps the file to which dwz has moved parts of this debug info, if it is found */
bool dw_map_alt(struct types *t);

/* dw_unit.c: units and the names in them */
struct unit *unit_of(struct types *t, Dwarf_Die *die);
struct unit *unit_at(struct types *t, uint64_t pc);	/* NULL if no unit covers this address */
void unit_codes(struct types *t, struct unit *u);	/* its functions and scopes */
void unit_nested(struct unit *u);	/* functions in functions (GNU C, Ada): read only if no other is found */
void unit_names(struct types *t, struct unit *u);	/* its names and imports */
const char *unit_qualified(struct types *t, struct unit *u, Dwarf_Die *die);	/* NULL if it has no name */
bool unit_scope_die(struct types *t, Dwarf_Die *die, Dwarf_Die *ret_die);	/* the type or namespace around it */
uint32_t name_hash(const char *name, size_t len);

/* dw_attr.c: attributes with all their forms */
bool die_at(const struct unit *u, const uint8_t *at, Dwarf_Die *ret_die);
const char *die_name(Dwarf_Die *die);
bool die_flag(Dwarf_Die *die, unsigned int attr);
bool die_number(Dwarf_Die *die, unsigned int attr, uint64_t *ret_value);
bool die_place(Dwarf_Die *die, unsigned int attr, Dwarf_Attribute *ret_attr);	/* an expression, or a location list */
bool die_ref(Dwarf_Die *die, unsigned int attr, Dwarf_Die *ret_die);
const char *die_file(Dwarf_Die *die, unsigned int attr);	/* libdw's own function takes file 0 of DWARF 5 for none */
bool die_first(Dwarf_Die *die, Dwarf_Die *ret_child);
bool die_next(Dwarf_Die *die);	/* to the next sibling */
type_id die_type(struct types *t, Dwarf_Die *die);	/* its DW_AT_type; void if it has none */

/* dw_find.c: names in all units */
enum find_what { FIND_TYPE, FIND_STRUCT, FIND_UNION, FIND_ENUM, FIND_TYPEDEF, FIND_VARIABLE, FIND_FUNCTION, FIND_ENUMERATOR };
typedef VEC(Dwarf_Die) die_list;
bool tag_is_alias(int tag);	/* typedef and basic types */
/*
 * Finds definitions of the name: those in the unit `near`, else in other units until there are `most`. SIZE_MAX:
 * all of all units. A declaration is returned only if there is no definition.
 */
int dw_find(struct types *t, struct unit *near, const char *name, enum find_what what, size_t most, die_list *list);

void dw_mark_units(struct types *t, const void *bytes, size_t n, uint8_t *marked);	/* marks the units that contain these bytes */
void dw_find_copies(struct types *t, Dwarf_Die *of, die_list *list);

/* dw_lines.c: marks the units whose line table may have a file of that name */
void dw_mark_file(struct types *t, const char *file, uint8_t *marked);

/* dw_type.c */
void dw_load(struct types *t, struct slot *s, struct type *type);

/* dw_loc.c: evaluates an expression at the address where it is valid */
struct dw_context { Dwarf_Die *func; uint64_t pc, size; bool at_entry; };
struct loc dw_evaluate(struct types *t, const struct dw_context *c, Dwarf_Attribute *attr, const Dwarf_Op *ops, size_t n);

/*
 * dw_call.c: the calls of a function in its own module. A thread in the function whose return address is that of
 * one of these calls has come by that call and no other way. Returns a reason if nothing is known.
 */
#define MOST_CALLS 32
struct dw_call { uint64_t ret; Dwarf_Die caller, call; };
const char *dw_calls_to(struct types *t, uint64_t entry, const struct dw_call **ret_calls, size_t *ret_n);
bool dw_call_value(const struct dw_call *call, uint64_t reg, Dwarf_Attribute *ret_attr);	/* the value that the call passes in reg */
void dw_calls_free(struct types *t);

/* dw_place.c */
struct loc loc_gone(const char *why);
struct loc loc_one(struct types *t, struct loc_piece p);
/*
 * Where the variable or parameter of this entry is. func: the function it belongs to (for its frame base), or NULL
 * for a global. *ret_listed: the location came from a location list, which is exact.
 */
struct loc dw_location(struct types *t, Dwarf_Die *var, Dwarf_Die *func, uint64_t pc, uint64_t size, bool *ret_listed);
bool dw_is_indirect(Dwarf_Die *var);	/* its location ends in a load: it is passed by address */

/* dw_scope.c */
Dwarf_CFI *dw_eh_frame(struct types *t);	/* NULL if there is none */
typedef VEC(Dwarf_Die) scope_chain;	/* innermost first, the function's own entry last */
int dw_scopes(struct types *t, uint64_t pc, bool is_copy, struct unit **ret_unit, scope_chain *chain);
bool dw_func_die(struct types *t, uint64_t pc, struct unit **ret_unit, Dwarf_Die *ret_die);
bool dw_entry_pc(Dwarf_Die *die, uint64_t *ret_pc);

/*
 * Calling conventions: types_abi.c (C), types_abi_go.c, types_abi_rust.c. Parameters are requested in order;
 * each one uses up registers or stack slots.
 */
enum abi_kind { ABI_C, ABI_GO, ABI_GO_STACK, ABI_RUST };

struct abi {
	struct types *t;
	uint8_t kind;		/* enum abi_kind */
	bool results;		/* Go: locations are those at the return */
	uint8_t ints, floats;	/* registers used so far */
	uint64_t stack;		/* bytes used so far above the return address */
	uint16_t clang, rustc;	/* as in struct unit */
	const char *ints_why, *floats_why; /* why it is not known which registers of that kind are used so far; NULL: it is
					      known */
};

const struct call_abi *abi_call(const struct abi *a);	/* its registers */

/* by_reference: the debug info says that this parameter is passed by address. */
struct loc abi_param(struct abi *a, type_id type, bool by_reference);
struct loc abi_return(struct abi *a, type_id type);
bool abi_returns_in_memory(struct abi *a, type_id type);	/* the caller passes the address of the result */
void abi_hidden_result(struct abi *a, type_id type);	/* before the parameters: accounts for the address of the result, if
							   it is passed */
uint64_t abi_align(struct types *t, type_id id);

/* The pieces of one value while they are collected. */
struct pieces { struct loc_piece v[64]; uint32_t n; };
void pieces_add(struct pieces *p, struct loc_piece piece);
struct loc pieces_loc(struct types *t, const struct pieces *p);
struct loc abi_on_stack(struct abi *a, uint64_t size, uint64_t align);
struct loc abi_pointed(struct abi *a, uint64_t size);	/* memory that the next int register points to */

struct loc abi_go_param(struct abi *a, type_id type);
struct loc abi_rust_param(struct abi *a, type_id type);
struct loc abi_rust_return(struct abi *a, type_id type);
bool abi_rust_in_memory(struct abi *a, type_id type);
const char *abi_rust_returns_oddly(struct abi *a, type_id type);	/* why its location is not known; NULL: it is known */

#endif
