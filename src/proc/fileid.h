/* SPDX-License-Identifier: MIT */
/*
 * Which file is mapped, and in which state: what was learned of a file is used again for another process only if this is the
 * same. A file that is written to in place keeps its number and gets another time of change.
 */
#ifndef JAB_PROC_FILEID_H
#define JAB_PROC_FILEID_H

#include "proc/proc.h"

struct file_id {
	uint64_t dev, inode, size;
	uint64_t modified, changed;	/* ns */
};

struct stat;

bool proc_file_id(const struct proc *p, const struct map *m, struct file_id *ret_id);	/* false: not known */
struct file_id file_id_of(const struct stat *st);	/* of a file by its name */
bool file_id_same(const struct file_id *a, const struct file_id *b);

/*
 * Was it last changed so long before `now` (ns, of the wall clock) that a later change shows in its times? These are as
 * coarse as the file system keeps them.
 */
bool file_id_is_settled(const struct file_id *id, uint64_t now);

#endif
