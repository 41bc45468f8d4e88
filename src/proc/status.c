/* SPDX-License-Identifier: MIT */
/* Files of /proc: read whole, and the few fields of them that are needed. */
#include "proc/internal.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

ssize_t file_read(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0, got = 0;

	if (fd < 0)
		return -errno;
	while ((size_t)got < len - 1) {
		n = read(fd, buf + got, len - 1 - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += n;
	}
	n = n < 0 ? -errno : got;
	close(fd);
	buf[n < 0 ? 0 : n] = 0;
	return n;
}

char *file_load_at(int dir, const char *path, size_t *ret_len)
{
	size_t cap = 1 << 14, got = 0;
	char *buf;
	ssize_t n;
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	buf = xrealloc(NULL, cap);
	while ((n = read(fd, buf + got, cap - got - 1)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		got += n;
		if (cap - got < 8192)
			buf = xrealloc(buf, cap *= 2);
	}
	close(fd);
	if (n < 0) {
		free(buf);
		return NULL;
	}
	buf[got] = 0;
	*ret_len = got;
	return buf;
}

char *file_load(const char *path, size_t *ret_len)
{
	return file_load_at(AT_FDCWD, path, ret_len);
}

/* The name in parentheses may hold anything, parentheses too: the fields follow the last one. */
int task_stat(pid_t pid, pid_t tid, struct task_stat *ret_stat)
{
	struct task_stat s = { 0 };
	char path[64], buf[1024];
	char *at;
	ssize_t r;
	int i;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	r = file_read(path, buf, sizeof(buf));
	if (r < 0)
		return r;
	at = strrchr(buf, ')');
	if (!at || at[1] != ' ')
		return -ESRCH;
	s.state = at[2];
	s.ppid = atoi(at + 4);
	at += 4;
	for (i = 4; i < 22 && at; i++) {
		at = strchr(at, ' ');
		if (at)
			at++;
		if (i == 8 && at)
			s.flags = strtoull(at, NULL, 10);
	}
	if (!at)
		return -ESRCH;
	s.start_time = strtoull(at, NULL, 10);
	for (; i < 39 && at; i++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	s.cpu = at ? atoi(at) : -1;
	for (; i < 47 && at; i++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	s.start_brk = at ? strtoull(at, NULL, 10) : 0;
	*ret_stat = s;
	return 0;
}

/* "Name:\tvalue" of a status file; the first number of the line. */
int status_field(const char *status, const char *name, int base, uint64_t *ret_value)
{
	size_t len = strlen(name);
	const char *line = status;

	while (line) {
		if (strncmp(line, name, len) == 0 && line[len] == ':') {
			*ret_value = strtoull(line + len + 1, NULL, base);
			return 0;
		}
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return -ENOENT;
}

void task_comm(pid_t pid, char buf[32])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	n = file_read(path, buf, 32);
	if (n <= 0)
		strcpy(buf, "?");
	buf[strcspn(buf, "\n")] = 0;
}
