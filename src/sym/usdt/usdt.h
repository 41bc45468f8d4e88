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
};

/* All of a module, by provider, name and address; each place once for each name. They live with the module. */
size_t module_usdts(struct module *m, struct usdt **ret_usdts);

/* What is wrong with the notes of a module; NULL: nothing is. Those that can be read are there all the same. */
const char *module_usdt_damage(struct module *m);

/* Does the spec, of kind SPEC_USDT, name this one? */
bool usdt_matches(const struct probe_spec *spec, const struct usdt *u);

/* Fills in the arguments. */
void usdt_read_args(struct module *m, struct usdt *u);

/* "u64", "s32", "f64": the type of an argument. */
const char *usdt_type_name(const struct usdt_arg *a);

/* Places of one tracepoint. */
bool usdt_same_name(const struct usdt *a, const struct usdt *b);

#endif
