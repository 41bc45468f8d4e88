/* SPDX-License-Identifier: MIT */
/* One stream while it is read: its parts in order, its packets, its next event. */
#ifndef JAB_TRACE_SOURCE_H
#define JAB_TRACE_SOURCE_H

#include "trace/meta.h"

struct source {
	/* the current event, after source_next() has returned true */
	const uint8_t *event;
	const struct ctf_class *class;
	uint64_t time;
	uint32_t stream, cpu;
	uint64_t events;		/* returned so far */
	uint64_t lost;			/* lost so far, as the packets say */
	uint64_t lost_unsaid;		/* the part of `lost` that was not yet returned with an event */
	uint64_t damaged;		/* how many times data was missing or invalid */
	char damage[128];		/* the first damage as text */

	const struct meta *meta;
	int dir, fd;
	VEC(uint32_t) parts;
	size_t next_part;
	bool sorted;
	uint64_t file_size;
	uint64_t seq;			/* sequence number of the next packet */
	uint64_t from;			/* packets that end before this time are skipped */
	uint64_t packet;		/* offset of the next packet's head */
	uint64_t at, end;		/* the remaining events of the current packet */
	uint8_t *buf;			/* a window of the file */
	uint64_t buf_at, buf_len;
};

struct source *source_new(int dir, uint32_t stream, const struct meta *meta);
void source_add_part(struct source *s, uint32_t part);
bool source_next(struct source *s);
void source_seek(struct source *s, uint64_t ticks);	/* before the first source_next() */
void source_close(struct source *s);

#endif
