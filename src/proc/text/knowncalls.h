/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_KNOWNCALLS_H
#define JAB_PROC_KNOWNCALLS_H

#include "proc/fileid.h"

/* Calls take() for each system call of a mapping whose file was searched before. false: the mapping has to be searched. */
bool known_calls_take(struct proc *p, const struct map *m, bool loader, void (*take)(void *arg, const struct text_call *c), void *arg);

/* Keeps what a search has found; calls outside of the mapping are left out. before: the file when the search began. */
void known_calls_keep(struct proc *p, const struct map *m, bool loader, const struct file_id *before,
		      const struct text_call *calls, size_t n);

void known_calls_done(struct proc *p);	/* after all mappings of a process */

#endif
