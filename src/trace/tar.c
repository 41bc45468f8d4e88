/* SPDX-License-Identifier: MIT */
/*
 * A trace through a pipe, as a tar archive that is not complete before the end. Nothing that was written can be
 * changed, so each packet is a file (a part of its stream), and the metadata is written again whenever a packet
 * needs more of it: on unpacking, the later entry replaces the earlier one.
 *
 *	metadata | stream_0_0 | stream_1_0 | stream_0_1 | metadata | stream_0_2 | ... | two empty blocks
 *
 * Packets are whole blocks of the archive, and the archive is valid after each of them. Nothing here waits for a
 * slow reader before the end: tar_ready() should be checked before the next packet, or it is kept in memory.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "trace/writer.h"

#define BLOCK 512u
#define PATIENCE_MS 2
#define PIPE_ROOM (1 << 20)	/* the most that an unprivileged process may have by default */

/* The header of an entry in the POSIX (ustar) format. Numbers are octal text. */
struct tar_head {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
	     version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct tar_head) == BLOCK, "one block");

static const uint8_t zeros[2 * BLOCK];

static void fill_entry(struct tar_head *h, const char *name, uint64_t size)
{
	const uint8_t *p = (const uint8_t *)h;
	unsigned int sum = 0;

	memset(h, 0, sizeof(*h));
	snprintf(h->name, sizeof(h->name), "%s", name);
	snprintf(h->mode, sizeof(h->mode), "%07o", 0600);
	snprintf(h->uid, sizeof(h->uid), "%07o", 0);
	snprintf(h->gid, sizeof(h->gid), "%07o", 0);
	snprintf(h->size, sizeof(h->size), "%011llo", (unsigned long long)size);
	snprintf(h->mtime, sizeof(h->mtime), "%011llo", (unsigned long long)time(NULL));
	h->type = '0';
	memcpy(h->magic, "ustar", 6);
	memcpy(h->version, "00", 2);
	memset(h->sum, ' ', sizeof(h->sum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += p[i];
	snprintf(h->sum, 7, "%06o", sum);
}

/*
 * Writes without waiting, where possible: the reader of a pipe may be slow, or stopped, and targets must be served
 * meanwhile. Old kernels don't have RWF_NOWAIT for pipes; there poll() reports room for at least a page.
 */
static ssize_t send_some(struct ctf *ctf, struct iovec *v, int n)
{
	struct pollfd p = { .fd = ctf->pipe, .events = POLLOUT };
	ssize_t done;

	if (!ctf->may_stall)
		return writev(ctf->pipe, v, n);
	done = pwritev2(ctf->pipe, v, n, -1, RWF_NOWAIT);
	if (done >= 0 || errno != EOPNOTSUPP)
		return done;
	if (poll(&p, 1, 0) == 1)
		return write(ctf->pipe, v->iov_base, MIN(v->iov_len, 4096));
	errno = EAGAIN;
	return -1;
}

/* Keeps what could not be sent at once, to be sent before anything else. */
static void keep(struct ctf *ctf, const struct iovec *v, int n)
{
	for (; n; v++, n--) {
		ctf->waiting = xrealloc(ctf->waiting, ctf->waiting_len + v->iov_len + 1);
		memcpy(ctf->waiting + ctf->waiting_len, v->iov_base, v->iov_len);
		ctf->waiting_len += v->iov_len;
	}
}

/* Sends as much as the pipe takes now. After a write that fails in the middle nothing more can be sent. */
static void send_now(struct ctf *ctf, struct iovec **v, int *n)
{
	while (!ctf->broken && *n) {
		ssize_t done = send_some(ctf, *v, *n);

		if (done < 0 && errno == EAGAIN)
			return;
		if (done < 0 && errno != EINTR)
			ctf->broken = -errno;
		for (; done >= 0 && *n && (size_t)done >= (*v)->iov_len; ++*v, --*n)
			done -= (*v)->iov_len;
		if (done > 0) {
			(*v)->iov_base = (char *)(*v)->iov_base + done;
			(*v)->iov_len -= done;
		}
	}
}

/* Waits shortly, for a reader that is reading. */
static bool wait_shortly(struct ctf *ctf)
{
	return poll(&(struct pollfd){ .fd = ctf->pipe, .events = POLLOUT }, 1, PATIENCE_MS) == 1;
}

static bool send_waiting(struct ctf *ctf)
{
	struct iovec one = { ctf->waiting, ctf->waiting_len }, *v = &one;
	int n = ctf->waiting_len != 0;

	if (!n || ctf->broken)
		return true;
	send_now(ctf, &v, &n);
	ctf->waiting_len = n ? one.iov_len : 0;
	memmove(ctf->waiting, one.iov_base, ctf->waiting_len);
	return !n || ctf->broken;
}

bool tar_ready(struct ctf *ctf)
{
	bool ready;

	do
		ready = send_waiting(ctf);
	while (!ready && wait_shortly(ctf));
	return ready;
}

static int send_all(struct ctf *ctf, struct iovec *v, int n)
{
	if (send_waiting(ctf))
		send_now(ctf, &v, &n);
	if (n && !ctf->broken)
		keep(ctf, v, n);
	return ctf->broken;
}

/* Sends the rest. At the end nothing else has to be served, so this may wait; a signal ends it. */
static int send_rest(struct ctf *ctf)
{
	while (!send_waiting(ctf))
		if (poll(&(struct pollfd){ .fd = ctf->pipe, .events = POLLOUT }, 1, -1) < 0 && errno == EINTR)
			ctf->broken = -EINTR;
	return ctf->broken;
}

static size_t padding(uint64_t len)
{
	return -len & (BLOCK - 1);
}

int tar_metadata(struct ctf *ctf)
{
	struct tar_head h;
	struct iovec v[] = {
		{ &h, sizeof(h) }, { ctf->meta_text, ctf->meta_size }, { (void *)zeros, padding(ctf->meta_size) },
	};
	int r;

	fill_entry(&h, "metadata", ctf->meta_size);
	r = send_all(ctf, v, ARRAY_SIZE(v));
	if (r < 0)
		return fail(r, "can't write to %s: %s", ctf->path, strerror(-r));
	ctf->meta_said = true;
	return 0;
}

/* A stream's first part begins with an empty packet with a lost count of 0. */
int tar_packet(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost,
	       struct packet_head *ret_head)
{
	static const struct ctf_span nothing;
	struct packet_head empty, head;
	uint64_t used = sizeof(head) + span->len, size = used + padding(used), before = s->parts ? 0 : BLOCK;
	struct stream after = *s;
	struct tar_head entry;
	struct iovec v[] = {
		{ &entry, sizeof(entry) },
		{ &empty, before ? sizeof(empty) : 0 }, { (void *)zeros, before ? before - sizeof(empty) : 0 },
		{ &head, sizeof(head) }, { (void *)span->data, span->len }, { (void *)zeros, size - used },
	};
	char name[64];
	int r;

	if (!ctf->meta_said && (r = tar_metadata(ctf)) < 0)
		return r;
	snprintf(name, sizeof(name), "stream_%u_%u", s->id, s->parts);
	fill_entry(&entry, name, before + size);
	if (before) {
		packet_fill_head(ctf, s, &empty, 0, &nothing, before, 0);
		after.last = empty.last;
	}
	packet_fill_head(ctf, &after, &head, before ? 1 : s->seq, span, size, lost);
	r = send_all(ctf, v, ARRAY_SIZE(v));
	if (r < 0)
		return r;
	if (before)
		s->seq = 1;
	*ret_head = head;
	return 0;
}

int tar_end(struct ctf *ctf)
{
	struct iovec end = { (void *)zeros, sizeof(zeros) };

	if (!ctf->broken && !ctf->meta_said)
		tar_metadata(ctf);
	send_all(ctf, &end, 1);
	return send_rest(ctf);
}

/* Only pipes and sockets can stall for long; for a regular file poll() always reports room. */
void tar_begin(struct ctf *ctf)
{
	struct stat st;

	ctf->may_stall = fstat(ctf->pipe, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	if (ctf->may_stall)
		fcntl(ctf->pipe, F_SETPIPE_SZ, PIPE_ROOM);
}
