/* SPDX-License-Identifier: MIT */
/*
 * "Did you mean ...": the names with the smallest edit distance. Nearly all of a hundred thousand names are
 * excluded by their length or by the set of letters in them, before a distance is computed.
 */
#include "sym/priv.h"

#include <stdio.h>

#define MOST_WANTED 128		/* longer names get no suggestions by distance */
#define MOST_SHOWN 8
#define MOST_DEMANGLED 20000

struct candidate { char *name; int distance; };

struct search {
	const char *wanted;
	size_t len;
	uint64_t letters;
	int limit;			/* greatest distance that is accepted */
	int most;
	struct candidate best[MOST_SHOWN];
	int n, demangled;
};

static uint64_t letters_of(const char *s, size_t len)
{
	uint64_t set = 0;
	size_t i;

	for (i = 0; i < len; i++)
		set |= 1ull << ((unsigned char)s[i] % 64);
	return set;
}

/* The number of insertions, deletions, replacements and swaps of neighbours; limit + 1 if there are more. */
static int distance(const char *a, size_t na, const char *b, size_t nb, int limit)
{
	int rows[3][MOST_WANTED + 1], *old = rows[0], *prev = rows[1], *row = rows[2], *t, least;
	size_t i, j;

	for (i = 0; i <= na; i++)
		prev[i] = old[i] = i;
	for (j = 1; j <= nb; j++) {
		least = row[0] = j;
		for (i = 1; i <= na; i++) {
			int d = prev[i - 1] + (a[i - 1] != b[j - 1]);

			d = MIN(d, prev[i] + 1);
			d = MIN(d, row[i - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = MIN(d, old[i - 2] + 1);
			row[i] = d;
			least = MIN(least, d);
		}
		if (least > limit)
			return limit + 1;
		t = old;
		old = prev;
		prev = row;
		row = t;
	}
	return MIN(prev[na], limit + 1);
}

static void insert(struct search *s, const char *name, size_t len, int d)
{
	int i, at;

	for (i = 0; i < s->n; i++)
		if (strncmp(s->best[i].name, name, len) == 0 && !s->best[i].name[len])
			return;
	for (at = s->n; at > 0 && s->best[at - 1].distance > d; at--)
		;
	if (at == s->most)
		return;
	if (s->n == s->most)
		free(s->best[--s->n].name);
	for (i = s->n++; i > at; i--)
		s->best[i] = s->best[i - 1];
	s->best[at] = (struct candidate){ xstrndup(name, len), d };
	if (s->n == s->most)
		s->limit = MIN(s->limit, s->best[s->n - 1].distance - 1);
}

static void offer(struct search *s, const char *name, size_t len)
{
	uint64_t letters;
	int d;

	/* foo.isra.0 and foo.constprop.0 are variants of foo */
	if (len > s->len && name[s->len] == '.' && memcmp(name, s->wanted, s->len) == 0) {
		insert(s, name, len, 0);
		return;
	}
	if (s->limit < 1 || len > s->len + s->limit || len + s->limit < s->len)
		return;
	letters = letters_of(name, len);
	if (__builtin_popcountll(letters & ~s->letters) > s->limit ||
	    __builtin_popcountll(s->letters & ~letters) > s->limit)
		return;
	d = distance(s->wanted, s->len, name, len, s->limit);
	if (d <= s->limit)
		insert(s, name, len, d);
}

/*
 * Names that match in another form: "f" if there is ns::f, and "ns::f" or "ns::f(int)" if the compiler has made
 * "ns::f(int) [clone .isra.0]" of it, which can only be named as a whole.
 */
static bool offer_meant(struct search *s, const char *readable, struct name_parts parts)
{
	const char *name = readable + parts.start, *clone = strstr(readable + parts.params, " [clone ");
	size_t plain = parts.params - parts.start, whole = strlen(name), tail = MIN(plain, s->len);
	bool same = plain >= s->len && memcmp(name + plain - tail, s->wanted, tail) == 0 &&
		    (plain == tail || (plain > tail + 2 && memcmp(name + plain - tail - 2, "::", 2) == 0));

	if (clone && !same)
		same = s->len == (size_t)(clone - name) && memcmp(name, s->wanted, s->len) == 0;
	if (!same)
		return false;
	insert(s, name, clone ? whole : plain, 0);
	return true;
}

static const char made_up[] = ":~<>() anonymous namespace";	/* added by the demangler */

/* A mangled name contains the letters of its identifiers, so it can be excluded without demangling. */
static void offer_mangled(struct search *s, struct module *m, uint32_t name)
{
	const char *raw = m->names.v[name].name, *readable;
	uint64_t there = letters_of(raw, strlen(raw)) | letters_of(made_up, strlen(made_up));
	struct name_parts parts;

	if (__builtin_popcountll(s->letters & ~there) > s->limit || s->demangled >= MOST_DEMANGLED)
		return;
	s->demangled++;
	readable = name_readable(m, name);
	if (!readable)
		return;
	parts = name_split(readable);
	if (!offer_meant(s, readable, parts))
		offer(s, readable + parts.start, parts.params - parts.start);
}

static void offer_module(struct search *s, struct module *m)
{
	size_t i;

	for (i = 0; i < m->names.n; i++) {
		const char *name = m->names.v[i].name;

		if (m->funcs.v[m->names.v[i].func].flags & FUNC_COLD)
			continue;
		if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'))
			offer_mangled(s, m, i);
		else
			offer(s, name, strlen(name));
	}
}

void suggest_names(struct module *const *modules, size_t n, const char *wanted, int most,
		   char *out, size_t room)
{
	struct search s = { .wanted = wanted, .len = strlen(wanted), .most = MIN(most, MOST_SHOWN) };
	size_t i, used = 0;
	int k;

	if (room)
		*out = 0;
	if (!s.len || s.len > MOST_WANTED || s.most < 1)
		return;
	s.letters = letters_of(wanted, s.len);
	s.limit = s.len < 4 ? 1 : s.len < 8 ? 2 : 3;
	for (i = 0; i < n; i++)
		offer_module(&s, modules[i]);
	for (k = 0; k < s.n; k++) {
		size_t len = strlen(s.best[k].name) + (used ? 2 : 0);

		if (used + len < room) {
			snprintf(out + used, room - used, "%s%s", used ? ", " : "", s.best[k].name);
			used += len;
		}
		free(s.best[k].name);
	}
}
