/* SPDX-License-Identifier: MIT */
#include "session/events/shapes.h"

#include <stdio.h>
#include <string.h>
#include "arch/arch.h"
#include "base/addr.h"
#include "base/err.h"
#include "blob/blob.h"
#include "lang/type.h"
#include "session/watches/go.h"
#include "session/events/rings.h"
#include "session/stacks.h"
#include "session/calls/tails.h"
#include "session/events/typed.h"
#include "session/scripts/units.h"

static bool is_numeric(const struct field *f)
{
	return f->type.kind != CTF_STRING && f->type.kind != CTF_BYTES && f->type.kind != CTF_ADDRS &&
	       !f->type.count;
}

static uint32_t bytes_of(const struct field *f)
{
	if (f->type.kind == CTF_BYTES)
		return f->type.size;
	return f->type.count ? f->type.count * f->type.bits / 8 : f->limit;
}

/* How far the stack pointer is below that at the site, if the call that is observed has pushed its return address. */
static int64_t pushed_bytes(const struct arch *a, bool pushed)
{
	return pushed ? a->c_call->pushes : 0;
}

/* Where a term's value is found at a site. */
struct source { uint8_t kind, reg; int64_t value; };

static struct source argument(const struct arch *a, const struct field *f, bool go, bool pushed)
{
	const struct call_abi *call = go ? a->go_call : a->c_call;
	uint64_t n = f->value;

	if (n < call->nargs)
		return (struct source){ EVENT_REG, call->args[n], 0 };
	return (struct source){ EVENT_STACK, a->regs->sp, call->pushes + 8 * (int64_t)(n - call->nargs) + pushed_bytes(a, pushed) };
}

static struct source source_of(const struct arch *a, const struct field *f, bool go, bool pushed)
{
	switch (f->from) {
	case FROM_ARG:
		return argument(a, f, go, pushed);
	case FROM_RET:
		return (struct source){ EVENT_REG, a->c_call->rets[0], 0 };
	case FROM_VECTOR:
		return (struct source){ EVENT_VECTOR, f->reg, 0 };
	case FROM_PC:
		return (struct source){ EVENT_REG, reg_pc(a->regs), 0 };
	case FROM_CONST:
		return (struct source){ EVENT_IMM, BULK_NO_REG, f->value };
	case FROM_STACK:
		return (struct source){ EVENT_STACK, a->regs->sp, f->value + pushed_bytes(a, pushed) };
	default:
		return (struct source){ EVENT_REG, f->reg, f->reg == a->regs->sp ? pushed_bytes(a, pushed) : 0 };
	}
}

static struct event_field plain_field(const struct arch *a, const struct field *f, bool go, bool pushed, uint64_t site, int64_t constant)
{
	struct source s = source_of(a, f, go, pushed);
	struct event_field e = { .kind = s.kind, .reg = s.reg, .size = f->type.bits / 8, .value = s.value };

	if (f->from == FROM_PC) {
		e.kind = EVENT_IMM;
		e.value = site;
	} else if (f->from == FROM_CONST) {
		e.kind = f->deref ? EVENT_ABS : EVENT_IMM;
		e.value = constant;
	}
	return e;
}

static struct bulk_field read_field(const struct arch *a, const struct field *f, struct source s, int64_t constant)
{
	struct bulk_field b = { .kind = EVENT_MEM, .reg = s.reg, .size = f->type.bits / 8, .value = s.value };

	if (s.kind == EVENT_IMM)
		b.value = constant;
	if (s.kind == EVENT_STACK)	/* the pointer is on the stack */
		b.flags |= BULK_DEREF | BULK_GOOD_PTR;
	if (is_numeric(f))
		return b;
	b.kind = f->type.kind == CTF_STRING ? EVENT_STRING : EVENT_BYTES;
	b.limit = bytes_of(f);
	b.size = 0;
	if (f->from == FROM_REG && f->reg == a->regs->sp && b.kind == EVENT_BYTES)
		b.flags |= BULK_PARTIAL;	/* as much of the stack as there is */
	return b;
}

/* A read that fails, and says why by its address. */
static struct bulk_field lost_field(const struct arch *a, const struct field *f, uint64_t why)
{
	struct source s = { EVENT_IMM, BULK_NO_REG, 0 };

	return read_field(a, f, s, why);
}

static struct bulk_field bulk_field(const struct arch *a, const struct field *f, bool go, bool pushed, int64_t constant)
{
	struct source s = source_of(a, f, go, pushed);

	if (f->from == FROM_WALK)
		return (struct bulk_field){ .kind = EVENT_BACKTRACE, .limit = f->limit };
	if (f->deref)
		return read_field(a, f, s, constant);
	return (struct bulk_field){ .kind = s.kind, .reg = s.reg, .size = f->type.bits / 8,
				    .value = f->from == FROM_CONST ? constant : s.value };
}

static uint32_t vectors_of(const struct shape *s)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < s->fields.n; i++)
		if (s->fields.v[i]->from == FROM_VECTOR)
			mask |= 1u << s->fields.v[i]->reg;
	return mask;
}

static int measure_bulk(struct shape *s)
{
	struct bulk_field bulk[BULK_FIELDS_MAX];
	struct bulk_spec b = { .vectors = vectors_of(s) };
	int most;

	if (s->fields.n > BULK_FIELDS_MAX)
		return -ERANGE;
	for (size_t i = 0; i < s->fields.n; i++)
		bulk[i] = bulk_field(s->arch, s->fields.v[i], false, false, 0);
	most = blob_check(bulk, s->fields.n);
	s->len = 0;
	s->body = most < 0 ? 0 : s->arch->emit_bulk(NULL, &b);
	return most;
}

/* Those of a plain event, which may have to look like one that was read: nothing has failed then. */
static uint32_t plain_fields(const struct shape *s, bool go, bool pushed, uint64_t site, const struct target *t, struct event_field *ret)
{
	uint32_t n = 0;

	if (s->above || s->marked)
		ret[n++] = (struct event_field){ EVENT_IMM, 0, 8, 0 };
	for (size_t i = 0; i < s->fields.n; i++)
		ret[n++] = plain_field(s->arch, s->fields.v[i], go, pushed, site, t ? target_constant(t, s->fields.v[i]) : 0);
	return n;
}

/* Results that a site does not have, as put_desc() says it of bulk events. */
static void mark_missing(const struct shape *s, bool tail, struct event_field *fields)
{
	for (size_t i = 0; s->marked && i < s->fields.n; i++) {
		const struct field *f = s->fields.v[i];

		if (!f->is_void && !(tail && f->is_result))
			continue;
		fields[0].value |= 1ull << i;
		fields[1 + i] = (struct event_field){ EVENT_IMM, 0, 8, f->is_void ? ADDR_NO_RESULT : ADDR_TAIL_CALL };
	}
}

static int measure(struct shape *s)
{
	struct event_field plain[EVENT_FIELDS_MAX + 1];
	struct event_spec spec = { .ring_size = RING_SIZE_MIN, .no_stack = 1, .fields = plain, .far = s->above };
	int most = 0, r = s->bulk || s->above ? measure_bulk(s) : 0;
	uint32_t body = s->body;

	if (r < 0 || s->bulk)
		return r;
	if (s->fields.n + s->above + s->marked > EVENT_FIELDS_MAX)
		return -ERANGE;
	spec.nfields = plain_fields(s, false, false, 0, NULL, plain);
	mark_missing(s, true, plain);	/* the longer code */
	for (int way = 0; way < 8 && most >= 0; way++) {
		int n;

		spec.has_rseq = spec.has_tid = way & 1;
		spec.overwrite = way & 2;
		spec.ring_size = way & 4 ? RING_SIZE_MAX : RING_SIZE_MIN;
		n = s->arch->emit_event(NULL, 0, &spec);
		most = n < 0 ? n : MAX(most, n);
	}
	s->len = event_len(spec.nfields);
	s->body = most < 0 ? 0 : most + (s->above ? body : 0);
	return most < 0 ? most : 0;
}

/* Arguments that are passed on the stack, and words there that were asked for. */
static bool is_above(const struct arch *a, const struct field *f)
{
	struct source s = source_of(a, f, false, false);

	return !f->deref && s.kind == EVENT_STACK && s.value > 0;
}

static int finish_shape(struct jab *j, const struct session_probe *p, struct shape *s)
{
	int r;

	s->arch = j->arch;
	for (size_t i = 0; i < j->events->context.n; i++)
		*vec_add(&s->fields) = &j->events->context.v[i];
	for (size_t i = 0; i < s->fields.n; i++)
		if (s->fields.v[i]->is_void || (s->tails && s->fields.v[i]->is_result))
			*(s->arch->emit_bulk ? &s->bulk : &s->marked) = true;
	for (size_t i = 0; i < s->fields.n; i++)
		s->bulk |= !field_is_plain(s->fields.v[i]);
	for (size_t i = 0; !s->bulk && i < s->fields.n; i++)
		s->above |= is_above(s->arch, s->fields.v[i]);
	if ((s->bulk || s->above) && !s->arch->emit_bulk)
		return fail(-ENOTSUP, "probe '%s': jab for %s records registers and constants only; memory, strings, backtraces and arguments on "
			    "the stack are not read yet", p->spec->text, s->arch->name);
	r = measure(s);
	if (r == -ERANGE)
		return fail(r, "probe '%s': its fields are more than one event can hold (%d fields, %d bytes)",
			    p->spec->text, s->bulk || s->above ? BULK_FIELDS_MAX : EVENT_FIELDS_MAX, EVENT_LEN_MAX);
	return r < 0 ? fail(r, "probe '%s': its fields can't be recorded", p->spec->text) : 0;
}

/* All of the register of results, unless its function says what it returns. */
static bool is_bare_result(const struct field *f)
{
	return f->from == FROM_RET && !f->has_type;
}

static bool has_names(const struct session_probe *p)
{
	bool few = p->sites <= MOST_NAMED;

	for (size_t i = 0; i < p->fields.n; i++)
		if (p->fields.v[i].from == FROM_NAME || (few && is_bare_result(&p->fields.v[i])))
			return true;
	return !p->fields.n && few;
}

/* A value that only programs can show (results.c), where the probe could not become one. */
static void leave_out(field_list *own)
{
	struct field *f = &own->v[--own->n];

	log_warn("%s; it is left out", err_text());
	free(f->name);
	free(f->symbol);
}

static void say_unsure(struct session_probe *p, const struct row *row, struct module *m)
{
	if (p->is_unsure)
		return;
	log_warn("%s: the compiler may have changed how the static function %s is called: its %s may be wrong",
		 p->spec->text, func_name(m, &m->funcs.v[row->func]), row->is_return ? "return value" : "parameters");
	p->is_unsure = true;
}

/* The return value with the type that the function gives it; what can't be shown is left out. */
static void own_result(struct session_probe *p, const struct row *row, struct module *m, struct field *f, field_list *own)
{
	int r = typed_result(m, m->funcs.v[row->func].addr, f, p->spec->text);

	if (r < 0)
		leave_out(own);
	else if (r)
		say_unsure(p, row, m);
}

static int add_own(struct jab *j, const struct row *row, struct session_probe *p, struct shape *s)
{
	struct module *m = j->files.v[row->file].m;
	uint64_t entry = row->func == UINT32_MAX ? 0 : m->funcs.v[row->func].addr;
	uint64_t pc = entry + (row->offset == UINT64_MAX ? 0 : row->offset);
	int r = 0;

	if (!p->fields.n && !p->is_copies && row->offset == UINT64_MAX && row->func != UINT32_MAX &&
	    !typed_parameters(m, entry, row->is_return, &s->own))
		say_unsure(p, row, m);
	for (size_t i = 0; !r && i < p->fields.n; i++) {
		struct field *f = vec_add(&s->own);

		*f = p->fields.v[i];
		f->name = xstrdup(f->name);
		f->symbol = f->symbol ? xstrdup(f->symbol) : NULL;
		if (f->from == FROM_NAME)
			r = typed_lookup(m, pc, f, p->spec->text);
		else if (is_bare_result(f) && row->func != UINT32_MAX && p->sites <= MOST_NAMED)
			own_result(p, row, m, f, &s->own);
	}
	for (size_t i = 0; !r && i < s->own.n; i++)
		*vec_add(&s->fields) = &s->own.v[i];
	return r;
}

static int make_shape(struct jab *j, uint32_t row)
{
	struct session_probe *p = &j->probes.v[j->rows.v[row].probe];
	struct shape s = { .tails = j->rows.v[row].tails };
	bool named = has_names(p);
	int r = 0;

	if (!named && !s.tails && p->shape) {	/* the same as that of the other rows */
		j->rows.v[row].shape = p->shape;
		return 0;
	}
	for (size_t i = 0; !named && i < p->fields.n; i++)
		*vec_add(&s.fields) = &p->fields.v[i];
	if (named)
		r = add_own(j, &j->rows.v[row], p, &s);
	if (!r)
		r = finish_shape(j, p, &s);
	*vec_add(&j->events->shapes) = s;
	j->rows.v[row].shape = j->events->shapes.n;
	p->shape = named || s.tails ? p->shape : j->events->shapes.n;
	return r;
}

static bool has_program(const struct jab *j, uint32_t row)
{
	return j->probes.v[j->rows.v[row].probe].unit;
}

int shapes_make(struct jab *j)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < j->rows.n; i++)
		if (!j->rows.v[i].shape && !has_program(j, i))
			r = make_shape(j, i);
	return r;
}

static const struct shape *shape_of(const struct jab *j, uint32_t row)
{
	return &j->events->shapes.v[j->rows.v[row].shape - 1];
}

static bool has_other_rows(const struct jab *j, uint32_t row)
{
	for (uint32_t i = 0; i < j->rows.n; i++)
		if (i != row && j->rows.v[i].probe == j->rows.v[row].probe && j->rows.v[i].is_left == j->rows.v[row].is_left)
			return true;
	return false;
}

char *row_name(const struct jab *j, uint32_t row)
{
	const struct row *r = &j->rows.v[row];
	const struct probe_spec *spec = j->probes.v[r->probe].spec;
	struct module *m = j->files.v[r->file].m;
	const char *path = j->files.v[r->file].path, *slash = strrchr(path, '/');
	const char *func = r->func == UINT32_MAX ? "?" : func_name(m, &m->funcs.v[r->func]);
	bool is_copy = j->probes.v[r->probe].is_copies;
	const struct usdt *usdt = row_usdt(j, r);
	char off[32] = "";

	if (usdt)
		return xstrdup(spec->name && spec->place_kind == PLACE_NAME ? spec->name : usdt->shown);
	if (r->offset != UINT64_MAX)
		snprintf(off, sizeof(off), "+%#llx", (unsigned long long)r->offset);
	if (spec->name && !has_other_rows(j, row))
		return xstrdup(spec->name);
	return xasprintf("%s:%s%s%s%s%s", spec->name ? spec->name : slash ? slash + 1 : path,
			 is_copy ? spec->place : "", is_copy ? "@" : "", func, off,
			 r->is_return && spec->kind != SPEC_CALL ? "%return" : "");
}

int shape_declare(struct jab *j, uint32_t row)
{
	const struct shape *s = has_program(j, row) ? NULL : shape_of(j, row);
	struct ctf_field fields[EVENT_FIELDS_MAX + 1];
	char *name = row_name(j, row);
	size_t n = 0;
	int r;

	if (!s) {
		static const struct ir_record none;
		const struct ir_record *rec = unit_record(j, row);

		/* Events of a script have classes of their own. */
		r = j->units.v[j->probes.v[j->rows.v[row].probe].unit - 1].is_line ?
		    record_declare(j, row, name, unit_ir(j, row), rec ? rec : &none) : 0;
		free(name);
		return r;
	}
	if (s->bulk || s->above || s->marked)
		fields[n++] = (struct ctf_field){ .name = CTF_FAULTS, .kind = CTF_UNSIGNED, .bits = 64, .base = 16 };
	for (size_t i = 0; i < s->fields.n; i++) {
		fields[n] = s->fields.v[i]->type;
		fields[n++].name = s->fields.v[i]->name;
	}
	r = ctf_class(j->events->trace, row, name, fields, n);
	free(name);
	return r;
}

/* Number + 1 of a row's record if there are stacks in it. */
static uint32_t find_stacked(const struct jab *j, uint32_t row)
{
	const struct ir_record *rec = has_program(j, row) ? unit_record(j, row) : NULL;

	return rec && record_has_stacks(rec) ? rec - unit_ir(j, row)->records.v + 1 : 0;
}

int shapes_declare(struct jab *j)
{
	struct events *e = j->events;
	int r = 0;

	for (; !r && e->rows < j->rows.n; e->rows++) {
		r = shape_declare(j, e->rows);
		*vec_add(&e->stacked) = find_stacked(j, e->rows);
		e->any_stacks |= e->stacked.v[e->rows];
		vec_add(&e->recorded);
		vec_add(&e->unwritten);
	}
	return r;
}

size_t shapes_desc_size(const struct jab *j)
{
	size_t size = 0;

	for (uint32_t i = 0; i < j->rows.n; i++)
		if (!has_program(j, i) && (shape_of(j, i)->bulk || shape_of(j, i)->above))
			size += (sizeof(struct bulk_desc) + shape_of(j, i)->fields.n * sizeof(struct bulk_field) + 16) *
				(1 + shape_of(j, i)->tails);
	return size;
}

bool shapes_any_bulk(const struct jab *j)
{
	for (size_t i = 0; i < j->events->shapes.n; i++)
		if (j->events->shapes.v[i].bulk || j->events->shapes.v[i].above)
			return true;
	return units_are_heavy(j);
}

size_t count_body(const struct arch *arch)
{
	struct count_spec with = { .has_rseq = true }, without = { .has_rseq = false };

	return MAX(arch->emit_count(NULL, 0, &with), arch->emit_count(NULL, 0, &without));
}

static bool records(const struct jab *j, const struct site *s)
{
	return j->events && j->counters.v[s->counter].role == COUNT_HITS;
}

size_t shape_own_body(const struct jab *j, const struct site *s)
{
	size_t space;

	if (j->probes.v[s->probe].unit)
		return unit_body(j, s);
	space = go_space(j, s);
	if (!records(j, s))
		return count_body(j->arch) + space;
	return shape_of(j, j->counters.v[s->counter].row)->body + space + (j->events->o.overwrite ? count_body(j->arch) + space : 0);
}

static int emit_count(const struct jab *j, const struct target *t, const struct site *s, uint64_t at, uint8_t *out)
{
	struct count_spec spec = t->spec;
	size_t space = go_space(j, s);
	int n;

	spec.index = j->counters.v[s->counter].index;
	spec.shared = counter_shared_at(t, spec.index);
	n = j->arch->emit_count(out + space, at + space, &spec);
	if (space && n > 0)
		go_put_space(j, s, GO_COUNT, spec.shared, n, out);
	return n < 0 ? n : (int)space + n;
}

/* Where one emission stands: the facts that its fields depend on. */
struct place {
	struct jab *j;
	struct target *t;
	const struct shape *s;
	uint32_t row, index;
	uint64_t site;
	bool go, pushed, tail;
};

static int emit_plain(const struct place *p, uint64_t at, uint8_t *out, uint64_t far, uint32_t behind)
{
	struct event_field fields[EVENT_FIELDS_MAX + 1];
	struct event_spec spec = p->t->rings->spec;

	spec.fields = fields;
	spec.nfields = plain_fields(p->s, p->go, p->pushed, p->site, p->t, fields);
	mark_missing(p->s, p->tail, fields);
	spec.far = far;
	spec.behind = behind;
	spec.id = p->row;
	spec.overwrite = p->j->events->o.overwrite;
	spec.lost_index = p->index;
	spec.lost_shared = p->t->rings->lost_shared_at + 8ull * p->index;
	spec.no_stack = rings_no_stack_at(p->t, p->index);
	return p->j->arch->emit_event(out, at, &spec);
}

static void put_desc(const struct place *p, struct bulk_desc *d, bool tail)
{
	struct rings *r = p->t->rings;
	uint32_t n = p->s->fields.n;

	*d = (struct bulk_desc){
		.id = p->row, .nfields = n, .ring_size = r->size, .lost_index = p->index,
		.pid_cell = r->pid_cell, .unwind = r->unwind_at, .quiet = r->quiet_at,
		.flags = (p->j->events->o.overwrite ? BULK_OVERWRITE : 0) | (r->may_read ? BULK_MAY_CALL : 0),
	};
	for (uint32_t i = 0; i < n; i++)
		d->fields[i] = p->s->fields.v[i]->is_void ? lost_field(p->j->arch, p->s->fields.v[i], ADDR_NO_RESULT) :
			       tail && p->s->fields.v[i]->is_result ? lost_field(p->j->arch, p->s->fields.v[i], ADDR_TAIL_CALL) :
			       bulk_field(p->j->arch, p->s->fields.v[i], p->go, p->pushed, target_constant(p->t, p->s->fields.v[i]));
	d->max_len = bulk_max_len(d->fields, n);
}

/*
 * The description of a row's events. Sites of one row differ only where a call has pushed something, and
 * at tail calls, which have a second one behind it.
 */
static int make_desc(const struct place *p, uint64_t *ret_at)
{
	struct rings *r = p->t->rings;
	uint32_t size = (sizeof(struct bulk_desc) + p->s->fields.n * sizeof(struct bulk_field) + 15) & ~15u;

	while (r->desc_of.n <= p->index)
		vec_add(&r->desc_of);
	if (!r->desc_of.v[p->index]) {
		if (size * (1 + p->s->tails) > r->desc_size - r->desc_used)
			return fail(-ENOSPC, "no room for the description of an event");
		r->desc_of.v[p->index] = r->desc_at + r->desc_used;
		for (int tail = 0; tail <= p->s->tails; tail++, r->desc_used += size)
			put_desc(p, (void *)(r->desc + r->desc_used), tail);
	}
	*ret_at = r->desc_of.v[p->index] + (p->tail && p->s->tails ? size : 0);
	return 0;
}

static int emit_bulk(const struct place *p, uint8_t *out)
{
	struct rings *r = p->t->rings;
	struct bulk_spec spec = {
		.slow = r->slow_at,
		.record = p->t->blob_at + blob_offset(BLOB_RECORD),
		.lost_shared = r->lost_shared_at + 8ull * p->index,
		.no_stack = rings_no_stack_at(p->t, p->index),
		.site = p->site,
		.vectors = vectors_of(p->s),
	};
	int err = make_desc(p, &spec.desc);

	return err ? err : p->j->arch->emit_bulk(out, &spec);
}

/* A plain event, and behind it the same as a bulk one, for words of the stack that may not be there. */
static int emit_either(const struct place *p, uint64_t at, uint8_t *out)
{
	uint8_t room[EVENT_CODE_MAX];
	int n = emit_plain(p, at, room, at, 0), m;

	if (n < 0)
		return n;
	m = emit_bulk(p, out + n);
	if (m < 0)
		return m;
	n = emit_plain(p, at, out, at + n, m);
	return n < 0 ? n : n + m;
}

static int emit_event(const struct place *p, uint64_t at, uint8_t *out)
{
	if (p->s->bulk)
		return emit_bulk(p, out);
	return p->s->above ? emit_either(p, at, out) : emit_plain(p, at, out, 0, 0);
}

int shape_emit_own(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out)
{
	const struct site *s = &j->sites.v[w->id];
	const struct counter *c = &j->counters.v[s->counter];
	const struct loaded *l = &t->loaded.v[s->loaded];
	struct place p = { j, main_part(j, t), NULL, c->row, c->index, s->addr + l->bias,
			   j->files.v[l->file].m->runtime->own_calls, w->pushed, tails_ends_early(j, s) };
	size_t space;
	int n = 0, m;

	if (j->probes.v[s->probe].unit)
		return unit_emit(j, t, w, at, out);
	if (!records(j, s) || j->events->o.overwrite)
		n = emit_count(j, p.t, s, at, out);
	if (!records(j, s))
		return n;
	p.s = shape_of(j, c->row);
	rings_accept(p.t, c->row, p.s->len);
	space = go_space(j, s);
	m = emit_event(&p, at + n + space, out + n + space);
	if (space && m > 0)
		go_put_space(j, s, p.s->bulk || p.s->above ? GO_BULK : GO_EVENT, rings_no_stack_at(p.t, p.index), m, out + n);
	return m < 0 ? m : n + (int)space + m;
}
