/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int log_level;

#define LONGEST 8192	/* of a sentence: a probe with many fields has a warning with its line for each, and the error comes last */

static _Thread_local char text[LONGEST];

/* The earlier sentence may be part of the new one. */
int fail(int err, const char *fmt, ...)
{
	char fresh[sizeof(text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(fresh, sizeof(fresh), fmt, ap);
	va_end(ap);
	strcpy(text, fresh);
	return err;
}

int fail_in(int err, const char *fmt, ...)
{
	char old[sizeof(text)], front[256];
	va_list ap;

	memcpy(old, text, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(front, sizeof(front), fmt, ap);
	va_end(ap);
	if (old[0])
		snprintf(text, sizeof(text), "%s: %.*s", front, (int)(sizeof(text) - sizeof(front) - 3), old);
	else
		snprintf(text, sizeof(text), "%s: %s", front, strerror(-err));
	return err;
}

const char *err_text(void)
{
	return text[0] ? text : "unknown error";
}

/* One write a message, so that lines of several writers never mix. */
static void say(const char *fmt, va_list ap)
{
	char line[LONGEST + 200];
	int n = snprintf(line, sizeof(line), "jab: ");

	n += vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

void log_info(const char *fmt, ...)
{
	va_list ap;

	if (log_level < 1)
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}
