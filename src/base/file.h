/* SPDX-License-Identifier: MIT */
/* Opening files whose names come from others: only regular files are opened, and only below the root that is meant. */
#ifndef JAB_BASE_FILE_H
#define JAB_BASE_FILE_H

/*
 * Opens a regular file for reading; root is such as /proc/77/root, and NULL or "" is our own. A symbolic link below a
 * root leads to a place below that root. A device, FIFO or socket is refused before it is opened: for some of them the
 * open alone has an effect. Negative errno with a sentence on failure.
 */
int open_below(const char *root, const char *path);

#endif
