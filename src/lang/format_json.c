/* SPDX-License-Identifier: MIT */
/*
 * Events and maps as JSON, one object a line, in the shapes that bpftrace's users know:
 *
 *	{"type": "printf", "data": "text\n"}		also time, join, cat; system() is "syscall"
 *	{"type": "errorf", "msg": "text", "filename": "stdin", "line": 1, "col": 9}	also warnf
 *	{"type": "value", "data": 5}			print(); tuples are lists, structs are objects
 *	{"type": "record", "data": {"name": 5}}
 *	{"type": "map", "data": {"@": 5}}, {"type": "map", "data": {"@": {"key,key": 5}}}
 *	{"type": "stats", "data": {"@": {"count": 2, "average": 6, "total": 12}}}	avg(): the number
 *	{"type": "hist", "data": {"@": [{"min": 2, "max": 3, "count": 1}]}}		a bucket without an end has no max
 *	{"type": "quantile", "data": {"@": {"count": 2, "quantiles": {"0.5": 6}}}}
 *
 * Blanks stand behind the colons and commas of objects, and not in lists. Addresses and enumerators are numbers; what could not be read is {"fault": "0xADDR"}, or
 * {"unreadable": "0xADDR"} if no read was allowed.
 */
#include "lang/format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "lang/type.h"

struct writer {
	FILE *f;
	const struct ir_unit *u;
	const struct ir_map *m;
	uint64_t div;
	const struct format_names *names;
};

/* ---- objects ---- */

static void put_object(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len);

/* Members of one without a name belong to what is around it. */
static void put_members(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len, bool *more)
{
	const struct type *of = t->types ? type_get(t->types, t->id) : NULL;
	uint64_t i, n = of ? of->n : t->nmembers;
	struct vmember m;

	for (i = 0; i < n; i++) {
		if (of)
			m = (struct vmember){ of->members[i].name, v_from(pool, t->types, of->members[i].type), of->members[i].bit_off,
					      of->members[i].bit_size };
		else
			m = t->members[i];
		if (m.bit_off / 8 > len || (!m.bit_size && m.type->size > len - m.bit_off / 8))
			continue;
		if (!m.name || !*m.name) {
			if (m.type->kind == V_STRUCT)
				put_members(f, pool, m.type, p + m.bit_off / 8, m.type->size, more);
			continue;
		}
		fputs(*more ? ", " : "", f);
		*more = true;
		json_string(f, m.name, strlen(m.name));
		fputs(": ", f);
		if (m.bit_size)
			format_bits(f, &m, p, len);
		else
			put_object(f, pool, m.type, p + m.bit_off / 8, m.type->size);
	}
}

static void put_array(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len)
{
	uint64_t i;

	if (v_is_char_array(t)) {
		json_string(f, (const char *)p, strnlen((const char *)p, MIN(t->n, len)));
		return;
	}
	fputc('[', f);
	for (i = 0; i < t->n && (i + 1) * t->to->size <= len; i++) {
		fputs(i ? "," : "", f);
		put_object(f, pool, t->to, p + i * t->to->size, t->to->size);
	}
	fputc(']', f);
}

/* Addresses and enumerators: who reads this wants the number. */
static void put_integer(FILE *f, const struct vtype *t, const uint8_t *p, size_t len)
{
	unsigned int unused = 64 - 8 * MIN(t->size, 8u);
	uint64_t v = 0;

	memcpy(&v, p, MIN(MIN(t->size, 8u), len));
	if (t->is_signed)
		fprintf(f, "%" PRId64, (int64_t)(v << unused) >> unused);
	else
		fprintf(f, "%" PRIu64, v);
}

static void put_object(FILE *f, struct pool *pool, const struct vtype *t, const uint8_t *p, size_t len)
{
	bool more = false;
	char *text = NULL;
	size_t size;
	FILE *m;

	if (t->kind == V_STRUCT && !format_is_variant(t)) {
		fputc('{', f);
		put_members(f, pool, t, p, len, &more);
		fputc('}', f);
		return;
	}
	if (t->kind == V_ARRAY) {
		put_array(f, pool, t, p, len);
		return;
	}
	if (t->kind == V_PTR || (t->kind == V_INT && t->show == IR_ENUM)) {
		put_integer(f, t, p, len);
		return;
	}
	m = xmemstream(&text, &size);
	format_typed(m, pool, t, p, len);
	fclose(m);
	json_word(f, text, size);
	free(text);
}

/* ---- values ---- */

static char *text_of(const struct writer *w, uint8_t type, uint32_t show, const struct field_value *v, size_t *ret_len)
{
	char *text = NULL;
	FILE *m = xmemstream(&text, ret_len);

	format_part(m, w->u, type, show, v, w->names, 4);
	fclose(m);
	return text;
}

/* What is text stays text, also where it looks like a number. */
static bool is_text(uint8_t type)
{
	return type == IR_STR || type == IR_BUF || type == IR_CHAR || type == IR_USYM || type == IR_PROBE || type == IR_FUNC ||
	       type == IR_TIME || type == IR_USTACK;
}

static void put_value(const struct writer *w, uint8_t type, uint32_t show, const struct field_value *v)
{
	struct pool pool = { 0 };
	size_t len;
	char *text;

	if (v->fault) {
		fprintf(w->f, v->n.u ? "{\"%s\": \"0x%" PRIx64 "\"}" : "{\"%s\": null}", v->refused ? "unreadable" : "fault", v->n.u);
	} else if (type == IR_STRUCT && show < w->u->shown.n) {
		put_object(w->f, &pool, w->u->shown.v[show], v->text, v->len);
	} else if (type == IR_PTR) {
		fprintf(w->f, "%" PRIu64, v->n.u);
	} else if (type == IR_ENUM && show < w->u->shown.n && w->u->shown.v[show]->kind == V_INT) {
		fprintf(w->f, "%" PRId64, v->n.i);
	} else if (ir_is_float(type) && isfinite(v->n.f)) {
		fprintf(w->f, "%.17g", v->n.f);
	} else {
		text = text_of(w, type, show, v, &len);
		if (is_text(type))
			json_string(w->f, text, len);
		else
			json_word(w->f, text, len);
		free(text);
	}
	pool_free(&pool);
}

/* Parts of keys and values, one behind the other. */
static const uint8_t *take_part(const struct ir_part *part, const uint8_t *at, struct field_value *ret_value)
{
	*ret_value = (struct field_value){ 0 };
	if (!ir_in_slot(part->type)) {
		memcpy(&ret_value->n, at, 8);
		return at + 8;
	}
	memcpy(&ret_value->len, at, 4);
	ret_value->text = at + 4;
	return at + 4 + ret_value->len;
}

/* "(%, (%, %))" is [%,[%,%]], "{ .a = %, .b = % }" is {"a": %, "b": %}. Returns the last character that was taken. */
static const char *put_sign(FILE *f, const char *s)
{
	size_t n;

	if (*s == '.') {
		n = strcspn(++s, " ");
		json_string(f, s, n);
		fputs(": ", f);
		return s + n + strlen(" = ") - 1;
	}
	if (*s == ',' && s[1] == ' ' && s[2] == '.')
		fputs(", ", f);
	else if (*s != ' ')
		fputc(*s == '(' ? '[' : *s == ')' ? ']' : *s, f);
	return s;
}

/* ---- maps ---- */

static void put_key(const struct writer *w, const struct map_entry *e)
{
	const uint8_t *at = e->key;
	char *all = NULL, *text;
	size_t size, len;
	FILE *m = xmemstream(&all, &size);
	uint32_t i = 0;

	for (const char *s = w->m->key_shape; *s; s++) {
		struct field_value v;

		if (*s != '%') {
			if (*s != ' ')
				fputc(*s, m);
		} else if (i < w->m->nkeys) {
			at = take_part(&w->m->keys[i], at, &v);
			text = text_of(w, w->m->keys[i].type, w->m->keys[i].show, &v, &len);
			fwrite(text, 1, len, m);
			free(text);
			i++;
		}
	}
	fclose(m);
	json_string(w->f, all, size);
	free(all);
}

static void put_num(const struct writer *w, uint8_t type, num v)
{
	if (type == IR_F64 && isfinite(v.f))
		fprintf(w->f, "%.17g", v.f / w->div);
	else if (type == IR_F64)
		fprintf(w->f, "\"%g\"", v.f);
	else if (type == IR_U64)
		fprintf(w->f, "%" PRIu64, v.u / w->div);
	else
		fprintf(w->f, "%" PRId64, agg_divided(v.i, w->div));
}

static void put_values(const struct writer *w, const struct map_entry *e)
{
	const struct ir_map *m = w->m;
	const uint8_t *at = e->value;
	struct field_value v;
	uint32_t i = 0;

	for (const char *s = m->value_shape; *s; s++) {
		if (*s != '%') {
			s = put_sign(w->f, s);
		} else if (i < m->nvalues) {
			uint8_t t = m->values[i].type;

			at = take_part(&m->values[i], at, &v);
			if (m->nvalues == 1 && w->div > 1 && t <= IR_F64 && !ir_in_slot(t))
				put_num(w, ir_is_float(t) ? IR_F64 : ir_is_unsigned(t) ? IR_U64 : IR_I64, v.n);
			else
				put_value(w, t, m->values[i].show, &v);
			i++;
		}
	}
}

/* The range of a bucket, both ends in it; which ends it has. */
static void bucket_range(const struct ir_map *m, uint32_t i, uint32_t n, bool has[2], int64_t at[2])
{
	has[0] = i > 0;
	has[1] = true;
	if (m->kind == IR_MAP_HIST) {
		hist_range(i, m->bits, &at[0], &at[1]);
		has[1] = i == 0 || at[1] != INT64_MAX;
		at[1] = i == 0 ? -1 : at[1] - 1;
		return;
	}
	has[1] = i < n - 1;
	at[0] = i == n - 1 ? m->hi : m->lo + (int64_t)(i - 1) * m->step;
	at[1] = i == 0 ? m->lo - 1 : MIN(at[0] + m->step, m->hi) - 1;
}

static void put_hist(const struct writer *w, const struct agg *a)
{
	uint32_t n = agg_buckets(w->m), i, first = n, last = 0;
	int64_t at[2];
	bool has[2];

	for (i = 0; a->buckets && i < n; i++)
		if (a->buckets[i]) {
			first = MIN(first, i);
			last = i;
		}
	fputc('[', w->f);
	for (i = first; i < n && i <= last; i++) {
		bucket_range(w->m, i, n, has, at);
		fputs(i > first ? ",{" : "{", w->f);
		if (has[0])
			fprintf(w->f, "\"min\": %" PRId64 ", ", at[0]);
		if (has[1])
			fprintf(w->f, "\"max\": %" PRId64 ", ", at[1]);
		fprintf(w->f, "\"count\": %" PRIu64 "}", a->buckets[i] / w->div);
	}
	fputc(']', w->f);
}

static void put_stats(const struct writer *w, const struct agg *a)
{
	struct ir_map avg = *w->m;

	avg.kind = IR_MAP_AVG;
	fprintf(w->f, "{\"count\": %" PRIu64 ", \"average\": ", a->count);
	put_num(w, w->m->num, agg_value(&avg, a));
	fputs(", \"total\": ", w->f);
	put_num(w, w->m->num, a->sum);
	fputc('}', w->f);
}

static void put_quantiles(const struct writer *w, const struct agg *a)
{
	fprintf(w->f, "{\"count\": %" PRIu64 ", \"quantiles\": {", a->count);
	for (uint32_t i = 0; i < w->m->nquantiles; i++)
		fprintf(w->f, "%s\"%g\": %" PRId64, i ? ", " : "", w->m->quantiles[i],
			agg_divided(agg_quantile(a, w->m->quantiles[i]), w->div));
	fputs("}}", w->f);
}

static void put_entry(const struct writer *w, const struct map_entry *e)
{
	switch ((enum ir_map_kind)w->m->kind) {
	case IR_MAP_VALUE:	put_values(w, e); break;
	case IR_MAP_COUNT:	fprintf(w->f, "%" PRIu64, e->agg->count / w->div); break;
	case IR_MAP_STATS:	put_stats(w, e->agg); break;
	case IR_MAP_QUANTILE:	put_quantiles(w, e->agg); break;
	case IR_MAP_HIST: case IR_MAP_LHIST: put_hist(w, e->agg); break;
	default:		put_num(w, w->m->num, agg_value(w->m, e->agg));
	}
}

static const char *map_type(const struct ir_map *m)
{
	switch ((enum ir_map_kind)m->kind) {
	case IR_MAP_HIST: case IR_MAP_LHIST:	return "hist";
	case IR_MAP_AVG: case IR_MAP_STATS:	return "stats";
	case IR_MAP_QUANTILE:			return "quantile";
	default:				return "map";
	}
}

void format_map_json(FILE *f, const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		     uint64_t div, const struct format_names *names)
{
	struct writer w = { .f = f, .u = u, .m = &u->maps.v[map], .div = div ? div : 1, .names = names };
	struct map_list list;

	format_sorted(u, map, ops, store, top, &list);
	fprintf(f, "{\"type\": \"%s\", \"data\": {", map_type(w.m));
	json_string(f, w.m->name, strlen(w.m->name));
	fputs(w.m->nkeys ? ": {" : list.n ? ": " : ": null", f);
	for (size_t i = 0; i < list.n; i++) {
		fputs(i ? ", " : "", f);
		if (w.m->nkeys) {
			put_key(&w, &list.v[i]);
			fputs(": ", f);
		}
		put_entry(&w, &list.v[i]);
	}
	fputs(w.m->nkeys ? "}}}\n" : "}}\n", f);
	vec_free(&list);
}

/* ---- events ---- */

static const char *const event_types[] = {
	[IR_RECORD_PRINTF] = "printf", [IR_RECORD_TIME] = "time", [IR_RECORD_JOIN] = "join",
	[IR_RECORD_ERRORF] = "errorf", [IR_RECORD_WARNF] = "warnf", [IR_RECORD_CAT] = "cat",
	[IR_RECORD_SYSTEM] = "syscall",
};

/* errorf(), warnf(): the text has the severity in front and a newline behind it. */
static void put_message(const struct writer *w, const struct ir_record *r, const char *text, size_t len)
{
	size_t front = r->kind == IR_RECORD_ERRORF ? strlen("ERROR: ") : strlen("WARNING: ");
	struct diag at = w->names && w->names->source ? diag_at(w->names->source, r->at, r->len) : (struct diag){ 0 };

	fprintf(w->f, "{\"type\": \"%s\", \"msg\": ", event_types[r->kind]);
	json_string(w->f, text + front, len - front - 1);
	if (at.line) {
		fputs(", \"filename\": ", w->f);
		json_string(w->f, w->names->source->name, strlen(w->names->source->name));
		fprintf(w->f, ", \"line\": %u, \"col\": %u", at.line, at.column);
	}
	fputs("}\n", w->f);
}

/* What is made of text, as the text that it is. */
static int put_text(const struct writer *w, uint32_t record, const uint8_t *payload, size_t len)
{
	const struct ir_record *r = &w->u->records.v[record];
	struct format_names names = w->names ? *w->names : (struct format_names){ 0 };
	char *text = NULL;
	size_t size;
	FILE *m = xmemstream(&text, &size);
	int err;

	names.source = NULL;	/* a place is said by itself */
	err = format_event(m, w->u, record, payload, len, w->names ? &names : NULL);

	fclose(m);
	if (!err && (r->kind == IR_RECORD_ERRORF || r->kind == IR_RECORD_WARNF)) {
		put_message(w, r, text, size);
	} else if (!err) {
		if (r->kind != IR_RECORD_PRINTF && r->kind != IR_RECORD_TIME && size && text[size - 1] == '\n')
			size--;
		fprintf(w->f, "{\"type\": \"%s\", \"data\": ", event_types[r->kind]);
		json_string(w->f, text, size);
		fputs("}\n", w->f);
	}
	free(text);
	return err;
}

static void put_print(const struct writer *w, const struct ir_record *r, const struct field_value *v)
{
	uint32_t field = 0;

	fputs("{\"type\": \"value\", \"data\": ", w->f);
	for (const char *s = r->text; *s; s++) {
		if (*s != '%') {
			s = put_sign(w->f, s);
		} else if (field < r->nfields) {
			put_value(w, r->fields[field].type, r->fields[field].show, &v[field]);
			field++;
		}
	}
	fputs("}\n", w->f);
}

static void put_record(const struct writer *w, const struct ir_record *r, const struct field_value *v)
{
	fputs("{\"type\": \"record\", \"data\": {", w->f);
	for (uint32_t i = 0; i < r->nfields; i++) {
		const char *name = r->fields[i].name ? r->fields[i].name : "";

		fputs(i ? ", " : "", w->f);
		json_string(w->f, name, strlen(name));
		fputs(": ", w->f);
		put_value(w, r->fields[i].type, r->fields[i].show, &v[i]);
	}
	fputs("}}\n", w->f);
}

int format_event_json(FILE *f, const struct ir_unit *u, uint32_t record, const uint8_t *payload, size_t len,
		      const struct format_names *names)
{
	struct writer w = { .f = f, .u = u, .div = 1, .names = names };
	const struct ir_record *r = record < u->records.n ? &u->records.v[record] : NULL;
	struct field_value *v;
	int err;

	if (!r)
		return -EBADMSG;
	if (r->kind < sizeof(event_types) / sizeof(event_types[0]) && event_types[r->kind])
		return put_text(&w, record, payload, len);
	v = xcalloc(r->nfields + 1, sizeof(*v));
	err = format_fields(r, payload, len, v);
	if (!err && r->kind == IR_RECORD_PRINT)
		put_print(&w, r, v);
	else if (!err && r->kind == IR_RECORD_EVENT)
		put_record(&w, r, v);
	free(v);
	return err;
}
