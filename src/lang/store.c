/* SPDX-License-Identifier: MIT */
/* Maps as hash tables with chains, for the interpreter. */
#include "lang/store.h"

#include <string.h>

#include "lang/key_index.h"

#define BUCKETS 256	/* at first; a power of two */

struct node {
	struct node *next;
	struct bytes key, value;
	struct agg agg;
};

struct table { struct node **heads; uint64_t size, n; };

struct store {
	const struct ir_unit *u;
	struct table *tables;
	uint32_t ntables;
};

void bytes_add(struct bytes *b, const void *p, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = MAX(b->cap * 2, b->n + n + 32);
		b->p = xrealloc(b->p, b->cap);
	}
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
}

struct store *store_new(const struct ir_unit *u)
{
	struct store *s = xcalloc(1, sizeof(*s));

	s->u = u;
	s->ntables = u->maps.n;
	s->tables = xcalloc(u->maps.n, sizeof(*s->tables));
	for (uint32_t i = 0; i < s->ntables; i++)
		s->tables[i] = (struct table){ xcalloc(BUCKETS, sizeof(struct node *)), BUCKETS, 0 };
	return s;
}

static struct node **find(struct store *s, uint32_t map, const struct bytes *key)
{
	const struct table *t = &s->tables[map];
	struct node **link = &t->heads[key_hash(key->p, key->n) & (t->size - 1)];

	while (*link && ((*link)->key.n != key->n || (key->n && memcmp((*link)->key.p, key->p, key->n) != 0)))
		link = &(*link)->next;
	return link;
}

static void grow(struct table *t)
{
	struct table old = *t;
	struct node *n, *next;

	t->size *= 16;
	t->heads = xcalloc(t->size, sizeof(*t->heads));
	for (uint64_t i = 0; i < old.size; i++)
		for (n = old.heads[i]; n; n = next) {
			struct node **head = &t->heads[key_hash(n->key.p, n->key.n) & (t->size - 1)];

			next = n->next;
			n->next = *head;
			*head = n;
		}
	free(old.heads);
}

static struct node *make(struct store *s, uint32_t map, struct node **link, const struct bytes *key)
{
	struct node *n = *link = xcalloc(1, sizeof(*n));

	bytes_add(&n->key, key->p, key->n);
	if (++s->tables[map].n > 16 * s->tables[map].size)
		grow(&s->tables[map]);
	return n;
}

static struct node *find_or_make(struct store *s, uint32_t map, const struct bytes *key)
{
	struct node **link = find(s, map, key);

	if (*link)
		return *link;
	if (s->u->maps.v[map].nkeys && s->tables[map].n >= s->u->maps.v[map].max_keys)
		return NULL;
	return make(s, map, link, key);
}

static void free_node(struct node *n)
{
	bytes_free(&n->key);
	bytes_free(&n->value);
	agg_free(&n->agg);
	free(n);
}

static void fill(struct store *s, uint32_t map, const struct node *n, struct map_entry *ret)
{
	*ret = (struct map_entry){ .key = n->key.p, .key_len = n->key.n, .value = n->value.p, .value_len = n->value.n };
	if (s->u->maps.v[map].kind != IR_MAP_VALUE)
		ret->agg = &n->agg;
}

static bool get(void *store, uint32_t map, const struct bytes *key, struct map_entry *ret_entry)
{
	struct node **link = find(store, map, key);

	if (!*link)
		return false;
	fill(store, map, *link, ret_entry);
	return true;
}

static bool set(void *store, uint32_t map, const struct bytes *key, const struct bytes *value)
{
	struct node *n = find_or_make(store, map, key);

	if (!n)
		return false;
	n->value.n = 0;
	bytes_add(&n->value, value->p, value->n);
	return true;
}

static bool add(void *store, uint32_t map, const struct bytes *key, int64_t by, int64_t *ret_old)
{
	struct node *n = find_or_make(store, map, key);
	int64_t old = 0;

	if (!n)
		return false;
	if (n->value.n == 8)
		memcpy(&old, n->value.p, 8);
	n->value.n = 0;
	bytes_u64(&n->value, (uint64_t)old + by);
	*ret_old = old;
	return true;
}

static bool agg(void *store, uint32_t map, const struct bytes *key, num v)
{
	struct store *s = store;
	struct node *n = find_or_make(s, map, key);

	if (!n)
		return false;
	agg_add(&s->u->maps.v[map], &n->agg, v);
	return true;
}

static bool del(void *store, uint32_t map, const struct bytes *key)
{
	struct store *s = store;
	struct node **link = find(s, map, key), *n = *link;

	if (!n)
		return false;
	*link = n->next;
	free_node(n);
	s->tables[map].n--;
	return true;
}

static uint64_t len(void *store, uint32_t map)
{
	return ((struct store *)store)->tables[map].n;
}

static void clear(void *store, uint32_t map)
{
	struct table *t = &((struct store *)store)->tables[map];
	struct node *n, *next;
	size_t i;

	for (i = 0; i < t->size; i++) {
		for (n = t->heads[i]; n; n = next) {
			next = n->next;
			free_node(n);
		}
		t->heads[i] = NULL;
	}
	t->n = 0;
}

/* Numbers become 0 and strings empty: parts are walked as the map's types say. */
static void zero_value(const struct ir_map *m, struct node *n)
{
	uint32_t i, none = 0;

	n->value.n = 0;
	for (i = 0; i < m->nvalues; i++)
		if (ir_in_slot(m->values[i].type))
			bytes_add(&n->value, &none, 4);
		else
			bytes_u64(&n->value, 0);
}

static void zero(void *store, uint32_t map)
{
	struct store *s = store;
	struct node *n;
	size_t i;

	for (i = 0; i < s->tables[map].size; i++)
		for (n = s->tables[map].heads[i]; n; n = n->next) {
			agg_zero(&s->u->maps.v[map], &n->agg);
			zero_value(&s->u->maps.v[map], n);
		}
}

static void list(void *store, uint32_t map, struct map_list *ret_list)
{
	struct store *s = store;
	struct node *n;
	size_t i;

	for (i = 0; i < s->tables[map].size; i++)
		for (n = s->tables[map].heads[i]; n; n = n->next)
			fill(s, map, n, vec_add(ret_list));
}

const struct map_ops store_ops = {
	.get = get, .set = set, .add = add, .agg = agg, .del = del, .len = len, .clear = clear, .zero = zero, .list = list,
};

void store_merge(struct store *s, uint32_t map, const struct map_entry *e, bool is_sum)
{
	struct bytes key = { (uint8_t *)e->key, e->key_len, 0 };
	struct node **link = find(s, map, &key), *n = *link ? *link : make(s, map, link, &key);
	uint64_t old = 0, more = 0;

	if (e->agg) {
		agg_merge(&s->u->maps.v[map], &n->agg, e->agg);
		return;
	}
	if (is_sum && n->value.n == 8 && e->value_len == 8) {
		memcpy(&old, n->value.p, 8);
		memcpy(&more, e->value, 8);
		n->value.n = 0;
		bytes_u64(&n->value, old + more);
		return;
	}
	n->value.n = 0;
	bytes_add(&n->value, e->value, e->value_len);
}

void store_free(struct store *s)
{
	uint32_t i;

	if (!s)
		return;
	for (i = 0; i < s->ntables; i++) {
		clear(s, i);
		free(s->tables[i].heads);
	}
	free(s->tables);
	free(s);
}
