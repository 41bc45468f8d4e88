/* SPDX-License-Identifier: MIT */
/*
 * Text that jab has not made itself (names in files, of files, of threads; strings of a target) on its way to a
 * terminal or into a message. What could steer a terminal or look like another line is shown as \xNN, byte by byte:
 * control characters (C0, DEL, and C1, also as UTF-8), bytes that are no UTF-8, line and paragraph separators, and the
 * characters that turn the direction of writing. A backslash stays as it is, so text that was made safe once stays the
 * same.
 */
#ifndef JAB_BASE_TEXT_H
#define JAB_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the harmless character at s, of which n bytes are there; 0: the first byte is to be escaped. */
size_t text_plain(const char *s, size_t n);

/* To `out`, ended by a NUL, cut in front of what does not fit; `keep` has characters that stay. Returns the length. */
size_t text_safe(const char *s, size_t len, const char *keep, char *out, size_t room);

/* The same to a file. */
void write_safe(FILE *to, const char *s, size_t len, const char *keep);
void print_safe(FILE *to, const char *s);

#endif
