/* SPDX-License-Identifier: MIT */
/*
 * Reads one stream. The file is read, not mapped: another process may truncate it meanwhile, and that must not kill
 * the reader. Inconsistent data ends a packet or a part and counts as damage.
 */
#include "trace/source.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW (256u << 10)
_Static_assert(WINDOW >= CTF_MAX_EVENT, "an event fits the window");

struct source *source_new(int dir, uint32_t stream, const struct meta *meta)
{
	struct source *s = xcalloc(1, sizeof(*s));

	s->dir = dir;
	s->stream = stream;
	s->meta = meta;
	s->fd = -1;
	return s;
}

void source_add_part(struct source *s, uint32_t part)
{
	*vec_add(&s->parts) = part;
}

void source_close(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	vec_free(&s->parts);
	free(s->buf);
	free(s);
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

__attribute__((format(printf, 2, 3))) static void damage(struct source *s, const char *fmt, ...)
{
	va_list ap;

	if (s->damaged++)
		return;
	va_start(ap, fmt);
	vsnprintf(s->damage, sizeof(s->damage), fmt, ap);
	va_end(ap);
}

/* The number of the part that is being read. */
static uint32_t this_part(const struct source *s)
{
	return s->next_part ? s->parts.v[s->next_part - 1] : 0;
}

static void drop_part(struct source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->at = s->end = s->packet = s->buf_len = 0;
}

/* Opens the next part; false: there is none. */
static bool next_part(struct source *s)
{
	char name[64];
	struct stat st;

	if (!s->sorted)
		qsort(s->parts.v, s->parts.n, sizeof(*s->parts.v), by_number);
	s->sorted = true;
	drop_part(s);
	while (s->next_part < s->parts.n) {
		snprintf(name, sizeof(name), "stream_%u_%u", s->stream, s->parts.v[s->next_part++]);
		s->fd = openat(s->dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (s->fd >= 0 && fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode)) {
			s->file_size = st.st_size;
			if (!s->buf)
				s->buf = xcalloc(1, WINDOW);
			return true;
		}
		damage(s, "%s can't be read", name);
		drop_part(s);
	}
	return false;
}

/* The bytes at this offset of the file, if there are `need` of them. Moves the window. */
static const uint8_t *window(struct source *s, uint64_t at, uint64_t need, uint64_t end)
{
	uint64_t want = MIN(WINDOW, end - at);

	if (at >= s->buf_at && at - s->buf_at <= s->buf_len && s->buf_len - (at - s->buf_at) >= need)
		return s->buf + (at - s->buf_at);
	s->buf_at = at;
	s->buf_len = 0;
	while (s->buf_len < want) {
		ssize_t n = pread(s->fd, s->buf + s->buf_len, want - s->buf_len, at + s->buf_len);

		if (n <= 0)
			break;
		s->buf_len += n;
	}
	return s->buf_len >= need ? s->buf : NULL;
}

static bool head_is_good(const struct source *s, const struct packet_head *h)
{
	uint64_t size = h->packet_bits / 8, content = h->content_bits / 8;

	return h->magic == CTF_MAGIC && memcmp(h->uuid, s->meta->uuid, 16) == 0 && h->stream_id == 0 &&
	       h->stream_instance_id == s->stream && h->packet_bits % 64 == 0 && h->content_bits % 8 == 0 &&
	       content >= sizeof(*h) && content <= size && size <= s->file_size - s->packet;
}

/* Enters the next packet of this part; false: the part has ended. */
static bool next_packet(struct source *s)
{
	struct packet_head h;
	const uint8_t *p;

	if (s->packet == s->file_size)
		return false;
	p = s->file_size - s->packet < sizeof(h) ? NULL : window(s, s->packet, sizeof(h), s->file_size);
	if (p)
		memcpy(&h, p, sizeof(h));
	if (!p || !head_is_good(s, &h)) {
		damage(s, "stream_%u_%u: no whole packet at byte %llu of %llu", s->stream, this_part(s),
		       (unsigned long long)s->packet, (unsigned long long)s->file_size);
		return false;
	}
	if (h.seq != s->seq)
		damage(s, "stream_%u_%u: packet %llu is missing", s->stream, this_part(s), (unsigned long long)s->seq);
	s->seq = h.seq + 1;
	if (h.lost > s->lost) {
		s->lost_unsaid += h.lost - s->lost;
		s->lost = h.lost;
	}
	s->cpu = h.cpu;
	s->at = s->packet + sizeof(h);
	s->end = s->packet + align_up(h.content_bits / 8, 8);
	if (h.last < s->from)
		s->at = s->end;
	s->packet += h.packet_bits / 8;
	return true;
}

/* Reads and checks the event at s->at. */
static bool take_event(struct source *s)
{
	uint64_t left = s->end - s->at;
	struct ctf_event_head h;
	const uint8_t *p;
	uint32_t tail;

	p = left < sizeof(h) ? NULL : window(s, s->at, sizeof(h), s->end);
	if (!p)
		return false;
	memcpy(&h, p, sizeof(h));
	s->class = meta_class(s->meta, h.id);
	if (!s->class || h.len < sizeof(h) || h.len > left || h.len > CTF_MAX_EVENT || h.time < s->time)
		return false;
	p = window(s, s->at, h.len, s->end);
	if (!p || !class_fits(s->class, p, h.len, &tail))
		return false;
	s->event = p;
	s->time = h.time;
	s->at += h.len;
	return true;
}

void source_seek(struct source *s, uint64_t ticks)
{
	s->from = ticks;
}

bool source_next(struct source *s)
{
	for (;;) {
		if (s->at < s->end) {
			if (take_event(s))
				return true;
			damage(s, "stream_%u_%u: no whole event at byte %llu", s->stream, this_part(s),
			       (unsigned long long)s->at);
			s->at = s->end;
		} else if (s->fd < 0 || !next_packet(s)) {
			if (!next_part(s))
				return false;
		}
	}
}
