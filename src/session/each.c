/* SPDX-License-Identifier: MIT */
/* Looking at a session: its sites, counts, probes and functions, one at a time. */
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"

#include <inttypes.h>
#include <string.h>
#include "base/err.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *probe_name(const struct jab *j, uint32_t probe)
{
	const struct session_probe *p = &j->probes.v[probe];
	const char *line = p->unit ? j->units.v[p->unit - 1].text : NULL;

	return p->spec->name ? p->spec->name : line ? line : p->spec->text;
}

static const char *name_of(const struct jab *j, uint32_t file, uint32_t func)
{
	struct module *m = j->files.v[file].m;

	return func == UINT32_MAX ? "?" : func_name(m, &m->funcs.v[func]);
}

static const struct usdt *usdt_of(const struct jab *j, uint32_t file, uint32_t number)
{
	struct usdt *list;

	if (!number || number > module_usdts(j->files.v[file].m, &list))
		return NULL;
	usdt_read_args(j->files.v[file].m, &list[number - 1]);
	return &list[number - 1];
}

const struct usdt *row_usdt(const struct jab *j, const struct row *row)
{
	return usdt_of(j, row->file, row->usdt);
}

static void describe_site(const struct jab *j, const struct site *s, struct jab_site *out)
{
	static const char *const kinds[] = {
		[WANT_INSN] = "insn", [WANT_ENTRY] = "entry", [WANT_EXIT] = "exit"
	};
	const struct target *t = &j->targets.v[s->target];
	const struct loaded *l = &t->loaded.v[s->loaded];
	const struct module *m = j->files.v[l->file].m;

	memset(out, 0, sizeof(*out));
	out->probe = probe_name(j, s->probe);
	out->module = l->path;
	out->function = name_of(j, l->file, s->func);
	out->address = s->addr + l->bias;
	out->offset = s->func == UINT32_MAX ? 0 : s->addr - m->funcs.v[s->func].addr;
	if (s->usdt) {
		out->function = usdt_of(j, l->file, s->usdt)->shown;
		out->offset = 0;
	}
	out->kind = s->usdt ? "usdt" : kinds[s->kind];
	out->tactic = s->never_returns ? "noreturn" : tactic_name(s->tactic);
	out->cost = tactic_cost(s->tactic);
	out->reason = s->reason ? s->reason : "";
	out->neighbour = s->neighbour ? s->neighbour + l->bias : 0;
	out->pid = t->proc ? t->proc->pid : 0;
}

int session_each_site(struct jab *j, int (*each)(void *arg, const struct jab_site *s), void *arg)
{
	for (size_t i = 0; i < j->sites.n; i++) {
		struct jab_site out;
		int r;

		if (!j->targets.v[j->sites.v[i].target].loaded.n || j->sites.v[i].link)	/* target put away, or a site for tail calls */
			continue;
		if (j->probes.v[j->sites.v[i].probe].removed)
			continue;
		describe_site(j, &j->sites.v[i], &out);
		r = each(arg, &out);
		if (r)
			return r;
	}
	return 0;
}

void site_refused(struct jab *j, const struct site *s)
{
	struct session_probe *p = &j->probes.v[s->probe];
	struct jab_site out;

	p->refused++;
	if (p->why)
		return;
	describe_site(j, s, &out);
	p->why = s->usdt ? xasprintf("%s of %s: %s", out.function, out.module, out.reason) :
			   xasprintf("%s+%#" PRIx64 ": %s", out.function, out.offset, out.reason);
}

struct sums { uint64_t hits, all, entries, early, recorded, lost, no_stack; bool has_entries; };

static struct sums *sum_rows(struct jab *j)
{
	struct sums *sums = xcalloc(j->rows.n, sizeof(*sums));

	for (size_t i = 0; i < j->counters.n; i++) {
		const struct counter *c = &j->counters.v[i];
		uint64_t n = counter_read(&j->targets.v[c->target], c->index);

		if (c->role == COUNT_ENTRIES) {
			sums[c->row].entries += n;
			sums[c->row].has_entries = true;
		} else if (c->role == COUNT_EARLY) {
			sums[c->row].early += n;
		} else {
			sums[c->row].hits += n;
			sums[c->row].lost += rings_lost(&j->targets.v[c->target], c->index);
			sums[c->row].no_stack += rings_no_stack(&j->targets.v[c->target], c->index);
		}
	}
	for (size_t i = 0; i < j->past.n; i++) {
		sums[i].hits += j->past.v[i].hits;
		sums[i].entries += j->past.v[i].entries;
		sums[i].early += j->past.v[i].early;
		sums[i].lost += j->past.v[i].lost;
		sums[i].no_stack += j->past.v[i].no_stack;
	}
	for (size_t i = 0; i < j->rows.n; i++) {
		const struct row *row = &j->rows.v[i];

		sums[i].all = sums[i].hits;	/* also while its probe was off */
		sums[i].hits = (j->probes.v[row->probe].off && !j->events ? row->frozen : sums[i].all) - row->skipped;
	}
	for (size_t i = 0; j->events && i < j->events->rows; i++) {
		uint32_t left = j->rows.v[i].left;

		if (j->rows.v[i].is_left)
			continue;
		sums[i].recorded = j->events->recorded.v[i];
		sums[i].lost += j->events->unwritten.v[i];
		if (left && left <= j->events->rows) {
			sums[i].recorded += j->events->recorded.v[left - 1];
			sums[i].lost += j->events->unwritten.v[left - 1];
		}
		if (!j->events->o.overwrite)	/* then they were counted, too */
			sums[i].hits = sums[i].recorded + sums[i].lost;
	}
	return sums;
}

void rows_switch(struct jab *j, uint32_t probe, bool on)
{
	struct sums *sums = sum_rows(j);

	for (size_t i = 0; i < j->rows.n; i++) {
		struct row *row = &j->rows.v[i];

		if (row->probe != probe)
			continue;
		if (on)
			row->skipped += sums[i].all - row->frozen;
		else
			row->frozen = sums[i].all;
	}
	free(sums);
}

/* For each row, the number of exits that got no jump. */
static uint32_t *unplaced_exits(struct jab *j)
{
	uint32_t *n = xcalloc(j->rows.n, sizeof(*n));

	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];

		if (s->kind == WANT_EXIT && s->tactic == TACTIC_NONE && s->counter != UINT32_MAX && !s->link)
			n[j->counters.v[s->counter].row]++;
	}
	return n;
}

/* An event of a call needs its entry as well as an exit. */
static bool row_is_placed(const struct jab *j, const struct row *row)
{
	return row->placed && (row->entered || j->probes.v[row->probe].spec->kind != SPEC_CALL);
}

/* Places of one tracepoint are one for the user. */
static void join_tracepoints(const struct jab *j, struct sums *sums, bool *placed)
{
	for (size_t i = 0; i < j->rows.n; i++) {
		uint32_t first = j->rows.v[i].usdt ? row_of_tracepoint(j, i) : i;

		placed[i] = row_is_placed(j, &j->rows.v[i]);
		if (first == i)
			continue;
		sums[first].hits += sums[i].hits;
		placed[first] |= placed[i];
	}
}

int session_each_count(struct jab *j, int (*each)(void *arg, const struct jab_count *c), void *arg)
{
	struct sums *sums = sum_rows(j);
	uint32_t *unplaced = unplaced_exits(j);
	bool *placed = xcalloc(j->rows.n + 1, sizeof(*placed));
	int r = 0;

	join_tracepoints(j, sums, placed);
	for (size_t i = 0; !r && i < j->rows.n; i++) {
		const struct row *row = &j->rows.v[i];
		const struct usdt *usdt = row_usdt(j, row);
		struct jab_count c = {
			.probe = probe_name(j, row->probe),
			.module = base_name(j->files.v[row->file].path),
			.function = usdt ? usdt->shown : name_of(j, row->file, row->func),
			.has_offset = row->offset != UINT64_MAX && !usdt,
			.offset = row->offset == UINT64_MAX || usdt ? 0 : row->offset,
			.hits = sums[i].hits,
			.open = row->entered && sums[i].has_entries ? (int64_t)(sums[i].entries - sums[i].all) : -1,
			.unplaced = unplaced[i],
			.not_placed = !placed[i],
			.is_return = row->is_return,
		};

		if (!row->is_left && !j->probes.v[row->probe].removed && (!usdt || row_of_tracepoint(j, i) == i))
			r = each(arg, &c);
	}
	free(placed);
	free(unplaced);
	free(sums);
	return r;
}

int session_each_probe(struct jab *j, int (*each)(void *arg, const struct jab_probe_info *p), void *arg)
{
	struct sums *sums = sum_rows(j);
	int r = 0;

	for (uint32_t i = 0; !r && i < j->probes.n; i++) {
		const struct session_probe *p = &j->probes.v[i];
		struct jab_probe_info info = { probe_name(j, i), p->sites, p->refused, .left_out = p->left_out, .why = p->why,
					       .uncounted = p->unit && j->events && j->events->o.overwrite && !unit_is_counted(j, i) };

		bool placed = false;

		for (size_t k = 0; k < j->rows.n; k++)
			if (j->rows.v[k].probe == i) {
				placed |= row_is_placed(j, &j->rows.v[k]);
				info.hits += sums[k].hits;
				info.recorded += sums[k].recorded;
				info.lost += sums[k].lost;
				info.no_stack += sums[k].no_stack;
			}
		info.not_placed = p->sites && !placed;
		info.removed = p->removed;
		r = each(arg, &info);
	}
	free(sums);
	return r;
}

static void say_crowded(const struct jab *j)
{
	uint64_t n = 0;

	for (size_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].main == i && j->targets.v[i].has_notes)
			n += rings_crowded(&j->targets.v[i]);
	if (n)
		log_warn("%llu calls that went on in another function were given up, because too many were open at once", (unsigned long long)n);
}

void rows_say_early(struct jab *j)
{
	struct sums *sums = sum_rows(j);

	say_crowded(j);
	for (uint32_t i = 0; i < j->probes.n; i++) {
		uint64_t n = 0, funcs = 0;

		for (size_t k = 0; k < j->rows.n; k++) {
			if (j->rows.v[k].probe != i || !sums[k].early)
				continue;
			n += sums[k].early;
			funcs++;
			log_info("%s: %llu calls went on in a function that was not known", name_of(j, j->rows.v[k].file, j->rows.v[k].func),
				 (unsigned long long)sums[k].early);
		}
		if (n)
			log_warn("%s: %llu calls%s went on in a function that was not known (<tail call>); their time and value are those of the "
				 "jump to it", probe_name(j, i), (unsigned long long)n, funcs > 1 ? " of several functions" : "");
	}
	free(sums);
}
