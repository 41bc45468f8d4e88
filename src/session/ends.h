/* SPDX-License-Identifier: MIT */
/*
 * How the traced processes ended. No process is held by ptrace for that: the kernel keeps the exit status for a pidfd that was opened
 * before (Linux 6.15; of a process that was started by us it is known anyway), and writes to its log where a signal of the CPU
 * happened that no handler caught, which root can read. What neither tells is not known.
 */
#ifndef JAB_SESSION_ENDS_H
#define JAB_SESSION_ENDS_H

#include "session/session.h"

struct ends;

void ends_begin(struct jab *j);		/* the probes are in */
void ends_note(struct jab *j, const struct target *t);	/* what is known of it, before it is put away or its probes are removed */
void ends_free(struct jab *j);
int ends_each(struct jab *j, int (*each)(void *arg, const struct jab_end *e), void *arg);

#endif
