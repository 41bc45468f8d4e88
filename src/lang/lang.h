/* SPDX-License-Identifier: MIT */
/*
 * From a script to programs. A clause is compiled once for each kind of site it is put on, because
 * what a name means there is the site's matter:
 *
 *	script_parse(), lang_new()
 *	lang_infer()				what the maps hold, from all clauses together
 *	for each clause and site: lang_compile()
 *	lang_unit()				programs, maps, records; complete behind the last lang_compile()
 *
 * Errors go to the script's diags.
 */
#ifndef JAB_LANG_H
#define JAB_LANG_H

#include "lang/ast.h"
#include "lang/ir.h"
#include "sym/types/types.h"
#include "sym/usdt/usdt.h"

enum lang_at {
	LANG_TRACER,		/* begin, end, interval: no program around us */
	LANG_ENTRY,		/* first instruction of a function */
	LANG_RETURN,		/* a return instruction */
	LANG_INSIDE,		/* anywhere else */
	LANG_CALL,		/* entry and return as one */
};

struct lang_site {
	uint8_t at;		/* enum lang_at */
	struct types *types;	/* of the module; NULL: no debug info */
	const struct module *module;	/* for its symbols; NULL: not known */
	uint64_t pc, entry;	/* link addresses of the site and of its function */
	uint64_t bias;		/* live address = link address + bias */
	const struct usdt *usdt;	/* the static tracepoint there, with its arguments read; NULL: none */
	bool is_copy;		/* pc is where a copy of an inlined function begins, which was asked for by its name */
	bool own_calls;		/* arguments are where the run time of its language puts them: arch.go_call */
	bool tails;		/* some of its exits go on in other functions: no return value is known there */
	bool many;		/* one of many functions: a line without fields has none */
	/*
	 * Where thread-local variables are, from the thread pointer: those of this module (symbol NULL), or the one of
	 * this name. An error's sentence goes on "... is thread-local, and". NULL: the program will never run.
	 */
	int (*tls)(void *arg, const char *symbol, int64_t *ret_off);
	/* The live address of a variable of the process: a symbol plus value, or a number. NULL: as for tls. */
	int (*object)(void *arg, const char *symbol, uint64_t value, uint64_t *ret_at);
	void *arg;
	const char *func, *probe;	/* names, if all sites of this program share them; else NULL */
	uint32_t owner;		/* programs share records of the same owner only */
};

struct lang;

/* script must outlive it. -EINVAL if config or definitions are wrong. */
int lang_new(struct script *script, struct lang **ret_lang);
void lang_free(struct lang *l);

/*
 * Find the types of maps. site() gives one site for each clause (the first of many will do), or
 * NULL where there is none.
 */
int lang_infer(struct lang *l, const struct lang_site *(*site)(void *arg, uint32_t clause), void *arg);

/* Is a program of a line that was compiled for this site good for others of its kind, in whatever function of the file they are? */
bool lang_is_general(const struct lang *l, uint32_t clause, const struct lang_site *site);
bool lang_asks_types(const struct lang *l, uint32_t clause, const struct lang_site *site);	/* does it matter what types the site has? */

/* Does it mean something there, as far as is known of the maps? Nothing is said. */
bool lang_fits(struct lang *l, uint32_t clause, const struct lang_site *site);

/*
 * One program; for LANG_CALL two, what runs at the entry and what runs at the exit. The second one is
 * NULL for all others. Programs live with the lang.
 */
int lang_compile(struct lang *l, uint32_t clause, const struct lang_site *site, struct ir_prog *ret_progs[2]);

struct ir_unit *lang_unit(struct lang *l);

/* What becomes of probes whose place does not exist. Not said: an error, unless it may come later. */
enum missing_probes { MISSING_NOT_SAID, MISSING_WARN, MISSING_IGNORE, MISSING_ERROR };

/* config = { } as far as the rest of jab must know it. */
struct lang_config {
	uint32_t max_strlen;		/* bytes of str() and buf() */
	uint32_t max_map_keys;		/* 0: by what one key takes */
	uint32_t max_loop;		/* rounds of a while loop */
	uint8_t stack_mode;		/* enum ir_stack_mode */
	bool print_maps_on_exit;
	uint32_t max_cat_bytes;		/* of a file that cat() shows */
	uint8_t missing_probes;		/* enum missing_probes */
	const char *str_trunc_trailer;
};
const struct lang_config *lang_config(const struct lang *l);

#endif
