/* SPDX-License-Identifier: MIT */
/*
 * A family with a liar in it. The parent loads and unloads a library, where a traced thread waits for its tracer; a child that
 * shares jab's memory says all the time that there is a tracer that listens, wherever jab keeps such words: in each page that it can
 * write it looks for a thread number of jab's, and writes it again when the kernel or jab has changed it. Commands, one a line:
 *
 *	lie	the child begins, and the answer is the number of words that it keeps as they are
 *	longest	the longest time in ms that a load has taken since the last time, but for what the thread waited for a CPU
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "prog.h"

#define MOST 1024
#define BEFORE 4		/* words around the number: whether it listens may be said there */

struct lie { uint32_t *at, value; };

static struct lie lies[MOST];
static size_t nlies;
static volatile long longest_ms;
static volatile int stop;

noinline int work(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

static int is_jab(uint32_t tid)
{
	char name[64], comm[32] = "";
	int fd;

	snprintf(name, sizeof(name), "/proc/%u/comm", tid);
	fd = tid && tid < 1u << 22 ? open(name, O_RDONLY) : -1;
	if (fd < 0)
		return 0;
	if (read(fd, comm, sizeof(comm) - 1) < 0)
		comm[0] = 0;
	close(fd);
	return !strncmp(comm, "jab", 3);
}

static void keep(uint32_t *at)
{
	if (nlies < MOST)
		lies[nlies++] = (struct lie){ at, *at };
}

static void find_in(uint32_t *lo, uint32_t *hi)
{
	uint32_t last = 0;

	for (uint32_t *w = lo; w < hi; w++) {
		if (*w == last || !is_jab(*w))
			continue;
		last = *w;
		for (uint32_t *around = w - BEFORE < lo ? lo : w - BEFORE; around <= w && around < hi; around++)
			keep(around);
	}
}

static void find(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:jab") && strstr(line, " rw-s ") && sscanf(line, "%lx-%lx", &lo, &hi) == 2)
			find_in((uint32_t *)lo, (uint32_t *)hi);
	if (f)
		fclose(f);
}

static size_t lie(void)
{
	int told[2];
	size_t n = 0;

	if (pipe(told) < 0)
		return 0;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		find();
		if (write(told[1], &nlies, sizeof(nlies)) < 0)
			_exit(1);
		for (;;) {
			for (size_t i = 0; i < nlies; i++)
				__atomic_store_n(lies[i].at, lies[i].value, __ATOMIC_RELAXED);
			usleep(50);
		}
	}
	if (read(told[0], &n, sizeof(n)) < 0)
		n = 0;
	return n;
}

static long waited_ms(void)
{
	unsigned long long ran = 0, waited = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "r");

	if (f && fscanf(f, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	if (f)
		fclose(f);
	return waited / 1000000;
}

static void *loads(void *arg)
{
	while (!stop) {
		long begin = now_ns() / 1000000 - waited_ms(), took;
		void *lib = dlopen("libm.so.6", RTLD_NOW);

		if (lib)
			dlclose(lib);
		work(1);
		took = (long)(now_ns() / 1000000) - waited_ms() - begin;
		if (took > longest_ms)
			longest_ms = took;
		usleep(500);
	}
	return arg;
}

int main(void)
{
	pthread_t t;
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_create(&t, NULL, loads, NULL);
	puts("ready");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "stop\n")) {
		if (!strcmp(line, "lie\n")) {
			printf("%zu\n", lie());
			longest_ms = 0;
		} else {
			printf("%ld\n", longest_ms);
			longest_ms = 0;
		}
	}
	stop = 1;
	pthread_join(t, NULL);
	return verdict();
}
