/* SPDX-License-Identifier: MIT */
/*
 * Damaged traces: an input is the length of the metadata (4 bytes), the metadata, and one stream's
 * file, which is also read as the stream of jab's own events. Whatever is in it, reading ends, and every
 * event that is handed out can be printed, with names.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "sym/types/types.h"
#include "trace/names.h"

#include "mutate.h"

#define OWN "stream_4294967040_0"

static char dir[] = "/tmp/fuzz_ctf.XXXXXX";
static FILE *nowhere;

static void remove_dir(void)
{
	char name[64];

	snprintf(name, sizeof(name), "%s/metadata", dir);
	unlink(name);
	snprintf(name, sizeof(name), "%s/stream_0_0", dir);
	unlink(name);
	snprintf(name, sizeof(name), "%s/" OWN, dir);
	unlink(name);
	rmdir(dir);
}

static void put_file(const char *file, const uint8_t *p, size_t n)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%s/%s", dir, file);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		exit(1);
	close(fd);
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	struct trace_style json = { .json = true, .name = trace_names_address, .comm = trace_names_comm };
	struct trace_names *names;
	struct trace_event ev;
	struct trace *t;
	uint32_t len = 0;
	uint64_t last = 0;
	int r;

	if (!nowhere) {
		nowhere = fopen("/dev/null", "w");
		if (!nowhere || !mkdtemp(dir))
			exit(1);
		atexit(remove_dir);
	}
	if (size >= 4)
		memcpy(&len, p, 4);
	len = size < 4 ? 0 : MIN(len, size - 4);
	put_file("metadata", p + MIN(4, size), len);
	put_file("stream_0_0", p + MIN(4, size) + len, size < 4 ? 0 : size - 4 - len);
	put_file(OWN, p + MIN(4, size) + len, size < 4 ? 0 : size - 4 - len);
	r = trace_open(dir, &t);
	if (r < 0)
		return *err_text() ? r : (abort(), 0);
	if (trace_names_open(dir, &names) < 0)
		abort();
	json.arg = names;
	while (trace_next(t, &ev) > 0) {
		if (ev.ticks < last || trace_print_event(nowhere, &ev) < 0 || trace_print(nowhere, &ev, &json) < 0)
			abort();
		last = ev.ticks;
	}
	trace_names_close(names);
	trace_close(t);
	return 0;
}

#ifndef WITH_LIBFUZZER
static const struct type_value moods[] = { { "CALM", 0 }, { "ANGRY", -3 }, { "\"o\\d\n", 7 } };

static const struct ctf_field fields[] = {
	{ .name = CTF_FAULTS, .kind = CTF_UNSIGNED, .bits = 64, .base = 16 }, { .name = "s", .kind = CTF_STRING },
	{ .name = "b", .kind = CTF_BYTES, .size = 5 },
	{ .name = "i", .kind = CTF_SIGNED, .bits = 32, .base = 10, .nvalues = 3, .values = moods },
	{ .name = "f", .kind = CTF_FLOAT, .bits = 64 }, { .name = "a", .kind = CTF_UNSIGNED, .bits = 16, .base = 10, .count = 3 },
	{ .name = "bt", .kind = CTF_ADDRS }, { .name = "t", .kind = CTF_STRING },
};

struct seed_event {
	struct ctf_event_head head;
	uint64_t faults;
	uint32_t s_len;
	char s[12];
	uint8_t b[8];
	uint64_t i;
	double f;
	uint16_t a[4];
	uint64_t bt_len, bt[2];
	uint32_t t_len;
	char t[4];
};

/* Only jab's own events, and a list of addresses in one of them. */
static void write_own(struct ctf *ctf)
{
	struct ctf_module m[] = { { "/proc/self/exe", "", 0x1000, 0x10000, 1 }, { "/nonexistent", "00ff", 0x2000, 16, 1 } };
	struct ctf_thread t = { "thread", 1, 2 };

	if (ctf_modules(ctf, m, 2, 5000) < 0 || ctf_threads(ctf, &t, 1, 6000) < 0)
		exit(1);
}

static void write_seed(const char *path, int packets)
{
	struct ctf_options o = { .clock = { .hz = 2000000000 }, .command = "fuzz" };
	struct ctf_span span;
	struct ctf *ctf;

	if (ctf_create(path, &o, &ctf) < 0 || ctf_class(ctf, 0, "exe:f", fields, ARRAY_SIZE(fields)) < 0)
		exit(1);
	if (packets == 3)
		write_own(ctf);
	for (int i = 1; i <= packets; i++) {
		struct seed_event e[3];

		for (int k = 0; k < 3; k++)
			e[k] = (struct seed_event){ { 0, sizeof(e[0]), 10000 * i + k, 1, 2 }, k, 9, "some text", "bytes", 7, .5, { 1, 2, 3 }, 2,
				{ 0x1000, 0x2000 }, 3, "abc" };
		if (ctf_check(ctf, e, sizeof(e), &span) < 0 || ctf_packet(ctf, 0, 0, &span, i) < 0)
			exit(1);
	}
	if (ctf_close(ctf) < 0)
		exit(1);
}

static struct seed fuzz_seed(size_t i)
{
	char path[] = "/tmp/fuzz_ctf_seed.XXXXXX", name[64];
	struct seed meta, stream, all = { .path = "a trace" };
	uint32_t len;

	if (i > 2)
		return (struct seed){ 0 };
	if (!mkdtemp(path) || rmdir(path) < 0)
		exit(1);
	write_seed(path, 1 + i);
	snprintf(name, sizeof(name), "%s/metadata", path);
	meta = read_seed(name);
	unlink(name);
	snprintf(name, sizeof(name), i == 2 ? "%s/" OWN : "%s/stream_0_0", path);
	stream = read_seed(name);
	unlink(name);
	if (i == 2) {
		snprintf(name, sizeof(name), "%s/stream_0_0", path);
		unlink(name);
	}
	rmdir(path);
	len = meta.n;
	all.n = 4 + meta.n + stream.n;
	all.p = malloc(all.n);
	memcpy(all.p, &len, 4);
	memcpy(all.p + 4, meta.p, meta.n);
	memcpy(all.p + 4 + meta.n, stream.p, stream.n);
	free(meta.p);
	free(stream.p);
	return all;
}
#endif
