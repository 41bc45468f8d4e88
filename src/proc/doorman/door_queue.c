/* SPDX-License-Identifier: MIT */
/*
 * The order in which the tracer is asked about waiting threads ("newcomers"). It takes some 20 ms for each, so if many come some
 * have to wait; many newcomers of one user must not delay the few of another. Users (uids) take turns; of each, few are under
 * way at a time (the tracer was asked and has not finished), and a limited number waits. There are pauses in which all of a
 * user's newcomers are allowed at once, and counted:
 *
 *	after one more than may wait, until fewer come. On the little CPU time that a flood of processes leaves, each step of
 *	attaching to one of them may take 100 ms, and no other user is served meanwhile
 *	after several that the tracer has given up (a loader that never ends)
 *
 * No memory from the heap: the tracer may have had threads when it forked, so malloc's locks may be held.
 */
#include "proc/doorman/door_queue.h"

#include <string.h>

#define LONGEST 1000000000ull		/* a newcomer waits no longer for the tracer, or for those of other users, */
#define LONGEST_OWN 5000000000ull	/* no longer for others of its own user, */
#define LONGEST_CROWD 40000000ull	/* and no longer in a crowd of another user's newcomers */
#define CROWD_NS 2000000000ull		/* how long a crowd lasts after its last newcomer, and how long its user pauses */
#define MOST_OF_GUEST 8			/* a user with at most so many waiting does not count as part of the crowd */
#define MOST_UNDER_WAY 8
#define EACH_UNDER_WAY 2		/* of one user */
#define MOST_IN_CROWD 2			/* both limits in a crowd, smaller because the next one waits until one of these is done */
#define EACH_IN_CROWD 1
#define MOST_OF_USER 64
#define MOST_USERS 128
#define MOST_BAD 3			/* so many given up in a row, and the user pauses */
#define PAUSE_NS 10000000000ull
#define LOST_NS 5000000000ull	/* after so long, one under way counts as done */

struct under_way { uint32_t id, uid; uint64_t since; };
struct user {
	uint32_t uid, bad;
	uint32_t came;		/* newcomers since the pause began or was last extended */
	uint64_t turn, pause_until;
};

static struct waiting waiting[DOOR_MOST_WAITING];
static struct under_way under_way[MOST_UNDER_WAY];
static struct user users[MOST_USERS];
static size_t nwaiting, nunder_way, nusers;
static uint64_t turn, crowded_at;

size_t queue_length(void)
{
	return nwaiting;
}

struct waiting *queue_at(size_t i)
{
	return &waiting[i];
}

void queue_forget(size_t i)
{
	memmove(&waiting[i], &waiting[i + 1], (--nwaiting - i) * sizeof(waiting[0]));
}

/* If the table is full, a new user replaces the one whose last turn is the longest ago. */
static struct user *user_of(uint32_t uid)
{
	size_t oldest = 0;

	for (size_t i = 0; i < nusers; i++) {
		if (users[i].uid == uid)
			return &users[i];
		if (users[i].turn < users[oldest].turn)
			oldest = i;
	}
	if (nusers < MOST_USERS)
		oldest = nusers++;
	users[oldest] = (struct user){ .uid = uid };
	return &users[oldest];
}

static size_t count_waiting(uint32_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < nwaiting; i++)
		n += waiting[i].uid == uid;
	return n;
}

static size_t count_under_way(uint32_t uid)
{
	size_t n = 0;

	for (size_t i = 0; i < nunder_way; i++)
		n += under_way[i].uid == uid;
	return n;
}

bool queue_is_full(uint32_t uid, size_t most)
{
	return nwaiting >= most || nwaiting >= DOOR_MOST_WAITING || count_waiting(uid) >= MOST_OF_USER;
}

static void pause_user(struct user *u, uint64_t until)
{
	u->pause_until = until > u->pause_until ? until : u->pause_until;
	u->came = 0;
}

bool queue_add(const struct waiting *w, size_t most)
{
	struct user *u = user_of(w->uid);
	bool full = queue_is_full(w->uid, most), paused = u->pause_until > w->since;

	if (count_waiting(w->uid) >= MOST_OF_USER || (paused && ++u->came >= MOST_OF_USER)) {
		pause_user(u, w->since + CROWD_NS);
		full = true;
	}
	if (full)
		crowded_at = w->since;
	if (full || paused)
		return false;
	waiting[nwaiting++] = *w;
	return true;
}

bool queue_is_crowded(uint64_t now)
{
	return crowded_at && now - crowded_at < CROWD_NS;
}

bool door_is_late(uint64_t since, bool crowd, uint64_t now)
{
	return since && now - since > (crowd ? LONGEST_CROWD : LONGEST_OWN);
}

bool queue_is_paused(size_t i, uint64_t now)
{
	return user_of(waiting[i].uid)->pause_until > now;
}

bool queue_is_old(size_t i, uint64_t now)
{
	const struct waiting *w = &waiting[i];
	bool own = !w->told && count_under_way(w->uid);

	if (queue_is_crowded(now) && count_waiting(w->uid) <= MOST_OF_GUEST)
		return now - w->since > LONGEST_CROWD;
	return now - (w->told ? w->told : w->since) > (own ? LONGEST_OWN : LONGEST);
}

static void expire(uint64_t now)
{
	for (size_t i = nunder_way; i-- > 0;)
		if (now - under_way[i].since > LOST_NS)
			under_way[i] = under_way[--nunder_way];
}

struct waiting *queue_next(uint64_t now)
{
	bool crowd = queue_is_crowded(now);
	struct waiting *best = NULL;
	struct user *its = NULL;

	expire(now);
	if (nunder_way >= (crowd ? MOST_IN_CROWD : MOST_UNDER_WAY))
		return NULL;
	for (size_t i = 0; i < nwaiting; i++) {	/* the oldest of a user comes first */
		struct user *u;

		if (waiting[i].told || count_under_way(waiting[i].uid) >= (crowd ? EACH_IN_CROWD : EACH_UNDER_WAY))
			continue;
		u = user_of(waiting[i].uid);
		if (u->pause_until <= now && (!best || u->turn < its->turn)) {
			best = &waiting[i];
			its = u;
		}
	}
	if (!best)
		return NULL;
	its->turn = ++turn;
	best->told = now;
	under_way[nunder_way++] = (struct under_way){ best->id, best->uid, now };
	return best;
}

void queue_done(uint32_t id, bool good, uint64_t now)
{
	for (size_t i = 0; i < nunder_way; i++) {
		struct user *u;

		if (under_way[i].id != id)
			continue;
		u = user_of(under_way[i].uid);
		u->bad = good ? 0 : u->bad + 1;
		if (u->bad >= MOST_BAD) {
			u->bad = 0;
			pause_user(u, now + PAUSE_NS);
		}
		under_way[i] = under_way[--nunder_way];
		return;
	}
}
