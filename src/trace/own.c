/* SPDX-License-Identifier: MIT */
/*
 * jab's own events, which no probe makes: which files were mapped, the names of threads, which probes were thinned.
 * They have classes and a stream of their own, so that a reader can read them first.
 */
#include "base/err.h"
#include "trace/writer.h"

#define TEXT_MAX (CTF_MAX_EVENT / 4)

static const struct ctf_field module_fields[] = {
	{ .name = "path", .kind = CTF_STRING },
	{ .name = "build_id", .kind = CTF_STRING },
	{ .name = "address", .kind = CTF_POINTER },
	{ .name = "size", .kind = CTF_UNSIGNED, .bits = 64, .base = 16 },
};
static const struct ctf_field thread_fields[] = { { .name = "comm", .kind = CTF_STRING } };

static const struct ctf_field thinned_fields[] = {
	{ .name = "probe", .kind = CTF_STRING },
	{ .name = "millionths", .kind = CTF_UNSIGNED, .bits = 32, .base = 10 },
};

static const struct own_class {
	const char *name;
	const struct ctf_field *fields;
	size_t n;
} classes[CTF_OWN_CLASSES] = {
	{ "jab:module", module_fields, ARRAY_SIZE(module_fields) },
	{ "jab:thread", thread_fields, ARRAY_SIZE(thread_fields) },
	{ "jab:thinned", thinned_fields, ARRAY_SIZE(thinned_fields) },
};

/* Adds the class when it is first needed. */
static int need_class(struct ctf *ctf, uint32_t id)
{
	const struct own_class *own = &classes[id - CTF_MODULE_ID];
	struct ctf_class *c = NULL;
	int r;

	if (ctf->own[id - CTF_MODULE_ID])
		return 0;
	r = class_new(id, own->name, own->fields, own->n, &c);
	if (r == 0)
		r = meta_add_class(ctf, c);
	if (r < 0)
		class_free(c);
	else
		ctf->own[id - CTF_MODULE_ID] = c;
	return r;
}

/* Writes a string with its NUL, unless it is cut. */
static uint8_t *put_string(uint8_t *p, const char *s)
{
	uint32_t len = strnlen(s, TEXT_MAX);

	len += s[len] == 0;
	memcpy(p, &len, 4);
	memcpy(p + 4, s, len);
	return p + align_up(4 + len, 8);
}

static size_t string_room(const char *s)
{
	return 16 + strnlen(s, TEXT_MAX);
}

static size_t end_event(uint8_t *buf, const uint8_t *end, struct ctf_event_head h)
{
	h.len = end - buf;
	memcpy(buf, &h, sizeof(h));
	return h.len;
}

static size_t put_module(uint8_t *buf, const struct ctf_module *m, uint64_t time)
{
	uint64_t numbers[2] = { m->address, m->size };
	uint8_t *p = put_string(put_string(buf + sizeof(struct ctf_event_head), m->path), m->build_id);

	memcpy(p, numbers, sizeof(numbers));
	return end_event(buf, p + sizeof(numbers), (struct ctf_event_head){ .id = CTF_MODULE_ID, .time = time,
		.pid = m->pid, .tid = m->pid });
}

static size_t put_thread(uint8_t *buf, const struct ctf_thread *t, uint64_t time)
{
	uint8_t *p = put_string(buf + sizeof(struct ctf_event_head), t->comm);

	return end_event(buf, p, (struct ctf_event_head){ .id = CTF_THREAD_ID, .time = time, .pid = t->pid,
		.tid = t->tid });
}

/* Two calls may come with the same time, but two packets must not have the same. */
static uint64_t own_time(struct ctf *ctf, uint64_t time)
{
	if (!ctf->own_stream)
		ctf->own_stream = stream_new(CTF_OWN_STREAM);
	return MAX(time, ctf->own_stream->last + ctf->step);
}

static int write_own(struct ctf *ctf, const uint8_t *buf, size_t len)
{
	struct ctf_span span;
	int r = ctf_check(ctf, buf, len, &span);

	return r < 0 ? r : stream_write(ctf, ctf->own_stream, &span, 0);
}

int ctf_modules(struct ctf *ctf, const struct ctf_module *modules, size_t n, uint64_t time)
{
	size_t len = 0, room = 0;
	uint8_t *buf;
	int r = need_class(ctf, CTF_MODULE_ID);

	if (r < 0 || !n)
		return r;
	for (size_t i = 0; i < n; i++)
		room += 40 + string_room(modules[i].path) + string_room(modules[i].build_id);
	buf = xcalloc(1, room);
	time = own_time(ctf, time);
	for (size_t i = 0; i < n; i++)
		len += put_module(buf + len, &modules[i], time);
	r = write_own(ctf, buf, len);
	free(buf);
	return r;
}

int ctf_threads(struct ctf *ctf, const struct ctf_thread *threads, size_t n, uint64_t time)
{
	size_t len = 0, room = 0;
	uint8_t *buf;
	int r = need_class(ctf, CTF_THREAD_ID);

	if (r < 0 || !n)
		return r;
	for (size_t i = 0; i < n; i++)
		room += 24 + string_room(threads[i].comm);
	buf = xcalloc(1, room);
	time = own_time(ctf, time);
	for (size_t i = 0; i < n; i++)
		len += put_thread(buf + len, &threads[i], time);
	r = write_own(ctf, buf, len);
	free(buf);
	return r;
}

int ctf_thinned(struct ctf *ctf, const char *probe, uint32_t share, uint64_t time)
{
	uint8_t *buf, *p;
	uint64_t word = share;
	int r = need_class(ctf, CTF_THINNED_ID);

	if (r < 0)
		return r;
	buf = xcalloc(1, sizeof(struct ctf_event_head) + string_room(probe) + 8);
	p = put_string(buf + sizeof(struct ctf_event_head), probe);
	memcpy(p, &word, 8);
	r = write_own(ctf, buf, end_event(buf, p + 8, (struct ctf_event_head){ .id = CTF_THINNED_ID, .time = own_time(ctf, time) }));
	free(buf);
	return r;
}
