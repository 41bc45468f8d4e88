/* SPDX-License-Identifier: MIT */
/*
 * The undo record, kept where it outlives the tracer: the first pages of the arena's memory, mapped
 * read-only in the target (offset 0) and writable in the tracer. A process that finds such a mapping in
 * /proc/PID/maps can remove the changes with this record, also when the tracer was killed.
 *
 *	offset 0	struct undo_head
 *	edits_off	struct undo_edit [max_edits]	n_edits of them are complete
 *	moves_off	struct undo_move [max_moves]	n_moves of them are complete; optional: without
 *							them a thread in a pad is waited for
 *	behind them	struct undo_semaphore []	n_semaphores of them
 *
 * Forked children share these pages but not the text, so the record does not say what has been done to one
 * process: whether an edit is in a text is found by comparing the text. The record does not say which pieces are
 * mapped either: that is read from the mappings of the same name, which no write to memory can damage.
 * Only the private memory that is not part of the memfds has its address here.
 *
 * Mappings are recognised by their name, which identifies the tracer and the arena:
 *
 *	/memfd:jab-<pid>-<start time>-<pid namespace>-<serial>		record, code, tables
 *	/memfd:jab-<pid>-<start time>-<pid namespace>-<serial>-data	what the target may write
 *
 * The tracer that wrote the record never reads it back: it works with its own copy, struct undo_book. For any
 * other reader the record is foreign input: everything is checked before it is used.
 */
#ifndef JAB_PROC_UNDO_H
#define JAB_PROC_UNDO_H

#include "proc/text/text.h"

#define UNDO_MAGIC 0x6f646e752062616aull	/* reads "jab undo" */
#define UNDO_VERSION 5
#define UNDO_MAX_EDITS (1u << 22)
#define UNDO_MOVES_PER_EDIT 4

enum undo_text {
	UNDO_TEXT_CLEAN,	/* no text of any process was ever changed for this arena */
	UNDO_TEXT_DIRTY,	/* text may be changed: compare it. Stays so after a removal, for a fork may still have the edits */
};

struct undo_edit {
	uint64_t at, resume;
	uint8_t len, reserved[7];
	uint8_t old[EDIT_MAX], new[EDIT_MAX];
};

struct undo_move { uint64_t from, to; };

enum semaphore_state { SEMAPHORE_KEPT, SEMAPHORE_RAISING, SEMAPHORE_RAISED, SEMAPHORE_LOWERING, SEMAPHORE_LOWERED };

struct undo_semaphore {
	uint64_t at, edit;
	uint16_t before;
	uint8_t state, reserved[5];
};

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
	uint64_t private_at;		/* address of the private piece; 0: there is none */
	uint64_t private_len;
	uint64_t scratch_at, scratch_len;	/* the same for the scratch piece */
	uint64_t nonce[2];		/* random: no two arenas have the same */
	uint64_t challenge;		/* changed by the tracer to see which processes share this memory */
	uint64_t made;			/* when the target was stopped to make it (wall clock): decides which of two arenas came first */
	uint32_t n_semaphores;		/* written (release) when they are complete */
	int32_t lowering;		/* the process whose semaphores are being lowered; 0: none */
};

_Static_assert(sizeof(struct undo_head) == 160, "layout is read by other versions: bump UNDO_VERSION");
_Static_assert(sizeof(struct undo_edit) == 56, "layout is read by other versions: bump UNDO_VERSION");
_Static_assert(sizeof(struct undo_semaphore) == 24, "layout is read by other versions: bump UNDO_VERSION");

/* The tracer that made an arena. Start time and namespace tell a reused or foreign pid from the real one. */
struct tracer_id { pid_t pid; uint64_t start, pidns; };

#define ARENA_PREFIX "jab-"
#define ARENA_PATH "/memfd:" ARENA_PREFIX	/* how the path of a mapping or descriptor of an arena begins */
#define ARENA_DATA "-data"			/* how the name of the writable memfd ends */
#define ARENA_NAME_MAX 96

/* The fields of a name. The serial number is a part of the nonce. */
struct arena_label {
	struct tracer_id tracer;
	uint64_t serial;
	bool data;
};

int tracer_self(struct tracer_id *ret_id);
void arena_name(const struct arena_label *label, char name[ARENA_NAME_MAX]);
bool arena_name_parse(const char *path, struct arena_label *ret_label);	/* "/memfd:jab-..." */
bool same_tracer(const struct tracer_id *x, const struct tracer_id *y);
bool same_arena(const struct arena_label *x, const struct arena_label *y);	/* whichever of its two memfds they name */
bool is_arena_path(const char *path);	/* the path of a mapping */

enum tracer_state {
	TRACER_DEAD,		/* or a zombie */
	TRACER_ALIVE,
	TRACER_UNKNOWN,		/* in another pid namespace, whose processes are not visible from here */
};
enum tracer_state tracer_state(const struct tracer_id *id, pid_t *ret_pid);	/* *ret_pid: its pid in our namespace, if it is alive */

/*
 * The tracer's own copy of the record, where no target can change it: the shared record is only written. undo_init()
 * fills all but `shared`, `made` and the lists.
 */
struct undo_book {
	struct undo_head *shared;	/* the record, in the tracer's mapping */
	uint64_t nonce[2], made;
	uint32_t max_edits, max_moves;
	enum undo_text text;
	struct gap private, scratch;
	VEC(struct edit) edits;		/* in the order in which they came */
	VEC(struct move) moves;
	VEC(struct semaphore) semaphores;
};

size_t undo_size(size_t max_edits);
int undo_init(struct undo_book *b, size_t max_edits, struct gap private, struct gap scratch);
void undo_start(struct undo_book *b, struct undo_head *at, const struct tracer_id *id);	/* writes the head */
int undo_append(struct undo_book *b, const struct text_patch *patch);
void undo_truncate(struct undo_book *b, uint32_t n_edits, uint32_t n_moves, uint32_t n_semaphores);
void undo_set_semaphore(struct undo_book *b, size_t i, enum semaphore_state state, uint16_t before);
void undo_set_lowering(struct undo_book *b, pid_t pid);
void undo_set_text(struct undo_book *b, enum undo_text text);
void undo_close(struct undo_book *b);

/* The record as sorted lists, from a book or from another tracer's memory: the input of a removal. */
struct undo {
	VEC(struct edit) edits;
	VEC(struct move) moves;		/* pad -> original */
	VEC(struct semaphore) semaphores;
	pid_t lowering;
	enum undo_text text;
	struct gap private, scratch;	/* as claimed by the record: checked before they are unmapped */
	bool growing;			/* the tracer is dead: a thread that it had borrowed may still be making mappings */
	struct arena_label label;
	struct arena *arena;		/* this tracer's own; NULL: left by another tracer */
};
void undo_free(struct undo *u);
void undo_from_book(struct undo *u, const struct undo_book *b);

/*
 * Reading the record of another tracer. area: bytes that are mapped from offset 0 on. Refuses anything
 * that this version can't have written; -ENODATA: nothing was written yet. Edits and moves may be given in parts;
 * undo_take_end() sorts them.
 */
int undo_check(const struct undo_head *h, size_t area);
int undo_take_edits(struct undo *u, const struct undo_edit *edits, size_t n);
int undo_take_moves(struct undo *u, const struct undo_move *moves, size_t n);
uint64_t undo_semaphores_off(const struct undo_head *h);
int undo_take_semaphores(struct undo *u, const struct undo_semaphore *semaphores, size_t n);
int undo_take_end(struct undo *u, const struct undo_head *h);
int undo_garbled(const char *what);	/* -EBADMSG with a message */

#endif
