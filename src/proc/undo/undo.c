/* SPDX-License-Identifier: MIT */
/*
 * The undo record: written with its counts last, so that a tracer killed at any instruction leaves a
 * valid record; checked when it is read, because a process may forge it.
 */
#include "arch/page.h"
#include "proc/undo/undo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/err.h"

#define USER_TOP (arch_host()->user_top)

void arena_name(const struct arena_label *label, char name[ARENA_NAME_MAX])
{
	snprintf(name, ARENA_NAME_MAX, ARENA_PREFIX "%d-%" PRIu64 "-%" PRIu64 "-%" PRIx64 "%s", label->tracer.pid,
		 label->tracer.start, label->tracer.pidns, label->serial, label->data ? ARENA_DATA : "");
}

/* Names of older versions have no serial number: they are accepted, so that the arena is found and the version can be reported. */
bool arena_name_parse(const char *path, struct arena_label *ret_label)
{
	struct arena_label l = { 0 };
	struct tracer_id *id = &l.tracer;
	int end = 0, more = 0;

	if (strncmp(path, ARENA_PATH, strlen(ARENA_PATH)) != 0)
		return false;
	path += strlen(ARENA_PATH);
	if (sscanf(path, "%d-%" SCNu64 "-%" SCNu64 "%n-%" SCNx64 "%n", &id->pid, &id->start, &id->pidns, &end,
		   &l.serial, &more) < 3)
		return false;
	path += MAX(end, more);
	l.data = more && strncmp(path, ARENA_DATA, strlen(ARENA_DATA)) == 0;
	if (l.data)
		path += strlen(ARENA_DATA);
	if (id->pid <= 0 || (*path && strcmp(path, " (deleted)") != 0))
		return false;
	*ret_label = l;
	return true;
}

bool same_tracer(const struct tracer_id *x, const struct tracer_id *y)
{
	return x->pid == y->pid && x->start == y->start && x->pidns == y->pidns;
}

bool same_arena(const struct arena_label *x, const struct arena_label *y)
{
	return same_tracer(&x->tracer, &y->tracer) && x->serial == y->serial;
}

bool is_arena_path(const char *path)
{
	return strncmp(path, ARENA_PATH, strlen(ARENA_PATH)) == 0;
}

static size_t max_moves(size_t max_edits)
{
	return max_edits * UNDO_MOVES_PER_EDIT;
}

/* A site has up to three edits, and at most one semaphore. */
static size_t max_semaphores(size_t max_edits)
{
	return max_edits / 3 + 1;
}

static uint64_t semaphores_off(size_t max_edits)
{
	return sizeof(struct undo_head) + max_edits * sizeof(struct undo_edit) + max_moves(max_edits) * sizeof(struct undo_move);
}

uint64_t undo_semaphores_off(const struct undo_head *h)
{
	return semaphores_off(h->max_edits);
}

size_t undo_size(size_t max_edits)
{
	size_t size = semaphores_off(max_edits) + max_semaphores(max_edits) * sizeof(struct undo_semaphore);

	return (size + PAGE - 1) & ~(PAGE - 1);
}

int undo_init(struct undo_book *b, size_t max_edits, struct gap private, struct gap scratch)
{
	*b = (struct undo_book){
		.max_edits = max_edits,
		.max_moves = max_moves(max_edits),
		.text = UNDO_TEXT_CLEAN,
		.private = private,
		.scratch = scratch,
	};
	if (getrandom(b->nonce, sizeof(b->nonce), 0) != sizeof(b->nonce))
		return fail(-errno, "no random numbers: %s", strerror(errno));
	return 0;
}

/* The magic word last: without it nothing was written. */
void undo_start(struct undo_book *b, struct undo_head *h, const struct tracer_id *id)
{
	b->shared = h;
	b->made = wall_ns();
	*h = (struct undo_head){
		.version = UNDO_VERSION,
		.head_size = sizeof(*h),
		.size = undo_size(b->max_edits),
		.max_edits = b->max_edits,
		.max_moves = b->max_moves,
		.edits_off = sizeof(*h),
		.edit_size = sizeof(struct undo_edit),
		.moves_off = sizeof(*h) + b->max_edits * sizeof(struct undo_edit),
		.move_size = sizeof(struct undo_move),
		.text = b->text,
		.tracer_pid = id->pid,
		.tracer_start = id->start,
		.tracer_pidns = id->pidns,
		.private_at = b->private.lo,
		.private_len = b->private.hi - b->private.lo,
		.scratch_at = b->scratch.lo,
		.scratch_len = b->scratch.hi - b->scratch.lo,
		.nonce = { b->nonce[0], b->nonce[1] },
		.made = b->made,
	};
	__atomic_store_n(&h->magic, UNDO_MAGIC, __ATOMIC_RELEASE);
}

static struct undo_edit *edit_slots(const struct undo_book *b)
{
	return (struct undo_edit *)(b->shared + 1);
}

static struct undo_move *move_slots(const struct undo_book *b)
{
	return (struct undo_move *)(edit_slots(b) + b->max_edits);
}

/* Moves for which there is no room are left out: at removal, a thread at such an address is waited for instead. */
static void append_moves(struct undo_book *b, const struct text_patch *patch)
{
	struct undo_move *to = move_slots(b) + b->moves.n;
	size_t i, n = MIN(patch->moves_out.n, b->max_moves - b->moves.n);

	for (i = 0; i < n; i++) {
		to[i] = (struct undo_move){ patch->moves_out.v[i].from.v, patch->moves_out.v[i].to.v };
		*vec_add(&b->moves) = patch->moves_out.v[i];
	}
}

static struct undo_semaphore *semaphore_slots(const struct undo_book *b)
{
	return (struct undo_semaphore *)((uint8_t *)b->shared + semaphores_off(b->max_edits));
}

void undo_set_semaphore(struct undo_book *b, size_t i, enum semaphore_state state, uint16_t before)
{
	struct undo_semaphore *to = &semaphore_slots(b)[i];

	b->semaphores.v[i].before = before;
	b->semaphores.v[i].state = state;
	/* In this order: whoever sees RAISING or LOWERING needs the value. */
	__atomic_store_n(&to->before, before, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->state, state, __ATOMIC_SEQ_CST);
}

void undo_set_lowering(struct undo_book *b, pid_t pid)
{
	__atomic_store_n(&b->shared->lowering, pid, __ATOMIC_SEQ_CST);
}

static void append_semaphores(struct undo_book *b, const struct text_patch *patch)
{
	for (size_t i = 0; i < patch->semaphores.n; i++) {
		const struct semaphore *s = &patch->semaphores.v[i];

		semaphore_slots(b)[b->semaphores.n] = (struct undo_semaphore){ .at = s->at.v, .edit = s->edit.v };
		*vec_add(&b->semaphores) = (struct semaphore){ .at = s->at, .edit = s->edit };
	}
}

static void write_counts(struct undo_book *b)
{
	__atomic_store_n(&b->shared->n_semaphores, b->semaphores.n, __ATOMIC_RELEASE);
	__atomic_store_n(&b->shared->n_moves, b->moves.n, __ATOMIC_RELEASE);
	__atomic_store_n(&b->shared->n_edits, b->edits.n, __ATOMIC_RELEASE);
}

int undo_append(struct undo_book *b, const struct text_patch *patch)
{
	struct undo_edit *to = edit_slots(b) + b->edits.n;
	size_t i;

	if (patch->edits.n > b->max_edits - b->edits.n)
		return fail(-ENOSPC, "the undo record has room for %u edits, %zu are wanted",
			    b->max_edits, b->edits.n + patch->edits.n);
	if (patch->semaphores.n > max_semaphores(b->max_edits) - b->semaphores.n)
		return fail(-ENOSPC, "the undo record has no room for %zu semaphores", patch->semaphores.n);
	for (i = 0; i < patch->edits.n; i++) {
		const struct edit *e = &patch->edits.v[i];

		to[i] = (struct undo_edit){ .at = e->at.v, .resume = e->resume.v, .len = e->len };
		memcpy(to[i].old, e->old, EDIT_MAX);
		memcpy(to[i].new, e->new, EDIT_MAX);
		*vec_add(&b->edits) = *e;
	}
	append_moves(b, patch);
	append_semaphores(b, patch);
	write_counts(b);	/* last: the tracer may be killed at any instruction, and then another process reads the record */
	return 0;
}

void undo_truncate(struct undo_book *b, uint32_t n_edits, uint32_t n_moves, uint32_t n_semaphores)
{
	b->semaphores.n = n_semaphores;
	b->edits.n = n_edits;
	b->moves.n = n_moves;
	write_counts(b);
}

void undo_set_text(struct undo_book *b, enum undo_text text)
{
	b->text = text;
	__atomic_store_n(&b->shared->text, text, __ATOMIC_SEQ_CST);
}

void undo_close(struct undo_book *b)
{
	vec_free(&b->edits);
	vec_free(&b->moves);
	vec_free(&b->semaphores);
}

void undo_free(struct undo *u)
{
	vec_free(&u->edits);
	vec_free(&u->moves);
	vec_free(&u->semaphores);
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

int undo_garbled(const char *what)
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
		return undo_garbled("cut short");
	if (memcmp(h, &nothing, sizeof(*h)) == 0)
		return -ENODATA;
	if (h->magic != UNDO_MAGIC)
		return undo_garbled("no magic word");
	if (h->version != UNDO_VERSION)
		return fail(-EBADMSG, "the undo record has version %u, this jab reads only %u: left as it is; the jab "
			    "that made it can recover it", h->version, UNDO_VERSION);
	if (h->max_edits > UNDO_MAX_EDITS || h->n_edits > h->max_edits ||
	    h->max_moves != max_moves(h->max_edits) || h->n_moves > h->max_moves || h->n_semaphores > max_semaphores(h->max_edits))
		return undo_garbled("counts");
	if (h->head_size != sizeof(*h) || h->edit_size != sizeof(struct undo_edit) ||
	    h->move_size != sizeof(struct undo_move) || h->edits_off != sizeof(*h) ||
	    h->moves_off != sizeof(*h) + (uint64_t)h->max_edits * sizeof(struct undo_edit) ||
	    h->size != undo_size(h->max_edits) || h->size > area)
		return undo_garbled("sizes");
	if (h->text > UNDO_TEXT_DIRTY)
		return undo_garbled("state");
	if (!may_be_ours(h->private_at, h->private_len) || !may_be_ours(h->scratch_at, h->scratch_len))
		return undo_garbled("private memory");
	return 0;
}

static bool edit_is_sane(const struct undo_edit *e)
{
	return e->len > 0 && e->len <= EDIT_MAX && e->at < USER_TOP - EDIT_MAX && e->resume < USER_TOP;
}

int undo_take_edits(struct undo *u, const struct undo_edit *edits, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct edit *e;

		if (!edit_is_sane(&edits[i]))
			return undo_garbled("an edit");
		e = vec_add(&u->edits);
		e->at = TADDR(edits[i].at);
		e->resume = TADDR(edits[i].resume);
		e->len = edits[i].len;
		memcpy(e->old, edits[i].old, EDIT_MAX);
		memcpy(e->new, edits[i].new, EDIT_MAX);
	}
	return 0;
}

int undo_take_moves(struct undo *u, const struct undo_move *moves, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (moves[i].from >= USER_TOP || moves[i].to >= USER_TOP)
			return undo_garbled("a move");
		*vec_add(&u->moves) = (struct move){ TADDR(moves[i].from), TADDR(moves[i].to) };
	}
	return 0;
}

int undo_take_semaphores(struct undo *u, const struct undo_semaphore *semaphores, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct undo_semaphore *s = &semaphores[i];

		if (s->at >= USER_TOP - sizeof(uint16_t) || s->edit >= USER_TOP || s->state > SEMAPHORE_LOWERED)
			return undo_garbled("a semaphore");
		*vec_add(&u->semaphores) = (struct semaphore){ TADDR(s->at), TADDR(s->edit), s->before, s->state };
	}
	return 0;
}

int undo_take_end(struct undo *u, const struct undo_head *h)
{
	u->text = h->text;
	u->lowering = h->lowering;
	u->private = (struct gap){ h->private_at, h->private_at + h->private_len };
	u->scratch = (struct gap){ h->scratch_at, h->scratch_at + h->scratch_len };
	sort_edits(u->edits.v, u->edits.n);
	sort_moves(u->moves.v, u->moves.n);
	for (size_t i = 1; i < u->edits.n; i++)
		if (u->edits.v[i - 1].at.v + u->edits.v[i - 1].len > u->edits.v[i].at.v)
			return undo_garbled("edits that overlap");
	return 0;
}

void undo_from_book(struct undo *u, const struct undo_book *b)
{
	for (size_t i = 0; i < b->edits.n; i++)
		*vec_add(&u->edits) = b->edits.v[i];
	for (size_t i = 0; i < b->moves.n; i++)
		*vec_add(&u->moves) = b->moves.v[i];
	for (size_t i = 0; i < b->semaphores.n; i++)
		*vec_add(&u->semaphores) = b->semaphores.v[i];
	u->text = b->text;
	u->private = b->private;
	u->scratch = b->scratch;
	sort_edits(u->edits.v, u->edits.n);
	sort_moves(u->moves.v, u->moves.n);
}
