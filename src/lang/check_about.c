/* SPDX-License-Identifier: MIT */
/* Questions about the script itself (types, settings), about processes and control groups, and about the room of texts. */
#include "lang/check.h"

#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static void become_text(struct checker *c, struct expr *e, const char *text)
{
	e->kind = E_STR;
	e->name = pool_text(c->l->pool, text, strlen(text));
	e->text_len = strlen(text);
	e->value = e->text_len;
}

static void become_number(struct expr *e, uint8_t kind, uint64_t value)
{
	e->kind = kind;
	e->value = value;
	e->form = 0;
}

/* ---- typeinfo(x), config ---- */

static const char *base_name(const struct vtype *t)
{
	switch (t->kind) {
	case V_INT:	return t->is_bool ? "bool" : "int";
	case V_PTR:	return "pointer";
	case V_STR:	return "string";
	case V_BUF:	return "buffer";
	case V_ARRAY:	return "array";
	case V_STRUCT:	return "record";
	case V_TUPLE:	return t->fields ? "record" : "tuple";
	case V_STACK:	return "ustack";
	case V_VOID:	return "void";
	}
	return "none";
}

static bool about_type(struct checker *c, struct expr *e)
{
	struct expr *call = e->a;
	const struct vtype *t;

	if (call->kind != E_CALL || strcmp(call->name, "typeinfo") != 0 || call->nlist != 1)
		return false;
	t = check_place(c, call->list[0]);
	if (strcmp(e->name, "base_type") == 0)
		become_text(c, e, base_name(t));
	else if (strcmp(e->name, "full_type") == 0)
		become_text(c, e, v_name(c->l->pool, t));
	else
		return false;
	return true;
}

/* Settings that a script may ask for: those that change something here. */
static bool about_config(struct checker *c, struct expr *e)
{
	static const char *const modes[] = { "bpftrace", "perf", "raw" };
	const struct lang_config *k = &c->l->config;

	if ((e->a->kind != E_NAME && e->a->kind != E_CALL) || strcmp(e->a->name, "config") != 0 || e->a->nlist)
		return false;
	if (strcmp(e->name, "max_strlen") == 0)
		become_number(e, E_INT, k->max_strlen);
	else if (strcmp(e->name, "max_map_keys") == 0)
		become_number(e, E_INT, k->max_map_keys ? k->max_map_keys : 4096);
	else if (strcmp(e->name, "max_cat_bytes") == 0)
		become_number(e, E_INT, k->max_cat_bytes);
	else if (strcmp(e->name, "print_maps_on_exit") == 0)
		become_number(e, E_BOOL, k->print_maps_on_exit);
	else if (strcmp(e->name, "cpp_demangle") == 0)
		become_number(e, E_BOOL, true);
	else if (strcmp(e->name, "stack_mode") == 0)
		become_text(c, e, modes[k->stack_mode]);
	else if (strcmp(e->name, "str_trunc_trailer") == 0)
		become_text(c, e, k->str_trunc_trailer);
	else
		return false;
	return true;
}

bool check_about(struct checker *c, struct expr *e)
{
	return about_type(c, e) || about_config(c, e);
}

/* ---- the machine ---- */

const struct vtype *check_numaid(struct checker *c, struct expr *e)
{
	struct stat st;

	if (stat("/sys/devices/system/node/node1", &st) == 0)
		check_error(c, e, "numaid is supported on machines with one node only; cpu is the number of the CPU");
	return &v_u64;
}

static const struct vtype *check_cgroupid(struct checker *c, struct expr *e, const struct call_info *i)
{
	struct stat st;

	if (!check_literal(c, e->list[0], i))
		return &v_error;
	if (stat(e->list[0]->name, &st) == 0)
		e->value = st.st_ino;
	else
		check_error(c, e->list[0], "there is no control group %s", e->list[0]->name);
	return &v_u64;
}

static const struct vtype *number_of(struct checker *c, struct expr *e, const char *what, const struct vtype *as)
{
	const struct vtype *t = check_value(c, e->list[0]);

	if (t->kind == V_INT || t->kind == V_ERROR)
		return as;
	check_error(c, e->list[0], "%s() takes %s, but this is %s", e->name, what, v_name(c->l->pool, t));
	return &v_error;
}

static const struct vtype *check_cgroup_path(struct checker *c, struct expr *e)
{
	if (e->nlist == 2)
		check_value(c, e->list[1]);
	return check_value(c, e->list[0]) == &v_cgroup ? &v_cgroup_path : number_of(c, e, "the number of a control group", &v_cgroup_id);
}

/* ---- texts ---- */

static const struct vtype *check_strcap(struct checker *c, struct expr *e)
{
	const struct vtype *t = check_value(c, e->list[0]);

	if (t->kind == V_STR || t->kind == V_BUF)
		e->value = e->list[0]->kind == E_STR ? e->list[0]->text_len + 1 : t->size;
	else if (t->kind == V_ARRAY && t->to->kind == V_INT && t->to->size == 1)
		e->value = t->n;
	else if (t->kind != V_ERROR)
		check_error(c, e->list[0], "strcap() takes a string or an array of characters, but this is %s", v_name(c->l->pool, t));
	return &v_i64;
}

static const struct vtype *check_assert_str(struct checker *c, struct expr *e)
{
	const struct vtype *t = check_value(c, e->list[0]), *of = t->kind == V_ARRAY ? t->to : t->kind == V_PTR ? v_pointee(c->l->pool, t) : NULL;

	if (!v_has_text(t) && t->kind != V_ERROR && !(of && of->kind == V_INT && of->size == 1))
		check_error(c, e->list[0], "this is %s, and no string, array of characters or pointer to them", v_name(c->l->pool, t));
	return &v_void;
}

static const struct vtype *check_memcmp(struct checker *c, struct expr *e)
{
	int64_t n;

	for (int i = 0; i < 2; i++) {
		const struct vtype *t = check_value(c, e->list[i]);

		if (t->kind != V_PTR && t->kind != V_ARRAY && t->kind != V_STR && t->kind != V_BUF && t->kind != V_ERROR)
			check_error(c, e->list[i], "memcmp() takes pointers, arrays, strings and buffers, but this is %s", v_name(c->l->pool, t));
	}
	check_value(c, e->list[2]);
	if (!const_int(e->list[2], &n) || n < 0 || n > 4096)
		check_error(c, e->list[2], "memcmp() takes a constant length, at most 4096");
	else
		e->value = n;
	return &v_i64;
}

const struct vtype *check_about_call(struct checker *c, struct expr *e, const struct call_info *i)
{
	switch ((enum call)i->call) {
	case C_COMM:
		if (e->nlist)
			return number_of(c, e, "the number of a process", &v_comm_of);
		e->kind = E_NAME;
		return check_name(c, e);
	case C_CGROUPID: return check_cgroupid(c, e, i);
	case C_CGROUP_PATH: return check_cgroup_path(c, e);
	case C_SIGNAL_NAME: return number_of(c, e, "the number of a signal", &v_signal);
	case C_SYSCALL_NAME: return number_of(c, e, "the number of a system call", &v_syscall);
	case C_STRCAP:	return check_strcap(c, e);
	case C_MEMCMP:	return check_memcmp(c, e);
	default:	return check_assert_str(c, e);
	}
}
