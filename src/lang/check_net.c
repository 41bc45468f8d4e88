/* SPDX-License-Identifier: MIT */
/* Addresses of networks, and other numbers that are shown as text; join(). */
#include "lang/check.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

static const struct vtype *wrong(struct checker *c, const struct expr *e, const char *call, const char *what)
{
	if (e->type->kind != V_ERROR)
		check_error(c, e, "%s() takes %s, but this is %s", call, what, v_name(c->l->pool, e->type));
	return &v_error;
}

static bool has_bytes(const struct vtype *t, uint64_t n)
{
	return (t->kind == V_ARRAY || t->kind == V_STRUCT) && t->size == n;
}

/* ntop(address), ntop(family, address): e->value is the family, 0 if it was not said. */
static const struct vtype *check_ntop(struct checker *c, struct expr *e)
{
	struct expr *a = e->list[e->nlist - 1];
	const struct vtype *t = check_value(c, a);
	int64_t family = 0;

	if (e->nlist == 2) {
		check_value(c, e->list[0]);
		if (!const_int(e->list[0], &family) || (family != AF_INET && family != AF_INET6)) {
			check_error(c, e->list[0], "the family is AF_INET (2) or AF_INET6 (10)");
			return &v_error;
		}
	}
	e->value = family;
	if (family != AF_INET6 && (t->kind == V_INT || has_bytes(t, 4) || (family == AF_INET && has_bytes(t, 16))))
		return &v_inet4;
	if (family != AF_INET && has_bytes(t, 16))
		return &v_inet6;
	if (family && t->kind == V_PTR)
		return family == AF_INET ? &v_inet4 : &v_inet6;
	return wrong(c, a, e->name, family == AF_INET6 ? "16 bytes, or a pointer to them" :
		     "an integer, 4 or 16 bytes, or a family and a pointer to them");
}

/* The bytes are in e->name, their number in e->text_len. */
static const struct vtype *check_pton(struct checker *c, struct expr *e)
{
	const char *text = e->list[0]->name;
	char *bytes = pool_alloc(c->l->pool, 16);
	bool six;

	if (e->list[0]->kind != E_STR) {
		check_error(c, e->list[0], "pton() takes a string literal");
		return &v_error;
	}
	six = strchr(text, ':');
	if (inet_pton(six ? AF_INET6 : AF_INET, text, bytes) != 1) {
		check_error(c, e->list[0], "'%s' is no address (192.0.2.1 or 2001:db8::1)", text);
		return &v_error;
	}
	e->list[0]->type = v_text(c->l->pool, e->list[0]->text_len);
	e->ref = bytes;
	e->text_len = six ? 16 : 4;
	return six ? v_array(c->l->pool, &v_u8, 16) : v_held_array(c->l->pool, &v_u8, 4);
}

static const struct vtype *check_join(struct checker *c, struct expr *e)
{
	const struct vtype *t = check_value(c, e->list[0]);

	if (t->kind != V_PTR && t->kind != V_INT && (t->kind != V_ARRAY || t->held))
		wrong(c, e->list[0], e->name, "a pointer to pointers to text");
	if (e->nlist == 2 && e->list[1]->kind != E_STR)
		check_error(c, e->list[1], "join() takes a string literal between the parts");
	return &v_void;
}

const struct vtype *check_net(struct checker *c, struct expr *e)
{
	const struct vtype *t;

	switch ((enum call)e->meaning) {
	case C_NTOP:	return check_ntop(c, e);
	case C_PTON:	return check_pton(c, e);
	case C_JOIN:	return check_join(c, e);
	case C_MACADDR:
		t = check_value(c, e->list[0]);
		return has_bytes(t, 6) || t->kind == V_PTR ? &v_mac : wrong(c, e->list[0], e->name, "6 bytes, or a pointer to them");
	default:
		t = check_value(c, e->list[0]);
		return t->kind == V_INT ? &v_errno : wrong(c, e->list[0], e->name, "the number of an error");
	}
}
