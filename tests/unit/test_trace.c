/* SPDX-License-Identifier: MIT */
/* Values and how they are shown: lists, cut strings, faults, as lines and as JSON; traces in memory and in a pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "sym/types/types.h"
#include "trace/ctf.h"
#include "trace/live.h"
#include "trace/meta.h"
#include "trace/trace.h"

#include <cmocka.h>		/* has a macro called fail */

static char top[] = "/tmp/test_trace.XXXXXX";
static const struct ctf_options options = { .clock = { .hz = 1000000000 }, .command = "x" };

/* --- events made by hand ------------------------------------------------------------------------ */

static uint8_t buf[4096] __attribute__((aligned(8)));
static size_t used;

static void put(const void *p, size_t n)
{
	memcpy(buf + used, p, n);
	memset(buf + used + n, 0xee, align_up(n, 8) - n);
	used += align_up(n, 8);
}

static void put64(uint64_t v)
{
	put(&v, 8);
}

/* As many bytes as said, with or without a NUL. */
static void put_text(const char *s, uint32_t n)
{
	char text[256];

	memcpy(text, &n, 4);
	memcpy(text + 4, s, n);
	put(text, 4 + n);
}

static void begin(uint32_t id, uint64_t time)
{
	struct ctf_event_head h = { id, 0, time, 7, 8 };

	used = 0;
	put(&h, sizeof(h));
}

static size_t name_it(void *arg, const struct trace_event *ev, uint64_t address, bool is_return, char *out, size_t room)
{
	return address == 0x30 ? 0 : snprintf(out, room, "f%d+%#lx", is_return, (unsigned long)address);
}

static const char *call_it(void *arg, const struct trace_event *ev)
{
	return "pr\"og";
}

/* The event that was put together, as text. */
static char *show(struct ctf *ctf, const struct trace_style *style)
{
	struct trace_event ev = { 0 };
	struct ctf_span span;
	uint32_t len = used;
	size_t size;
	char *text;
	FILE *f = open_memstream(&text, &size);

	memcpy(buf + 4, &len, 4);
	assert_int_equal(ctf_check(ctf, buf, used, &span), 0);
	assert_int_equal(span.events, 1);
	assert_true(live_event(ctf, &options.clock, buf, used, &ev));
	assert_true(trace_print(f, &ev, style) > 0);
	assert_false(live_event(ctf, &options.clock, buf, used - 8, &ev));
	assert_false(live_event(ctf, &options.clock, buf, 16, &ev));
	assert_false(live_event(ctf, &options.clock, buf, CTF_MAX_EVENT + 8, &ev));
	fclose(f);
	return text;
}

static void shows(struct ctf *ctf, const char *plain, const char *json)
{
	struct trace_style s = { 0 };
	char *text = show(ctf, &s);

	assert_string_equal(text, plain);
	free(text);
	s = (struct trace_style){ .json = true, .name = name_it, .comm = call_it };
	text = show(ctf, &s);
	assert_string_equal(text, json);
	free(text);
}

static const struct ctf_field lists[] = {
	{ .name = CTF_FAULTS, .kind = CTF_UNSIGNED, .bits = 64, .base = 16 },
	{ .name = "n", .kind = CTF_SIGNED, .bits = 16, .base = 10, .count = 3 },
	{ .name = "p", .kind = CTF_POINTER },
	{ .name = "s", .kind = CTF_STRING },
	{ .name = "bt", .kind = CTF_ADDRS },
	{ .name = "b", .kind = CTF_BYTES, .size = 3 },
	{ .name = "f", .kind = CTF_FLOAT, .bits = 32, .count = 2 },
	{ .name = "c", .kind = CTF_UNSIGNED, .bits = 8, .base = 0 },
};

static void put_lists(uint64_t faults, const char *s, uint32_t len)
{
	begin(3, 1500000000);
	put64(faults);
	put((int16_t[]){ -1, 2, 300 }, 6);
	put64(0x1234);
	put_text(s, len);
	put((uint64_t[]){ 3, 0x10, 0x20, 0x30 }, 32);
	put("\x01\xab\xff", 3);
	put((float[]){ .5, 2 }, 8);
	put64(0xeeee05);
}

static struct ctf *with_lists(void)
{
	struct ctf *ctf;

	ctf_create_memory(&options, &ctf);
	assert_int_equal(ctf_class(ctf, 3, "exe:f", lists, ARRAY_SIZE(lists)), 0);
	return ctf;
}

#define HEAD "1.500000000 [000] 7/8 exe:f"
#define JHEAD "{\"time\":1500000000,\"cpu\":0,\"pid\":7,\"tid\":8,\"comm\":\"pr\\\"og\",\"probe\":\"exe:f\",\"fields\":{"
#define FRAMES "\t0x10\n\t0x20\n\t0x30\n"
#define JFRAMES "{\"address\":\"0x10\",\"name\":\"f0+0x10\"},{\"address\":\"0x20\",\"name\":\"f1+0x20\"},{\"address\":\"0x30\"}"
#define JREST "\"b\":\"01abff\",\"f\":[0.5,2],\"c\":5}}\n"

static void test_lists(void **unused)
{
	struct ctf *ctf = with_lists();

	put_lists(0, "ab\n", 4);
	shows(ctf, HEAD " n=[-1,2,300] p=0x1234 s=\"ab\\n\" b=01abff f=[0.5,2] c=5\n" FRAMES,
	      JHEAD "\"n\":[-1,2,300],\"p\":\"0x1234\",\"s\":\"ab\\u000a\",\"bt\":[" JFRAMES "]," JREST);
	put_lists(0, "ab\xff\xc3\xa9", 5);		/* cut; one byte is no UTF-8 */
	shows(ctf, HEAD " n=[-1,2,300] p=0x1234 s=\"ab\\xff\\xc3\\xa9\"... b=01abff f=[0.5,2] c=5\n" FRAMES,
	      JHEAD "\"n\":[-1,2,300],\"p\":\"0x1234\",\"s\":{\"cut\":\"ab\\ufffd\xc3\xa9\"},\"bt\":[" JFRAMES "]," JREST);
	ctf_close(ctf);
}

static void test_faults(void **unused)
{
	static const uint8_t text[] = "<fault>\0\x78\x56\x34\x12\0\0\0";
	struct ctf *ctf = with_lists();

	put_lists(1 << 1 | 1 << 2 | 1 << 3 | 1ull << (32 + 4), (const char *)text, 16);
	shows(ctf, HEAD " n=[-1,2,300] p=<fault> s=<fault> b=<unreadable> f=[0.5,2] c=5\n" FRAMES "\t<fault>\n",
	      JHEAD "\"n\":[-1,2,300],\"p\":{\"fault\":\"0x1234\"},\"s\":{\"fault\":\"0x12345678\"},\"bt\":[" JFRAMES
	      ",{\"fault\":null}],\"b\":{\"unreadable\":null},\"f\":[0.5,2],\"c\":5}}\n");
	/* marks of fields that are not there are shown as they are */
	put_lists(1 << 7, "", 1);
	shows(ctf, HEAD " _faults=0x80 n=[-1,2,300] p=0x1234 s=\"\" b=01abff f=[0.5,2] c=5\n" FRAMES,
	      JHEAD "\"n\":[-1,2,300],\"p\":\"0x1234\",\"s\":\"\",\"bt\":[" JFRAMES "]," JREST);
	ctf_close(ctf);
}

static void test_odd_floats(void **unused)
{
	static const struct ctf_field f[] = { { .name = "d", .kind = CTF_FLOAT, .bits = 64, .count = 3 } };
	struct ctf *ctf;

	ctf_create_memory(&options, &ctf);
	assert_int_equal(ctf_class(ctf, 0, "exe:f", f, 1), 0);
	begin(0, 1500000000);
	put((double[]){ 1.0 / 0.0, -1.0 / 0.0, .1 }, 24);
	shows(ctf, HEAD " d=[inf,-inf,0.10000000000000001]\n", JHEAD "\"d\":[\"inf\",\"-inf\",0.10000000000000001]}}\n");
	ctf_close(ctf);
}

static void test_colours(void **unused)
{
	struct ctf *ctf = with_lists();
	struct trace_style s = { .colour = true };
	char *text;

	put_lists(1 << 1, "x", 2);
	text = show(ctf, &s);
	assert_non_null(strstr(text, "\033[1;36mexe:f\033[0m "));
	assert_non_null(strstr(text, "\033[31m<fault>\033[0m"));
	free(text);
	ctf_close(ctf);
}

/* Lengths that lie about lists, and what is counted. */
static void test_check(void **unused)
{
	struct ctf *ctf = with_lists();
	uint64_t counts[4] = { 0 };
	struct ctf_span span;
	uint32_t len;

	assert_int_equal(ctf_class(ctf, 1, "other", lists, 1), 0);
	put_lists(0, "ab", 3);
	len = used;
	memcpy(buf + 4, &len, 4);
	assert_int_equal(ctf_check_counted(ctf, buf, used, counts, &span), 0);
	assert_int_equal(ctf_check_counted(ctf, buf, used, counts, &span), 0);
	assert_int_equal(counts[3], 2);
	assert_int_equal(counts[1], 0);
	for (uint32_t n = 0; n < 9; n++) {
		uint64_t count = n == 8 ? UINT32_MAX : n;

		memcpy(buf + 24 + 8 + 8 + 8 + 8, &count, 8);
		if (n != 3)
			assert_int_equal(ctf_check_counted(ctf, buf, used, counts, &span), -EBADMSG);
	}
	assert_int_equal(counts[3], 2);
	assert_int_equal(ctf_class(ctf, 4, "odd", &(struct ctf_field){ .name = "x", .kind = CTF_STRING, .count = 2 }, 1),
			 -EINVAL);
	ctf_close(ctf);
}

/* --- through a pipe ----------------------------------------------------------------------------- */

static const struct ctf_field counter[] = { { .name = "n", .kind = CTF_UNSIGNED, .bits = 64, .base = 10 } };

static int write_some(struct ctf *ctf, uint32_t stream, uint32_t id, uint64_t time, size_t n, uint64_t lost)
{
	struct { struct ctf_event_head h; uint64_t n; } *e = calloc(n, sizeof(*e));
	struct ctf_span span;
	int r;

	for (size_t i = 0; i < n; i++) {
		e[i].h = (struct ctf_event_head){ id, sizeof(*e), time + 10 * i, 1, 2 };
		e[i].n = time + 10 * i;
	}
	assert_int_equal(ctf_check(ctf, e, n * sizeof(*e), &span), 0);
	r = ctf_packet(ctf, stream, 5, &span, lost);
	free(e);
	return r;
}

static uint64_t count_events(const char *path, struct trace_totals *ret_totals)
{
	struct trace_event ev;
	struct trace_value v;
	struct trace *t;

	assert_int_equal(trace_open(path, &t), 0);
	while (trace_next(t, &ev) > 0) {
		size_t i = 0, pos = 0;

		assert_true(trace_value(&ev, &i, &pos, &v));
		if (ev.class->id < CTF_MODULE_ID)
			assert_int_equal(v.u, ev.ticks);
	}
	*ret_totals = trace_totals(t);
	trace_close(t);
	return ret_totals->events;
}

static void unpack(const char *archive, const char *path)
{
	char command[256];

	snprintf(command, sizeof(command), "mkdir -p %s && tar xf %s -C %s", path, archive, path);
	assert_int_equal(system(command), 0);
}

/* Metadata that grows, losses, an empty packet; cut at any entry, it is a trace up to there. */
static void test_archive(void **unused)
{
	char archive[64], path[64];
	struct trace_totals totals;
	uint64_t events[8], ends[8];
	struct ctf *ctf;
	size_t n = 0;
	int fd;

	snprintf(archive, sizeof(archive), "%s/a.tar", top);
	fd = open(archive, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_int_equal(ctf_create_pipe(fd, "a pipe", &options, &ctf), 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(ctf_class(ctf, i, "exe:tick", counter, 1), 0);
		assert_int_equal(write_some(ctf, i % 2, i, 1000000 * (i + 1), 100 * i + 1, 3 * i), 0);
		events[n] = ctf_stats(ctf).events;
		ends[n++] = lseek(fd, 0, SEEK_CUR);
	}
	assert_int_equal(ctf_threads(ctf, &(struct ctf_thread){ "prog", 7, 8 }, 1, 5000000), 0);
	assert_int_equal(ctf_packet(ctf, 0, 5, &(struct ctf_span){ 0 }, 11), 0);
	assert_int_equal(ctf_close(ctf), 0);
	snprintf(path, sizeof(path), "%s/whole", top);
	unpack(archive, path);
	assert_int_equal(count_events(path, &totals), 604 + 1);
	assert_int_equal(totals.lost, 11 + 9);
	assert_int_equal(totals.damaged, 0);
	while (n-- > 0) {
		assert_int_equal(ftruncate(fd, ends[n]), 0);
		snprintf(path, sizeof(path), "%s/cut%zu", top, n);
		unpack(archive, path);
		assert_int_equal(count_events(path, &totals), events[n]);
		assert_int_equal(totals.damaged, 0);
	}
	close(fd);
}

static void test_reader_goes_away(void **unused)
{
	struct ctf *ctf;
	int p[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(ctf_create_pipe(p[1], "the pipe", &options, &ctf), 0);
	assert_int_equal(ctf_class(ctf, 0, "exe:tick", counter, 1), 0);
	assert_int_equal(write_some(ctf, 0, 0, 1000, 3, 0), 0);
	close(p[0]);
	assert_int_equal(write_some(ctf, 0, 0, 2000, 3, 0), -EPIPE);
	assert_non_null(strstr(err_text(), "the pipe"));
	assert_int_equal(ctf_stats(ctf).events, 3);
	assert_int_equal(ctf_stats(ctf).failed_events, 3);
	assert_int_equal(ctf_close(ctf), -EPIPE);
	close(p[1]);
	assert_int_equal(ctf_create_pipe(p[1], "nothing", &options, &ctf), -EBADF);
}

/* A pipe that takes little at a time, and does not wait. */
static void test_slow_pipe(void **unused)
{
	char path[64], command[128];
	struct trace_totals totals;
	struct ctf *ctf;
	int p[2], status;
	pid_t child;

	snprintf(path, sizeof(path), "%s/slow", top);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(pipe(p), 0);
	child = fork();
	if (child == 0) {
		dup2(p[0], 0);
		close(p[1]);
		snprintf(command, sizeof(command), "dd bs=1000 status=none | tar x -C %s", path);
		_exit(system(command) != 0);
	}
	close(p[0]);
	fcntl(p[1], F_SETFL, O_NONBLOCK);
	assert_int_equal(ctf_create_pipe(p[1], "pipe", &options, &ctf), 0);
	assert_int_equal(ctf_class(ctf, 0, "exe:tick", counter, 1), 0);
	for (uint32_t i = 1; i <= 20; i++)
		assert_int_equal(write_some(ctf, 0, 0, 1000000ull * i, 10000, 0), 0);
	assert_int_equal(ctf_close(ctf), 0);
	close(p[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(count_events(path, &totals), 200000);
	assert_int_equal(totals.damaged, 0);
}

static int remove_all(void **unused)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", top);
	return system(command);
}

/* Names are any text; values with a name are found by what the field holds, however the debug info writes them. */
static void test_enums(void **state)
{
	static const struct type_value moods[] = { { "CALM", 0 }, { "ANGRY", -3 }, { "o\"d\n\033", 7 }, { NULL, 9 } };
	static const struct type_value tiny[] = { { "MUCH", 200 }, { "MORE", -55 } }, wide[] = { { "TOP", INT64_MIN } };
	static const struct ctf_field fields[] = {
		{ .name = "m", .kind = CTF_SIGNED, .bits = 32, .nvalues = 4, .values = moods },
		{ .name = "t", .kind = CTF_UNSIGNED, .bits = 8, .nvalues = 2, .values = tiny },
		{ .name = "w", .kind = CTF_UNSIGNED, .bits = 64, .nvalues = 1, .values = wide },
		{ .name = "l", .kind = CTF_SIGNED, .bits = 32, .nvalues = CTF_MAX_VALUES + 1, .values = moods },
	};
	static const char *const bad[] = { "{ \"a\" }", "{ \"a\" = b }", "{ \"a\" = 1, }", "{ a = 1 }", "{ \"a\" = 1", "= 1 }", "{ \"a\" = 99999999999999999999 }" };
	char path[64], other[96], text[16384], *at;
	struct ctf *ctf;
	struct trace *t;
	const struct ctf_class *c;
	struct meta m = { 0 };
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/enums", top);
	assert_int_equal(ctf_create(path, &options, &ctf), 0);
	assert_int_equal(ctf_class(ctf, 0, "e", fields, 4), 0);
	assert_int_equal(ctf_close(ctf), 0);
	snprintf(other, sizeof(other), "%s/metadata", path);
	f = fopen(other, "r");
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	assert_int_equal(meta_parse(&m, text, n), 0);
	c = meta_class(&m, 0);
	assert_int_equal(c->n, 4);
	assert_int_equal(c->fields[0].nvalues, 3);
	assert_string_equal(field_value_name(&c->fields[0], -3), "ANGRY");
	assert_string_equal(field_value_name(&c->fields[0], 7), "o\"d\n\033");
	assert_null(field_value_name(&c->fields[0], 9));
	assert_string_equal(field_value_name(&c->fields[1], 200), "MUCH");
	assert_string_equal(field_value_name(&c->fields[1], 201), "MORE");
	assert_string_equal(field_value_name(&c->fields[2], INT64_MIN), "TOP");
	assert_int_equal(c->fields[3].nvalues, 0);
	meta_free(&m);
	at = strstr(text, "{ \"CALM\"");
	assert_non_null(at);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		f = fopen(other, "w");
		fprintf(f, "%.*s%s%s", (int)(at - text), text, bad[i], strchr(at, '}') + 1);
		fclose(f);
		assert_int_equal(trace_open(path, &t), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists), cmocka_unit_test(test_enums), cmocka_unit_test(test_faults), cmocka_unit_test(test_odd_floats),
		cmocka_unit_test(test_colours), cmocka_unit_test(test_check), cmocka_unit_test(test_archive),
		cmocka_unit_test(test_reader_goes_away), cmocka_unit_test(test_slow_pipe),
	};

	if (!mkdtemp(top))
		return 1;
	return cmocka_run_group_tests(tests, NULL, remove_all);
}
