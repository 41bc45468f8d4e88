/* SPDX-License-Identifier: MIT */
/*
 * One run: some processes (or one file), some probes, the places where they meet. The public functions
 * are in api, on top of the session_ functions below.
 *
 *	probe --resolve--> sites --plan--> wants with a tactic --insert--> pads, counters, edits
 *
 * A site is one instruction that one probe watches in one target. Sites of one function that count
 * as one thing (all exits of it) share a counter; a row is what a person sees: a counter summed over
 * the processes that run the same file.
 */
#ifndef JAB_SESSION_H
#define JAB_SESSION_H

#include <jab/jab.h>
#include <jab/symbols.h>
#include "base/mem.h"
#include "pad/plan.h"
#include "proc/fileid.h"
#include "proc/text/text.h"
#include "sym/sym.h"
#include "sym/usdt/usdt.h"

struct leave_desc;
struct unit_view;
struct tail_link;
struct learned;

/* What a probe matches in a file. */
struct known_match { uint32_t probe; func_list funcs; };

/* A file, read once however many targets map it. */
struct file {
	VEC(struct known_match) matches;
	struct file_id id;
	bool is_exact;		/* all of id is known, not only device and inode */
	bool is_settled;	/* a change since it was read would show in id */
	bool kept;		/* types of scripts refer to it */
	char *path;
	struct module *m;
	struct code *code;
};

/* A file as one target has mapped it. */
struct loaded {
	uint32_t file;		/* in jab.files; UINT32_MAX: not opened (no probe wants it, or error) */
	char *path;
	uint64_t bias, start, end;
	bool is_exe;
	struct plan *plan;
	VEC(struct want) wants;	/* id = number of the site */
};

/*
 * A probe of our own: at the instruction that loads the number in front of a call that makes a stranger, starts another
 * program or takes pages away, or where the loader tells debuggers about a library.
 */
struct watch {
	uint64_t at;		/* live */
	uint8_t abi;		/* enum clone_abi */
	bool parks;		/* a thread that comes here parks, as park_kind says */
	uint8_t park_kind;	/* enum park_kind */
	uint8_t forgets;	/* enum forget_abi + 1: the call may unmap ranges that pads read without a check */
	bool hushes;		/* it forbids system calls */
	uint8_t unmaps;		/* enum unmap_abi + 1: the call may take known memory away */
	bool far;		/* from there to behind the call it may be FAR_LEN bytes; else WATCHED_LEN at most */
	bool any;		/* calls of any number are made here: the pad looks at it; `forgets` may be set as well */
	uint8_t bytes[5];	/* the instruction */
	uint64_t pad;		/* live; 0: it is planned with the module's other sites */
	uint64_t body;		/* live address of our code there */
};
#define WATCHED_LEN 8
#define WATCH_ID 0x80000000u	/* in want.id: the rest is the number of the watch, not of a site */

/* Code that ends calls of one function whose frames have gone away; see left.h. By ascending site: that of the entry. */
struct leaver { uint32_t site, number; };

/*
 * A function where it is mapped, and its leaver's code, which is the main part's: slots may lead there when the library is gone. If it
 * comes back its calls have the same keys, and so the same leaver.
 */
struct left_func { uint32_t row, size; uint64_t bias, at; bool done; };

/*
 * A process as it was when it was probed. Libraries that it loads later are a part of their own: same
 * process, other modules, pads and edits; counters and rings are those of the main part.
 */
struct target {
	struct proc *proc;	/* NULL: a file without a process */
	uint32_t main;		/* number of the process's main part: its own, unless it is a part */
	VEC(struct loaded) loaded;
	VEC(struct watch) watches;
	VEC(struct leaver) leavers;
	VEC(struct left_func) left_funcs;	/* by number of leaver; of the main part */
	struct leave_desc *left;	/* in the tables of the main part, with their addresses behind it; NULL: no calls are watched */
	uint64_t left_at;
	uint64_t left_room, left_end;	/* for code of leavers of libraries that come later; equal: none */
	struct room *room;
	struct arena *arena;
	struct text_patch patch;
	uint8_t *counters;	/* our view of the data piece */
	uint64_t counters_at;	/* their address in the target */
	uint8_t *tables;	/* our view of the piece that it can only read */
	uint64_t tables_at;
	uint64_t state_at;	/* its struct process_state */
	struct known_view *known;	/* known memory (watches/known.c); NULL: there is none */
	uint64_t blob_at;	/* C code of ours; 0: not needed */
	uint32_t ncounters, counter_cap;	/* in use; room for */
	uint32_t touched;	/* counters whose memory is there */
	struct park_view *park;	/* where its threads park; NULL: they don't */
	bool scout;		/* a new program whose libraries are not there yet: only its loader is watched */
	uint32_t serves;	/* number + 1 of the target that it became */
	bool served;		/* has such a scout */
	bool followed;		/* a program that another target has executed: there may be many one after the other */
	bool newcomer;		/* one of many that come and go: it gets less memory */
	uint32_t only;		/* number + 1 of the probe that it was added for, while others were in; 0: none */
	struct count_spec spec;
	struct rings *rings;	/* NULL: this target does not record */
	struct unit_view *views;	/* memory of the units; of the main part */
	size_t nviews;
	struct unit_room { uint8_t *here; uint64_t at, private_at, own_at; size_t used, size; } unit_room;	/* what it is taken from */
	VEC(struct tail_link) links;	/* tails.h */
	uint64_t notes_at;	/* of the main part: of tail calls; 0: there are none */
	bool has_notes;		/* that memory is there */
	VEC(struct learned) learned;	/* of the main part: return addresses that were reported; returns.c */
	uint64_t learned_at;	/* when they were looked at last */
	uint32_t learned_rounds;	/* looks that found some */
	bool unwatched;		/* a call that makes strangers has no probe of ours: count the locked way */
	bool unguarded;		/* a call that takes pages away has none: nothing is read plainly */
	bool apart;		/* pads take as little address space as they can */
	bool inserted;
	bool told_names;	/* the trace knows its modules and threads */
	bool lost;		/* ended before it was probed, or was put away; the others go on */
	uint64_t seen_dead;	/* when it was first found dead */
};

struct session_probe {
	struct probe_spec *spec;
	uint32_t unit, clause;	/* number + 1 of the unit whose clause runs there; 0: none, it counts or records */
	size_t sites, refused;
	size_t left_out;	/* of the refused: its clause means nothing there, which was said */
	char *why;		/* function, offset and reason of the first refused site that was not left out; NULL: none */
	bool is_copies;		/* its sites are where copies of an inlined function begin */
	bool missing;		/* its place does not exist, and the script wants to run without it */
	bool off;		/* by session_switch() */
	bool removed;		/* by session_take_out() */
	bool is_unsure;		/* parameters that nobody asked for may be wrong, which was said once */
};

struct row {
	uint32_t probe, file, func;
	uint64_t offset;	/* of the instruction; UINT64_MAX: the function as a whole */
	uint32_t usdt;		/* number + 1 of a place of a static tracepoint, in the module's list; 0: none */
	bool is_return;
	bool tails;		/* some exits go on in other functions */
	bool placed;		/* a site of it, in any target, takes a jump: its hits are known */
	bool entered;		/* so does a site that counts its entries */
	bool left_out;		/* in one target at least its clause means nothing; it was said */
	uint32_t program;	/* number + 1 of its last one; 0: none */
	uint32_t left;		/* number + 1 of the row for events of its calls that were left without a return; 0: none */
	bool is_left;		/* it is such a row: only its events are its own */
	uint64_t skipped;	/* hits while its probe was off */
	uint64_t frozen;	/* hits when its probe was switched off last */
	const char *name;	/* unit_probe_name(); NULL: not asked yet */
};

/* What targets that are gone have added to a row. */
struct past { uint64_t hits, entries, lost, no_stack, early; };

/* Entries of a %return probe: to tell the open ones. Early: calls that ended, for us, at a jump to an unknown function. */
enum counter_role { COUNT_HITS, COUNT_ENTRIES, COUNT_EARLY };

struct counter {
	uint32_t row, target, index;
	uint32_t program;	/* number + 1; 0: none, or not compiled yet */
	uint8_t role;
};

struct site {
	uint32_t probe, target, loaded, counter;
	uint32_t func;		/* in module.funcs; UINT32_MAX: none known */
	uint64_t addr;		/* link address */
	uint32_t usdt;		/* as in row */
	uint8_t kind;		/* enum want_kind */
	uint8_t exit_kind, tactic;
	uint32_t link;		/* number + 1 in target.links: an exit of that function, where calls of the row's may end; 0: an own site */
	uint32_t next;		/* likewise: where this tail jump leads; 0: not known */
	bool again;		/* a tail jump to the entry of the row's function, of a call probe: the call goes on, or ends if that can't be seen */
	bool once;		/* that entry: a call that comes by such a jump has begun before */
	uint32_t early;		/* number + 1 of the counter of calls that end at this tail jump although they go on; 0: none */
	bool never_returns;	/* no place at all: a function without an exit */
	const char *reason;
	uint64_t neighbour;
};

struct events;
struct rings;
struct unit;
struct unit_maps;
struct program;
struct budget;
struct exec_guest;

struct handle;

struct jab {
	const struct arch *arch;	/* of all targets */
	struct handle *handle;	/* of the public functions: api/api.h */
	struct events *events;	/* NULL: probes count */
	struct ends *ends;	/* how targets end; NULL: the probes were never in */
	char *condition;	/* of all probe lines, besides their own; NULL: none */
	bool follow;		/* other programs and libraries that come later are probed, too */
	VEC(struct exec_guest) execs;	/* threads on the way through an exec; parks.c */
	uint32_t exec_next;	/* of these, the one that is looked at first */
	uint32_t exec_last;	/* target that had the last one that was attached to */
	struct jab_unfollowed unfollowed;
	uint32_t park_next;	/* target whose parked threads are looked at first */
	struct newcomers *newcomers;	/* processes that begin to use a file are targets, too; NULL: they are not */
	VEC(struct file) files;
	VEC(struct target) targets;
	VEC(struct session_probe) probes;
	VEC(struct site) sites;
	VEC(struct row) rows;
	VEC(struct counter) counters;
	VEC(struct past) past;	/* by row; may be shorter */
	VEC(struct unit) units;
	VEC(struct program) programs;
	VEC(struct unit_view) past_views;	/* of targets that are gone: copies */
	struct budget *budget;	/* NULL: probes may take what they take */
	struct unit_maps *tracer_maps;	/* of the script, for what runs in the tracer; NULL: none */
	uint64_t started_ns;
	size_t gone;		/* targets that were put away */
	uint32_t more_sites;	/* counters to spare for probes that are added later */
	uint64_t looked_at, retired_at;	/* for such, last time */
	uint64_t give_way_at;	/* when to look for breakpoints next */
	uint32_t *row_hash;
	size_t row_hash_size;
	VEC(char *) texts;	/* reasons that outlive a plan */
	VEC(pid_t) refused;	/* users of a file that could not be attached to, once it was said */
	struct jab_times times;
	pid_t child;		/* that we started */
	bool released;		/* and let run */
};

/* Does the function go on in another one there? Its return value is not known yet. */
static inline bool site_is_tail(const struct site *s)
{
	return s->kind == WANT_EXIT && s->exit_kind != EXIT_RET;
}

/* A return address at which calls end that have gone on in unknown functions (returns.c). */
static inline bool site_is_back(const struct site *s)
{
	return s->link && s->kind == WANT_INSN;
}

static inline struct target *main_part(struct jab *j, const struct target *t)
{
	return &j->targets.v[t->main];
}

/* run.c: a run from its start to its end, as include/jab/jab.h describes it */
void session_new(struct jab **ret_jab);
void session_free(struct jab *j);
void session_abandon(struct jab *j);	/* takes out what is in, and frees nothing: its lists may be inconsistent */
int session_attach(struct jab *j, pid_t pid);
int session_attach_name(struct jab *j, const char *name);
int session_attach_users(struct jab *j, const char *path);
int session_watch_files(struct jab *j, const char *const *paths, size_t n);
void session_get_newcomers(const struct jab *j, struct jab_newcomers *ret_newcomers);
int session_spawn(struct jab *j, char *const argv[]);
int session_open_file(struct jab *j, const char *path);
void session_follow(struct jab *j);
void session_get_unfollowed(const struct jab *j, struct jab_unfollowed *ret_unfollowed);
int session_poll(struct jab *j);	/* how many threads were waiting */
void session_wait(struct jab *j, uint64_t ns);
int session_add_probe(struct jab *j, const char *spec, bool switched);	/* switched: its events will be switched on and off */
int session_resolve(struct jab *j);
int session_plan(struct jab *j);
int session_plan_alone(struct jab *j);	/* each site as if it were the only one: to look at, not to insert */
int session_insert(struct jab *j);
int session_remove(struct jab *j, struct jab_report *ret_report);
int session_recover(pid_t pid, struct jab_report *ret_report);
bool session_alive(struct jab *j);
int session_child_ended(struct jab *j, int *ret_status);
pid_t session_child_pid(const struct jab *j);
void session_get_times(const struct jab *j, struct jab_times *ret_times);

/* added.c: single probes while others are in */
int session_add_running(struct jab *j, const char *spec);
bool clauses_may_come(const struct jab *j);	/* there is memory for clauses that are added */
int session_take_out(struct jab *j, uint32_t probe);
int session_switch(struct jab *j, uint32_t probe, bool on);

/*
 * foreign.c: gives up probes over which another tracer (a kernel uprobe) has set a breakpoint since, before the program
 * runs into the rest of a jump. Cheap to call often: it looks once a second. Each one is logged.
 */
void session_give_way(struct jab *j);

/* each.c, list.c */
int session_each_site(struct jab *j, int (*each)(void *arg, const struct jab_site *s), void *arg);
int session_each_count(struct jab *j, int (*each)(void *arg, const struct jab_count *c), void *arg);
int session_each_probe(struct jab *j, int (*each)(void *arg, const struct jab_probe_info *p), void *arg);
struct jab *function_session(const struct jab_function *f);
int function_types(const struct jab_function *f, struct jab_function_types **ret_types);
int session_each_function(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_function *f), void *arg);
bool was_listed(const struct jab *j, size_t target, size_t loaded);	/* its file, with a target before this one */

/* tracepoints.c: static tracepoints (USDT) as they are listed and named */
int session_each_tracepoint(struct jab *j, const char *pattern, int (*each)(void *arg, const struct jab_tracepoint *t), void *arg);
const struct usdt *row_usdt(const struct jab *j, const struct row *row);	/* NULL: it is none */
void semaphores_add(struct jab *j, struct target *t);	/* of what is placed, to the target's patch */
uint32_t row_of_tracepoint(const struct jab *j, uint32_t row);	/* the first of those that are one tracepoint of one probe and file */
int explain_tracepoint(struct jab *j, const struct probe_spec *spec);	/* none matches: -ENOENT with what is near */

/* target.c: which files a process has mapped, and where */
int target_add(struct jab *j, struct proc *p);
struct target *target_add_part(struct jab *j, uint32_t main);	/* of what was mapped since; NULL: nothing was */
int target_add_file(struct jab *j, const char *path);
bool target_has_object(const struct target *t, const struct loaded *l, const struct probe_spec *spec);	/* the file that the probe names */
bool target_lost(struct jab *j, struct target *t);	/* after a failure: true if the run goes on without this target */
void target_drop(struct jab *j, struct target *t);	/* before it was probed */
size_t targets_most(void);	/* at a time; lifts the limit of descriptors as far as it may */
size_t targets_living(const struct jab *j);
void targets_retire(struct jab *j);	/* those that are gone and empty are put away: only their counts stay */
void target_free(struct jab *j, struct target *t);

bool is_module_code(const struct map *m);

/* files.c: what is known of them */
struct file *file_add(struct jab *j, const char *path, struct module *m);
void file_note_id(struct file *f, const struct file_id *before, const struct file_id *after);	/* states before and after the read; NULL: not known */
void file_close(struct file *f);
int target_open_file(struct jab *j, struct target *t, struct loaded *l);	/* symbols, when first wanted */
bool target_may_have_usdts(const struct target *t, const struct loaded *l);	/* false: certainly not; cheap */
int target_may_patch(const struct target *t, const struct loaded *l);	/* -ENOTSUP: its text is mapped shared */

/* guess.c: a file as it is on disk; NULL: it can't be read */
struct module *file_on_disk(struct jab *j, const char *path);

/* each.c */
void rows_switch(struct jab *j, uint32_t probe, bool on);	/* of a probe that counts */
void site_refused(struct jab *j, const struct site *s);	/* it takes no jump, for its reason: its probe counts it */

/* resolve.c: from specs to sites */
int resolve_probe(struct jab *j, uint32_t probe);
int resolve_added(struct jab *j, uint32_t probe, uint32_t first);	/* one probe, in the targets from the first one on */
int resolve_more(struct jab *j, uint32_t target);	/* all probes in one new target; finding nothing is fine */

/*
 * explain.c: no place matches: -ENOENT or -EINVAL with the sentence for it. any_object: a file that the probe names is
 * there.
 */
int explain_probe(struct jab *j, const struct probe_spec *spec, bool any_object);
int explain_field(struct jab *j, const struct probe_spec *spec);	/* a new probe that can only be meant as a field: -EINVAL */

/* counts.c: rows, counters and their place in the data arena */
uint32_t row_find(struct jab *j, uint32_t probe, uint32_t file, uint32_t func, uint64_t offset, bool is_return);
uint32_t row_find_usdt(struct jab *j, uint32_t probe, uint32_t file, uint32_t func, uint64_t offset, uint32_t usdt);
uint32_t counter_add(struct jab *j, uint32_t target, uint32_t row, uint8_t role);
size_t counters_size(const struct target *t);
size_t counters_tables_size(const struct target *t);
void counters_init(struct target *t);
int counters_touch(struct target *t);	/* those that came since the last time get their memory, also of lost events */
int counters_touch_block(struct target *t, uint64_t at, uint32_t from);	/* one block: from that one to the last in use */
uint64_t *counters_ring_table(const struct target *t, uint64_t *ret_at);
uint64_t *counters_lost_table(const struct target *t, uint64_t *ret_at);

/* What pads tell us. Any process of the family may write here: it is believed as little as that. */
struct told {
	uint32_t raised;	/* one has cleared its process_state.fast */
	uint32_t quiet;		/* one has set its process_state.quiet, */
	uint32_t timeless;	/* its process_state.timeless */
};
struct told *counters_told(const struct target *t);
uint64_t counter_read(const struct target *t, uint32_t index);
unsigned counters_ncpus(void);	/* that there can ever be */
unsigned cpus_in_list(const char *list);	/* highest number in "0-3,8" plus one; 0: can't be read */
uint64_t counter_shared_at(const struct target *t, uint32_t index);

/* strangers.c: threads that would count in another one's place */
void strangers_watch(struct jab *j, struct target *t);	/* finds the places; wants or pads for them */
bool watch_call(struct target *t, const struct text_call *c, const struct watch *w);	/* false: no jump fits there */
void watch_planned(struct target *t, uint32_t watch, bool fits);
void strangers_emit(struct target *t);			/* writes the pads and edits of those not planned */
size_t strangers_body(struct target *t, uint32_t watch, uint64_t at, uint8_t *out);	/* at: where it will run; 0: nowhere yet */
bool strangers_present(const struct target *t);

/* lower.c: while its threads can be told apart, they need no locks */
void target_settle(struct target *t);			/* in the stop in which the first pads go in */

/* foreign.c: tells the plan which bytes of the live text somebody else has changed */
void foreign_find(const struct target *t, const struct loaded *l, const struct module *m);
void foreign_warn(const struct target *t);	/* of uprobes in the process */

/* place.c: plan, pads, arena, the jump */
int place_plan(struct jab *j, struct target *t, bool alone);
int place_insert(struct jab *j, uint32_t target);

#endif
