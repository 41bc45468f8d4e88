/* SPDX-License-Identifier: MIT */
/* Pids and tids: in the target's pid namespace ("theirs"), and in the tracer's. */
#ifndef JAB_PROC_IDS_H
#define JAB_PROC_IDS_H

#include "proc/proc.h"

/* A field of /proc/PID/status that is a number. */
int proc_status_number(struct proc *p, const char *name, uint64_t *ret_value);

/* Seccomp modes of its threads: 1 if any thread is in strict mode, 2 if one has a filter, 0 if none has either. */
int proc_seccomp(struct proc *p);

/* A value of its auxiliary vector (AT_BASE, AT_ENTRY...); 0: none. */
uint64_t proc_auxv(struct proc *p, uint64_t type);

/* What getpid() returns in the target, and whether that differs from its pid in the tracer's namespace. */
int proc_ns_pid(struct proc *p, uint32_t *ret_pid, bool *ret_foreign);

/* True if a thread has this tid in the pid namespace of p. foreign: it is not the tracer's namespace. */
bool proc_has_tid(struct proc *p, uint32_t tid, bool foreign);

/* A string in a thread's memory, up to its NUL or the first unreadable byte; never fails, may be empty. */
void thread_read_text(pid_t tid, taddr at, char *to, size_t room);

/* True if this process (the target, a fork of it) maps the arena's memory. Proved by a challenge. */
bool arena_is_mapped(const struct arena *a, pid_t pid);

void proc_note_ids(struct proc *p, uint64_t *table);	/* enters all its threads: ID_TABLE of arch/event.h */

/*
 * Translates pids and tids of the target's namespace to the tracer's. The table is read from /proc when an unknown tid comes,
 * at most every 20 ms; a tid whose thread ended before that stays as it is. Entries of ended threads are kept.
 */
struct id_map;
struct id_map *id_map_new(struct proc *p);
void id_map_read(struct id_map *m);	/* read the table now */
void id_map_translate(struct id_map *m, uint32_t *pid, uint32_t *tid);
uint64_t id_map_unknown(const struct id_map *m);	/* how often a tid was not found */
void id_map_free(struct id_map *m);

/* The last number of a line of /proc/PID/status such as "\nNSpid:": that of the innermost namespace. */
bool status_last(const char *status, const char *name, uint32_t *ret_value);

#endif
