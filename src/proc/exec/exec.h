/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_EXEC_H
#define JAB_PROC_EXEC_H

#include "proc/proc.h"

/*
 * Following a thread through its execve. It waits before the call (parked in a pad) until the caller's go() lets it go on. Its
 * process is then held, as proc_stop() holds it, when the libraries of the new program are ready and before any of its
 * code runs. A program without a loader is held before its first instruction; one whose loader can't be followed, or takes
 * long, somewhere in the loader (*ret_loaded is false then). None of these functions blocks.
 */
struct exec_way;
int exec_begin(pid_t pid, pid_t tid, bool alone, struct exec_way **ret_way);	/* seizes it; alone: no other thread is being followed */

/*
 * 1: the new program is there, and does not run until exec_take(); 0: not yet; -ENOENT: its exec failed; -ETIME: it was given
 * up. After -ENOENT, -ETIME and exec_take() nothing is left to do but exec_free(). After both errors the thread runs untraced.
 */
int exec_poll(struct exec_way *w, void (*go)(void *arg), void *arg);
bool exec_is_ready(const struct exec_way *w);	/* exec_poll() has returned 1 */
bool exec_moves(const struct exec_way *w);	/* its last stop was a moment ago, so the next will be soon */
int exec_take(struct exec_way *w, struct proc **ret_proc, bool *ret_loaded);
void exec_leave(struct exec_way *w);	/* give it up: exec_poll() detaches at its next stop */
void exec_free(struct exec_way *w);

/* Whether a thread may be followed into a file, named as in execveat(). -ENOENT: no such file; -EPERM: it would lose privileges. */
int proc_may_follow(struct proc *p, pid_t tid, int dir, const char *path);

#endif
