/* SPDX-License-Identifier: MIT */
/*
 * Damaged memory that a target shares with us: maps of scripts, and a ring of events. An input is an image of
 * both, written by native code at first. Whatever stands there: reading and changing stays inside, ends, and what comes out
 * can be printed.
 */
#include "../unit/gen_run.h"
#include "base/err.h"
#include "lang/format.h"
#include "lang/lang.h"
#include "mutate.h"

#define RING RING_SIZE_MIN

static const char text[] =
	"config = { max_map_keys = 16 } u:exe:f { @n = arg0; @k[arg0 & 7]++; @w[str(arg1), arg0 & 3] = (arg0, str(arg1)); @c = count(); "
	"@ck[arg0 & 3] = count(); @s[str(arg1)] = stats(arg0); @h[arg0 & 3] = hist(arg0); @l = lhist(arg0, 0, 100, 5); @a = avg(arg0); "
	"@mn[arg0 & 1] = min(arg0); @q[arg0 & 1] = quantile(arg0, .5, .9); @st[ustack(5)] = count(); @u = ustack(3); "
	"printf(\"%d %s\\n\", arg0, str(arg1)); print((arg0, str(arg1), ustack(2))); @b[arg0 & 1] = buf(arg1, 8) }";

static struct script *script;
static struct lang *lang;
static struct ir_prog *progs[2];
static struct maps_layout *layout;
static struct maps_reader *reader;	/* of the one being looked at */
static uint32_t lens[300];
static FILE *nowhere;

static const struct lang_site *site_of(void *arg, uint32_t clause)
{
	static const struct lang_site site = { .at = LANG_ENTRY };

	return &site;
}

static void set_up(void)
{
	if (layout)
		return;
	gen_set_up();
	nowhere = fopen("/dev/null", "w");
	if (!nowhere || script_parse("fuzz", text, strlen(text), &script) < 0 || lang_new(script, &lang) < 0 ||
	    lang_infer(lang, site_of, NULL) < 0 || lang_compile(lang, 0, site_of(NULL, 0), progs) < 0 ||
	    maps_layout_new(lang_unit(lang), ncpus, &layout) < 0 || layout->size > GEN_MAPS) {
		fprintf(stderr, "no script: %s\n", err_text());
		exit(2);
	}
}

/* ---- what may be asked ---- */

static uint32_t frames_of(void *data, uint64_t id, uint64_t *frames, uint32_t most)
{
	return maps_reader_stack(reader, id, frames, most);
}

static char *symbol_of(void *data, uint64_t addr)
{
	return NULL;
}

static const char *module_of(void *data, uint64_t addr)
{
	return "module";
}

static const char *name_of(void *data, uint64_t number, bool func)
{
	return "site";
}

static const struct format_names names = { .symbol = symbol_of, .stack = frames_of, .module = module_of, .site = name_of };

static bool is_dead(void *arg, uint32_t tid)
{
	return tid & 1;
}

struct line { struct bytes key, value; };

/* Copies: the next question takes back what was lent. */
static struct line *lines_of(uint32_t map, size_t *ret_n)
{
	struct map_list list = { 0 };
	struct line *v;

	maps_reader_ops.list(reader, map, &list);
	*ret_n = MIN(list.n, (size_t)64);
	v = xcalloc(*ret_n + 1, sizeof(*v));
	for (size_t i = 0; i < *ret_n; i++) {
		bytes_add(&v[i].key, list.v[i].key, list.v[i].key_len);
		if (list.v[i].value)
			bytes_add(&v[i].value, list.v[i].value, list.v[i].value_len);
	}
	vec_free(&list);
	return v;
}

static void change_map(uint32_t map)
{
	const struct ir_map *m = &lang_unit(lang)->maps.v[map];
	size_t n;
	struct line *v = lines_of(map, &n);
	struct map_entry e;
	int64_t old;

	for (size_t i = 0; i < n; i++) {
		maps_reader_ops.get(reader, map, &v[i].key, &e);
		if (m->kind == IR_MAP_VALUE)
			maps_reader_ops.set(reader, map, &v[i].key, &v[i].value);
		if (m->kind == IR_MAP_VALUE && m->nvalues == 1 && !ir_in_slot(m->values[0].type))
			maps_reader_ops.add(reader, map, &v[i].key, 3, &old);
		if (i % 3 == 0)
			maps_reader_ops.del(reader, map, &v[i].key);
		bytes_free(&v[i].key);
		bytes_free(&v[i].value);
	}
	free(v);
}

static void look_at_maps(uint8_t *memory)
{
	const struct ir_unit *u = lang_unit(lang);
	uint64_t frames[64];

	reader = maps_reader_new(u, layout, memory);
	for (uint32_t map = 0; map < u->maps.n; map++) {
		format_map(nowhere, u, map, &maps_reader_ops, reader, map % 3, 0, &names);
		format_map_json(nowhere, u, map, &maps_reader_ops, reader, 0, map % 2, &names);
		format_map_folded(nowhere, u, map, &maps_reader_ops, reader, 0, 0, &names);
		change_map(map);
		maps_reader_ops.len(reader, map);
	}
	for (uint64_t i = 0; i < 40; i++)
		maps_reader_stack(reader, i < 32 ? i : ~0ull << i, frames, 64);
	maps_reader_clean(reader, is_dead, NULL);
	for (uint32_t map = 0; map < u->maps.n; map++) {
		if (map & 1)
			maps_reader_ops.clear(reader, map);
		else
			maps_reader_ops.zero(reader, map);
		format_map(nowhere, u, map, &maps_reader_ops, reader, 0, 0, &names);
	}
}

static void print_events(struct ring *r, const uint8_t *span, uint64_t len)
{
	const struct ir_unit *u = lang_unit(lang);
	uint64_t off = 0, at = 0;
	struct event_head e;

	for (; ring_next(r, span, len, &off, &e); at = off) {
		if (off > len || off <= at)
			abort();
		if (e.id >= gen_ids[0] && e.id < gen_ids[0] + u->records.n) {
			format_event(nowhere, u, e.id - gen_ids[0], span + at + sizeof(e), e.len - sizeof(e), &names);
			format_event_json(nowhere, u, e.id - gen_ids[0], span + at + sizeof(e), e.len - sizeof(e), &names);
		}
	}
}

static void look_at_ring(uint8_t *head, const uint8_t *data, bool expect)
{
	const uint8_t *span = NULL, *start;
	uint8_t *copy = malloc(RING);
	struct ring r = { 0 };
	uint64_t len;
	int64_t got;

	if (ring_attach(&r, head, data, RING) == 0) {
		if (expect)
			ring_expect(&r, lens, ARRAY_SIZE(lens));
		for (int i = 0; i < 10000 && (len = ring_peek(&r, &span)); i++) {
			if (len > RING || span < data || span + len > data + 2 * RING)
				abort();
			print_events(&r, span, len);
			ring_consume(&r, len);
		}
		ring_lost(&r);
		got = ring_snapshot(&r, copy, &start);
		if (got > 0 && (start < copy || start + got > copy + RING))
			abort();
		if (got > 0)
			print_events(&r, start, got);
	}
	free(copy);
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	uint8_t *memory, *head, *data;
	size_t n;

	set_up();
	memory = aligned_alloc(64, (layout->size + 63) & ~63ull);
	head = aligned_alloc(4096, RING_HEAD_SIZE);
	data = malloc(2 * RING);
	memset(memory, 0, layout->size);
	memset(head, 0, RING_HEAD_SIZE);
	memset(data, 0, RING);
	n = MIN(size, RING_HEAD_SIZE);
	memcpy(head, p, n);
	p += n;
	size -= n;
	n = MIN(size, RING);
	memcpy(data, p, n);
	memcpy(data + RING, data, RING);
	p += n;
	size -= n;
	memcpy(memory, p, MIN(size, layout->size));
	look_at_maps(memory);
	look_at_ring(head, data, size & 1);
	maps_reader_free(reader);
	free(memory);
	free(head);
	free(data);
	return 0;
}

/* ---- what a target that is well writes ---- */

#ifndef WITH_LIBFUZZER
static uint64_t random_below_8(void)
{
	return random_word() % 8;
}

static struct seed fuzz_seed(size_t i)
{
	static const char *const words[] = { "alpha", "", "a longer word", "beta" };
	struct seed s = { .path = "an image" };
	struct gen_env env;
	int ring = i == 1 ? 0 : ncpus;

	if (i > 1)
		return s;
	set_up();
	reset_rings(RING);
	gen_set_up_scratch();
	memset(gen_maps_memory, 0, layout->size);
	maps_init(lang_unit(lang), layout, gen_maps_memory);
	env = gen_make_env(true, layout);
	if (gen_place(lang_unit(lang), progs[0], &env, 0) < 0)
		return s;
	for (int k = 0; k < 60; k++) {
		gen_machine(0, 0);
		machine_in.gpr[7] = k % 5 ? random_below_8() : random_word();
		machine_in.gpr[6] = (uint64_t)words[k % 4];
		machine_run();
	}
	s.n = RING_HEAD_SIZE + RING + layout->size;
	s.p = malloc(s.n);
	memcpy(s.p, rings[ring].head, RING_HEAD_SIZE);
	memcpy(s.p + RING_HEAD_SIZE, rings[ring].data, RING);
	memcpy(s.p + RING_HEAD_SIZE + RING, gen_maps_memory, layout->size);
	return s;
}
#endif
