/* SPDX-License-Identifier: MIT */
/*
 * Errors have one shape: a function returns a negative errno, and the sentence for the user is
 * made where the facts are known and kept per thread until somebody prints it. It is one line, and safe for a terminal
 * whatever names are in it (base/text.h).
 */
#ifndef JAB_BASE_ERR_H
#define JAB_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>

/* Remember the sentence and hand the error on: return fail(-ESRCH, "no process %d", pid); */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put words in front of the sentence that is there already: return fail_in(r, "%s", path); */
int fail_in(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Several lines, of which the names are safe already; they stay lines also as a part of later sentences. */
int fail_lines(int err, const char *safe);

/* The sentence of the last failure in this thread; never NULL. */
const char *err_text(void);

/* 0: quiet, 1: -v, 2: -vv. Messages go to stderr, each as one write. */
extern int log_level;
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* from -v on */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* always */

#endif
