/* SPDX-License-Identifier: MIT */
/*
 * Events as JSON, one object per line:
 *
 *	{"time":1,"cpu":0,"pid":77,"tid":78,"comm":"prog","probe":"libc:malloc","fields":{"size":24}}
 *
 * Pointers are text, "0x..."; bytes are text in hex; a string that was cut is {"cut":"text"}; a value that could
 * not be read is {"fault":"0xADDR"}, or {"unreadable":"0xADDR"} if no read was allowed (null if the address is not
 * known); an enum is {"value":5,"name":"GREEN"}, without a name if the value has none; a backtrace is a list of {"address":"0x...","name":"main+0x12"}, without a name if none is known.
 */
#include "base/addr.h"
#include "base/utf8.h"
#include "trace/line.h"

#include <math.h>

static void put_json_char(struct line *l, const uint8_t *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";

	if (!len)
		put_word(l, "\\ufffd");
	else if (*s == '"' || *s == '\\')
		put_bytes(l, (char[]){ '\\', *s }, 2);
	else if (*s < 0x20 || *s == 0x7f)
		put_bytes(l, (char[]){ '\\', 'u', '0', '0', hex[*s >> 4], hex[*s & 15] }, 6);
	else
		put_bytes(l, (const char *)s, len);
}

/* Bytes that are not UTF-8 become a replacement character: JSON can't express them. */
static void put_json_text(struct line *l, const uint8_t *s, size_t n)
{
	size_t len;

	put_char(l, '"');
	for (size_t i = 0; i < n; i += len ? len : 1) {
		len = utf8_len(s + i, n - i);
		put_json_char(l, s + i, len);
	}
	put_char(l, '"');
}

static void put_json_word(struct line *l, const char *s)
{
	put_json_text(l, (const uint8_t *)s, strlen(s));
}

static void put_json_address(struct line *l, uint64_t address)
{
	put_char(l, '"');
	put_power(l, address, 4);
	put_char(l, '"');
}

/* Infinity and NaN can't be written as JSON numbers. */
static void put_json_float(struct line *l, double f, unsigned int bits)
{
	bool odd = !isfinite(f);

	if (odd)
		put_char(l, '"');
	put_float(l, f, bits);
	if (odd)
		put_char(l, '"');
}

static void put_json_number(struct line *l, const struct trace_value *v)
{
	switch (v->field->kind) {
	case CTF_FLOAT:
		put_json_float(l, v->f, v->field->bits);
		break;
	case CTF_POINTER:
		put_json_address(l, v->u);
		break;
	case CTF_SIGNED:
		put_signed(l, v->i);
		break;
	default:
		put_decimal(l, v->u);
	}
}

static void put_json_scalar(struct line *l, const struct trace_value *v)
{
	const char *name = v->field->nvalues ? field_value_name(v->field, v->i) : NULL;

	if (v->field->nvalues)
		put_word(l, "{\"value\":");
	put_json_number(l, v);
	if (name) {
		put_word(l, ",\"name\":");
		put_json_word(l, name);
	}
	if (v->field->nvalues)
		put_char(l, '}');
}

static void put_json_frame(struct line *l, const struct trace_event *ev, uint64_t address, bool is_return)
{
	char name[1024];
	size_t n = l->style->name ? l->style->name(l->style->arg, ev, address, is_return, name, sizeof(name)) : 0;

	put_word(l, "{\"address\":");
	put_json_address(l, address);
	if (n) {
		put_word(l, ",\"name\":");
		put_json_text(l, (const uint8_t *)name, MIN(n, sizeof(name)));
	}
	put_char(l, '}');
}

static void put_json_fault(struct line *l, const struct trace_value *v)
{
	if (v->has_address && v->address == ADDR_TAIL_CALL) {
		put_word(l, "{\"unknown\":\"tail call\"}");
		return;
	}
	if (v->has_address && v->address == ADDR_NOT_KEPT) {
		put_word(l, "{\"unknown\":\"optimized out\"}");
		return;
	}
	if (v->has_address && v->address == ADDR_NO_FRAME) {
		put_word(l, "{\"unknown\":\"none\"}");
		return;
	}
	if (v->has_address && v->address == ADDR_NO_RESULT) {
		put_word(l, "{\"unknown\":\"void\"}");
		return;
	}
	put_word(l, v->fault == READ_FAULT ? "{\"fault\":" : "{\"unreadable\":");
	if (v->has_address)
		put_json_address(l, v->address);
	else
		put_word(l, "null");
	put_char(l, '}');
}

/* The last element of a backtrace that ended early is the fault. */
static void put_json_list(struct line *l, const struct trace_event *ev, const struct trace_value *v)
{
	put_char(l, '[');
	for (uint32_t i = 0; i < v->len; i++) {
		struct trace_value e = trace_element(v, i);

		if (i)
			put_char(l, ',');
		if (v->field->kind == CTF_ADDRS)
			put_json_frame(l, ev, e.u, i > 0);
		else
			put_json_number(l, &e);
	}
	if (v->fault != READ_WELL) {
		if (v->len)
			put_char(l, ',');
		put_json_fault(l, v);
	}
	put_char(l, ']');
}

static void put_json_string(struct line *l, const struct trace_value *v)
{
	if (v->cut)
		put_word(l, "{\"cut\":");
	put_json_text(l, v->bytes, v->len);
	if (v->cut)
		put_char(l, '}');
}

static void put_json_value(struct line *l, const struct trace_event *ev, const struct trace_value *v)
{
	if (v->field->kind == CTF_ADDRS) {
		put_json_list(l, ev, v);
	} else if (v->fault != READ_WELL) {
		put_json_fault(l, v);
	} else if (v->field->kind == CTF_STRING || v->field->is_text) {
		put_json_string(l, v);
	} else if (v->field->kind == CTF_BYTES) {
		put_char(l, '"');
		put_hex(l, v->bytes, v->len);
		put_char(l, '"');
	} else if (v->field->count) {
		put_json_list(l, ev, v);
	} else {
		put_json_scalar(l, v);
	}
}

static void put_json_number_of(struct line *l, const char *key, int64_t v)
{
	put_word(l, key);
	put_signed(l, v);
}

void put_json_event(struct line *l, const struct trace_event *ev)
{
	size_t i = 0, pos = 0;
	struct trace_value v;
	bool more = false;

	put_json_number_of(l, "{\"time\":", shown_ns(l->style, ev));
	if (ev->cpu == CTF_NO_CPU)
		put_word(l, ",\"cpu\":null");
	else
		put_json_number_of(l, ",\"cpu\":", ev->cpu);
	put_json_number_of(l, ",\"pid\":", ev->pid);
	put_json_number_of(l, ",\"tid\":", ev->tid);
	put_word(l, ",\"comm\":");
	put_json_word(l, l->style->comm ? l->style->comm(l->style->arg, ev) : "");
	put_word(l, ",\"probe\":");
	put_json_word(l, ev->class->name);
	put_word(l, ",\"fields\":{");
	while (trace_value(ev, &i, &pos, &v)) {
		if (i == 1 && ev->class->has_faults)
			continue;
		if (more)
			put_char(l, ',');
		more = true;
		put_json_word(l, v.field->name);
		put_char(l, ':');
		put_json_value(l, ev, &v);
	}
	put_bytes(l, "}}\n", 3);
}
