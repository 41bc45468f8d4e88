/* SPDX-License-Identifier: MIT */
/* Formats: does each conversion fit what is printed with it? */
#include "lang/check.h"

#include <string.h>

#include "lang/format.h"

static bool fits(const struct conv *v, const struct vtype *t)
{
	bool number = t->kind == V_INT || t->kind == V_PTR;

	switch (v->kind) {
	case 's':
		return v_can_text(t) || (t->kind >= V_STACK && t->kind <= V_SHOWN) || t->kind == V_BUF || (t->kind == V_INT &&
			(t->show == IR_ENUM || t->is_bool));
	case 'r':
		return t->kind == V_BUF;
	case 'f': case 'e': case 'g': case 'a':
		return v_is_number(t);
	case 'p':
		return number || t->kind == V_USYM || (t->kind == V_ARRAY && !t->held);
	}
	if (t == &v_ppid || t == &v_cgroup)
		return true;
	return number || t->kind == V_USYM || t->kind == V_STACK || t->kind == V_SITE;
}

/* What would have been right, most likely. */
static const char *other_conversion(const struct conv *v, const struct vtype *t)
{
	if (v->kind == 's' && t->kind == V_PTR)
		return "; use str()";
	if (v->kind == 's' && t->kind == V_INT)
		return t->is_raw ? "; use %d, or str() for the text at an address" : "; use %d";
	if (t->kind == V_FLOAT)
		return "; use %f";
	if (v->kind == 'r')
		return "; use buf()";
	return fits(&(struct conv){ .kind = 's' }, t) ? "; use %s" : "; use print()";
}

static void check_conversion(struct checker *c, const struct conv *v, const char *s, size_t n, const struct expr *arg)
{
	const struct vtype *t = arg->type;

	if (t->kind != V_ERROR && !fits(v, t))
		check_error(c, arg, "%.*s doesn't print %s%s", (int)n, s, v_name(c->l->pool, t), other_conversion(v, t));
}

void check_format(struct checker *c, struct expr *e, const struct call_info *info)
{
	const struct expr *fmt = e->list[0];
	const char *s = fmt->name;
	uint32_t arg = 1, i;
	struct conv v;
	size_t n;

	for (i = 1; i < e->nlist; i++) {
		const struct vtype *t = check_value(c, e->list[i]);

		if (t->kind == V_TUPLE)
			check_error(c, e->list[i], "%s() takes no tuples; print() does", info->name);
	}
	if (!check_literal(c, fmt, info))
		return;
	for (; *s; s++) {
		if (*s != '%')
			continue;
		n = format_conv(s, &v);
		if (n && v.kind == 'g' && s[n] == 'r' && arg < e->nlist && e->list[arg]->type->kind == V_INT) {
			check_error(c, fmt, "%%gr shows flags of the kernel's memory, and probes here are in programs; use %%x");
			return;
		}
		if (!n) {
			check_error(c, fmt, "bad conversion '%.*s' in the format", (int)strcspn(s + 1, " \n\t%") + 1, s);
			return;
		}
		if (v.kind != '%') {
			if (arg >= e->nlist) {
				check_error(c, e, "the format has more conversions than there are arguments (%u)", e->nlist - 1);
				return;
			}
			check_conversion(c, &v, s, n, e->list[arg++]);
		}
		s += n - 1;
	}
	if (arg < e->nlist)
		check_error(c, e->list[arg], "the format has no conversion for this argument");
}
