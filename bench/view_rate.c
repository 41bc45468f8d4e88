/* SPDX-License-Identifier: MIT */
/*
 * How fast traces are written and read back, beside babeltrace2 on the same trace in the same run:
 *
 *	view_rate [EVENTS]
 *
 * Two streams, events of two numbers and a short string; the text goes to /dev/null in both cases. Times are
 * of the CPU. The writer's figures are with and without looking at each event, into the page cache of /tmp.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "trace/trace.h"

#define F(name_, kind_, bits_, base_, size_, count_) \
	{ .name = name_, .kind = kind_, .bits = bits_, .base = base_, .size = size_, .count = count_ }

#define SPAN_EVENTS 16384
#define STREAMS 2

struct event {
	struct ctf_event_head head;
	int64_t fd;
	uint64_t size;
	uint32_t len;
	char text[12];
};

static char path[] = "/tmp/view_rate.XXXXXX";

static void must(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "view_rate: %s\n", err_text());
	exit(1);
}

/* CPU time: other work on the machine does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t fill(struct event *e, uint64_t time)
{
	for (int i = 0; i < SPAN_EVENTS; i++)
		e[i] = (struct event){ { 0, sizeof(*e), time += 97, 1234, 1235 }, i % 100 - 3, time, 11, "hello world" };
	return time;
}

static void write_trace(uint64_t events)
{
	static const struct ctf_field fields[] = {
		F("fd", CTF_SIGNED, 32, 10, 0, 0), F("size", CTF_UNSIGNED, 64, 16, 0, 0), F("name", CTF_STRING, 0, 0, 0, 0),
	};
	static struct event e[SPAN_EVENTS];
	struct ctf_options o = { .clock = { .hz = 2600000000 }, .command = "view_rate" };
	uint64_t n = 0, time = clock_now(), checked = 0, written = 0, t;
	struct ctf_span span;
	struct ctf *ctf;

	must(ctf_create(path, &o, &ctf));
	must(ctf_class(ctf, 0, "libc:write", fields, 3));
	for (; n < events; n += SPAN_EVENTS) {
		time = fill(e, time);
		t = cpu_ns();
		must(ctf_check(ctf, e, sizeof(e), &span));
		checked += cpu_ns() - t;
		t = cpu_ns();
		must(ctf_packet(ctf, n / SPAN_EVENTS % STREAMS, 0, &span, 0));
		written += cpu_ns() - t;
	}
	must(ctf_close(ctf));
	printf("check    %7.2f ns an event\nwrite    %7.2f ns an event, %.2f GB/s\n", (double)checked / n, (double)written / n,
	       (double)n * sizeof(struct event) / written);
}

static uint64_t view(uint64_t *ret_ns)
{
	FILE *out = fopen("/dev/null", "w");
	uint64_t start = cpu_ns(), n = 0;
	struct trace_event ev;
	struct trace *t;

	setvbuf(out, NULL, _IOFBF, 1 << 16);
	must(trace_open(path, &t));
	for (; trace_next(t, &ev) > 0; n++)
		must(trace_print_event(out, &ev));
	trace_close(t);
	fclose(out);
	*ret_ns = cpu_ns() - start;
	return n;
}

static uint64_t time_ns(struct timeval t)
{
	return t.tv_sec * 1000000000ull + t.tv_usec * 1000;
}

/* Nanoseconds, or 0 if it isn't there. */
static uint64_t babeltrace(void)
{
	struct rusage used;
	pid_t pid = fork();
	int status, fd;

	if (pid == 0) {
		fd = open("/dev/null", O_WRONLY);
		dup2(fd, 1);
		execlp("babeltrace2", "babeltrace2", path, NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status != 0)
		return 0;
	return time_ns(used.ru_utime) + time_ns(used.ru_stime);
}

static int remove_trace(void)
{
	execlp("rm", "rm", "-r", path, NULL);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 0) : 2000000, ours, theirs, n;

	if (!mkdtemp(path) || rmdir(path) < 0)
		return 1;
	write_trace(events);
	n = view(&ours);
	printf("view     %7.2f ns an event, %.2f M events/s\n", (double)ours / n, n * 1e3 / ours);
	theirs = babeltrace();
	if (theirs)
		printf("babeltrace2 %.2f ns an event, %.2f M events/s\nratio    %7.1f\n", (double)theirs / n, n * 1e3 / theirs,
		       (double)theirs / ours);
	fflush(stdout);
	return remove_trace();
}
