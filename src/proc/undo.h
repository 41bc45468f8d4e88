/* SPDX-License-Identifier: MIT */
/*
 * The way back, written down where it outlives us: the first pages of the arena's memory, mapped
 * read-only in the target (offset 0) and writable here. A reader that finds such a mapping in
 * /proc/PID/maps can take our changes out with what stands here, also when we were killed.
 *
 *	offset 0	struct undo_head
 *	edits_off	struct undo_edit [max_edits]	n_edits of them are complete
 *	moves_off	struct undo_move [max_moves]	n_moves of them are complete; only a help: without
 *							them a thread in a pad is waited for
 *
 * Forked children share these pages but not the text, so nothing here says what has been done to one
 * process: whether an edit stands in a text is seen by looking at that text. Which pieces are mapped
 * is not written here either: the mappings of the same name say it, and they can't be scribbled on.
 * Only what is not part of that memory has its address here.
 *
 * Mappings are known by their name, which tells the tracer and the arena:
 *
 *	/memfd:jab-<pid>-<start time>-<pid namespace>-<serial>		record, code, tables
 *	/memfd:jab-<pid>-<start time>-<pid namespace>-<serial>-data	what the target may write
 *
 * The tracer that wrote the record never reads it back: it works with its own copy, struct undo_book. For any
 * other reader the record is foreign input: everything is checked before it is used.
 */
#ifndef JAB_PROC_UNDO_H
#define JAB_PROC_UNDO_H

#include "proc/text.h"

#define UNDO_MAGIC 0x6f646e752062616aull	/* reads "jab undo" */
#define UNDO_VERSION 4
#define UNDO_MAX_EDITS (1u << 22)
#define UNDO_MOVES_PER_EDIT 4

enum undo_text {
	UNDO_TEXT_CLEAN,	/* no text of any process was ever changed for this arena */
	UNDO_TEXT_DIRTY,	/* look at the text itself; stays so, for a fork may still have the edits */
};

struct undo_edit {
	uint64_t at, resume;
	uint8_t len, reserved[7];
	uint8_t old[EDIT_MAX], new[EDIT_MAX];
};

struct undo_move { uint64_t from, to; };

struct undo_head {
	uint64_t magic;
	uint32_t version, head_size;
	uint64_t size;			/* of the whole record area, page multiple */
	uint32_t max_edits, max_moves;
	uint32_t edits_off, edit_size;
	uint64_t moves_off;
	uint32_t move_size;
	uint32_t text;			/* enum undo_text; set before the first byte of text changes */
	uint32_t n_edits, n_moves;	/* written (release) when what they count is complete */
	int32_t tracer_pid;
	uint32_t reserved;
	uint64_t tracer_start, tracer_pidns;
	uint64_t private_at;		/* memory that is not shared; 0: there is none */
	uint64_t private_len;
	uint64_t scratch_at, scratch_len;	/* the same for scratch memory */
	uint64_t nonce[2];		/* random: no two arenas have the same */
	uint64_t challenge;		/* changed by the tracer to see which processes share this memory */
	uint64_t made;			/* when the target was stopped for it: which of two came first */
	uint8_t unused[8];
};

_Static_assert(sizeof(struct undo_head) == 160, "layout is read by other versions: bump UNDO_VERSION");
_Static_assert(sizeof(struct undo_edit) == 56, "layout is read by other versions: bump UNDO_VERSION");

/* Who made an arena. Start time and namespace tell a reused or foreign pid from the real one. */
struct tracer_id { pid_t pid; uint64_t start, pidns; };

#define ARENA_PREFIX "jab-"
#define ARENA_PATH "/memfd:" ARENA_PREFIX	/* how a mapping or descriptor of ours begins */
#define ARENA_DATA "-data"			/* how the name of the writable part ends */
#define ARENA_NAME_MAX 96

/* What a name says. The serial number is a part of the nonce. */
struct arena_label {
	struct tracer_id tracer;
	uint64_t serial;
	bool data;
};

int tracer_self(struct tracer_id *ret_id);
void arena_name(const struct arena_label *label, char name[ARENA_NAME_MAX]);
bool arena_name_parse(const char *path, struct arena_label *ret_label);	/* "/memfd:jab-..." */
bool same_tracer(const struct tracer_id *x, const struct tracer_id *y);
bool same_arena(const struct arena_label *x, const struct arena_label *y);	/* either part of it */
bool is_arena_path(const char *path);	/* of a mapping */

enum tracer_state {
	TRACER_DEAD,		/* or a zombie */
	TRACER_ALIVE,
	TRACER_UNKNOWN,		/* another pid namespace, that can't be looked into from here */
};
enum tracer_state tracer_state(const struct tracer_id *id, pid_t *ret_pid);	/* its number here, if it is alive */

/*
 * What the tracer wrote, kept where no target can change it: the shared record is only written. undo_init()
 * fills all but the addresses.
 */
struct undo_book {
	struct undo_head *shared;	/* our view of the record */
	uint64_t nonce[2], made;
	uint32_t max_edits, max_moves;
	enum undo_text text;
	struct gap private, scratch;
	VEC(struct edit) edits;		/* in the order in which they came */
	VEC(struct move) moves;
};

size_t undo_size(size_t max_edits);
int undo_init(struct undo_book *b, size_t max_edits, struct gap private, struct gap scratch);
void undo_start(struct undo_book *b, struct undo_head *at, const struct tracer_id *id);	/* writes the head */
int undo_append(struct undo_book *b, const struct text_patch *patch);
void undo_truncate(struct undo_book *b, uint32_t n_edits, uint32_t n_moves);
void undo_set_text(struct undo_book *b, enum undo_text text);
void undo_close(struct undo_book *b);

/* The same as plain lists, sorted: what removal works with. */
struct undo {
	VEC(struct edit) edits;
	VEC(struct move) moves;		/* pad -> original */
	enum undo_text text;
	struct gap private, scratch;	/* as claimed: they are looked at before they are unmapped */
	bool growing;			/* its tracer is dead: a thread may be making mappings for it still */
	struct arena_label label;
	struct arena *arena;		/* our own; NULL: left by another tracer */
};
void undo_free(struct undo *u);
void undo_from_book(struct undo *u, const struct undo_book *b);

/*
 * Reading what another tracer wrote. area: bytes that are mapped from offset 0 on. Refuses anything
 * that this version can't have written; -ENODATA: nothing was written yet. Edits and moves may come in parts;
 * the end sorts them.
 */
int undo_check(const struct undo_head *h, size_t area);
int undo_take_edits(struct undo *u, const struct undo_edit *edits, size_t n);
int undo_take_moves(struct undo *u, const struct undo_move *moves, size_t n);
int undo_take_end(struct undo *u, const struct undo_head *h);
int undo_garbled(const char *what);	/* -EBADMSG with a sentence */

#endif
