/* SPDX-License-Identifier: MIT */
/*
 * Errors: a function returns a negative errno; the message for the user is made where the facts are known and kept
 * per thread until it is printed. It is one line, and safe for a terminal whatever names are in it (base/text.h).
 */
#ifndef JAB_BASE_ERR_H
#define JAB_BASE_ERR_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>

/* Keeps the message and returns the error: return fail(-ESRCH, "no process %d", pid); */
int fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts text before the kept message: return fail_in(r, "%s", path); */
int fail_in(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Keeps a message of several lines, in which names are already escaped. Its line ends also stay as part of a later message. */
int fail_lines(int err, const char *safe);

/* The message of the last failure in this thread; never NULL. */
const char *err_text(void);
const char *err_take(void);	/* returns the message and clears it; NULL: there is none */

/*
 * Messages of level 0 are warnings, 1 is for -v, 2 for -vv. They go to stderr, each as one write(), up to log_level; or, if
 * this thread has a sink, to its function up to its level. write: NULL: stderr.
 */
struct log_sink {
	void (*write)(void *arg, int level, const char *text);
	void *arg;
	int level;
};
const struct log_sink *log_to(const struct log_sink *sink);	/* sets this thread's sink; NULL: none. Returns the previous one */

extern int log_level;
bool log_is_verbose(void);
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* level 1 */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));	/* level 0 */

#endif
