/* SPDX-License-Identifier: MIT */
/*
 * Plain words. In a script the language's own come first, in a probe line the program's do: there
 * `pid` may well be a parameter.
 */
#include "lang/check.h"

#include <string.h>

#include "base/err.h"

#define STACK_BYTES 64
#define FRAMES 32

static const char *at_name(const struct checker *c)
{
	static const char *const words[] = {
		"in begin, end and interval", "at the entry of a function", "at a return", "at this place", "in a call",
	};

	return words[c->site ? c->site->at : 0];
}

static bool in_tracer(const struct checker *c)
{
	return !c->site || c->site->at == LANG_TRACER;
}

/* Numbers that every site has. */
static const struct vtype *check_number(struct checker *c, struct expr *e)
{
	if (e->meaning == B_DURATION && (!c->site || c->site->at != LANG_CALL)) {
		check_error(c, e, "duration is known in call: probes only");
		return &v_error;
	}
	return &v_u64;
}

static const struct vtype *site_name(struct checker *c, struct expr *e, uint8_t show)
{
	struct vtype *t = pool_new(c->l->pool, struct vtype);
	const char *name = e->meaning == B_FUNC ? (c->site ? c->site->func : NULL) : c->site ? c->site->probe : NULL;

	if (name)
		return v_text(c->l->pool, strlen(name));
	*t = (struct vtype){ .kind = V_SITE, .size = 8, .show = show };
	return t;
}

const char *check_probe_type(const struct checker *c)
{
	static const char *const words[] = { "special", "uprobe", "uretprobe", "uprobe", "call" };
	const char *probe = c->site && c->site->probe ? c->site->probe : "";

	if (in_tracer(c) && probe[0] == 'i')
		return "interval";
	if (!strncmp(probe, "usdt:", 5))
		return "usdt";
	return words[c->site ? c->site->at : 0];
}

static const struct vtype *stack_type(struct checker *c, struct expr *e)
{
	struct vtype *t = pool_new(c->l->pool, struct vtype);

	if (in_tracer(c)) {
		check_error(c, e, "ustack has no meaning %s", at_name(c));
		return &v_error;
	}
	*t = (struct vtype){ .kind = V_STACK, .size = 8, .show = IR_USTACK, .extra = c->l->config.stack_mode };
	return t;
}

static const struct vtype *check_var_type(const struct checker *c, const struct var *v)
{
	bool is_ref;

	return v_of_var(c->l->pool, c->site->types, v->type, &is_ref);
}

static void warn_unsure(struct checker *c, const struct expr *e, const struct var *v)
{
	if (v->flags & (VAR_UNSURE | VAR_DISPUTED) && !c->quiet)
		diag_warn(c->l->diags, e->at, e->len, "the compiler may have changed how this static function is called");
}

const struct var *check_result_var(const struct lang_site *site, const struct func_types *f)
{
	return site->at == LANG_CALL && f->result_at.loc.n ? &f->result_at : &f->retval;
}

static const struct vtype *check_retval(struct checker *c, struct expr *e)
{
	const struct func_types *f;
	struct var *v;

	if (!c->site || (c->site->at != LANG_RETURN && c->site->at != LANG_CALL)) {
		check_error(c, e, "retval is known at returns only (uretprobe, %%return, call), not %s", at_name(c));
		return &v_error;
	}
	e->ref = NULL;
	e->value = false;
	if (!c->site->types || types_func(c->site->types, c->site->entry, &f) < 0)
		return &v_raw;
	e->value = f->is_void;
	if (type_get(c->site->types, type_strip(c->site->types, f->ret))->kind == TYPE_VOID)
		return &v_raw;
	v = pool_new(c->l->pool, struct var);
	*v = *check_result_var(c->site, f);
	if (!loc_is_there(&v->loc)) {
		check_error(c, e, "retval can't be read: %s", v->loc.why ? v->loc.why : "its type is empty or not known");
		return &v_error;
	}
	e->ref = v;
	warn_unsure(c, e, v);
	return check_var_type(c, v);
}

/* arg0 and its like trust the calling convention. */
static void warn_arguments(struct checker *c, const struct expr *e)
{
	const struct func_types *f;
	uint32_t i;

	if (!c->site->types || types_func(c->site->types, c->site->entry, &f) < 0)
		return;
	for (i = 0; i < f->nparams; i++)
		warn_unsure(c, e, &f->params[i]);
}

static const struct vtype *check_arg(struct checker *c, struct expr *e, uint32_t number)
{
	e->value = number;
	e->ref = NULL;
	if (check_has_usdt(c))
		return check_usdt_arg(c, e, number);
	if (in_tracer(c) || c->site->at == LANG_RETURN) {
		check_error(c, e, "%s is not known %s%s", e->name, at_name(c),
			    in_tracer(c) ? "" : "; a call: probe keeps it from the entry");
		return &v_error;
	}
	if (number > 255) {
		check_error(c, e, "no function has that many arguments");
		return &v_error;
	}
	warn_arguments(c, e);
	return &v_raw;
}

static int find_var(struct checker *c, const char *name, struct var *ret_var)
{
	if (c->site->at == LANG_RETURN)
		return types_global(c->site->types, name, c->site->pc, ret_var);
	if (c->site->is_copy)
		return types_copy_var(c->site->types, c->site->pc, name, ret_var);
	return types_var(c->site->types, c->site->at == LANG_CALL ? c->site->entry : c->site->pc, name, ret_var);
}

/* A variable of the program, or an enumerator. */
static const struct vtype *program_name(struct checker *c, struct expr *e, bool *ret_found)
{
	struct var *v = pool_new(c->l->pool, struct var);
	const struct vtype *t;
	int64_t value;
	type_id id;

	*ret_found = false;
	if (in_tracer(c) || !c->site->types)
		return &v_error;
	if (find_var(c, e->name, v) == 0) {
		*ret_found = true;
		e->meaning = B_VAR;
		e->ref = v;
		if (!v->loc.n || (v->loc.n == 1 && v->loc.pieces[0].kind == LOC_GONE)) {
			check_error(c, e, "'%s' can't be read %s: %s", e->name, at_name(c),
				    v->loc.why ? v->loc.why : "it is nowhere");
			return &v_error;
		}
		warn_unsure(c, e, v);
		return check_var_type(c, v);
	}
	c->why = pool_text(c->l->pool, err_text(), strlen(err_text()));	/* it names near ones */
	if (type_enumerator(c->site->types, e->name, c->site->pc, &id, &value) == 0) {
		*ret_found = true;
		e->meaning = B_ENUMERATOR;
		e->value = value;
		t = v_from(c->l->pool, c->site->types, id);
		return value == (int32_t)value && t->kind == V_INT ? v_to_int(c->l->pool, t) : t;
	}
	return &v_error;
}

/* An enumerator of the script; NULL: none. */
static const struct vtype *script_constant(struct checker *c, struct expr *e)
{
	size_t i;
	uint32_t k;

	for (i = 0; i < c->l->enums.n; i++) {
		const struct enum_decl *d = c->l->enums.v[i]->enums;

		for (k = 0; k < d->nitems; k++)
			if (strcmp(d->items[k].name, e->name) == 0) {
				e->meaning = B_CONSTANT;
				e->value = d->items[k].value;
				return c->l->enums.v[i];
			}
	}
	return NULL;
}

/* A parameter is not looked for at a return: only its value at the entry means something. */
static bool is_parameter(const struct checker *c, const char *name)
{
	const struct func_types *f;

	if (!c->site || !c->site->types || types_func(c->site->types, c->site->entry, &f) < 0)
		return false;
	for (uint32_t i = 0; i < f->nparams; i++)
		if (f->params[i].name && !strcmp(f->params[i].name, name))
			return true;
	return false;
}

static const struct vtype *unknown(struct checker *c, struct expr *e)
{
	const char *near = builtin_near(e->name, 0);

	if (!in_tracer(c) && c->site->at == LANG_RETURN && is_parameter(c, e->name))
		check_error(c, e, "'%s' is not known %s; a call: probe keeps it from the entry", e->name, at_name(c));
	else if (builtin_missing(e->name))
		check_error(c, e, "'%s' is not supported%s", e->name, builtin_missing(e->name));
	else if (call_find(e->name))
		check_error(c, e, "'%s' is a function: %s", e->name, call_find(e->name)->usage);
	else if (near)
		check_error(c, e, "unknown name '%s'; did you mean '%s'?", e->name, near);
	else if (in_tracer(c))
		check_error(c, e, "unknown name '%s'", e->name);
	else if (!c->site->types)
		check_error(c, e, "unknown name '%s': the program has no debug info that would define it", e->name);
	else
		check_error(c, e, "unknown name '%s': %s", e->name, c->why);
	return &v_error;
}

static const struct vtype *language_name(struct checker *c, struct expr *e, uint32_t number)
{
	switch ((enum builtin)e->meaning) {
	case B_COMM:	return v_text(c->l->pool, 16);
	case B_FUNC:	return site_name(c, e, IR_FUNC);
	case B_PROBE:	return site_name(c, e, IR_PROBE);
	case B_PROBETYPE: return v_text(c->l->pool, strlen(check_probe_type(c)));
	case B_USERMODE: return &v_i64;
	case B_HAS_CPID: return &v_bool;
	case B_USERNAME: return &v_user;
	case B_PPID:	return &v_ppid;
	case B_PCOMM:	return &v_pcomm;
	case B_LEADER_COMM: return &v_comm_of;
	case B_CGROUP:	return &v_cgroup;
	case B_STR_LENGTH: return &v_u64;
	case B_NUMAID:	return check_numaid(c, e);
	case B_USTACK:	return stack_type(c, e);
	case B_STACK:
		e->value = e->value ? e->value : STACK_BYTES;
		return v_bytes(c->l->pool, e->value);
	case B_RETVAL:	return check_retval(c, e);
	case B_LEFT:	return v_text(c->l->pool, LEFT_LEN);
	case B_ARGS:	return &v_args;
	case B_ARG: case B_SARG: return check_arg(c, e, number);
	case B_ERRNO:
		if (!in_tracer(c))
			return &v_i32;
		check_error(c, e, "errno has no meaning %s", at_name(c));
		return &v_error;
	case B_PARAMS: case B_REGS:
		check_error(c, e, "%s stands for many fields and can't be part of another", e->name);
		return &v_error;
	default:	return check_number(c, e);
	}
}

/* A word of the language in calls only: too many programs have a variable of that name. */
static bool is_call_word(const struct checker *c, enum builtin b)
{
	return b != B_LEFT || (c->site && c->site->at == LANG_CALL);
}

/*
 * Fields say what they mean in C: a variable of the program comes before a word of the language. But what a probe at
 * returns is there for must not change its meaning because some other file of the program has a variable of that name.
 */
static bool is_hidden(const struct checker *c, const struct expr *e, enum builtin b)
{
	bool call = c->site && c->site->at == LANG_CALL;

	if (b == B_ARG || (b == B_RETVAL && (call || (c->site && c->site->at == LANG_RETURN))) || (b == B_DURATION && call))
		return false;
	if ((b == B_ARG || b == B_SARG) && check_has_usdt(c))
		return false;
	return c->c_rules && e->name[0] != '$';
}

bool check_is_register(const struct lang *l, const char *name)
{
	uint32_t number;

	name += name[0] == '$';
	return reg_number(l->arch->regs, name) >= 0 || (builtin_numbered(name, l->arch->regs->vector, &number) && number < l->arch->regs->nvectors);
}

/* $ in front: of a context. */
static bool is_register(const struct checker *c, struct expr *e)
{
	const struct arch_regs *regs = c->l->arch->regs;
	const char *name = e->name + (e->name[0] == '$');
	int n = reg_number(regs, name);
	uint32_t number;

	if (n >= 0) {
		e->meaning = B_REG;
		e->value = n;
	} else if (builtin_numbered(name, regs->vector, &number) && number < regs->nvectors) {
		e->meaning = B_VECTOR;
		e->value = number << 4 | 8;
	}
	return e->meaning == B_REG || e->meaning == B_VECTOR;
}

const struct vtype *check_name(struct checker *c, struct expr *e)
{
	uint32_t number = 0;
	enum builtin b = builtin_find(e->name, &number);
	const struct vtype *t;
	bool found = false;
	int64_t value;

	t = script_constant(c, e);
	if (t)
		return t;
	if (c->c_rules && check_has_field(c, e->name))
		return check_usdt_field(c, e);
	if (!is_call_word(c, b))
		b = B_NONE;
	if (c->c_rules && check_is_register(c->l, e->name) && is_register(c, e))
		return e->meaning == B_REG ? &v_raw : &v_f64;
	if (!b || is_hidden(c, e, b)) {
		t = program_name(c, e, &found);
		if (found)
			return t;
	}
	e->meaning = b;
	if (b)
		return language_name(c, e, number);
	if (c->c_rules && strcmp(e->name, "backtrace") == 0) {
		e->meaning = B_USTACK;
		e->value = FRAMES;
		return stack_type(c, e);
	}
	if (check_usdt_enumerator(c, e))
		return &v_i64;
	if (!header_constant(e->name, &value))
		return unknown(c, e);
	e->meaning = B_CONSTANT;
	e->value = value;
	return &v_i64;
}

bool check_is_args(struct checker *c, const struct expr *e)
{
	if (e->kind != E_NAME || strcmp(e->name, "args") != 0)
		return false;
	return !c->c_rules || in_tracer(c) || !c->site->types || find_var(c, e->name, &(struct var){ 0 }) < 0;
}

const struct func_types *check_args(struct checker *c, const struct expr *e)
{
	const struct func_types *f;

	if (in_tracer(c) || c->site->at == LANG_RETURN) {
		check_error(c, e, "args is not known %s%s", at_name(c), in_tracer(c) ? "" : "; a call: probe keeps it from the entry");
		return NULL;
	}
	if (!c->site->types || types_func(c->site->types, c->site->entry, &f) < 0) {
		check_error(c, e, "args needs the program's debug info%s%s", c->site->types ? ": " : "; use arg0, arg1, ...",
			    c->site->types ? err_text() : "");
		return NULL;
	}
	return f;
}

const struct vtype *check_package_var(struct checker *c, struct expr *e)
{
	struct var *v = pool_new(c->l->pool, struct var);

	if (e->a->kind != E_NAME || in_tracer(c) || !c->site->types || builtin_find(e->a->name, &(uint32_t){ 0 }) ||
	    types_var(c->site->types, c->site->pc, e->a->name, v) == 0 ||
	    types_global(c->site->types, pool_printf(c->l->pool, "%s.%s", e->a->name, e->name), c->site->pc, v) < 0 || !v->loc.n)
		return NULL;
	e->meaning = B_VAR;
	e->ref = v;
	return check_var_type(c, v);
}

const struct vtype *check_args_member(struct checker *c, struct expr *e)
{
	const struct func_types *f;
	struct var *v;
	uint32_t i;

	if (check_has_usdt(c))
		return check_usdt_member(c, e);
	f = check_args(c, e);
	if (!f)
		return &v_error;
	for (i = 0; i < f->nparams; i++)
		if (f->params[i].name && strcmp(f->params[i].name, e->name) == 0)
			break;
	if (i == f->nparams) {
		check_error(c, e, "%s() has no parameter '%s'", f->name, e->name);
		return &v_error;
	}
	v = pool_new(c->l->pool, struct var);
	*v = f->params[i];
	e->meaning = B_VAR;
	e->ref = v;
	if (!loc_is_there(&v->loc)) {
		check_error(c, e, "'%s' can't be read here: %s", e->name, v->loc.why ? v->loc.why : "it is nowhere");
		return &v_error;
	}
	warn_unsure(c, e, v);
	return check_var_type(c, v);
}
