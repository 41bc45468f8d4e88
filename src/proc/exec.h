/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_EXEC_H
#define JAB_PROC_EXEC_H

#include "proc/proc.h"

/*
 * A thread is about to execute another program and waits for us. Seize it, let it go on (go), and hold
 * the process before the first instruction of the new program, as proc_stop() holds it. -ENOENT: its
 * exec failed, or it did something else; then it is let go and nothing has happened.
 */
int proc_follow_exec(pid_t pid, pid_t tid, void (*go)(void *arg), void *arg, struct proc **ret_proc);

/* The file that would be executed, as the thread names it: is it there, and may we follow it? */
int proc_may_follow(struct proc *p, pid_t tid, int dir, const char *path);

#endif
