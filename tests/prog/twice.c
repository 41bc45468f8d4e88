/* SPDX-License-Identifier: MIT */
/*
 * Maps a part of its own file a second time, far from the first, and calls through that copy, as JavaScript
 * engines do to have their code near what they generate. It says "ready", and calls when it is told to.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define noinline __attribute__((noinline, noclone, used, optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")))

noinline long hit(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

noinline long through(long (*f)(long), long n)
{
	return f(n) + 1;
}

/* Where the file's byte of a function is, by /proc/self/maps. */
static uint64_t offset_of(const void *p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi, off;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &lo, &hi, &off) == 3 && (uintptr_t)p >= lo && (uintptr_t)p < hi)
			return (uintptr_t)p - lo + off;
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t at = offset_of(through), page = at & ~4095ull;
	int fd = open("/proc/self/exe", O_RDONLY);
	char *copy = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, page);
	long (*again)(long (*)(long), long) = (void *)(copy + (at - page));
	long sum = 0;

	if (copy == MAP_FAILED)
		return 1;
	puts("ready");
	fflush(stdout);
	getchar();
	for (long i = 0; i < 3; i++)
		sum += again(hit, i);
	printf("%ld\n", sum);
	return 0;
}
