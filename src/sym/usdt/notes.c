/* SPDX-License-Identifier: MIT */
/*
 * The notes of static tracepoints. A note of the owner "stapsdt" and type 3 has
 *
 *	u64 pc, base, semaphore		as linked
 *	char provider[], name[], args[]	each with its NUL
 *
 * base is what the address of the section .stapsdt.base was when the note was made; if that section is elsewhere now
 * (prelink moves segments), all addresses have moved by as much.
 */
#include "sym/usdt/usdt.h"

#include <stdio.h>
#include "sym/priv.h"
#include "sym/usdt/usdts.h"

#define OWNER "stapsdt"
#define NT_STAPSDT 3
#define MOST_USDTS USDT_NOTES_MAX

static size_t align4(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/* One string of a description; NULL if it does not end in there. */
static const char *take_string(const uint8_t **p, const uint8_t *end)
{
	const uint8_t *s = *p, *nul = s < end ? memchr(s, '\0', end - s) : NULL;

	if (!nul)
		return NULL;
	*p = nul + 1;
	return (const char *)s;
}

static void damaged(struct module *m, struct usdts *u, size_t number, const char *what)
{
	char *text;

	if (u->damage)
		return;
	text = xasprintf("%s: note %zu of its static tracepoints is damaged: %s", m->path, number, what);
	u->damage = module_string(m, text, strlen(text));
	free(text);
}

/* Is there a place for a number of 16 bits that the program can write? */
static bool is_writable(const struct module *m, uint64_t addr)
{
	for (size_t i = 0; i < m->segments.n; i++) {
		const struct segment *s = &m->segments.v[i];

		if (addr >= s->addr && addr - s->addr < s->memsz && s->memsz - (addr - s->addr) >= 2)
			return s->prot & 2;
	}
	return false;
}

static const char *place_error(const struct module *m, const struct usdt *t)
{
	if (!*t->provider || !*t->name)
		return "its note has no provider or no name";
	if (!in_text(m, t->pc))
		return "its note points outside of the code";
	if (t->semaphore && !is_writable(m, t->semaphore))
		return "the semaphore of its note is not in memory that the program can write";
	return NULL;
}

static const char *shown_name(struct module *m, const struct usdt *t)
{
	char *text = xasprintf("%s:%s", t->provider, t->name);
	const char *kept = module_string(m, text, strlen(text));

	free(text);
	return kept;
}

static void take_note(struct module *m, struct usdts *u, size_t number, const uint8_t *desc, size_t len, uint64_t base)
{
	const uint8_t *p = desc + 24, *end = desc + len;
	struct usdt t = { 0 };
	uint64_t moved;

	if (len < 24 + 3) {
		damaged(m, u, number, "it is too short");
		return;
	}
	moved = base && get64(desc + 8) ? base - get64(desc + 8) : 0;
	t.linked_pc = get64(desc);
	t.pc = t.linked_pc + moved;
	t.semaphore = get64(desc + 16) ? get64(desc + 16) + moved : 0;
	t.provider = take_string(&p, end);
	t.name = t.provider ? take_string(&p, end) : NULL;
	t.args = t.name ? take_string(&p, end) : NULL;
	if (!t.args) {
		damaged(m, u, number, "its strings have no end");
		return;
	}
	t.why = place_error(m, &t);
	t.shown = shown_name(m, &t);
	*vec_add(&u->list) = t;
}

static void take_section(struct module *m, struct usdts *u, struct bytes b, uint64_t base)
{
	size_t at = 0, number = u->list.n;

	while (b.p && b.n - at >= 12 && u->list.n < MOST_USDTS) {
		uint32_t namesz = get32(b.p + at), descsz = get32(b.p + at + 4), type = get32(b.p + at + 8);
		size_t name = at + 12, desc = name + align4(namesz), next = desc + align4(descsz);

		number++;
		if (desc > b.n || descsz > b.n - desc) {
			damaged(m, u, number, "it is longer than its section");
			return;
		}
		if (namesz == sizeof(OWNER) && !memcmp(b.p + name, OWNER, sizeof(OWNER))) {
			if (type == NT_STAPSDT)
				take_note(m, u, number, b.p + desc, descsz, base);
			else
				damaged(m, u, number, "its type is not known");
		}
		if (next >= b.n)
			return;
		at = next;
	}
}

bool usdt_matches(const struct probe_spec *spec, const struct usdt *u)
{
	return (!spec->provider || glob_match(spec->provider, u->provider, strlen(u->provider))) &&
	       glob_match(spec->place, u->name, strlen(u->name));
}

static int by_name(const void *a, const void *b)
{
	const struct usdt *x = a, *y = b;
	int r = strcmp(x->provider, y->provider);

	r = r ? r : strcmp(x->name, y->name);
	return r ? r : x->pc < y->pc ? -1 : x->pc > y->pc;
}

bool usdt_same_name(const struct usdt *a, const struct usdt *b)
{
	return !strcmp(a->provider, b->provider) && !strcmp(a->name, b->name);
}

static void sort(struct usdts *u)
{
	size_t n = 0;

	if (u->list.n)
		qsort(u->list.v, u->list.n, sizeof(*u->list.v), by_name);
	for (size_t i = 0; i < u->list.n; i++)
		if (!n || u->list.v[n - 1].pc != u->list.v[i].pc || !usdt_same_name(&u->list.v[n - 1], &u->list.v[i]))
			u->list.v[n++] = u->list.v[i];
	u->list.n = n;
}

static struct usdts *read_all(struct module *m)
{
	const struct image *e = &priv(m)->image;
	const Elf64_Shdr *at = image_section(e, ".stapsdt.base");
	struct usdts *u = xcalloc(1, sizeof(*u));

	for (size_t i = 1; i < e->nsh; i++)
		if (e->sh[i].sh_type == SHT_NOTE && !strcmp(image_section_name(e, &e->sh[i]), ".note.stapsdt"))
			take_section(m, u, image_section_bytes(e, &e->sh[i]), at ? at->sh_addr : 0);
	sort(u);
	usdt_take_fields(m, u);
	return u;
}

struct usdts *usdts_of(struct module *m)
{
	if (!priv(m)->usdts)
		priv(m)->usdts = read_all(m);
	return priv(m)->usdts;
}

size_t module_usdts(struct module *m, struct usdt **ret_usdts)
{
	struct usdts *u = usdts_of(m);

	*ret_usdts = u->list.v;
	return u->list.n;
}

const char *module_usdt_damage(struct module *m)
{
	return usdts_of(m)->damage;
}

void usdts_close(struct usdts *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->made.n; i++)
		free(u->made.v[i]);
	vec_free(&u->made);
	vec_free(&u->types);
	vec_free(&u->list);
	free(u);
}
