/* SPDX-License-Identifier: MIT */
/* Calls: the right number of arguments, of the right kind. */
#include "lang/check.h"

#include <string.h>
#include <sys/stat.h>

static bool bad(const struct vtype *t)
{
	return t->kind == V_ERROR;
}

static void need(struct checker *c, const struct expr *e, const struct call_info *i, const char *what, const struct vtype *t)
{
	if (!bad(t))
		check_error(c, e, "%s() takes %s here, but this is %s", i->name, what, v_name(c->l->pool, t));
}

static bool is_address(const struct vtype *t)
{
	return t->kind == V_PTR || t->kind == V_INT || (t->kind == V_ARRAY && !t->held) || bad(t);
}

/* A literal that is needed when compiling. */
bool check_literal(struct checker *c, const struct expr *e, const struct call_info *i)
{
	if (e->kind == E_STR)
		return true;
	check_error(c, e, "%s() takes a string literal here", i->name);
	return false;
}

/* ---- maps ---- */

static struct map_info *map_arg(struct checker *c, struct expr *e, const struct call_info *i)
{
	if (e->kind == E_MAP && !e->has_keys) {
		struct map_info *m = map_find(c->l, e->name, e->at);

		e->ref = m;
		if (!m->value)
			check_error(c, e, "%s is used, but never written", m->name);
		return m;
	}
	check_error(c, e, "%s() takes a map here, without keys", i->name);
	return NULL;
}

static const struct vtype *check_print(struct checker *c, struct expr *e, const struct call_info *info)
{
	struct expr *a = e->list[0];
	struct map_info *m;
	int64_t n;
	uint32_t i;

	for (i = 1; i < e->nlist; i++) {
		check_value(c, e->list[i]);
		if (a->kind == E_MAP && !a->has_keys && (!const_int(e->list[i], &n) || n < 0))
			check_error(c, e->list[i], "print() takes a constant here");
	}
	if (a->kind == E_MAP && !a->has_keys) {
		m = map_arg(c, a, info);
		e->ref = m;
		return &v_void;
	}
	if (check_is_args(c, a)) {
		if (!check_has_usdt(c))
			check_args(c, a);
		a->type = &v_args;
		e->ref = NULL;
		return &v_void;
	}
	if (a->kind == E_MAP) {		/* one entry, whatever it holds */
		m = map_find(c->l, a->name, a->at);
		if (m->value && m->value->kind == V_AGG && m->value->agg >= IR_MAP_STATS) {
			check_keys(c, a);
			check_error(c, a, "print() shows all of %s or a single number; print(%s)", m->name, m->name);
			return &v_void;
		}
	}
	check_value(c, a);
	if (e->nlist > 1)
		check_error(c, e->list[1], "print() takes one value; for several, print((a, b)) or printf()");
	e->ref = NULL;
	return &v_void;
}

/* delete(@m[k]), delete(@m, k), has_key(@m, k): afterwards list[0] is the map with its keys. */
static const struct vtype *check_key_call(struct checker *c, struct expr *e, const struct call_info *i)
{
	struct expr *m = e->list[0];

	if (m->kind != E_MAP || (e->nlist == 2 && m->has_keys && !e->prefix)) {
		check_error(c, m, "usage: %s", i->usage);
		return &v_error;
	}
	if (e->nlist == 2 && !e->prefix) {
		e->prefix = true;	/* done; clauses are looked at more than once */
		m->has_keys = true;
		m->list = &e->list[1];
		m->nlist = 1;
	}
	if (i->call == C_HAS_KEY && !m->has_keys)
		check_error(c, m, "%s has no keys", m->name);
	check_keys(c, m);
	if (!((struct map_info *)m->ref)->value)
		check_error(c, m, "%s is used, but never written", m->name);
	return &v_bool;
}

static const struct vtype *check_len(struct checker *c, struct expr *e, const struct call_info *i)
{
	const struct vtype *t;

	if (e->list[0]->kind == E_MAP && !e->list[0]->has_keys) {
		map_arg(c, e->list[0], i);
		e->ref = e->list[0]->ref;
		return &v_i64;
	}
	e->ref = NULL;
	t = check_value(c, e->list[0]);
	if (t->kind == V_STACK)
		check_error(c, e->list[0], "len() of a stack is not supported; print() shows its frames");
	else if (!v_has_text(t) && t->kind != V_BUF)
		need(c, e->list[0], i, "a map or a string", t);
	return &v_i64;
}

/* ---- texts ---- */

/* In str(), a parameter is the text that was given, and $1 + 2 the same without its first two bytes. */
static void take_param_text(struct checker *c, struct expr *e)
{
	const struct script *s = c->l->script;
	struct expr *p = e->kind == E_BINARY && e->op == '+' ? e->a : e;
	int64_t n = 0;

	if (p->kind != E_PARAM)
		return;
	if (p != e && (!const_int(e->b, &n) || n < 0)) {
		check_error(c, e->b, "only a constant can be added to a parameter's text");
		return;
	}
	e->name = p->value <= s->nparams ? s->params[p->value - 1] : "";
	if ((uint64_t)n > strlen(e->name)) {
		check_error(c, e->b, "the parameter has %zu bytes", strlen(e->name));
		n = 0;
	}
	e->kind = E_STR;
	e->name += n;
	e->text_len = strlen(e->name);
}

static const struct vtype *check_str(struct checker *c, struct expr *e, const struct call_info *i)
{
	const struct vtype *t;
	uint64_t most = c->l->config.max_strlen;
	int64_t n;

	if (i->call == C_STR)
		take_param_text(c, e->list[0]);
	t = check_value(c, e->list[0]);
	if (e->nlist == 2) {
		const struct vtype *len = check_value(c, e->list[1]);

		if (len->kind != V_INT)
			need(c, e->list[1], i, "a length", len);
		if (const_int(e->list[1], &n)) {
			if (n < 0)
				check_error(c, e->list[1], "a length can't be negative");
			/* a literal asks for as much as it says, up to what an event can hold */
			most = MIN((uint64_t)MAX(n, 0), 65536u);
		}
	}
	if (t->kind == V_ARRAY && t->n && (e->nlist < 2 || t->n < most))
		most = MIN(most, t->n * MAX(t->to->size, 1u));
	if (i->call == C_BUF) {
		if (t->kind == V_STR && e->list[0]->kind == E_STR && e->nlist < 2)
			most = e->list[0]->value;
		if (!is_address(t) && t->kind != V_STR)
			need(c, e->list[0], i, "a pointer, an array or a string", t);
		return v_bytes(c->l->pool, most);
	}
	if (!is_address(t) && !v_can_text(t))
		need(c, e->list[0], i, "a pointer", t);
	return v_text(c->l->pool, most);
}

static const struct vtype *check_texts(struct checker *c, struct expr *e, const struct call_info *i)
{
	uint32_t k;
	int64_t n;

	for (k = 0; k < MIN(e->nlist, 2u); k++) {
		const struct vtype *t = check_value(c, e->list[k]);

		if (!v_can_text(t) && t->kind != V_SITE && !(t->kind == V_PTR))
			need(c, e->list[k], i, "a string", t);
	}
	if (e->nlist == 3) {
		check_value(c, e->list[2]);
		if (!const_int(e->list[2], &n) || n < 0 || n > 65536)
			check_error(c, e->list[2], "%s() takes a constant length", i->name);
	}
	return i->call == C_STRCONTAINS ? &v_bool : i->call == C_STRLEN ? &v_u64 : &v_i64;
}

/* The type of a time says how it is shown, so that variables and maps know it, too. */
static uint32_t time_format(struct lang *l, const char *format)
{
	uint32_t i;

	for (i = 0; i < l->unit.strings.n; i++)
		if (strcmp(l->unit.strings.v[i], format) == 0)
			return i;
	*vec_add(&l->unit.strings) = xstrdup(format);
	return i;
}

static const struct vtype *check_strftime(struct checker *c, struct expr *e, const struct call_info *i)
{
	struct vtype *t = pool_new(c->l->pool, struct vtype);

	if (!check_literal(c, e->list[0], i))
		return &v_error;
	if (check_value(c, e->list[1])->kind != V_INT)
		need(c, e->list[1], i, "nanoseconds", e->list[1]->type);
	*t = (struct vtype){ .kind = V_TIME, .size = 8, .show = IR_TIME, .extra = time_format(c->l, e->list[0]->name) };
	return t;
}

/* ---- the rest ---- */

static const struct vtype *check_number_call(struct checker *c, struct expr *e, const struct call_info *i)
{
	int64_t n;

	check_value(c, e->list[0]);
	if (!const_int(e->list[0], &n) || n < 1)
		check_error(c, e->list[0], "%s() takes a constant above 0", i->name);
	else
		e->value = n;
	return &v_bool;
}

static const struct vtype *check_switch(struct checker *c, struct expr *e, const struct call_info *i)
{
	const struct script *s = c->l->script;
	uint32_t k, p;

	if (!check_literal(c, e->list[0], i))
		return &v_void;
	for (k = 0; k < s->clauses.n; k++)
		for (p = 0; p < s->clauses.v[k]->nprobes; p++) {
			const char *name = s->clauses.v[k]->probes[p]->name;

			if (name && strcmp(name, e->list[0]->name) == 0) {
				e->value = k;
				return &v_void;
			}
		}
	check_error(c, e->list[0], "no probe is named '%s' (NAME=probe)", e->list[0]->name);
	return &v_void;
}

/* ustack, ustack(3), ustack(perf), ustack(perf, 3) */
static const struct vtype *check_ustack(struct checker *c, struct expr *e, const struct call_info *i)
{
	static const char *const modes[] = { "bpftrace", "perf", "raw" };
	struct vtype *t = pool_new(c->l->pool, struct vtype);
	int64_t n = 127;
	uint32_t k, m;

	*t = (struct vtype){ .kind = V_STACK, .size = 8, .show = IR_USTACK, .extra = c->l->config.stack_mode };
	if (!c->site || c->site->at == LANG_TRACER)
		check_error(c, e, "ustack has no meaning in begin, end and interval");
	for (k = 0; k < e->nlist; k++) {
		for (m = 0; e->list[k]->kind == E_NAME && m < 3 && strcmp(modes[m], e->list[k]->name) != 0; m++)
			;
		if (e->list[k]->kind == E_NAME && m < 3)
			t->extra = m;
		else if (!const_int(e->list[k], &n) || n < 1 || n > 1024)
			check_error(c, e->list[k], "usage: %s, with mode bpftrace, perf or raw, and 1 to 1024 frames", i->usage);
	}
	e->value = n;
	return t;
}

static const struct vtype *check_record(struct checker *c, struct expr *e, const struct call_info *i)
{
	uint32_t k;

	for (k = 0; k < e->nlist; k++) {
		struct expr *a = e->list[k]->kind == E_NAMED ? e->list[k]->a : e->list[k];
		const struct vtype *t = check_value(c, a);

		e->list[k]->type = t;
		if (t->kind == V_TUPLE)
			need(c, a, i, "numbers, strings and objects", t);
	}
	return &v_void;
}

static const struct vtype *check_bswap(struct checker *c, struct expr *e, const struct call_info *i)
{
	const struct vtype *t = check_value(c, e->list[0]);

	if (t->kind != V_INT) {
		need(c, e->list[0], i, "an integer", t);
		return &v_error;
	}
	return t->size == 8 ? &v_u64 : t->size == 4 ? &v_u32 : t->size == 2 ? &v_u16 : &v_u8;
}

static const struct vtype *check_reg(struct checker *c, struct expr *e, const struct call_info *i)
{
	if (!check_literal(c, e->list[0], i))
		return &v_error;
	if (strcmp(e->list[0]->name, "pc") == 0)
		e->list[0]->name = "ip";
	if (reg_number_of_any(c->l->arch->regs, e->list[0]->name) < 0)
		check_error(c, e->list[0], "there is no register '%s' (%s)", e->list[0]->name, c->l->arch->regs->some);
	else if (!c->site || c->site->at == LANG_TRACER)
		check_error(c, e, "there are no registers in begin, end and interval");
	else
		e->value = reg_number_of_any(c->l->arch->regs, e->list[0]->name);
	return &v_raw;
}

/* A variable of the symbol table, as wide as that says; else a function. */
static bool find_symbol(const struct module *m, const char *name, uint64_t *ret_addr, const struct vtype **ret_type)
{
	static const struct vtype *const widths[] = { [1] = &v_u8, [2] = &v_u16, [4] = &v_u32, [8] = &v_u64 };
	uint64_t size;

	*ret_type = &v_u64;
	if (module_object(m, name, ret_addr, &size)) {
		if (size < ARRAY_SIZE(widths) && widths[size])
			*ret_type = widths[size];
		return true;
	}
	for (size_t i = 0; i < m->names.n; i++)
		if (strcmp(m->names.v[i].name, name) == 0) {
			*ret_addr = m->funcs.v[m->names.v[i].func].addr;
			return true;
		}
	return false;
}

static const struct vtype *check_uaddr(struct checker *c, struct expr *e, const struct call_info *i)
{
	const struct vtype *type = &v_u64;

	if (!check_literal(c, e->list[0], i))
		return &v_error;
	if (!c->site || c->site->at == LANG_TRACER)
		check_error(c, e, "symbols are looked up in the file of a probe, and there is none in begin, end and interval");
	else if (c->site->module && !find_symbol(c->site->module, e->list[0]->name, &e->value, &type))
		check_error(c, e->list[0], "no symbol '%s' in the file of this probe", e->list[0]->name);
	return v_pointer(c->l->pool, type);
}

static const struct vtype *check_time(struct checker *c, struct expr *e, const struct call_info *i)
{
	if (e->nlist)
		check_literal(c, e->list[0], i);
	return &v_void;
}

static const struct vtype *check_usym(struct checker *c, struct expr *e, const struct call_info *i)
{
	struct vtype *t = pool_new(c->l->pool, struct vtype);

	if (!is_address(check_value(c, e->list[0])))
		need(c, e->list[0], i, "an address", e->list[0]->type);
	*t = (struct vtype){ .kind = V_USYM, .size = 8, .show = IR_USYM };
	return t;
}

static const struct vtype *check_exit(struct checker *c, struct expr *e, const struct call_info *i)
{
	if (e->nlist && check_value(c, e->list[0])->kind != V_INT)
		need(c, e->list[0], i, "a status", e->list[0]->type);
	return &v_void;
}

/* The kernel's first pid namespace has a fixed number. */
static bool in_first_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == 0xeffffffcu;
}

/* pid(), pid(curr_ns): the same as pid, in our namespace. pid(target_ns): as the process itself has it. */
static const struct vtype *check_pid(struct checker *c, struct expr *e)
{
	const char *where = e->nlist && e->list[0]->kind == E_NAME ? e->list[0]->name : "";

	if (strcmp(where, "init") == 0 && in_first_namespace())
		where = "curr_ns";
	if (e->nlist && strcmp(where, "curr_ns") != 0 && strcmp(where, "target_ns") != 0) {
		check_error(c, e->list[0], "%s() is that of our own pid namespace, %s(curr_ns), or the program's, %s(target_ns); others are not "
			    "supported", e->name, e->name, e->name);
		return &v_error;
	}
	e->kind = E_NAME;
	if (strcmp(where, "target_ns") == 0)
		e->name = strcmp(e->name, "pid") == 0 ? NS_PID : NS_TID;
	return check_name(c, e);
}

static const struct vtype *unknown_call(struct checker *c, struct expr *e)
{
	const char *near = builtin_near(e->name, 1);
	uint32_t number;

	if (builtin_find(e->name, &number) && !e->nlist) {
		e->kind = E_NAME;
		return check_name(c, e);
	}
	if (builtin_find(e->name, &number))
		check_error(c, e, "%s takes no arguments: it is that of the thread that was hit", e->name);
	else if (builtin_missing(e->name))
		check_error(c, e, "'%s' is not supported%s", e->name, builtin_missing(e->name));
	else if (near)
		check_error(c, e, "unknown function '%s'; did you mean '%s'?", e->name, near);
	else
		check_error(c, e, "unknown function '%s'; functions of the program can't be called", e->name);
	return &v_error;
}

static const struct vtype *check_known(struct checker *c, struct expr *e, const struct call_info *i)
{
	switch ((enum call)i->call) {
	case C_SYSTEM:
		if (!c->l->script->unsafe)
			check_error(c, e, "system() starts programs as whoever traces; the option --unsafe allows it");
		/* fall through */
	case C_PRINTF: case C_CAT: case C_ERRORF: case C_WARNF:
		check_format(c, e, i);
		return &v_void;
	case C_PRINT:	return check_print(c, e, i);
	case C_CLEAR: case C_ZERO:
		e->ref = map_arg(c, e->list[0], i);
		return &v_void;
	case C_DELETE: case C_HAS_KEY: return check_key_call(c, e, i);
	case C_LEN:	return check_len(c, e, i);
	case C_STR: case C_BUF: return check_str(c, e, i);
	case C_STRLEN: case C_STRNCMP: case C_STRCONTAINS: case C_STRSTR: return check_texts(c, e, i);
	case C_USYM:	return check_usym(c, e, i);
	case C_REG:	return check_reg(c, e, i);
	case C_UADDR:	return check_uaddr(c, e, i);
	case C_EXIT:	return check_exit(c, e, i);
	case C_BSWAP:	return check_bswap(c, e, i);
	case C_STRFTIME: return check_strftime(c, e, i);
	case C_TIME:	return check_time(c, e, i);
	case C_RECORD:	return check_record(c, e, i);
	case C_EVERY: case C_LIMIT: case C_RATE: return check_number_call(c, e, i);
	case C_ENABLE: case C_DISABLE: return check_switch(c, e, i);
	case C_USTACK:	return check_ustack(c, e, i);
	case C_UPTR:	return check_value(c, e->list[0]);
	case C_NSECS:	return check_nsecs(c, e);
	case C_IS_ARRAY: case C_IS_INTEGER: case C_IS_UNSIGNED: case C_IS_PTR: case C_IS_STR: case C_IS_LITERAL: return check_kind_of(c, e);
	case C_STATIC_ASSERT: return check_static_assert(c, e, i);
	case C_GETOPT:	return check_getopt(c, e, i);
	case C_PID:	return check_pid(c, e);
	case C_JOIN: case C_NTOP: case C_PTON: case C_MACADDR: case C_STRERROR: return check_net(c, e);
	case C_COMM: case C_CGROUP_PATH: case C_CGROUPID: case C_SIGNAL_NAME: case C_SYSCALL_NAME: case C_STRCAP: case C_MEMCMP: case C_ASSERT_STR:
		return check_about_call(c, e, i);
	default:	return &v_agg;
	}
}

static bool right_count(struct checker *c, const struct expr *e, const struct call_info *i)
{
	if (e->nlist >= i->least && e->nlist <= i->most)
		return true;
	check_error(c, e, "%s() takes %s%d argument%s; usage: %s", i->name, i->least == i->most ? "" :
		    e->nlist < i->least ? "at least " : "at most ", e->nlist < i->least ? i->least : i->most,
		    (e->nlist < i->least ? i->least : i->most) == 1 ? "" : "s", i->usage);
	return false;
}

const struct vtype *check_call(struct checker *c, struct expr *e)
{
	const struct call_info *i = call_find(e->name);

	if (!i)
		return unknown_call(c, e);
	e->meaning = i->call;
	if (!right_count(c, e, i))
		return &v_error;
	return check_known(c, e, i);
}

/* ---- aggregations ---- */

static bool hist_numbers(struct checker *c, struct map_info *m, struct expr *e)
{
	int64_t v[4] = { 0 }, lo;
	uint32_t i, bits;

	for (i = 1; i < e->nlist; i++) {
		check_value(c, e->list[i]);
		if (!const_int(e->list[i], &v[i])) {
			check_error(c, e->list[i], "%s() takes constants behind its first argument", e->name);
			return false;
		}
	}
	if (e->meaning == C_HIST && (v[1] < 0 || v[1] > 5)) {
		check_error(c, e->list[1], "the bits of hist() go from 0 to 5");
		return false;
	}
	if (e->meaning == C_LHIST && (v[3] <= 0 || v[2] <= v[1] || ((uint64_t)v[2] - v[1]) / v[3] > 1000)) {
		check_error(c, e, "lhist() needs min < max, step > 0 and at most 1000 steps");
		return false;
	}
	bits = e->meaning == C_HIST ? v[1] : 0;
	lo = e->meaning == C_LHIST ? v[1] : 0;
	if (m->value && (m->bits != bits || m->lo != lo || m->hi != v[2] || m->step != v[3])) {
		check_error(c, e, "%s has other buckets elsewhere", m->name);
		return false;
	}
	m->bits = bits;
	m->lo = lo;
	m->hi = v[2];
	m->step = v[3];
	return true;
}

static bool quantile_numbers(struct checker *c, struct map_info *m, struct expr *e)
{
	double *q = pool_alloc(c->l->pool, e->nlist * sizeof(*q));
	uint32_t i;

	for (i = 1; i < e->nlist; i++) {
		check_value(c, e->list[i]);
		q[i - 1] = e->list[i]->kind == E_FLOAT ? e->list[i]->fvalue : e->list[i]->kind == E_INT ? (double)e->list[i]->value : -1;
		if (q[i - 1] < 0 || q[i - 1] > 1) {
			check_error(c, e->list[i], "a quantile is a constant from 0 to 1");
			return false;
		}
	}
	m->quantiles = q;
	m->nquantiles = e->nlist - 1;
	return true;
}

/* @x = count(): NULL if it is no aggregation. */
const struct vtype *check_aggregate(struct checker *c, struct expr *map, struct expr *call)
{
	const struct call_info *i = call_find(call->name);
	struct vtype *t;
	const struct vtype *a = &v_i64;
	struct map_info *m;
	uint8_t kind;

	if (!i || i->call < C_COUNT)
		return NULL;
	call->meaning = i->call;
	if (!right_count(c, call, i) || check_keys(c, map)->kind == V_ERROR)
		return &v_error;
	m = map->ref;
	kind = IR_MAP_COUNT + (i->call - C_COUNT);
	if (call->nlist)
		a = check_value(c, call->list[0]);
	if (!v_is_number(a) && a->kind != V_PTR) {
		need(c, call->list[0], i, "a number", a);
		return &v_error;
	}
	if (m->value && (m->value->kind != V_AGG || m->value->agg != kind)) {
		check_error(c, call, "%s holds %s, but this is %s()", m->name, v_name(c->l->pool, m->value), i->name);
		return &v_error;
	}
	if (((kind == IR_MAP_HIST || kind == IR_MAP_LHIST) && !hist_numbers(c, m, call)) ||
	    (kind == IR_MAP_QUANTILE && !quantile_numbers(c, m, call)))
		return &v_error;
	if (m->value)
		return m->value;
	t = pool_new(c->l->pool, struct vtype);
	*t = (struct vtype){ .kind = V_AGG, .agg = kind };
	m->value = t;
	m->num = kind == IR_MAP_COUNT ? IR_I64 : kind >= IR_MAP_HIST ? IR_I64 : a->kind == V_FLOAT ? IR_F64 :
		 a->kind == V_INT && a->size == 8 && !a->is_signed ? IR_U64 : IR_I64;
	c->l->changed = true;
	return t;
}
