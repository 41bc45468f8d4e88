/* SPDX-License-Identifier: MIT */
/*
 * Writing traces in the Common Trace Format 1.8, as babeltrace2 and Trace Compass read them. A trace is a
 * directory:
 *
 *	metadata		text: clock, environment, one event class per probe; grows
 *	stream_S_N		the packets of stream S, part N (a stream is one ring)
 *
 * A packet's content is a span of the ring, copied without change and examined only by ctf_check(): whole events,
 * little endian, each 8-aligned:
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
 *				text of an earlier event; its length is right.)
 *	addresses		u32 count, u32 0, count times u64
 *
 * A field called _faults, before all others, says which fields could not be read: bit i is the i-th field after it;
 * bit 32 + i the same field, if reading was not allowed. The content of such a field: the slot of a number, and the
 * first 8 bytes of an array that has as many, hold the address; a string is "<fault>" or "<unreadable>", its NUL
 * and the address; addresses are as many as were found.
 *
 * If the writer is killed at any moment, the trace is readable without errors up to the last whole packet; packet.c
 * says how. To be used by one thread at a time.
 */
#ifndef JAB_TRACE_CTF_H
#define JAB_TRACE_CTF_H

#include <stddef.h>
#include <stdint.h>

#include "trace/clock.h"

#define CTF_MAGIC 0xc1fc1fc1u
#define CTF_PAGE 4096u
#define CTF_MAX_EVENT 65536u		/* bytes of one event, for writer and reader */
#define CTF_MAX_FIELDS 256u
#define CTF_MAX_CLASSES (1u << 20)	/* event ids are below */
#define CTF_MAX_STREAMS (1u << 16)	/* stream numbers are below */
#define CTF_MAX_VALUES 1024u		/* names of values; the field of an enum with more is a number */
#define CTF_NO_CPU UINT32_MAX		/* the CPU of a stream whose ring has a lock */
#define CTF_FAULTS "_faults"		/* CTF_UNSIGNED, 64 bits, base 16 */

/* Event classes of jab itself, in a stream of their own. */
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

struct type_value;	/* sym/types/types.h */

struct ctf_field {
	const char *name;	/* any text; characters other than letters, digits and _ become _ in the trace */
	enum ctf_kind kind;
	uint8_t bits;		/* integers: 8 16 32 64; floats: 32 64 */
	uint8_t base;		/* integers: 10 (also 0), 16, 8 */
	uint32_t size;		/* CTF_BYTES: how many */
	bool is_text;		/* CTF_BYTES: text up to the first NUL, if there is one */
	uint32_t count;		/* numbers: elements of an array; 0: one number, no array */
	uint32_t nvalues;	/* an integer that is no array may be an enum: how many of its values have a name */
	const struct type_value *values;
};

struct ctf_options {
	struct tsc_clock clock;
	const char *command;	/* the command line; may be NULL */
	uint64_t max_size;	/* bytes, of all files together; 0: no limit */
	uint64_t start;		/* ticks: no event is older. If the first packet of a stream only reports losses, the stream
				   begins at this time */
};

/* The result of ctf_check() for a span. */
struct ctf_span {
	const void *data;
	size_t len;		/* bytes of whole, valid events */
	size_t unpadded;	/* len without the padding after the last event's last field */
	uint64_t events, first, last;
};

struct ctf_stats {
	uint64_t packets, events, bytes;
	uint64_t failed_packets, failed_events;		/* could not be written */
};

struct ctf_module {
	const char *path, *build_id;	/* build id in hex, "" if there is none */
	uint64_t address, size;		/* from the page of its lowest segment to the end of its highest one */
	uint32_t pid;
};

struct ctf_thread {
	const char *comm;
	uint32_t pid, tid;
};

struct ctf;

/* Creates the directory. On failure nothing is left behind, and the message says why. */
int ctf_create(const char *path, const struct ctf_options *options, struct ctf **ret_ctf);

/*
 * Writes to a pipe (or any file descriptor, which the caller closes): a tar archive of the directory, in which
 * every packet is a part (file) of its own, and the whole metadata is repeated before the first packet that needs
 * more of it. The files unpacked up to any packet are a valid trace. If the reader closes the pipe: -EPIPE,
 * provided that SIGPIPE is ignored; then nothing more can be written.
 */
int ctf_create_pipe(int fd, const char *name, const struct ctf_options *options, struct ctf **ret_ctf);

/* Writes nothing: only has the classes to check spans with, for events that are shown at once (see live.h). */
void ctf_create_memory(const struct ctf_options *options, struct ctf **ret_ctf);

/* Adds an event class; its events may be written as soon as this returns. */
int ctf_class(struct ctf *ctf, uint32_t id, const char *name, const struct ctf_field *fields, size_t n);

/*
 * The target can overwrite its rings. Walks the events of a span up to the first invalid one: valid are known
 * classes, lengths that agree with the fields, times that don't run backwards. Returns 0, or -EBADMSG if there is
 * an invalid event after the valid ones; ret_span is set in both cases.
 */
int ctf_check(const struct ctf *ctf, const void *data, size_t len, struct ctf_span *ret_span);

/* Like ctf_check(), and adds the number of events of each class to counts[id]. */
int ctf_check_counted(const struct ctf *ctf, const void *data, size_t len, uint64_t *counts,
		      struct ctf_span *ret_span);

/*
 * Writes one packet; span may be empty to report a new lost count. `lost` is the total for this stream so far.
 * After an error the span counts as lost, in the stats and in the trace: it must not be written again. Copies
 * nothing; writes to the page cache, so it takes about as long as a memcpy unless the kernel throttles writers
 * because the disk is slow (tens of milliseconds, rarely more). Pads go on filling the rings meanwhile: the target
 * must never wait for the caller of this.
 */
int ctf_packet(struct ctf *ctf, uint32_t stream, uint32_t cpu, const struct ctf_span *span, uint64_t lost);

/*
 * How many bytes of events a packet of this stream may still have, because of max_size; after that only lost counts
 * are written to the trace.
 */
uint64_t ctf_room(const struct ctf *ctf, uint32_t stream);
void ctf_end(struct ctf *ctf);			/* the next event does not fit: the trace is full */
bool ctf_full(const struct ctf *ctf);

/*
 * Whether a pipe has taken everything that was written before. While it has not (its reader is slow), events should
 * be left in the rings, or they are kept in memory. Other outputs are always ready.
 */
bool ctf_ready(struct ctf *ctf);

/* Writes which files are mapped at which addresses, so that addresses can be named later on another machine. */
int ctf_modules(struct ctf *ctf, const struct ctf_module *modules, size_t n, uint64_t time);

/* Writes the names of threads. A later name replaces an earlier one. */
int ctf_threads(struct ctf *ctf, const struct ctf_thread *threads, size_t n, uint64_t time);

/* Writes that from now on this probe is active for `share` millionths of the time. */
int ctf_thinned(struct ctf *ctf, const char *probe, uint32_t share, uint64_t time);

struct ctf_stats ctf_stats(const struct ctf *ctf);

/* Truncates the files to their content and closes them. Returns the first error; the trace is readable in any case. */
int ctf_close(struct ctf *ctf);

#endif
