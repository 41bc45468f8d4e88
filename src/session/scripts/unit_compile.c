/* SPDX-License-Identifier: MIT */
/*
 * A program for each clause and each function that it is put on. What a name means is the function's matter: where a
 * probe has many places (a pattern, copies of an inlined function, several files), those at which the clause means nothing
 * are left out with a word why, as long as there is one at which it means something.
 */
#include "session/scripts/units.h"

#include <string.h>
#include "base/err.h"
#include "session/watches/go.h"
#include "session/watches/tls.h"

/* Of a line; a script's are shown with its errors. Many functions have the same ones. */
static void say_warnings(struct unit *u)
{
	const struct diags *d = &u->script->diags;

	for (; u->told < d->list.n; u->told++) {
		const struct diag *w = &d->list.v[u->told];
		bool known = !w->warning;

		for (size_t i = 0; !known && i < u->told; i++)
			known = d->list.v[i].at == w->at && !strcmp(d->list.v[i].text, w->text);
		if (!known)
			log_warn("'%.*s': %s", (int)w->len, d->source + w->at, w->text);
	}
}
static uint8_t place_of(const struct jab *j, const struct row *row)
{
	if (j->probes.v[row->probe].spec->kind == SPEC_CALL)
		return LANG_CALL;
	return row->is_return ? LANG_RETURN : row->offset == UINT64_MAX ? LANG_ENTRY : LANG_INSIDE;
}

#define MOST_NAMED 100	/* more functions at once: nobody wants to wait for the names of all their parameters */

static struct lang_site site_of(struct jab *j, struct row *row, uint64_t bias)
{
	const struct session_probe *probe = &j->probes.v[row->probe];
	struct module *m = j->files.v[row->file].m;
	struct lang_site s = { .at = place_of(j, row), .bias = bias, .tails = row->tails,
			       .probe = unit_probe_name(j, row) };

	s.module = m;
	if (row->func != UINT32_MAX) {
		s.entry = m->funcs.v[row->func].addr;
		s.func = func_name(m, &m->funcs.v[row->func]);
	}
	s.pc = s.entry + (row->offset == UINT64_MAX ? 0 : row->offset);
	s.is_copy = probe->is_copies;
	s.own_calls = m->runtime->own_calls;
	s.usdt = row_usdt(j, row);
	/* The events of a line carry the name of their row; those of a script are the clause's. */
	s.owner = j->units.v[probe->unit - 1].is_line ? row - j->rows.v + 1 : 0;
	s.many = probe->sites > MOST_NAMED;
	if (!lang_asks_types(j->units.v[probe->unit - 1].lang, probe->clause, &s) || module_types(m, &s.types) < 0)
		s.types = NULL;
	return s;
}

static uint64_t bias_of(const struct jab *j, const struct site *s)
{
	return j->targets.v[s->target].loaded.v[s->loaded].bias;
}

/* One site for each clause will do to find out what the maps hold. */
struct first_sites { struct lang_site *sites; uint8_t *known; };

static const struct lang_site *first_site(void *arg, uint32_t clause)
{
	struct first_sites *x = arg;

	return x->known[clause] ? &x->sites[clause] : NULL;
}

static void find_first_sites(struct jab *j, uint32_t unit, struct first_sites *x)
{
	const struct script *s = j->units.v[unit].script;

	for (uint32_t i = 0; i < s->clauses.n; i++)
		if (s->clauses.v[i]->nprobes && probe_is_of_tracer(s->clauses.v[i]->probes[0])) {
			x->known[i] = SITE_TRACER;
			x->sites[i] = (struct lang_site){ .at = LANG_TRACER };
		}
	for (size_t i = 0; i < j->sites.n; i++) {
		const struct session_probe *p = &j->probes.v[j->sites.v[i].probe];
		const struct site *at = &j->sites.v[i];

		if (p->unit != unit + 1 || x->known[p->clause] || at->counter == UINT32_MAX)
			continue;
		x->known[p->clause] = SITE_KNOWN;
		x->sites[p->clause] = site_of(j, &j->rows.v[j->counters.v[at->counter].row], bias_of(j, at));
	}
	unit_guess(j, unit, x->sites, x->known);
}

static bool better_site(struct jab *j, uint32_t unit, uint32_t clause, struct lang_site *ret_site)
{
	uint32_t last = UINT32_MAX;	/* row */

	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		const struct session_probe *p = &j->probes.v[s->probe];
		struct lang_site at;

		if (p->unit != unit + 1 || p->clause != clause || s->counter == UINT32_MAX || j->counters.v[s->counter].row == last)
			continue;
		last = j->counters.v[s->counter].row;
		at = site_of(j, &j->rows.v[last], bias_of(j, s));
		if (lang_fits(j->units.v[unit].lang, clause, &at)) {
			*ret_site = at;
			return true;
		}
	}
	return false;
}

/* The first one may be one at which the clause means nothing, which tells nothing about maps. True: there was a better one. */
static bool find_better_sites(struct jab *j, uint32_t unit, struct first_sites *x)
{
	bool found = false;

	for (uint32_t i = 0; i < j->units.v[unit].script->clauses.n; i++) {
		if ((x->known[i] != SITE_KNOWN && x->known[i] != SITE_ON_DISK) || lang_fits(j->units.v[unit].lang, i, &x->sites[i]))
			continue;
		found |= x->known[i] == SITE_KNOWN ? better_site(j, unit, i, &x->sites[i]) : unit_guess_better(j, unit, i, &x->sites[i]);
	}
	return found;
}

static uint32_t known_program(const struct jab *j, uint32_t row, const struct site *s)
{
	for (uint32_t i = j->rows.v[row].program; i; i = j->programs.v[i - 1].next) {
		const struct program *p = &j->programs.v[i - 1];

		if ((p->bias == bias_of(j, s) || p->bias == UINT64_MAX) && (!p->only || p->only == s->target + 1))
			return i;
	}
	return 0;
}

/* Records that came with the last program belong to the rows of their sites, or to one for calls that did not return. */
static void give_ids(struct unit *u, uint32_t left)
{
	const struct ir_unit *ir = lang_unit(u->lang);

	for (uint32_t i = u->ids.n; i < ir->records.n; i++)
		*vec_add(&u->ids) = !u->is_line ? i : ir->records.v[i].owner & IR_OWNER_LEFT ? left : GEN_ID_OF_SITE;
}

/* Events of calls that did not return are of another class, and that is a row of its own. */
static uint32_t left_row(struct jab *j, uint32_t row)
{
	if (!j->rows.v[row].left) {
		struct row r = j->rows.v[row];

		r.is_left = true;
		r.program = 0;
		*vec_add(&j->rows) = r;
		j->rows.v[row].left = j->rows.n;
	}
	return j->rows.v[row].left - 1;
}

#define BODY_MOST 60000	/* a want's size has 16 bits */

static bool same_records(const struct ir_record *a, const struct ir_record *b)
{
	if (a->kind != b->kind || a->faulty != b->faulty || a->nfields != b->nfields)
		return false;
	for (uint32_t i = 0; i < a->nfields; i++)
		if (a->fields[i].type != b->fields[i].type || a->fields[i].cap != b->fields[i].cap)
			return false;
	return true;
}

/* Alike but for the events that they write: their code is as long. */
static bool same_length(const struct ir_unit *u, const struct ir_prog *a, const struct ir_prog *b)
{
	if (a->where != b->where || a->clause != b->clause || a->ins.n != b->ins.n || a->args.n != b->args.n || a->regs.n != b->regs.n ||
	    a->slots.n || b->slots.n || a->nsaved != b->nsaved || (a->args.n && memcmp(a->args.v, b->args.v, a->args.n * sizeof(*a->args.v))) ||
	    (a->regs.n && memcmp(a->regs.v, b->regs.v, a->regs.n)))
		return false;
	for (size_t i = 0; i < a->ins.n; i++) {
		struct ir_ins x = a->ins.v[i], y = b->ins.v[i];

		if (x.op == IR_EMIT && y.op == IR_EMIT && same_records(&u->records.v[x.record], &u->records.v[y.record]))
			x.record = y.record;
		if (memcmp(&x, &y, sizeof(x)))
			return false;
	}
	return true;
}

static int refuse_language_here(const struct jab *j)
{
	int r = refuse_language(j);

	return r < 0 ? fail(r, "jab for %s records registers and constants only; memory, strings, backtraces, conditions and expressions are not "
			    "read yet", j->arch->name) : 0;
}

/* Measuring is to generate it in every way there is. One clause on many functions is measured once, mostly. */
static int measure_one(struct jab *j, struct unit *u, struct program *p, int part)
{
	const struct program *last = j->programs.n ? &j->programs.v[j->programs.n - 1] : NULL;
	const struct ir_unit *ir = lang_unit(u->lang);
	const struct ir_prog *prog = p->progs[part];
	bool framed;
	int r;

	p->event_max[part] = gen_event_max(ir, prog);
	if (last && &j->units.v[last->unit] == u && last->progs[part] && same_length(ir, last->progs[part], prog) &&
	    last->event_max[part] == p->event_max[part]) {
		p->scratch[part] = last->scratch[part];
		p->stack[part] = last->stack[part];
		p->plain[part] = last->plain[part];
		return last->body[part];
	}
	p->plain[part] = !j->budget && !u->switched && gen_is_plain(ir, prog, &framed);
	if (p->plain[part] && !framed) {
		p->stack[part] = GEN_PLAIN_STACK;
		return gen_measure_plain(ir, prog);
	}
	r = refuse_language_here(j);
	if (!r)
		r = gen_scratch(ir, prog);
	if (r < 0)
		return r;
	p->scratch[part] = r;
	r = gen_stack_need(ir, prog);
	if (r < 0)
		return r;
	p->stack[part] = r;
	return p->plain[part] ? gen_measure_plain(ir, prog) : gen_measure(ir, prog);
}

static int measure(struct jab *j, struct unit *u, struct program *p, const char *probe)
{
	for (int i = 0; i < PARTS && p->progs[i]; i++) {
		int n = measure_one(j, u, p, i);

		if (n >= 0 && n > BODY_MOST)
			n = fail(-E2BIG, "its program takes %d bytes of code, and %d are the most", n, BODY_MOST);
		if (n < 0)
			return fail_in(n, "probe '%s'", probe);
		p->body[i] = n;
	}
	return 0;
}

/* One that was compiled for another function of the file, and knows nothing of that. 0: none. */
static uint32_t general_program(struct jab *j, struct unit *u, uint32_t row)
{
	struct row *at = &j->rows.v[row];
	bool own_calls = j->files.v[at->file].m->runtime->own_calls;

	for (size_t i = 0; i < u->generals.n; i++) {
		const struct general *g = &u->generals.v[i];

		if (g->file == at->file && g->at == place_of(j, at) && g->own_calls == own_calls && g->tails == at->tails)
			return at->program = at->program ? at->program : g->program;
	}
	return 0;
}

static void note_general(struct jab *j, struct unit *u, uint32_t row, uint32_t program, const struct lang_site *site)
{
	const struct program *p = &j->programs.v[program - 1];

	if (u->is_line && p->bias == UINT64_MAX && !p->only && lang_is_general(u->lang, 0, site))
		*vec_add(&u->generals) = (struct general){ j->rows.v[row].file, program, site->at, site->own_calls, site->tails };
}

static int compile(struct jab *j, uint32_t row, const struct site *s, uint32_t *ret_program)
{
	uint64_t bias = bias_of(j, s);
	struct row *at = &j->rows.v[row];
	const struct session_probe *probe = &j->probes.v[at->probe];
	struct unit *u = &j->units.v[probe->unit - 1];
	struct program p = { .unit = probe->unit - 1, .row = row, .bias = bias, .next = at->program };
	struct lang_site site = site_of(j, at, bias);
	struct tls_asker asker = { j, s->target, s->loaded, false };
	int r;

	site.tls = tls_find;
	site.object = object_find;
	site.arg = &asker;
	r = lang_compile(u->lang, probe->clause, &site, p.progs);
	p.only = asker.asked ? s->target + 1 : 0;
	if (r < 0)
		return r;
	if (u->is_line)
		say_warnings(u);
	if (!p.progs[0]->placed && (!p.progs[1] || !p.progs[1]->placed))
		p.bias = UINT64_MAX;
	p.progs[2] = p.progs[1] ? p.progs[1]->left : NULL;
	give_ids(u, u->is_line && p.progs[2] ? left_row(j, row) : GEN_ID_OF_SITE);
	at = &j->rows.v[row];
	r = measure(j, u, &p, probe->spec->text);
	if (r < 0)
		return r;
	*vec_add(&j->programs) = p;
	*ret_program = at->program = j->programs.n;
	note_general(j, u, row, j->programs.n, &site);
	return 0;
}

/* ---- places that are left out ---- */

/* A counter whose sites get no program, and why. */
struct left { uint32_t probe, counter, site; char *why; };
typedef VEC(struct left) left_list;

/* Of a single function that was asked for by its name, the user must know at once. Later on, nobody is there to read it. */
static bool is_one_of_many(const struct jab *j, uint32_t probe)
{
	uint32_t n = 0;

	for (size_t i = 0; i < j->rows.n && n < 2; i++)
		n += j->rows.v[i].probe == probe && !j->rows.v[i].is_left;
	return n > 1 || j->units.v[j->probes.v[probe].unit - 1].layout;
}

static int compile_or_leave(struct jab *j, uint32_t site, left_list *left)
{
	const struct site *s = &j->sites.v[site];
	struct counter *c = &j->counters.v[s->counter];
	struct unit *u = &j->units.v[j->probes.v[s->probe].unit - 1];
	struct diags *d = &u->script->diags;
	uint32_t had = d->list.n, errors = d->errors;
	int r;

	if (left->n && left->v[left->n - 1].counter == s->counter)	/* another exit of that function */
		return 0;
	r = compile(j, c->row, s, &c->program);
	if (!r || errors == d->errors || !is_one_of_many(j, s->probe))
		return r && errors != d->errors && u->is_line ? unit_say_errors(u, r) : r;
	give_ids(u, GEN_ID_OF_SITE);
	*vec_add(left) = (struct left){ s->probe, s->counter, site, diags_take_back(d, had) };
	return 0;
}

static bool has_program(const struct jab *j, uint32_t probe)
{
	for (size_t i = 0; i < j->rows.n; i++)
		if (j->rows.v[i].probe == probe && j->rows.v[i].program)
			return true;
	return false;
}

#define MOST_SAID 5

static void say_left(struct jab *j, const struct left *l, uint32_t *told)
{
	struct row *row = &j->rows.v[j->counters.v[l->counter].row];
	const struct file *f = &j->files.v[row->file];
	char *where = NULL;

	row->left_out = true;
	if (++*told <= MOST_SAID || log_is_verbose()) {
		where = row->func == UINT32_MAX ? xstrdup(f->path) : row->offset == UINT64_MAX ?
			xstrdup(func_name(f->m, &f->m->funcs.v[row->func])) :
			xasprintf("%s+%#lx", func_name(f->m, &f->m->funcs.v[row->func]), (unsigned long)row->offset);
		log_warn("probe '%s' leaves out %s: %s", j->probes.v[l->probe].spec->text, where, l->why);
	}
	free(where);
}

static void say_more_left(const struct jab *j, uint32_t probe, uint32_t told)
{
	if (told > MOST_SAID && !log_is_verbose())
		log_warn("probe '%s' leaves out %u more; -v shows them", j->probes.v[probe].spec->text, told - MOST_SAID);
}

/* Several counters may be of one place (entry and exits of a call, processes of one program): it is said once. */
static void say_all_left(struct jab *j, const left_list *left)
{
	uint32_t told = 0;

	for (size_t i = 0; i < left->n; i++) {
		if (i && left->v[i].probe != left->v[i - 1].probe) {
			say_more_left(j, left->v[i - 1].probe, told);
			told = 0;
		}
		if (!j->rows.v[j->counters.v[left->v[i].counter].row].left_out)
			say_left(j, &left->v[i], &told);
	}
	if (left->n)
		say_more_left(j, left->v[left->n - 1].probe, told);
}

static void take_out(struct jab *j, const struct left *l)
{
	const char *why = *vec_add(&j->texts) = xstrdup(l->why);

	for (size_t i = l->site; i < j->sites.n; i++) {
		struct site *s = &j->sites.v[i];

		if (s->counter != l->counter)
			continue;
		s->counter = UINT32_MAX;
		s->reason = why;
		j->probes.v[s->probe].refused++;
		j->probes.v[s->probe].left_out++;
	}
}

/* A clause that means nothing anywhere is wrong: the first place tells what. */
static int leave_out(struct jab *j, left_list *left)
{
	uint32_t program;
	int r = 0;

	for (size_t i = 0; !r && i < left->n; i++) {
		const struct left *l = &left->v[i];
		struct unit *u = &j->units.v[j->probes.v[l->probe].unit - 1];

		if (!u->layout && !has_program(j, l->probe)) {
			r = compile(j, j->counters.v[l->counter].row, &j->sites.v[l->site], &program);
			r = r && u->is_line ? unit_say_errors(u, r) : r;
		}
	}
	if (!r)
		say_all_left(j, left);
	for (size_t i = 0; i < left->n; i++) {
		if (!r)
			take_out(j, &left->v[i]);
		free(left->v[i].why);
	}
	vec_free(left);
	return r;
}

/* begin, end and interval clauses; the maps that they bring must be known before memory is made. */
static int compile_tracer(struct unit *u)
{
	struct lang_site site = { .at = LANG_TRACER, .func = "" };
	int r = 0;

	u->tracer.n = 0;
	for (uint32_t i = 0; !r && i < u->script->clauses.n; i++) {
		const struct clause *c = u->script->clauses.v[i];

		for (uint32_t k = 0; !r && k < c->nprobes; k++) {
			struct ir_prog *progs[2] = { NULL };

			*vec_add(&u->tracer) = NULL;
			if (!probe_is_of_tracer(c->probes[k]))
				continue;
			site.probe = c->probes[k]->kind == PROBE_BEGIN ? "begin" : c->probes[k]->kind == PROBE_END ? "end" :
				     c->probes[k]->text;
			r = lang_compile(u->lang, i, &site, progs);
			u->tracer.v[u->tracer.n - 1] = progs[0];
		}
	}
	give_ids(u, GEN_ID_OF_SITE);
	return r;
}

/* Memory is made for what these will need; they run nowhere themselves. */
static int compile_guesses(struct jab *j, uint32_t unit, const struct first_sites *x)
{
	struct unit *u = &j->units.v[unit];
	int r = 0;

	for (uint32_t i = 0; !r && i < u->script->clauses.n; i++) {
		struct program p = { .unit = unit, .row = UINT32_MAX };

		if (x->known[i] < SITE_ON_DISK)
			continue;
		r = unit_try(u, i, &x->sites[i], x->known[i], p.progs);
		if (!r) {
			p.progs[2] = p.progs[1] ? p.progs[1]->left : NULL;
			give_ids(u, GEN_ID_OF_SITE);
			r = measure(j, u, &p, x->sites[i].probe);
		}
		if (!r)
			*vec_add(&j->programs) = p;
		else if (x->known[i] == SITE_GUESSED)
			r = 0;
		else if (u->is_line)
			unit_say_errors(u, r);
	}
	return r;
}

static int prepare(struct jab *j, uint32_t unit)
{
	struct unit *u = &j->units.v[unit];
	uint32_t n = u->script->clauses.n;
	struct first_sites x = { xcalloc(n + 1, sizeof(*x.sites)), xcalloc(n + 1, sizeof(*x.known)) };
	int r;

	find_first_sites(j, unit, &x);
	u->inferred = true;
	r = lang_infer(u->lang, first_site, &x);
	if (!r && find_better_sites(j, unit, &x))
		r = lang_infer(u->lang, first_site, &x);
	if (!r)
		r = compile_tracer(u);
	if (!r)
		r = compile_guesses(j, unit, &x);
	free(x.sites);
	free(x.known);
	return r;
}

int units_compile(struct jab *j)
{
	left_list left = { 0 };
	int r = 0;

	for (uint32_t i = 0; !r && i < j->units.n; i++)
		if (!j->units.v[i].inferred)
			r = prepare(j, i);
	for (size_t i = 0; !r && j->units.n && i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		struct counter *c = s->counter == UINT32_MAX ? NULL : &j->counters.v[s->counter];

		if (!c || c->program || !j->probes.v[s->probe].unit || j->probes.v[s->probe].removed)
			continue;
		c->program = known_program(j, c->row, s);
		if (!c->program)
			c->program = general_program(j, &j->units.v[j->probes.v[s->probe].unit - 1], c->row);
		if (!c->program)
			r = compile_or_leave(j, i, &left);
	}
	if (!r) {
		r = leave_out(j, &left);
		if (!r)
			go_refuse(j);
		return r;
	}
	for (size_t i = 0; i < left.n; i++)
		free(left.v[i].why);
	vec_free(&left);
	return r;
}
