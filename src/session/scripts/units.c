/* SPDX-License-Identifier: MIT */
#include "session/scripts/units.h"

#include <regex.h>
#include <string.h>
#include "base/err.h"
#include "session/scripts/budget.h"
#include "session/watches/go.h"
#include "session/calls/left.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/calls/tails.h"

/* ---- from text to probes ---- */

char *unit_errors(struct unit *u)
{
	return diags_text(&u->script->diags);
}

/* A script's probe, as the session has it. Kinds that the tracer serves itself have none. */
static int add_probe(struct jab *j, uint32_t unit, uint32_t clause, const struct probe *p)
{
	struct probe_spec *spec;
	struct session_probe *s;
	int r;

	if (probe_is_of_tracer(p))
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

int refuse_language(const struct jab *j)
{
	const char *what = arch_lacks(j->arch, ARCH_LANGUAGE);

	return what ? fail(-ENOTSUP, "jab for %s has no %s yet", j->arch->name, what) : 0;
}

/* --probe-filter: probes that don't match are as if they were not written; begin and end stay. */
static int filter_probes(struct script *s, const char *filter)
{
	regex_t re;
	size_t clauses = 0, sites = 0;

	if (regcomp(&re, filter, REG_EXTENDED | REG_NOSUB))
		return fail(-EINVAL, "'%s' is no regular expression", filter);
	for (size_t i = 0; i < s->clauses.n; i++) {
		struct clause *c = s->clauses.v[i];
		uint32_t kept = 0;

		for (uint32_t k = 0; k < c->nprobes; k++) {
			bool special = c->probes[k]->kind == PROBE_BEGIN || c->probes[k]->kind == PROBE_END;

			if (!special && regexec(&re, c->probes[k]->text, 0, NULL, 0))
				continue;
			sites += !special;
			c->probes[kept++] = c->probes[k];
		}
		c->nprobes = kept;
		if (kept)
			s->clauses.v[clauses++] = c;
	}
	s->clauses.n = clauses;
	regfree(&re);
	return sites ? 0 : fail(-ENOENT, "no probe of the script matches '%s'", filter);
}

int unit_add_script(struct jab *j, const struct script_options *o)
{
	struct unit u = { 0 };
	int r = script_parse_params(o->name, o->text, o->len, o->params, o->nparams, &u.script);

	u.script->options = o->options;
	u.script->noptions = o->noptions;
	u.script->unsafe = o->unsafe;
	u.script->diags.no_warnings = o->no_warnings;
	if (!r && o->probe_filter)
		r = filter_probes(u.script, o->probe_filter);
	if (r < 0) {
		*vec_add(&j->units) = u;
		return r;
	}
	return take_unit(j, u);
}

/* The first message, made a sentence; it has the line and the caret in it. */
int unit_say_errors(struct unit *u, int err)
{
	char *text = unit_errors(u);

	if (*text) {
		text[strcspn(text, "") - 1] = '\0';
		fail_lines(err, text);
	}
	free(text);
	return err;
}

int unit_add_line(struct jab *j, const char *text)
{
	struct unit u = { .is_line = true };
	int r = line_parse(text, &(struct line_more){ j->events->contexts.v, j->events->contexts.n, j->condition }, &u.script);
	if (r < 0) {
		unit_say_errors(&u, r);
		script_free(u.script);
		return r;
	}
	u.text = xstrdup(text);
	return take_unit(j, u);
}

bool unit_has_others(const struct jab *j, uint32_t probe)
{
	for (size_t i = 0; i < j->probes.n; i++)
		if (i != probe && j->probes.v[i].unit && j->probes.v[i].unit == j->probes.v[probe].unit &&
		    j->probes.v[i].clause == j->probes.v[probe].clause && !j->probes.v[i].missing)
			return true;
	return false;
}

/* ---- what is known of a row ---- */

static struct unit *unit_of(const struct jab *j, const struct row *row)
{
	uint32_t unit = j->probes.v[row->probe].unit;

	return unit ? &j->units.v[unit - 1] : NULL;
}

const char *unit_probe_name(struct jab *j, struct row *row)
{
	static const char *const kinds[] = { [SPEC_ENTRY] = "uprobe", [SPEC_RETURN] = "uretprobe", [SPEC_INSNS] = "insn", [SPEC_CALL] = "call", [SPEC_USDT] = "usdt" };
	const struct probe_spec *spec = j->probes.v[row->probe].spec;
	const struct file *f = &j->files.v[row->file];
	const char *rest = strncmp(spec->text, "u:", 2) == 0 ? spec->text + 1 : strncmp(spec->text, "ur:", 3) == 0 ? spec->text + 2 : NULL;

	if (!row->name && row->usdt && spec->place_kind == PLACE_GLOB)
		row->name = *vec_add(&j->texts) = xasprintf("usdt:%s:%s", f->path, row_usdt(j, row)->shown);
	else if (!row->name && row->usdt && spec->text[0] == 'U')
		row->name = *vec_add(&j->texts) = xasprintf("usdt%s", spec->text + 1);
	else if (!row->name && row->func != UINT32_MAX && (spec->place_kind == PLACE_GLOB || spec->place_kind == PLACE_REGEX))
		row->name = *vec_add(&j->texts) = xasprintf("%s:%s:%s", kinds[spec->kind], f->path, func_name(f->m, &f->m->funcs.v[row->func]));
	else if (!row->name && rest)
		row->name = *vec_add(&j->texts) = xasprintf("%s%s", kinds[spec->kind], rest);
	return row->name ? row->name : spec->text;
}

const struct ir_unit *unit_ir(const struct jab *j, uint32_t row)
{
	return lang_unit(unit_of(j, &j->rows.v[row])->lang);
}

/* That of the one event that a program of a line writes. */
static const struct ir_record *record_of(const struct ir_unit *ir, const struct ir_prog *p)
{
	for (size_t i = 0; p && i < p->ins.n; i++)
		if (p->ins.v[i].op == IR_EMIT)
			return &ir->records.v[p->ins.v[i].record];
	return NULL;
}

/* For calls that did not return there is another row, which has no program of its own. */
static const struct row *main_row(const struct jab *j, uint32_t row)
{
	for (uint32_t i = 0; j->rows.v[row].is_left && i < row; i++)
		if (j->rows.v[i].left == row + 1)
			return &j->rows.v[i];
	return &j->rows.v[row];
}

const struct ir_record *unit_record(const struct jab *j, uint32_t row)
{
	const struct unit *u = unit_of(j, &j->rows.v[row]);
	uint32_t program = main_row(j, row)->program;
	const struct program *p = u && program ? &j->programs.v[program - 1] : NULL;

	if (!p || !u->is_line)
		return NULL;
	return record_of(lang_unit(u->lang), p->progs[j->rows.v[row].is_left ? 2 : p->progs[1] ? 1 : 0]);
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

int32_t unit_stack(const struct program *p)
{
	return MAX(p->stack[0], p->stack[1]);
}

/* Events that are overwritten are no count of the hits. */
static bool is_counted(const struct jab *j, const struct program *p, int part)
{
	return j->events->o.overwrite && p->plain[part];
}

bool unit_is_counted(const struct jab *j, uint32_t probe)
{
	bool is = false;

	for (size_t i = 0; i < j->rows.n; i++) {
		const struct row *r = &j->rows.v[i];

		if (r->probe != probe || !r->program)
			continue;
		is = is_counted(j, &j->programs.v[r->program - 1], 0);
		if (!is)
			return false;
	}
	return is;
}

size_t unit_body(const struct jab *j, const struct site *s)
{
	const struct program *p = &j->programs.v[j->counters.v[s->counter].program - 1];
	int part = part_of(j, s, p);
	size_t space = go_space(j, s);

	return p->body[part] + space + (is_counted(j, p, part) ? count_body(j->arch) + space : 0);
}

/* Of an event; 0: it varies. */
static uint32_t fixed_len(const struct ir_record *r)
{
	for (uint32_t i = 0; i < r->nfields; i++)
		if (ir_in_slot(r->fields[i].type) && r->fields[i].type != IR_ARRAY)
			return 0;
	return sizeof(struct event_head) + ir_record_room(r);
}

/* The events that this program writes, and no others, are good in the target's rings. */
static void accept_events(struct target *main, const struct unit *u, const struct ir_prog *p, const struct gen_site *site)
{
	const struct gen_env env = { .ids = u->ids.v };

	for (size_t i = 0; i < p->ins.n; i++)
		if (p->ins.v[i].op == IR_EMIT || p->ins.v[i].op == IR_EXIT)
			rings_accept(main, gen_event_id(&env, site, p->ins.v[i].record), fixed_len(&lang_unit(u->lang)->records.v[p->ins.v[i].record]));
}

/* What programs know of their site and its target; index: of the counter of their events. */
static int describe(struct jab *j, struct target *t, const struct site *s, uint32_t index, struct gen_env *ret_env, struct gen_site *ret_site)
{
	const struct counter *c = &j->counters.v[s->counter];
	const struct program *p = &j->programs.v[c->program - 1];
	const struct loaded *l = &t->loaded.v[s->loaded];
	struct target *main = main_part(j, t);
	struct unit *u = &j->units.v[p->unit];
	const struct ir_unit *ir = lang_unit(u->lang);

	if (ir->maps.n > u->layout->nmaps || ir->ncells > u->ncells)
		return fail(-ENOSPC, "there is no memory for what this clause keeps, since nothing was known of the file when it was made; "
			    "name it by its whole path");
	*ret_env = main->views[p->unit].env;
	ret_env->ids = u->ids.v;
	ret_env->stack_max = go_stack(j, s);
	ret_env->event.lost_index = index;
	ret_env->event.lost_shared = main->rings->lost_shared_at + 8ull * index;
	*ret_site = (struct gen_site){ .addr = s->addr + l->bias, .number = c->row, .tail = tails_ends_early(j, s),
				       .at_entry = s->kind == WANT_ENTRY, .g_off = go_g_off(j, s),
				       .missed = go_space(j, s) ? rings_calls_without_stack(main) : 0 };
	ret_site->func = tails_func(j, t, s);
	return 0;
}

/* That of the exits, for the entry of a call. */
static uint32_t exit_index(const struct jab *j, const struct site *s)
{
	const struct counter *c = &j->counters.v[s->counter];

	for (size_t i = s->counter; i-- > 0;)	/* it was made right before */
		if (j->counters.v[i].row == c->row && j->counters.v[i].target == c->target && j->counters.v[i].role == COUNT_HITS)
			return j->counters.v[i].index;
	return c->index;
}

int unit_emit_left(struct jab *j, struct target *t, uint32_t number, uint64_t at, uint8_t *out)
{
	const struct site *s = &j->sites.v[number];
	const struct program *p = &j->programs.v[j->counters.v[s->counter].program - 1];
	struct unit *u = &j->units.v[p->unit];
	struct target *main = main_part(j, t);
	uint32_t index = exit_index(j, s);
	struct gen_site site;
	struct gen_env env;
	int r = describe(j, t, s, index, &env, &site);

	if (r < 0)
		return r;
	site.no_stack = rings_no_stack_at(main, index);
	accept_events(main, u, p->progs[2], &site);
	return gen_emit(lang_unit(u->lang), p->progs[2], &env, &site, at, out);
}

int unit_emit(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out)
{
	const struct site *s = &j->sites.v[w->id];
	const struct counter *c = &j->counters.v[s->counter];
	const struct program *p = &j->programs.v[c->program - 1];
	struct target *main = main_part(j, t);
	struct unit *u = &j->units.v[p->unit];
	size_t space = go_space(j, s);
	struct gen_site site;
	struct gen_env env;
	int r = describe(j, t, s, c->index, &env, &site), count = 0, part;

	if (r < 0)
		return r;
	site.pushed = site_is_back(s) ? -1 : w->pushed;
	site.size = w->body - space;
	site.need = unit_stack(p);
	if (p->progs[2] && is_entry(j, s) && main->left)
		site.leaver = left_number(j, t, w->id);
	/* the entry of a call is no hit */
	site.no_stack = p->progs[1] && is_entry(j, s) ? rings_calls_without_stack(main) : rings_no_stack_at(main, c->index);
	part = part_of(j, s, p);
	if (is_counted(j, p, part)) {
		count = site_emit_count(j, main, s, at, out);
		if (count < 0)
			return count;
		site.size -= count;
	}
	at += count;
	out += count;
	accept_events(main, u, p->progs[part], &site);
	r = (p->plain[part] ? gen_emit_plain : gen_emit)(lang_unit(u->lang), p->progs[part], &env, &site, at + space, out + space);
	if (space && r > 0)
		go_put_space(j, s, GO_PROGRAM, site.no_stack, p->plain[part] ? (size_t)r : site.size, out);
	if (r > 0 && j->budget)
		budget_body(j, t, p->unit, j->probes.v[s->probe].clause, at + space, r);
	return r < 0 ? fail_in(r, "probe '%s'", j->probes.v[s->probe].spec->text) : count + (int)space + r;
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
		vec_free(&u->tracer);
		vec_free(&u->off);
		free(u->layout);
		vec_free(&u->ids);
		vec_free(&u->generals);
	}
	vec_free(&j->units);
	vec_free(&j->programs);
}
