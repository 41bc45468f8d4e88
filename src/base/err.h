/* SPDX-License-Identifier: MIT */
/*
 * Errors: a function returns a negative errno; the message for the user is made where the facts are known and kept
 * per thread until it is printed. It is one line, and safe for a terminal whatever names are in it (base/text.h).
 */
#ifndef JAB_BASE_ERR_H
#define JAB_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>

/* Keeps the message and returns the error: return fail(-ESRCH, "no process %d", pid); */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts text before the kept message: return fail_in(r, "%s", path); */
int fail_in(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A message of several lines, in which names are already escaped; they stay lines also as a part of later messages. */
int fail_lines(int err, const char *safe);

/* The message of the last failure in this thread; never NULL. */
const char *err_text(void);

/* 0: warnings only, 1: -v, 2: -vv. Messages go to stderr, each as one write(). */
extern int log_level;
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* with -v */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* always */

#endif
