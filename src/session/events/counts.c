/* SPDX-License-Identifier: MIT */
/*
 * Counters. In the data arena of a target they stand per CPU, so that counting needs no lock:
 *
 *	struct told			what pads tell us; padding to 64
 *	u64 cpu0[n] ... cpuN[n], shared[n]      each block padded to 64 bytes
 *
 * There are many more than are in use at first, for programs and libraries that come later. That costs addresses only: memory
 * is taken for those in use.
 *
 * and where the target can't write, by the lower bits of the CPU's number (CPU_TABLE_FEW, CPU_TABLE_MANY):
 *
 *	u64 table[]		address of each CPU's own counters; 0: it has none
 *	u64 rings[], lost[]	the same for events: address of each CPU's ring, of that ring's lost counters
 *
 * A total is the sum over the CPUs and the shared one, which is for threads without registration.
 */
#include "arch/page.h"
#include "session/events/rings.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

unsigned cpus_in_list(const char *list)
{
	unsigned long most = 0, n;
	char *end;

	for (; *list && *list != '\n'; list = *end ? end + 1 : end) {
		n = strtoul(list, &end, 10);
		if (end == list || n >= CPU_TABLE_MANY - 2)
			return 0;
		most = MAX(most, n + 1);
	}
	return most;
}

/*
 * Every number that a CPU can ever have indexes the table, also of one that is plugged in later; but
 * only those that are there now have counters of their own. The others find 0 and count in the
 * shared ones.
 */
unsigned counters_ncpus(void)
{
	static unsigned n;
	char list[4096] = "";
	FILE *f;

	if (n)
		return n;
	f = fopen("/sys/devices/system/cpu/possible", "re");
	if (f) {
		if (fgets(list, sizeof(list), f))
			n = cpus_in_list(list);
		fclose(f);
	}
	n = MAX(n, (unsigned)get_nprocs_conf());
	return n;
}

static bool many_cpus(void)
{
	return counters_ncpus() > CPU_TABLE_FEW - 2;
}

static unsigned table_entries(void)
{
	return many_cpus() ? CPU_TABLE_MANY : CPU_TABLE_FEW;
}

static unsigned nblocks(void)
{
	static unsigned n;

	if (!n)
		n = MIN(get_nprocs_conf(), CPU_TABLE_MANY - 2);
	return n;
}

#define BLOCKS 64		/* where they begin */
_Static_assert(sizeof(struct told) <= BLOCKS, "in front of them");

static size_t block_size(const struct target *t)
{
	return round_up(t->counter_cap * sizeof(uint64_t), 64);
}

size_t counters_size(const struct target *t)
{
	return round_up(BLOCKS + (nblocks() + 1) * block_size(t), 4096);
}

uint64_t counter_shared_at(const struct target *t, uint32_t index)
{
	return t->counters_at + BLOCKS + nblocks() * block_size(t) + index * sizeof(uint64_t);
}

struct told *counters_told(const struct target *t)
{
	return (struct told *)t->counters;
}

size_t counters_tables_size(const struct target *t)
{
	return (t->rings ? 3 : 1) * table_entries() * sizeof(uint64_t);
}

void counters_init(struct target *t)
{
	uint64_t *table = (uint64_t *)t->tables;

	memset(t->tables, 0, counters_tables_size(t));
	for (unsigned cpu = 0; cpu < nblocks(); cpu++)
		table[cpu] = t->counters_at + BLOCKS + cpu * block_size(t);
	t->spec.cpu_table = t->tables_at;
	t->spec.many_cpus = many_cpus();
	t->spec.fast = t->state_at + offsetof(struct process_state, fast);
}

int counters_touch_block(struct target *t, uint64_t at, uint32_t from)
{
	uint64_t lo = PAGE_DOWN(at + 8ull * from), hi = round_up(at + 8ull * MIN(t->ncounters, t->counter_cap), 4096);

	return hi > lo ? arena_touch(t->arena, TADDR(lo), hi - lo) : 0;
}

int counters_touch(struct target *t)
{
	uint32_t n = MIN(t->ncounters, t->counter_cap);
	int r = 0;

	if (t->touched == n && n)
		return 0;
	for (unsigned cpu = 0; !r && cpu <= nblocks(); cpu++)
		r = counters_touch_block(t, t->counters_at + BLOCKS + cpu * block_size(t), t->touched);
	if (!r && t->rings)
		r = rings_touch_lost(t, t->touched);
	t->touched = n;
	return r;
}

uint64_t *counters_ring_table(const struct target *t, uint64_t *ret_at)
{
	*ret_at = t->tables_at + table_entries() * sizeof(uint64_t);
	return (uint64_t *)t->tables + table_entries();
}

uint64_t *counters_lost_table(const struct target *t, uint64_t *ret_at)
{
	*ret_at = t->tables_at + 2 * table_entries() * sizeof(uint64_t);
	return (uint64_t *)t->tables + 2 * table_entries();
}

uint64_t counter_read(const struct target *t, uint32_t index)
{
	uint64_t sum = 0;

	/* Sites of libraries that came later and found no counter left have an index, but no place. */
	if (!t->counters || index >= t->touched)
		return 0;
	for (unsigned cpu = 0; cpu <= nblocks(); cpu++) {
		const uint64_t *block = (const void *)(t->counters + BLOCKS + cpu * block_size(t));

		sum += __atomic_load_n(&block[index], __ATOMIC_RELAXED);
	}
	return sum;
}

static size_t row_slot(const struct jab *j, const struct row *r)
{
	uint64_t h = r->probe * 0x9e3779b97f4a7c15ull;

	h = (h ^ r->file) * 0x9e3779b97f4a7c15ull;
	h = (h ^ r->func) * 0x9e3779b97f4a7c15ull;
	h = (h ^ r->offset) * 0x9e3779b97f4a7c15ull;
	return (h ^ h >> 32) & (j->row_hash_size - 1);
}

static bool row_same(const struct row *a, const struct row *b)
{
	return a->probe == b->probe && a->file == b->file && a->func == b->func &&
	       a->offset == b->offset && a->usdt == b->usdt;
}

static void rehash(struct jab *j)
{
	j->row_hash_size = j->row_hash_size ? j->row_hash_size * 2 : 1024;
	free(j->row_hash);
	j->row_hash = xcalloc(j->row_hash_size, sizeof(*j->row_hash));
	for (size_t i = 0; i < j->rows.n; i++) {
		size_t at = row_slot(j, &j->rows.v[i]);

		if (j->rows.v[i].is_left)
			continue;

		while (j->row_hash[at])
			at = (at + 1) & (j->row_hash_size - 1);
		j->row_hash[at] = i + 1;
	}
}

static uint32_t find(struct jab *j, struct row want)
{
	size_t at;

	if (j->rows.n * 2 >= j->row_hash_size)
		rehash(j);
	for (at = row_slot(j, &want); j->row_hash[at]; at = (at + 1) & (j->row_hash_size - 1))
		if (row_same(&j->rows.v[j->row_hash[at] - 1], &want))
			return j->row_hash[at] - 1;
	*vec_add(&j->rows) = want;
	j->row_hash[at] = j->rows.n;
	return j->rows.n - 1;
}

uint32_t row_find(struct jab *j, uint32_t probe, uint32_t file, uint32_t func, uint64_t offset, bool is_return)
{
	return find(j, (struct row){ .probe = probe, .file = file, .func = func, .offset = offset, .is_return = is_return });
}

uint32_t row_find_usdt(struct jab *j, uint32_t probe, uint32_t file, uint32_t func, uint64_t offset, uint32_t usdt)
{
	return find(j, (struct row){ .probe = probe, .file = file, .func = func, .offset = offset, .usdt = usdt });
}

uint32_t counter_add(struct jab *j, uint32_t target, uint32_t row, uint8_t role)
{
	struct counter *c = vec_add(&j->counters);

	c->row = row;
	c->target = target;
	c->role = role;
	c->index = j->targets.v[target].ncounters++;	/* beyond the room there is: the caller looks */
	return j->counters.n - 1;
}
