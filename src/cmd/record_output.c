/* SPDX-License-Identifier: MIT */
#include "cmd/record.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/err.h"
#include "cmd/capture.h"

bool snapshot_parse(const char *text, enum snapshot_when *ret_when, int *ret_signal)
{
	static const char *const words[] = { [SNAPSHOT_EXIT] = "EXIT", [SNAPSHOT_CRASH] = "CRASH", [SNAPSHOT_SIGNAL] = "SIGNAL" };
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	char *end;

	for (size_t i = SNAPSHOT_EXIT; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(words[i], text) == 0) {
			*ret_when = i;
			return true;
		}
	*ret_when = SNAPSHOT_SIGNAL;
	for (int sig = 1; sig < 32; sig++)
		if (sig != SIGKILL && sig != SIGSTOP && strcasecmp(sigabbrev_np(sig), name) == 0) {
			*ret_signal = sig;
			return true;
		}
	*ret_signal = strtol(text, &end, 0);
	return end != text && !*end && *ret_signal > 0 && *ret_signal < 65 && *ret_signal != SIGKILL &&
	       *ret_signal != SIGSTOP;
}

/* The name of the first target, with only characters that are safe in a file name. */
static void target_name(char **rest, char *out, size_t room)
{
	const char *word = rest ? rest[0] : run.command ? run.command : run.pids.v[0];
	char path[64];
	size_t n = 0;
	FILE *f = NULL;
	pid_t pid;

	if (!rest && !run.command && is_pid(word, &pid)) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		f = fopen(path, "re");
	}
	if (f && fgets(path, sizeof(path), f))
		word = path;
	if (f)
		fclose(f);
	else if (rest || run.command)
		word = base_name(word);
	for (; n < room - 1 && word[n] && !isspace((unsigned char)word[n]); n++)
		out[n] = isalnum((unsigned char)word[n]) || strchr("._-+", word[n]) ? word[n] : '_';
	out[n] = 0;
}

static char *default_name(char **rest)
{
	char target[64], when[32];
	time_t now = time(NULL);
	struct tm tm;
	char *name;

	target_name(rest, target, sizeof(target));
	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	name = xasprintf("jab-%s-%s", target, when);
	for (int i = 2; access(name, F_OK) == 0 && i < 100; i++) {
		free(name);
		name = xasprintf("jab-%s-%s-%d", target, when, i);
	}
	return name;
}

/* The command of -c must not write into the archive: its stdout becomes jab's stderr. */
static int open_stdout(struct output *o)
{
	if (isatty(STDOUT_FILENO))
		return fail(-EINVAL, "an archive does not go to a terminal: give a directory, or `-o - | tar x -C DIR`");
	o->is_stdout = true;
	o->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (o->fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return fail(-errno, "stdout can't be used: %s", strerror(errno));
	return 0;
}

static int open_descriptor(struct output *o, const char *text)
{
	char *end;
	long fd = strtol(text, &end, 10);

	if (end == text || *end || fd < 0 || fd > 1 << 20)
		return fail(-EINVAL, "fd:%s is no descriptor", text);
	if (fd == STDOUT_FILENO)
		return open_stdout(o);
	o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (o->fd < 0)
		return fail(-errno, "fd:%s can't be used: %s", text, strerror(errno));
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	return 0;
}

/* jab's command line, for the trace's metadata. */
static char *command_line(void)
{
	static char text[4096];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i + 1 < n; i++)
		if (!text[i])
			text[i] = ' ';
	text[n > 0 ? n : 0] = 0;
	return xstrdup(text);
}

static int create(struct output *o, struct jab *j, const char *name, struct jab_writer **ret_trace)
{
	struct jab_writer_options options = {
		.size = sizeof(options), .path = name, .to_fd = o->fd >= 0, .fd = o->fd, .command = o->command,
		.max_size = capture.max_size,
	};

	return jab_writer_new(j, &options, ret_trace);
}

int output_open(struct output *o, struct jab *j, const char *name, char **rest)
{
	int r = 0;

	o->command = command_line();
	o->name = name ? xstrdup(name) : default_name(rest);
	if (!strcmp(o->name, "-"))
		r = open_stdout(o);
	else if (!strncmp(o->name, "fd:", 3))
		r = open_descriptor(o, o->name + 3);
	if (r < 0)
		return r;
	if (o->is_stdout) {
		free(o->name);
		o->name = xstrdup("stdout");
	}
	r = create(o, j, o->name, &o->trace);
	o->made = r == 0 && o->fd < 0;
	return r;
}

#define MOST_TAKEN 10000	/* names that are tried */

/* Creates DIR.2, DIR.3 and so on; names of existing files are skipped, so that no snapshot is lost because of them. */
static int create_next(struct output *o, struct jab *j, char **name, struct jab_writer **ret_trace)
{
	int r;

	o->number = MAX(o->number, 1);
	for (int tries = 0; tries < MOST_TAKEN; tries++) {
		free(*name);
		*name = xasprintf("%s.%zu", o->name, ++o->number);
		r = create(o, j, *name, ret_trace);
		if (r != -EEXIST)
			return r;
	}
	return r;
}

int output_snapshot(struct output *o, struct jab *j)
{
	char *name = xstrdup(o->name);
	struct jab_writer *trace = o->trace;
	int64_t n = 0, r = 0;

	o->trace = NULL;
	if (!trace)
		r = o->fd < 0 ? create_next(o, j, &name, &trace) : fail(-EBUSY, "a descriptor takes one snapshot only");
	if (r == 0) {
		n = jab_snapshot(j, trace);
		r = jab_writer_close(trace);
		o->snapshots++;
	}
	if (n < 0 || r < 0)
		r = n < 0 ? n : r;
	else
		log_warn("snapshot of %lld events in %s", (long long)n, name);
	free(name);
	return r;
}

/* Removes a trace that nothing was written to. */
static void remove_trace(const char *name)
{
	char *meta = xasprintf("%s/metadata", name);

	unlink(meta);
	rmdir(name);
	free(meta);
}

int output_close(struct output *o)
{
	bool empty = o->made && !o->snapshots && ((o->trace && !o->written) || o->unused);
	int r = jab_writer_close(o->trace);

	if (empty)
		remove_trace(o->name);
	if (o->fd >= 0)
		close(o->fd);
	free(o->name);
	free(o->command);
	return o->written ? r : 0;
}
