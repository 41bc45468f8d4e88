/* SPDX-License-Identifier: MIT */
/*
 * Drives the trace writer and reader for test_ctf.py:
 *
 *	ctfwrite write DIR SEED COUNT	a trace with all types of fields, several streams, losses. Prints the lines
 *					that babeltrace2 --no-delta --clock-cycles must print, then "lost N".
 *					fd:N instead of a directory: as an archive to that descriptor
 *	ctfwrite run DIR MOST		packets until there are MOST events or more, then it sleeps; prints the number of
 *					events after each packet
 *	ctfwrite grow DIR MOST		the same with event classes, each used at once; prints their number
 *	ctfwrite fill DIR		packets until one fails; prints "written N" and "failed N"
 *	ctfwrite names DIR FILE ID ADDRESS...	a file at 0x10000000, a thread called worker, and a backtrace of it
 *	ctfwrite read DIR		the events as the reader prints them, then "lost N damaged N"
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "trace/ctf.h"
#include "trace/trace.h"

#define STREAMS 3
#define SPAN (256u << 10)

static uint64_t state;
static struct ctf *ctf;
static char host[256];

static uint64_t random_next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void must(int r)
{
	if (r >= 0)
		return;
	printf("error: %s\n", err_text());
	exit(1);
}

static void begin(const char *dir)
{
	struct ctf_options o = { .command = "trace \"a b\" \\ \n\tend" };
	struct clock_pair first;

	gethostname(host, sizeof(host) - 1);
	clock_look(&first);
	must(clock_measure(&first, &o.clock));
	if (strncmp(dir, "fd:", 3) == 0)
		must(ctf_create_pipe(atoi(dir + 3), dir, &o, &ctf));
	else
		must(ctf_create(dir, &o, &ctf));
}

/* --- write: every type ----------------------------------------------------------------- */

#define F(name_, kind_, bits_, base_, size_, count_) \
	{ .name = name_, .kind = kind_, .bits = bits_, .base = base_, .size = size_, .count = count_ }
static const struct ctf_field none[1];
static const struct ctf_field numbers[] = {
	F("a", CTF_SIGNED, 8, 10, 0, 0), F("b", CTF_SIGNED, 16, 0, 0, 0), F("c", CTF_SIGNED, 32, 10, 0, 0),
	F("d", CTF_SIGNED, 64, 10, 0, 0), F("e", CTF_UNSIGNED, 8, 10, 0, 0), F("f", CTF_UNSIGNED, 16, 10, 0, 0),
	F("g", CTF_UNSIGNED, 32, 16, 0, 0), F("h", CTF_UNSIGNED, 64, 8, 0, 0), F("int", CTF_POINTER, 0, 0, 0, 0),
	F("struct", CTF_UNSIGNED, 32, 10, 0, 0),
};
static const struct ctf_field mixed[] = {
	F("s->text", CTF_STRING, 0, 0, 0, 0), F("bytes", CTF_BYTES, 0, 0, 3, 0), F("s.text", CTF_STRING, 0, 0, 0, 0),
	F("x", CTF_FLOAT, 32, 0, 0, 0), F("y", CTF_FLOAT, 64, 0, 0, 0), F("9lives", CTF_UNSIGNED, 8, 16, 0, 0),
	F("last", CTF_STRING, 0, 0, 0, 0),
};
static const struct ctf_field lists[] = {
	F("_faults", CTF_UNSIGNED, 64, 16, 0, 0), F("i", CTF_SIGNED, 16, 10, 0, 3), F("x", CTF_UNSIGNED, 8, 16, 0, 5),
	F("none", CTF_ADDRS, 0, 0, 0, 0), F("f", CTF_FLOAT, 32, 0, 0, 3), F("p", CTF_POINTER, 0, 0, 0, 2),
	F("d", CTF_FLOAT, 64, 0, 0, 1), F("backtrace", CTF_ADDRS, 0, 0, 0, 0),
};
static const struct ctf_field at_end[] = { F("u", CTF_UNSIGNED, 32, 10, 0, 3) };
static const struct ctf_field narrow[] = { F("event", CTF_SIGNED, 16, 16, 0, 0) };

static const struct shape {
	const char *name;
	const struct ctf_field *fields;
	size_t n;
} shapes[] = {
	{ "exe:nothing", none, 0 },
	{ "libc:num\"bers\\", numbers, ARRAY_SIZE(numbers) },
	{ "ns::f<int, (char)34>(\303\251 const&)", mixed, ARRAY_SIZE(mixed) },
	{ "short one", narrow, ARRAY_SIZE(narrow) },
	{ "exe:lists", lists, ARRAY_SIZE(lists) },
	{ "an array at the end", at_end, ARRAY_SIZE(at_end) },
};

struct pen {
	uint8_t *at;
	FILE *out;
	const char *comma;
};

static void put(struct pen *p, const void *v, size_t n)
{
	memcpy(p->at, v, n);
	/* what is behind a narrow value may be anything */
	memset(p->at + n, 0xa5, align_up(n, 8) - n);
	p->at += align_up(n, 8);
}

/* Prints a number; returns its bytes. */
static uint64_t show_number(struct pen *p, const struct ctf_field *f, unsigned int bits)
{
	uint64_t whole = random_next() >> (random_next() % 64), raw;
	int64_t v = (int64_t)(whole << (64 - bits)) >> (64 - bits);

	raw = whole;
	raw = bits == 64 ? raw : raw & ((1ull << bits) - 1);
	if (f->kind == CTF_POINTER || f->base == 16)
		fprintf(p->out, "0x%" PRIX64, raw);
	else if (f->base == 8)
		fprintf(p->out, "0%" PRIo64, raw);
	else if (f->kind == CTF_SIGNED)
		fprintf(p->out, "%" PRId64, v);
	else
		fprintf(p->out, "%" PRIu64, raw);
	return whole;
}

static uint64_t show_float(struct pen *p, const struct ctf_field *f, unsigned int bits)
{
	float narrow_value = ldexp((double)(random_next() % 1000) - 500, -(int)(random_next() % 4));
	double value = narrow_value;
	uint64_t raw = 0;

	memcpy(&raw, bits == 32 ? (void *)&narrow_value : &value, bits / 8);
	fprintf(p->out, "%g", value);
	return raw;
}

static void put_numbers(struct pen *p, const struct ctf_field *f)
{
	unsigned int bits = f->kind == CTF_POINTER ? 64 : f->bits;
	uint8_t all[64];

	if (f->count)
		fputs("{ values = [ ", p->out);
	for (uint32_t i = 0; i < MAX(f->count, 1); i++) {
		uint64_t raw;

		if (f->count)
			fprintf(p->out, "%s[%u] = ", i ? ", " : "", i);
		raw = f->kind == CTF_FLOAT ? show_float(p, f, bits) : show_number(p, f, bits);
		memcpy(all + i * bits / 8, &raw, bits / 8);
	}
	if (f->count)
		fputs(" ] }", p->out);
	put(p, all, MAX(f->count, 1) * bits / 8);
}

static void put_addresses(struct pen *p, const char *name)
{
	uint64_t all[1 + 8] = { random_next() % 3 ? random_next() % 9 : 0 };

	fprintf(p->out, "%s_%s_length = %" PRIu64 ", %s = [", p->comma, name, all[0], name);
	for (uint32_t i = 1; i <= all[0]; i++) {
		all[i] = random_next() >> 16;
		fprintf(p->out, "%s[%u] = 0x%" PRIX64, i > 1 ? ", " : " ", i - 1, all[i]);
	}
	fputs(" ]", p->out);
	put(p, all, 8 + 8 * all[0]);
}

static void put_string(struct pen *p, const char *name)
{
	char text[4 + 64] = "";
	uint32_t len = random_next() % 20, end = len == 1 || random_next() % 2, all = len + end;	/* test_ctf.py: 1 is a NUL */

	memcpy(text, &all, 4);
	for (uint32_t i = 0; i < len; i++)
		text[4 + i] = "abc \\\"{}=,"[random_next() % 10];
	put(p, text, 4 + all);
	fprintf(p->out, "%s_%s_length = %u, %s = \"", p->comma, name, all, name);
	for (uint32_t i = 0; i < len; i++)
		fprintf(p->out, "%s%c", strchr("\\\"", text[4 + i]) ? "\\" : "", text[4 + i]);
	fputs("\"", p->out);
}

static void put_array(struct pen *p, const struct ctf_field *f)
{
	uint8_t b[64];

	fputs("{ bytes = [ ", p->out);
	for (uint32_t i = 0; i < f->size; i++) {
		b[i] = random_next();
		fprintf(p->out, "%s[%u] = 0x%X", i ? ", " : "", i, b[i]);
	}
	fputs(" ] }", p->out);
	put(p, b, f->size);
}

static void put_fields(struct pen *p, const struct shape *s)
{
	p->comma = " ";
	for (size_t i = 0; i < s->n; i++, p->comma = ", ") {
		char *name = tsdl_field_name(s->fields, i);

		if (field_varies(&s->fields[i])) {
			(s->fields[i].kind == CTF_STRING ? put_string : put_addresses)(p, name);
			free(name);
			continue;
		}
		fprintf(p->out, "%s%s = ", p->comma, name);
		free(name);
		if (s->fields[i].kind == CTF_BYTES)
			put_array(p, &s->fields[i]);
		else
			put_numbers(p, &s->fields[i]);
	}
}

static size_t put_event(uint8_t *at, uint64_t time, unsigned int stream, uint32_t id)
{
	struct ctf_event_head h = { id, 0, time, 100 + stream, random_next() };
	struct pen p = { at + sizeof(h), stdout, NULL };

	printf("[%020" PRIu64 "] %s %s: { cpu_id = %u }, { pid = %u, tid = %u }, {", time, host, shapes[id].name,
	       stream * 7, h.pid, h.tid);
	put_fields(&p, &shapes[id]);
	puts(" }");
	h.len = p.at - at;
	memcpy(at, &h, sizeof(h));
	return h.len;
}

static void flush(unsigned int stream, uint8_t *buf, size_t *len, uint64_t lost)
{
	struct ctf_span span;

	must(ctf_check(ctf, buf, *len, &span));
	must(ctf_packet(ctf, stream, stream * 7, &span, lost));
	*len = 0;
}

static void write_all(const char *dir, long count)
{
	static uint8_t buf[STREAMS][SPAN];
	size_t len[STREAMS] = { 0 };
	uint64_t lost[STREAMS] = { 0 }, time;
	size_t known = 0;

	begin(dir);
	time = clock_now();
	for (long i = 0; i < count; i++) {
		unsigned int s = random_next() % STREAMS;

		if (known < ARRAY_SIZE(shapes) && i >= (long)(known * count / 8)) {
			must(ctf_class(ctf, known, shapes[known].name, shapes[known].fields, shapes[known].n));
			known++;
		}
		len[s] += put_event(buf[s] + len[s], time += 4 + random_next() % 1000, s, random_next() % known);
		if (len[s] > SPAN - 1024 || random_next() % 200 == 0) {
			if (random_next() % 3 == 0)
				lost[s] += random_next() % 10;
			flush(s, buf[s], &len[s], lost[s]);
		}
	}
	for (unsigned int s = 0; s < STREAMS; s++)
		flush(s, buf[s], &len[s], lost[s] += s);
	printf("lost %" PRIu64 "\n", lost[0] + lost[1] + lost[2]);
	must(ctf_close(ctf));
}

/* --- the others: one class with a counter ------------------------------------------------------ */

struct counted {
	struct ctf_event_head head;
	uint64_t n;
};

static size_t fill_counted(struct counted *e, size_t n, uint64_t from, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		e[i] = (struct counted){ { id, sizeof(*e), clock_now(), 1, 1 }, from + i };
	return n * sizeof(*e);
}

static const struct ctf_field counter[] = { F("n", CTF_UNSIGNED, 64, 10, 0, 0) };

static void say(uint64_t n)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", n);

	if (write(1, text, len) != len)
		exit(1);
}

static void run(const char *dir, uint64_t most)
{
	static struct counted e[20000];
	uint64_t n = 0;

	begin(dir);
	must(ctf_class(ctf, 0, "exe:tick", counter, 1));
	while (n < most) {
		size_t count = 1 + random_next() % ARRAY_SIZE(e);
		size_t len = fill_counted(e, count, n, 0);

		flush(0, (uint8_t *)e, &len, 0);
		say(n += count);
	}
	pause();
}

static void grow(const char *dir, uint32_t most)
{
	struct counted e[1];
	char name[6000];

	begin(dir);
	for (uint32_t id = 0; id < most; id++) {
		size_t len, width = random_next() % (random_next() % 16 ? 300 : sizeof(name) - 1);

		memset(name, 'a', width);
		name[width] = 0;
		must(ctf_class(ctf, id, name, counter, 1));
		len = fill_counted(e, 1, id, id);
		flush(0, (uint8_t *)e, &len, 0);
		say(id + 1);
	}
	pause();
}

static void fill(const char *dir)
{
	static struct counted e[2000];
	struct ctf_stats stats;
	struct ctf_span span;
	int r = 0, bad = 0;
	uint64_t n = 0;

	begin(dir);
	must(ctf_class(ctf, 0, "exe:tick", counter, 1));
	while (bad < 3) {
		size_t len = fill_counted(e, ARRAY_SIZE(e), n, 0);

		must(ctf_check(ctf, e, len, &span));
		r = ctf_packet(ctf, 0, 0, &span, 0);
		n += ARRAY_SIZE(e);
		bad += r < 0;
	}
	stats = ctf_stats(ctf);
	printf("error: %s\nwritten %" PRIu64 "\nfailed %" PRIu64 "\n", err_text(), stats.events, stats.failed_events);
	r = ctf_close(ctf);
	printf("closed %d\n", r);
}

static void names(char **argv)
{
	static const struct ctf_field fields[] = {
		{ .name = "n", .kind = CTF_SIGNED, .bits = 32, .base = 10 }, { .name = "backtrace", .kind = CTF_ADDRS },
	};
	struct ctf_module m = { argv[3], argv[4], 0x10000000, 0x100000, 77 };
	struct ctf_thread thread = { "worker", 77, 78 };
	struct { struct ctf_event_head h; uint64_t n, count, at[16]; } e = { .n = 5 };
	size_t len;

	begin(argv[2]);
	must(ctf_class(ctf, 0, "exe:f", fields, 2));
	must(ctf_modules(ctf, &m, 1, clock_now()));
	must(ctf_threads(ctf, &thread, 1, clock_now()));
	for (argv += 5; *argv && e.count < 16; argv++)
		e.at[e.count++] = strtoull(*argv, NULL, 0);
	len = sizeof(e.h) + 16 + 8 * e.count;
	e.h = (struct ctf_event_head){ 0, len, clock_now(), 77, 78 };
	flush(0, (uint8_t *)&e, &len, 0);
	must(ctf_close(ctf));
}

static void read_back(const char *dir)
{
	struct trace_totals totals;
	struct trace_event ev;
	struct trace *t;

	must(trace_open(dir, &t));
	while (trace_next(t, &ev) > 0)
		must(trace_print_event(stdout, &ev));
	totals = trace_totals(t);
	printf("lost %" PRIu64 " damaged %" PRIu64 "\n", totals.lost, totals.damaged);
	trace_close(t);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	if (strcmp(argv[1], "write") == 0 && argc == 5) {
		state = strtoull(argv[3], NULL, 0);
		write_all(argv[2], atol(argv[4]));
	} else if (strcmp(argv[1], "run") == 0 && argc == 4) {
		run(argv[2], strtoull(argv[3], NULL, 0));
	} else if (strcmp(argv[1], "grow") == 0 && argc == 4) {
		grow(argv[2], strtoul(argv[3], NULL, 0));
	} else if (strcmp(argv[1], "fill") == 0) {
		fill(argv[2]);
	} else if (strcmp(argv[1], "names") == 0 && argc > 5) {
		names(argv);
	} else if (strcmp(argv[1], "read") == 0) {
		read_back(argv[2]);
	} else {
		return 2;
	}
	return 0;
}
