/* SPDX-License-Identifier: MIT */
/* A script as S-expressions: (+ $x 1), (set @m[pid] (count)), ... */
#include "lang/ast.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lang/lex.h"

static void dump_expr(FILE *f, const struct expr *e);
static void dump_body(FILE *f, const struct stmt *s);

static void dump_text(FILE *f, const char *s, size_t len)
{
	size_t i;

	fputc('"', f);
	for (i = 0; i < len; i++) {
		unsigned char c = s[i];

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 32 || c > 126)
			fprintf(f, "\\x%02x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

static void dump_type(FILE *f, const struct type_name *t)
{
	uint32_t i;

	fprintf(f, "%s%s%s", t->tag ? t->tag : "", t->tag ? " " : "", t->name);
	for (i = 0; i < t->pointers; i++)
		fputc('*', f);
	for (i = 0; i < t->ndims; i++)
		if (t->dims[i] < 0)
			fputs("[]", f);
		else
			fprintf(f, "[%" PRId64 "]", t->dims[i]);
}

static void dump_list(FILE *f, const struct expr *e, const char *between)
{
	uint32_t i;

	for (i = 0; i < e->nlist; i++) {
		fputs(i ? between : "", f);
		dump_expr(f, e->list[i]);
	}
}

/* (word a b c) with those that are there */
static void dump_node(FILE *f, const char *word, const struct expr *e)
{
	const struct expr *const kids[] = { e->a, e->b, e->c };
	size_t i;

	fprintf(f, "(%s", word);
	for (i = 0; i < 3; i++)
		if (kids[i]) {
			fputc(' ', f);
			dump_expr(f, kids[i]);
		}
	fputc(')', f);
}

static void dump_typed(FILE *f, const char *word, const struct expr *e)
{
	fprintf(f, "(%s", word);
	if (e->to) {
		fputc(' ', f);
		dump_type(f, e->to);
	}
	if (e->a) {
		fputc(' ', f);
		dump_expr(f, e->a);
	}
	if (e->kind == E_OFFSETOF)
		fprintf(f, " %s", e->name);
	fputc(')', f);
}

static void dump_step(FILE *f, const struct expr *e)
{
	char word[24];

	snprintf(word, sizeof(word), "%s%c%c", e->prefix ? "" : "post", e->op, e->op);
	dump_node(f, word, e);
}

static void dump_assign(FILE *f, const struct expr *e)
{
	char word[24];

	snprintf(word, sizeof(word), "set%s", e->op ? token_text(e->op) : "");
	dump_node(f, word, e);
}

static void dump_block(FILE *f, const struct expr *e)
{
	fputs("(block ", f);
	dump_body(f, e->body);
	fputc(' ', f);
	if (e->a)
		dump_expr(f, e->a);
	fputc(')', f);
}

static void dump_expr(FILE *f, const struct expr *e)
{
	if (!e) {	/* an error was here */
		fputc('?', f);
		return;
	}
	switch ((enum expr_kind)e->kind) {
	case E_INT:	fprintf(f, "%" PRIu64, e->value); break;
	case E_FLOAT:	fprintf(f, "%#g", e->fvalue); break;
	case E_STR:	dump_text(f, e->name, e->text_len); break;
	case E_BOOL:	fputs(e->value ? "true" : "false", f); break;
	case E_VAR:	fprintf(f, "$%s", e->name); break;
	case E_PARAM:	fprintf(f, "$%" PRIu64, e->value); break;
	case E_NPARAMS:	fputs("$#", f); break;
	case E_NAME:	fputs(e->name, f); break;
	case E_MAP:
		fputs(e->name, f);
		if (e->has_keys) {
			fputc('[', f);
			dump_list(f, e, ", ");
			fputc(']', f);
		}
		break;
	case E_CALL:
		fprintf(f, "(%s%s", e->name, e->nlist ? " " : "");
		dump_list(f, e, " ");
		fputc(')', f);
		break;
	case E_TUPLE:
		fprintf(f, "(tuple%s", e->nlist ? " " : "");
		dump_list(f, e, " ");
		fputc(')', f);
		break;
	case E_NAMED:
		fprintf(f, "%s=", e->name);
		dump_expr(f, e->a);
		break;
	case E_MEMBER:
		dump_node(f, e->arrow ? "->" : ".", e);
		fprintf(f, "%s", e->name);
		break;
	case E_ELEMENT:
		dump_node(f, "element", e);
		fprintf(f, "%" PRIu64, e->value);
		break;
	case E_INDEX:	dump_node(f, "index", e); break;
	case E_UNARY:	case E_BINARY: dump_node(f, token_text(e->op), e); break;
	case E_COND:	dump_node(f, "?", e); break;
	case E_CAST:	dump_typed(f, "cast", e); break;
	case E_PLACE:	fprintf(f, "(place %s+%#llx)", e->name ? e->name : "", (unsigned long long)e->value); break;
	case E_SIZEOF:	dump_typed(f, "sizeof", e); break;
	case E_OFFSETOF: dump_typed(f, "offsetof", e); break;
	case E_STEP:	dump_step(f, e); break;
	case E_ASSIGN:	dump_assign(f, e); break;
	case E_BLOCK:	dump_block(f, e); break;
	}
}

static void dump_part(FILE *f, const struct expr *e)
{
	if (e) {
		fputc(' ', f);
		dump_expr(f, e);
	}
}

static void dump_stmt(FILE *f, const struct stmt *s)
{
	static const char *const words[] = {
		"", "let", "if", "while", "unroll", "for", "for-range", "break", "continue", "return", "block",
	};

	if (s->kind == S_EXPR) {
		dump_expr(f, s->a);
		return;
	}
	fprintf(f, "(%s", words[s->kind]);
	dump_part(f, s->var);
	if (s->type) {
		fputs(" : ", f);
		dump_type(f, s->type);
	}
	dump_part(f, s->a);
	dump_part(f, s->b);
	if (s->kind == S_IF || s->kind == S_WHILE || s->kind == S_UNROLL || s->kind >= S_BLOCK || s->kind == S_FOR_MAP ||
	    s->kind == S_FOR_RANGE) {
		fputc(' ', f);
		dump_body(f, s->body);
	}
	if (s->other) {
		fputc(' ', f);
		dump_body(f, s->other);
	}
	fputc(')', f);
}

static void dump_body(FILE *f, const struct stmt *s)
{
	fputc('{', f);
	for (; s; s = s->next) {
		dump_stmt(f, s);
		if (s->next)
			fputs("; ", f);
	}
	fputc('}', f);
}

static void dump_probe(FILE *f, const struct probe *p)
{
	if (p->name)
		fprintf(f, "%s=", p->name);
	switch ((enum probe_kind)p->kind) {
	case PROBE_BEGIN:	fputs("begin", f); break;
	case PROBE_END:		fputs("end", f); break;
	case PROBE_INTERVAL:	fprintf(f, "interval:%" PRIu64 "ns", p->period); break;
	case PROBE_CALL:	fprintf(f, "%s", p->text); break;
	case PROBE_SITE:	fprintf(f, "%s", p->text); break;
	case PROBE_LINE:
		fprintf(f, "%s%s@%s:%u", p->object ? p->object : "", p->object ? ":" : "", p->file, p->line);
		break;
	}
}

static void dump_clause(FILE *f, const struct clause *c)
{
	uint32_t i;

	for (i = 0; i < c->nprobes; i++) {
		fputs(i ? ", " : "", f);
		dump_probe(f, c->probes[i]);
	}
	for (i = 0; i < c->nfields; i++)
		dump_part(f, c->fields[i]);
	if (c->predicate) {
		fputs(" /", f);
		dump_expr(f, c->predicate);
		fputc('/', f);
	}
	if (!c->is_line) {
		fputc(' ', f);
		dump_body(f, c->body);
	}
	fputc('\n', f);
}

char *script_dump(const struct script *s)
{
	char *text = NULL;
	size_t size, i;
	FILE *f = xmemstream(&text, &size);

	if (!f)
		return xstrdup("");
	for (i = 0; i < s->clauses.n; i++)
		dump_clause(f, s->clauses.v[i]);
	fclose(f);
	return text;
}
