/* SPDX-License-Identifier: MIT */
/*
 * A hostile target: it calls work(), looks for the event in the memory that it shares with its tracer, and changes it
 * before that is read. It serves commands, one a line, and answers each with "forged" or "missed":
 *
 *	plain		changes nothing
 *	child		the same in a fork, which waits until the next command
 *	dying N		the same in a fork with so many MB more, which is killed right after that: to let them go takes it a while
 *	id N		the event's id
 *	pid N		pid and tid of the event, and every number in it that is ours
 *	value N		the latter only
 *	length N	the event's length
 *	time N		its time
 *	lost PID	calls work() very often while the tracer PID is stopped, finds the words that count what is lost, and changes them
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include "prog.h"

struct head { uint32_t id, len; uint64_t time; uint32_t pid, tid; };
struct range { char *lo, *hi; };

static struct range ranges[4096];
static int nranges;
static char text[64];
static int calls;

noinline int work(const char *s)
{
	__asm__ volatile("" : : "r"(s) : "memory");
	return s[0];
}

/* All memory that is shared and writable. */
static void find_ranges(void)
{
	char line[4096], modes[8];
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;

	nranges = 0;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s", &lo, &hi, modes) == 3 && !strncmp(modes, "rw-s", 4) && nranges < 4096)
			ranges[nranges++] = (struct range){ (char *)lo, (char *)hi };
	if (f)
		fclose(f);
}

/* The event that holds our text. */
static struct head *find_event(void)
{
	for (int i = 0; i < nranges; i++)
		for (char *p = ranges[i].lo; (p = memmem(p, ranges[i].hi - p, text, strlen(text))); p++)
			for (int back = 28; back <= 36; back += 8) {
				struct head *h = (struct head *)(p - back);

				if ((char *)h >= ranges[i].lo && h->pid == (uint32_t)getpid() && h->len > 24 && h->len < 4096)
					return h;
			}
	return NULL;
}

static void change_values(struct head *h, uint64_t to)
{
	uint64_t *v = (uint64_t *)(h + 1);

	for (uint32_t i = 0; i < (h->len - 24) / 8; i++)
		if (v[i] == (uint64_t)getpid())
			v[i] = to;
}

static const char *change(const char *what, uint64_t to)
{
	struct head *h;

	snprintf(text, sizeof(text), "call-%d-%d", getpid(), ++calls);
	find_ranges();
	work(text);
	h = find_event();
	if (!h)
		return "missed";
	if (!strcmp(what, "id"))
		h->id = to;
	if (!strcmp(what, "pid") || !strcmp(what, "value"))
		change_values(h, to);
	if (!strcmp(what, "pid"))
		h->pid = h->tid = to;
	if (!strcmp(what, "length"))
		h->len = to;
	if (!strcmp(what, "time"))
		h->time = to;
	return "forged";
}

static void take_memory(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || !size)
		return;
	madvise(at, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += 4096)
		at[i] = 1;
}

static const char *change_in_child(pid_t *child, size_t memory)
{
	int done[2];
	char c;

	if (pipe(done) < 0)
		return "missed";
	*child = fork();
	if (!*child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);	/* a test that fails half-way ends its parent only */
		take_memory(memory);
		change("plain", 0);
		c = write(done[1], "x", 1);
		for (;;)
			pause();
	}
	c = read(done[0], &c, 1);
	close(done[0]);
	close(done[1]);
	if (memory)
		kill(*child, SIGKILL);
	return "forged";
}

/* With the rings full, each call is one more in the words that count. */
static const char *change_lost(pid_t tracer)
{
	enum { MORE = 4711 };
	size_t size = 0, at = 0, changed = 0;
	uint64_t *before;

	kill(tracer, SIGSTOP);
	for (int i = 0; i < 200000; i++)
		work("");
	find_ranges();
	for (int i = 0; i < nranges; i++)
		size += ranges[i].hi - ranges[i].lo;
	before = malloc(size);
	for (int i = 0; i < nranges; i++) {
		memcpy((char *)before + at, ranges[i].lo, ranges[i].hi - ranges[i].lo);
		at += ranges[i].hi - ranges[i].lo;
	}
	for (int i = 0; i < MORE; i++)
		work("");
	at = 0;
	for (int i = 0; i < nranges; i++)
		for (uint64_t *w = (uint64_t *)ranges[i].lo; w < (uint64_t *)ranges[i].hi; w++, at++)
			if (*w == before[at] + MORE) {
				*w = 1ull << 45;
				changed++;
			}
	free(before);
	kill(tracer, SIGCONT);
	return changed ? "forged" : "missed";
}

int main(void)
{
	char line[128], what[32];
	unsigned long long to;
	pid_t child = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		to = 0;
		if (sscanf(line, "%31s %llu", what, &to) < 1 || !strcmp(what, "stop"))
			break;
		if (child) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
			child = 0;
		}
		puts(!strcmp(what, "child") || !strcmp(what, "dying") ? change_in_child(&child, to << 20) :
		     !strcmp(what, "lost") ? change_lost(to) : change(what, to));
	}
	if (child)
		kill(child, SIGKILL);
	puts("ok");
	return 0;
}
