/* SPDX-License-Identifier: MIT */
/*
 * A call that has gone on in a function which is not known ends when control is back at its return address. Pads report such
 * addresses as they meet them; each gets a probe, as a part of the process of its own, and is then written to a table in which the
 * pads look. What is reported may be anything: an address is believed if there is a call in front of it, in code that is mapped, and the number
 * that comes with it is that of a row. A wrong pair of both costs a site at which no call ever ends.
 */
#include "session/calls/tails.h"

#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "session/events/rings.h"

/* Between two looks, and so between two stops for new sites; longer and longer. */
#define LOOK_NS 50000000ull
#define LOOK_DOUBLED 6
#define MOST_ROUNDS 40		/* of one process: each takes an arena of its own */
#define MOST_LEARNED (TAIL_KNOWN_SIZE / 8 / 2)	/* pairs of an address and a row: few buckets of the table are full then */
#define MOST_AT_ONE 24		/* rows whose calls may end at one return address */
#define MOST_REACHED 32		/* functions of one call instruction */

struct learned { uint64_t at; uint32_t id; };
typedef VEC(struct learned) learned_list;

static bool is_learned(const struct target *t, const struct learned *x)
{
	for (size_t i = 0; i < t->learned.n; i++)
		if (t->learned.v[i].at == x->at && t->learned.v[i].id == x->id)
			return true;
	return false;
}

/* What was reported since the last look. */
static void take_asked(struct target *t, learned_list *list)
{
	struct tail_asked *asked;
	uint64_t at;

	asked = rings_asked(t, &at);
	for (int i = 0; i < TAIL_ASKED && t->learned.n < MOST_LEARNED; i++) {
		struct learned x = { .at = __atomic_load_n(&asked[i].at, __ATOMIC_RELAXED) };

		if (!x.at)
			continue;
		x.id = __atomic_load_n(&asked[i].id, __ATOMIC_RELAXED);
		__atomic_store_n(&asked[i].at, 0, __ATOMIC_RELAXED);	/* so that other rows can report it, too */
		if (is_learned(t, &x))
			continue;
		*vec_add(&t->learned) = x;
		*vec_add(list) = x;
	}
}

/* The row's own tail jump whose counter of calls that end early has this number in the target; NULL: there is none. */
static const struct site *tail_of(const struct jab *j, uint32_t main, uint32_t id)
{
	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		const struct counter *c = s->counter == UINT32_MAX ? NULL : &j->counters.v[s->counter];

		if (c && !s->link && s->early && c->target == main && c->index == id && c->role == COUNT_HITS && site_is_tail(s))
			return s;
	}
	return NULL;
}

/* Finds the module around a live address in any part of the process, and adds it to the new part. Returns its number there, or UINT32_MAX. */
static uint32_t module_around(struct jab *j, uint32_t part, uint64_t at)
{
	struct target *p = &j->targets.v[part];

	for (uint32_t i = 0; i < p->loaded.n; i++)
		if (at >= p->loaded.v[i].start && at < p->loaded.v[i].end)
			return i;
	for (size_t i = 0; i < j->targets.n; i++) {
		struct target *t = &j->targets.v[i];

		for (size_t k = 0; i != part && t->main == p->main && !t->lost && k < t->loaded.n; k++) {
			struct loaded *l = &t->loaded.v[k], copy;

			if (at < l->start || at >= l->end || target_open_file(j, t, l) < 0 || target_may_patch(t, l) < 0)
				continue;
			copy = (struct loaded){ .file = l->file, .path = xstrdup(l->path), .bias = l->bias, .start = l->start, .end = l->end,
						.is_exe = l->is_exe };
			*vec_add(&p->loaded) = copy;
			return p->loaded.n - 1;
		}
	}
	return UINT32_MAX;
}

/* True if an instruction begins there and the one in front of it is a call. */
static bool is_behind_call(const struct fcode *f, uint64_t at)
{
	uint32_t n = f && !f->broken && at - f->lo < f->end - f->lo ? f->index[at - f->lo] : UINT32_MAX;
	uint8_t kind;

	if (n == UINT32_MAX || !n || fcode_addr(f, n - 1) + f->insns.v[n - 1].len != at)
		return false;
	kind = f->insns.v[n - 1].kind;
	return kind == INSN_CALL || kind == INSN_CALL_IND;
}

static bool add_return(struct jab *j, uint32_t part, const struct learned *x)
{
	const struct site *own = tail_of(j, j->targets.v[part].main, x->id);
	uint32_t loaded = own ? module_around(j, part, x->at) : UINT32_MAX;
	struct target *t = &j->targets.v[part];
	const struct fcode *f;
	struct file *file;
	struct site s;

	if (loaded == UINT32_MAX)
		return false;
	file = &j->files.v[t->loaded.v[loaded].file];
	if (file->m->runtime->no_tail_calls || (!file->code && code_open(file->m, &file->code) < 0))
		return false;
	s = (struct site){ .probe = own->probe, .target = part, .loaded = loaded, .counter = own->counter,
			   .addr = x->at - t->loaded.v[loaded].bias, .kind = WANT_INSN, .link = t->links.n + 1 };
	f = code_func(file->code, s.addr);
	if (!is_behind_call(f, s.addr))
		return false;
	s.func = f->func - file->m->funcs.v;
	*vec_add(&t->links) = (struct tail_link){ .number = tails_func(j, &j->targets.v[own->target], own), .loaded = loaded, .func = s.func };
	*vec_add(&j->sites) = s;
	return true;
}

/* The pads may leave calls to this return address from now on. A bucket that is full stays so: these calls end at the jump. */
static bool write_known(struct jab *j, uint32_t main, const struct site *s)
{
	const struct target *t = &j->targets.v[s->target], *m = &j->targets.v[main];
	uint64_t words[TAIL_BUCKET_SIZE / 8], at, word;
	uint32_t bucket;

	word = j->arch->tail_known(tails_func(j, t, s), s->addr + t->loaded.v[s->loaded].bias, &bucket);
	at = tails_known_at(m) + (uint64_t)bucket * TAIL_BUCKET_SIZE;
	if (proc_read(m->proc, TADDR(at), words, sizeof(words)) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!words[i])
			return proc_write(m->proc, TADDR(at + 8 * i), &word, sizeof(word)) == 0;
	return false;
}

/* True if calls of this row may go on in an unknown function at this jump. */
static bool is_unknown(const struct jab *j, const struct site *s)
{
	const struct tail_link *next = s->next ? &j->targets.v[s->target].links.v[s->next - 1] : NULL;

	return s->early && site_is_tail(s) && !s->again && (!next || next->cut || next->bad);
}

/* Functions that one instruction calls: those that are known, with the ones that they jump to, or any. */
struct callees { struct tail_dest v[MOST_REACHED]; size_t n; uint32_t target; bool any; };

static void add_callee(struct callees *c, const struct tail_dest *d)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].loaded == d->loaded && c->v[i].func == d->func)
			return;
	if (c->n < MOST_REACHED)
		c->v[c->n++] = *d;
}

/* What is called in front of a return address in this part. False: it is not there. */
static bool find_callees(struct jab *j, uint32_t part, uint64_t at, struct callees *c)
{
	struct target *t = &j->targets.v[part];
	const struct fcode *f;
	uint32_t loaded = 0, n;
	struct tail_dest d;
	uint64_t addr;

	for (; loaded < t->loaded.n; loaded++)
		if (at >= t->loaded.v[loaded].start && at < t->loaded.v[loaded].end)
			break;
	if (loaded == t->loaded.n)
		return false;
	*c = (struct callees){ .target = part };
	if (target_open_file(j, t, &t->loaded.v[loaded]) < 0 || target_may_patch(t, &t->loaded.v[loaded]) < 0)
		return true;
	addr = at - t->loaded.v[loaded].bias;
	f = tails_decoded(j, part, loaded, addr - 1);
	if (!is_behind_call(f, addr))
		return true;
	n = f->index[addr - f->lo] - 1;
	if (f->insns.v[n].kind == INSN_CALL_IND)
		c->any = true;
	else if (tails_dest(j, part, loaded, fcode_addr(f, n), EXIT_JMP, &d))
		add_callee(c, &d);
	for (size_t i = 0; i < c->n; i++) {
		d = c->v[i];
		f = tails_decoded(j, part, d.loaded, j->files.v[t->loaded.v[d.loaded].file].m->funcs.v[d.func].addr);
		for (size_t k = 0; f && k < f->exits.n; k++)
			if (f->exits.v[k].kind != EXIT_RET && tails_dest(j, part, c->v[i].loaded, f->exits.v[k].addr, f->exits.v[k].kind, &d))
				add_callee(c, &d);
	}
	return true;
}

static bool is_callee(const struct jab *j, const struct callees *c, const struct row *row)
{
	for (size_t i = 0; i < c->n; i++)
		if (j->targets.v[c->target].loaded.v[c->v[i].loaded].file == row->file && c->v[i].func == row->func)
			return true;
	return c->any;
}

/*
 * One instruction may call many functions through a pointer, or one that goes on in others, and where a probe is, no second one fits later:
 * rows that have not reported this return address yet are served there, too.
 */
static void add_others(struct jab *j, uint32_t main, uint64_t at, learned_list *list)
{
	struct target *t = &j->targets.v[main];
	struct callees callees = { .n = 0 };
	size_t n = 0;

	for (uint32_t i = 0; i < j->targets.n; i++)
		if (j->targets.v[i].main == main && !j->targets.v[i].lost && find_callees(j, i, at, &callees))
			break;

	for (size_t i = 0; i < list->n; i++)
		n += list->v[i].at == at;
	for (size_t i = 0; i < j->sites.n && n < MOST_AT_ONE && t->learned.n < MOST_LEARNED; i++) {
		const struct site *s = &j->sites.v[i];
		const struct counter *c = s->counter == UINT32_MAX ? NULL : &j->counters.v[s->counter];
		struct learned x = { at, c ? c->index : 0 };

		if (!c || c->target != main || c->role != COUNT_HITS || !is_unknown(j, s) || !is_callee(j, &callees, &j->rows.v[c->row]) ||
		    is_learned(t, &x))
			continue;
		*vec_add(&t->learned) = x;
		*vec_add(list) = x;
		n++;
	}
}

static int learn(struct jab *j, uint32_t main, const learned_list *list)
{
	uint32_t part = j->targets.n;
	size_t first = j->sites.n;
	struct target *t = vec_add(&j->targets);
	int r = 0, known = 0;

	t->main = main;
	t->proc = j->targets.v[main].proc;
	for (size_t i = 0; i < list->n; i++)
		r += add_return(j, part, &list->v[i]);
	if (!r) {
		target_drop(j, &j->targets.v[part]);
		return 0;
	}
	r = place_plan(j, &j->targets.v[part], false);
	if (!r)
		r = place_insert(j, part);
	if (r < 0) {
		log_info("process %d: %s; where calls return that have gone on in another function is not probed",
			 j->targets.v[main].proc->pid, err_text());
		return 0;
	}
	for (size_t i = first; i < j->sites.n; i++)
		if (j->sites.v[i].target == part && j->sites.v[i].tactic != TACTIC_NONE)
			known += write_known(j, main, &j->sites.v[i]);
	log_info("process %d: probes at return addresses of calls that have gone on in another function: %d", j->targets.v[main].proc->pid, known);
	return known;
}

int tails_poll(struct jab *j)
{
	uint64_t now = now_ns();
	size_t n = j->targets.n;
	int found = 0;

	for (uint32_t i = 0; j->events && i < n; i++) {
		struct target *t = &j->targets.v[i];
		learned_list list = { 0 };

		if (t->main != i || !t->has_notes || !t->inserted || t->lost || t->learned_rounds == MOST_ROUNDS ||
		    now - t->learned_at < LOOK_NS << MIN(t->learned_rounds / 4, LOOK_DOUBLED) || !proc_alive(t->proc))
			continue;
		t->learned_at = now;
		take_asked(t, &list);
		for (size_t k = list.n; k-- > 0;)
			add_others(j, i, list.v[k].at, &list);
		if (list.n) {
			t->learned_rounds++;
			found += learn(j, i, &list);
		}
		vec_free(&list);
	}
	return found;
}
