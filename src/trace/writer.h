/* SPDX-License-Identifier: MIT */
/*
 * The parts of the writer: ctf.c has the interface, metadata.c and packet.c write the two kinds of file, tar.c
 * writes both into a pipe; own.c makes jab's own events.
 */
#ifndef JAB_TRACE_WRITER_H
#define JAB_TRACE_WRITER_H

#include <fcntl.h>
#include "trace/layout.h"

/* Files of a trace are always created, and only their owner can read them. */
#define CTF_NEW_FILE (O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)

struct stream {
	uint32_t id;		/* as in stream_ID_PART and stream_instance_id */
	uint32_t cpu;
	unsigned int parts;	/* number of parts begun so far */
	int fd;			/* of the last part; -1: there is none, or it was truncated and closed */
	uint64_t at, size;	/* where the next packet goes; the part's length */
	uint64_t seq;		/* sequence number of the next packet */
	uint64_t first, last;	/* times of the last packet */
	uint64_t lost;		/* as the last packet reports: told + dropped */
	uint64_t told, dropped;	/* told: lost in the ring, as reported; dropped: lost because a write failed */
};

struct ctf {
	char *path;
	int dir;		/* -1: a pipe, or no output */
	int meta;
	uint64_t meta_size;
	int pipe;		/* -1: none */
	char *meta_text;	/* without a directory: the metadata so far */
	bool full;		/* max_size was reached */
	uint32_t begun;		/* number of streams begun */
	bool meta_said;		/* pipe: the current metadata has been written */
	int broken;		/* pipe: the error that ended it */
	bool may_stall;		/* pipe: its reader decides when there is room */
	uint8_t *waiting;	/* pipe: bytes that must be written first */
	size_t waiting_len;
	uint64_t part_limit;	/* RLIMIT_FSIZE: beyond it the kernel sends a signal */
	uint64_t step;		/* a few nanoseconds, in ticks */
	uint8_t uuid[16];
	struct ctf_options options;
	struct ctf_stats stats;
	VEC(struct ctf_class *) classes;	/* by id; unused ids are NULL */
	VEC(struct stream *) streams;		/* by number; unused numbers are NULL */
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

/* tar.c: each returns a negative errno, or the error of an earlier write that broke the pipe */
int tar_metadata(struct ctf *ctf);
int tar_packet(struct ctf *ctf, struct stream *s, const struct ctf_span *span, uint64_t lost,
	       struct packet_head *ret_head);
int tar_end(struct ctf *ctf);
void tar_begin(struct ctf *ctf);
bool tar_ready(struct ctf *ctf);

#endif
