/* SPDX-License-Identifier: MIT */
#ifndef JAB_PROC_KNOWNCALLS_H
#define JAB_PROC_KNOWNCALLS_H

#include "proc/fileid.h"

/* Those of a mapping whose file was searched before, at their addresses there. false: it has to be searched. */
bool known_calls_take(struct proc *p, const struct map *m, bool loader, void (*take)(void *arg, const struct text_call *c), void *arg);

/* What a search has found; those outside of the mapping are left out. before: as it was when the search began. */
void known_calls_keep(struct proc *p, const struct map *m, bool loader, const struct file_id *before,
		      const struct text_call *calls, size_t n);

void known_calls_done(struct proc *p);	/* after all mappings of a process */

#endif
