/* SPDX-License-Identifier: MIT */
/*
 * Text from outside of jab (names in files, of files, of threads; strings of a target) on its way to a terminal or
 * into a message. Bytes that could control a terminal or look like another line are shown as \xNN: control
 * characters (C0, DEL, and C1, also as UTF-8), bytes that are not UTF-8, line and paragraph separators, and
 * characters that change the direction of writing. A backslash is not escaped, so escaping a text twice changes
 * nothing.
 */
#ifndef JAB_BASE_TEXT_H
#define JAB_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Length of the harmless character at s, where n bytes are readable; 0: the first byte must be escaped. */
size_t text_plain(const char *s, size_t n);

/*
 * Writes the escaped text to `out`, with a NUL, cut before the first character that does not fit; characters in
 * `keep` are not escaped. Returns the length.
 */
size_t text_safe(const char *s, size_t len, const char *keep, char *out, size_t room);

/* Writes the escaped text to a file. */
void write_safe(FILE *to, const char *s, size_t len, const char *keep);
void print_safe(FILE *to, const char *s);

#endif
