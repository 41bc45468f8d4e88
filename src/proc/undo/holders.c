/* SPDX-License-Identifier: MIT */
/*
 * Which processes have an arena: found by its name in /proc/PID/maps and in /proc/PID/fd. A name
 * proves nothing, for any process may make a memfd of that name. Whether a process shares the tracer's memory is proved by
 * a challenge: the tracer writes a random word into its own mapping of the record and reads it in the other process.
 */
#include "proc/undo/clean.h"
#include "proc/undo/kin.h"
#include "proc/undo/look.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/threads/ids.h"
#include "proc/internal.h"

/* The entry of an arena, added if there is none. The entries from `first` on are those of one process. NULL: it has too many. */
static struct holder *holder_of(holder_list *list, size_t first, const struct arena_label *label)
{
	struct holder *h;

	for (size_t i = first; i < list->n; i++)
		if (list->v[i].fd < 0 && same_arena(&list->v[i].label, label))
			return &list->v[i];
	if (list->n - first >= HOLDERS_MOST)
		return NULL;
	h = vec_add(list);
	h->label = *label;
	h->label.data = false;
	h->fd = -1;
	return h;
}

/* One line of maps: "start-end perms offset dev inode   /memfd:jab-... (deleted)". */
static void take_line(const char *line, pid_t pid, pid_t via, holder_list *list, size_t first)
{
	const char *path = strchr(line, '/');
	uint64_t start, offset, inode;
	struct arena_label label;
	struct holder *h;

	if (!path || !arena_name_parse(path, &label) ||
	    sscanf(line, "%" SCNx64 "-%*s %*s %" SCNx64 " %*s %" SCNu64, &start, &offset, &inode) != 3)
		return;
	h = holder_of(list, first, &label);
	if (!h)
		return;
	h->pid = pid;
	h->via = via;
	if (offset == 0 && !label.data && !h->record) {
		h->record = start;
		h->inode = inode;
	}
	if (label.data && !h->data_inode)
		h->data_inode = inode;
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
	/* The main thread has ended, or it is a kernel thread: read the file of another thread. */
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

/* Changes the text: newlines become NULs. */
static void holders_in_text(char *text, pid_t pid, pid_t via, holder_list *list)
{
	size_t first = list->n;
	char *line, *end;

	if (text && strstr(text, ARENA_PATH)) {
		for (line = text; *line; line = end + 1) {
			end = strchrnul(line, '\n');
			if (!*end)
				break;
			*end = 0;
			take_line(line, pid, via, list, first);
		}
	}
}

void holders_in_maps(pid_t pid, holder_list *list)
{
	pid_t via;
	char *text = load_maps(pid, &via);

	holders_in_text(text, pid, via, list);
	free(text);
}

void holders_in(struct proc *p, holder_list *list)
{
	char *text = NULL;

	if (proc_maps_text(p, &text) == 0)
		holders_in_text(text, p->pid, priv(p)->via, list);
	free(text);
}

void holders_in_fds(pid_t pid, pid_t tid, holder_list *list)
{
	char path[400], link[256];
	struct dirent *e;
	struct stat st;
	size_t n = 0;
	ssize_t len;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, tid);
	d = opendir(path);
	while (d && n < HOLDERS_MOST && (e = readdir(d))) {
		struct holder h = { .pid = pid, .via = tid };

		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%s", pid, tid, e->d_name);
		len = readlink(path, link, sizeof(link) - 1);
		if (len <= 0)
			continue;
		link[len] = 0;
		if (!arena_name_parse(link, &h.label) || stat(path, &st) < 0)
			continue;
		h.fd = atoi(e->d_name);
		h.inode = st.st_ino;
		*vec_add(list) = h;
		n++;
	}
	if (d)
		closedir(d);
}

int holders_everywhere(holder_list *list, pid_list *stuck)
{
	DIR *d = opendir("/proc");
	pid_list pids = { 0 };
	struct dirent *e;

	if (!d)
		return fail(-errno, "/proc can't be read: %s", strerror(errno));
	while ((e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && pid != getpid())
			*vec_add(&pids) = pid;
	}
	closedir(d);
	look_for_holders(&pids, true, list, stuck);
	vec_free(&pids);
	return 0;
}

int holders_among_kin(const struct arena *a, holder_list *list, pid_list *stuck)
{
	pid_list pids = { 0 };
	int r = kin_find(a, &pids);

	if (!r)
		look_for_holders(&pids, false, list, stuck);
	vec_free(&pids);
	return r;
}

static bool read_head(const struct holder *h, struct undo_head *ret_head)
{
	char path[64];
	bool good;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", h->via);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	good = fd >= 0 && pread(fd, ret_head, sizeof(*ret_head), h->record) == sizeof(*ret_head);
	if (fd >= 0)
		close(fd);
	return good;
}

/* A process that has the word maps the memory; or another one that does copies the word to it, and is cleaned, too. */
bool holder_shares(const struct holder *h, const struct arena *a)
{
	struct undo_head head;
	uint64_t word;

	if (!a->book.shared || !h->record || h->inode != a->inode || !same_arena(&h->label, &a->label) ||
	    getrandom(&word, sizeof(word), 0) != sizeof(word))
		return false;
	__atomic_store_n(&a->book.shared->challenge, word, __ATOMIC_SEQ_CST);
	return read_head(h, &head) && head.challenge == word &&
	       memcmp(head.nonce, a->book.nonce, sizeof(head.nonce)) == 0;
}

/* The mapping at an address, without reading all of maps. false: not known, or it is not the start of a record */
static bool holder_at(struct holder *h, uint64_t at)
{
	char name[PATH_MAX];
	struct map_query q;

	if (map_query(h->pid, at, &q, name, sizeof(name)) < 0 || q.start != at || q.offset || !arena_name_parse(name, &h->label) || h->label.data)
		return false;
	h->record = at;
	h->inode = q.inode;
	return true;
}

bool arena_is_mapped(const struct arena *a, pid_t pid)
{
	struct holder h = { .pid = pid, .via = pid, .fd = -1 };
	holder_list list = { 0 };
	bool found = holder_at(&h, a->record_at.v) && holder_shares(&h, a);	/* a fork has it at the same address */

	if (!found)
		holders_in_maps(pid, &list);
	for (size_t i = 0; !found && i < list.n; i++)
		found = holder_shares(&list.v[i], a);
	vec_free(&list);
	return found;
}

/* A process that can't be read now may be a fork that runs: it is read again later. */
void arenas_held(struct arena *const *arenas, size_t n, bool *ret_held)
{
	for (size_t k = 0; k < n; k++) {
		holder_list list = { 0 };
		pid_list stuck = { 0 };

		holders_among_kin(arenas[k], &list, &stuck);
		ret_held[k] = stuck.n;
		for (size_t i = 0; !ret_held[k] && i < list.n; i++)
			ret_held[k] = holder_shares(&list.v[i], arenas[k]);
		vec_free(&list);
		vec_free(&stuck);
	}
}

/* Whether the arena that the process maps was made before ours. */
bool holder_is_older(const struct holder *h, const struct arena *a)
{
	struct undo_head head;

	return h->record && read_head(h, &head) && head.magic == UNDO_MAGIC && head.made < a->book.made;
}

/* Whether its record was made after the process was opened, and its jumps may be in the text. */
bool holder_is_late(const struct holder *h, struct proc *p)
{
	struct undo_head head;

	return h->record && read_head(h, &head) && head.magic == UNDO_MAGIC && head.made >= priv(p)->opened &&
	       head.text != UNDO_TEXT_CLEAN;
}
