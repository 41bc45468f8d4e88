/* SPDX-License-Identifier: MIT */
#include "session/ends.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/err.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* As the kernel has it from 6.15 on; older headers don't. */
struct exit_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
	uint32_t more[8];
};
#define EXIT_INFO (1ull << 3)
#define GET_INFO _IOWR(0xff, 11, struct exit_info)

struct mapped_file { uint64_t start, end, bias; char *path; };

struct watched_end {
	pid_t pid;
	char name[16];
	int fd;
	bool is_child;
	VEC(struct mapped_file) files;
	bool has_place;		/* the kernel's log has told where: in `end` */
	struct jab_end end;
};

struct fault { pid_t tid; uint64_t ip, address; bool has_address; };

struct ends {
	int log;		/* the kernel's, from the beginning of the run on; -1: it can't be read */
	VEC(struct fault) faults;
	VEC(struct watched_end) v;
};

static ssize_t read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);

	if (fd >= 0)
		close(fd);
	text[MAX(n, 0)] = '\0';
	return n;
}

static void read_name(pid_t pid, char name[16])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	if (read_text(path, name, 16) <= 0)
		name[0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

void ends_begin(struct jab *j)
{
	struct ends *e = j->ends = xcalloc(1, sizeof(*e));

	e->log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (e->log >= 0)
		lseek(e->log, 0, SEEK_END);
	for (size_t i = 0; i < j->targets.n; i++) {
		const struct target *t = &j->targets.v[i];
		struct watched_end *w;

		if (t->main != i || !t->proc)
			continue;
		w = vec_add(&e->v);
		w->pid = t->proc->pid;
		w->is_child = t->proc->started_by_us;
		w->fd = syscall(SYS_pidfd_open, w->pid, 0);
		read_name(w->pid, w->name);
	}
	for (size_t i = 0; i < j->targets.n; i++)
		ends_note(j, &j->targets.v[i]);
}

void ends_free(struct jab *j)
{
	struct ends *e = j->ends;

	if (!e)
		return;
	for (size_t i = 0; i < e->v.n; i++) {
		for (size_t k = 0; k < e->v.v[i].files.n; k++)
			free(e->v.v[i].files.v[k].path);
		vec_free(&e->v.v[i].files);
		if (e->v.v[i].fd >= 0)
			close(e->v.v[i].fd);
	}
	vec_free(&e->v);
	vec_free(&e->faults);
	if (e->log >= 0)
		close(e->log);
	free(e);
	j->ends = NULL;
}

/* Field 52 of stat, of a process that its parent has not asked for yet. */
static bool zombie_status(pid_t pid, int *ret_status)
{
	char path[64], text[1024], *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_text(path, text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')) || p[1] != ' ' || p[2] != 'Z')
		return false;
	p = strrchr(text, ' ');
	*ret_status = strtol(p + 1, NULL, 10);
	return true;
}

static bool has_ended(const struct watched_end *w)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	return w->fd >= 0 && poll(&p, 1, 0) > 0;
}

static bool exit_status(struct jab *j, const struct watched_end *w, int *ret_status)
{
	struct exit_info info = { .mask = EXIT_INFO };

	if (w->is_child && session_child_ended(j, ret_status) == 1)
		return true;
	if (ioctl(w->fd, GET_INFO, &info) == 0 && info.mask & EXIT_INFO) {
		*ret_status = info.exit_code;
		return true;
	}
	return zombie_status(w->pid, ret_status);
}

static const struct mapped_file *file_of(const struct watched_end *w, uint64_t ip)
{
	for (size_t i = 0; i < w->files.n; i++)
		if (ip >= w->files.v[i].start && ip < w->files.v[i].end)
			return &w->files.v[i];
	return NULL;
}

/* "prog[77]: segfault at 0 ip 00005... sp ...", "traps: prog[77] general protection fault ip:5... sp:..." */
static bool parse_record(const char *text, struct fault *e)
{
	const char *ip = strstr(text, " ip "), *at = strstr(text, "segfault at "), *open;

	if (!ip)
		ip = strstr(text, " ip:");
	open = ip ? memchr(text, '[', ip - text) : NULL;
	if (!open)
		return false;
	e->tid = strtol(open + 1, NULL, 10);
	e->ip = strtoull(ip + 4, NULL, 16);
	e->has_address = at != NULL;
	e->address = at ? strtoull(at + strlen("segfault at "), NULL, 16) : 0;
	return true;
}

/* A fault in a displaced instruction: the address is in a pad, and the site is meant. */
static uint64_t without_pad(const struct target *t, uint64_t ip)
{
	for (size_t i = 0; i < t->patch.moves_out.n; i++)
		if (t->patch.moves_out.v[i].from.v == ip)
			return t->patch.moves_out.v[i].to.v;
	return ip;
}

#define MOST_RECORDS 1000	/* of faults; the kernel limits their rate as well */
#define MOST_READS 100000	/* at a time: somebody may write to the log as fast as it is read */

/* Keeps what the log has of faults since the last call. A read fails for records that were overwritten, and for one that is too long. */
static void read_log(struct ends *all)
{
	char text[2048], *message;

	for (int i = 0; all->log >= 0 && i < MOST_READS; i++) {
		ssize_t n = read(all->log, text, sizeof(text) - 1);
		struct fault one = { 0 };

		if (n == 0 || (n < 0 && errno != EPIPE && errno != EINVAL))
			break;
		text[MAX(n, 0)] = '\0';
		message = n > 0 ? strchr(text, ';') : NULL;
		if (message && all->faults.n < MOST_RECORDS && parse_record(message + 1, &one))
			*vec_add(&all->faults) = one;
	}
}

/* Programs are mapped at random addresses, so the instruction tells the process where the number is that of another thread. */
static bool find_fault(const struct ends *all, const struct watched_end *w, const struct target *t, struct jab_end *e)
{
	for (size_t i = all->faults.n; i-- > 0;) {
		const struct fault *f = &all->faults.v[i];
		uint64_t ip = without_pad(t, f->ip);

		if (f->tid != w->pid && !file_of(w, ip))
			continue;
		e->ip = ip;
		e->has_address = f->has_address;
		e->address = f->address;
		return true;
	}
	return false;
}

void ends_note(struct jab *j, const struct target *t)
{
	struct watched_end *w = NULL;

	for (size_t k = 0; j->ends && t->proc && k < j->ends->v.n; k++)
		if (j->ends->v.v[k].pid == t->proc->pid)
			w = &j->ends->v.v[k];
	for (size_t k = 0; w && k < t->loaded.n; k++) {
		const struct loaded *l = &t->loaded.v[k];
		bool known = !l->start || !l->path;

		for (size_t n = 0; n < w->files.n; n++)
			known |= w->files.v[n].start == l->start;
		if (!known)
			*vec_add(&w->files) = (struct mapped_file){ l->start, l->end, l->bias, xstrdup(l->path) };
	}
	if (!w || !has_ended(w))
		return;
	read_log(j->ends);
	if (!w->has_place || !file_of(w, w->end.ip))	/* the pad may be that of a library's part */
		w->has_place |= find_fault(j->ends, w, t, &w->end);
}

static char *place_name(const struct watched_end *w, uint64_t ip)
{
	const struct mapped_file *f = file_of(w, ip);
	const char *base = f ? strrchr(f->path, '/') : NULL;
	const struct func *func = NULL;
	struct module *m = NULL;
	char *text;

	if (!f)
		return xasprintf("%#" PRIx64, ip);
	base = base ? base + 1 : f->path;
	if (module_open("", f->path, &m) == 0)
		func = module_func_at(m, ip - f->bias);
	text = func ? xasprintf("%s:%s+0x%" PRIx64, base, func_name(m, func), ip - f->bias - func->addr) :
	       xasprintf("%s+%#" PRIx64, base, ip - f->bias);
	module_close(m);
	return text;
}

int ends_each(struct jab *j, int (*each)(void *arg, const struct jab_end *e), void *arg)
{
	int r = 0;

	for (size_t i = 0; !r && j->ends && i < j->ends->v.n; i++) {
		const struct watched_end *w = &j->ends->v.v[i];
		struct jab_end e = w->end;
		char *place = NULL;

		if (!has_ended(w))
			continue;
		e.pid = w->pid;
		e.name = w->name;
		e.is_known = exit_status(j, w, &e.status);
		if (w->has_place)
			e.place = place = place_name(w, e.ip);
		r = each(arg, &e);
		free(place);
	}
	return r;
}
