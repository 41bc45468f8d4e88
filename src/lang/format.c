/* SPDX-License-Identifier: MIT */
/*
 * Events as text. Formats are printf's, and %r shows bytes. What could not be read shows as <fault>, or as <unreadable> if no read was allowed.
 */
#include "lang/format.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/addr.h"
#include "base/text.h"
#include "lang/type.h"

#define MOST_FRAMES 1024
#define STACK_INDENT 8		/* bpftrace: 8 blanks in values, 4 in keys */

size_t format_conv(const char *s, struct conv *ret_conv)
{
	struct conv c = { .width = -1, .precision = -1, .size = 4 };
	const char *start = s++;
	size_t n = 0;

	while (*s && strchr("-+ #0", *s) && n < sizeof(c.flags) - 1)
		c.flags[n++] = *s++;
	if (*s >= '0' && *s <= '9')
		c.width = strtol(s, (char **)&s, 10);
	if (*s == '.') {
		c.precision = strtol(s + 1, (char **)&s, 10);
		if (c.precision < 0)
			return 0;
	}
	if (c.width > 4096 || c.precision > 4096)
		return 0;
	for (; *s && strchr("hlzjtq", *s); s++)
		c.size = *s == 'h' ? (c.size == 2 ? 1 : 2) : 8;
	if (!*s || !strchr("diuxXocpsfFeEgGar%", *s))
		return 0;
	c.kind = *s == 'i' ? 'd' : *s++;
	s += c.kind == 'd' && s[0] == 'i';
	if (c.kind == 'r' && (*s == 'x' || *s == 'h'))
		c.style = *s++;
	if (strchr("FEG", c.kind))
		c.kind += 'a' - 'A';
	*ret_conv = c;
	return s - start;
}

/* ---- payloads ---- */

static double low_float(uint64_t bits)
{
	uint32_t low = bits;
	float f;

	memcpy(&f, &low, sizeof(f));
	return f;
}

static bool take_fixed(const struct ir_field *f, const uint8_t *p, size_t len, size_t *at, struct field_value *v)
{
	uint32_t n = f->cap;

	if (f->type == IR_ADDRS && len - *at >= 8) {
		memcpy(&n, p + *at, 4);
		n = n > f->cap / 8 ? UINT32_MAX : 8 * n;
		*at += 8;
	}
	if (n > len - *at)
		return false;
	v->text = p + *at;
	v->len = n;
	if (v->fault && n >= 8)
		memcpy(&v->n, v->text, 8);
	*at += (n + 7) & ~(size_t)7;
	return *at <= len;
}

static bool take_field(const struct ir_field *f, const uint8_t *p, size_t len, size_t *at, struct field_value *v)
{
	uint32_t n;

	if (!ir_in_slot(f->type)) {
		if (len - *at < 8)
			return false;
		memcpy(&v->n, p + *at, 8);
		if (f->type == IR_F32 && f->show == IR_SHOW_RAW && !v->fault)
			v->n.f = low_float(v->n.u);
		*at += 8;
		return true;
	}
	if (f->type == IR_ARRAY || f->type == IR_ADDRS)
		return take_fixed(f, p, len, at, v);
	if (len - *at < 8)
		return false;
	memcpy(&n, p + *at, 4);
	if (n > len - *at - 4)
		return false;
	v->text = p + *at + 4;
	v->len = n;
	if (v->fault && n == (v->refused ? IR_REFUSED_LEN : IR_FAULT_LEN))
		memcpy(&v->n, v->text + n - 8, 8);
	else if (f->type == IR_STR && n && !v->text[n - 1])
		v->len--;
	v->full = v->len == f->cap;
	*at += (4 + (size_t)n + 7) & ~(size_t)7;
	return *at <= len;
}

int format_fields(const struct ir_record *r, const uint8_t *payload, size_t len, struct field_value *ret_values)
{
	uint64_t bad = 0;
	size_t at = 0;
	uint32_t i;

	if (r->faulty) {
		if (len < 8)
			return -EBADMSG;
		memcpy(&bad, payload, 8);
		at = 8;
	}
	for (i = 0; i < r->nfields; i++) {
		bool refused = r->nfields <= 32 && bad >> (32 + i) & 1;

		ret_values[i] = (struct field_value){ .fault = refused || bad >> MIN(i, 63u) & 1, .refused = refused };
		if (!take_field(&r->fields[i], payload, len, &at, &ret_values[i]))
			return -EBADMSG;
	}
	return 0;
}

/* ---- values ---- */

static const char *fault_word(const struct field_value *v)
{
	return v->n.u == ADDR_TAIL_CALL ? "<tail call>" : v->n.u == ADDR_NOT_KEPT ? "<optimized out>" :
	       v->n.u == ADDR_NO_RESULT ? "<void>" : v->n.u == ADDR_NO_FRAME ? "<none>" :
	       v->refused ? "<unreadable>" : "<fault>";
}

/* A name that is not the script's. */
static void print_name(FILE *f, const char *s, const struct format_names *names)
{
	if (names && names->safe)
		print_safe(f, s);
	else
		fputs(s, f);
}

static void print_stack(FILE *f, uint64_t id, uint32_t mode, int indent, const struct format_names *names)
{
	uint64_t *frames = xcalloc(MOST_FRAMES, sizeof(*frames));
	uint32_t n = names && names->stack ? names->stack(names->data, id, frames, MOST_FRAMES) : 0, i;
	const char *module;
	char *symbol;

	fputc('\n', f);
	for (i = 0; i < n; i++) {
		symbol = mode != IR_STACK_RAW && names->symbol ? names->symbol(names->data, frames[i]) : NULL;
		if (mode != IR_STACK_PERF)
			fprintf(f, "%*s", indent, "");
		if (mode == IR_STACK_PERF) {
			module = names->module ? names->module(names->data, frames[i]) : NULL;
			fprintf(f, "\t%" PRIx64 " ", frames[i]);
			print_name(f, symbol ? symbol : "[unknown]", names);
			fputs(" (", f);
			print_name(f, module ? module : "[unknown]", names);
			fputs(")\n", f);
		} else if (symbol) {
			print_name(f, symbol, names);
			fputc('\n', f);
		} else {
			fprintf(f, mode == IR_STACK_RAW ? "%" PRIx64 "\n" : "0x%" PRIx64 "\n", frames[i]);
		}
		free(symbol);
	}
	free(frames);
}

static void print_symbol(FILE *f, uint64_t addr, const struct format_names *names)
{
	char *s = names && names->symbol ? names->symbol(names->data, addr) : NULL, *plus = s ? strrchr(s, '+') : NULL;

	if (plus)
		*plus = 0;	/* usym() names the function only */
	if (s)
		fputs(s, f);
	else
		fprintf(f, "0x%" PRIx64, addr);
	free(s);
}

static void print_site(FILE *f, uint64_t number, bool func, const struct format_names *names)
{
	const char *s = names && names->site ? names->site(names->data, number, func) : NULL;

	if (s)
		fputs(s, f);
	else
		fprintf(f, "%" PRIu64, number);
}

/* strftime with %f for microseconds. */
static void print_time(FILE *f, const char *format, int64_t ns)
{
	time_t t = ns / 1000000000;
	char text[512], *with, *f_at, usec[8];
	struct tm tm;

	snprintf(usec, sizeof(usec), "%06d", (int)(ns % 1000000000 / 1000) % 1000000);
	with = xstrdup(format);
	while ((f_at = strstr(with, "%f"))) {
		char *longer = xasprintf("%.*s%s%s", (int)(f_at - with), with, usec, f_at + 2);

		free(with);
		with = longer;
	}
	localtime_r(&t, &tm);
	if (*with && strftime(text, sizeof(text), with, &tm))
		fputs(text, f);
	free(with);
}

/* %r: as text where possible; x: all as \x.., h: pairs of digits. */
static void print_bytes(FILE *f, const uint8_t *p, uint32_t len, char style)
{
	uint32_t i;

	for (i = 0; i < len; i++) {
		if (style == 'h')
			fprintf(f, "%s%02x", i ? " " : "", p[i]);
		else if (style == 'x' || p[i] < 32 || p[i] > 126)
			fprintf(f, "\\x%02x", p[i]);
		else
			fputc(p[i], f);
	}
}

static void print_part(FILE *f, const struct ir_unit *u, uint8_t type, uint32_t show, const struct field_value *v,
		       const struct format_names *names, int indent)
{
	if (v->fault) {
		fputs(fault_word(v), f);
		return;
	}
	switch ((enum ir_type)type) {
	case IR_I8: case IR_I16: case IR_I32: case IR_I64: fprintf(f, "%" PRId64, v->n.i); break;
	case IR_U8: case IR_U16: case IR_U32: case IR_U64: fprintf(f, "%" PRIu64, v->n.u); break;
	case IR_F32: case IR_F64: fprintf(f, "%g", v->n.f); break;
	case IR_BOOL:	fputs(v->n.u ? "true" : "false", f); break;
	case IR_PTR:	fprintf(f, "0x%" PRIx64, v->n.u); break;
	case IR_CHAR:	fputc(v->n.u, f); break;
	case IR_ENUM:	format_number(f, u, show, v->n.i); break;
	case IR_USTACK:	print_stack(f, v->n.u, show, indent, names); break;
	case IR_USYM:	print_symbol(f, v->n.u, names); break;
	case IR_PROBE: case IR_FUNC: print_site(f, v->n.u, type == IR_FUNC, names); break;
	case IR_TIME:
		print_time(f, show < u->strings.n ? u->strings.v[show] : "", (int64_t)(v->n.u + (names ? (uint64_t)names->wall_offset : 0)));
		break;
	case IR_STR:
		fwrite(v->text, 1, v->len, f);
		if (v->full && show == IR_SHOW_LIMIT && names && names->trailer)
			fputs(names->trailer, f);
		break;
	case IR_BUF:	print_bytes(f, v->text, v->len, 0); break;
	case IR_STRUCT: case IR_ARRAY: format_object(f, u, show, v->text, v->len); break;
	case IR_ADDRS:	print_bytes(f, v->text, v->len, 0); break;
	}
}

/* May a value of that type hold text of the target's? Stacks take care of their names themselves. */
static bool holds_text(uint8_t type)
{
	return type >= IR_CHAR && type != IR_USTACK && type != IR_TIME;
}

void format_part(FILE *f, const struct ir_unit *u, uint8_t type, uint32_t show, const struct field_value *v,
		 const struct format_names *names, int indent)
{
	char *text = NULL;
	size_t size;
	FILE *m = names && names->safe && holds_text(type) ? xmemstream(&text, &size) : NULL;

	print_part(m ? m : f, u, type, show, v, names, indent);
	if (!m)
		return;
	fclose(m);
	write_safe(f, text, size, "");
	free(text);
}

void format_value(FILE *f, const struct ir_unit *u, uint8_t type, uint32_t show, const struct field_value *v,
		  const struct format_names *names)
{
	format_part(f, u, type, show, v, names, STACK_INDENT);
}

/* ---- printf ---- */

static void print_text(FILE *f, const struct conv *c, const char *s, size_t len)
{
	int width = c->width < 0 ? 0 : c->width, n = c->precision >= 0 ? (int)MIN((size_t)c->precision, len) : (int)len;
	bool left = strchr(c->flags, '-');

	if (!left && width > n)
		fprintf(f, "%*s", width - n, "");
	fwrite(s, 1, n, f);
	if (left && width > n)
		fprintf(f, "%*s", width - n, "");
}

/* Anything that is first made into text. */
static void print_as_text(FILE *f, const struct ir_unit *u, const struct conv *c, const struct ir_field *field,
			  const struct field_value *v, const struct format_names *names)
{
	char *text = NULL;
	size_t size;
	FILE *m = xmemstream(&text, &size);

	if (!m)
		return;
	if (field->type == IR_BUF && !v->fault)
		print_bytes(m, v->text, v->len, c->style);
	else
		format_value(m, u, field->type, field->show, v, names);
	fclose(m);
	print_text(f, c, text, size);
	free(text);
}

/* Without l, numbers are shown as an int: the low 32 bits. */
static int64_t sized(const struct conv *c, int64_t v)
{
	bool sign = c->kind == 'd';

	if (c->size == 1)
		return sign ? (int64_t)(int8_t)v : (int64_t)(uint8_t)v;
	if (c->size == 2)
		return sign ? (int64_t)(int16_t)v : (int64_t)(uint16_t)v;
	if (c->size == 4)
		return sign ? (int64_t)(int32_t)v : (int64_t)(uint32_t)v;
	return v;
}

static void print_conv(FILE *f, const struct ir_unit *u, const struct conv *c, const struct ir_field *field,
		       const struct field_value *v, const struct format_names *names)
{
	char spec[64], width[16] = "", precision[16] = "";

	if (v->fault || c->kind == 's' || c->kind == 'r' ||
	    (field->type == IR_ENUM && field->show < u->shown.n && u->shown.v[field->show]->kind == V_SHOWN)) {
		print_as_text(f, u, c, field, v, names);
		return;
	}
	if (c->width >= 0)
		snprintf(width, sizeof(width), "%d", c->width);
	if (c->precision >= 0)
		snprintf(precision, sizeof(precision), ".%d", c->precision);
	if (strchr("fega", c->kind)) {
		snprintf(spec, sizeof(spec), "%%%s%s%s%c", c->flags, width, precision, c->kind);
		fprintf(f, spec, v->n.f);
	} else if (c->kind == 'c' && names && names->safe && !text_plain((char[]){ v->n.u }, 1)) {
		print_text(f, c, width, snprintf(width, sizeof(width), "\\x%02x", (uint8_t)v->n.u));
	} else if (c->kind == 'c') {
		snprintf(spec, sizeof(spec), "%%%s%sc", c->flags, width);
		fprintf(f, spec, (int)v->n.u);
	} else if (c->kind == 'p') {
		snprintf(spec, sizeof(spec), "%%#%s%sllx", c->flags, width);
		if (v->n.u)
			fprintf(f, spec, (unsigned long long)v->n.u);
		else
			print_text(f, c, "(nil)", 5);	/* as libc does */
	} else {
		snprintf(spec, sizeof(spec), "%%%s%s%sll%c", c->flags, width, precision, c->kind);
		fprintf(f, spec, (long long)sized(c, v->n.i));
	}
}

static void print_format(FILE *f, const struct ir_unit *u, const struct ir_record *r, const struct field_value *v,
			 const struct format_names *names)
{
	const char *s = r->text;
	uint32_t field = 0;
	struct conv c;
	size_t n;

	for (; *s; s += n) {
		n = *s == '%' ? format_conv(s, &c) : 0;
		if (!n) {
			fputc(*s, f);
			n = 1;
		} else if (c.kind == '%') {
			fputc('%', f);
		} else if (field < r->nfields) {
			print_conv(f, u, &c, &r->fields[field], &v[field], names);
			field++;
		}
	}
}

static void print_shape(FILE *f, const struct ir_unit *u, const struct ir_record *r, const struct field_value *v,
			const struct format_names *names)
{
	const char *s = r->text;
	uint32_t field = 0;

	for (; *s; s++) {
		if (*s != '%') {
			print_name(f, (char[]){ *s, 0 }, names);
		} else if (field < r->nfields) {
			format_value(f, u, r->fields[field].type, r->fields[field].show, &v[field], names);
			field++;
		}
	}
	fputc('\n', f);
}

static void print_record(FILE *f, const struct ir_unit *u, const struct ir_record *r, const struct field_value *v,
			 const struct format_names *names)
{
	uint32_t i;

	for (i = 0; i < r->nfields; i++) {
		fputs(i ? " " : "", f);
		print_name(f, r->fields[i].name ? r->fields[i].name : "", names);
		fputc('=', f);
		format_value(f, u, r->fields[i].type, r->fields[i].show, &v[i], names);
	}
	fputc('\n', f);
}

/* The first field says how many of the others there are. */
static void print_join(FILE *f, const struct ir_record *r, const struct field_value *v, const struct format_names *names)
{
	uint64_t n = r->nfields ? MIN(v[0].n.u, (uint64_t)r->nfields - 1) : 0, i;

	for (i = 1; i <= n; i++) {
		fputs(i > 1 ? r->text : "", f);
		if (v[i].fault)
			fputs(fault_word(&v[i]), f);
		else if (names && names->safe)
			write_safe(f, (const char *)v[i].text, v[i].len, "");
		else
			fwrite(v[i].text, 1, v[i].len, f);
	}
	fputc('\n', f);
}

static void print_wall_time(FILE *f, const struct ir_record *r)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	print_time(f, r->text, now.tv_sec * 1000000000ll + now.tv_nsec);
}

int format_event(FILE *f, const struct ir_unit *u, uint32_t record, const uint8_t *payload, size_t len,
		 const struct format_names *names)
{
	const struct ir_record *r;
	struct field_value *v;

	if (record >= u->records.n)
		return -EBADMSG;
	r = &u->records.v[record];
	v = xcalloc(r->nfields, sizeof(*v));
	if (format_fields(r, payload, len, v) < 0) {
		free(v);
		return -EBADMSG;
	}
	for (uint32_t i = 0; names && names->known && i < r->nfields; i++)
		if (r->fields[i].known)
			names->known(names->data, r->fields[i].known, &v[i]);
	switch ((enum ir_record_kind)r->kind) {
	case IR_RECORD_PRINTF: case IR_RECORD_CAT: case IR_RECORD_SYSTEM: print_format(f, u, r, v, names); break;
	case IR_RECORD_ERRORF: case IR_RECORD_WARNF:
		if (names && names->source)
			diag_place(f, names->source, r->at, r->len);
		fputs(r->kind == IR_RECORD_ERRORF ? "ERROR: " : "WARNING: ", f);
		print_format(f, u, r, v, names);
		fputc('\n', f);
		break;
	case IR_RECORD_JOIN: print_join(f, r, v, names); break;
	case IR_RECORD_PRINT: print_shape(f, u, r, v, names); break;
	case IR_RECORD_EVENT: print_record(f, u, r, v, names); break;
	case IR_RECORD_TIME: print_wall_time(f, r); break;
	default:	break;	/* maps and exit are the caller's matter */
	}
	free(v);
	return 0;
}
