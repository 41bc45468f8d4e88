/* SPDX-License-Identifier: MIT */
/*
 * Makes the unwind table of a module: all FDEs in order of address, rules for the gaps between them from other
 * sources, rows cut into blocks, each rule stored once.
 */
#include "sym/unwind/unwind_priv.h"

#include "sym/names/sort.h"

/* Text in several segments with a larger hole between them does not occur in practice. */
#define MOST_HOLE (16u << 20)
/* Functions are padded to this: a smaller gap between two FDEs has no code. */
#define PADDING 16

struct row_writer {
	uint64_t lo, hi;	/* code that the table covers; lo is a multiple of a block */
	uint64_t at;		/* address of the last row */
	uint32_t rule;		/* rule of the last row */
	VEC(uint32_t) index, rows;
	VEC(struct unwind_rule) rules;
	uint32_t *slots;	/* rule number + 1 by hash */
	size_t nslots;
};

struct fde_source { uint64_t lo, hi; struct reader program; uint32_t cie; };
struct cie_source { struct frame_cie cie; struct cfi_state start; };

struct fde_list {
	const struct arch *arch;
	VEC(struct fde_source) fdes;
	VEC(struct cie_source) cies;
};

static uint64_t hash_rule(const struct unwind_rule *rule)
{
	uint64_t w[2];

	memcpy(w, rule, sizeof(w));
	w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
	return w[0] ^ w[0] >> 29;
}

static void grow_slots(struct row_writer *w)
{
	size_t i, k;

	w->nslots = w->nslots ? w->nslots * 4 : 1024;
	free(w->slots);
	w->slots = xcalloc(w->nslots, sizeof(*w->slots));
	for (i = 0; i < w->rules.n; i++) {
		for (k = hash_rule(&w->rules.v[i]); w->slots[k & (w->nslots - 1)]; k++)
			;
		w->slots[k & (w->nslots - 1)] = i + 1;
	}
}

/* The number of a rule; 0 (nothing known) if a damaged file has more rules than a row can refer to. */
static uint32_t intern(struct row_writer *w, const struct unwind_rule *rule)
{
	uint32_t *slot;
	size_t k;

	if (memcmp(rule, &w->rules.v[w->rule], sizeof(*rule)) == 0)
		return w->rule;
	if (w->rules.n * 2 >= w->nslots)
		grow_slots(w);
	for (k = hash_rule(rule);; k++) {
		slot = &w->slots[k & (w->nslots - 1)];
		if (!*slot)
			break;
		if (memcmp(&w->rules.v[*slot - 1], rule, sizeof(*rule)) == 0)
			return *slot - 1;
	}
	if (w->rules.n >= 1u << (32 - UNWIND_BLOCK_BITS))
		return 0;
	*vec_add(&w->rules) = *rule;
	*slot = w->rules.n;
	return *slot - 1;
}

/* Begins all blocks up to this one, each with the rule that is still valid. */
static void open_blocks(struct row_writer *w, size_t block)
{
	while (w->index.n <= block) {
		*vec_add(&w->index) = w->rows.n;
		*vec_add(&w->rows) = w->rule << UNWIND_BLOCK_BITS;
	}
}

void row_add(struct row_writer *w, uint64_t addr, const struct unwind_rule *rule)
{
	uint32_t n, place, *last;

	if (addr < w->at || addr >= w->hi)
		return;
	n = intern(w, rule);
	if (n == w->rule)
		return;
	open_blocks(w, (addr - w->lo) >> UNWIND_BLOCK_BITS);
	w->at = addr;
	w->rule = n;
	place = (addr - w->lo) & (UNWIND_BLOCK - 1);
	last = &w->rows.v[w->rows.n - 1];
	if ((*last & (UNWIND_BLOCK - 1)) != place)
		last = vec_add(&w->rows);
	*last = n << UNWIND_BLOCK_BITS | place;
}

static void collect_fde(void *arg, const struct frame_fde *fde)
{
	struct fde_list *l = arg;

	if (!l->cies.n || l->cies.v[l->cies.n - 1].cie.at != fde->cie->at) {
		struct cie_source *c = vec_add(&l->cies);

		c->cie = *fde->cie;
		cfi_start(l->arch, &c->cie, &c->start);
	}
	*vec_add(&l->fdes) = (struct fde_source){ fde->lo, fde->hi, fde->program, l->cies.n - 1 };
}

static struct sort_key *sorted_fdes(const struct fde_list *l)
{
	struct sort_key *keys = xcalloc(l->fdes.n + 1, sizeof(*keys));
	size_t i;

	for (i = 0; i < l->fdes.n; i++)
		keys[i] = (struct sort_key){ l->fdes.v[i].lo, i };
	sort_keys(keys, l->fdes.n);
	return keys;
}

static void add_gap(struct module *m, uint64_t lo, uint64_t hi, struct row_writer *w)
{
	static const struct unwind_rule none;

	if (hi <= lo || hi - lo < PADDING)
		return;
	row_add(w, lo, &none);
	if (!go_rows(m, lo, hi, w))
		gap_rows(m, lo, hi, w);
}

static void add_all(struct module *m, const struct fde_list *l, struct row_writer *w)
{
	struct sort_key *keys = sorted_fdes(l);
	uint64_t done = w->lo;
	size_t i;

	for (i = 0; i < l->fdes.n; i++) {
		const struct fde_source *s = &l->fdes.v[keys[i].index];
		const struct cie_source *c = &l->cies.v[s->cie];
		/* where two FDEs overlap, the first one is valid up to the start of the second */
		uint64_t next = i + 1 < l->fdes.n ? MAX(keys[i + 1].addr, s->lo) : w->hi;
		struct frame_fde fde = { s->lo, MIN(MIN(s->hi, next), w->hi), 0, s->program, &c->cie };

		if (s->lo < w->lo || fde.lo >= fde.hi)
			continue;
		add_gap(m, done, fde.lo, w);
		cfi_run(m->arch, &fde, &c->start, w);
		done = fde.hi;
	}
	add_gap(m, done, w->hi, w);
	free(keys);
}

/* The range of the code; if there is a wide hole in it, the part with the most code. */
static struct range code_span(const struct module *m)
{
	const struct sym_priv *p = priv(m);
	struct range all = { UINT64_MAX, 0 }, best = { 0 };
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < p->text.n; i++) {
		struct range t = p->text.v[i];

		all.lo = MIN(all.lo, t.lo);
		all.hi = MAX(all.hi, t.hi);
		sum += t.hi - t.lo;
		if (t.hi - t.lo > best.hi - best.lo)
			best = t;
	}
	return all.hi - all.lo > sum + MOST_HOLE ? best : all;
}

static struct unwind_data *pack(struct row_writer *w)
{
	uint32_t index = (w->index.n + 1) * 4;
	uint32_t rules = (sizeof(struct unwind_data) + index + 7) & ~7u;
	uint32_t rows = rules + w->rules.n * sizeof(struct unwind_rule);
	struct unwind_data *d;

	*vec_add(&w->index) = w->rows.n;
	d = xcalloc(1, (rows + w->rows.n * 4 + 7) & ~7ul);
	*d = (struct unwind_data){
		.size = (rows + w->rows.n * 4 + 7) & ~7u, .nblocks = w->index.n - 1,
		.rows = rows, .rules = rules, .nrows = w->rows.n, .nrules = w->rules.n,
	};
	memcpy(d->index, w->index.v, index);
	memcpy((char *)d + rules, w->rules.v, w->rules.n * sizeof(struct unwind_rule));
	memcpy((char *)d + rows, w->rows.v, w->rows.n * 4);
	return d;
}

static struct unwind_data *make_table(struct module *m, struct range *code)
{
	struct row_writer w = { 0 };
	struct fde_list l = { .arch = m->arch };
	struct unwind_data *d = NULL;

	*code = code_span(m);
	code->lo &= ~(uint64_t)(UNWIND_BLOCK - 1);
	if (code->hi <= code->lo || code->hi - code->lo > UINT32_MAX / 2)
		return NULL;
	w.lo = w.at = code->lo;
	w.hi = code->hi;
	vec_add(&w.rules);	/* rule 0: nothing is known */
	frames_each(m, collect_fde, &l);
	add_all(m, &l, &w);
	open_blocks(&w, (w.hi - 1 - w.lo) >> UNWIND_BLOCK_BITS);
	if (w.rules.n > 1)
		d = pack(&w);
	vec_free(&l.fdes);
	vec_free(&l.cies);
	vec_free(&w.index);
	vec_free(&w.rows);
	vec_free(&w.rules);
	free(w.slots);
	return d;
}

const struct unwind_data *module_unwind(struct module *m, uint64_t *ret_lo, uint64_t *ret_hi)
{
	struct sym_priv *p = priv(m);

	if (!p->have_unwind) {
		p->have_unwind = true;
		p->unwind = make_table(m, &p->unwind_code);
	}
	*ret_lo = p->unwind_code.lo;
	*ret_hi = p->unwind_code.hi;
	return p->unwind;
}
