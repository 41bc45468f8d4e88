/* SPDX-License-Identifier: MIT */
/* The interface of the CTF writer: the directory or pipe, its classes and streams. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "trace/writer.h"

#define MIN_FREE (64u << 10)

/* Other users must not be able to read what was recorded. */
static int make_dir(const char *path)
{
	if (mkdir(path, 0700) == 0)
		return 0;
	switch (errno) {
	case EEXIST:
		return fail(-EEXIST, "%s exists already: a trace goes into a directory of its own", path);
	case ENOENT:
		return fail(-ENOENT, "can't make %s: the directory above it does not exist", path);
	default:
		return fail(-errno, "can't make %s: %m", path);
	}
}

static int check_space(int dir, const char *path)
{
	struct statvfs v;

	if (fstatvfs(dir, &v) < 0)
		return 0;
	if ((uint64_t)v.f_bavail * v.f_frsize < MIN_FREE)
		return fail(-ENOSPC, "no space left for %s", path);
	return 0;
}

static int check_clock(const struct tsc_clock *c)
{
	return c->hz ? 0 : fail(-EINVAL, "a trace needs a clock");
}

static uint64_t part_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_FSIZE, &l) < 0 || l.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return l.rlim_cur & ~(uint64_t)(CTF_PAGE - 1);
}

static void make_uuid(uint8_t *u)
{
	if (getrandom(u, 16, 0) != 16)
		memset(u, 0x5a, 16);
	u[6] = (u[6] & 0x0f) | 0x40;
	u[8] = (u[8] & 0x3f) | 0x80;
}

static void ctf_free(struct ctf *ctf)
{
	for (size_t i = 0; i < ctf->classes.n; i++)
		class_free(ctf->classes.v[i]);
	for (size_t i = 0; i < CTF_OWN_CLASSES; i++)
		class_free(ctf->own[i]);
	vec_free(&ctf->classes);
	vec_free(&ctf->streams);
	if (ctf->meta >= 0)
		close(ctf->meta);
	if (ctf->dir >= 0)
		close(ctf->dir);
	free((char *)ctf->options.command);
	free(ctf->meta_text);
	free(ctf->waiting);
	free(ctf->live);
	free(ctf->path);
	free(ctf);
}

static int open_new(struct ctf *ctf)
{
	int r;

	ctf->dir = open(ctf->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ctf->dir < 0)
		return fail(-errno, "can't open %s: %m", ctf->path);
	r = check_space(ctf->dir, ctf->path);
	if (r < 0)
		return r;
	if (faccessat(ctf->dir, ".", W_OK, AT_EACCESS) < 0)
		return fail(-errno, "can't write to %s: %m", ctf->path);
	return meta_create(ctf);
}

static struct ctf *ctf_new(const char *path, const struct ctf_options *options)
{
	struct ctf *ctf = xcalloc(1, sizeof(*ctf));

	ctf->path = xstrdup(path);
	ctf->dir = ctf->meta = ctf->pipe = -1;
	ctf->options = *options;
	ctf->options.command = options->command ? xstrdup(options->command) : NULL;
	ctf->step = options->clock.hz / 250000000 + 1;
	ctf->part_limit = part_limit();
	make_uuid(ctf->uuid);
	return ctf;
}

void ctf_create_memory(const struct ctf_options *options, struct ctf **ret_ctf)
{
	*ret_ctf = ctf_new("nowhere", options);
}

int ctf_create_pipe(int fd, const char *name, const struct ctf_options *options, struct ctf **ret_ctf)
{
	struct ctf *ctf;
	int r = check_clock(&options->clock), flags = fcntl(fd, F_GETFL);

	if (r < 0)
		return r;
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return fail(-EBADF, "%s is not open for writing", name);
	ctf = ctf_new(name, options);
	ctf->pipe = fd;
	tar_begin(ctf);
	r = meta_create(ctf);
	if (r == 0)
		r = tar_metadata(ctf);
	if (r < 0) {
		ctf_free(ctf);
		return r;
	}
	*ret_ctf = ctf;
	return 0;
}

int ctf_create(const char *path, const struct ctf_options *options, struct ctf **ret_ctf)
{
	struct ctf *ctf;
	int r = check_clock(&options->clock);

	if (r < 0)
		return r;
	r = make_dir(path);
	if (r < 0)
		return r;
	ctf = ctf_new(path, options);
	r = open_new(ctf);
	if (r < 0) {
		ctf_free(ctf);
		rmdir(path);
		return r;
	}
	*ret_ctf = ctf;
	return 0;
}

static int check_field(const struct ctf_field *f)
{
	if (!tsdl_type(f) || (f->kind == CTF_BYTES && !f->size) || f->size > CTF_MAX_EVENT ||
	    f->count > CTF_MAX_EVENT || (f->count && f->kind > CTF_FLOAT))
		return fail(-EINVAL, "field %s: no such type in a trace", f->name);
	return 0;
}

/* The field as a reader finds it in the metadata, independent of how it was specified. */
static struct ctf_field plain_field(const struct ctf_field *f)
{
	struct ctf_field plain = *f;

	tsdl_type_parse(tsdl_type(f), &plain);
	plain.is_text = f->is_text;
	plain.kind = f->is_text ? f->kind : plain.kind;
	plain.size = f->kind == CTF_BYTES ? f->size : 0;
	plain.count = f->count;
	return plain;
}

int class_new(uint32_t id, const char *name, const struct ctf_field *fields, size_t n,
	      struct ctf_class **ret_class)
{
	struct ctf_class *c;

	for (size_t i = 0; i < n; i++)
		if (check_field(&fields[i]) < 0)
			return -EINVAL;
	c = xcalloc(1, sizeof(*c));
	c->id = id;
	c->name = xstrdup(name);
	c->fields = xcalloc(n, sizeof(*fields));
	for (c->n = 0; c->n < n; c->n++) {
		c->fields[c->n] = plain_field(&fields[c->n]);
		c->fields[c->n].name = tsdl_field_name(fields, c->n);
		field_take_values(&c->fields[c->n], fields[c->n].values, fields[c->n].nvalues);
	}
	class_measure(c);
	*ret_class = c;
	return 0;
}

int ctf_class(struct ctf *ctf, uint32_t id, const char *name, const struct ctf_field *fields, size_t n)
{
	struct ctf_class *c;
	int r;

	if (id >= CTF_MAX_CLASSES || n > CTF_MAX_FIELDS)
		return fail(-E2BIG, "%s: more than a trace can hold", name);
	if (id < ctf->classes.n && ctf->classes.v[id])
		return fail(-EEXIST, "%s: event id %u is taken", name, id);
	r = class_new(id, name, fields, n, &c);
	if (r < 0)
		return r;
	r = meta_add_class(ctf, c);
	if (r < 0) {
		class_free(c);
		return r;
	}
	while (ctf->classes.n <= id)
		(void)vec_add(&ctf->classes);
	ctf->classes.v[id] = c;
	return 0;
}

const struct ctf_class *ctf_find_class(const struct ctf *ctf, uint32_t id)
{
	if (id < ctf->classes.n)
		return ctf->classes.v[id];
	return id - CTF_MODULE_ID < CTF_OWN_CLASSES ? ctf->own[id - CTF_MODULE_ID] : NULL;
}

/* The memory may change meanwhile: each word is read once. */
int ctf_check_counted(const struct ctf *ctf, const void *data, size_t len, uint64_t *counts,
		      struct ctf_span *ret_span)
{
	struct ctf_span s = { .data = data };
	uint32_t tail = 0;

	while (s.len < len) {
		const uint8_t *at = (const uint8_t *)data + s.len;
		const struct ctf_class *c;
		struct ctf_event_head h;

		if (len - s.len < sizeof(h))
			break;
		memcpy(&h, at, sizeof(h));
		c = ctf_find_class(ctf, h.id);
		if (!c || h.len > len - s.len || h.len > CTF_MAX_EVENT || (s.events && h.time < s.last) ||
		    !class_fits(c, at, h.len, &tail))
			break;
		if (!s.events++)
			s.first = h.time;
		if (counts && h.id < ctf->classes.n)
			counts[h.id]++;
		s.last = h.time;
		s.len += h.len;
		s.unpadded = s.len - tail;
	}
	*ret_span = s;
	return s.len == len ? 0 : fail(-EBADMSG, "%zu of %zu bytes are no events", len - s.len, len);
}

int ctf_check(const struct ctf *ctf, const void *data, size_t len, struct ctf_span *ret_span)
{
	return ctf_check_counted(ctf, data, len, NULL, ret_span);
}

/* A stream takes a page at its start, and one at its end that reports the last losses. */
static uint64_t size_of(const struct ctf *ctf)
{
	return ctf->meta_size + ctf->stats.bytes + 2ull * CTF_PAGE * (ctf->begun + (ctf->own_stream != NULL));
}

uint64_t ctf_room(const struct ctf *ctf, uint32_t stream)
{
	uint64_t most = ctf->options.max_size, used = size_of(ctf) + sizeof(struct packet_head) + CTF_PAGE;

	if (!most)
		return UINT64_MAX;
	if (stream >= ctf->streams.n || !ctf->streams.v[stream])
		used += 2ull * CTF_PAGE;
	return most > used && !ctf->full ? most - used : 0;
}

void ctf_end(struct ctf *ctf)
{
	ctf->full = true;
}

bool ctf_full(const struct ctf *ctf)
{
	return !ctf_room(ctf, 0);
}

int ctf_packet(struct ctf *ctf, uint32_t stream, uint32_t cpu, const struct ctf_span *span, uint64_t lost)
{
	if (stream >= CTF_MAX_STREAMS)
		return fail(-E2BIG, "stream %u: more than a trace can hold", stream);
	while (ctf->streams.n <= stream)
		(void)vec_add(&ctf->streams);
	if (!ctf->streams.v[stream]) {
		ctf->streams.v[stream] = stream_new(stream);
		ctf->begun++;
	}
	ctf->streams.v[stream]->cpu = cpu;
	return stream_write(ctf, ctf->streams.v[stream], span, lost);
}

bool ctf_ready(struct ctf *ctf)
{
	return ctf->pipe < 0 || tar_ready(ctf);
}

struct ctf_stats ctf_stats(const struct ctf *ctf)
{
	return ctf->stats;
}

int ctf_close(struct ctf *ctf)
{
	int r = 0, r2;

	if (!ctf)
		return 0;
	for (size_t i = 0; i < ctf->streams.n; i++) {
		r2 = stream_close(ctf, ctf->streams.v[i]);
		r = r < 0 ? r : r2;
	}
	r2 = stream_close(ctf, ctf->own_stream);
	r = r < 0 ? r : r2;
	r2 = ctf->pipe >= 0 ? tar_end(ctf) : 0;
	r = r < 0 ? r : r2;
	if (r < 0)
		r = fail(r, "can't finish %s: %s", ctf->path, strerror(-r));
	ctf_free(ctf);
	return r;
}
