/* SPDX-License-Identifier: MIT */
/* Calls: actions write events that the reader acts upon, in their order. */
#include "lang/lower.h"

#include <string.h>

#include "lang/format.h"

static struct val nothing(void)
{
	return (struct val){ .kind = K_VOID, .type = &v_void };
}

/* "%" for a value, "(%, %)" for a tuple of two. */
char *lower_shape(const struct vtype *t)
{
	char *shape, *one, *both;
	uint64_t i;

	if (t->kind != V_TUPLE)
		return xstrdup("%");
	shape = xstrdup(t->fields ? "{ " : "(");
	for (i = 0; i < t->n; i++) {
		one = lower_shape(t->elems[i]);
		both = xasprintf("%s%s%s%s%s%s", shape, i ? ", " : "", t->fields ? "." : "", t->fields ? t->fields[i] : "", t->fields ? " = " : "", one);
		free(shape);
		free(one);
		shape = both;
	}
	both = t->fields ? xasprintf("%s }", shape) : xasprintf("%s%s)", shape, t->n == 1 ? "," : "");
	free(shape);
	return both;
}

/* ---- events ---- */

struct ir_record *lower_record(struct lower *w, uint8_t kind, const struct expr *e)
{
	struct ir_record *r = xcalloc(1, sizeof(*r));

	r->kind = kind;
	r->map = IR_NONE;
	r->at = e ? e->at : w->c->clause->at;
	r->len = e ? e->len : 1;
	r->owner = w->c->site->owner | (w->c->site->owner && w->p->is_left ? IR_OWNER_LEFT : 0);
	return r;
}

void lower_field(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v)
{
	size_t first = list->n, i;

	arg_add(w, list, v);
	r->fields = xrealloc(r->fields, (list->n + 1) * sizeof(*r->fields));
	for (i = first; i < list->n; i++) {
		const struct ir_arg *a = &list->v[i];

		r->fields[i] = (struct ir_field){ .name = name ? xstrdup(name) : NULL, .type = a->type, .show = a->show,
						  .cap = ir_in_slot(a->type) ? w->p->slots.v[a->reg].cap : 8 };
		r->faulty |= a->mask != 0;
	}
	r->nfields = list->n;
	if (r->nfields > 64)
		lower_error(w, w->at, "an event has at most 64 fields");
	/* a trace has 32 marks for reads that failed */
	if (r->kind == IR_RECORD_EVENT && r->faulty && r->nfields > 32)
		lower_error(w, w->at, "an event has at most 32 fields if some of them are read from memory");
}

static bool same_record(const struct ir_record *a, const struct ir_record *b)
{
	uint32_t i;

	if (a->kind != b->kind || a->at != b->at || a->faulty != b->faulty || a->map != b->map || a->nfields != b->nfields)
		return false;
	for (i = 0; i < a->nfields; i++) {
		const struct ir_field *f = &a->fields[i], *g = &b->fields[i];

		if (f->type != g->type || f->known != g->known || f->words != g->words || f->cap != g->cap || f->show != g->show || !f->name != !g->name ||
		    (f->name && strcmp(f->name, g->name) != 0))
			return false;
	}
	return a->text_len == b->text_len && (!a->text_len || memcmp(a->text, b->text, a->text_len) == 0);
}

/*
 * A clause on many sites has one record for all that look the same and have the same owner. Records of one owner are
 * made one after the other: no need to look further back. (If its programs are made at two times, it has two.)
 */
static uint32_t add_record(struct lower *w, struct ir_record *r)
{
	size_t i;

	for (i = w->u->records.n; i-- > 0 && w->u->records.v[i].owner == r->owner;)
		if (same_record(&w->u->records.v[i], r)) {
			ir_record_free(r);
			return i;
		}
	*vec_add(&w->u->records) = *r;
	return w->u->records.n - 1;
}

/* Takes the record and the list. */
void lower_emit(struct lower *w, struct ir_record *r, arg_list *list)
{
	struct ir_ins *i;
	uint32_t number;

	if (ir_record_room(r) > 65536 - 64)
		lower_error(w, w->at, "this event could take more than 64 KiB; give str() and buf() a length");
	number = add_record(w, r);
	free(r);
	i = lower_ins(w, IR_EMIT);
	i->record = number;
	args_set(w, i, list, 0);
}

static void set_text(struct ir_record *r, const char *text, uint32_t len)
{
	r->text = xcalloc(1, len + 1);
	memcpy(r->text, text, len);
	r->text_len = len;
}

/* An argument as its conversion wants it. */
static struct val format_arg(struct lower *w, const struct expr *e, char kind)
{
	struct val v = lower_expr(w, e);

	if (strchr("fega", kind) && v.type->kind == V_INT)
		return val_convert(w, &v, &v_f64);
	if (kind == 's' && v_can_text(v.type))
		return val_text(w, &v, e);
	if (kind == 'p' && v.type->kind == V_ARRAY) {
		v = val_address(w, &v);
		v.type = &v_void_ptr;
	}
	return v;
}

/* Is this argument exactly what the kernel could say as well? A value that is computed from it is the target's word. */
static uint8_t known_arg(const struct ir_record *r, const struct expr *e)
{
	uint8_t type = r->fields[r->nfields - 1].type;

	if ((r->kind != IR_RECORD_SYSTEM && r->kind != IR_RECORD_CAT) || e->kind != E_NAME)
		return IR_KNOWN_NOT;
	if (e->meaning == B_COMM)
		return type == IR_STR ? IR_KNOWN_COMM : IR_KNOWN_NOT;
	if (type > IR_U64)
		return IR_KNOWN_NOT;
	return e->meaning == B_PID ? IR_KNOWN_PID : e->meaning == B_TID ? IR_KNOWN_TID : IR_KNOWN_NOT;
}

static struct val lower_printf(struct lower *w, const struct expr *e)
{
	static const uint8_t kinds[] = {
		[C_PRINTF] = IR_RECORD_PRINTF, [C_CAT] = IR_RECORD_CAT, [C_SYSTEM] = IR_RECORD_SYSTEM,
		[C_ERRORF] = IR_RECORD_ERRORF, [C_WARNF] = IR_RECORD_WARNF,
	};
	struct ir_record *r = lower_record(w, kinds[e->meaning], e);
	const char *s = e->list[0]->name;
	arg_list list = { 0 };
	uint32_t arg = 1;
	struct conv c;
	struct val v;
	size_t n;

	set_text(r, s, e->list[0]->text_len);
	for (; *s; s += n) {
		n = *s == '%' ? format_conv(s, &c) : 0;
		if (n && c.kind != '%' && arg < e->nlist) {
			v = format_arg(w, e->list[arg++], c.kind);
			lower_field(w, r, &list, NULL, &v);
			r->fields[r->nfields - 1].known = known_arg(r, e->list[arg - 1]);
		}
		n = n ? n : 1;
	}
	lower_emit(w, r, &list);
	return nothing();
}

static struct val map_event(struct lower *w, const struct expr *e, uint8_t kind)
{
	struct ir_record *r = lower_record(w, kind, e);
	arg_list list = { 0 };
	struct val v;
	int64_t n;
	uint32_t i;

	r->map = lower_map_number(w, e->ref);
	for (i = 1; i < 3 && kind == IR_RECORD_PRINT_MAP; i++) {
		n = 0;
		if (i < e->nlist)
			const_int(e->list[i], &n);
		v = val_const(&v_u64, n);
		lower_field(w, r, &list, NULL, &v);
	}
	lower_emit(w, r, &list);
	return nothing();
}

/* print(args): all parameters that can be read, like a struct. */
static struct val print_args(struct lower *w, const struct expr *e)
{
	struct ir_record *r = lower_record(w, IR_RECORD_PRINT, e);
	const char *shape = "{ ";
	arg_list list = { 0 };
	uint32_t i;

	lower_params(w, &list, r);
	for (i = 0; i < r->nfields; i++)
		shape = pool_printf(w->pool, "%s%s.%s = %%", shape, i ? ", " : "", r->fields[i].name);
	shape = pool_printf(w->pool, "%s }", shape);
	set_text(r, shape, strlen(shape));
	lower_emit(w, r, &list);
	return nothing();
}

static struct val lower_print(struct lower *w, const struct expr *e)
{
	struct ir_record *r;
	arg_list list = { 0 };
	struct val v;
	char *shape;

	if (e->ref)
		return map_event(w, e, IR_RECORD_PRINT_MAP);
	if (e->list[0]->type->kind == V_ARGS)
		return print_args(w, e);
	r = lower_record(w, IR_RECORD_PRINT, e);
	v = lower_expr(w, e->list[0]);
	if (v_has_text(v.type) && v.type->kind != V_STR)
		v = val_text(w, &v, e->list[0]);
	shape = lower_shape(v.type);
	/* one entry of a map is shown with its key, as the map would be */
	set_text(r, shape, strlen(shape));
	free(shape);
	lower_field(w, r, &list, NULL, &v);
	lower_emit(w, r, &list);
	return nothing();
}

static struct val lower_typed_event(struct lower *w, const struct expr *e)
{
	struct ir_record *r = lower_record(w, IR_RECORD_EVENT, e);
	arg_list list = { 0 };
	uint32_t i;

	for (i = 0; i < e->nlist; i++) {
		const struct expr *a = e->list[i], *x = a->kind == E_NAMED ? a->a : a;
		struct val v = lower_expr(w, x);
		const char *name = a->kind == E_NAMED ? a->name : pool_text(w->pool, w->l->script->source + x->at, x->len);

		w->at = x;
		lower_fields(w, r, &list, name[0] == '$' || name[0] == '@' ? name + 1 : name, &v);
	}
	lower_emit(w, r, &list);
	return nothing();
}

static struct val lower_time(struct lower *w, const struct expr *e)
{
	struct ir_record *r = lower_record(w, IR_RECORD_TIME, e);
	arg_list list = { 0 };

	if (e->nlist)
		set_text(r, e->list[0]->name, e->list[0]->text_len);
	else
		set_text(r, "%H:%M:%S\n", 9);
	lower_emit(w, r, &list);
	return nothing();
}

static struct val lower_exit(struct lower *w, const struct expr *e)
{
	struct val v = e->nlist ? lower_expr(w, e->list[0]) : val_const(&v_i64, 0);
	struct ir_record *r = lower_record(w, IR_RECORD_EXIT, e);
	arg_list list = { 0 };
	struct ir_ins *i;
	uint32_t number;

	v = val_convert(w, &v, &v_i64);
	lower_field(w, r, &list, "status", &v);
	number = add_record(w, r);
	free(r);
	i = lower_ins(w, IR_EXIT);
	i->record = number;
	i->a = list.v[0].reg;
	args_set(w, i, &list, 0);
	return nothing();
}

/* ---- values ---- */

static struct val cut_text(struct lower *w, const struct expr *e, const struct val *text)
{
	uint32_t slot = lower_slot(w, e->type->size, NULL);
	struct ir_ins *i = lower_ins(w, IR_SLOT_COPY);

	i->slot = slot;
	i->slot2 = text->slot;
	return (struct val){ .kind = K_SLOT, .type = e->type, .slot = slot, .reg = IR_NONE, .mask = text->mask };
}

/* buf("text", n): zeros behind the text. */
static struct val lower_literal_bytes(struct lower *w, const struct expr *e, uint32_t n)
{
	char *bytes = xcalloc(1, n + 1);
	struct val v = { .kind = K_SLOT, .type = e->type, .reg = IR_NONE };

	memcpy(bytes, e->list[0]->name, MIN((uint64_t)n, e->list[0]->value));
	v.slot = lower_slot(w, n, bytes);
	free(bytes);
	return v;
}

/* Bytes of whatever it is, as a slot. */
static struct val bytes_of(struct lower *w, const struct expr *e, uint32_t n)
{
	struct val a = lower_expr(w, e), m;

	if (a.kind == K_SLOT)
		return a;
	m = val_object(w, &a);
	m.type = v_array(w->pool, &v_u8, n);
	return val_bytes(w, &m);
}

static struct val lower_memcmp(struct lower *w, const struct expr *e)
{
	struct val a, b;
	struct ir_ins *i;
	uint32_t dst;

	if (!e->value)
		return val_const(e->type, 0);
	a = bytes_of(w, e->list[0], e->value);
	b = bytes_of(w, e->list[1], e->value);
	dst = lower_reg(w, IR_I);
	i = lower_ins(w, IR_STR_CMP);
	i->slot = a.slot;
	i->slot2 = b.slot;
	i->dst = dst;
	i->imm = e->value;
	return val_reg(e->type, dst, a.mask | b.mask);
}

static struct val lower_str(struct lower *w, const struct expr *e)
{
	struct val a = lower_expr(w, e->list[0]), n, address;
	bool constant = e->nlist < 2;
	uint32_t most = e->type->size;

	if (a.type->kind == V_STR && e->nlist < 2 && e->meaning == C_STR)
		return a;
	if (e->nlist == 2) {
		n = lower_expr(w, e->list[1]);
		constant = n.kind == K_CONST;
		n = val_convert(w, &n, &v_u64);
	}
	if (e->meaning == C_BUF && e->list[0]->kind == E_STR && constant)
		return lower_literal_bytes(w, e, most);
	if (a.kind == K_SLOT && a.type->kind == V_STR && constant)
		return cut_text(w, e, &a);
	if (a.kind == K_SLOT || a.kind == K_SLOT_MEM) {
		lower_error(w, e, "%s() reads memory, but this is a copy", e->name);
		return a;
	}
	if (a.type->kind == V_STRUCT && e->meaning == C_STR)
		return val_text(w, &a, e->list[0]);
	address = a.kind == K_MEM ? val_address(w, &a) : val_convert(w, &a, &v_u64);
	if (e->meaning == C_STR) {
		struct val r = val_read_text(w, &address, constant ? NULL : &n, most);

		r.type = e->type;
		return r;
	}
	{
		uint32_t ra = val_in_reg(w, &address), rb = constant ? IR_NONE : val_in_reg(w, &n), slot = lower_slot(w, most, NULL);
		uint32_t bit = lower_bit(w);
		struct ir_ins *i = lower_ins(w, IR_READ_BUF);

		i->slot = slot;
		i->a = ra;
		i->b = rb;
		i->imm = most;
		i->mask = address.mask | (constant ? 0 : n.mask);
		i->bit = bit;
		return (struct val){ .kind = K_SLOT, .type = e->type, .slot = slot, .reg = IR_NONE, .mask = 1ull << bit };
	}
}

static struct val text_op(struct lower *w, const struct expr *e, uint8_t op)
{
	struct val a = lower_expr(w, e->list[0]), b = { .slot = IR_NONE };
	struct ir_ins *i;
	int64_t n = 0;
	uint32_t dst;

	if (a.type->kind != V_BUF || op != IR_STR_LEN)
		a = val_text(w, &a, e->list[0]);
	if (e->nlist > 1) {
		b = lower_expr(w, e->list[1]);
		b = val_text(w, &b, e->list[1]);
	}
	if (e->nlist > 2)
		const_int(e->list[2], &n);
	if (e->nlist > 2 && !n)
		return val_const(e->type, 0);
	dst = lower_reg(w, IR_I);
	i = lower_ins(w, op);
	i->slot = a.slot;
	i->slot2 = b.slot;
	i->dst = dst;
	i->imm = n;
	return val_reg(e->type, dst, a.mask | b.mask);
}

/* As in bpftrace: 0, or 1 for texts that differ. */
static struct val lower_strncmp(struct lower *w, const struct expr *e)
{
	struct val v = text_op(w, e, IR_STR_CMP);
	uint32_t zero;

	if (v.kind == K_CONST)
		return v;
	zero = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 0);
	return val_reg(e->type, lower_pure(w, IR_NE, IR_I64, v.reg, zero, 0), v.mask);
}

static struct val lower_contains(struct lower *w, const struct expr *e)
{
	struct val at = text_op(w, e, IR_STR_FIND);
	uint32_t zero = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 0);

	return val_reg(e->type, lower_pure(w, IR_GE, IR_I64, at.reg, zero, 0), at.mask);
}

static struct val lower_len(struct lower *w, const struct expr *e)
{
	uint32_t dst, map;
	struct ir_ins *i;

	if (!e->ref)
		return text_op(w, e, IR_STR_LEN);
	map = lower_map_number(w, e->ref);
	w->u->maps.v[map].is_counted |= w->p->where != IR_WHERE_TRACER;
	dst = lower_reg(w, IR_I);
	i = lower_ins(w, IR_MAP_LEN);
	i->map = map;
	i->dst = dst;
	return val_reg(e->type, dst, 0);
}

/* delete, has_key */
static struct val lower_key_call(struct lower *w, const struct expr *e)
{
	struct map_info *m = e->list[0]->ref;
	arg_list list = { 0 };
	uint64_t mask = 0;
	uint32_t map = lower_map_number(w, m), dst, skip = IR_NONE;
	struct ir_ins *i;

	lower_map_keys(w, e->list[0], &list, &mask);
	dst = lower_reg(w, IR_I);
	if (mask && e->meaning == C_DELETE) {
		i = lower_ins(w, IR_CONST);
		i->dst = dst;
		skip = lower_label(w);
		lower_if_fault(w, mask, skip);
	}
	i = lower_ins(w, e->meaning == C_DELETE ? IR_MAP_DEL : IR_MAP_HAS);
	i->map = map;
	i->dst = dst;
	args_set(w, i, &list, list.n);
	if (skip != IR_NONE)
		lower_place_label(w, skip);
	return val_reg(e->type, dst, mask);
}

/* One for each place in the script, however many sites it is put on. */
static uint32_t cell_of(struct lower *w, const struct expr *e)
{
	struct lang *l = w->l;

	for (uint32_t i = 0; i < l->cells.n; i++)
		if (l->cells.v[i] == e)
			return i;
	*vec_add(&l->cells) = e;
	w->u->ncells = l->cells.n;
	return l->cells.n - 1;
}

static struct val lower_cell(struct lower *w, const struct expr *e, uint8_t op)
{
	uint32_t dst = lower_reg(w, IR_I);
	struct ir_ins *i = lower_ins(w, op);

	i->dst = dst;
	i->imm = e->value;
	i->cell = cell_of(w, e);
	return val_reg(e->type, dst, 0);
}

static struct val lower_switch(struct lower *w, const struct expr *e)
{
	uint32_t reg = lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, e->meaning == C_ENABLE);
	struct ir_ins *i = lower_ins(w, IR_ENABLE);

	i->a = reg;
	i->imm = e->value;
	return nothing();
}

static struct val lower_strftime(struct lower *w, const struct expr *e)
{
	struct val v = lower_expr(w, e->list[1]);

	v = val_convert(w, &v, &v_u64);
	return val_reg(e->type, val_in_reg(w, &v), v.mask);
}

static struct val lower_bswap(struct lower *w, const struct expr *e)
{
	struct val v = lower_expr(w, e->list[0]);

	v = val_convert(w, &v, e->type);
	return e->type->size == 1 ? v :
	       val_reg(e->type, lower_pure(w, IR_BSWAP, v_ir(e->type), val_in_reg(w, &v), IR_NONE, 0), v.mask);
}

static struct val retyped(struct lower *w, const struct expr *e)
{
	struct val v = lower_expr(w, e->list[0]);

	if (v.kind == K_MEM && e->meaning == C_USYM)
		v = val_address(w, &v);
	v.type = e->type;
	return v;
}

struct val lower_call(struct lower *w, const struct expr *e)
{
	struct ir_ins *i;
	uint32_t reg;

	switch ((enum call)e->meaning) {
	case C_PRINTF: case C_CAT: case C_SYSTEM: case C_ERRORF: case C_WARNF: return lower_printf(w, e);
	case C_PRINT:	return lower_print(w, e);
	case C_CLEAR:	return map_event(w, e, IR_RECORD_CLEAR);
	case C_ZERO:	return map_event(w, e, IR_RECORD_ZERO);
	case C_DELETE: case C_HAS_KEY: return lower_key_call(w, e);
	case C_LEN:	return lower_len(w, e);
	case C_STR: case C_BUF: return lower_str(w, e);
	case C_STRLEN:	return text_op(w, e, IR_STR_LEN);
	case C_STRNCMP:	return lower_strncmp(w, e);
	case C_STRSTR:	return text_op(w, e, IR_STR_FIND);
	case C_STRCONTAINS: return lower_contains(w, e);
	case C_USYM: case C_UPTR: return retyped(w, e);
	case C_NTOP: case C_PTON: case C_MACADDR: case C_STRERROR: return lower_net(w, e);
	case C_JOIN:	return lower_join(w, e);
	case C_UADDR:	return val_const(e->type, (int64_t)lower_live(w, e->value));
	case C_REG:	return lower_asked_reg(w, e->value, e->type);
	case C_EXIT:	return lower_exit(w, e);
	case C_BSWAP:	return lower_bswap(w, e);
	case C_STRFTIME: return lower_strftime(w, e);
	case C_TIME:	return lower_time(w, e);
	case C_RECORD:	return lower_typed_event(w, e);
	case C_EVERY:	return lower_cell(w, e, IR_EVERY);
	case C_LIMIT:	return lower_cell(w, e, IR_LIMIT);
	case C_RATE:	return lower_cell(w, e, IR_RATE);
	case C_ENABLE: case C_DISABLE: return lower_switch(w, e);
	case C_USTACK:	return lower_stack(w, e, e->value);
	case C_NSECS:
		reg = lower_reg(w, IR_I);
		i = lower_ins(w, IR_CTX);
		i->imm = IR_CTX_NSECS;
		i->dst = reg;
		if (e->value)
			reg = lower_pure(w, IR_ADD, IR_I64, reg, lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, e->value), 0);
		return val_reg(e->type, reg, 0);
	case C_IS_ARRAY: case C_IS_INTEGER: case C_IS_UNSIGNED: case C_IS_PTR: case C_IS_STR: case C_IS_LITERAL:
		return val_const(e->type, e->value);
	case C_CGROUPID: case C_STRCAP: return val_const(e->type, e->value);
	case C_MEMCMP:	return lower_memcmp(w, e);
	case C_COMM: case C_CGROUP_PATH: case C_SIGNAL_NAME: case C_SYSCALL_NAME: return retyped(w, e);
	case C_STATIC_ASSERT: case C_ASSERT_STR: return nothing();
	default:
		lower_error(w, e, "%s() can't be used here", e->name);
		return nothing();
	}
}
