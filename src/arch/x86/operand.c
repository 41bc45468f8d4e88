/* SPDX-License-Identifier: MIT */
/*
 * Operands in AT&T syntax:
 *
 *	operand := "$" sum | "%" REGISTER | ["%fs:"] [sum] ["(" [%BASE] ["," %INDEX ["," SCALE]] ")"]
 *	sum     := term {("+" | "-") term}	one symbol at most
 *	term    := number | SYMBOL ["@" word]
 */
#include "arch/x86/x86.h"

#include <string.h>

struct text { const char *p, *end; };

static bool take(struct text *t, char c)
{
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '$';
}

static struct text take_word(struct text *t)
{
	struct text w = { t->p, t->p };

	while (t->p < t->end && is_word(*t->p))
		t->p++;
	w.end = t->p;
	return w;
}

static bool is(struct text w, const char *word)
{
	return (size_t)(w.end - w.p) == strlen(word) && !memcmp(w.p, word, strlen(word));
}

/* One character, and then a word without its last `drop` characters, and one more. */
static bool is_made_of(struct text w, char front, const char *middle, size_t len, char back)
{
	if (front && (w.p == w.end || *w.p++ != front))
		return false;
	if (back && (w.p == w.end || *--w.end != back))
		return false;
	return (size_t)(w.end - w.p) == len && !memcmp(w.p, middle, len);
}

/* All names of general register number i; its second lowest byte has one, too. */
static bool is_general(struct text w, int i, uint8_t *ret_shift)
{
	const char *name = x86_regs.names[i], *old = name + 1;
	size_t len = strlen(name);

	*ret_shift = 0;
	if (is(w, name))
		return true;
	if (i >= 8)
		return is_made_of(w, 0, name, len, 'd') || is_made_of(w, 0, name, len, 'w') || is_made_of(w, 0, name, len, 'b');
	if (is(w, old) || is_made_of(w, 'e', old, len - 1, 0))
		return true;
	if (i >= 4)
		return is_made_of(w, 0, old, len - 1, 'l');
	*ret_shift = is_made_of(w, 0, old, 1, 'h') ? 8 : 0;
	return *ret_shift || is_made_of(w, 0, old, 1, 'l');
}

static bool find_general(struct text w, uint8_t *ret_reg, uint8_t *ret_shift)
{
	for (int i = 0; i < x86_regs.n; i++)
		if (is_general(w, i, ret_shift)) {
			*ret_reg = i;
			return true;
		}
	return false;
}

/* The wider ones share their low bytes. */
static bool find_vector(struct text w, uint8_t *ret_reg)
{
	static const char *const words[] = { "xmm", "ymm", "zmm" };
	int64_t n;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		const char *p = w.p + 3;

		if (w.end - w.p < 4 || w.end - w.p > 5 || memcmp(w.p, words[i], 3) || !operand_number(&p, w.end, &n) || p != w.end ||
		    n < 0 || n >= x86_regs.nvectors)
			continue;
		*ret_reg = n;
		return true;
	}
	return false;
}

static const char *take_symbol(struct text *t, bool minus, struct text_operand *o)
{
	struct text w = take_word(t);

	if (w.p == w.end)
		return "a part of its address is missing";
	if (minus || o->symbol)
		return "only one symbol can be added in an operand";
	o->symbol = w.p;
	o->symbol_len = w.end - w.p;
	if (!take(t, '@'))
		return NULL;
	w = take_word(t);
	if (!is(w, "tpoff") && !is(w, "ntpoff"))
		return "its symbol is reached by a table of the loader";
	o->of_thread = true;
	return NULL;
}

static const char *take_sum(struct text *t, struct text_operand *o)
{
	const char *why = NULL;
	bool first = true;
	int64_t n;

	while (!why && t->p < t->end && *t->p != '(') {
		bool minus = *t->p == '-', sign = minus || *t->p == '+';

		if (!first && !sign)
			return "it has characters that mean nothing there";
		t->p += sign;
		first = false;
		if (t->p < t->end && *t->p >= '0' && *t->p <= '9') {
			if (!operand_number(&t->p, t->end, &n))
				return "it has a number of more than 64 bits";
			o->value = minus ? (int64_t)((uint64_t)o->value - (uint64_t)n) : (int64_t)((uint64_t)o->value + (uint64_t)n);
		} else {
			why = take_symbol(t, minus, o);
		}
	}
	return why;
}

static const char *take_general(struct text *t, uint8_t *ret_reg)
{
	struct text w;
	uint8_t shift;

	if (!take(t, '%'))
		return "a register is missing";
	w = take_word(t);
	if (!find_general(w, ret_reg, &shift) || *w.p != 'r')
		return "its address has a register that is not one of 64 bits";
	return NULL;
}

static const char *take_scale(struct text *t, struct text_operand *o)
{
	int64_t scale;

	if (!operand_number(&t->p, t->end, &scale) || (scale != 1 && scale != 2 && scale != 4 && scale != 8))
		return "its scale is none of 1, 2, 4 and 8";
	o->scale = scale;
	return NULL;
}

/* Behind the "(". */
static const char *take_brackets(struct text *t, struct text_operand *o)
{
	static const char by_pc[] = "%rip)";
	const char *why = NULL;

	if ((size_t)(t->end - t->p) == strlen(by_pc) && !memcmp(t->p, by_pc, strlen(by_pc))) {
		t->p = t->end;
		return o->symbol ? NULL : "it is relative to an instruction that the note does not name";
	}
	if (t->p < t->end && *t->p != ',' && *t->p != ')')
		why = take_general(t, &o->base);
	if (!why && take(t, ',')) {
		why = take_general(t, &o->index);
		o->scale = 1;
		if (!why && take(t, ','))
			why = take_scale(t, o);
	}
	if (!why && (o->base == OPERAND_NONE && o->index == OPERAND_NONE))
		why = "its brackets have no register";
	if (!why && !take(t, ')'))
		why = "a bracket is not closed";
	return why;
}

/* of_thread: its segment is that of thread-local variables. */
static const char *take_memory(struct text *t, bool of_thread, struct text_operand *o)
{
	const char *why;

	o->kind = OPERAND_MEM;
	why = take_sum(t, o);
	if (!why && take(t, '('))
		why = take_brackets(t, o);
	if (!why && o->of_thread != of_thread && (!of_thread || o->symbol))
		why = "its symbol and its segment do not fit together";
	if (!why && of_thread && (o->base != OPERAND_NONE || o->index != OPERAND_NONE))
		why = "thread-local variables with a register in the address are not supported";
	o->of_thread = of_thread;
	return why;
}

/* Behind the "%". */
static const char *take_register(struct text *t, struct text_operand *o)
{
	struct text w = take_word(t);

	if (take(t, ':'))
		return is(w, "fs") ? take_memory(t, true, o) : "its segment is not supported";
	if (find_vector(w, &o->reg))
		o->kind = OPERAND_VECTOR;
	else if (!find_general(w, &o->reg, &o->shift))
		return "its register is none of the general and vector ones";
	return NULL;
}

const char *x86_operand(const char *text, size_t len, struct text_operand *ret_operand)
{
	struct text_operand o = { .kind = OPERAND_REG, .base = OPERAND_NONE, .index = OPERAND_NONE };
	struct text t = { text, text + len };
	const char *why;

	if (take(&t, '$')) {
		o.kind = OPERAND_CONST;
		why = t.p < t.end ? take_sum(&t, &o) : "its number is missing";
		if (!why && o.of_thread)
			why = "the address of a thread-local variable is not supported";
	} else if (take(&t, '%')) {
		why = take_register(&t, &o);
	} else {
		why = len ? take_memory(&t, false, &o) : "its operand is empty";
	}
	if (!why && t.p != t.end)
		why = "it has characters that mean nothing there";
	if (!why)
		*ret_operand = o;
	return why;
}
