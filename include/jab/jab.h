/* SPDX-License-Identifier: MIT */
/*
 * libjab: puts tracepoints into running processes and takes them out again.
 *
 *	jab_new()
 *	jab_attach(), jab_spawn(), ...		targets
 *	jab_add_probe()				as often as wanted, also while the probes are in
 *	jab_insert()				the visible step: all targets or none
 *	jab_wait() or poll(jab_fd()), then jab_dispatch()	again and again
 *	jab_each_count(), jab_probe_disable() ...	whenever wanted
 *	jab_remove()				everything as before, verified
 *	jab_free()
 *
 * Functions return 0 or more, or a negative errno; jab_error() has the message for it. A struct jab may only be used
 * by the thread that made it, because ptrace requires that. A process may have several; a process can be the
 * target of one at a time. A call in the wrong order returns -EINVAL, a call from within a callback of the same
 * struct jab -EBUSY, a call by another thread -EPERM; these calls change nothing.
 *
 * Structs grow at their end in later versions. Those that the caller fills begin with their size:
 * struct jab_options o = { .size = sizeof(o) }. Those that the library fills belong to it, and are valid until the
 * next call for the same struct jab.
 *
 * jab/event.h: events and their values; jab/script.h: scripts; jab/trace.h: writing and reading traces;
 * jab/symbols.h: functions that can be probed.
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
struct jab_probe;

JAB_API const char *jab_version(void);

enum jab_log_level { JAB_LOG_WARNING, JAB_LOG_INFO, JAB_LOG_DEBUG };

struct jab_options {
	size_t size;
	/* A message without a newline at its end. NULL: messages are written to stderr. */
	void (*log)(void *arg, enum jab_log_level level, const char *text);
	void *log_arg;
	enum jab_log_level log_level;	/* messages of a higher level are not made */

	/*
	 * Also probe the programs that targets execute and the libraries that they load later. Threads that do so wait
	 * for jab_dispatch(), a few milliseconds at most.
	 */
	bool follow;

	uint32_t more_sites;		/* room for probes that are added while others are in; follow gives room for many */

	/* Probes make events (jab/event.h); else they count. */
	bool events;
	bool overwrite;			/* keep only the newest events, for jab_snapshot() */
	uint64_t buffer_size;		/* bytes per CPU and process; 0: the default */
	uint64_t max_events;		/* that are written to a trace, the oldest ones; those after them count as lost; 0: all */
	double max_overhead;		/* 0 ... 1: share of its time that a thread may lose; 0: no limit */
	const char *const *context;	/* fields for all probes, as of `jab trace -t` */
	size_t ncontext;

	/*
	 * An expression as after "if" in a probe, for all probes besides their own: events are made only where both are true.
	 * Not for scripts. NULL: none.
	 */
	const char *condition;
};

/* options: NULL means none. On failure jab_error(NULL) has the message. */
JAB_API int jab_new(const struct jab_options *options, struct jab **ret_jab);
/* Takes out the probes that are still in. NULL is allowed. Within a callback, or in another thread, it does nothing. */
JAB_API void jab_free(struct jab *j);

/* The message of the last call that failed. NULL: of the last call in this thread that has no struct jab. */
JAB_API const char *jab_error(const struct jab *j);

/* ---- targets: before jab_insert() ---- */

JAB_API int jab_attach(struct jab *j, pid_t pid);
JAB_API int jab_attach_name(struct jab *j, const char *name);	/* every process of that name */
JAB_API int jab_attach_users(struct jab *j, const char *path);	/* every process that runs code of this file; how many */
JAB_API int jab_spawn(struct jab *j, char *const argv[]);	/* held before its first instruction until jab_insert() */
JAB_API int jab_open_file(struct jab *j, const char *path);	/* no process: to list and plan only */

/*
 * Every process that begins to use one of these files, from jab_insert() on; before it runs code of them where the
 * kernel allows that. For root. After the probes were added; jab_options.follow must be set.
 */
JAB_API int jab_watch_files(struct jab *j, const char *const *paths, size_t n);
struct jab_newcomers {
	uint64_t probed;
	uint64_t missed;	/* ran on without probes, because jab_dispatch() came too late */
	uint64_t asleep;	/* of these, because the tracer was stopped */
	uint64_t foreign;	/* have another tracer, or can't be traced */
	uint64_t crowded;	/* were more than can be traced at a time */
	uint64_t flooded;	/* were more of one user than may wait at a time */
	bool late;		/* this kernel does not let them wait: their first moments may be missing */
};
JAB_API const struct jab_newcomers *jab_get_newcomers(struct jab *j);

/* ---- probes ---- */

/*
 * While probes are in, a new one is inserted at once, in all targets that live. In a session with events it must then be
 * on the entry of functions or on instructions; without jab_options.more_sites it can have no condition, and its fields must be
 * in registers (else -ENOTSUP). ret_probe may be NULL. A probe belongs to j.
 */
JAB_API int jab_add_probe(struct jab *j, const char *spec, struct jab_probe **ret_probe);

/*
 * A disabled probe neither counts nor makes events. -ENOTSUP: a probe of events that was added while others were in,
 * without jab_options.more_sites.
 * jab_probe_remove() disables it for good and frees the handle; the jumps of a probe that was
 * added while others were in are taken out at once, those of the others by jab_remove(), since one jump may serve
 * several probes.
 */
JAB_API int jab_probe_enable(struct jab_probe *p);
JAB_API int jab_probe_disable(struct jab_probe *p);
JAB_API int jab_probe_remove(struct jab_probe *p);
JAB_API int64_t jab_probe_hits(const struct jab_probe *p);	/* while it was enabled */

JAB_API int jab_resolve(struct jab *j);	/* finds the places of all probes */
enum jab_plan_flags { JAB_PLAN_ALONE = 1 };	/* each site as if it were the only one: to be looked at, not inserted */
JAB_API int jab_plan(struct jab *j, unsigned int flags);	/* chooses a jump for each place */
JAB_API int jab_insert(struct jab *j);	/* does what of these two was not done; then changes the targets */

/* ---- while the probes are in ---- */

/*
 * Serves threads that wait, gives way to other tracers, takes events out of the buffers, runs what a script has to do
 * now. Returns the number of events, or without events of threads that waited; an error of a callback or of the
 * trace is returned, too. After jab_remove() it takes out the last events.
 */
JAB_API int64_t jab_dispatch(struct jab *j);
JAB_API int jab_wait(struct jab *j, uint64_t ns);	/* until jab_dispatch() has something to do, at most so long */

/*
 * A descriptor that becomes readable when jab_dispatch() should be called, for poll(); it belongs to j. It is a timer: a
 * thread that waits is served up to a millisecond later than with jab_wait().
 */
JAB_API int jab_fd(struct jab *j);

JAB_API bool jab_alive(struct jab *j);	/* whether any target still runs the program that was probed */

/* With jab_spawn(): 1 and the wait status once the program has ended, 0 while it runs. */
JAB_API int jab_child_ended(struct jab *j, int *ret_status);
JAB_API pid_t jab_child_pid(const struct jab *j);

JAB_API int jab_remove(struct jab *j);

/* Undoes what a killed tracer left in one process, or (pid 0) in all that may be traced. -ENOENT: it left nothing. */
JAB_API int jab_recover(struct jab *j, pid_t pid);

/* The result of jab_remove() or jab_recover(). */
struct jab_report {
	size_t processes;	/* cleaned, forked children included */
	size_t restored;	/* runs of bytes put back */
	size_t foreign;		/* runs left alone because another tracer had changed them */
	size_t pages_kept;	/* private copies of text pages that could not be dropped */
	size_t gone;		/* targets that had ended or started another program */
	size_t left;		/* processes that the program of jab_spawn() has started, and that go on after its end */
	pid_t one_left;
	bool clean;		/* everything is as before, which was checked */
	bool arena_left;	/* a thread stayed in a pad: `jab recover` later */
};
JAB_API const struct jab_report *jab_get_report(struct jab *j);

/* ---- what is known; a callback that returns other than 0 ends the loop, and its value is returned ---- */

struct jab_site {
	const char *probe, *module, *function;
	uint64_t address;	/* in the process if there is one, else as in the file */
	uint64_t offset;	/* from the function's start */
	const char *kind;	/* "entry", "exit", "insn" */
	const char *tactic, *cost, *reason;
	uint64_t neighbour;	/* address of an instruction that got slower for it; 0: none */
	pid_t pid;
};
JAB_API int jab_each_site(struct jab *j, int (*each)(void *arg, const struct jab_site *s), void *arg);

struct jab_count {
	const char *probe, *module, *function;
	uint64_t offset;	/* of the instruction, if the probe counts instructions */
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
	uint64_t hits;		/* = recorded + lost, if events are recorded */
	uint64_t recorded, lost;
	bool uncounted;		/* hits are not known: only the newest events are kept, and a condition or the like makes them */
	size_t left_out;	/* of the refused: what its expressions name is not known there; a warning has said so */
	uint64_t no_stack;	/* of the lost: a goroutine's stack had too little room for what is done there */
	bool not_placed;	/* it has sites, and none of its functions is traced: what it takes for that has no jump */
	const char *why;	/* of the first refused: function, offset and reason; NULL: none, or a warning has said it */
	bool removed;		/* by jab_probe_remove() */
};
JAB_API int jab_each_probe(struct jab *j, int (*each)(void *arg, const struct jab_probe_info *p), void *arg);

/* Programs and libraries that were not probed although jab_options.follow is set; complete after jab_remove(). */
struct jab_unfollowed {
	uint64_t missed;	/* programs that were executed without waiting, or not for long enough */
	uint64_t crowded;	/* programs that were more than can be followed at a time */
	uint64_t failed;	/* programs that could not be probed; a warning has said why */
	uint64_t libraries;	/* that were loaded without waiting, or not for long enough */
};
JAB_API const struct jab_unfollowed *jab_get_unfollowed(struct jab *j);

/*
 * How a process ended that was a target from the start. What is not known: the status, if the process was not started by
 * jab_spawn(), before Linux 6.15, unless its parent has not asked for it yet; the place, without root, and for signals that
 * a handler caught or that were not raised by an instruction (abort()).
 */
struct jab_end {
	pid_t pid;
	const char *name;	/* of its main thread */
	bool is_known;
	int status;		/* as of waitpid(2), if it is known */
	const char *place;	/* of the instruction that raised the signal: "prog:crash+0x12"; NULL: not known */
	uint64_t ip;		/* its address */
	bool has_address;
	uint64_t address;	/* that it could not access */
};
JAB_API int jab_each_end(struct jab *j, int (*each)(void *arg, const struct jab_end *e), void *arg);

struct jab_times {
	uint64_t symbols_ns, plan_ns, write_ns;
	uint64_t pause_ns;	/* the longest time that threads were held in one stop */
	size_t pad_bytes, pads;	/* code memory used in the targets */
	size_t data_bytes;
};
JAB_API const struct jab_times *jab_get_times(struct jab *j);

/* As log messages: faults in conditions and clauses; why probes may have had no hit. For the end of a run. */
JAB_API void jab_log_faults(struct jab *j);
JAB_API void jab_log_hints(struct jab *j);

#ifdef __cplusplus
}
#endif
#endif
