/* SPDX-License-Identifier: MIT */
/* The trace writer and reader against each other; test_ctf.py has babeltrace2 judge the same writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "arch/arch.h"
#include "trace/ctf.h"
#include "trace/layout.h"
#include "trace/meta.h"
#include "trace/trace.h"

#include <cmocka.h>		/* has a macro called fail */

static char top[] = "/tmp/test_ctf.XXXXXX";
static char path[64];
static const struct tsc_clock some_clock = { .hz = 2500000000, .offset_s = -100, .offset = 1250000000 };

struct counted {
	struct ctf_event_head head;
	uint64_t n;
};

static const struct ctf_field counter[] = { { .name = "n", .kind = CTF_UNSIGNED, .bits = 64, .base = 10 } };

static struct ctf *create(void)
{
	struct ctf_options o = { .clock = some_clock, .command = "x" };
	static int number;
	struct ctf *ctf = NULL;

	snprintf(path, sizeof(path), "%s/t%d", top, number++);
	assert_int_equal(ctf_create(path, &o, &ctf), 0);
	return ctf;
}

static struct ctf *create_counted(void)
{
	struct ctf *ctf = create();

	assert_int_equal(ctf_class(ctf, 5, "exe:tick", counter, 1), 0);
	return ctf;
}

static int write_counted(struct ctf *ctf, uint32_t stream, uint64_t time, uint64_t step, size_t n, uint64_t lost)
{
	struct counted *e = calloc(n, sizeof(*e));
	struct ctf_span span;
	int r;

	for (size_t i = 0; i < n; i++)
		e[i] = (struct counted){ { 5, sizeof(*e), time + i * step, 1, 2 }, time + i * step };
	assert_int_equal(ctf_check(ctf, e, n * sizeof(*e), &span), 0);
	assert_int_equal(span.events, n);
	r = ctf_packet(ctf, stream, stream, &span, lost);
	free(e);
	return r;
}

/* Read everything; times never go back, values are the times. Returns how many. */
static uint64_t read_counted(struct trace_totals *ret_totals)
{
	struct trace_event ev;
	struct trace *t;
	uint64_t last = 0;

	assert_int_equal(trace_open(path, &t), 0);
	while (trace_next(t, &ev) > 0) {
		struct trace_value v;
		size_t i = 0, pos = 0;

		assert_true(ev.ticks >= last);
		last = ev.ticks;
		assert_string_equal(ev.class->name, "exe:tick");
		assert_true(trace_value(&ev, &i, &pos, &v));
		assert_string_equal(v.field->name, "n");
		assert_int_equal(v.u, ev.ticks);
		assert_false(trace_value(&ev, &i, &pos, &v));
		assert_int_equal(ev.ns, clock_ns(&some_clock, ev.ticks));
		assert_int_equal(ev.cpu, ev.stream);
	}
	*ret_totals = trace_totals(t);
	trace_close(t);
	return ret_totals->events;
}

static void test_clock_numbers(void **unused)
{
	const struct tsc_clock old = { .hz = 3, .offset_s = INT64_MAX / 2, .offset = 2 };

	assert_int_equal(clock_ns(&some_clock, 0), -99500000000);
	assert_int_equal(clock_ns(&some_clock, 2500000001), -98500000000 + 0);
	assert_int_equal(clock_ns(&some_clock, 2500000003), -98500000000 + 1);
	assert_int_equal(clock_ticks(&some_clock, -98500000000), 2500000000);
	assert_int_equal(clock_ticks(&some_clock, INT64_MIN), 0);
	assert_int_equal(clock_ns(&old, UINT64_MAX), INT64_MAX);
	for (uint64_t t = 1; t < 1ull << 60; t = t * 3 + 1) {
		uint64_t again = clock_ticks(&some_clock, clock_ns(&some_clock, t));

		assert_true(again <= t && t - again <= 3);
	}
}

/* How far off the measured clock is. */
static int64_t clock_error(const struct tsc_clock *c)
{
	struct clock_pair now;
	int64_t off;

	clock_look(&now);
	off = clock_ns(c, now.ticks) - (int64_t)now.ns;
	return off < 0 ? -off : off;
}

/*
 * Half a second later the measured clock still agrees: less than 1 us a second. Somebody may set the rate of the
 * kernel's clock meanwhile, or take the CPU in each look: then once more.
 */
static void test_clock_measured(void **unused)
{
	int64_t at_once = INT64_MAX, later = INT64_MAX;
	struct clock_pair first;
	struct tsc_clock c;

	if (!arch_host()->clock->is_steady())
		skip();
	for (int i = 0; i < 10 && (at_once > 200 || later > 500); i++) {
		clock_look(&first);
		assert_int_equal(clock_measure(&first, &c), 0);
		at_once = clock_error(&c);
		sleep_ns(500000000);
		later = clock_error(&c);
	}
	assert_in_range(at_once, 0, 200);
	assert_in_range(later, 0, 500);
}

static void test_names(void **unused)
{
	static const struct ctf_field f[] = {
		{ .name = "a->b" }, { .name = "a::b" }, { .name = "$ret" }, { .name = "" }, { .name = "3x" }, { .name = "\303\251" },
		{ .name = "_s_length" }, { .name = "s_length" },
	};
	static const char *const want[] = { "a__b", "a__b__2", "_ret", "_", "_3x", "__", "_s_length_", "s_length" };

	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		char *name = tsdl_field_name(f, i);

		assert_string_equal(name, want[i]);
		free(name);
	}
}

/* Two events, the second with a string of 16 bytes in all; good is how many of them are accepted. */
static void test_check_rows(void **unused)
{
	static const struct {
		const char *what;
		struct ctf_event_head second;
		uint32_t text_len;
		size_t cut;
		uint64_t good;
	} rows[] = {
		{ "two good ones", { 6, 40, 20, 1, 1 }, 8, 0, 2 },
		{ "an unknown id", { 7, 40, 20, 1, 1 }, 8, 0, 1 },
		{ "an enormous id", { 0xffffffff, 40, 20, 1, 1 }, 8, 0, 1 },
		{ "no length", { 6, 0, 20, 1, 1 }, 8, 0, 1 },
		{ "a length that is none of its fields", { 6, 32, 20, 1, 1 }, 8, 0, 1 },
		{ "a length beyond the end", { 6, 48, 20, 1, 1 }, 8, 0, 1 },
		{ "a string without padding", { 6, 40, 20, 1, 1 }, 12, 0, 2 },
		{ "a string beyond the event", { 6, 40, 20, 1, 1 }, 13, 0, 1 },
		{ "a string without end", { 6, 40, 20, 1, 1 }, 0xffffffff, 0, 1 },
		{ "time that goes back", { 6, 40, 9, 1, 1 }, 8, 0, 1 },
		{ "the same time", { 6, 40, 10, 1, 1 }, 8, 0, 2 },
		{ "a head that is cut", { 6, 40, 20, 1, 1 }, 8, 20, 1 },
	};
	static const struct ctf_field text[] = { { .name = "s", .kind = CTF_STRING } };
	struct ctf *ctf = create_counted();

	assert_int_equal(ctf_class(ctf, 6, "s", text, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct {
			struct counted first;
			struct ctf_event_head second;
			uint32_t len;
			char text[12];
		} b = { { { 5, 32, 10, 1, 1 }, 7 }, rows[i].second, rows[i].text_len, "abcdefghijk" };
		size_t len = sizeof(b) - rows[i].cut;
		struct ctf_span span;

		if (ctf_check(ctf, &b, len, &span) != (rows[i].good == 2 ? 0 : -EBADMSG) || span.events != rows[i].good)
			fail_msg("%s: %lu events", rows[i].what, (unsigned long)span.events);
		assert_int_equal(span.len, rows[i].good == 2 ? len : 32);
		assert_int_equal(span.first, 10);
	}
	assert_int_equal(ctf_close(ctf), 0);
}

static void test_merge_and_losses(void **unused)
{
	struct ctf *ctf = create_counted();
	struct trace_totals totals;
	uint64_t want = 0;

	for (uint64_t i = 0; i < 50; i++)
		for (uint32_t s = 0; s < 5; s++) {
			assert_int_equal(write_counted(ctf, s, 1000000 * (i + 1) + s, 7, 100 + s, i * s), 0);
			want += 100 + s;
		}
	assert_int_equal(ctf_stats(ctf).events, want);
	assert_int_equal(ctf_close(ctf), 0);
	assert_int_equal(read_counted(&totals), want);
	assert_int_equal(totals.lost, 49 * (1 + 2 + 3 + 4));
	assert_int_equal(totals.damaged, 0);
}

/* Packets of 3 MB: the first part holds 4 MiB. The old parts are cut, and nothing is missing. */
static void test_parts(void **unused)
{
	struct ctf *ctf = create_counted();
	struct trace_totals totals;
	char name[128];
	struct stat st;

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(write_counted(ctf, 0, 1000000000 * (i + 1), 5, 100000, 3), 0);
	snprintf(name, sizeof(name), "%s/stream_0_0", path);
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(st.st_size, 4096 + align_up(88 + 3200000, 4096));
	assert_int_equal(read_counted(&totals), 500000);	/* before it is closed */
	assert_int_equal(ctf_close(ctf), 0);
	assert_int_equal(read_counted(&totals), 500000);
	assert_int_equal(totals.lost, 3);
	assert_int_equal(totals.damaged, 0);
}

static void test_older_is_refused(void **unused)
{
	struct ctf *ctf = create_counted();
	struct trace_totals totals;

	assert_int_equal(write_counted(ctf, 0, 1000, 10, 10, 0), 0);
	assert_int_equal(write_counted(ctf, 0, 1050, 10, 10, 0), -EBADMSG);
	assert_int_equal(write_counted(ctf, 0, 2000, 10, 10, 1), 0);
	assert_int_equal(ctf_stats(ctf).failed_events, 10);
	assert_int_equal(ctf_close(ctf), 0);
	assert_int_equal(read_counted(&totals), 20);
	assert_int_equal(totals.lost, 11);	/* the refused ones are lost, and the trace says so */
}

/* Losses after the last packet are told at the end. */
static void test_last_losses(void **unused)
{
	struct ctf *ctf = create_counted();
	struct trace_totals totals;

	assert_int_equal(write_counted(ctf, 0, 1000, 10, 10, 0), 0);
	assert_int_equal(write_counted(ctf, 0, 1000, 10, 10, 4), -EBADMSG);
	assert_int_equal(ctf_close(ctf), 0);
	assert_int_equal(read_counted(&totals), 10);
	assert_int_equal(totals.lost, 14);
}

static void patch(uint64_t at, uint64_t value)
{
	char name[128];
	int fd;

	snprintf(name, sizeof(name), "%s/stream_0_0", path);
	fd = open(name, O_WRONLY);
	assert_int_equal(pwrite(fd, &value, sizeof(value), at), sizeof(value));
	close(fd);
}

/* An empty packet, then two with ten events each; a page each. The head of the second or third is damaged. */
static void test_damaged_heads(void **unused)
{
	static const struct { const char *what; uint64_t at, value, good; } rows[] = {
		{ "a packet that is longer than its file", 8192 + offsetof(struct packet_head, packet_bits), 8 * 8192, 10 },
		{ "a packet that reaches around", 8192 + offsetof(struct packet_head, packet_bits), -64ull, 10 },
		{ "more content than packet", 4096 + offsetof(struct packet_head, content_bits), 8 * (4096 + 64), 0 },
		{ "less content than a head", 4096 + offsetof(struct packet_head, content_bits), 8 * 80, 0 },
		{ "of another stream", 4096 + offsetof(struct packet_head, stream_instance_id), 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ctf *ctf = create_counted();
		struct trace_totals totals;

		assert_int_equal(write_counted(ctf, 0, 1000, 10, 10, 0), 0);
		assert_int_equal(write_counted(ctf, 0, 2000, 10, 10, 0), 0);
		assert_int_equal(ctf_close(ctf), 0);
		assert_int_equal(read_counted(&totals), 20);
		patch(rows[i].at, rows[i].value);
		if (read_counted(&totals) != rows[i].good || !totals.damaged)
			fail_msg("%s: %lu events, damaged %lu", rows[i].what, (unsigned long)totals.events, (unsigned long)totals.damaged);
	}
}

/* The content does not fit on the disk, the head would: the packet is not there at all. */
static void test_half_a_packet(void **unused)
{
	struct ctf *ctf = create_counted();
	struct trace_totals totals;
	struct rlimit before, small;
	int r;

	assert_int_equal(write_counted(ctf, 0, 1000, 10, 10, 0), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	small = (struct rlimit){ 8192 + 200, before.rlim_max };
	setrlimit(RLIMIT_FSIZE, &small);
	r = write_counted(ctf, 0, 2000, 10, 10, 0);
	setrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(read_counted(&totals), 10);
	assert_int_equal(totals.damaged, 0);
	assert_int_equal(write_counted(ctf, 0, 3000, 10, 10, 0), 0);
	assert_int_equal(ctf_close(ctf), 0);
	assert_int_equal(read_counted(&totals), 20);
	assert_int_equal(totals.lost, 10);
	assert_int_equal(totals.damaged, 0);
}

/* A write that stays in one page is whole or not there; a larger block replaces the file. */
static void check_last_block(const char *text, size_t n)
{
	const char *last = NULL, *p = text;

	while ((p = memmem(p, n - (p - text), "event {\n", 8)))
		last = p++;
	assert_non_null(last);
	if (text + n - last <= 4096)
		assert_int_equal((last - text) / 4096, (n - 1) / 4096);
}

static void parse_metadata(size_t classes)
{
	static char text[1 << 20];
	char name[128];
	struct meta m = { 0 };
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "%s/metadata", path);
	fd = open(name, O_RDONLY);
	n = read(fd, text, sizeof(text));
	close(fd);
	if (meta_parse(&m, text, n) < 0)
		fail_msg("after %zu classes: %s", classes, err_text());
	check_last_block(text, n);
	assert_int_equal(m.classes.n, classes);
	assert_int_equal(m.clock.hz, some_clock.hz);
	assert_int_equal(m.clock.offset_s, some_clock.offset_s);
	meta_free(&m);
}

/* Good after each class, of any size. */
static void test_metadata_grows(void **unused)
{
	struct ctf *ctf = create();
	char name[9000];

	for (uint32_t id = 0; id < 60; id++) {
		size_t width = id % 20 == 19 ? 8000 : id * 37 % 700;

		memset(name, id % 3 ? 'x' : '"', width);
		name[width] = 0;
		assert_int_equal(ctf_class(ctf, id, name, counter, 1), 0);
		parse_metadata(id + 1);
	}
	assert_int_equal(ctf_class(ctf, 3, "again", counter, 1), -EEXIST);
	assert_int_equal(ctf_class(ctf, CTF_MAX_CLASSES, "far", counter, 1), -E2BIG);
	assert_int_equal(ctf_class(ctf, 70, "odd", &(struct ctf_field){ .name = "x", .kind = CTF_SIGNED, .bits = 24, .base = 10 }, 1), -EINVAL);
	assert_int_equal(ctf_close(ctf), 0);
}

static void test_modules(void **unused)
{
	static const struct ctf_module m[] = {
		{ "/usr/lib/libc.so.6", "0123abcd", 0x7f0000000000, 0x1000, 77 }, { "/odd \"name\"\n", "", 0x1000, 4, 78 },
	};
	struct ctf *ctf = create();
	struct trace_event ev;
	struct trace_value v;
	size_t i = 0, pos = 0, size;
	struct trace *t;
	char *text;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(ctf_modules(ctf, m, 2, 1000000), 0);
	assert_int_equal(ctf_modules(ctf, m, 1, 1000000), 0);
	assert_int_equal(ctf_close(ctf), 0);
	assert_int_equal(trace_open(path, &t), 0);
	assert_string_equal(trace_env(t, "tracer_name"), "jab");
	assert_int_equal(trace_next(t, &ev), 1);
	assert_true(trace_value(&ev, &i, &pos, &v));
	assert_int_equal(v.len, strlen(m[0].path));
	assert_memory_equal(v.bytes, m[0].path, v.len);
	assert_int_equal(trace_next(t, &ev), 1);
	assert_true(trace_print_event(f, &ev) > 0);
	fclose(f);
	assert_string_equal(text, "-99.499600000 [000] 78/78 jab:module path=\"/odd \\\"name\\\"\\n\" build_id=\"\" "
				  "address=0x1000 size=0x4\n");
	assert_int_equal(trace_next(t, &ev), 1);
	assert_int_equal(trace_next(t, &ev), 0);
	trace_close(t);
	free(text);
}

/* A file cut anywhere: the events in front are there, the damage is counted, and nothing crashes. */
static void test_cut_file(void **unused)
{
	struct ctf *ctf = create_counted();
	struct trace_totals totals;
	uint64_t last = UINT64_MAX, n;
	char name[128];
	off_t at;

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(write_counted(ctf, 0, 1000000 * (i + 1), 7, 200, 0), 0);
	assert_int_equal(ctf_close(ctf), 0);
	snprintf(name, sizeof(name), "%s/stream_0_0", path);
	for (at = 4096 + 3 * 8192 - 1; at > 0; at -= 97) {
		assert_int_equal(truncate(name, at), 0);
		n = read_counted(&totals);
		assert_true(n <= last && n % 200 == 0);
		last = n;
		assert_int_equal(totals.damaged, at % 8192 == 4096 ? 0 : 1);
	}
	assert_int_equal(last, 0);
}

static int remove_all(void **unused)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", top);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock_numbers), cmocka_unit_test(test_clock_measured),
		cmocka_unit_test(test_names), cmocka_unit_test(test_check_rows), cmocka_unit_test(test_merge_and_losses),
		cmocka_unit_test(test_parts), cmocka_unit_test(test_older_is_refused), cmocka_unit_test(test_last_losses),
		cmocka_unit_test(test_damaged_heads),
		cmocka_unit_test(test_half_a_packet),
		cmocka_unit_test(test_metadata_grows), cmocka_unit_test(test_modules), cmocka_unit_test(test_cut_file),
	};

	if (!mkdtemp(top))
		return 1;
	return cmocka_run_group_tests(tests, NULL, remove_all);
}
