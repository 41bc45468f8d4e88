/* SPDX-License-Identifier: MIT */
#ifndef JAB_BASE_JSON_H
#define JAB_BASE_JSON_H

#include <stdio.h>

/*
 * Writes a string with its quotes. Names are any bytes, JSON is UTF-8: bytes that are not UTF-8 become a
 * replacement character.
 */
void json_string(FILE *to, const char *s, size_t len);

/* Writes a word that JSON has without quotes (a number, true, false) unchanged, any other one as a string. */
void json_word(FILE *to, const char *s, size_t len);

#endif
