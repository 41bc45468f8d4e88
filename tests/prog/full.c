/* SPDX-License-Identifier: MIT */
/*
 * A process without room near its text: every gap within 2.5 GiB of it is taken by mappings that
 * nobody may touch. Serves commands.
 */
#include <sys/mman.h>
#include "phases.h"

#define REACH 0xa0000000ul

static void take(unsigned long from, unsigned long to)
{
	if (to > from)
		mmap((void *)from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
		     MAP_FIXED_NOREPLACE, -1, 0);
}

static void take_gaps(unsigned long lo, unsigned long hi)
{
	unsigned long from, to, last = lo, gaps[256][2];
	int n = 0, i;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx", &from, &to) != 2 || to <= lo)
			continue;
		gaps[n][0] = last;
		gaps[n++][1] = from < hi ? from : hi;
		last = to;
		if (from >= hi || n == 255)
			break;
	}
	if (f)
		fclose(f);
	for (i = 0; i < n; i++)
		take(gaps[i][0], gaps[i][1]);
	take(last, hi);
}

int main(void)
{
	unsigned long here = (unsigned long)work & ~0xffful;

	setvbuf(stdout, NULL, _IOLBF, 0);
	take_gaps(here > REACH + 0x10000 ? here - REACH : 0x10000, here + REACH);
	serve(work_times, NULL);
	return verdict();
}
