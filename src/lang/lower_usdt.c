/* SPDX-License-Identifier: MIT */
/* The arguments of static tracepoints are read like variables of the program, where their note says. */
#include "lang/lower.h"

#define WORDS_MOST 4

struct val lower_usdt_arg(struct lower *w, const struct expr *e)
{
	const struct usdt_arg *a = e->ref;

	return lower_located(w, &a->loc, v_of_usdt(a), e);
}

/* The argument of a field, as a number. */
static struct val argument(struct lower *w, uint32_t number, const struct vtype *type, const struct expr *e)
{
	return lower_located(w, &w->c->site->usdt->arg[number].loc, type, e);
}

static struct val length_of(struct lower *w, uint32_t number, const struct expr *e)
{
	const struct usdt *u = w->c->site->usdt;
	struct val n = argument(w, number + 1, v_of_usdt(&u->arg[number + 1]), e);

	return val_convert(w, &n, &v_i64);
}

/* What is where the argument points to. */
static struct val pointed_to(struct lower *w, uint32_t number, const struct vtype *type, const struct expr *e)
{
	struct val a = argument(w, number, &v_u64, e);

	return (struct val){ .kind = K_MEM, .type = type, .reg = val_in_reg(w, &a), .slot = IR_NONE, .mask = a.mask };
}

struct val lower_usdt_field(struct lower *w, const struct expr *e)
{
	const struct usdt_field *f = e->ref;
	uint32_t number = f - w->c->site->usdt->field;
	const struct vtype *t = v_of_whole_field(w->l, f, w->c->c_rules);
	struct val v, n;

	if (t->kind == V_STR) {
		v = argument(w, number, &v_u64, e);
		n = f->shape == USDT_COUNTED ? length_of(w, number, e) : val_const(&v_i64, 0);
		return val_read_text(w, &v, f->shape == USDT_COUNTED ? &n : NULL, w->l->config.max_strlen);
	}
	if (v_is_scalar(t))
		return argument(w, number, t, e);
	v = pointed_to(w, number, t, e);
	if (t->counted) {
		v.elems = pool_new(w->pool, struct val);
		*v.elems = length_of(w, number, e);
		v.elems->reg = val_in_reg(w, v.elems);
		v.elems->kind = K_REG;
	}
	return v;
}

/*
 * A short text of fixed length is as good as a few numbers: they are loaded without the kernel's help where that is safe. It pays if
 * nothing else in the event has to be read by asking. NULL: there is none.
 */
static const struct usdt_field *text_of_words(const struct lower *w)
{
	const struct usdt *u = w->c->site->usdt;
	const struct usdt_field *found = NULL;

	for (uint32_t i = 0; i < u->nfields; i++) {
		const struct usdt_field *f = &u->field[i];

		if (f->kind == USDT_CHARS && f->shape == USDT_FIXED && f->length % 8 == 0 && f->length <= 8 * WORDS_MOST && !found)
			found = f;
		else if (f->kind == USDT_CHARS || f->kind == USDT_STRING || f->kind == USDT_STRUCT || f->shape == USDT_COUNTED)
			return NULL;
	}
	return w->c->c_rules ? found : NULL;
}

/* If one word can't be read, all of it is not there: so the mark of the first one is that of the field. */
static void put_words(struct lower *w, arg_list *list, struct ir_record *r, struct expr *e)
{
	const struct usdt_field *f = e->ref;
	struct val text = lower_usdt_field(w, e), word[WORDS_MOST];
	uint64_t mask = 0;

	for (uint32_t i = 0; i < f->length / 8; i++) {
		struct val part = text;

		part.type = &v_u64;
		part.off += 8 * i;
		word[i] = val_load(w, &part);
		mask |= word[i].mask;
	}
	for (uint32_t i = 0; i < f->length / 8; i++) {
		word[i].mask = mask;
		lower_field(w, r, list, i ? NULL : e->name, &word[i]);
		r->fields[r->nfields - 1].words = i ? IR_WORD_MORE : f->length / 8;
	}
}

static void put_fields(struct lower *w, arg_list *list, struct ir_record *r)
{
	const struct usdt *u = w->c->site->usdt;

	const struct usdt_field *words = text_of_words(w);
	struct expr last = { 0 };

	w->reserved = u->nfields;
	for (uint32_t i = 0; i < u->nfields; i++) {
		struct expr e = { .kind = E_NAME, .ref = (void *)&u->field[i], .name = u->field[i].name, .at = w->at->at, .len = w->at->len };
		struct val v;

		w->reserved--;		/* what is short has room also after a long array */
		if (!*e.name)
			continue;
		if (u->arg[i].why || (u->field[i].shape == USDT_COUNTED && u->arg[i + 1].why)) {
			diag_warn(w->l->diags, e.at, e.len, "'%s' of %s ('%s') is left out: %s", e.name, u->shown, u->arg[i].text,
				  u->arg[i].why ? u->arg[i].why : u->arg[i + 1].why);
			continue;
		}
		e.type = v_of_whole_field(w->l, &u->field[i], w->c->c_rules);
		if (&u->field[i] == words) {
			last = e;
			w->reserved += WORDS_MOST;
			continue;
		}
		v = lower_usdt_field(w, &e);
		lower_some_fields(w, r, list, e.name, &v);
	}
	/* At the end: the numbers of fields before it count as fields of the event. */
	if (last.ref)
		put_words(w, list, r, &last);
	w->reserved = 0;
}

/* All of them; those that can't be read are left out with a warning. */
void lower_usdt_params(struct lower *w, arg_list *list, struct ir_record *r)
{
	const struct usdt *u = w->c->site->usdt;

	if (u->field) {
		put_fields(w, list, r);
		return;
	}
	for (uint32_t i = 0; i < u->nargs; i++) {
		const struct usdt_arg *a = &u->arg[i];
		struct expr e = { .kind = E_NAME, .ref = (void *)a, .name = pool_printf(w->pool, "arg%u", i), .type = v_of_usdt(a),
				  .at = w->at->at, .len = w->at->len };
		struct val v;

		if (a->why) {
			diag_warn(w->l->diags, e.at, e.len, "arg%u of %s ('%s') is left out: %s", i, u->shown, a->text, a->why);
			continue;
		}
		v = lower_usdt_arg(w, &e);
		lower_field(w, r, list, e.name, &v);
	}
}
