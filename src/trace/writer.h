/* SPDX-License-Identifier: MIT */
/*
 * The writer's own parts: ctf.c is the front, metadata.c and packet.c write the two kinds of file,
 * tar.c both of them into a pipe; own.c makes the events that no probe does.
 */
#ifndef JAB_TRACE_WRITER_H
#define JAB_TRACE_WRITER_H

#include <fcntl.h>
#include "trace/layout.h"

/* Files of a trace are made new and are their owner's only. */
#define CTF_NEW_FILE (O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

struct stream {
	uint32_t id;		/* as in stream_ID_PART and stream_instance_id */
	uint32_t cpu;
	unsigned int parts;	/* begun so far */
	int fd;			/* of the last part; -1: none, or cut and closed */
	uint64_t at, size;	/* where the next packet goes; the part's length */
	uint64_t seq;		/* of the next packet */
	uint64_t first, last;	/* times of the last packet */
	uint64_t lost;		/* as the last packet says: told + dropped */
	uint64_t told, dropped;	/* lost in the ring; lost because a write failed */
};

struct ctf {
	char *path;
	int dir;		/* -1: a pipe, or no output at all */
	int meta;
	uint64_t meta_size;
	int pipe;		/* -1: none */
	char *meta_text;	/* without a directory: the metadata so far */
	bool full;		/* max_size was reached */
	uint32_t begun;		/* streams */
	bool meta_said;		/* pipe: it has been written as it is */
	int broken;		/* pipe: the error that ended it */
	bool may_stall;		/* pipe: its reader decides when there is room */
	uint8_t *waiting;	/* pipe: bytes that must go out first */
	size_t waiting_len;
	uint64_t part_limit;	/* RLIMIT_FSIZE: beyond it the kernel sends a signal */
	uint64_t step;		/* some nanoseconds in ticks */
	uint8_t uuid[16];
	struct ctf_options options;
	struct ctf_stats stats;
	VEC(struct ctf_class *) classes;	/* by id; holes are NULL */
	VEC(struct stream *) streams;		/* by number; holes are NULL */
	struct ctf_class *own[CTF_OWN_CLASSES];	/* from CTF_MODULE_ID on */
	struct stream *own_stream;
	uint8_t *live;		/* live.c: the event being shown */
};

/* ctf.c */
int class_new(uint32_t id, const char *name, const struct ctf_field *fields, size_t n,
	      struct ctf_class **ret_class);
const struct ctf_class *ctf_find_class(const struct ctf *ctf, uint32_t id);

/* metadata.c */
int meta_create(struct ctf *ctf);
int meta_add_class(struct ctf *ctf, const struct ctf_class *c);

/* packet.c */
struct stream *stream_new(uint32_t id);
int stream_write(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost);
int stream_close(struct ctf *ctf, struct stream *s);
void packet_fill_head(const struct ctf *ctf, const struct stream *s, struct packet_head *h, uint64_t seq,
		      const struct ctf_span *span, uint64_t size, uint64_t lost);

/* tar.c: each returns a negative errno, or that of the write that broke the pipe before */
int tar_metadata(struct ctf *ctf);
int tar_packet(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost,
	       struct packet_head *ret_head);
int tar_end(struct ctf *ctf);
void tar_begin(struct ctf *ctf);
bool tar_ready(struct ctf *ctf);

#endif
