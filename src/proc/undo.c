/* SPDX-License-Identifier: MIT */
/*
 * The undo record: written with its counts last, so that a tracer killed at any instruction leaves a
 * record that is true; read with distrust, because the target's memory is not ours.
 */
#include "proc/undo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"

#define PAGE 4096ull
#define USER_TOP (1ull << 47)

/* Field 22 of a stat file; the name in brackets may hold anything, so start behind the last one. */
static int start_time(const char *path, uint64_t *ret_start)
{
	char line[1024], *at;
	FILE *f = fopen(path, "re");
	size_t n;
	int i;

	if (!f)
		return -errno;
	n = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[n] = 0;
	at = strrchr(line, ')');
	for (i = 2; at && i < 22; i++)
		at = strchr(at + 1, ' ');
	if (!at)
		return -ESRCH;
	*ret_start = strtoull(at + 1, NULL, 10);
	return 0;
}

int tracer_self(struct tracer_id *ret_id)
{
	struct tracer_id id = { .pid = getpid() };
	struct stat st;
	int r = start_time("/proc/self/stat", &id.start);

	if (r < 0)
		return fail(r, "/proc/self/stat can't be read: is /proc mounted?");
	if (stat("/proc/self/ns/pid", &st) == 0)
		id.pidns = st.st_ino;
	*ret_id = id;
	return 0;
}

void arena_name(const struct tracer_id *id, char name[ARENA_NAME_MAX])
{
	snprintf(name, ARENA_NAME_MAX, ARENA_PREFIX "%d-%" PRIu64 "-%" PRIu64, id->pid, id->start, id->pidns);
}

bool arena_name_parse(const char *path, struct tracer_id *ret_id)
{
	struct tracer_id id;
	int end = 0;

	if (strncmp(path, ARENA_PATH, strlen(ARENA_PATH)) != 0)
		return false;
	path += strlen(ARENA_PATH);
	if (sscanf(path, "%d-%" SCNu64 "-%" SCNu64 "%n", &id.pid, &id.start, &id.pidns, &end) != 3)
		return false;
	if (id.pid <= 0 || (path[end] && strcmp(path + end, " (deleted)") != 0))
		return false;
	*ret_id = id;
	return true;
}

bool is_arena_path(const char *path)
{
	return strncmp(path, ARENA_PATH, strlen(ARENA_PATH)) == 0 ||
	       strncmp(path, SEGMENT_PATH, strlen(SEGMENT_PATH)) == 0;
}

enum tracer_state tracer_state(const struct tracer_id *id)
{
	struct tracer_id self;
	uint64_t start;
	char path[64];

	if (tracer_self(&self) < 0 || self.pidns != id->pidns)
		return TRACER_UNKNOWN;
	snprintf(path, sizeof(path), "/proc/%d/stat", id->pid);
	if (start_time(path, &start) < 0 || start != id->start)
		return TRACER_DEAD;
	return TRACER_ALIVE;
}

static size_t max_moves(size_t max_edits)
{
	return max_edits * UNDO_MOVES_PER_EDIT;
}

size_t undo_size(size_t max_edits)
{
	size_t size = sizeof(struct undo_head) + max_edits * sizeof(struct undo_edit) +
		      max_moves(max_edits) * sizeof(struct undo_move);

	return (size + PAGE - 1) & ~(PAGE - 1);
}

void undo_init(struct undo_head *h, size_t max_edits, const struct tracer_id *id, struct gap private,
	       struct gap scratch)
{
	*h = (struct undo_head){
		.version = UNDO_VERSION,
		.head_size = sizeof(*h),
		.size = undo_size(max_edits),
		.max_edits = max_edits,
		.max_moves = max_moves(max_edits),
		.edits_off = sizeof(*h),
		.edit_size = sizeof(struct undo_edit),
		.moves_off = sizeof(*h) + max_edits * sizeof(struct undo_edit),
		.move_size = sizeof(struct undo_move),
		.text = UNDO_TEXT_CLEAN,
		.tracer_pid = id->pid,
		.tracer_start = id->start,
		.tracer_pidns = id->pidns,
		.private_at = private.lo,
		.private_len = private.hi - private.lo,
		.scratch_at = scratch.lo,
		.scratch_len = scratch.hi - scratch.lo,
	};
	__atomic_store_n(&h->magic, UNDO_MAGIC, __ATOMIC_RELEASE);
}

static struct undo_edit *edit_slots(struct undo_head *h)
{
	return (struct undo_edit *)((uint8_t *)h + h->edits_off);
}

static struct undo_move *move_slots(struct undo_head *h)
{
	return (struct undo_move *)((uint8_t *)h + h->moves_off);
}

/* Moves that find no room are left out: a thread found there at removal is waited for instead. */
static uint32_t append_moves(struct undo_head *h, const struct text_patch *patch)
{
	struct undo_move *to = move_slots(h) + h->n_moves;
	size_t i, n = MIN(patch->moves_out.n, (size_t)(h->max_moves - h->n_moves));

	for (i = 0; i < n; i++)
		to[i] = (struct undo_move){ patch->moves_out.v[i].from.v, patch->moves_out.v[i].to.v };
	return h->n_moves + n;
}

int undo_append(struct undo_head *h, const struct text_patch *patch)
{
	struct undo_edit *to = edit_slots(h) + h->n_edits;
	uint32_t n_moves;
	size_t i;

	if (patch->edits.n > h->max_edits - h->n_edits)
		return fail(-ENOSPC, "the undo record has room for %u edits, %zu are wanted",
			    h->max_edits, h->n_edits + patch->edits.n);
	for (i = 0; i < patch->edits.n; i++) {
		const struct edit *e = &patch->edits.v[i];

		to[i] = (struct undo_edit){ .at = e->at.v, .resume = e->resume.v, .len = e->len };
		memcpy(to[i].old, e->old, EDIT_MAX);
		memcpy(to[i].new, e->new, EDIT_MAX);
	}
	n_moves = append_moves(h, patch);
	/* The reader may come at any instruction, after our death: counts last. */
	__atomic_store_n(&h->n_moves, n_moves, __ATOMIC_RELEASE);
	__atomic_store_n(&h->n_edits, h->n_edits + patch->edits.n, __ATOMIC_RELEASE);
	return 0;
}

void undo_truncate(struct undo_head *h, uint32_t n_edits, uint32_t n_moves)
{
	__atomic_store_n(&h->n_edits, n_edits, __ATOMIC_RELEASE);
	__atomic_store_n(&h->n_moves, n_moves, __ATOMIC_RELEASE);
}

void undo_set_text(struct undo_head *h, enum undo_text text)
{
	__atomic_store_n(&h->text, text, __ATOMIC_SEQ_CST);
}

void undo_free(struct undo *u)
{
	vec_free(&u->edits);
	vec_free(&u->moves);
}

static int by_at(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return x->at.v < y->at.v ? -1 : x->at.v > y->at.v;
}

static int by_from(const void *a, const void *b)
{
	const struct move *x = a, *y = b;

	return x->from.v < y->from.v ? -1 : x->from.v > y->from.v;
}

static void sort_moves(struct move *moves, size_t n)
{
	if (n)
		qsort(moves, n, sizeof(*moves), by_from);
}

static void sort_edits(struct edit *edits, size_t n)
{
	if (n)
		qsort(edits, n, sizeof(*edits), by_at);
}

void text_patch_sort(struct text_patch *patch)
{
	sort_edits(patch->edits.v, patch->edits.n);
	sort_moves(patch->moves_in.v, patch->moves_in.n);
	sort_moves(patch->moves_out.v, patch->moves_out.n);
}

static int garbled(const char *what)
{
	return fail(-EBADMSG, "the undo record can't be trusted (%s): left as it is", what);
}

static bool may_be_ours(uint64_t at, uint64_t len)
{
	return at % PAGE == 0 && at < USER_TOP && len % PAGE == 0 && len <= USER_TOP - at;
}

int undo_check(const struct undo_head *h, size_t area)
{
	static const struct undo_head nothing;

	if (area < sizeof(*h))
		return garbled("cut short");
	if (memcmp(h, &nothing, sizeof(*h)) == 0)
		return -ENODATA;
	if (h->magic != UNDO_MAGIC)
		return garbled("no magic word");
	if (h->version < UNDO_VERSION_OLDEST || h->version > UNDO_VERSION)
		return fail(-EBADMSG, "the undo record has version %u, this jab knows %u: left as it is",
			    h->version, UNDO_VERSION);
	if (h->max_edits > UNDO_MAX_EDITS || h->n_edits > h->max_edits ||
	    h->max_moves != max_moves(h->max_edits) || h->n_moves > h->max_moves)
		return garbled("counts");
	if (h->head_size != sizeof(*h) || h->edit_size != sizeof(struct undo_edit) ||
	    h->move_size != sizeof(struct undo_move) || h->edits_off != sizeof(*h) ||
	    h->moves_off != sizeof(*h) + (uint64_t)h->max_edits * sizeof(struct undo_edit) ||
	    h->size != undo_size(h->max_edits) || h->size > area)
		return garbled("sizes");
	if (h->text > UNDO_TEXT_DIRTY)
		return garbled("state");
	if ((h->version > 1 && !may_be_ours(h->private_at, h->private_len)) ||
	    (h->version > 2 && !may_be_ours(h->scratch_at, h->scratch_len)))
		return garbled("private memory");
	return 0;
}

static bool edit_is_sane(const struct undo_edit *e)
{
	return e->len > 0 && e->len <= EDIT_MAX && e->at < USER_TOP - EDIT_MAX && e->resume < USER_TOP;
}

int undo_take(struct undo *u, const struct undo_head *h, const struct undo_edit *edits,
	      const struct undo_move *moves)
{
	size_t i;

	for (i = 0; i < h->n_edits; i++) {
		struct edit *e;

		if (!edit_is_sane(&edits[i]))
			return garbled("an edit");
		e = vec_add(&u->edits);
		e->at = TADDR(edits[i].at);
		e->resume = TADDR(edits[i].resume);
		e->len = edits[i].len;
		memcpy(e->old, edits[i].old, EDIT_MAX);
		memcpy(e->new, edits[i].new, EDIT_MAX);
	}
	for (i = 0; i < h->n_moves; i++) {
		if (moves[i].from >= USER_TOP || moves[i].to >= USER_TOP)
			return garbled("a move");
		*vec_add(&u->moves) = (struct move){ TADDR(moves[i].from), TADDR(moves[i].to) };
	}
	u->text = h->text;
	if (h->version > 1 && h->private_at)
		u->private = (struct gap){ h->private_at, h->private_at + (h->private_len ? h->private_len : PAGE) };
	if (h->version > 2)
		u->scratch = (struct gap){ h->scratch_at, h->scratch_at + h->scratch_len };
	sort_edits(u->edits.v, u->edits.n);
	sort_moves(u->moves.v, u->moves.n);
	for (i = 1; i < u->edits.n; i++)
		if (u->edits.v[i - 1].at.v + u->edits.v[i - 1].len > u->edits.v[i].at.v)
			return garbled("edits that overlap");
	return 0;
}
