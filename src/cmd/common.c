/* SPDX-License-Identifier: MIT */
#include "cmd/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jab/event.h>
#include "base/err.h"
#include "base/json.h"

int complain(const struct jab *j)
{
	const char *own = err_take();

	fprintf(stderr, "jab: %s\n", own ? own : jab_error(j));
	return 1;
}

FILE *output_create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f)
		fail(-errno, "%s can't be written: %s", path, strerror(errno));
	if (!f && fd >= 0)
		close(fd);
	return f;
}

static int first_error;		/* errno of the first failed write: stdio does not keep it */

void output_failed(void)
{
	if (!first_error)
		first_error = errno;
}

int output_done(FILE *to, const char *name)
{
	bool failed = ferror(to);
	int why;

	errno = 0;
	if (!fflush(to) && !failed)
		return 0;
	why = errno ? errno : first_error;
	return fail(why ? -why : -EIO, "%s can't be written%s%s", name, why ? ": " : "", why ? strerror(why) : "");
}

int output_status(FILE *to, const char *name, int status)
{
	int r = output_done(to, name);

	if (r == -EPIPE)	/* no message: the reader has closed the pipe, as head(1) does */
		return 1;
	return r < 0 ? complain(NULL) : status;
}

struct look look;
static const struct { const char *name; unsigned int flag; } times[] = {
	{ "boot", 0 }, { "wall", JAB_PRINT_WALL }, { "relative", JAB_PRINT_RELATIVE }, { "delta", JAB_PRINT_DELTA }
};

int look_usage(const char *command)
{
	size_t i = 0;

	if (look.colour && strcmp(look.colour, "auto") && strcmp(look.colour, "always") && strcmp(look.colour, "never")) {
		fprintf(stderr, "jab %s: --color takes auto, always or never, not '%s'\n", command, look.colour);
		return 2;
	}
	while (look.time && i < ARRAY_SIZE(times) && strcmp(look.time, times[i].name))
		i++;
	if (i < ARRAY_SIZE(times))
		return 0;
	fprintf(stderr, "jab %s: --time takes boot, wall, relative or delta, not '%s'\n", command, look.time);
	return 2;
}

unsigned int look_flags(FILE *to, bool json)
{
	unsigned int flags = json ? JAB_PRINT_JSON : is_colourful(to) ? JAB_PRINT_COLOUR : 0;

	if (look.full_names)
		flags |= JAB_PRINT_FULL_NAMES;
	for (size_t i = 0; look.time && i < ARRAY_SIZE(times); i++)
		if (!strcmp(look.time, times[i].name))
			flags |= times[i].flag;
	return flags;
}

bool is_colourful(FILE *to)
{
	const char *no = getenv("NO_COLOR");

	if (look.plain)
		return false;
	if (look.colour && strcmp(look.colour, "auto"))
		return !strcmp(look.colour, "always");
	return isatty(fileno(to)) && !(no && *no);
}

bool is_pid(const char *word, pid_t *ret_pid)
{
	char *end;
	long n = strtol(word, &end, 10);

	if (end == word || *end || n <= 0 || n > 1 << 30)
		return false;
	*ret_pid = n;
	return true;
}

int attach_word(struct jab *j, const char *word)
{
	pid_t pid;

	return is_pid(word, &pid) ? jab_attach(j, pid) : jab_attach_name(j, word);
}

void json_text(FILE *to, const char *s)
{
	json_string(to, s, strlen(s));
}

void json_pair(FILE *to, const char *key, const char *value, bool first)
{
	fprintf(to, "%s\"%s\":", first ? "" : ",", key);
	json_text(to, value);
}

const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
