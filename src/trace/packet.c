/* SPDX-License-Identifier: MIT */
/*
 * Writes packets, in an order that leaves a valid trace at every moment.
 *
 * A write of more than a page can be cut short by SIGKILL or a full disk, and readers refuse a file that ends
 * inside a packet. So a stream's file always ends in an empty packet that extends to its end, "the rest", most of
 * it a hole:
 *
 *	| packet | packet | rest: head, empty ...............................|
 *	                  ^ at                                               ^ size
 *
 * A packet is written into the rest in two steps. First its content, its padding to a page and the head of the next
 * rest, with one pwritev: all of that is inside the old rest and has no meaning yet. Then its own head in place of
 * the old rest's: 88 bytes at the start of a page, which the kernel copies in one piece. That is the commit. A
 * failure before it has changed nothing.
 *
 * A file that is full is truncated to its content, and the next part begins: created under a hidden name, which
 * readers skip, and renamed when it is valid. Parts double in size, so there are few. (A pipe needs none of this:
 * see tar.c.)
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "trace/writer.h"

#define FIRST_PART (4ull << 20)
#define LARGEST_PART (1ull << 30)

struct stream *stream_new(uint32_t id)
{
	struct stream *s = xcalloc(1, sizeof(*s));

	s->id = id;
	s->fd = -1;
	return s;
}

/*
 * Fills the head of packet number `seq`; without events the packet is empty. Readers sort the packets of a stream
 * by their first time, so no two may be equal in nanoseconds: an empty one is a step after the last event.
 */
void packet_fill_head(const struct ctf *ctf, const struct stream *s, struct packet_head *h, uint64_t seq,
		      const struct ctf_span *span, uint64_t size, uint64_t lost)
{
	*h = (struct packet_head){
		.magic = CTF_MAGIC,
		.stream_instance_id = s->id,
		.first = span->events ? span->first : s->last + ctf->step,
		.last = span->events ? span->last : s->last + ctf->step,
		.content_bits = 8 * (sizeof(*h) + span->unpadded),
		.packet_bits = 8 * size,
		.lost = lost,
		.seq = seq,
		.cpu = s->cpu,
	};
	memcpy(h->uuid, ctf->uuid, sizeof(h->uuid));
}

static int write_all(int fd, struct iovec *v, int n, uint64_t at)
{
	while (n) {
		ssize_t done = pwritev(fd, v, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 || (done == 0 && v->iov_len))
			return done < 0 ? -errno : -ENOSPC;
		at += done;
		while (n && (size_t)done >= v->iov_len) {
			done -= v->iov_len;
			v++;
			n--;
		}
		if (n) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= done;
		}
	}
	return 0;
}

/* The buffer is within one page, too, so that the kernel does not have to fault in a second one in the middle. */
static int write_head(int fd, const struct packet_head *head, uint64_t at)
{
	struct packet_head h __attribute__((aligned(128))) = *head;
	ssize_t n;

	do
		n = pwrite(fd, &h, sizeof(h), at);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(h) ? 0 : n < 0 ? -errno : -ENOSPC;
}

/*
 * Writes the heads of a new part. A stream's very first packet is an empty one with a lost count of 0: without it
 * readers have nothing to compare the second one's count with.
 */
static int fill_part(const struct ctf *ctf, struct stream *s, int fd, uint64_t size, uint64_t *ret_at)
{
	static const struct ctf_span nothing;
	struct packet_head h;
	bool first = s->parts == 0;
	int r;

	if (ftruncate(fd, size) < 0)
		return -errno;
	*ret_at = first ? CTF_PAGE : 0;
	if (first) {
		packet_fill_head(ctf, s, &h, 0, &nothing, CTF_PAGE, 0);
		r = write_head(fd, &h, 0);
		if (r < 0)
			return r;
	}
	packet_fill_head(ctf, s, &h, first ? 1 : s->seq, &nothing, size - *ret_at, s->lost);
	return write_head(fd, &h, *ret_at);
}

static int name_part(const struct ctf *ctf, struct stream *s, const char *hidden)
{
	char name[64];

	snprintf(name, sizeof(name), "stream_%u_%u", s->id, s->parts);
	return renameat(ctf->dir, hidden, ctf->dir, name) < 0 ? -errno : 0;
}

static int begin_part(struct ctf *ctf, struct stream *s, uint64_t needed)
{
	uint64_t size = MIN(FIRST_PART << MIN(s->parts, 8), LARGEST_PART), at = 0;
	char hidden[64];
	int fd, r;

	size = MIN(MAX(size, needed), ctf->part_limit);
	if (size < needed)
		return -EFBIG;
	snprintf(hidden, sizeof(hidden), ".stream_%u", s->id);
	fd = openat(ctf->dir, hidden, CTF_NEW_FILE, 0600);
	if (fd < 0)
		return -errno;
	r = fill_part(ctf, s, fd, size, &at);
	if (r == 0)
		r = name_part(ctf, s, hidden);
	if (r < 0) {
		unlinkat(ctf->dir, hidden, 0);
		close(fd);
		return r;
	}
	if (s->parts++ == 0)
		s->seq = 1;
	s->fd = fd;
	s->at = at;
	s->size = size;
	return 0;
}

/* Truncates the rest and closes the file. */
static int end_part(struct stream *s)
{
	int r = 0;

	if (s->fd < 0)
		return 0;
	if (ftruncate(s->fd, s->at) < 0)
		r = -errno;
	if (close(s->fd) < 0 && r == 0)
		r = -errno;
	s->fd = -1;
	return r;
}

/* Updates the stream after a packet was written. */
static void packet_done(struct ctf *ctf, struct stream *s, const struct ctf_span *span, const struct packet_head *head)
{
	s->seq++;
	s->first = head->first;
	s->last = head->last;
	s->lost = head->lost;
	ctf->stats.packets++;
	ctf->stats.events += span->events;
	ctf->stats.bytes += head->packet_bits / 8;
}

static int write_packet(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost)
{
	static uint8_t zeros[CTF_PAGE];
	static const struct ctf_span nothing;
	struct packet_head head, rest;
	uint64_t used = sizeof(head) + span->len, size = align_up(used, CTF_PAGE);
	struct stream after = *s;
	struct iovec v[] = {
		{ (void *)span->data, span->len }, { zeros, size - used }, { &rest, sizeof(rest) },
	};
	int r;

	packet_fill_head(ctf, s, &head, s->seq, span, size, lost);
	after.last = head.last;
	packet_fill_head(ctf, &after, &rest, s->seq + 1, &nothing, s->size - s->at - size, lost);
	r = write_all(s->fd, v, ARRAY_SIZE(v), s->at + sizeof(head));
	if (r == 0)
		r = write_head(s->fd, &head, s->at);
	if (r < 0)
		return r;
	s->at += size;
	packet_done(ctf, s, span, &head);
	return 0;
}

/* Makes room for the packet and the next rest. */
static int make_room(struct ctf *ctf, struct stream *s, const struct ctf_span *span)
{
	uint64_t needed = align_up(sizeof(struct packet_head) + span->len, CTF_PAGE) + CTF_PAGE;
	int r;

	if (s->fd >= 0 && s->size - s->at >= needed)
		return 0;
	r = end_part(s);
	if (r < 0)
		return r;
	return begin_part(ctf, s, needed + CTF_PAGE);
}

static int put_packet(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost)
{
	struct packet_head head;
	int r;

	if (s->parts == 0)	/* the empty first packet is one step after this */
		s->last = span->events ? span->first - 2 * ctf->step : ctf->options.start;
	if (ctf->dir >= 0) {
		r = make_room(ctf, s, span);
		return r < 0 ? r : write_packet(ctf, s, span, lost);
	}
	if (ctf->pipe >= 0) {
		r = tar_packet(ctf, s, span, lost, &head);
		if (r < 0)
			return r;
	} else {
		packet_fill_head(ctf, s, &head, s->seq, span, sizeof(head) + span->len, lost);
	}
	s->parts++;
	packet_done(ctf, s, span, &head);
	return 0;
}

int stream_write(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost)
{
	int r;

	s->told = MAX(s->told, lost);
	if (!span->events && ctf_full(ctf))	/* stream_close() reports the loss */
		return 0;
	if (span->events && s->parts && (span->first < s->last || span->first < s->first + ctf->step))
		r = fail(-EBADMSG, "events of stream %u are older than those before", s->id);
	else if ((r = put_packet(ctf, s, span, s->told + s->dropped)) < 0)
		r = fail(r, "can't write to %s: %s", ctf->path, strerror(-r));
	if (r < 0) {
		s->dropped += span->events;
		ctf->stats.failed_packets++;
		ctf->stats.failed_events += span->events;
	}
	return r;
}

/*
 * Losses that no packet reports yet, because it could not be written, get an empty packet. On a disk that is still
 * full that fails, too, and then only jab's own message reports them.
 */
int stream_close(struct ctf *ctf, struct stream *s)
{
	static const struct ctf_span nothing;
	int r = 0, r2;

	if (!s)
		return 0;
	if (s->told + s->dropped > s->lost)
		r = put_packet(ctf, s, &nothing, s->told + s->dropped);
	r2 = end_part(s);
	free(s);
	return r < 0 ? r : r2;
}
