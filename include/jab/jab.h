/* SPDX-License-Identifier: MIT */
/*
 * libjab: put jumps into running processes and take them out again.
 *
 * The order of calls is the story of a run:
 *
 *	jab_new()                            nothing is touched yet
 *	jab_attach() or jab_spawn() or jab_open_file()
 *	jab_add_probe()                      as often as wanted
 *	jab_resolve()                        names become places
 *	jab_plan()                           places become jumps that fit, or reasons why not
 *	jab_insert()                         the one visible step: all or nothing
 *	jab_each_count()                     as often as wanted, also while it runs
 *	jab_remove()                         everything as it was, verified
 *	jab_free()
 *
 * Functions return 0 or a negative errno; jab_error() is the sentence for a person. A struct jab
 * belongs to the thread that made it (ptrace does not let another one use it).
 */
#ifndef JAB_H
#define JAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define JAB_API __attribute__((visibility("default")))

struct jab;

JAB_API const char *jab_version(void);
JAB_API const char *jab_error(void);

JAB_API int jab_new(struct jab **ret_jab);
JAB_API void jab_free(struct jab *j);	/* takes out what is still in; NULL is fine */

JAB_API int jab_attach(struct jab *j, pid_t pid);
JAB_API int jab_attach_name(struct jab *j, const char *name);	/* every process of that name */
JAB_API int jab_attach_users(struct jab *j, const char *path);	/* every process that runs code of this file; how many */

/*
 * Every process that begins to use one of these files, from jab_insert() on; where the kernel allows it, before it runs code
 * of them. For root. Before jab_resolve(), after the probes are known. Needs jab_follow(), jab_poll() and jab_wait().
 */
JAB_API int jab_watch_files(struct jab *j, const char *const *paths, size_t n);
struct jab_newcomers {
	uint64_t probed;
	uint64_t missed;	/* ran on without probes, because we took too long */
	uint64_t asleep;	/* of these, because we were stopped */
	uint64_t foreign;	/* have another tracer, or can't be traced */
	uint64_t crowded;	/* were more than can be traced at a time */
	uint64_t flooded;	/* were more of one user than may wait at a time */
	bool late;		/* this kernel does not let them wait: their first moments may be missing */
};
JAB_API void jab_get_newcomers(const struct jab *j, struct jab_newcomers *ret_newcomers);

JAB_API int jab_spawn(struct jab *j, char *const argv[]);	/* held before constructors run, until jab_insert() */
JAB_API int jab_open_file(struct jab *j, const char *path);	/* no process: list and check only */

/*
 * Probe also the programs that targets execute and the libraries that they load later, where the
 * probes match. Before jab_plan(). Threads that do such a thing wait for jab_poll(), so call it often,
 * and sleep in jab_wait() in between: it returns early when somebody waits.
 */
JAB_API void jab_follow(struct jab *j);

/* What was not probed although it should have been; complete after jab_remove(). */
struct jab_unfollowed {
	uint64_t missed;	/* programs that were executed without waiting for us, or not for long enough */
	uint64_t crowded;	/* programs that were more than can be followed at a time */
	uint64_t failed;	/* programs that could not be probed; why was said */
	uint64_t libraries;	/* that were loaded without waiting for us, or not for long enough */
};
JAB_API void jab_get_unfollowed(const struct jab *j, struct jab_unfollowed *ret_unfollowed);
JAB_API int jab_poll(struct jab *j);	/* how many were waiting */
JAB_API void jab_wait(struct jab *j, uint64_t ns);

JAB_API int jab_add_probe(struct jab *j, const char *spec);
JAB_API int jab_resolve(struct jab *j);
JAB_API int jab_plan(struct jab *j);
JAB_API int jab_plan_alone(struct jab *j);	/* each site as if it were the only one: to look at, not to insert */
JAB_API int jab_insert(struct jab *j);

/* What became of the targets. */
struct jab_report {
	size_t processes;	/* cleaned, forked children included */
	size_t restored;	/* runs of bytes put back */
	size_t foreign;		/* runs left alone because somebody else had changed them */
	size_t pages_kept;	/* private copies of text pages that could not be dropped */
	size_t gone;		/* targets that had ended or started another program */
	size_t left;		/* processes that the program of jab_spawn() has started, and that go on after its end */
	pid_t one_left;
	bool clean;		/* everything is as it was, and that was checked */
	bool arena_left;	/* a thread stayed in a pad: `jab recover` later */
};
JAB_API int jab_remove(struct jab *j, struct jab_report *ret_report);

/* Undo what a killed tracer left in one process, or (pid 0) in all that may be traced. */
JAB_API int jab_recover(pid_t pid, struct jab_report *ret_report);

/*
 * Give up probes over which another tracer (a kernel uprobe) has set a breakpoint since, before the program runs into
 * the rest of a jump. Cheap to call often: it looks once a second. Each one is logged.
 */
JAB_API void jab_give_way(struct jab *j);

/* Is any target still running the program that was probed? */
JAB_API bool jab_alive(struct jab *j);

/* With jab_spawn(): 1 and the wait status once the program has ended, 0 while it runs. */
JAB_API int jab_child_ended(struct jab *j, int *ret_status);
JAB_API pid_t jab_child_pid(const struct jab *j);

struct jab_site {
	const char *probe, *module, *function;
	uint64_t address;	/* live where there is a process, else as in the file */
	uint64_t offset;	/* from the function's start */
	const char *kind;	/* "entry", "exit", "insn" */
	const char *tactic, *cost, *reason;
	uint64_t neighbour;	/* address of an instruction that got slower for it; 0: none */
	pid_t pid;
};
JAB_API int jab_each_site(struct jab *j, int (*each)(void *arg, const struct jab_site *s), void *arg);

struct jab_count {
	const char *probe, *module, *function;
	uint64_t offset;	/* of the instruction, where a probe counts instructions */
	bool has_offset;
	uint64_t hits;
	int64_t open;		/* exits: calls that did not return (yet); -1: not known */
	uint32_t unplaced;	/* exits that got no place: returns through them are not counted, and look open */
	bool not_placed;	/* none of its sites takes a jump: nothing is counted, and hits mean nothing */
	bool is_return;		/* exits are counted, not entries */
};
JAB_API int jab_each_count(struct jab *j, int (*each)(void *arg, const struct jab_count *c), void *arg);

struct jab_probe_info {
	const char *probe;
	size_t sites, refused;
	uint64_t hits;		/* = recorded + lost, where events are recorded */
	uint64_t recorded, lost;
	bool uncounted;		/* hits are not known: only the newest events are kept, and a condition or the like makes them */
	size_t left_out;	/* of the refused: what its expressions name is not known there; a warning has said so */
	uint64_t no_stack;	/* of the lost: a goroutine's stack had too little room for what is done there */
	bool not_placed;	/* it has sites, and none of its functions is traced: what it takes for that has no jump */
	const char *why;	/* of the first refused: function, offset and reason; NULL: none, or a warning has said it */
};
JAB_API int jab_each_probe(struct jab *j, int (*each)(void *arg, const struct jab_probe_info *p),
			   void *arg);

struct jab_function {
	const char *spec;	/* what a probe on it is written as */
	const char *module, *function;
	uint64_t address, size;
	struct jab_module *of;	/* for jab_function_types() */
	uint64_t entry;
};
/* -ENOENT: none matches; the sentence names those that are near. */
JAB_API int jab_each_function(struct jab *j, const char *pattern,
			      int (*each)(void *arg, const struct jab_function *f), void *arg);

/* What debug info tells of a function, while it is being listed. -ENODATA: there is none. */
struct jab_param {
	char *name, *type;	/* name: "" where it has none */
	char *declared;		/* both, as C writes it: "char *argv[]" */
};
struct jab_function_types {
	size_t nparams;
	struct jab_param *params;
	char *result;		/* "void" where it gives nothing */
	char *declared;		/* "char *retval" */
	bool variadic;
};
JAB_API int jab_function_types(const struct jab_function *f, struct jab_function_types *ret_types);
JAB_API void jab_function_types_free(struct jab_function_types *t);

struct jab_times {
	uint64_t symbols_ns, plan_ns, write_ns;
	uint64_t pause_ns;	/* the longest time that threads were held in one stop */
	size_t pad_bytes, pads;	/* code memory used in the targets */
	size_t data_bytes;
};
JAB_API void jab_get_times(const struct jab *j, struct jab_times *ret_times);

#ifdef __cplusplus
}
#endif
#endif
