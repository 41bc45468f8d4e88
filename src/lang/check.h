/* SPDX-License-Identifier: MIT */
/* What check and lower share. */
#ifndef JAB_LANG_CHECK_H
#define JAB_LANG_CHECK_H

#include "lang/builtin.h"
#include "lang/lang.h"
#include "lang/type.h"

/* $x of one clause. */
struct variable {
	const char *name;
	const struct vtype *type;	/* NULL: not yet */
	const struct expr *first;	/* what was first assigned, unless its type was declared */
	bool declared;			/* with a type, which stays */
	bool literals;			/* nothing but numbers without a sign were assigned so far */
	bool nested;			/* first written inside of a block: needs a value before it */
	struct val *val;		/* lower.c: where it is */
};

/* @x of the whole script. */
struct map_info {
	const char *name;
	bool has_keys;			/* known; and with keys or not */
	bool keyed;
	const struct vtype *const *keys;
	uint32_t nkeys;
	const struct vtype *value;	/* NULL: nothing was written yet */
	bool key_tuple;			/* one key that is a tuple was written */
	uint32_t max_keys;		/* 0: not said */
	int64_t lo, hi, step;
	uint32_t bits;
	const double *quantiles;
	uint32_t nquantiles;
	uint8_t num;			/* aggregations: IR_I64... */
	bool literals;			/* likewise, of its values */
	uint32_t at;			/* where it was first seen */
	uint32_t number;		/* in the unit, when lowered; IR_NONE before */
};

struct noted_struct { const struct usdt_type *of; const struct vtype *type; };

struct lang {
	const struct arch *arch;
	struct script *script;
	struct pool *pool;
	struct diags *diags;
	struct ir_unit unit;
	struct lang_config config;
	VEC(struct map_info *) maps;
	VEC(struct vtype *) structs;		/* of the script, by number of their declaration */
	VEC(const struct vtype *) enums;
	VEC(struct noted_struct) noted;		/* of notes of tracepoints */
	VEC(const char *) asked;		/* names that getopt() was given */
	VEC(const struct expr *) cells;		/* every(), limit() and rate(), by number of their cell */
	bool changed;				/* something new was learnt about a map */
};

struct checker {
	struct lang *l;
	const struct lang_site *site;
	const struct clause *clause;
	bool quiet;			/* inferring: say nothing */
	bool hopeful;			/* then: a map of which nothing is known yet holds numbers */
	bool failed;
	const char *why;		/* a name of the program was not found: the reason */
	bool c_rules;			/* int has 32 bits */
	uint32_t depth, loops;
	uint32_t naming;		/* typedefs of typedefs */
	VEC(struct variable *) vars;
};

#define LEFT_LEN 8		/* of `left`: more than any of its words has */

/* check.c */
struct map_info *map_find(struct lang *l, const char *name, uint32_t at);
struct variable *variable_find(struct checker *c, const char *name, bool make);
void check_error(struct checker *c, const struct expr *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int check_clause(struct checker *c);
void check_statements(struct checker *c, struct stmt *s);
const struct vtype *check_type_name(struct checker *c, const struct type_name *t);

/* check_expr.c */
const struct vtype *check_expr(struct checker *c, struct expr *e);
const struct vtype *check_value(struct checker *c, struct expr *e);	/* void and aggregations are no values */
const struct vtype *check_place(struct checker *c, struct expr *e);	/* what has a type, though perhaps no value */
void check_condition(struct checker *c, struct expr *e);
const struct vtype *stored_type(struct checker *c, const struct vtype *t);	/* as variables and maps hold it */
const struct vtype *common_type(const struct checker *c, const struct vtype *a, const struct vtype *b);

const struct vtype *check_variable(struct checker *c, struct expr *e);
/* Says that e's operator is not for these; b may be NULL. */
const struct vtype *check_no_operator(struct checker *c, const struct expr *e, const struct vtype *a, const struct vtype *b);

/* check_assign.c */
const struct vtype *check_keys(struct checker *c, struct expr *e);	/* of a map; tells the map */
const struct vtype *check_map(struct checker *c, struct expr *e);
bool check_merge(const struct vtype **type, bool *literals, const struct vtype *t, const struct expr *value);
const struct vtype *check_assign(struct checker *c, struct expr *e);
const struct vtype *check_step(struct checker *c, struct expr *e);

/* check_name.c */
const struct vtype *check_name(struct checker *c, struct expr *e);
bool check_is_register(const struct lang *l, const char *name);	/* of a probe line, perhaps with a $ in front */
/* Go's package.variable, which looks like a member; NULL: it is none. */
const struct vtype *check_package_var(struct checker *c, struct expr *e);
const struct var *check_result_var(const struct lang_site *site, const struct func_types *f);	/* what retval is there */
/* check_usdt.c: argument `number` of the site's static tracepoint, and all of them as args.argN */
const struct vtype *check_usdt_arg(struct checker *c, struct expr *e, uint32_t number);
const struct vtype *check_usdt_member(struct checker *c, struct expr *e);
bool check_has_usdt(const struct checker *c);
const struct vtype *v_of_usdt(const struct usdt_arg *a);
bool check_usdt_enumerator(const struct checker *c, struct expr *e);
bool check_has_field(const struct checker *c, const char *name);	/* of the site's tracepoint */
const struct vtype *check_usdt_field(struct checker *c, struct expr *e);
#define USDT_COUNTED_SHOWN 8u		/* elements of a counted array */
const struct vtype *v_of_whole_field(struct lang *l, const struct usdt_field *f, bool with_count);

const char *check_probe_type(const struct checker *c);	/* "uprobe", "interval", ... */
bool check_is_args(struct checker *c, const struct expr *e);	/* the word of the language, and no variable of that name */
const struct vtype *check_args_member(struct checker *c, struct expr *e);
const struct func_types *check_args(struct checker *c, const struct expr *e);	/* NULL: they are not known, and it was said */

/* check_call.c */
const struct vtype *check_call(struct checker *c, struct expr *e);
const struct vtype *check_aggregate(struct checker *c, struct expr *map, struct expr *call);

bool check_literal(struct checker *c, const struct expr *e, const struct call_info *i);	/* a string, known when compiling */

/* check_size.c: what sizeof() says of an expression of that type */
uint64_t check_size(const struct checker *c, const struct expr *e, const struct vtype *t);

/* check_format.c */
void check_format(struct checker *c, struct expr *e, const struct call_info *info);

/* check_const.c */
bool const_int(const struct expr *e, int64_t *ret_value);
const struct vtype *check_kind_of(struct checker *c, struct expr *e);
const struct vtype *check_static_assert(struct checker *c, struct expr *e, const struct call_info *i);
const struct vtype *check_getopt(struct checker *c, struct expr *e, const struct call_info *i);
const struct vtype *check_nsecs(struct checker *c, struct expr *e);	/* value: what has to be added to our clock */
bool header_constant(const char *name, int64_t *ret_value);	/* what scripts get from headers elsewhere */

/* check_net.c */
const struct vtype *check_net(struct checker *c, struct expr *e);	/* ntop, pton, macaddr, strerror, join */

/* lower.c */
int lower_clause(struct checker *c, uint32_t clause, struct ir_prog *ret_progs[2]);

/* check_about.c: typeinfo(x).full_type, config.max_strlen become literals; what /proc and /sys know; lengths of texts */
bool check_about(struct checker *c, struct expr *e);	/* false: it is another member */
const struct vtype *check_numaid(struct checker *c, struct expr *e);
const struct vtype *check_about_call(struct checker *c, struct expr *e, const struct call_info *i);

#endif
