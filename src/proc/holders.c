/* SPDX-License-Identifier: MIT */
/*
 * Who has an arena: seen from outside by its name in /proc/PID/maps and in /proc/PID/fd. The inode
 * number tells arenas apart; forked children have the same one.
 */
#include "proc/clean.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"

static void add_holder(holder_list *list, const struct holder *h)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (list->v[i].pid == h->pid && list->v[i].inode == h->inode && list->v[i].fd == h->fd)
			return;
	*vec_add(list) = *h;
}

/* Somebody else's segment may have such a name, too: then there is no record in it. */
static bool read_tracer(pid_t pid, uint64_t at, struct tracer_id *ret_id)
{
	struct undo_head h = { 0 };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &h, sizeof(h), at) != sizeof(h))
		h.magic = 0;
	if (fd >= 0)
		close(fd);
	*ret_id = (struct tracer_id){ h.tracer_pid, h.tracer_start, h.tracer_pidns };
	return h.magic == UNDO_MAGIC;
}

/* One line of maps: "start-end perms offset dev inode   /memfd:jab-... (deleted)". via: a live thread. */
static void take_line(const char *line, pid_t pid, pid_t via, holder_list *list)
{
	struct holder h = { .pid = pid, .fd = -1 };
	const char *path = strchr(line, '/');
	uint64_t start, offset;

	if (!path || !is_arena_path(path) ||
	    sscanf(line, "%" SCNx64 "-%*s %*s %" SCNx64 " %*s %" SCNu64, &start, &offset, &h.inode) != 3)
		return;
	if (arena_name_parse(path, &h.tracer) || (offset == 0 && read_tracer(via, start, &h.tracer)))
		add_holder(list, &h);
}

static char *load_maps(pid_t pid, pid_t *ret_via)
{
	char path[300];
	struct dirent *e;
	size_t len = 0;
	char *text;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	text = file_load(path, &len);
	*ret_via = pid;
	if (!text || len)
		return text;
	free(text);
	/* The main thread has ended, or it is a kernel thread: ask the others. */
	text = NULL;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !len && (e = readdir(d))) {
		if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == pid)
			continue;
		free(text);
		*ret_via = atoi(e->d_name);
		snprintf(path, sizeof(path), "/proc/%d/task/%s/maps", pid, e->d_name);
		text = file_load(path, &len);
	}
	if (d)
		closedir(d);
	return text;
}

void holders_in_maps(pid_t pid, holder_list *list)
{
	pid_t via;
	char *text = load_maps(pid, &via), *line, *end;

	if (text && (strstr(text, ARENA_PATH) || strstr(text, SEGMENT_PATH))) {
		for (line = text; *line; line = end + 1) {
			end = strchrnul(line, '\n');
			if (!*end)
				break;
			*end = 0;
			take_line(line, pid, via, list);
		}
	}
	free(text);
}

void holders_in_fds(pid_t pid, pid_t tid, holder_list *list)
{
	char path[400], link[256];
	struct dirent *e;
	struct stat st;
	ssize_t n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, tid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		struct holder h = { .pid = pid };

		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%s", pid, tid, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = 0;
		if (!arena_name_parse(link, &h.tracer) || stat(path, &st) < 0)
			continue;
		h.fd = atoi(e->d_name);
		h.inode = st.st_ino;
		add_holder(list, &h);
	}
	if (d)
		closedir(d);
}

int holders_everywhere(bool descriptors, holder_list *list)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	if (!d)
		return fail(-errno, "/proc can't be read: %s", strerror(errno));
	while ((e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid <= 0 || pid == getpid())
			continue;
		holders_in_maps(pid, list);
		if (descriptors)
			holders_in_fds(pid, pid, list);
	}
	closedir(d);
	return 0;
}

void arenas_held(struct arena *const *arenas, size_t n, bool *ret_held)
{
	holder_list list = { 0 };

	holders_everywhere(false, &list);
	for (size_t k = 0; k < n; k++) {
		ret_held[k] = false;
		for (size_t i = 0; i < list.n; i++)
			ret_held[k] |= list.v[i].inode == arenas[k]->inode;
	}
	vec_free(&list);
}
