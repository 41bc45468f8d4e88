/* SPDX-License-Identifier: MIT */
/* jab recover: removes what a killed tracer has left in processes. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include "base/err.h"
#include "cmd/common.h"

static bool json;
static text_list pids;

static const struct opt opts[] = {
	{ 'p', "pid", "PID", OPT_LIST, &pids, "the same as PID" },
	{ 0, "json", NULL, OPT_FLAG, &json, "one JSON object" },
	{ 'v', "verbose", NULL, OPT_MORE, &log_level, "print what happens" },
	{ 0 }
};

static void report_text(const struct jab_report *r)
{
	if (!r->processes)
		puts("nothing was left behind");
	else
		printf("%zu process%s: %zu places restored%s\n", r->processes, r->processes == 1 ? "" : "es",
		       r->restored, r->clean ? ", everything is as before" : "");
	if (r->foreign)
		printf("%zu places had been changed, not by jab, and were left alone\n", r->foreign);
	if (r->arena_left)
		puts("a thread, or code that a signal has interrupted, may still be inside a pad: try again later");
}

/* False: the process's mappings can't be read, so nothing is known about what was left there. */
static bool may_look(pid_t pid)
{
	char *path = xasprintf("/proc/%d/maps", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = errno;

	free(path);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || (err != EACCES && err != EPERM);
}

static int recover(struct jab *j, pid_t pid)
{
	struct jab_report report = { .clean = true };
	int r = jab_recover(j, pid);

	if (r == -ENOENT && pid && !may_look(pid)) {
		fail(-EPERM, "process %d can't be examined: run as its user or as root (CAP_SYS_PTRACE)", pid);
		return complain(j);
	}
	if (r == 0)		/* -ENOENT: there is nothing of jab in the process, which is no error here */
		report = *jab_get_report(j);
	else if (r != -ENOENT)
		return complain(j);
	if (json)
		printf("{\"processes\":%zu,\"restored\":%zu,\"foreign\":%zu,\"clean\":%s}\n", report.processes,
		       report.restored, report.foreign, report.clean ? "true" : "false");
	else
		report_text(&report);
	return report.clean ? 0 : 1;
}

static int run(text_list *words, char **rest)
{
	struct jab_options options = { .size = sizeof(options), .log_level = log_level };
	struct jab *j;
	const char *word = words->n ? words->v[0] : pids.n ? pids.v[0] : NULL;
	pid_t pid = 0;
	int r;

	if (rest || words->n + pids.n > 1 || (word && !is_pid(word, &pid))) {
		fprintf(stderr, "jab recover: give one pid, or none for all processes; try `jab recover --help`\n");
		return 2;
	}
	if (pid && kill(pid, 0) < 0 && errno == ESRCH) {
		fail(-ESRCH, "there is no process %d", pid);
		return complain(NULL);
	}
	if (jab_new(&options, &j) < 0)
		return complain(NULL);
	r = recover(j, pid);
	jab_free(j);
	return r;
}

const struct command cmd_recover = {
	"recover", "[[-p] PID]", "Undo what a killed tracer left behind.", opts, run
};
