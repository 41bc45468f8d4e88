/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/text.h"

int log_level;

#define LONGEST 8192	/* bytes of a message: a probe with many fields may give a warning line for each, and the error last */

static _Thread_local char text[LONGEST];
static _Thread_local char lines[LONGEST];	/* the last message of fail_lines() */

/*
 * An error message contains names from outside of jab: they are escaped, so that they can neither control the
 * terminal nor begin a line. Lines given to fail_lines() are jab's own, also where they became part of another
 * message.
 */
static size_t make_safe(const char *fresh, char *out, size_t room)
{
	const char *own = lines[0] ? strstr(fresh, lines) : NULL;
	size_t n = text_safe(fresh, own ? (size_t)(own - fresh) : strlen(fresh), "", out, room);

	if (!own)
		return n;
	n += text_safe(own, strlen(lines), "\n", out + n, room - n);
	return n + text_safe(own + strlen(lines), strlen(own) - strlen(lines), "", out + n, room - n);
}

/* The arguments may point to the earlier message. */
int fail(int err, const char *fmt, ...)
{
	char fresh[sizeof(text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(fresh, sizeof(fresh), fmt, ap);
	va_end(ap);
	make_safe(fresh, text, sizeof(text));
	return err;
}

int fail_lines(int err, const char *safe)
{
	snprintf(lines, sizeof(lines), "%s", safe);
	text_safe(lines, strlen(lines), "\n", text, sizeof(text));
	return err;
}

int fail_in(int err, const char *fmt, ...)
{
	char old[sizeof(text)], fresh[256], front[sizeof(fresh)];
	va_list ap;

	memcpy(old, text, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(fresh, sizeof(fresh), fmt, ap);
	va_end(ap);
	text_safe(fresh, strlen(fresh), "", front, sizeof(front));
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

const char *err_take(void)
{
	static _Thread_local char taken[LONGEST];

	if (!text[0])
		return NULL;
	memcpy(taken, text, sizeof(taken));
	text[0] = 0;
	return taken;
}

static _Thread_local const struct log_sink *current;

const struct log_sink *log_to(const struct log_sink *sink)
{
	const struct log_sink *before = current;

	current = sink;
	return before;
}

static bool is_wanted(int level)
{
	return level <= (current ? current->level : log_level);
}

bool log_is_verbose(void)
{
	return is_wanted(1);
}

/* One write() per message, so that lines of several writers never mix. */
static void say(int level, const char *fmt, va_list ap)
{
	char fresh[LONGEST + 200], line[LONGEST + 200];
	size_t n = snprintf(line, sizeof(line), "jab: "), front = n;

	vsnprintf(fresh, sizeof(fresh), fmt, ap);
	n += make_safe(fresh, line + n, sizeof(line) - n - 1);
	if (current && current->write) {
		current->write(current->arg, level, line + front);
		return;
	}
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}

void log_info(const char *fmt, ...)
{
	va_list ap;

	if (!is_wanted(1))
		return;
	va_start(ap, fmt);
	say(1, fmt, ap);
	va_end(ap);
}

void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(0, fmt, ap);
	va_end(ap);
}
