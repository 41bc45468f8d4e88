/* SPDX-License-Identifier: MIT */
/*
 * The way back, written down where it outlives us: the first pages of the arena's memory, mapped
 * read-only in the target (offset 0) and writable here. Whoever finds such a mapping in
 * /proc/PID/maps can take our changes out with what stands here, also when we were killed.
 *
 *	offset 0	struct undo_head
 *	edits_off	struct undo_edit [max_edits]	n_edits of them are complete
 *	moves_off	struct undo_move [max_moves]	n_moves of them are complete; only a help: without
 *							them a thread in a pad is waited for
 *
 * Forked children share these pages but not the text, so nothing here says what has been done to one
 * process: whether an edit stands in a text is seen by looking at that text. Which pieces are mapped
 * is not written here either: the mappings of the same inode say it, and they can't be scribbled on.
 * Only what is not part of that memory has its address here.
 *
 * Mappings are known by their name. A memfd's says who made it:
 *
 *	/memfd:jab-<pid>-<start time>-<pid namespace>
 *	/SYSV6a6162??				a segment's: who made it is in the record
 *
 * For a reader the record is foreign input: everything is checked before it is used.
 */
#ifndef JAB_PROC_UNDO_H
#define JAB_PROC_UNDO_H

#include "proc/text.h"

#define UNDO_MAGIC 0x6f646e752062616aull	/* reads "jab undo" */
#define UNDO_VERSION 3
#define UNDO_VERSION_OLDEST 1	/* without private_at */
#define UNDO_MAX_EDITS (1u << 24)
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
	uint64_t private_len;		/* 0: a page, as tracers before this one had it */
	uint64_t scratch_at, scratch_len;	/* the same for scratch memory; since version 3 */
	uint8_t unused[8];
};

_Static_assert(sizeof(struct undo_head) == 128, "layout is read by other versions: bump UNDO_VERSION");
_Static_assert(sizeof(struct undo_edit) == 56, "layout is read by other versions: bump UNDO_VERSION");

/* Who made an arena. Start time and namespace tell a reused or foreign pid from the real one. */
struct tracer_id { pid_t pid; uint64_t start, pidns; };

#define ARENA_PREFIX "jab-"
#define ARENA_PATH "/memfd:" ARENA_PREFIX	/* how a mapping or descriptor of ours begins */
#define SEGMENT_PATH "/SYSV6a6162"
#define SEGMENT_KEY 0x6a616200		/* and up to 255 more */
#define ARENA_NAME_MAX 80

int tracer_self(struct tracer_id *ret_id);
void arena_name(const struct tracer_id *id, char name[ARENA_NAME_MAX]);
bool arena_name_parse(const char *path, struct tracer_id *ret_id);	/* "/memfd:jab-..." */
bool is_arena_path(const char *path);	/* of a mapping: one or the other */

enum tracer_state { TRACER_DEAD, TRACER_ALIVE, TRACER_UNKNOWN /* another pid namespace */ };
enum tracer_state tracer_state(const struct tracer_id *id);

/* Writing: by the tracer, through its own view. */
size_t undo_size(size_t max_edits);
void undo_init(struct undo_head *h, size_t max_edits, const struct tracer_id *id, struct gap private,
	       struct gap scratch);
int undo_append(struct undo_head *h, const struct text_patch *patch);
void undo_truncate(struct undo_head *h, uint32_t n_edits, uint32_t n_moves);
void undo_set_text(struct undo_head *h, enum undo_text text);

/* The same as plain lists, sorted: what removal works with. */
struct undo {
	VEC(struct edit) edits;
	VEC(struct move) moves;		/* pad -> original */
	enum undo_text text;
	struct gap private, scratch;	/* as claimed: whoever unmaps them looks first */
	bool growing;			/* its tracer is dead: a thread may be making mappings for it still */
	uint64_t inode;
	struct arena *arena;		/* our own views of it; NULL: somebody else's */
};
void undo_free(struct undo *u);

/*
 * Reading what somebody else wrote. area: bytes that are mapped from offset 0 on. Refuses anything
 * that this version can't have written; -ENODATA: nothing was written yet.
 */
int undo_check(const struct undo_head *h, size_t area);
int undo_take(struct undo *u, const struct undo_head *h, const struct undo_edit *edits,
	      const struct undo_move *moves);

#endif
