/* SPDX-License-Identifier: MIT */
#include "lang/interp_run.h"

#include <errno.h>
#include <string.h>

/* ---- memory ---- */

static void set_fault(struct run *r, const struct ir_ins *i, uint64_t addr)
{
	r->faults |= 1ull << i->bit;
	r->fault_addr[i->bit] = addr;
}

static uint64_t first_fault(const struct run *r, uint64_t mask)
{
	uint64_t met = r->faults & mask;

	return met ? r->fault_addr[__builtin_ctzll(met)] : 0;
}

static bool read_memory(struct run *r, uint64_t addr, void *buf, size_t len)
{
	return r->in->read && r->in->read(r->in->data, addr, buf, len);
}

static num number_from(uint8_t type, const void *p)
{
	num v = { 0 };
	float f;

	memcpy(&v, p, ir_size(type));
	if (type == IR_F32) {
		memcpy(&f, p, 4);
		v.f = f;
	} else if (type != IR_F64) {
		v.u = interp_wrap(type, v.u);
	}
	return v;
}

static void load(struct run *r, const struct ir_ins *i)
{
	uint64_t addr = r->regs[i->a].u + i->imm;
	uint8_t buf[8];

	r->regs[i->dst].u = 0;
	if (r->faults & i->mask)
		set_fault(r, i, first_fault(r, i->mask));
	else if (!read_memory(r, addr, buf, ir_size(i->type)))
		set_fault(r, i, addr);
	else
		r->regs[i->dst] = number_from(i->type, buf);
}

static uint32_t slot_cap(const struct run *r, uint32_t slot)
{
	return r->p->slots.v[slot].cap;
}

static void read_slot(struct run *r, const struct ir_ins *i)
{
	struct slot *s = &r->slots[i->slot];
	uint64_t most = MIN((uint64_t)i->imm, slot_cap(r, i->slot)), addr = r->regs[i->a].u;

	s->len = 0;
	if (i->b != IR_NONE)
		most = MIN(most, r->regs[i->b].u);
	if (r->faults & i->mask) {
		set_fault(r, i, first_fault(r, i->mask));
		return;
	}
	if (i->op == IR_READ_BUF) {
		if (i->flags & IR_PARTIAL)
			while (s->len < most && read_memory(r, addr + s->len, s->p + s->len, 1))
				s->len++;
		else if (!most || read_memory(r, addr, s->p, most))
			s->len = most;
		else
			set_fault(r, i, addr);
		return;
	}
	for (; s->len < most; s->len++) {
		if (!read_memory(r, addr + s->len, s->p + s->len, 1)) {
			set_fault(r, i, addr + s->len);
			s->len = 0;
			return;
		}
		if (!s->p[s->len])
			break;
	}
}

static void copy_slot(struct run *r, uint32_t to, const void *p, uint32_t len)
{
	r->slots[to].len = MIN(len, slot_cap(r, to));
	memmove(r->slots[to].p, p, r->slots[to].len);
}

static void and_slot(struct slot *to, const struct slot *mask)
{
	for (uint32_t i = 0; i < to->len && i < mask->len; i++)
		to->p[i] &= mask->p[i];
}

static void slot_load(struct run *r, const struct ir_ins *i)
{
	const struct slot *s = &r->slots[i->slot];
	uint64_t off = i->imm + (i->a != IR_NONE ? r->regs[i->a].u : 0);

	r->regs[i->dst].u = 0;
	if (off > s->len || s->len - off < ir_size(i->type))
		interp_error(r, i, IR_ERR_RANGE);
	else
		r->regs[i->dst] = number_from(i->type, s->p + off);
}

static int64_t compare_slots(const struct ir_ins *i, const struct slot *a, const struct slot *b)
{
	uint32_t na = i->imm ? MIN(a->len, i->imm) : a->len, nb = i->imm ? MIN(b->len, i->imm) : b->len;
	int c = memcmp(a->p, b->p, MIN(na, nb));

	return c ? (c < 0 ? -1 : 1) : na == nb ? 0 : na < nb ? -1 : 1;
}

static int64_t find_slot(const struct slot *a, const struct slot *b)
{
	const uint8_t *p = b->len ? memmem(a->p, a->len, b->p, b->len) : a->p;

	return p ? p - a->p : -1;
}

static bool memory(struct run *r, const struct ir_ins *i)
{
	const struct slot *s = i->slot != IR_NONE ? &r->slots[i->slot] : NULL;
	const struct slot *s2 = i->slot2 != IR_NONE ? &r->slots[i->slot2] : NULL;

	switch (i->op) {
	case IR_LOAD:		load(r, i); return true;
	case IR_READ_STR: case IR_READ_BUF: read_slot(r, i); return true;
	case IR_SLOT_COPY:	copy_slot(r, i->slot, s2->p, s2->len); return true;
	case IR_SLOT_AND:	and_slot(&r->slots[i->slot], s2); return true;
	case IR_SLOT_LOAD:	slot_load(r, i); return true;
	case IR_STR_CMP:	r->regs[i->dst].i = compare_slots(i, s, s2); return true;
	case IR_STR_LEN:	r->regs[i->dst].u = s->len; return true;
	case IR_STR_FIND:	r->regs[i->dst].i = find_slot(s, s2); return true;
	}
	return false;
}

/* ---- the site ---- */

static uint64_t context(struct run *r, enum ir_ctx what)
{
	if (r->in->moment && (what == IR_CTX_NSECS || what == IR_CTX_ELAPSED || what == IR_CTX_RAND))
		r->in->moment(r->in->data, r->site);
	return r->site->ctx[what];
}

static bool site_read(struct run *r, const struct ir_ins *i)
{
	struct interp_site *s = r->site;
	float f;

	switch (i->op) {
	case IR_REG:	r->regs[i->dst].u = s->regs[i->imm]; return true;
	case IR_CTX:	r->regs[i->dst].u = context(r, i->imm); return true;
	case IR_COMM:	copy_slot(r, i->slot, s->comm ? s->comm : "", s->comm ? strlen(s->comm) : 0); return true;
	case IR_FRAMES:	r->slots[i->slot].len = 0; return true;
	case IR_STACK:	r->regs[i->dst].u = r->in->stack ? r->in->stack(r->in->data, i->imm) : 0; return true;
	case IR_SAVE:	s->saved[i->imm % INTERP_SAVED] = r->regs[i->a].u; return true;
	case IR_SAVED:	r->regs[i->dst].u = s->saved[i->imm % INTERP_SAVED]; return true;
	case IR_VECTOR:
		r->regs[i->dst].u = s->vectors[i->imm];
		memcpy(&f, &s->vectors[i->imm], 4);
		if (i->type == IR_F32)
			r->regs[i->dst].f = f;
		return true;
	}
	return false;
}

/* ---- maps ---- */

static void put_arg(const struct run *r, struct bytes *b, const struct ir_arg *a, uint32_t cap)
{
	const struct slot *s;
	uint32_t len;

	if (!ir_in_slot(a->type)) {
		bytes_u64(b, r->regs[a->reg].u);
		return;
	}
	s = &r->slots[a->reg];
	len = MIN(s->len, cap);
	bytes_add(b, &len, 4);
	bytes_add(b, s->p, len);
}

/* The reverse; *p moves on. */
static void get_arg(struct run *r, const struct ir_arg *a, const uint8_t **p)
{
	uint32_t len;

	if (!ir_in_slot(a->type)) {
		memcpy(&r->regs[a->reg], *p, 8);
		*p += 8;
		return;
	}
	memcpy(&len, *p, 4);
	copy_slot(r, a->reg, *p + 4, len);
	*p += 4 + len;
}

static void clear_arg(struct run *r, const struct ir_arg *a)
{
	if (ir_in_slot(a->type))
		r->slots[a->reg].len = 0;
	else
		r->regs[a->reg].u = 0;
}

static void pack(const struct run *r, const struct ir_ins *i, uint32_t from, uint32_t to, const struct ir_part *parts,
		 struct bytes *b)
{
	uint32_t k;

	for (k = from; k < to; k++)
		put_arg(r, b, &r->p->args.v[i->first + k], parts[k - from].cap);
}

static void map_get(struct run *r, const struct ir_ins *i, const struct bytes *key)
{
	const struct ir_map *m = &r->in->unit->maps.v[i->map];
	const struct ir_arg *args = r->p->args.v + i->first;
	struct map_entry e;
	bool there = r->in->ops->get(r->in->store, i->map, key, &e);
	const uint8_t *p = e.value;
	uint32_t k;

	for (k = i->nkeys; k < i->n; k++) {
		if (!there)
			clear_arg(r, &args[k]);
		else if (m->kind == IR_MAP_VALUE)
			get_arg(r, &args[k], &p);
		else
			r->regs[args[k].reg] = agg_value(m, e.agg);
	}
	if (i->dst != IR_NONE)
		r->regs[i->dst].u = there;
}

static void map_change(struct run *r, const struct ir_ins *i, const struct bytes *key)
{
	const struct ir_map *m = &r->in->unit->maps.v[i->map];
	const struct map_ops *ops = r->in->ops;
	num a = i->a != IR_NONE ? r->regs[i->a] : (num){ 0 };
	struct bytes value = { 0 };
	int64_t old = 0;
	bool room = true;

	if (i->op == IR_MAP_SET) {
		pack(r, i, i->nkeys, i->n, m->values, &value);
		room = ops->set(r->in->store, i->map, key, &value);
		bytes_free(&value);
	} else if (i->op == IR_MAP_ADD) {
		room = ops->add(r->in->store, i->map, key, a.i, &old);
		if (i->dst != IR_NONE)
			r->regs[i->dst].i = old;
	} else {
		room = ops->agg(r->in->store, i->map, key, a);
	}
	if (!room)
		interp_error(r, i, IR_ERR_MAP_FULL);
}

static void map_delete(struct run *r, const struct ir_ins *i, const struct bytes *key)
{
	bool there = r->in->ops->del(r->in->store, i->map, key);

	if (i->dst != IR_NONE)
		r->regs[i->dst].u = there;
	else if (!there)
		interp_error(r, i, IR_ERR_DELETE);
}

static bool map_ins(struct run *r, const struct ir_ins *i)
{
	struct bytes key = { 0 };
	struct map_entry e;

	if (i->op < IR_MAP_GET || i->op > IR_MAP_LEN)
		return false;
	if (i->op == IR_MAP_LEN) {
		r->regs[i->dst].u = r->in->ops->len(r->in->store, i->map);
		return true;
	}
	pack(r, i, 0, i->nkeys, r->in->unit->maps.v[i->map].keys, &key);
	if (i->op == IR_MAP_GET)
		map_get(r, i, &key);
	else if (i->op == IR_MAP_HAS)
		r->regs[i->dst].u = r->in->ops->get(r->in->store, i->map, &key, &e);
	else if (i->op == IR_MAP_DEL)
		map_delete(r, i, &key);
	else
		map_change(r, i, &key);
	bytes_free(&key);
	return true;
}

/* ---- events ---- */

/* s is NULL: it could not be read, at that address. */
static void put_fixed(struct bytes *b, const struct slot *s, uint64_t addr, const struct ir_field *f)
{
	uint32_t len = s ? MIN(s->len, f->cap) : MIN(f->cap, 8u), n[2] = { len / 8, 0 };

	if (f->type == IR_ADDRS)
		bytes_add(b, n, sizeof(n));
	bytes_add(b, s ? (const void *)s->p : &addr, len);
	for (; f->type == IR_ARRAY && len < ((f->cap + 7) & ~7u); len++)
		bytes_add(b, "", 1);
}

static void put_field(const struct run *r, struct bytes *b, const struct ir_arg *a, const struct ir_field *f)
{
	static const uint8_t zeros[8];
	uint64_t addr = first_fault(r, a->mask);
	bool bad = r->faults & a->mask;
	uint32_t len, all;

	if (!ir_in_slot(a->type)) {
		bytes_u64(b, bad ? addr : r->regs[a->reg].u);
		return;
	}
	if (f->type == IR_ARRAY || f->type == IR_ADDRS) {
		put_fixed(b, bad && f->type == IR_ARRAY ? NULL : &r->slots[a->reg], addr, f);
		return;
	}
	len = bad ? sizeof(IR_FAULT_TEXT) : MIN(r->slots[a->reg].len, f->cap);
	all = bad ? IR_FAULT_LEN : len + (f->type == IR_STR && len < f->cap);
	bytes_add(b, &all, 4);
	bytes_add(b, bad ? (const void *)IR_FAULT_TEXT : r->slots[a->reg].p, len);
	bytes_add(b, bad ? (const void *)&addr : zeros, all - len);
	bytes_add(b, zeros, -b->n & 7);
}

static void emit(struct run *r, const struct ir_ins *i)
{
	const struct ir_record *rec = &r->in->unit->records.v[i->record];
	struct bytes b = { 0 };
	uint64_t bad = 0;
	uint32_t k;

	for (k = 0; k < i->n; k++)
		if (r->faults & r->p->args.v[i->first + k].mask)
			bad |= 1ull << MIN(k, 63u);
	if (rec->faulty)
		bytes_u64(&b, bad);
	for (k = 0; k < i->n; k++)
		put_field(r, &b, &r->p->args.v[i->first + k], &rec->fields[k]);
	if (r->in->emit)
		r->in->emit(r->in->data, i->record, b.p, b.n);
	bytes_free(&b);
}

/* ns of a second in the upper bits, how many of it in the lower 32 */
static bool rate(struct run *r, const struct ir_ins *i)
{
	uint64_t second = (uint32_t)(context(r, IR_CTX_NSECS) / 1000000000), *cell = &r->in->cells[i->cell];

	if (*cell >> 32 != second)
		*cell = second << 32;
	if ((uint32_t)*cell >= (uint64_t)i->imm)
		return false;
	++*cell;
	return true;
}

static bool action(struct run *r, const struct ir_ins *i)
{
	uint64_t *cell = r->in->cells ? &r->in->cells[i->cell] : NULL;

	switch (i->op) {
	case IR_EMIT:
		emit(r, i);
		return true;
	case IR_EVERY:
		r->regs[i->dst].u = ++*cell % (uint64_t)i->imm == 0;
		return true;
	case IR_LIMIT:
		r->regs[i->dst].u = *cell < (uint64_t)i->imm;
		*cell += r->regs[i->dst].u;
		return true;
	case IR_RATE:
		r->regs[i->dst].u = rate(r, i);
		return true;
	case IR_ENABLE:
		if (r->in->enable)
			r->in->enable(r->in->data, i->imm, r->regs[i->a].u != 0);
		return true;
	case IR_EXIT:
		r->in->exited = true;
		r->in->exit_status = r->regs[i->a].i;
		r->pc = r->p->ins.n;
		return true;
	}
	return false;
}

/* ---- control ---- */

static void each_free(struct each *e)
{
	size_t i;

	for (i = 0; i < e->rows.n; i++) {
		bytes_free(&e->rows.v[i].key);
		bytes_free(&e->rows.v[i].value);
	}
	vec_free(&e->rows);
}

/* The next key of a map, or behind the loop. */
static void each_step(struct run *r, const struct ir_ins *i)
{
	struct each *e = &r->each[i->label];
	const struct ir_arg *args = r->p->args.v + i->first;
	const struct row *row;
	const uint8_t *p;
	uint32_t k;

	if (r->rounds[i->label] >= e->rows.n) {
		each_free(e);
		r->pc = r->places[i->label] + 1;
		return;
	}
	row = &e->rows.v[r->rounds[i->label]];
	for (k = 0, p = row->key.p; k < i->nkeys; k++)
		get_arg(r, &args[k], &p);
	for (p = row->value.p; k < i->n; k++) {
		if (r->in->unit->maps.v[i->map].kind == IR_MAP_VALUE)
			get_arg(r, &args[k], &p);
		else
			r->regs[args[k].reg] = row->agg;
	}
}

static void each_begin(struct run *r, const struct ir_ins *i)
{
	const struct ir_map *m = &r->in->unit->maps.v[i->map];
	struct map_list list = { 0 };
	size_t k;

	each_free(&r->each[i->label]);
	r->in->ops->list(r->in->store, i->map, &list);
	for (k = 0; k < list.n; k++) {
		struct row *row = vec_add(&r->each[i->label].rows);

		bytes_add(&row->key, list.v[k].key, list.v[k].key_len);
		bytes_add(&row->value, list.v[k].value, list.v[k].value_len);
		if (list.v[k].agg)
			row->agg = agg_value(m, list.v[k].agg);
	}
	vec_free(&list);
	r->rounds[i->label] = 0;
	each_step(r, i);
}

static void loop_end(struct run *r, const struct ir_ins *i)
{
	const struct ir_ins *head = &r->p->ins.v[r->heads[i->label]];

	r->rounds[i->label]++;
	if (i->op == IR_EACH_END) {
		r->pc = r->heads[i->label] + 1;
		each_step(r, head);
	} else if (r->rounds[i->label] < (uint64_t)head->imm) {
		r->pc = r->heads[i->label] + 1;
	} else {
		interp_error(r, i, IR_ERR_LOOP);
	}
}

static void control(struct run *r, const struct ir_ins *i)
{
	bool jump = i->op == IR_JMP || (i->op == IR_JZ && !r->regs[i->a].u) || (i->op == IR_JNZ && r->regs[i->a].u);

	if (i->op == IR_IF_FAULT && (r->faults & i->mask)) {
		interp_error(r, i, IR_ERR_FAULT);
		jump = true;
	}
	if (jump)
		r->pc = r->places[i->label];
	else if (i->op == IR_LOOP)
		r->rounds[i->label] = 0;
	else if (i->op == IR_EACH)
		each_begin(r, i);
	else if (i->op == IR_LOOP_END || i->op == IR_EACH_END)
		loop_end(r, i);
}

static void find_labels(struct run *r)
{
	size_t i;

	for (i = 0; i < r->p->ins.n; i++) {
		const struct ir_ins *x = &r->p->ins.v[i];

		if (x->op == IR_LABEL || x->op == IR_LOOP_END || x->op == IR_EACH_END)
			r->places[x->label] = i;
		else if (x->op == IR_LOOP || x->op == IR_EACH)
			r->heads[x->label] = i;
	}
}

static void start(struct run *r)
{
	const struct ir_prog *p = r->p;
	size_t i;

	r->regs = xcalloc(p->regs.n, sizeof(*r->regs));
	r->slots = xcalloc(p->slots.n, sizeof(*r->slots));
	for (i = 0; i < p->slots.n; i++) {
		r->slots[i].p = xcalloc(1, (size_t)p->slots.v[i].cap + 1);
		if (p->slots.v[i].text) {
			memcpy(r->slots[i].p, p->slots.v[i].text, p->slots.v[i].cap);
			r->slots[i].len = p->slots.v[i].cap;
		}
	}
	r->rounds = xcalloc(p->nlabels, sizeof(*r->rounds));
	r->each = xcalloc(p->nlabels, sizeof(*r->each));
	r->places = xcalloc(p->nlabels, sizeof(*r->places));
	r->heads = xcalloc(p->nlabels, sizeof(*r->heads));
	r->faults = p->where == IR_WHERE_EXIT ? r->site->faults : 0;
	find_labels(r);
}

static void finish(struct run *r)
{
	size_t i;

	if (r->p->where == IR_WHERE_ENTRY)
		r->site->faults = r->faults;
	for (i = 0; i < r->p->slots.n; i++)
		free(r->slots[i].p);
	for (i = 0; i < r->p->nlabels; i++)
		each_free(&r->each[i]);
	free(r->regs);
	free(r->slots);
	free(r->rounds);
	free(r->each);
	free(r->places);
	free(r->heads);
}

int64_t interp_run(struct interp *in, const struct ir_prog *p, struct interp_site *site)
{
	struct run r = { .in = in, .p = p, .site = site };
	int64_t status = 1;

	if (ir_verify(in->unit, p))
		return -EINVAL;
	start(&r);
	while (r.pc < p->ins.n) {
		const struct ir_ins *i = &p->ins.v[r.pc++];

		if (i->op == IR_RET) {
			if (i->a != IR_NONE)
				status = r.regs[i->a].i;
			break;
		}
		if (!interp_compute(&r, i) && !memory(&r, i) && !site_read(&r, i) && !map_ins(&r, i) && !action(&r, i))
			control(&r, i);
	}
	finish(&r);
	return status;
}
