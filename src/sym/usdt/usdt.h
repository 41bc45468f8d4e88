/* SPDX-License-Identifier: MIT */
/*
 * Static tracepoints (USDT): places that a program names in notes of the owner "stapsdt". Several places may have one
 * provider and name. The notes are untrusted input like the rest of the file.
 */
#ifndef JAB_SYM_USDT_H
#define JAB_SYM_USDT_H

#include "sym/sym.h"
#include "sym/types/types.h"

#define USDT_ARGS_MAX 32

/* An argument: a number of `size` bytes, and where it is. */
struct usdt_arg {
	const char *text;	/* as the note has it: "-4@$7" */
	const char *operand;	/* the part behind the @ */
	const char *why;	/* it can't be read, as the end of a sentence; NULL: it can */
	uint8_t size;
	bool is_signed, is_float;
	struct loc loc;
};

/* What <jab/tracepoint.h> says of an argument, or of a member of a struct (docs/tracepoint-notes.md). */
enum usdt_kind {
	USDT_INT = 1, USDT_BOOL, USDT_FLOAT, USDT_POINTER,
	USDT_STRING,		/* a pointer to text that ends with 0 */
	USDT_CHARS,		/* of an array */
	USDT_ENUM, USDT_STRUCT,
	USDT_LENGTH,		/* of the counted array before it; it has no name */
};
enum usdt_shape { USDT_VALUE, USDT_FIXED, USDT_COUNTED };	/* arrays are where the argument points to, structs likewise */

struct usdt_type;
struct usdt_field {
	const char *name;
	uint8_t kind, shape;
	uint8_t size;		/* of the value or of one element */
	bool is_signed;
	uint8_t arg_size;
	bool arg_signed;
	uint32_t length;	/* USDT_FIXED */
	const char *of_name;	/* of its enum or struct */
	const struct usdt_type *of;	/* NULL: the file does not say */
	uint64_t offset;	/* of a member */
};

struct usdt_type {
	const char *name;
	uint8_t kind;		/* USDT_ENUM or USDT_STRUCT */
	bool is_doubtful;	/* there is another one of that name and number */
	uint32_t id, n, bytes;
	const struct type_value *values;
	const struct usdt_field *members;
	const uint8_t *raw;
	uint32_t raw_size;
	uint32_t depth;		/* of structs in it */
};

/* One place. Addresses are link addresses, corrected by where .stapsdt.base is now. */
struct usdt {
	const char *provider, *name;
	const char *shown;	/* "provider:name" */
	const char *args;	/* as the note has them; "" if there are none */
	uint64_t pc;
	uint64_t semaphore;	/* of 16 bits; 0: none */
	const char *why;	/* it can't be probed, as the end of a sentence; NULL: as far as the file tells, it can */
	uint32_t nargs;
	const struct usdt_arg *arg;	/* usdt_read_args() */
	bool has_args;		/* they were read */
	const struct usdt_field *field;	/* one for each argument, when they were read; NULL: not known */
	uint32_t nfields;
	uint64_t linked_pc;	/* as the note has it */
};

/* All of a module, by provider, name and address; each place once for each name. They live with the module. */
size_t module_usdts(struct module *m, struct usdt **ret_usdts);

/* What is wrong with the notes of a module; NULL: nothing is. Those that can be read are there all the same. */
const char *module_usdt_damage(struct module *m);

/* May a file have any? Only the names of its sections are read; true if that can't be decided. */
bool usdt_may_be_in(int fd);

/* Does the spec, of kind SPEC_USDT, name this one? */
bool usdt_matches(const struct probe_spec *spec, const struct usdt *u);

/* Fills in the arguments. */
void usdt_read_args(struct module *m, struct usdt *u);

/* "u64", "s32", "f64": the type of an argument. */
const char *usdt_type_name(const struct usdt_arg *a);

/* "s32[4]", "enum color": as the field is shown. The caller frees it. */
char *usdt_field_type(const struct usdt_field *f);

/* Places of one tracepoint. */
bool usdt_same_name(const struct usdt *a, const struct usdt *b);

#endif
