/* SPDX-License-Identifier: MIT */
/* Opening files whose names come from outside of jab: only regular files are opened, and only below the given root. */
#ifndef JAB_BASE_FILE_H
#define JAB_BASE_FILE_H

/*
 * Opens a regular file for reading. root is a directory such as /proc/77/root; NULL or "" is the tracer's own root.
 * A symbolic link below a root is resolved below that root. A device, FIFO or socket is refused before it is
 * opened: for some of them the open alone has an effect. Negative errno with a message on failure.
 */
int open_below(const char *root, const char *path);

#endif
