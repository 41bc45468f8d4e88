/* SPDX-License-Identifier: MIT */
/* What /proc and /sys/fs/cgroup say of a process or a control group now, when it is shown. Without an answer: N/A, or 0. */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "lang/format.h"
#include "lang/type.h"

#define CGROUPS "/sys/fs/cgroup"
#define DEEPEST 32	/* control groups in control groups */

/* A line of /proc/PID/FILE that begins so, without its beginning; "" is any. Caller frees; NULL: there is none. */
static char *line_of(uint64_t pid, const char *file, const char *begin)
{
	char *path = xasprintf("/proc/%" PRIu64 "/%s", pid, file), *line = NULL, *found = NULL;
	FILE *f = fopen(path, "re");
	size_t room = 0;

	free(path);
	while (f && !found && getline(&line, &room, f) >= 0)
		if (strncmp(line, begin, strlen(begin)) == 0) {
			line[strcspn(line, "\n")] = 0;
			found = xstrdup(line + strlen(begin));
		}
	if (f)
		fclose(f);
	free(line);
	return found;
}

static uint64_t parent_of(uint64_t pid)
{
	char *line = line_of(pid, "status", "PPid:");
	uint64_t ppid = line ? strtoull(line, NULL, 10) : 0;

	free(line);
	return ppid;
}

static void print_comm(FILE *f, uint64_t pid)
{
	char *line = pid ? line_of(pid, "comm", "") : NULL;

	fputs(line ? line : "N/A", f);
	free(line);
}

/* The folder with this number, below `path`. Caller frees. */
static char *find_group(const char *path, uint64_t id, int depth)
{
	DIR *d = depth < DEEPEST ? opendir(path) : NULL;
	struct dirent *e;
	char *found = NULL;

	while (d && !found && (e = readdir(d))) {
		char *below;

		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		below = xasprintf("%s/%s", path, e->d_name);
		if (e->d_ino == id)
			found = xstrdup(below);
		else
			found = find_group(below, id, depth + 1);
		free(below);
	}
	if (d)
		closedir(d);
	return found;
}

static void print_group_path(FILE *f, uint64_t id)
{
	struct stat st;
	char *path = stat(CGROUPS, &st) == 0 && st.st_ino == id ? xstrdup(CGROUPS "/") : find_group(CGROUPS, id, 0);

	fprintf(f, "unified:%s", path ? path + strlen(CGROUPS) : "N/A");
	free(path);
}

static uint64_t group_of(uint64_t pid)
{
	char *line = line_of(pid, "cgroup", "0::"), *path = xasprintf(CGROUPS "%s", line ? line : "/none");
	struct stat st;
	uint64_t id = line && stat(path, &st) == 0 ? st.st_ino : 0;

	free(line);
	free(path);
	return id;
}

void format_process(FILE *f, uint32_t as, uint64_t number)
{
	char *line;

	switch (as) {
	case SHOWN_COMM:	print_comm(f, number); break;
	case SHOWN_PCOMM:	print_comm(f, parent_of(number)); break;
	case SHOWN_PPID:	fprintf(f, "%" PRIu64, parent_of(number)); break;
	case SHOWN_CGROUP:	fprintf(f, "%" PRIu64, group_of(number)); break;
	case SHOWN_CGROUP_ID:	print_group_path(f, number); break;
	default:
		line = line_of(number, "cgroup", "0::");
		fprintf(f, "unified:%s", line ? line : "N/A");
		free(line);
	}
}
