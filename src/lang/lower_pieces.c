/* SPDX-License-Identifier: MIT */
/*
 * Objects that are not in memory: small structs in registers, and what the compiler has taken apart. They
 * are never put together; a member is read where its piece is.
 */
#include "lang/lower.h"

#include <string.h>

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

	if (at + part->type->size > 8)
		return cannot(w, "it is wider than a register");
	if (at)
		v = val_reg(&v_u64, lower_pure(w, IR_SHR, IR_U64, val_in_reg(w, &v), val_in_reg(w, &shift), 0), v.mask);
	v.mask |= part->mask;
	return lower_bits(w, v, part->type);
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

/* How much of it is in the piece that has its byte `off`, as a number that can be read. */
static const struct vtype *part_at(const struct loc *l, uint64_t off, uint64_t most)
{
	static const struct vtype *const parts[] = { &v_u64, &v_u32, &v_u16, &v_u8 };
	uint64_t at;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i]->size <= most && piece_with(l, off, parts[i]->size, &at))
			return parts[i];
	return NULL;
}

/* A number that was taken apart: its parts one beside the other. */
static struct val joined(struct lower *w, const struct val *v)
{
	struct val all = val_const(&v_u64, 0), part = *v, shift, n;
	const uint64_t size = v->type->size;
	uint64_t at;

	for (at = 0; at < size && size <= 8; at += part.type->size) {
		part.off = v->off + at;
		part.type = part_at(v->loc, part.off, size - at);
		if (!part.type)
			break;
		n = pieces_load(w, &part);
		shift = val_const(&v_u64, 8 * at);
		n = val_reg(&v_u64, lower_pure(w, IR_SHL, IR_U64, val_in_reg(w, &n), val_in_reg(w, &shift), 0), n.mask);
		all = val_reg(&v_u64, lower_pure(w, IR_OR, IR_U64, val_in_reg(w, &all), n.reg, 0), all.mask | n.mask);
	}
	return at == size && size ? lower_bits(w, all, v->type) : cannot(w, "it is in several pieces");
}

struct val pieces_load(struct lower *w, const struct val *v)
{
	const struct loc *l = v->loc;
	const struct loc_piece *p;
	struct val base;
	uint64_t at = 0;

	p = piece_with(l, v->off, v->type->size, &at);
	if (!p)
		return joined(w, v);
	switch ((enum loc_kind)p->kind) {
	case LOC_REG:
		base = lower_site_reg(w, p->reg);
		return cut(w, base, at, v);
	case LOC_VECTOR:
		if (v->type->kind == V_FLOAT && !at)
			return val_reg(v->type, lower_pure(w, IR_VECTOR, v_ir(v->type), IR_NONE, IR_NONE, p->reg), v->mask);
		return cut(w, lower_vector_bits(w, p->reg), at, v);
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
	case LOC_BYTES:
		base = val_const(&v_u64, 0);
		memcpy(&base.k, p->bytes + at, MIN(p->size - at, 8u));
		return cut(w, base, 0, v);
	case LOC_TLS: case LOC_ST:
		break;
	}
	return cannot(w, "it is in a place that is not supported yet");
}
