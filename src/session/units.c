/* SPDX-License-Identifier: MIT */
#include "session/units.h"

#include <string.h>
#include "base/err.h"
#include "session/budget.h"
#include "session/rings.h"
#include "session/shapes.h"
#include "session/tls.h"

/* ---- from text to probes ---- */

char *unit_errors(struct unit *u)
{
	return diags_text(&u->script->diags);
}

static bool is_of_tracer(const struct probe *p)
{
	return p->kind == PROBE_BEGIN || p->kind == PROBE_END || p->kind == PROBE_INTERVAL;
}

/* A script's probe, as the session has it. Kinds that the tracer serves itself have none. */
static int add_probe(struct jab *j, uint32_t unit, uint32_t clause, const struct probe *p)
{
	struct probe_spec *spec;
	struct session_probe *s;
	int r;

	if (is_of_tracer(p))
		return 0;
	r = spec_parse(p->text, &spec);
	if (r < 0)
		return r;
	if (p->name && !spec->name)
		spec->name = xstrdup(p->name);
	s = vec_add(&j->probes);
	s->spec = spec;
	s->unit = unit + 1;
	s->clause = clause;
	return 0;
}

static int take_unit(struct jab *j, struct unit u)
{
	uint32_t number = j->units.n;
	int r = lang_new(u.script, &u.lang);

	*vec_add(&j->units) = u;
	for (uint32_t i = 0; !r && i < u.script->clauses.n; i++)
		for (uint32_t k = 0; !r && k < u.script->clauses.v[i]->nprobes; k++)
			r = add_probe(j, number, i, u.script->clauses.v[i]->probes[k]);
	return r;
}

int unit_add_script(struct jab *j, const char *name, const char *text, size_t len, char *const *params, uint32_t nparams)
{
	struct unit u = { 0 };
	int r = script_parse_params(name, text, len, params, nparams, &u.script);

	if (r < 0) {
		*vec_add(&j->units) = u;
		return r;
	}
	return take_unit(j, u);
}

/* The first message, made a sentence; it has the line and the caret in it. */
static int say_errors(struct unit *u, int err)
{
	char *text = unit_errors(u);

	if (*text) {
		text[strcspn(text, "") - 1] = '\0';
		fail(err, "%s", text);
	}
	free(text);
	return err;
}

int unit_add_line(struct jab *j, const char *text, const char *more)
{
	struct unit u = { .is_line = true };
	char *line = xasprintf("%s%s%s", text, more ? " ; " : "", more ? more : "");
	int r = line_parse(line, &u.script);

	free(line);
	if (r < 0) {
		say_errors(&u, r);
		script_free(u.script);
		return r;
	}
	u.text = xstrdup(text);
	return take_unit(j, u);
}

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

/* ---- compiling ---- */

static struct unit *unit_of(const struct jab *j, const struct row *row)
{
	uint32_t unit = j->probes.v[row->probe].unit;

	return unit ? &j->units.v[unit - 1] : NULL;
}

static uint8_t place_of(const struct jab *j, const struct row *row)
{
	if (j->probes.v[row->probe].spec->kind == SPEC_CALL)
		return LANG_CALL;
	return row->is_return ? LANG_RETURN : row->offset == UINT64_MAX ? LANG_ENTRY : LANG_INSIDE;
}

const char *unit_probe_name(struct jab *j, struct row *row)
{
	static const char *const kinds[] = { [SPEC_ENTRY] = "uprobe", [SPEC_RETURN] = "uretprobe", [SPEC_INSNS] = "insn", [SPEC_CALL] = "call" };
	const struct probe_spec *spec = j->probes.v[row->probe].spec;
	const struct file *f = &j->files.v[row->file];

	if (!row->name && row->func != UINT32_MAX && (spec->place_kind == PLACE_GLOB || spec->place_kind == PLACE_REGEX))
		row->name = *vec_add(&j->texts) = xasprintf("%s:%s:%s", kinds[spec->kind], f->path, func_name(f->m, &f->m->funcs.v[row->func]));
	return row->name ? row->name : spec->text;
}

static struct lang_site site_of(struct jab *j, struct row *row, uint64_t bias)
{
	struct module *m = j->files.v[row->file].m;
	struct lang_site s = { .at = place_of(j, row), .bias = bias, .tails = row->tails,
			       .probe = unit_probe_name(j, row) };

	if (module_types(m, &s.types) < 0)
		s.types = NULL;
	if (row->func != UINT32_MAX) {
		s.entry = m->funcs.v[row->func].addr;
		s.func = func_name(m, &m->funcs.v[row->func]);
	}
	s.pc = s.entry + (row->offset == UINT64_MAX ? 0 : row->offset);
	s.is_copy = j->probes.v[row->probe].is_copies;
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
		if (s->clauses.v[i]->nprobes && is_of_tracer(s->clauses.v[i]->probes[0])) {
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

static uint32_t known_program(const struct jab *j, uint32_t row, const struct site *s)
{
	for (uint32_t i = j->rows.v[row].program; i; i = j->programs.v[i - 1].next) {
		const struct program *p = &j->programs.v[i - 1];

		if ((p->bias == bias_of(j, s) || p->bias == UINT64_MAX) && (!p->only || p->only == s->target + 1))
			return i;
	}
	return 0;
}

/* Records that came with the last program belong to this row. */
static void give_ids(struct unit *u, uint32_t row)
{
	const struct ir_unit *ir = lang_unit(u->lang);

	for (uint32_t i = u->ids.n; i < ir->records.n; i++)
		*vec_add(&u->ids) = u->is_line ? row : i;
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

/* Measuring is to generate it in every way there is. One clause on many functions is measured once, mostly. */
static int measure_one(struct jab *j, struct unit *u, struct program *p, int part)
{
	const struct program *last = j->programs.n ? &j->programs.v[j->programs.n - 1] : NULL;
	const struct ir_unit *ir = lang_unit(u->lang);
	const struct ir_prog *prog = p->progs[part];
	int r;

	p->event_max[part] = gen_event_max(ir, prog);
	if (last && &j->units.v[last->unit] == u && last->progs[part] && same_length(ir, last->progs[part], prog) &&
	    last->event_max[part] == p->event_max[part]) {
		p->scratch[part] = last->scratch[part];
		return last->body[part];
	}
	r = gen_scratch(ir, prog);
	if (r < 0)
		return r;
	p->scratch[part] = r;
	return gen_measure(ir, prog);
}

static int measure(struct jab *j, struct unit *u, struct program *p, const char *probe)
{
	for (int i = 0; i < 2 && p->progs[i]; i++) {
		int n = measure_one(j, u, p, i);

		if (n >= 0 && n > BODY_MOST)
			n = fail(-E2BIG, "its program takes %d bytes of code, and %d are the most", n, BODY_MOST);
		if (n < 0)
			return fail_in(n, "probe '%s'", probe);
		p->body[i] = n;
	}
	return 0;
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
	site.tls_arg = &asker;
	r = lang_compile(u->lang, probe->clause, &site, p.progs);
	p.only = asker.asked ? s->target + 1 : 0;
	if (r < 0)
		return u->is_line ? say_errors(u, r) : r;
	if (u->is_line)
		say_warnings(u);
	if (!p.progs[0]->placed && (!p.progs[1] || !p.progs[1]->placed))
		p.bias = UINT64_MAX;
	give_ids(u, row);
	r = measure(j, u, &p, probe->spec->text);
	if (r < 0)
		return r;
	*vec_add(&j->programs) = p;
	*ret_program = at->program = j->programs.n;
	return 0;
}

/* begin, end and interval clauses; the maps that they bring must be known before memory is made. */
static int compile_tracer(struct unit *u)
{
	struct lang_site site = { .at = LANG_TRACER, .func = "" };
	struct ir_prog *progs[2];
	int r = 0;

	u->tracer = xcalloc(u->script->clauses.n + 1, sizeof(*u->tracer));
	for (uint32_t i = 0; !r && i < u->script->clauses.n; i++) {
		const struct clause *c = u->script->clauses.v[i];

		for (uint32_t k = 0; !r && !u->tracer[i] && k < c->nprobes; k++) {
			if (!is_of_tracer(c->probes[k]))
				continue;
			site.probe = c->probes[k]->kind == PROBE_BEGIN ? "begin" : c->probes[k]->kind == PROBE_END ? "end" :
				     c->probes[k]->text;
			r = lang_compile(u->lang, i, &site, progs);
			if (!r)
				u->tracer[i] = progs[0];
		}
	}
	give_ids(u, 0);
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
			give_ids(u, UINT32_MAX);
			r = measure(j, u, &p, x->sites[i].probe);
		}
		if (!r)
			*vec_add(&j->programs) = p;
		else if (x->known[i] == SITE_GUESSED)
			r = 0;
		else if (u->is_line)
			say_errors(u, r);
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
	int r = 0;

	for (uint32_t i = 0; !r && i < j->units.n; i++)
		if (!j->units.v[i].inferred)
			r = prepare(j, i);
	for (size_t i = 0; !r && j->units.n && i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		struct counter *c = s->counter == UINT32_MAX ? NULL : &j->counters.v[s->counter];

		if (!c || c->program || !j->probes.v[s->probe].unit)
			continue;
		c->program = known_program(j, c->row, s);
		if (!c->program)
			r = compile(j, c->row, s, &c->program);
	}
	return r;
}

const struct ir_unit *unit_ir(const struct jab *j, uint32_t row)
{
	return lang_unit(unit_of(j, &j->rows.v[row])->lang);
}

const struct ir_record *unit_record(const struct jab *j, uint32_t row)
{
	const struct unit *u = unit_of(j, &j->rows.v[row]);
	const struct ir_unit *ir = u ? lang_unit(u->lang) : NULL;

	for (uint32_t i = 0; u && i < u->ids.n; i++)
		if (u->ids.v[i] == row)
			return &ir->records.v[i];
	return NULL;
}

/* ---- code ---- */

static bool is_entry(const struct jab *j, const struct site *s)
{
	return j->counters.v[s->counter].role == COUNT_ENTRIES;
}

/* Which of a call's two programs runs here? */
static int part_of(const struct jab *j, const struct site *s, const struct program *p)
{
	return p->progs[1] && !is_entry(j, s);
}

size_t unit_body(const struct jab *j, const struct site *s)
{
	const struct program *p = &j->programs.v[j->counters.v[s->counter].program - 1];

	return p->body[part_of(j, s, p)];
}

/* Functions without a stack check have 800 bytes in all, and they call each other. */
#define STACK_MOST_GO 512

int unit_emit(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out)
{
	const struct site *s = &j->sites.v[w->id];
	const struct counter *c = &j->counters.v[s->counter];
	const struct program *p = &j->programs.v[c->program - 1];
	const struct loaded *l = &t->loaded.v[s->loaded];
	struct target *main = main_part(j, t);
	struct unit *u = &j->units.v[p->unit];
	const struct ir_unit *ir = lang_unit(u->lang);
	struct gen_env env = main->views[p->unit].env;
	struct gen_site site = { .addr = s->addr + l->bias, .number = c->row, .pushed = w->pushed, .tail = site_is_tail(s),
				 .at_entry = s->kind == WANT_ENTRY, .size = w->body };
	int r;

	if (ir->maps.n > u->layout->nmaps || ir->ncells > u->ncells)
		return fail(-ENOSPC, "no room for what this program keeps");
	env.ids = u->ids.v;
	if (j->files.v[l->file].m->is_go)
		env.stack_max = STACK_MOST_GO;
	env.event.lost_index = c->index;
	env.event.lost_shared = main->rings->lost_shared_at + 8ull * c->index;
	/* Calls of two probes on one function are two calls. */
	site.func = (l->bias + j->files.v[l->file].m->funcs.v[s->func].addr) ^ c->row * 0x9e3779b97f4a7c15ull;
	r = gen_emit(ir, p->progs[part_of(j, s, p)], &env, &site, at, out);
	if (r > 0 && j->budget)
		budget_body(j, p->unit, j->probes.v[s->probe].clause, at, r);
	return r < 0 ? fail_in(r, "probe '%s'", j->probes.v[s->probe].spec->text) : r;
}

void units_free(struct jab *j)
{
	for (size_t i = 0; i < j->past_views.n; i++) {
		maps_reader_free(j->past_views.v[i].reader);
		free(j->past_views.v[i].here);
	}
	vec_free(&j->past_views);
	for (size_t i = 0; i < j->units.n; i++) {
		struct unit *u = &j->units.v[i];

		lang_free(u->lang);
		script_free(u->script);
		free(u->text);
		free(u->tracer);
		vec_free(&u->off);
		free(u->layout);
		vec_free(&u->ids);
	}
	vec_free(&j->units);
	vec_free(&j->programs);
}
