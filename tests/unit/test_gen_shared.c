/* SPDX-License-Identifier: MIT */
/*
 * Native programs whose shared memory holds anything: a child of the target with fewer rights can write all of it, at any time. No
 * load and no store goes astray, the program ends, and all that is not shared stays as it was.
 *
 * The maps are between two pages that can't be touched. What is written into them is random, but of a kind that hurts: numbers that
 * wrap, offsets that reach just beyond, states of entries, addresses.
 */
#include "gen_world.h"

#include <pthread.h>
#include <stdatomic.h>

#include "lang/lang.h"

#define PAGE 4096ul
#define STEPS_MOST 3000000	/* of one hit; a few thousand are usual */

static const char text[] =
	"config = { max_map_keys = 16 } u:exe:f { @n = arg0; @k[arg0 & 7]++; @w[str(arg1), arg0 & 3] = (arg0, str(arg1)); @c = count(); "
	"@ck[arg0 & 3] = count(); @s[str(arg1)] = stats(arg0); @h[arg0 & 3] = hist(arg0); @l = lhist(arg0, 0, 100, 5); @a = avg((int64)arg0); "
	"@ak[arg0 & 3] = avg((int64)arg0); @mn[arg0 & 1] = min(arg0); @q[arg0 & 1] = quantile(arg0, .5, .9); @st[ustack(5)] = count(); "
	"@u = ustack(3); printf(\"%d %s\\n\", arg0, str(arg1)); print((arg0, str(arg1), ustack(2))); @b[arg0 & 1] = buf(arg1, 8); "
	"printf(\"%d %d %d %d %d\", @a, @ak[arg0 & 3], @k[arg0 & 7], len(@k), len(@ck)); if (has_key(@k, arg0 & 3)) { delete(@k[arg0 & 3]) } "
	"delete(@ck[arg0 & 1]); delete(@w[str(arg1), arg0 & 3]); @sum = sum(arg0); @t = @sum }";

static struct script *script;
static struct lang *lang;
static struct ir_prog *progs[2];
static struct maps_layout *layout;
static uint8_t *memory, *guarded;	/* the maps, and where the page in front of them ends */
static uint8_t code_before[CODE_SIZE], pairs_before[sizeof(gen_pairs)];

static const struct lang_site *site_of(void *arg, uint32_t clause)
{
	static const struct lang_site site = { .at = LANG_ENTRY };

	return &site;
}

static void map_between_guards(void)
{
	size_t len = (layout->size + PAGE - 1) / PAGE * PAGE;

	guarded = map_or_die(len + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1) + PAGE;
	assert_int_equal(mprotect(guarded, len, PROT_READ | PROT_WRITE), 0);
	memory = guarded + len - layout->size;
}

static void place(bool has_rseq)
{
	struct gen_env env;

	memset(memory, 0, layout->size);
	maps_init(lang_unit(lang), layout, memory);
	reset_rings(RING_SIZE_MIN);
	gen_set_up_scratch();
	env = gen_make_env(has_rseq, layout);
	env.maps = (uint64_t)memory;
	if (gen_place(lang_unit(lang), progs[0], &env, 16) < 0)
		fail_msg("%s", err_text());
	memcpy(code_before, code_rw, CODE_SIZE);
	memcpy(pairs_before, gen_pairs, sizeof(gen_pairs));
}

static int set_up(void **state)
{
	gen_set_up();
	if (script_parse("shared", text, strlen(text), &script) < 0 || lang_new(script, &lang) < 0 ||
	    lang_infer(lang, site_of, NULL) < 0 || lang_compile(lang, 0, site_of(NULL, 0), progs) < 0 ||
	    maps_layout_new(lang_unit(lang), ncpus, &layout) < 0) {
		print_error("no script: %s\n", err_text());
		return -1;
	}
	map_between_guards();
	return 0;
}

/* ---- what hurts ---- */

static uint64_t nasty(uint64_t seed)
{
	static const uint64_t some[] = {
		0, 1, 2, 3, 64, 63, 65, 8, ~0ull, ~1ull, ~7ull, 1ull << 63, 1ull << 32, (1ull << 31) - 1, 1ull << 31, 1ull << 20, 0xffffffff,
		0x100000001, 0xffffffff00000000, PROG_READY, PROG_CLAIMED, PROG_DELETED, 4096, 0x7fffffffffff, 1ull << 47,
	};
	uint64_t v = some[seed % ARRAY_SIZE(some)];

	return seed >> 8 & 1 ? v : seed >> 9 & 1 ? v + (seed >> 16) % 256 : seed >> 10 & 1 ? seed * 0x9e3779b97f4a7c15 : (uint64_t)memory + v;
}

/* A place in the maps: more often the first words of a part. */
static uint64_t *somewhere(uint64_t seed)
{
	const struct map_place *p = &layout->maps[seed % layout->nmaps];
	const uint64_t from[] = { p->table, p->base, p->cleared, layout->stacks, layout->parts + p->values,
				  layout->parts + layout->part_size * layout->ncpus + p->values, p->before, layout->stacks + 64 };
	uint64_t at = from[(seed >> 8) % ARRAY_SIZE(from)];

	if (!(seed >> 16 & 3))
		at = (seed >> 24) % layout->size;
	else
		at += (seed >> 24) % (seed >> 20 & 1 ? 4096 : 64);
	return (uint64_t *)(memory + MIN(at, layout->size - 8) / 8 * 8);
}

static void fill_with(uint64_t v)
{
	const struct map_place *p = &layout->maps[random_word() % layout->nmaps];

	for (uint32_t i = 0; p->table && i < 512 && p->table + 48 + 8 * i + 8 <= layout->size; i++)
		((uint64_t *)(memory + p->table + sizeof(struct prog_table)))[i] = v;
}

static void scribble_rings(void)
{
	for (int i = 0; i < nrings(); i++) {
		struct ring_head *h = rings[i].head;

		fill_random(h, sizeof(*h));
		h->head = nasty(random_word());
		h->tail = random_word() % 2 ? h->head : nasty(random_word());
		h->lock = random_word() % 4 ? random_word() << 32 : nasty(random_word());
		h->lost = nasty(random_word());
	}
}

static void scribble(void)
{
	uint64_t n = random_word() % 64;

	for (uint64_t i = 0; i < n; i++)
		*somewhere(random_word()) = nasty(random_word());
	if (random_word() % 8 == 0)
		fill_with(nasty(random_word()));
	for (int i = 0; i < 8; i++)
		gen_cells[random_word() % ARRAY_SIZE(gen_cells)] = nasty(random_word());
	scribble_rings();
}

/* ---- what must hold ---- */

static void hit_with(uint64_t number, uint64_t address, void (*run)(void))
{
	const char *changed;

	gen_machine(random_word(), 0);
	machine_in.gpr[RDI] = number;
	machine_in.gpr[RSI] = address;
	memcpy(gen_before, gen_stack, sizeof(gen_stack));
	memset(&machine_out, 0, sizeof(machine_out));
	machine_steps = 0;
	run();
	changed = machine_changed(gen_stack, gen_before, GEN_STACK);
	if (changed)
		fail_msg("%s has changed", changed);
	if (machine_steps > STEPS_MOST)
		fail_msg("%lu steps", machine_steps);
	assert_memory_equal(code_rw, code_before, CODE_SIZE);
	assert_memory_equal(gen_pairs, pairs_before, sizeof(gen_pairs));
	for (const uint8_t *at = guarded; at < memory; at++)
		assert_int_equal(*at, 0);
}

static void hit_once(void (*run)(void))
{
	static const char *const words[] = { "alpha", "", "a longer word", "beta" };
	uint64_t word = random_word();

	hit_with(random_word() % 5 ? random_word() % 8 : nasty(random_word()),
		 random_word() % 9 ? (uint64_t)words[word % 4] : nasty(word), run);
}

static void anything_in_shared_memory(void **state)
{
	for (int has_rseq = 0; has_rseq < 2; has_rseq++) {
		place(has_rseq);
		for (int k = 0; k < 2000; k++) {
			scribble();
			hit_once(k % 400 ? machine_run : machine_run_stepped);
			if (k % 500 == 499)
				place(has_rseq);
		}
	}
}

/* The smallest number, divided by -1, is none: the division would trap. */
static void averages_of_anything(void **state)
{
	for (uint32_t i = 0; i < layout->nmaps; i++) {
		const struct map_place *p = &layout->maps[i];
		uint8_t *block;

		if (lang_unit(lang)->maps.v[i].kind != IR_MAP_AVG)
			continue;
		place(true);
		hit_with(0, (uint64_t)"alpha", machine_run);
		block = memory + layout->parts + layout->part_size * layout->ncpus + p->values;
		for (uint32_t k = 0; k < p->entries; k++, block += p->value_size) {
			*(uint64_t *)(block + AGG_COUNT) = -3;
			*(uint64_t *)(block + AGG_SUM) = 1ull << 63;
		}
		hit_with(0, (uint64_t)"alpha", machine_run);
	}
}

static atomic_bool enough;

static void *scribbler(void *arg)
{
	uint64_t seed = 1;

	while (!atomic_load_explicit(&enough, memory_order_relaxed)) {
		uint64_t at = seed = seed * 6364136223846793005 + 1442695040888963407;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		__atomic_store_n(somewhere(at >> 20), nasty(seed >> 20), __ATOMIC_RELAXED);
	}
	return NULL;
}

static void anything_at_any_time(void **state)
{
	pthread_t id;

	place(true);
	atomic_store(&enough, false);
	assert_int_equal(pthread_create(&id, NULL, scribbler, NULL), 0);
	for (int k = 0; k < 3000; k++)
		hit_once(machine_run);
	atomic_store(&enough, true);
	pthread_join(id, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anything_in_shared_memory),
		cmocka_unit_test(averages_of_anything),
		cmocka_unit_test(anything_at_any_time),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
