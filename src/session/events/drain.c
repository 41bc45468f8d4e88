/* SPDX-License-Identifier: MIT */
/*
 * Taking events out of the rings. For a trace each ring is a stream of its own: what is there becomes
 * a packet, unsorted and untouched. For a reader who wants lines, the rings are merged by time; then
 * what is younger than HOLD stays where it is until the next round, because an older event may still
 * be on its way into another ring.
 */
#include "session/events/drain.h"

#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "proc/threads/ids.h"
#include "session/scripts/budget.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/stacks.h"
#include "session/scripts/units.h"
#include "session/watches/known.h"
#include "trace/live.h"

#define PIECE (512u << 10)	/* looked at, checked and written while it is in the cache */
#define HOLD_NS 2000000
#define WAIT_LEAST 1000000ull
#define WAIT_MOST 50000000ull
#define WAIT_IN_PARTS 5000000ull	/* a program has just begun, and its rings are not all there */
#define FORGET_AFTER 1000000000ull

static uint32_t nrings(const struct target *t)
{
	return t->rings && t->rings->ready ? t->rings->ncpu + t->rings->nlocked : 0;
}

/*
 * All that were lost in this ring's name: the sum of what each probe lost, so that both agree to the last one, also if
 * the target was killed between the two increments (the ring's own number only tells that something is new), and one for
 * each time that it held what is no event, and what the trace has no room for. It never falls, whatever the target writes there.
 */
static uint64_t lost_of(const struct target *t, struct own_ring *own)
{
	uint64_t hint = rings_lost_hint(t, own), lost;

	if (hint == own->lost_hint)
		return own->told;
	own->lost_hint = hint;
	lost = rings_lost_in(t, own) + own->r.damaged + own->cut;
	return MAX(lost, own->told);
}

/* Into the totals, before a ring is put away with its target. */
static void gather_damage(struct jab *j)
{
	struct events *e = j->events;

	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; k < nrings(&j->targets.v[i]); k++) {
			struct own_ring *own = &j->targets.v[i].rings->v[k];

			e->unread += own->r.damaged - own->damaged;
			e->unread_bytes += own->r.damaged_bytes - own->damaged_bytes;
			own->damaged = own->r.damaged;
			own->damaged_bytes = own->r.damaged_bytes;
		}
}

/* What was counted as recorded is not, after all. */
static void uncount(struct events *e, const struct ctf_span *span, bool unwritten)
{
	struct event_head head;

	for (uint64_t off = 0; off < span->len; off += head.len) {	/* they were found to be good */
		memcpy(&head, (const uint8_t *)span->data + off, sizeof(head));
		if (head.id >= e->rows)
			break;
		e->recorded.v[head.id]--;
		e->unwritten.v[head.id] += unwritten;
	}
}

/* Numbers of another pid namespace become ours, in our copy. */
static void translate(struct target *t, const struct own_ring *own, uint8_t *span, uint64_t len)
{
	struct event_head head;
	uint64_t off = 0, at = 0;

	if (!t->rings->foreign_ids || !len)
		return;
	if (!t->rings->ids)
		t->rings->ids = id_map_new(t->proc);
	for (; ring_next(&own->r, span, len, &off, &head); at = off) {
		id_map_translate(t->rings->ids, &head.pid, &head.tid);
		memcpy(span + at, &head, sizeof(head));
	}
}

/* How much of it is not younger than that. */
static uint64_t up_to(const struct own_ring *own, const uint8_t *span, uint64_t len, uint64_t time)
{
	struct event_head head;
	uint64_t off = 0, at = 0;

	while (ring_next(&own->r, span, len, &off, &head) && head.time <= time)
		at = off;
	return off > at ? at : len;
}

/*
 * The good events of a span, counted. Times only grow, so the first and the last one tell: what is older than this session, or
 * comes from the future, was written by the target itself, and no reader of the trace could go on after it.
 */
static void check_span(struct jab *j, struct ctf *trace, struct own_ring *own, const uint8_t *data, uint64_t len,
		       struct ctf_span *ret_span)
{
	struct events *e = j->events;
	int r = ctf_check_counted(trace, data, len, e->recorded.v, ret_span);
	uint64_t now = clock_now();

	if (ret_span->events && (ret_span->first < e->look.ticks || ret_span->last > now)) {
		uint64_t good = ret_span->first < e->look.ticks ? 0 : up_to(own, data, ret_span->len, now);

		uncount(e, ret_span, false);
		r = -EBADMSG;
		ctf_check_counted(trace, data, good, e->recorded.v, ret_span);
	}
	if (r < 0)
		ring_damage(&own->r, len - ret_span->len);
}

/* Of no more than `most` events: the oldest ones. */
static bool is_wanted(const struct events *e, const struct event_head *head, uint64_t kept)
{
	return !e->o.most || (e->events + kept < e->o.most && head->time <= e->until);
}

/* --max-size and -n: the events that still fit and are wanted; the others are lost. */
static void cut_span(struct jab *j, struct own_ring *own, struct ctf_span *span)
{
	struct events *e = j->events;
	uint64_t room = ctf_room(e->trace, own->stream), off = 0, kept = 0, all = span->events;
	struct ctf_span rest = *span;
	struct event_head head;
	bool full = false;

	if (span->len <= room && !e->o.most)
		return;
	for (; off < span->len; off += head.len, kept++) {	/* they were found to be good */
		memcpy(&head, (const uint8_t *)span->data + off, sizeof(head));
		full = head.len > room - off;
		if (full || !is_wanted(e, &head, kept))
			break;
	}
	if (off == span->len)
		return;
	rest.data = (const uint8_t *)span->data + off;
	rest.len = span->len - off;
	uncount(e, &rest, true);
	ctf_check(e->trace, span->data, off, span);
	own->cut += all - span->events;
	if (full)
		ctf_end(e->trace);
}

static int write_span(struct jab *j, struct target *t, struct own_ring *own, const uint8_t *data, uint64_t len,
		      uint64_t *ret_events)
{
	struct events *e = j->events;
	struct ctf_span span = { 0 };
	uint64_t lost;
	int r;

	check_span(j, e->trace, own, data, len, &span);
	cut_span(j, own, &span);
	lost = lost_of(t, own);
	*ret_events = span.events;
	if (!span.events && lost == own->told)
		return 0;
	r = ctf_packet(e->trace, own->stream, own->cpu, &span, lost);
	own->told = lost;
	if (r < 0) {
		uncount(e, &span, true);
		return r;
	}
	e->events += span.events;
	e->bytes += span.len;
	return 0;
}

/* The same memory each time: new pages cost more than what is done with them. */
static uint8_t *room_for(struct events *e, uint64_t len)
{
	if (len > e->copy_size) {
		e->copy_size = MAX(len, PIECE + EVENT_LEN_MAX);
		free(e->copy);
		e->copy = xrealloc(NULL, e->copy_size);
	}
	return e->copy;
}

/* What was peeked at may have changed until it was copied: only events that the target has sites of are taken. */
static uint64_t good_part(struct own_ring *own, const uint8_t *copy, uint64_t len)
{
	struct event_head head;
	uint64_t off = 0;

	while (ring_next(&own->r, copy, len, &off, &head))
		;
	if (off < len)
		ring_damage(&own->r, len - off);
	return off;
}

/* From a copy: nobody can change any more what was checked, and the ring has room again at once. */
static int64_t write_piece(struct jab *j, struct target *t, struct own_ring *own, uint64_t *ret_len)
{
	const uint8_t *span;
	uint64_t len = ring_peek_some(&own->r, PIECE, &span), events, good;
	uint8_t *copy = room_for(j->events, len);
	int r;

	if (len)
		memcpy(copy, span, len);
	ring_consume(&own->r, len);
	good = good_part(own, copy, len);
	translate(t, own, copy, good);
	span = stacks_widen(j, t, copy, good, ret_len);
	r = write_span(j, t, own, span, *ret_len, &events);
	*ret_len = len;
	return r < 0 ? r : (int64_t)events;
}

/* What is there, piece by piece, so that there is room again soon; at most a ring full, for the others' sake. */
static int64_t write_ring(struct jab *j, struct target *t, struct own_ring *own, bool last)
{
	uint64_t len, all = 0;
	int64_t events = 0, n, r = 0;

	do {
		if (!last && !ctf_ready(j->events->trace))
			break;
		n = write_piece(j, t, own, &len);
		if (n < 0)
			r = n;
		else
			events += n;
		all += len;
	} while (len && all < own->r.size);
	return r ? r : events;
}

/* One ring in the merge. */
struct cursor {
	struct target *t;
	struct own_ring *own;
	const uint8_t *span;
	uint64_t len, at, next;	/* this event, and what is behind it */
	struct event_head head;
	bool ready;
};

static void step(struct cursor *c)
{
	c->at = c->next;
	c->ready = ring_next(&c->own->r, c->span, c->len, &c->next, &c->head);
}

static void note_damage(struct cursor *c)
{
	if (!c->ready && c->next < c->len)
		ring_damage(&c->own->r, c->len - c->next);
}

static struct cursor *oldest(struct cursor *v, size_t n)
{
	struct cursor *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].ready && (!best || v[i].head.time < best->head.time))
			best = &v[i];
	return best;
}

/* From a copy: what was checked can't change any more. */
static int hand_out_raw(struct jab *j, struct cursor *c, bool *ret_good)
{
	struct events *e = j->events;
	uint8_t *copy = xrealloc(NULL, c->head.len);
	struct raw_event ev = { c->head, copy + sizeof(c->head), c->own->stream, c->own->cpu, c->t->main, 0 };
	int r;

	memcpy(copy, c->span + c->at, c->head.len);
	if (c->t->rings->foreign_ids) {
		if (!c->t->rings->ids)
			c->t->rings->ids = id_map_new(c->t->proc);
		id_map_translate(c->t->rings->ids, &ev.head.pid, &ev.head.tid);
	}
	*ret_good = true;
	c->own->told = ev.lost = lost_of(c->t, c->own);
	e->events++;
	e->bytes += c->head.len;
	r = e->raw(e->arg, &ev);
	free(copy);
	return r;
}

static int hand_out(struct jab *j, struct cursor *c, bool *ret_good)
{
	struct events *e = j->events;
	struct trace_event ev = { .stream = c->own->stream, .cpu = c->own->cpu };
	uint64_t lost = lost_of(c->t, c->own), len;
	const uint8_t *event = stacks_widen(j, c->t, c->span + c->at, c->head.len, &len);

	/* it was copied again, and may have become another one */
	*ret_good = live_event(e->trace, &e->clock, event, len, &ev) && ev.class->id == c->head.id && c->head.id < e->rows;
	if (!*ret_good) {
		ring_damage(&c->own->r, c->head.len);
		return 0;
	}
	if (c->t->rings->foreign_ids) {
		if (!c->t->rings->ids)
			c->t->rings->ids = id_map_new(c->t->proc);
		id_map_translate(c->t->rings->ids, &ev.pid, &ev.tid);
	}
	ev.lost = lost - c->own->told;
	c->own->told = lost;
	e->recorded.v[c->head.id]++;
	e->events++;
	e->bytes += c->head.len;
	return e->each(e->arg, &ev);
}

static size_t open_cursors(struct jab *j, struct cursor **ret_v)
{
	size_t n = 0;

	for (size_t i = 0; i < j->targets.n; i++)
		n += nrings(&j->targets.v[i]);
	*ret_v = xcalloc(n + 1, sizeof(**ret_v));
	n = 0;
	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; k < nrings(&j->targets.v[i]); k++) {
			struct cursor *c = &(*ret_v)[n];

			c->t = &j->targets.v[i];
			c->own = &c->t->rings->v[k];
			c->len = ring_peek(&c->own->r, &c->span);
			step(c);
			n += c->len != 0;
		}
	return n;
}

/* What was lost behind the last event of a ring: no other may come that tells it. */
static int hand_out_losses(struct jab *j)
{
	int r = 0;

	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; !r && k < nrings(&j->targets.v[i]); k++) {
			struct own_ring *own = &j->targets.v[i].rings->v[k];
			struct raw_event ev = { .stream = own->stream, .cpu = own->cpu, .target = j->targets.v[i].main };

			ev.lost = lost_of(&j->targets.v[i], own);
			if (ev.lost == own->told)
				continue;
			own->told = ev.lost;
			r = j->events->raw(j->events->arg, &ev);
		}
	return r;
}

static int64_t merge(struct jab *j, bool last)
{
	struct events *e = j->events;
	uint64_t until = last ? UINT64_MAX : clock_now() - HOLD_NS * (e->clock.hz / 1000000) / 1000;
	struct cursor *v, *c;
	size_t n = open_cursors(j, &v);
	int64_t events = 0;
	int r = 0;

	while (!r && (c = oldest(v, n)) && c->head.time <= until) {
		bool good;

		r = e->raw ? hand_out_raw(j, c, &good) : hand_out(j, c, &good);
		events += good;
		step(c);
	}
	for (size_t i = 0; i < n; i++) {	/* nonsense is not looked at again */
		note_damage(&v[i]);
		ring_consume(&v[i].own->r, v[i].ready ? v[i].at : v[i].len);
	}
	free(v);
	if (!r && e->raw)
		r = hand_out_losses(j);
	return r ? r : events;
}

/* The time of the n-th oldest event in the rings; UINT64_MAX: there are not so many. */
static uint64_t time_of(struct jab *j, uint64_t n)
{
	struct cursor *v, *c;
	size_t count = open_cursors(j, &v);
	uint64_t time = 0;

	for (; n && (c = oldest(v, count)); n--) {
		time = c->head.time;
		step(c);
	}
	free(v);
	return n ? UINT64_MAX : time;
}

static int64_t write_all(struct jab *j, bool last)
{
	struct events *e = j->events;
	int64_t events = 0, r = 0;

	if (e->o.most)
		e->until = e->events < e->o.most ? time_of(j, e->o.most - e->events) : 0;
	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; k < nrings(&j->targets.v[i]); k++) {
			int64_t n = write_ring(j, &j->targets.v[i], &j->targets.v[i].rings->v[k], last);

			if (n < 0)
				r = n;
			else
				events += n;
		}
	return r ? r : events;
}

/*
 * So long that the fullest ring would be an eighth full, at the rate since the last time: the rest is for delays, ours
 * on a busy machine and the disk's.
 */
static void choose_wait(struct jab *j)
{
	struct events *e = j->events;
	uint64_t now = now_ns(), past = now - e->drained_at, most = 0, size = RING_SIZE_MIN;

	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; k < nrings(&j->targets.v[i]); k++) {
			struct own_ring *own = &j->targets.v[i].rings->v[k];

			most = MAX(most, own->r.tail - own->before);
			own->before = own->r.tail;
			size = j->targets.v[i].rings->size;
		}
	e->wait_ns = most ? (double)past * (size / 8) / most : WAIT_MOST;
	if (most > size / 2)	/* it may have been full: the rate is higher than it seems */
		e->wait_ns = WAIT_LEAST;
	e->wait_ns = j->budget ? WAIT_LEAST : MIN(MAX(e->wait_ns, WAIT_LEAST), e->in_parts ? WAIT_IN_PARTS : WAIT_MOST);
	e->drained_at = now;
}

static void look_after(struct jab *j)
{
	bool forget = now_ns() - j->events->forgot_at >= FORGET_AFTER;

	if (forget)
		j->events->forgot_at = now_ns();
	j->events->in_parts = false;
	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		for (uint32_t k = 0; k < nrings(t); k++)
			ring_expect(&t->rings->v[k].r, t->rings->lens.v, t->rings->lens.n);
		if (nrings(t)) {
			rings_free_locks(t);
			j->events->any_quiet |= rings_say_quiet(t);
			j->events->any_timeless |= t->rings->told_timeless;
			units_look_after(j, t);
			rings_lower(t);
			known_look_after(t);
			rings_follow_cpus(t);
			j->events->in_parts |= rings_touch_rest(t);
			if (forget)
				rings_forget_stacks(t);
		}
	}
}

static bool is_merged(const struct jab *j)
{
	return j->events->each || j->events->raw;
}

static void say_unknown(const struct jab *j)
{
	for (size_t i = 0; i < j->targets.n; i++) {
		const struct target *t = &j->targets.v[i];
		uint64_t n = t->rings && t->proc ? id_map_unknown(t->rings->ids) : 0;

		if (n && !j->events->raw)	/* scripts have their own way: IR_CTX_PID */
			log_warn("process %d: %llu events were read when their threads had ended: they show tid, or pid and tid, as in "
				 "the program's own pid namespace", t->proc->pid, (unsigned long long)n);
	}
}

static void say_known(struct jab *j)
{
	for (size_t i = 0; i < j->targets.n; i++)
		known_say(&j->targets.v[i]);
}

/* Nothing is to come: don't go by hints. */
static void forget_hints(struct jab *j)
{
	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; k < nrings(&j->targets.v[i]); k++)
			j->targets.v[i].rings->v[k].lost_hint = UINT64_MAX;
}

int64_t drain(struct jab *j, bool last)
{
	int64_t r;

	look_after(j);
	if (j->budget)
		budget_tick(j);
	if (last)
		forget_hints(j);
	if (j->events->o.overwrite)
		return 0;
	r = is_merged(j) ? merge(j, last) : write_all(j, last);
	gather_damage(j);
	choose_wait(j);
	if (!is_merged(j) && !ctf_ready(j->events->trace))
		j->events->wait_ns = WAIT_LEAST;
	if (last) {
		say_unknown(j);
		say_known(j);
	}
	targets_retire(j);
	return r;
}

/* Rings are copied one after the other: what is younger than the first copy would have gaps between them. */
static int64_t snapshot_ring(struct jab *j, struct target *t, struct own_ring *own, struct ctf *trace, uint64_t until)
{
	uint8_t *buf = malloc(t->rings->size);	/* as large as the user wanted it: no reserve is for this */
	const uint8_t *start;
	int64_t len = buf ? ring_snapshot(&own->r, buf, &start) : -ENOMEM;
	uint64_t wide;
	struct ctf_span span = { 0 };
	int r = 0;

	if (!buf)
		return fail(-ENOMEM, "no memory for a copy of a buffer of %llu bytes", (unsigned long long)t->rings->size);
	if (len < 0) {
		j->events->damaged += len == -EAGAIN;
		free(buf);
		return 0;
	}
	len = up_to(own, start, len, until);
	translate(t, own, buf + (start - buf), len);
	start = stacks_widen(j, t, start, len, &wide);
	check_span(j, trace, own, start, wide, &span);
	if (span.events)
		r = ctf_packet(trace, own->stream, own->cpu, &span, lost_of(t, own));
	if (!r) {
		j->events->events += span.events;
		j->events->bytes += span.len;
	}
	free(buf);
	return r < 0 ? r : (int64_t)span.events;
}

int64_t drain_snapshot(struct jab *j, struct ctf *trace)
{
	uint64_t until = clock_now();
	int64_t events = 0, r = 0;

	look_after(j);
	memset(j->events->recorded.v, 0, j->events->rows * sizeof(*j->events->recorded.v));
	for (size_t i = 0; i < j->targets.n; i++)
		for (uint32_t k = 0; k < nrings(&j->targets.v[i]); k++) {
			struct own_ring *own = &j->targets.v[i].rings->v[k];
			int64_t n = own->live ? snapshot_ring(j, &j->targets.v[i], own, trace, until) : 0;

			if (n < 0)
				r = n;
			else
				events += n;
		}
	gather_damage(j);
	return r ? r : events;
}
