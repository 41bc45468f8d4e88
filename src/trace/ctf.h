/* SPDX-License-Identifier: MIT */
/*
 * Writing traces in the Common Trace Format 1.8, as babeltrace2 and Trace Compass read them. A trace
 * is a directory:
 *
 *	metadata		text: clock, environment, one event class per probe; grows
 *	stream_S_N		the packets of stream S, part N (a stream is one ring)
 *
 * A packet's content is a span of the ring as it is, never looked at here except by ctf_check():
 * whole events, little endian, each 8-aligned:
 *
 *	u32 id; u32 len; u64 time (TSC); u32 pid; u32 tid; fields...
 *
 * len counts the whole event, padding included. Every field starts 8-aligned and is padded to 8:
 *
 *	a number		8 bytes
 *	an array of numbers	count of them, packed
 *	bytes			size of them
 *	a string		u32 length, that many bytes. A whole one has its NUL and length counts
 *				it; one that was cut has none. (For an empty one babeltrace2 2.0 shows the
 *				text of some event before: believe its length.)
 *	addresses		u32 count, u32 0, count times u64
 *
 * A field called _faults, in front of the others, tells which of them could not be read: bit i is the
 * i-th field behind it; bit 32 + i the same where reading was not allowed. What then stands in the
 * field: a number's slot, and the first 8 bytes of an array that has them, hold the address; a
 * string is "<fault>" or "<unreadable>", its NUL and the address; addresses are as many as were found.
 *
 * Killed at any moment, the writer leaves a trace that reads without complaint up to the last
 * whole packet; packet.c says how. One thread at a time.
 */
#ifndef JAB_TRACE_CTF_H
#define JAB_TRACE_CTF_H

#include <stddef.h>
#include <stdint.h>

#include "trace/clock.h"

#define CTF_MAGIC 0xc1fc1fc1u
#define CTF_PAGE 4096u
#define CTF_MAX_EVENT 65536u		/* bytes of one event; also what the reader accepts */
#define CTF_MAX_FIELDS 256u
#define CTF_MAX_CLASSES (1u << 20)	/* event ids are below */
#define CTF_MAX_STREAMS (1u << 16)	/* stream numbers are below */
#define CTF_NO_CPU UINT32_MAX		/* as a stream's CPU: that of a ring behind a lock */
#define CTF_FAULTS "_faults"		/* CTF_UNSIGNED, 64 bits, base 16 */

/* Classes of our own, in a stream of their own. */
#define CTF_MODULE_ID 0xffffff00u	/* jab:module: a file that a process has mapped */
#define CTF_THREAD_ID 0xffffff01u	/* jab:thread: the name of a thread */
#define CTF_THINNED_ID 0xffffff02u	/* jab:thinned: how much of the time a probe is on */
#define CTF_OWN_CLASSES 3
#define CTF_OWN_STREAM 0xffffff00u

struct ctf_event_head {
	uint32_t id, len;
	uint64_t time;
	uint32_t pid, tid;
};
_Static_assert(sizeof(struct ctf_event_head) == 24, "the layout of the rings");

enum ctf_kind { CTF_SIGNED, CTF_UNSIGNED, CTF_POINTER, CTF_FLOAT, CTF_STRING, CTF_BYTES, CTF_ADDRS };

struct ctf_field {
	const char *name;	/* any text; what is no letter, digit or _ becomes _ in the trace */
	enum ctf_kind kind;
	uint8_t bits;		/* integers: 8 16 32 64; floats: 32 64 */
	uint8_t base;		/* integers: 10 (also 0), 16, 8 */
	uint32_t size;		/* CTF_BYTES: how many */
	uint32_t count;		/* numbers: so many, as an array; 0: one, no array */
};

struct ctf_options {
	struct tsc_clock clock;
	const char *command;	/* what was typed; may be NULL */
	uint64_t max_size;	/* bytes, of all files together; 0: no limit */
	uint64_t start;		/* ticks: no event is older. A stream whose first packet only tells of losses begins here */
};

/* What ctf_check() found in a span. */
struct ctf_span {
	const void *data;
	size_t len;		/* whole, good events */
	size_t unpadded;	/* len without what the last event has behind its last field */
	uint64_t events, first, last;
};

struct ctf_stats {
	uint64_t packets, events, bytes;
	uint64_t failed_packets, failed_events;		/* could not be written */
};

struct ctf_module {
	const char *path, *build_id;	/* build id in hex, "" if there is none */
	uint64_t address, size;		/* from the page of its lowest segment to its end */
	uint32_t pid;
};

struct ctf_thread {
	const char *comm;
	uint32_t pid, tid;
};

struct ctf;

/* Make the directory. Says clearly why not, before anything is left behind. */
int ctf_create(const char *path, const struct ctf_options *options, struct ctf **ret_ctf);

/*
 * The same into a pipe (or any file descriptor, which stays the caller's): a tar archive of the
 * directory, in which every packet is a part of its own and the metadata comes again, whole, in
 * front of the first packet that needs more of it. What was unpacked up to some packet is a good trace.
 * A reader that goes away is -EPIPE, once SIGPIPE is ignored; then nothing more can be written.
 */
int ctf_create_pipe(int fd, const char *name, const struct ctf_options *options, struct ctf **ret_ctf);

/* No output: classes to check spans with, for events that are shown at once (see live.h). */
void ctf_create_memory(const struct ctf_options *options, struct ctf **ret_ctf);

/* Add an event class; its events may be written as soon as this returns. */
int ctf_class(struct ctf *ctf, uint32_t id, const char *name, const struct ctf_field *fields, size_t n);

/*
 * Rings can be scribbled over by the target. Walk the events of a span and keep the good ones in
 * front: known classes, lengths that agree with the fields, times that don't run backwards. Returns
 * 0, or -EBADMSG if there was something else behind; ret_span is set in both cases.
 */
int ctf_check(const struct ctf *ctf, const void *data, size_t len, struct ctf_span *ret_span);

/* And add how many there are of each class to counts[id]. */
int ctf_check_counted(const struct ctf *ctf, const void *data, size_t len, uint64_t *counts,
		      struct ctf_span *ret_span);

/*
 * Write one packet; span may be empty to make a new lost count known. `lost` is the total for this
 * stream so far. After an error the span counts as lost, in the stats and in the trace: don't hand
 * it in again. Copies nothing; goes to the page cache, so it takes about as long as a memcpy unless
 * the kernel throttles writers because the disk is behind (tens of milliseconds, rarely more).
 * The rings go on meanwhile: whoever calls this must not be what the target waits for.
 */
int ctf_packet(struct ctf *ctf, uint32_t stream, uint32_t cpu, const struct ctf_span *span, uint64_t lost);

/*
 * How many bytes of events a packet of this stream may still have, for max_size; then nothing more goes into the trace but
 * what says how much was lost.
 */
uint64_t ctf_room(const struct ctf *ctf, uint32_t stream);
void ctf_end(struct ctf *ctf);			/* there is no room for the next event */
bool ctf_full(const struct ctf *ctf);

/*
 * A pipe whose reader is slow: is there nothing left from before? If not, leave events where they are, or they are
 * kept in memory. Anything else is always ready.
 */
bool ctf_ready(struct ctf *ctf);

/* Which files were mapped where, so that addresses can be named later on another machine. */
int ctf_modules(struct ctf *ctf, const struct ctf_module *modules, size_t n, uint64_t time);

/* What the threads are called. A later name replaces the earlier. */
int ctf_threads(struct ctf *ctf, const struct ctf_thread *threads, size_t n, uint64_t time);

/* From now on this probe is on for so many millionths of the time. */
int ctf_thinned(struct ctf *ctf, const char *probe, uint32_t share, uint64_t time);

struct ctf_stats ctf_stats(const struct ctf *ctf);

/* Cut the files to what they hold. Returns the first error; the trace is readable anyway. */
int ctf_close(struct ctf *ctf);

#endif
