/* SPDX-License-Identifier: MIT */
/*
 * Operands as gcc and clang write them:
 *
 *	operand := REGISTER | ["#"] number | "[" BASE ["," (["#"] number | INDEX ["," "lsl" ["#"] number])] "]"
 */
#include "arch/aarch64/aarch64.h"

#include <string.h>

struct text { const char *p, *end; };

static bool take(struct text *t, char c)
{
	while (t->p < t->end && *t->p == ' ')
		t->p++;
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static struct text take_word(struct text *t)
{
	struct text w;

	while (t->p < t->end && *t->p == ' ')
		t->p++;
	w = (struct text){ t->p, t->p };
	while (t->p < t->end && ((*t->p >= '0' && *t->p <= '9') || (*t->p >= 'a' && *t->p <= 'z')))
		t->p++;
	w.end = t->p;
	return w;
}

/* The number of a register by the letter in front of it: x3, w3, d3. */
static bool find_reg(struct text w, const char *letters, uint32_t n, uint8_t *ret_reg)
{
	const char *p = w.p + 1;
	int64_t number;

	if (w.end - w.p < 2 || !strchr(letters, *w.p) || !operand_number(&p, w.end, &number) || p != w.end || number < 0 ||
	    number >= (int64_t)n)
		return false;
	*ret_reg = number;
	return true;
}

static bool find_general(struct text w, const char *letters, uint8_t *ret_reg)
{
	size_t n = w.end - w.p;

	if ((n == 2 && !memcmp(w.p, "sp", 2)) || (n == 3 && !memcmp(w.p, "wsp", 3))) {
		*ret_reg = a64_regs.sp;
		return true;
	}
	return find_reg(w, letters, a64_regs.sp, ret_reg);
}

static bool take_number(struct text *t, int64_t *ret_value)
{
	struct text was = *t;

	take(t, '#');
	while (t->p < t->end && *t->p == ' ')
		t->p++;
	if (operand_number(&t->p, t->end, ret_value))
		return true;
	*t = was;
	return false;
}

/* Behind the index. */
static const char *take_shift(struct text *t, struct text_operand *o)
{
	struct text w = take_word(t);
	int64_t n;

	if (w.end - w.p != 3 || memcmp(w.p, "lsl", 3))
		return "its index is extended, which is not supported";
	if (!take_number(t, &n) || n < 0 || n > 4)
		return "its index is shifted by a wrong number";
	o->scale = 1 << n;
	return NULL;
}

/* Behind the "[". */
static const char *take_memory(struct text *t, struct text_operand *o)
{
	const char *why = NULL;

	o->kind = OPERAND_MEM;
	if (!find_general(take_word(t), "x", &o->base))
		return "its address has no register of 64 bits as its base";
	if (take(t, ',') && !take_number(t, &o->value)) {
		if (!find_general(take_word(t), "x", &o->index))
			return "its address has a part that is not supported";
		o->scale = 1;
		if (take(t, ','))
			why = take_shift(t, o);
	}
	return why ? why : take(t, ']') ? NULL : "a bracket is not closed";
}

const char *a64_operand(const char *text, size_t len, struct text_operand *ret_operand)
{
	struct text_operand o = { .kind = OPERAND_REG, .base = OPERAND_NONE, .index = OPERAND_NONE };
	struct text t = { text, text + len }, w;
	const char *why = NULL;

	if (take(&t, '[')) {
		why = take_memory(&t, &o);
	} else if (take_number(&t, &o.value)) {
		o.kind = OPERAND_CONST;
	} else {
		w = take_word(&t);
		if (w.end - w.p == 3 && (!memcmp(w.p, "xzr", 3) || !memcmp(w.p, "wzr", 3)))
			o.kind = OPERAND_CONST;
		else if (find_reg(w, "vqdsh", a64_regs.nvectors, &o.reg))
			o.kind = OPERAND_VECTOR;
		else if (!find_general(w, "xw", &o.reg))
			why = len ? "its register is none of the general and vector ones" : "its operand is empty";
	}
	if (!why && t.p != t.end)
		why = "it has characters that mean nothing there";
	if (!why)
		*ret_operand = o;
	return why;
}
