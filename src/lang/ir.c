/* SPDX-License-Identifier: MIT */
/* Units and programs: making, freeing, printing. ir_verify.c proves what ir.h promises. */
#include "lang/ir.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct ir_prog *ir_prog_new(struct ir_unit *u, enum ir_where where, uint32_t clause)
{
	struct ir_prog *p = xcalloc(1, sizeof(*p));

	p->where = where;
	p->clause = clause;
	*vec_add(&u->progs) = p;
	return p;
}

void ir_record_free(struct ir_record *r)
{
	uint32_t i;

	for (i = 0; i < r->nfields; i++)
		free(r->fields[i].name);
	free(r->fields);
	free(r->text);
}

static void free_map(struct ir_map *m)
{
	free(m->name);
	free(m->keys);
	free(m->values);
	free(m->key_shape);
	free(m->value_shape);
	free(m->quantiles);
}

static void free_prog(struct ir_prog *p)
{
	size_t i;

	for (i = 0; i < p->slots.n; i++)
		free((char *)p->slots.v[i].text);
	vec_free(&p->ins);
	vec_free(&p->args);
	vec_free(&p->regs);
	vec_free(&p->slots);
	free(p);
}

void ir_progs_drop(struct ir_unit *u, size_t n)
{
	while (u->progs.n > n)
		free_prog(u->progs.v[--u->progs.n]);
}

void ir_unit_free(struct ir_unit *u)
{
	size_t i;

	for (i = 0; i < u->progs.n; i++)
		free_prog(u->progs.v[i]);
	for (i = 0; i < u->maps.n; i++)
		free_map(&u->maps.v[i]);
	for (i = 0; i < u->records.n; i++)
		ir_record_free(&u->records.v[i]);
	for (i = 0; i < u->strings.n; i++)
		free(u->strings.v[i]);
	vec_free(&u->progs);
	vec_free(&u->maps);
	vec_free(&u->records);
	vec_free(&u->strings);
	vec_free(&u->shown);
}

static uint32_t ir_field_room(const struct ir_field *f)
{
	switch (f->type) {
	case IR_ARRAY:	return (f->cap + 7) & ~7u;
	case IR_ADDRS:	return 8 + f->cap;
	}
	return ir_in_slot(f->type) ? (4 + MAX(f->cap, IR_REFUSED_LEN) + 7) & ~7u : 8;
}

uint32_t ir_record_room(const struct ir_record *r)
{
	uint32_t i, room = r->faulty ? 8 : 0;

	for (i = 0; i < r->nfields; i++)
		room += ir_field_room(&r->fields[i]);
	return room;
}

static const char *const op_names[IR_NOPS] = {
	[IR_NOP] = "nop", [IR_CONST] = "const", [IR_FCONST] = "fconst", [IR_MOV] = "mov", [IR_REG] = "reg", [IR_VECTOR] = "vector",
	[IR_CTX] = "ctx", [IR_COMM] = "comm", [IR_STACK] = "stack", [IR_FRAMES] = "frames",
	[IR_SAVE] = "save", [IR_SAVED] = "saved",
	[IR_ADD] = "add", [IR_SUB] = "sub", [IR_MUL] = "mul", [IR_DIV] = "div", [IR_MOD] = "mod", [IR_AND] = "and",
	[IR_OR] = "or", [IR_XOR] = "xor", [IR_SHL] = "shl", [IR_SHR] = "shr", [IR_NEG] = "neg", [IR_NOT] = "not",
	[IR_EQ] = "eq", [IR_NE] = "ne", [IR_LT] = "lt", [IR_LE] = "le", [IR_GT] = "gt", [IR_GE] = "ge",
	[IR_CAST] = "cast", [IR_I2F] = "i2f", [IR_U2F] = "u2f", [IR_F2F] = "f2f", [IR_F2I] = "f2i", [IR_RAW2F] = "raw2f", [IR_F2RAW] = "f2raw", [IR_BSWAP] = "bswap",
	[IR_LOAD] = "load", [IR_BITS] = "bits", [IR_READ_STR] = "read_str", [IR_READ_BUF] = "read_buf",
	[IR_SLOT_COPY] = "slot_copy", [IR_SLOT_AND] = "slot_and", [IR_SLOT_LOAD] = "slot_load", [IR_STR_CMP] = "str_cmp", [IR_STR_LEN] = "str_len",
	[IR_STR_FIND] = "str_find", [IR_LABEL] = "label", [IR_JMP] = "jmp", [IR_JZ] = "jz", [IR_JNZ] = "jnz",
	[IR_IF_FAULT] = "if_fault", [IR_LOOP] = "loop", [IR_LOOP_END] = "loop_end", [IR_RET] = "ret",
	[IR_MAP_GET] = "map_get", [IR_MAP_SET] = "map_set", [IR_MAP_ADD] = "map_add", [IR_MAP_AGG] = "map_agg",
	[IR_MAP_DEL] = "map_del", [IR_MAP_HAS] = "map_has", [IR_MAP_LEN] = "map_len", [IR_EACH] = "each",
	[IR_EACH_END] = "each_end", [IR_EMIT] = "emit", [IR_EXIT] = "exit", [IR_EVERY] = "every", [IR_LIMIT] = "limit",
	[IR_RATE] = "rate", [IR_ENABLE] = "enable",
};

static const char *const type_names[] = {
	"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "bool", "ptr", "char", "enum", "ustack", "usym",
	"probe", "func", "time", "str", "buf", "struct", "array", "addrs",
};

static const char *const ctx_names[] = {
	"site", "pid", "tid", "cpu", "nsecs", "elapsed", "duration", "uid", "gid", "rand", "ncpus", "cpid", "thread", "tail", "left", "ns_pid", "ns_tid",
};

/* Instructions whose type says something. */
static bool shows_type(uint8_t op)
{
	return op == IR_VECTOR || (op >= IR_ADD && op <= IR_F2RAW) || op == IR_BSWAP || op == IR_LOAD || op == IR_BITS ||
	       op == IR_SLOT_LOAD;
}

static void dump_reg(FILE *f, const struct ir_prog *p, uint32_t reg)
{
	if (reg != IR_NONE)
		fprintf(f, " %c%u", reg < p->regs.n && p->regs.v[reg] == IR_F ? 'f' : 'r', reg);
}

static void dump_slot(FILE *f, const struct ir_prog *p, uint32_t slot)
{
	if (slot == IR_NONE)
		return;
	if (slot < p->slots.n && p->slots.v[slot].text)
		fprintf(f, " s%u=\"%.*s\"", slot, (int)MIN(p->slots.v[slot].cap, 20u), p->slots.v[slot].text);
	else
		fprintf(f, " s%u", slot);
}

static void dump_args(FILE *f, const struct ir_prog *p, const struct ir_ins *i)
{
	uint32_t k;

	for (k = 0; k < i->n; k++) {
		const struct ir_arg *a = &p->args.v[i->first + k];

		fputs(k == 0 ? " (" : k == i->nkeys ? " : " : ", ", f);
		fprintf(f, "%s", type_names[a->type]);
		if (ir_in_slot(a->type))
			dump_slot(f, p, a->reg);
		else
			dump_reg(f, p, a->reg);
		if (a->mask)
			fprintf(f, " ?%" PRIx64, a->mask);
	}
	fputs(i->n ? ")" : "", f);
}

static void dump_imm(FILE *f, const struct ir_ins *i)
{
	if (i->op == IR_FCONST)
		fprintf(f, " %.17g", i->fimm);
	else if (i->op == IR_CTX)
		fprintf(f, " %s", ctx_names[i->imm]);
	else if (i->imm || i->op == IR_CONST || i->op == IR_REG || i->op == IR_VECTOR || i->op == IR_SAVE || i->op == IR_SAVED)
		fprintf(f, " %" PRId64, i->imm);
}

static bool reads_memory(uint8_t op)
{
	return op == IR_LOAD || op == IR_READ_STR || op == IR_READ_BUF;
}

static void dump_ins(FILE *f, const struct ir_unit *u, const struct ir_prog *p, const struct ir_ins *i)
{
	if (i->dst != IR_NONE) {
		dump_reg(f, p, i->dst);
		fputs(" =", f);
	}
	fprintf(f, " %s", op_names[i->op]);
	if (shows_type(i->op))
		fprintf(f, ".%s", type_names[i->type]);
	if (i->op >= IR_MAP_GET && i->op <= IR_EACH)
		fprintf(f, " %s", u->maps.v[i->map].name);
	dump_slot(f, p, i->slot);
	dump_slot(f, p, i->slot2);
	dump_reg(f, p, i->a);
	dump_reg(f, p, i->b);
	dump_imm(f, i);
	if ((i->op >= IR_LABEL && i->op <= IR_LOOP_END) || i->op == IR_EACH || i->op == IR_EACH_END)
		fprintf(f, " L%u", i->label);
	if (i->op == IR_EMIT || i->op == IR_EXIT)
		fprintf(f, " #%u", i->record);
	dump_args(f, p, i);
	if (reads_memory(i->op) && !(i->flags & IR_GOOD))
		fprintf(f, " !%u", i->bit);
	if (reads_memory(i->op) && (i->flags & IR_GOOD))
		fputs(" good", f);
	if (i->op == IR_READ_BUF && (i->flags & IR_PARTIAL))
		fputs(" partial", f);
	if (i->mask)
		fprintf(f, " ?%" PRIx64, i->mask);
	fputc('\n', f);
}

char *ir_dump(const struct ir_unit *u, const struct ir_prog *p)
{
	char *text = NULL;
	size_t size, i;
	FILE *f = xmemstream(&text, &size);

	if (!f)
		return xstrdup("");
	for (i = 0; i < p->ins.n; i++)
		dump_ins(f, u, p, &p->ins.v[i]);
	fclose(f);
	return text;
}
