/* SPDX-License-Identifier: MIT */
/*
 * Which process made an arena, and whether it is alive. Names and records can be forged by the process that
 * has them, so a tracer counts as alive only if it has the same memory mapped, or holds a thread
 * of the target; or if its mappings can't be read, which the message says.
 */
#include "proc/undo/clean.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"

#define FIRST_PIDNS 0xeffffffcull	/* inode of the initial pid namespace, in which all processes are visible */

static uint64_t pidns_of(const char *proc)
{
	struct stat st;
	char path[300];

	snprintf(path, sizeof(path), "/proc/%s/ns/pid", proc);
	return stat(path, &st) == 0 ? st.st_ino : 0;
}

int tracer_self(struct tracer_id *ret_id)
{
	static struct tracer_id self;	/* kept; a forked child has another pid */
	struct tracer_id id = { .pid = getpid() };
	struct task_stat st;
	int r;

	if (self.pid == id.pid) {
		*ret_id = self;
		return 0;
	}
	r = task_stat(id.pid, id.pid, &st);
	if (r < 0)
		return fail(r, "/proc/self/stat can't be read: is /proc mounted?");
	id.start = st.start_time;
	id.pidns = pidns_of("self");
	*ret_id = self = id;
	return 0;
}

static bool has_ended(const struct task_stat *st)
{
	return st->state == 'Z' || st->state == 'X';
}

/* A main thread may end before the others do. */
static bool has_living_thread(pid_t pid)
{
	struct task_stat st;
	char path[64];
	bool found = false;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d)))
		found = isdigit((unsigned char)e->d_name[0]) && task_stat(pid, atoi(e->d_name), &st) == 0 &&
			!has_ended(&st);
	if (d)
		closedir(d);
	return found;
}

static enum tracer_state state_of(pid_t pid, uint64_t start)
{
	struct task_stat st;

	/* With the mount option hidepid, /proc does not show processes of other users. */
	if (task_stat(pid, pid, &st) < 0)
		return kill(pid, 0) == 0 || errno == EPERM ? TRACER_ALIVE : TRACER_DEAD;
	if (st.start_time != start || (has_ended(&st) && !has_living_thread(pid)))
		return TRACER_DEAD;
	return TRACER_ALIVE;
}

/* Find the process with this pid in another namespace, whose processes are visible here. *ret_pid: its pid here. */
static enum tracer_state find_in_namespace(const struct tracer_id *id, pid_t *ret_pid)
{
	enum tracer_state found = TRACER_DEAD;
	DIR *d = opendir("/proc");
	struct dirent *e;
	uint32_t theirs;

	while (d && found == TRACER_DEAD && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);

		if (pid <= 0 || pidns_of(e->d_name) != id->pidns || !innermost_pid(pid, &theirs) ||
		    theirs != (uint32_t)id->pid)
			continue;
		found = state_of(pid, id->start);
		*ret_pid = pid;
	}
	if (d)
		closedir(d);
	return d ? found : TRACER_UNKNOWN;
}

enum tracer_state tracer_state(const struct tracer_id *id, pid_t *ret_pid)
{
	struct tracer_id self;

	*ret_pid = id->pid;
	if (tracer_self(&self) < 0)
		return TRACER_UNKNOWN;
	if (self.pidns == id->pidns)
		return state_of(id->pid, id->start);
	if (self.pidns != FIRST_PIDNS || geteuid() != 0)
		return TRACER_UNKNOWN;
	return find_in_namespace(id, ret_pid);
}

/* Whether a thread of the tracer traces one of the target: then it may be about to map the memory itself. */
static bool holds_thread(pid_t tracer, pid_t pid)
{
	char path[300], status[4096];
	struct dirent *e;
	uint64_t by;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		by = 0;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, e->d_name);
		if (e->d_name[0] == '.' || file_read(path, status, sizeof(status)) < 0 ||
		    status_field(status, "TracerPid", 10, &by) < 0 || !by)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d", tracer, (int)by);
		found = access(path, F_OK) == 0;
	}
	if (d)
		closedir(d);
	return found;
}

static bool maps_it(pid_t tracer, const struct holder *h)
{
	holder_list list = { 0 };
	bool found = false;

	holders_in_maps(tracer, &list);
	for (size_t i = 0; i < list.n; i++) {
		const struct holder *t = &list.v[i];
		uint64_t inode = h->inode ? h->inode : h->data_inode;	/* a descriptor may be of either part */

		found |= same_arena(&t->label, &h->label) && (inode == t->inode || inode == t->data_inode);
	}
	vec_free(&list);
	return found;
}

/* Reading maps needs the same permission as the other files of /proc that are used here. */
static bool is_readable(pid_t pid)
{
	char path[64], text[16];

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	return file_read(path, text, sizeof(text)) >= 0;
}

enum tracer_state holder_tracer(const struct holder *h, pid_t *ret_pid)
{
	enum tracer_state state = tracer_state(&h->label.tracer, ret_pid);

	if (state == TRACER_UNKNOWN)
		return state;
	if (maps_it(*ret_pid, h) || holds_thread(*ret_pid, h->pid))
		return TRACER_ALIVE;	/* whatever its start time looks like from a time namespace */
	return state == TRACER_ALIVE && !is_readable(*ret_pid) ? TRACER_ALIVE : TRACER_DEAD;
}

int refuse_living(const struct holder *h)
{
	pid_t pid;

	switch (holder_tracer(h, &pid)) {
	case TRACER_ALIVE:
		return fail(-EBUSY, "process %d is traced by jab %d, which is alive%s; end that run, or give all probes to one run", h->pid, pid,
			    is_readable(pid) ? "" : " (that process can't be inspected from here, so this is not certain)");
	case TRACER_UNKNOWN:
		return fail(-EBUSY, "process %d was traced from another pid namespace (jab %d there): "
			    "recover it from there, or as root from the initial one", h->pid, h->label.tracer.pid);
	default:
		return 0;
	}
}
