/* SPDX-License-Identifier: MIT */
/*
 * Types of values. Those of the program come from its debug info (sym/types/types.h) or from structs that
 * the script defines; strings, tuples and aggregations are the language's own. Types live in the
 * script's pool and are never changed; the basic ones are constants.
 */
#ifndef JAB_LANG_TYPE_H
#define JAB_LANG_TYPE_H

#include "lang/ast.h"
#include "lang/ir.h"
#include "sym/types/types.h"

struct lang;

enum v_kind {
	V_ERROR,		/* something was wrong, and said; goes with everything. With `types`: see v_is_odd() */
	V_VOID,
	V_INT,			/* size, is_signed; also bool, char and enums */
	V_FLOAT,		/* size 4 or 8 */
	V_PTR,			/* to */
	V_ARRAY,		/* n of `to` */
	V_STRUCT,		/* also unions and classes */
	V_STR,			/* text of at most size bytes */
	V_BUF,			/* bytes, at most size */
	V_TUPLE,		/* n elems */
	V_STACK, V_USYM, V_SITE, V_TIME,	/* numbers that are shown in their own way: show is an ir_type */
	V_SHOWN,		/* addresses of networks and the like: extra says how; show IR_ENUM in a register, IR_STRUCT in a slot */
	V_AGG,			/* count(), hist(), ...: only as the value of a map */
	V_ARGS,			/* `args` itself */
};

/* From SHOWN_COMM on: of a process, whose number is in the register; what /proc says of it when it is shown. */
enum v_shown_as { SHOWN_INET4, SHOWN_INET6, SHOWN_MAC, SHOWN_ERRNO, SHOWN_USER, SHOWN_SIGNAL, SHOWN_SYSCALL, SHOWN_CGROUP_ID, SHOWN_COMM, SHOWN_PCOMM, SHOWN_PPID,
	SHOWN_CGROUP, SHOWN_CGROUP_PATH };

struct vmember { const char *name; const struct vtype *type; uint64_t bit_off; uint32_t bit_size; };

struct vtype {
	uint8_t kind;
	bool is_signed, is_bool, is_char;
	bool is_raw;			/* V_INT: a register as it is, perhaps of something narrower */
	bool to_int;			/* V_INT: C makes an int of it: a bit-field narrower than that, an enumerator */
	bool packed;			/* V_STRUCT of the script: without gaps */
	bool is_text;			/* V_PTR: where it points to is text, as a note says */
	bool counted;			/* V_ARRAY: how many elements there are is a value beside it (val.elems) */
	bool held;			/* V_ARRAY: a number looked at as an array; it is in a register */
	uint8_t show;			/* enum ir_type */
	uint8_t base;			/* V_INT: IR_SHOW_RAW, IR_SHOW_OCTAL: how a field of it is written */
	uint8_t agg;			/* V_AGG: enum ir_map_kind */
	uint64_t size;
	uint64_t n;
	uint32_t extra;			/* stack mode; number of the strftime format */
	const struct vtype *to;
	const struct vtype *const *elems;
	const char *const *fields;	/* V_TUPLE: a record, its elements have names */
	struct types *types;		/* from the program: structs, enums */
	type_id id;
	const struct struct_decl *decl;	/* from the script */
	const struct enum_decl *enums;	/* likewise */
	const struct vmember *members;
	uint32_t nmembers;
};

extern const struct vtype v_error, v_void, v_args, v_agg, v_bool, v_char, v_i8, v_i16, v_i32, v_i64, v_u8, v_u16, v_u32, v_u64, v_raw,
	v_f32, v_f64, v_void_ptr, v_char_ptr, v_inet4, v_inet6, v_mac, v_errno, v_user, v_signal, v_syscall,
	v_comm_of, v_pcomm, v_ppid, v_cgroup, v_cgroup_path, v_cgroup_id;

const struct vtype *v_pointer(struct pool *pool, const struct vtype *to);
const struct vtype *v_array(struct pool *pool, const struct vtype *of, uint64_t n);
const struct vtype *v_held_array(struct pool *pool, const struct vtype *of, uint64_t n);
const struct vtype *v_to_int(struct pool *pool, const struct vtype *of);
const struct vtype *v_enum(struct pool *pool, const struct enum_decl *d);
const struct vtype *v_text(struct pool *pool, uint64_t size);
const struct vtype *v_bytes(struct pool *pool, uint64_t size);
const struct vtype *v_tuple(struct pool *pool, const struct vtype *const *elems, uint32_t n);

const struct vtype *v_record(struct pool *pool, const struct vtype *const *elems, const char *const *fields, uint32_t n);

/* Which element of t is element i of `like`: in records the one of the same name (t->n: there is none), in tuples the same. */
uint64_t v_field(const struct vtype *t, const struct vtype *like, uint64_t i);

/* C's and bpftrace's names of numbers; NULL if it is none. */
const struct vtype *v_basic(const char *name);

/* What a note says of a tracepoint's argument or of a member of a struct; NULL: not enough. In the pool of the script. */
struct usdt_field;
const struct vtype *v_of_field(struct lang *l, const struct usdt_field *f);

/* A type of the program. */
const struct vtype *v_from(struct pool *pool, struct types *types, type_id id);

/* What a pointer points to. Types of the program are asked late: a list points to itself. */
const struct vtype *v_pointee(struct pool *pool, const struct vtype *t);

/*
 * The type that a variable has in expressions: a reference is what it refers to. ret_is_ref: where the
 * variable is, there is only its address.
 */
const struct vtype *v_of_var(struct pool *pool, struct types *types, type_id id, bool *ret_is_ref);

/* Where a base class is in a class; false if it is no base, or a virtual one. */
bool v_base(const struct vtype *derived, const struct vtype *base, uint64_t *ret_off);

/* A member by name; false with a sentence (err_text()) if there is none. */
bool v_member(struct pool *pool, const struct vtype *t, const char *name, struct vmember *ret_member);

static inline bool v_is_number(const struct vtype *t) { return t->kind == V_INT || t->kind == V_FLOAT; }
/* A number of the program that nobody here can hold, such as a long double: it has a size and an address, but no value. */
static inline bool v_is_odd(const struct vtype *t) { return t->kind == V_ERROR && t->types; }
static inline bool v_is_text(const struct vtype *t) { return t->kind == V_STR; }
/* In a register: numbers, pointers, and what is shown in its own way. */
static inline bool v_is_scalar(const struct vtype *t)
{
	return t->kind == V_INT || t->kind == V_FLOAT || t->kind == V_PTR || (t->kind >= V_STACK && t->kind <= V_TIME) ||
	       (t->kind == V_SHOWN && t->show == IR_ENUM) || (t->kind == V_ARRAY && t->held);
}
/* In a slot, as bytes. */
static inline bool v_is_object(const struct vtype *t)
{
	return (t->kind == V_STRUCT || t->kind == V_ARRAY || t->kind == V_SHOWN) && !v_is_scalar(t);
}
bool v_is_char_array(const struct vtype *t);
/* Text in some way: strings, char arrays, std::string and its like. */
bool v_has_text(const struct vtype *t);
/* Also bytes, where text is asked for: with %s, or compared with a string. */
bool v_can_text(const struct vtype *t);

/* How many bytes its address is a multiple of. */
uint64_t v_align(const struct vtype *t);

/* Do values of both go into one variable? Sizes of strings don't matter. */
bool v_same(const struct vtype *a, const struct vtype *b);

/* Are both shown in the same way? More than v_same(): layouts and names count. */
bool v_alike(const struct vtype *a, const struct vtype *b);

/* As people write it: "uint32", "struct foo *", "(int64, string)". In the pool. */
const char *v_name(struct pool *pool, const struct vtype *t);

/* The type in programs: of loads and arithmetic, and as shown. */
uint8_t v_ir(const struct vtype *t);
uint8_t v_shown(const struct vtype *t);

/* Of a field that is a number: how many of its 64 bits are it. */
unsigned int v_field_bits(const struct ir_unit *u, const struct ir_field *f);

#endif
