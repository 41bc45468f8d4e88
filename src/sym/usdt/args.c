/* SPDX-License-Identifier: MIT */
/*
 * The arguments of a static tracepoint, from the text of its note to the form that variables of the program have:
 *
 *	args := arg {" " arg}
 *	arg  := [["-"] SIZE ["f"] "@"] OPERAND		"-": signed; "f": floating
 *
 * The size is that of the value; the register that the operand names may be wider or narrower. What can't be read is
 * kept with the reason, so that the others still can.
 */
#include "sym/usdt/usdt.h"

#include <stdio.h>
#include "sym/priv.h"
#include "sym/usdt/usdts.h"

/* Nodes and the piece of one argument. */
struct made {
	struct loc_piece piece;
	struct loc_node node[8];
	uint32_t n;
};

static uint16_t add_node(struct made *x, uint8_t op, uint16_t a, uint16_t b, int64_t imm)
{
	x->node[x->n] = (struct loc_node){ op, a, b, imm };
	return x->n++;
}

static bool find_symbol(struct module *m, const struct text_operand *o, uint64_t *ret_addr)
{
	char *name = xstrndup(o->symbol, o->symbol_len);
	uint64_t size;
	bool found = module_object(m, name, ret_addr, &size);

	for (size_t i = 0; !found && i < m->names.n; i++)
		if (!strcmp(m->names.v[i].name, name)) {
			*ret_addr = m->funcs.v[m->names.v[i].func].addr;
			found = true;
		}
	free(name);
	return found;
}

static const char *no_symbol(struct module *m, const struct text_operand *o)
{
	char *text = xasprintf("its symbol '%.*s' is not in the symbol table", (int)MIN(o->symbol_len, (size_t)200), o->symbol);
	const char *kept = module_string(m, text, strlen(text));

	free(text);
	return kept;
}

/* The sum that an address is, as nodes; the last one is it. */
static void add_address(struct made *x, const struct text_operand *o, bool has_symbol, uint64_t symbol)
{
	uint16_t sum, part;

	sum = add_node(x, has_symbol ? LOP_ADDR : LOP_CONST, 0, 0, (int64_t)((uint64_t)o->value + symbol));
	if (o->base != OPERAND_NONE) {
		part = add_node(x, LOP_REG, o->base, 0, 0);
		sum = add_node(x, LOP_ADD, part, sum, 0);
	}
	if (o->index != OPERAND_NONE) {
		uint16_t scale = add_node(x, LOP_CONST, 0, 0, o->scale);

		part = add_node(x, LOP_REG, o->index, 0, 0);
		part = add_node(x, LOP_MUL, part, scale, 0);
		add_node(x, LOP_ADD, sum, part, 0);
	}
}

static const char *locate_thread_local(struct module *m, const struct text_operand *o, struct made *x)
{
	uint64_t byte = 0;
	int64_t program = 0;

	x->piece.kind = LOC_TLS;
	if (o->symbol) {
		char *name = xstrndup(o->symbol, o->symbol_len);
		bool found = module_tls_symbol(m, name, &byte);

		free(name);
		if (!found)
			return no_symbol(m, o);
	} else if (!module_tls(m, &program)) {
		return "its address counts from the thread pointer, and the file has no thread-local variables";
	}
	x->piece.off = (int64_t)(byte + (uint64_t)o->value - (uint64_t)program);
	return NULL;
}

static const char *locate_memory(struct module *m, const struct text_operand *o, uint64_t symbol, struct made *x)
{
	if (o->of_thread)
		return locate_thread_local(m, o, x);
	if (o->index == OPERAND_NONE && o->base == OPERAND_NONE && o->symbol) {
		x->piece.kind = LOC_GLOBAL;
		x->piece.off = (int64_t)(symbol + (uint64_t)o->value);
	} else if (o->index == OPERAND_NONE && o->base != OPERAND_NONE && !o->symbol) {
		x->piece.kind = LOC_MEM;
		x->piece.reg = o->base;
		x->piece.off = o->value;
	} else {
		add_address(x, o, o->symbol, symbol);
		x->piece.kind = LOC_MEM_AT;
		x->piece.node = x->n - 1;
	}
	return NULL;
}

/* The bits of a register from `shift` on. */
static void locate_high(const struct text_operand *o, struct made *x)
{
	uint16_t reg = add_node(x, LOP_REG, o->reg, 0, 0), shift = add_node(x, LOP_CONST, 0, 0, o->shift);

	x->piece.kind = LOC_VALUE;
	x->piece.node = add_node(x, LOP_SHR, reg, shift, 0);
}

static const char *locate(struct module *m, const struct text_operand *o, struct made *x)
{
	uint64_t symbol = 0;

	if (o->symbol && !o->of_thread && !find_symbol(m, o, &symbol))
		return no_symbol(m, o);
	switch ((enum operand_kind)o->kind) {
	case OPERAND_REG:
		x->piece.kind = LOC_REG;
		x->piece.reg = o->reg;
		if (o->shift)
			locate_high(o, x);
		return NULL;
	case OPERAND_VECTOR:
		x->piece.kind = LOC_VECTOR;
		x->piece.reg = o->reg;
		return NULL;
	case OPERAND_CONST:
		x->piece.kind = LOC_CONST;
		x->piece.off = o->value;
		if (o->symbol) {
			add_address(x, o, true, symbol);
			x->piece.kind = LOC_VALUE;
			x->piece.node = x->n - 1;
		}
		return NULL;
	case OPERAND_MEM:
		return locate_memory(m, o, symbol, x);
	}
	return "its kind is not known";
}

/* "-4f@" */
static const char *take_size(struct usdt_arg *a)
{
	const char *p = a->text, *at = strchr(a->text, '@');
	bool minus = *p == '-';
	int64_t n;

	a->size = 8;
	a->is_signed = true;
	a->operand = a->text;
	/* Without a size the operand may have an @ of its own. */
	if (!at || !operand_number(&p, at, &n) || (p != at && p + 1 != at) || (p != at && *p != 'f'))
		return NULL;
	a->operand = at + 1;
	a->is_signed = minus;
	a->is_float = p != at;
	n = minus ? (int64_t)-(uint64_t)n : n;
	if (n != 1 && n != 2 && n != 4 && n != 8)
		return "its size is none of 1, 2, 4 and 8 bytes";
	a->size = n;
	return a->is_float && n < 4 ? "a floating number of that size is not known" : NULL;
}

static void read_arg(struct module *m, struct usdts *list, struct usdt_arg *a)
{
	struct made *x = xcalloc(1, sizeof(*x));
	struct text_operand o;

	*vec_add(&list->made) = x;
	a->why = take_size(a);
	if (!a->why)
		a->why = m->arch->operand(a->operand, strlen(a->operand), &o);
	if (!a->why)
		a->why = locate(m, &o, x);
	if (a->why)
		return;
	/* Compilers keep no integers there that they hand over. */
	a->is_float |= o.kind == OPERAND_VECTOR && a->size >= 4;
	if (o.kind == OPERAND_VECTOR && a->size < 4)
		a->why = "a vector register has no number of that size";
	x->piece.size = a->size;
	a->loc = (struct loc){ .pieces = &x->piece, .n = 1, .nodes = x->node, .nnodes = x->n };
}

/* The length of the argument at s: blanks in brackets belong to it. */
static size_t arg_len(const char *s)
{
	size_t i;
	int depth = 0;

	for (i = 0; s[i] && (depth || s[i] != ' '); i++)
		depth += (s[i] == '[') - (s[i] == ']' && depth);
	return i;
}

void usdt_read_args(struct module *m, struct usdt *u)
{
	struct usdts *list = usdts_of(m);
	struct usdt_arg *args;
	const char *s = u->args;

	if (u->has_args)
		return;
	u->has_args = true;
	args = xcalloc(USDT_ARGS_MAX, sizeof(*args));
	*vec_add(&list->made) = args;
	u->arg = args;
	while (*(s += strspn(s, " ")) && u->nargs < USDT_ARGS_MAX) {
		struct usdt_arg *a = &args[u->nargs++];
		size_t len = arg_len(s);

		a->text = module_string(m, s, len);
		read_arg(m, list, a);
		s += len;
	}
	usdt_check_fields(u);
	if (*s && !u->why)
		u->why = "its note has more arguments than are supported";
}

const char *usdt_type_name(const struct usdt_arg *a)
{
	static const char *const names[3][4] = {
		{ "u8", "u16", "u32", "u64" }, { "s8", "s16", "s32", "s64" }, { "?", "?", "float", "double" },
	};

	return names[a->is_float ? 2 : a->is_signed][a->size == 1 ? 0 : a->size == 2 ? 1 : a->size == 4 ? 2 : 3];
}
