/* SPDX-License-Identifier: MIT */
/*
 * A cache of the system calls found in a file's text, for the next process that maps the same part of the same file. A private
 * copy of a page may differ from the file: if a process has one in the mapping, its text is searched again. Before text is
 * written, it is compared with the expected bytes in any case.
 */
#include "arch/page.h"
#include "proc/text/knowncalls.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "proc/fileid.h"
#include "proc/internal.h"

#define MOST_FILES 64
#define MOST_CALLS 4096		/* of one file; no library has so many */
#define AT_ONCE 512		/* pagemap entries in one read */
#define IS_FILES (1ull << 61)	/* the page belongs to the file */
#define IS_THERE (3ull << 62)	/* present, or swapped out */

struct known {
	struct file_id id;
	uint64_t offset, len;	/* of the mapping */
	bool loader;		/* it was searched as a loader: see is_loader() in textcalls.c */
	VEC(struct text_call) calls;	/* at: offset from the start of the mapping */
	uint64_t used;		/* value of `uses` at its last use */
};

static VEC(struct known) known;
static uint64_t uses;

static struct known *find(const struct map *m, const struct file_id *id, bool loader)
{
	for (size_t i = 0; i < known.n; i++) {
		struct known *k = &known.v[i];

		if (file_id_same(&k->id, id) && k->offset == m->offset && k->len == m->end - m->start && k->loader == loader)
			return k;
	}
	return NULL;
}

/* Opened once for all mappings of a process, until known_calls_done(). */
static int known_pagemap(struct proc *p)
{
	char path[64];

	if (priv(p)->pagemap < 0 && proc_path(p, "pagemap", path, sizeof(path)) == 0)
		priv(p)->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	return priv(p)->pagemap;
}

void known_calls_done(struct proc *p)
{
	if (priv(p)->pagemap >= 0)
		close(priv(p)->pagemap);
	priv(p)->pagemap = -1;
}

/* Whether a page of the mapping is a private copy. true also if that is not known. */
static bool has_private_pages(struct proc *p, const struct map *m)
{
	uint64_t entries[AT_ONCE];
	bool has = false;
	int fd = known_pagemap(p);

	if (fd < 0)
		return true;
	for (uint64_t at = m->start; !has && at < m->end; at += AT_ONCE * PAGE) {
		size_t want = MIN((m->end - at) / PAGE, (uint64_t)AT_ONCE);
		ssize_t n = pread(fd, entries, want * sizeof(entries[0]), at / PAGE * sizeof(entries[0]));

		has = n != (ssize_t)(want * sizeof(entries[0]));
		for (size_t i = 0; !has && i < want; i++)
			has = (entries[i] & IS_THERE) && !(entries[i] & IS_FILES);
	}
	if (!has && proc_is_still(p))
		*vec_add(&priv(p)->pristine) = (struct gap){ m->start, m->end };
	return has;
}

bool proc_text_is_files(const struct proc *p, uint64_t lo, uint64_t hi)
{
	const struct proc_priv *v = priv(p);

	for (size_t i = 0; proc_is_still(p) && i < v->pristine.n; i++)
		if (lo >= v->pristine.v[i].lo && hi <= v->pristine.v[i].hi)
			return true;
	return false;
}

bool known_calls_take(struct proc *p, const struct map *m, bool loader, void (*take)(void *arg, const struct text_call *c), void *arg)
{
	struct file_id id;
	struct known *k;

	if (!known.n || !proc_file_id(p, m, &id))
		return false;
	k = find(m, &id, loader);
	if (!k || has_private_pages(p, m))
		return false;
	k->used = ++uses;
	for (size_t i = 0; i < k->calls.n; i++) {
		struct text_call c = k->calls.v[i];

		c.at.v += m->start;
		take(arg, &c);
	}
	return true;
}

static struct known *oldest(void)
{
	struct known *k = &known.v[0];

	if (known.n < MOST_FILES)
		return vec_add(&known);
	for (size_t i = 1; i < known.n; i++)
		if (known.v[i].used < k->used)
			k = &known.v[i];
	vec_free(&k->calls);
	return k;
}

void known_calls_keep(struct proc *p, const struct map *m, bool loader, const struct file_id *before,
		      const struct text_call *calls, size_t n)
{
	struct file_id after;
	struct known *k;

	if (n > MOST_CALLS || !proc_file_id(p, m, &after) || !file_id_same(before, &after) ||
	    !file_id_is_settled(&after, wall_ns()) || has_private_pages(p, m) || find(m, &after, loader))
		return;
	k = oldest();
	*k = (struct known){ .id = after, .offset = m->offset, .len = m->end - m->start, .loader = loader, .used = ++uses };
	for (size_t i = 0; i < n; i++)
		if (calls[i].at.v >= m->start && calls[i].at.v < m->end) {
			struct text_call *c = vec_add(&k->calls);

			*c = calls[i];
			c->at.v -= m->start;
		}
}
