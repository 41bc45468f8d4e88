/* SPDX-License-Identifier: MIT */
#ifndef JAB_BASE_JSON_H
#define JAB_BASE_JSON_H

#include <stdio.h>

/* A string with its quotes. Names are any bytes, JSON is UTF-8: what is none becomes a replacement character. */
void json_string(FILE *to, const char *s, size_t len);

/* A word that JSON knows without quotes (a number, true, false) as it is, any other as a string. */
void json_word(FILE *to, const char *s, size_t len);

#endif
