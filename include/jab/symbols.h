/* SPDX-License-Identifier: MIT */
/* Functions that can be probed, their types, and how probes are written. */
#ifndef JAB_SYMBOLS_H
#define JAB_SYMBOLS_H

#include <jab/jab.h>

#ifdef __cplusplus
extern "C" {
#endif

struct jab_function {
	const char *spec;	/* a probe on it, as it is written */
	const char *module, *function;
	uint64_t address, size;
	struct jab_module *of;	/* for jab_function_types() */
	uint64_t entry;
};

/* Functions of the targets that match. -ENOENT: none does; the message has similar names. */
JAB_API int jab_each_function(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_function *f), void *arg);

/* What debug info has about a function, within the callback. -ENODATA: nothing. */
struct jab_param {
	char *name, *type;	/* name: "" if it has none */
	char *declared;		/* both, as C writes it: "char *argv[]" */
};
struct jab_function_types {
	size_t nparams;
	struct jab_param *params;
	char *result;		/* "void" if it returns nothing */
	char *declared;		/* "char *retval" */
	bool variadic;
};
JAB_API int jab_function_types(const struct jab_function *f, struct jab_function_types **ret_types);
JAB_API void jab_function_types_free(struct jab_function_types *t);

/* Where an argument of a static tracepoint is, and its type: "s32", "u64", "double"; with <jab/tracepoint.h> also "char *", "enum color", "s32[4]". */
struct jab_tracepoint_arg {
	const char *type, *operand;
	const char *name;	/* of the field; NULL: not known. "": the count of the array before it */
	const char *why;	/* it can't be read; NULL: it can */
};

/* A place of a static tracepoint: a nop with a note that names it. */
struct jab_tracepoint_site {
	uint64_t address;	/* in the process if there is one, else as in the file */
	const char *function;	/* that it is in; NULL: not known */
	uint64_t offset;
	uint64_t semaphore;	/* its address; 0: none */
	size_t nargs;
	const struct jab_tracepoint_arg *args;
	const char *why;	/* it can't be probed; NULL: it may be possible */
};

/* A static tracepoint (USDT) of one file. */
struct jab_tracepoint {
	const char *spec;	/* a probe on it, as it is written */
	const char *module, *provider, *name;
	size_t nsites;
	const struct jab_tracepoint_site *sites;
};

/* Static tracepoints of the targets that match "usdt:...". -ENOENT: none does. */
JAB_API int jab_each_tracepoint(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_tracepoint *t), void *arg);

/* The parts of a probe's text. -EINVAL: jab_error(NULL) says what is wrong with it. */
enum jab_spec_kind { JAB_SPEC_ENTRY, JAB_SPEC_RETURN, JAB_SPEC_INSNS, JAB_SPEC_CALL, JAB_SPEC_USDT };
struct jab_spec {
	enum jab_spec_kind kind;
	const char *object;	/* NULL: any */
	bool is_one_place;	/* an address, a line or an instruction, not a pattern of functions */
};
JAB_API int jab_spec_parse(const char *text, struct jab_spec **ret_spec);
JAB_API void jab_spec_free(struct jab_spec *s);

/* A name with backslashes before what means something in a probe's text. The caller frees it; NULL: out of memory. */
JAB_API char *jab_quote_function(const char *name);
JAB_API char *jab_quote_object(const char *path);

#ifdef __cplusplus
}
#endif
#endif
