/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_EXEC_H
#define JAB_PROC_EXEC_H

#include "proc/proc.h"

/*
 * A thread is about to execute another program and waits for us. It is seized, let go on (go), and its process held, as
 * proc_stop() holds it, when the libraries of the new program are ready and before any of its code runs. A program without a
 * loader is held before its first instruction; one whose loader can't be followed, or takes long, somewhere in the loader
 * (loaded is false then). None of these functions waits for the thread: it may take as long as it likes.
 */
struct exec_way;
int exec_begin(pid_t pid, pid_t tid, bool alone, struct exec_way **ret_way);	/* alone: no other is on the way */

/*
 * 1: the new program is there, and stands still until exec_take(); 0: not yet; -ENOENT: its exec failed; -ETIME: it did
 * something else. From -ENOENT and -ETIME on it runs as before, and the way is over, as it is after exec_take().
 */
int exec_poll(struct exec_way *w, void (*go)(void *arg), void *arg);
bool exec_is_ready(const struct exec_way *w);	/* exec_poll() has returned 1 */
bool exec_moves(const struct exec_way *w);	/* it has stopped a moment ago, and will again soon */
int exec_take(struct exec_way *w, struct proc **ret_proc, bool *ret_loaded);
void exec_leave(struct exec_way *w);	/* it is let go at its next stop, which exec_poll() sees */
void exec_free(struct exec_way *w);

/* The file that would be executed, as the thread names it: is it there, and may we follow it? */
int proc_may_follow(struct proc *p, pid_t tid, int dir, const char *path);

#endif
