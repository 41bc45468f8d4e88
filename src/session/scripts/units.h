/* SPDX-License-Identifier: MIT */
/*
 * Programs of the language at sites. A unit is a script, or one probe line; it brings maps, records and counters of its own.
 *
 *	unit_add_script(), unit_add_line()	before anything is resolved: probes of the session
 *	units_compile()				when rows and counters are known: a program for each
 *	units_plan()				what memory they take
 *	units_take(), units_init()		the memory is there, in one target
 *	unit_body(), unit_emit()		the code of a site
 *
 * A clause is compiled once for each function it is put on and each place that function's module is
 * mapped at, because names and addresses differ; a line that names nothing of its function once for a file.
 */
#ifndef JAB_SESSION_UNITS_H
#define JAB_SESSION_UNITS_H

#include <stdio.h>
#include "gen/gen.h"
#include "gen/maps.h"
#include "lang/ast.h"
#include "lang/interp.h"
#include "lang/lang.h"
#include "session/scripts/script.h"
#include "session/session.h"

#define PAIR_BITS 14		/* of the tables of open calls: gen/gen.h */

/* A program that is good for all functions of a file. */
struct general { uint32_t file, program; uint8_t at; bool own_calls, tails; };

struct unit {
	struct script *script;
	struct lang *lang;
	char *text;			/* of a line, without what -t has added; NULL: a script */
	bool is_line;			/* its events are those of rows; else their id is the number of the record */
	bool inferred;
	uint32_t told;			/* warnings, of a line */
	struct maps_layout *layout;
	VEC(uint32_t) ids;		/* of events, by record; of a line GEN_ID_OF_SITE, but for calls that did not return */
	VEC(struct general) generals;
	VEC(struct ir_prog *) tracer;	/* by probe, over all clauses: what runs in the tracer; NULL: nothing */
	bool switched;			/* session_switch() may be called for it */
	VEC(bool) off;			/* by clause, may be shorter: switched off by the tracer */
	uint32_t ncells;		/* that there is room for */
};

#define PARTS 3

struct program {
	uint32_t unit, row;		/* row: the first one that has it */
	uint64_t bias;			/* UINT64_MAX: good for all */
	struct ir_prog *progs[PARTS];	/* [1]: at the exits of a call; [2]: where its frame has gone away without a return */
	uint32_t body[PARTS];		/* bytes of code */
	bool plain[PARTS];		/* gen_is_plain(), and it has no switch */
	uint32_t scratch[PARTS], stack[PARTS], event_max[PARTS];	/* gen_scratch(), gen_stack_need(), gen_event_max() */
	uint32_t next;			/* number + 1 of the next one of this row */
	uint32_t only;			/* number + 1 of the only target it is for: it knows distances there; 0: any */
};

/* A unit's memory in one target. */
struct unit_view {
	uint32_t unit;
	pid_t pid;
	uint8_t *here;			/* NULL: not there yet */
	uint64_t at;
	uint8_t *maps;			/* ours; the layout says where what is */
	struct maps_reader *reader;
	struct gen_env env;
};

/* What went wrong in the clauses that run in the tracer. */
void unit_say_tracer(const uint64_t errors[IR_ERRORS]);

/* The script of this session. Its text is kept. -EINVAL: unit_errors() has the messages. */
int refuse_language(const struct jab *j);	/* if the CPU's table has no assembler */
/* Without targets: names of libraries and programs in probes become paths. */
void objects_find(struct jab *j);

/* Whether the probe's clause has others, of which not all are missing. */
bool unit_has_others(const struct jab *j, uint32_t probe);

int unit_add_script(struct jab *j, const struct script_options *o);

/* One probe line. -EINVAL with the first message as sentence. */
int unit_add_line(struct jab *j, const char *text);

static inline bool probe_is_of_tracer(const struct probe *p)
{
	return p->kind == PROBE_BEGIN || p->kind == PROBE_END || p->kind == PROBE_INTERVAL;
}

/* Messages with line and caret, warnings too; "" if there are none. Caller frees. */
char *unit_errors(struct unit *u);
int unit_say_errors(struct unit *u, int err);	/* as the sentence of err, which is returned */

int units_compile(struct jab *j);

/* guess.c: what is known of the place where a clause runs. One of which nothing is known gets a guess. */
enum { SITE_NONE, SITE_TRACER, SITE_KNOWN, SITE_ON_DISK, SITE_GUESSED };
void unit_guess(struct jab *j, uint32_t unit, struct lang_site *sites, uint8_t *known);
/* Of many functions on disk, one that the clause means something at. */
bool unit_guess_better(struct jab *j, uint32_t unit, uint32_t clause, struct lang_site *s);
int unit_try(struct unit *u, uint32_t clause, const struct lang_site *site, uint8_t known, struct ir_prog *ret_progs[2]);

/* As text: "ast", "ir" or "asm". Needs units_compile() only, and no process. */
int unit_dump(struct jab *j, uint32_t unit, const char *what, FILE *to);

/* Do they follow pointers? Where is it written what of that can be read plainly, in this target? */
bool units_read_memory(const struct jab *j);
uint64_t units_good_at(const struct target *t);

/* Anything in them that needs the blob's scratch memory, backtraces, pairs of calls? */
bool units_are_heavy(const struct jab *j);
bool units_want_stacks(const struct jab *j);
uint32_t units_scratch(const struct jab *j);	/* bytes of it that one program may want */
bool unit_is_counted(const struct jab *j, uint32_t probe);	/* with overwrite: are its hits counted beside its events? */
uint32_t units_event_max(const struct jab *j);	/* bytes of the longest event */
bool units_have_calls(const struct jab *j);
size_t units_private_size(const struct jab *j);
size_t units_data_size(const struct jab *j);

int units_plan(struct jab *j);		/* before the first arena is made */
void units_take(struct jab *j, struct target *t, uint8_t *here, uint64_t at, uint64_t private_at, uint64_t own_at);
int units_take_more(struct jab *j, struct target *t);	/* those that have come since, in the memory that is left */
int units_init(struct jab *j, struct target *t);
void units_look_after(struct jab *j, struct target *t);	/* what the dead have left half done */

size_t unit_body(const struct jab *j, const struct site *s);
int32_t unit_stack(const struct program *p);	/* of a call, entry and exits want the same: none goes on without the other */
int unit_emit_left(struct jab *j, struct target *t, uint32_t site, uint64_t at, uint8_t *out);	/* site: the entry of a call */
int unit_emit(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out);

/* The record that a row's events are, of a line. */
const struct ir_unit *unit_ir(const struct jab *j, uint32_t row);
const struct ir_record *unit_record(const struct jab *j, uint32_t row);

/* What `probe` is in a script: as it was written, but a pattern is what it has matched. */
const char *unit_probe_name(struct jab *j, struct row *row);

void unit_views_keep(struct jab *j, struct target *t);	/* before its memory goes: a copy of what is in it */
void unit_views_free(struct jab *j, struct target *t);
void units_free(struct jab *j);

/* unit_maps.c: all maps of a unit, over all targets and the tracer itself; store is struct unit_maps */
struct unit_maps;
struct unit_maps *unit_maps_new(struct jab *j, uint32_t unit);
void unit_maps_free(struct unit_maps *m);
extern const struct map_ops unit_maps_ops;
void unit_maps_copy(struct unit_maps *m, struct unit_view *v);	/* what was set before this target came */
void unit_maps_keep(struct unit_maps *m, struct unit_view *v);	/* its target is gone */
uint32_t unit_maps_number(const struct unit_maps *m);		/* of its unit */
/* Frames of a stack that a map has, and whose they are; of one that an event of this target has. */
uint32_t unit_maps_stack(struct unit_maps *m, uint64_t id, uint64_t *frames, uint32_t most, pid_t *ret_pid);
uint32_t unit_event_stack(const struct jab *j, uint32_t unit, uint32_t target, uint64_t id, uint64_t *frames, uint32_t most);

/* What was counted, summed over all targets. */
uint64_t unit_error_count(const struct jab *j, uint32_t unit, uint32_t clause, enum ir_error e);
void unit_enable(struct jab *j, uint32_t unit, uint32_t clause, bool on);	/* also where it will come later */
void unit_thin(struct jab *j, uint32_t unit, uint32_t clause, bool off);	/* in the targets there are; what is disabled stays so */

#endif
