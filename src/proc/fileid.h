/* SPDX-License-Identifier: MIT */
/*
 * Identity of a mapped file and its content: what was found in a file is used again for another process only if this is
 * equal. A file that is written in place keeps its inode number and gets a new time of change.
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
struct file_id file_id_of(const struct stat *st);
bool file_id_same(const struct file_id *a, const struct file_id *b);

/*
 * True if the last change is so long before `now` (ns, wall clock) that a later change would get another time, as coarse as
 * the file system stores it.
 */
bool file_id_is_settled(const struct file_id *id, uint64_t now);

#endif
