/* SPDX-License-Identifier: MIT */
/* Maps as bpftrace prints them: sorted by value, histograms with bars. */
#include "lang/format.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

#define BAR 52
#define KEY_INDENT 4

struct printer {
	FILE *f;
	const struct ir_unit *u;
	const struct ir_map *m;
	uint64_t div;
	const struct format_names *names;
};

/* ---- order ---- */

static bool is_number(const struct ir_map *m)
{
	return m->kind == IR_MAP_VALUE && m->nvalues == 1 && !ir_in_slot(m->values[0].type);
}

static num sort_value(const struct ir_map *m, const struct map_entry *e)
{
	num v = { 0 };

	if (m->kind == IR_MAP_VALUE) {
		if (is_number(m))
			memcpy(&v, e->value, 8);
		return v;
	}
	if (m->kind == IR_MAP_HIST || m->kind == IR_MAP_LHIST || m->kind == IR_MAP_QUANTILE)
		v.u = e->agg->count;
	else
		v = agg_value(m, e->agg);
	return v;
}

static uint8_t sort_type(const struct ir_map *m)
{
	if (m->kind == IR_MAP_VALUE)
		return is_number(m) ? (ir_is_float(m->values[0].type) ? IR_F64 : m->values[0].type) : IR_U64;
	return m->kind == IR_MAP_COUNT || m->kind >= IR_MAP_HIST ? IR_U64 : m->num;
}

static int by_key(const struct ir_map *m, const struct map_entry *a, const struct map_entry *b)
{
	const uint8_t *p = a->key, *q = b->key;
	uint32_t i, n, k;
	num x, y;
	int c;

	for (i = 0; i < m->nkeys; i++) {
		if (ir_in_slot(m->keys[i].type)) {
			memcpy(&n, p, 4);
			memcpy(&k, q, 4);
			c = memcmp(p + 4, q + 4, MIN(n, k));
			if (c || n != k)
				return c ? c : n < k ? -1 : 1;
			p += 4 + n;
			q += 4 + k;
		} else {
			memcpy(&x, p, 8);
			memcpy(&y, q, 8);
			if (x.u != y.u)
				return ir_is_float(m->keys[i].type) ? (x.f < y.f ? -1 : 1) : ir_is_unsigned(m->keys[i].type) ?
				       (x.u < y.u ? -1 : 1) : x.i < y.i ? -1 : 1;
			p += 8;
			q += 8;
		}
	}
	return 0;
}

static int by_value(const void *pa, const void *pb, void *arg)
{
	const struct ir_map *m = arg;
	num a = sort_value(m, pa), b = sort_value(m, pb);
	uint8_t t = sort_type(m);
	bool lt = t == IR_F64 ? a.f < b.f : ir_is_unsigned(t) ? a.u < b.u : a.i < b.i;

	if (a.u == b.u)
		return by_key(m, pa, pb);
	return lt ? -1 : 1;
}

/* ---- parts ---- */

/* As their shape says; p moves behind them. */
static void print_parts(const struct printer *p, const char *shape, const struct ir_part *parts, uint32_t n, const uint8_t *at)
{
	uint32_t i = 0;

	for (; *shape; shape++) {
		struct field_value v = { 0 };

		if (*shape != '%') {
			fputc(*shape, p->f);
			continue;
		}
		if (i == n)
			return;
		if (ir_in_slot(parts[i].type)) {
			memcpy(&v.len, at, 4);
			v.text = at + 4;
			v.full = v.len == parts[i].cap;
			at += 4 + v.len;
		} else {
			memcpy(&v.n, at, 8);
			at += 8;
		}
		format_part(p->f, p->u, parts[i].type, parts[i].show, &v, p->names, parts == p->m->keys ? KEY_INDENT : 2 * KEY_INDENT);
		i++;
	}
}

static void print_name(const struct printer *p, const struct map_entry *e)
{
	fputs(p->m->name, p->f);
	if (p->m->nkeys) {
		fputc('[', p->f);
		print_parts(p, p->m->key_shape, p->m->keys, p->m->nkeys, e->key);
		fputc(']', p->f);
	}
	fputs(p->m->kind == IR_MAP_HIST || p->m->kind == IR_MAP_LHIST ? ":" : ": ", p->f);
}

/* ---- histograms ---- */

static void print_bar(const struct printer *p, const char *label, uint64_t n, uint64_t most)
{
	int width = (float)n / (float)most * BAR;

	fprintf(p->f, "%-16s%8" PRIu64 " |%.*s%*s|\n", label, n / p->div, width,
		"@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@", BAR - width, "");
}

/* 4096 is 4K, and so on. */
static void short_number(char *out, size_t room, int64_t v, const char *units)
{
	int n = 0;

	while (v && v % 1024 == 0 && units[n]) {
		v /= 1024;
		n++;
	}
	snprintf(out, room, "%" PRId64 "%.1s", v, n ? units + n - 1 : "");
}

static void hist_label(const struct ir_map *m, uint32_t i, char *out, size_t room)
{
	char lo[32], hi[32];
	int64_t a, b;

	hist_range(i, m->bits, &a, &b);
	short_number(lo, sizeof(lo), a, "KMGT");
	if (b == INT64_MAX)
		snprintf(hi, sizeof(hi), "%s", m->bits ? "..." : "8388608T");
	else
		short_number(hi, sizeof(hi), b, "KMGT");
	if (i == 0)
		snprintf(out, room, "(..., 0)");
	else if (b - a == 1)
		snprintf(out, room, "[%s]", lo);
	else
		snprintf(out, room, "[%s, %s)", lo, hi);
}

static void lhist_label(const struct ir_map *m, uint32_t i, uint32_t n, char *out, size_t room)
{
	int64_t a = i == n - 1 ? m->hi : m->lo + (int64_t)(i - 1) * m->step, b = MIN(a + m->step, m->hi);
	char lo[32], hi[32];

	short_number(lo, sizeof(lo), i ? a : m->lo, "KM");
	short_number(hi, sizeof(hi), b, "KM");
	if (i == 0)
		snprintf(out, room, "(..., %s)", lo);
	else if (i == n - 1)
		snprintf(out, room, "[%s, ...)", lo);
	else
		snprintf(out, room, "[%s, %s)", lo, hi);
}

static void print_hist(const struct printer *p, const struct agg *a)
{
	uint32_t n = agg_buckets(p->m), i, first = n, last = 0;
	uint64_t most = 0;
	char label[80];

	for (i = 0; a->buckets && i < n; i++) {
		if (!a->buckets[i])
			continue;
		first = MIN(first, i);
		last = i;
		most = MAX(most, a->buckets[i]);
	}
	for (i = first; most && i <= last; i++) {
		if (p->m->kind == IR_MAP_HIST)
			hist_label(p->m, i, label, sizeof(label));
		else
			lhist_label(p->m, i, n, label, sizeof(label));
		print_bar(p, label, a->buckets[i], most);
	}
}

/* ---- entries ---- */

static void print_num(const struct printer *p, uint8_t type, num v)
{
	if (type == IR_F64)
		fprintf(p->f, "%g", v.f / p->div);
	else if (type == IR_U64)
		fprintf(p->f, "%" PRIu64, v.u / p->div);
	else
		fprintf(p->f, "%" PRId64, agg_divided(v.i, p->div));
}

static void print_stats(const struct printer *p, const struct agg *a)
{
	struct ir_map avg = *p->m;

	avg.kind = IR_MAP_AVG;
	fprintf(p->f, "{ .count = %" PRIu64 ", .average = ", a->count);
	print_num(p, p->m->num, agg_value(&avg, a));
	fputs(", .total = ", p->f);
	print_num(p, p->m->num, a->sum);
	fputs(" }", p->f);
}

static void print_quantiles(const struct printer *p, const struct agg *a)
{
	uint32_t i;

	fprintf(p->f, "count %" PRIu64, a->count);
	for (i = 0; i < p->m->nquantiles; i++)
		fprintf(p->f, ", %g%% %" PRId64, p->m->quantiles[i] * 100, agg_divided(agg_quantile(a, p->m->quantiles[i]), p->div));
}

static void print_value(const struct printer *p, const struct map_entry *e)
{
	uint8_t t;
	num v;

	switch ((enum ir_map_kind)p->m->kind) {
	case IR_MAP_VALUE:
		t = p->m->nvalues ? p->m->values[0].type : IR_STR;
		if (is_number(p->m) && p->div > 1 && t <= IR_F64) {
			memcpy(&v, e->value, 8);
			print_num(p, ir_is_float(t) ? IR_F64 : ir_is_unsigned(t) ? IR_U64 : IR_I64, v);
		} else {
			print_parts(p, p->m->value_shape, p->m->values, p->m->nvalues, e->value);
		}
		break;
	case IR_MAP_COUNT:
		fprintf(p->f, "%" PRIu64, e->agg->count / p->div);
		break;
	case IR_MAP_STATS:	print_stats(p, e->agg); break;
	case IR_MAP_QUANTILE:	print_quantiles(p, e->agg); break;
	case IR_MAP_HIST: case IR_MAP_LHIST:
		fputc('\n', p->f);
		print_hist(p, e->agg);
		break;
	default:
		print_num(p, p->m->num, agg_value(p->m, e->agg));
	}
}

/* The value of a map without keys that was never written: zeros and empty texts. */
static const struct map_entry *unset_entry(const struct ir_map *m)
{
	static const uint8_t zeros[8 * 64];
	static const struct agg none;
	static const struct map_entry e = { .key = zeros, .value = zeros, .value_len = sizeof(zeros), .agg = (struct agg *)&none };

	return !m->nkeys && m->nvalues <= 64 ? &e : NULL;
}

void format_sorted(const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		   struct map_list *ret_list)
{
	struct map_list list = { 0 };

	ops->list(store, map, &list);
	if (list.n)
		qsort_r(list.v, list.n, sizeof(list.v[0]), by_value, &u->maps.v[map]);
	if (top && list.n > top) {
		memmove(list.v, list.v + list.n - top, top * sizeof(list.v[0]));
		list.n = top;
	}
	if (!list.n && unset_entry(&u->maps.v[map]))
		*vec_add(&list) = *unset_entry(&u->maps.v[map]);
	*ret_list = list;
}

void format_map(FILE *f, const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		uint64_t div, const struct format_names *names)
{
	struct printer p = { .f = f, .u = u, .m = &u->maps.v[map], .div = div ? div : 1, .names = names };
	struct map_list list;
	size_t i;

	format_sorted(u, map, ops, store, top, &list);
	for (i = 0; i < list.n; i++) {
		print_name(&p, &list.v[i]);
		print_value(&p, &list.v[i]);
		fputc('\n', f);
	}
	vec_free(&list);
}

/* ---- for flame graphs ---- */

static bool can_fold(const struct ir_map *m)
{
	uint32_t i;

	for (i = 0; i < m->nkeys && m->keys[i].type != IR_USTACK; i++)
		;
	return i < m->nkeys && (is_number(m) || (m->kind >= IR_MAP_COUNT && m->kind <= IR_MAP_MAX));
}

/* A semicolon separates frames, so that no name may have one. */
static void put_frame(const struct printer *p, const char *s, size_t len, bool *more)
{
	char *copy = xcalloc(1, len + 1);

	for (size_t i = 0; i < len; i++)
		copy[i] = s[i] == ';' ? ':' : s[i] == '\n' ? ' ' : s[i];
	if (*more)
		fputc(';', p->f);
	if (p->names && p->names->safe)
		write_safe(p->f, copy, len, "");
	else
		fwrite(copy, 1, len, p->f);
	free(copy);
	*more = true;
}

static void fold_address(const struct printer *p, uint64_t addr, bool *more)
{
	char *symbol = p->names->symbol ? p->names->symbol(p->names->data, addr) : NULL, *plus = symbol ? strrchr(symbol, '+') : NULL;
	const char *module = p->names->module ? p->names->module(p->names->data, addr) : NULL;

	if (!symbol) {
		module = module ? module : "unknown";
		symbol = xasprintf("[%s]", strrchr(module, '/') ? strrchr(module, '/') + 1 : module);
	}
	put_frame(p, symbol, plus ? (size_t)(plus - symbol) : strlen(symbol), more);
	free(symbol);
}

static void fold_stack(const struct printer *p, uint64_t id, bool *more)
{
	uint64_t *frames = xcalloc(FORMAT_FRAMES, sizeof(*frames));
	uint32_t n = p->names && p->names->stack ? p->names->stack(p->names->data, id, frames, FORMAT_FRAMES) : 0;

	while (n)
		fold_address(p, frames[--n], more);
	free(frames);
}

/* A part of the key that is no stack, as text: a name, a number. */
static void fold_part(const struct printer *p, const struct ir_part *part, const struct field_value *v, bool *more)
{
	char *text = NULL;
	size_t size;
	FILE *f = xmemstream(&text, &size);

	format_part(f, p->u, part->type, part->show, v, p->names, 0);
	fclose(f);
	put_frame(p, text, size, more);
	free(text);
}

static void fold_keys(const struct printer *p, const struct map_entry *e, bool stacks, bool *more)
{
	const uint8_t *at = e->key;
	uint32_t i;

	for (i = 0; i < p->m->nkeys; i++) {
		const struct ir_part *part = &p->m->keys[i];
		struct field_value v = { 0 };

		if (ir_in_slot(part->type)) {
			memcpy(&v.len, at, 4);
			v.text = at + 4;
			at += 4 + v.len;
		} else {
			memcpy(&v.n, at, 8);
			at += 8;
		}
		if (stacks && part->type == IR_USTACK)
			fold_stack(p, v.n.u, more);
		else if (!stacks && part->type != IR_USTACK)
			fold_part(p, part, &v, more);
	}
}

void format_map_folded(FILE *f, const struct ir_unit *u, uint32_t map, const struct map_ops *ops, void *store, uint64_t top,
		       uint64_t div, const struct format_names *names)
{
	struct printer p = { .f = f, .u = u, .m = &u->maps.v[map], .div = div ? div : 1, .names = names };
	struct map_list list;
	size_t i;

	if (!can_fold(p.m)) {
		format_map(f, u, map, ops, store, top, div, names);
		return;
	}
	format_sorted(u, map, ops, store, top, &list);
	for (i = 0; i < list.n; i++) {
		bool more = false;

		/* what else is in the key stands where the outermost caller would */
		fold_keys(&p, &list.v[i], false, &more);
		fold_keys(&p, &list.v[i], true, &more);
		fputc(' ', f);
		print_value(&p, &list.v[i]);
		fputc('\n', f);
	}
	vec_free(&list);
}
