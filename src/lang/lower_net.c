/* SPDX-License-Identifier: MIT */
/* Addresses of networks, and other numbers that are shown as text; join(). */
#include "lang/lower.h"

#include <string.h>

#define JOIN_MOST 16		/* parts, as bpftrace has it */
#define JOIN_LENGTH 1024u

/* What a pointer points to, as an object of so many bytes; others as they are. */
static struct val behind_pointer(struct lower *w, const struct val *v, uint64_t bytes)
{
	struct val m;

	if (v->type->kind != V_PTR)
		return *v;
	m = val_object(w, v);
	m.type = v_array(w->pool, &v_u8, bytes);
	return m;
}

/* Six bytes become one number, the first byte lowest. */
static struct val lower_mac(struct lower *w, const struct expr *e)
{
	struct val v = lower_expr(w, e->list[0]), high, low, up = val_const(&v_u64, 1ll << 32);

	v = behind_pointer(w, &v, 6);
	low = val_number(w, &v, 4);
	v = val_object(w, &v);
	v.off += 4;
	v.type = &v_u16;
	high = val_load(w, &v);
	high = lower_math(w, '*', &v_u64, &high, &up);
	v = lower_math(w, '|', &v_u64, &low, &high);
	v.type = e->type;
	return v;
}

static struct val lower_ntop(struct lower *w, const struct expr *e)
{
	struct val v = lower_expr(w, e->list[e->nlist - 1]);

	v = behind_pointer(w, &v, e->type == &v_inet6 ? 16 : 4);
	v = e->type == &v_inet6 ? val_bytes(w, &v) : val_number(w, &v, 4);
	v.type = e->type;
	return v;
}

static struct val lower_pton(struct lower *w, const struct expr *e)
{
	struct val v = val_const(e->type, 0);

	if (e->text_len == 16)
		return (struct val){ .kind = K_SLOT, .type = e->type, .slot = lower_slot(w, 16, e->ref), .reg = IR_NONE };
	memcpy(&v.k.u, e->ref, 4);
	return v;
}

struct val lower_net(struct lower *w, const struct expr *e)
{
	struct val v;

	if (e->meaning == C_NTOP)
		return lower_ntop(w, e);
	if (e->meaning == C_PTON)
		return lower_pton(w, e);
	if (e->meaning == C_MACADDR)
		return lower_mac(w, e);
	v = lower_expr(w, e->list[0]);
	v = val_convert(w, &v, &v_i64);
	v.type = e->type;
	return v;
}

/*
 * The event has the number of parts, then all of them; what is behind the last one means nothing.
 * Reading stops at a null pointer and at what can't be read, so two fault bits do for all: one for
 * the pointers, one for the texts.
 */
struct val lower_join(struct lower *w, const struct expr *e)
{
	struct ir_record *r = lower_record(w, IR_RECORD_JOIN, e);
	struct val list = lower_expr(w, e->list[0]), n = place_new(w, &v_u64, false), part, text[JOIN_MOST], k;
	uint32_t end = lower_label(w), i, most = MIN(w->l->config.max_strlen, JOIN_LENGTH);
	const char *between = e->nlist == 2 ? e->list[1]->name : " ";
	uint32_t bit = w->next_bit;
	size_t mark = w->known.n;
	arg_list args = { 0 };

	r->text = xstrdup(between);
	r->text_len = strlen(between);
	list = list.kind == K_MEM ? val_address(w, &list) : val_convert(w, &list, &v_u64);
	list = val_object(w, &list);
	list.type = &v_u64;
	place_zero(w, &n);
	for (i = 0; i < JOIN_MOST; i++, list.off += 8) {
		w->next_bit = bit;
		part = val_load(w, &list);
		lower_if_fault(w, part.mask, end);
		lower_jump(w, IR_JZ, val_in_reg(w, &part), end);
		text[i] = val_read_text(w, &part, NULL, most);
		lower_if_fault(w, text[i].mask, end);
		text[i].mask = 0;
		k = val_const(&v_u64, i + 1);
		place_set(w, &n, &k, e);
	}
	lower_forget(w, mark);
	lower_place_label(w, end);
	lower_field(w, r, &args, "n", &n);
	for (i = 0; i < JOIN_MOST; i++)
		lower_field(w, r, &args, NULL, &text[i]);
	lower_emit(w, r, &args);
	return (struct val){ .kind = K_VOID, .type = &v_void };
}
