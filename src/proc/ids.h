/* SPDX-License-Identifier: MIT */
/* Numbers of processes and threads: those that the target uses for itself, and ours for the same. */
#ifndef JAB_PROC_IDS_H
#define JAB_PROC_IDS_H

#include "proc/proc.h"

/* A field of /proc/PID/status that is a number. */
int proc_status_number(struct proc *p, const char *name, uint64_t *ret_value);

/* How it is confined by seccomp: 1 if any of its threads is strictly, 2 if one has a filter, 0 if none has anything. */
int proc_seccomp(struct proc *p);

/* A value that the kernel gave the program (AT_BASE, AT_ENTRY...); 0: none. */
uint64_t proc_auxv(struct proc *p, uint64_t type);

/* What getpid() says in the target, and whether that differs from our number for it. */
int proc_ns_pid(struct proc *p, uint32_t *ret_pid, bool *ret_foreign);

/* Is there a thread that calls itself tid, in the namespace of p? */
bool proc_has_tid(struct proc *p, uint32_t tid, bool foreign);

/*
 * From the target's numbers to ours. The table is read from /proc when an unknown number comes, at
 * most every 20 ms; what has ended before it was looked up stays as it is. What was known once stays known.
 */
/* Text of a thread's memory up to its NUL or where it can't be read; never fails, may be empty. */
void thread_read_text(pid_t tid, taddr at, char *to, size_t room);

/* Does this process share the arena's memory: the target, a fork of it? Proved by a challenge. */
bool arena_is_mapped(const struct arena *a, pid_t pid);

void proc_note_ids(struct proc *p, uint64_t *table);	/* of all its threads: ID_TABLE of arch/event.h */

struct id_map;
struct id_map *id_map_new(struct proc *p);
void id_map_read(struct id_map *m);	/* now; else when an unknown number comes */
void id_map_translate(struct id_map *m, uint32_t *pid, uint32_t *tid);
uint64_t id_map_unknown(const struct id_map *m);	/* how often a thread was not found */
void id_map_free(struct id_map *m);

/* The last number of a line of /proc/PID/status such as "\nNSpid:": that of the innermost namespace. */
bool status_last(const char *status, const char *name, uint32_t *ret_value);

#endif
