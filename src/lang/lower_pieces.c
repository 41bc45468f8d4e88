/* SPDX-License-Identifier: MIT */
/*
 * Objects that are not in memory: small structs in registers, and what the compiler has taken apart. They
 * are never put together; a member is read where its piece is.
 */
#include "lang/lower.h"

static const struct loc_piece *piece_with(const struct loc *l, uint64_t off, uint64_t size, uint64_t *ret_at)
{
	uint64_t begin = 0;
	uint32_t i;

	for (i = 0; i < l->n; begin += l->pieces[i++].size)
		if (off >= begin && off + size <= begin + l->pieces[i].size) {
			*ret_at = off - begin;
			return &l->pieces[i];
		}
	return NULL;
}

static struct val cannot(struct lower *w, const char *why)
{
	lower_error(w, w->at, "this part of it can't be read here: %s", why);
	return val_const(&v_i64, 0);
}

/* Some bytes of a number: those from `at` on, of the width that the type has. */
static struct val cut(struct lower *w, struct val v, uint64_t at, const struct val *part)
{
	struct val shift = val_const(&v_u64, 8 * at);

	if (part->type->kind == V_FLOAT)
		return cannot(w, "it is a float in an integer register, which is not supported yet");
	v.type = &v_u64;
	if (at)
		v = val_reg(&v_u64, lower_pure(w, IR_SHR, IR_U64, val_in_reg(w, &v), val_in_reg(w, &shift), 0), v.mask);
	v = val_reg(&v_u64, val_in_reg(w, &v), v.mask | part->mask);
	if (part->type->kind == V_INT && part->type->size < 8)
		v.reg = lower_pure(w, IR_CAST, v_ir(part->type), v.reg, IR_NONE, 0);
	v.type = part->type;
	return v;
}

static struct val from_memory(struct lower *w, const struct val *base, int64_t off, const struct val *part)
{
	struct val m = { .kind = K_MEM, .type = part->type, .reg = IR_NONE, .slot = IR_NONE, .off = off,
			 .mask = base->mask | part->mask };

	if (base->kind == K_CONST)
		m.off += base->k.i;
	else
		m.reg = val_in_reg(w, base);
	return val_load(w, &m);
}

struct val pieces_load(struct lower *w, const struct val *v)
{
	const struct loc *l = v->loc;
	const struct loc_piece *p;
	struct val base;
	uint64_t at = 0;

	p = piece_with(l, v->off, v->type->size, &at);
	if (!p)
		return cannot(w, "it is in several pieces");
	switch ((enum loc_kind)p->kind) {
	case LOC_REG:
		base = lower_site_reg(w, p->reg);
		return cut(w, base, at, v);
	case LOC_XMM:
		if (v->type->kind != V_FLOAT || at)
			break;
		return val_reg(v->type, lower_pure(w, IR_XMM, v_ir(v->type), IR_NONE, IR_NONE, p->reg), v->mask);
	case LOC_MEM:
		base = lower_site_reg(w, p->reg);
		return from_memory(w, &base, p->off + at, v);
	case LOC_GLOBAL:
		base = val_const(&v_u64, lower_live(w, p->off));
		return from_memory(w, &base, at, v);
	case LOC_MEM_AT:
		base = lower_nodes(w, l, p->node, w->at);
		return from_memory(w, &base, at, v);
	case LOC_VALUE:
		return cut(w, lower_nodes(w, l, p->node, w->at), at, v);
	case LOC_CONST:
		return cut(w, val_const(&v_u64, p->off), at, v);
	case LOC_GONE:
		return cannot(w, l->why ? l->why : "it is optimised away");
	case LOC_TLS: case LOC_ST: case LOC_BYTES:
		break;
	}
	return cannot(w, "it is in a place that is not supported yet");
}
