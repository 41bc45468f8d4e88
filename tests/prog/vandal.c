/* SPDX-License-Identifier: MIT */
/*
 * Writes nonsense into whatever of jab's memory it may write to, while it calls deed(): rings, counters, all.
 * What becomes of it is its own affair; it ends by itself after SECONDS of that, or dies earlier.
 *
 *	vandal SECONDS SEED
 */
#include "prog.h"
#include <sys/mman.h>

struct range { uint64_t *at; size_t words; };

noinline long deed(long n, const char *text)
{
	__asm__ volatile("" : "+r"(n), "+r"(text));
	return n;
}

static size_t find(struct range *v, size_t most)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;
	char line[512];
	size_t n = 0;

	while (f && n < most && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:jab") && strstr(line, " rw-s ") && sscanf(line, "%lx-%lx", &lo, &hi) == 2)
			v[n++] = (struct range){ (uint64_t *)lo, (hi - lo) / 8 };
	if (f)
		fclose(f);
	return n;
}

/* Heads of rings and of events are worth more than the rest: half of it goes to the first words of a page. */
static void scribble(const struct range *v, size_t n, unsigned *seed)
{
	static const uint64_t values[] = { 0, 1, -1ull, 0xffffffff, 1ull << 63, 0x2800000000, 0x4141414141414141 };
	const struct range *r = &v[rand_r(seed) % n];
	size_t at = ((size_t)rand_r(seed) << 16 ^ rand_r(seed)) % r->words;

	if (rand_r(seed) & 1)
		at = at / 512 * 512 + rand_r(seed) % 24;
	if (at < r->words)
		r->at[at] = rand_r(seed) & 1 ? values[rand_r(seed) % 7] : r->at[at] + 8 * (rand_r(seed) % 64);
}

int main(int argc, char **argv)
{
	time_t begin = time(NULL), end;
	unsigned seed = argc > 2 ? atoi(argv[2]) : 1;
	struct range v[256];
	size_t n;

	while (!(n = find(v, 256)) && time(NULL) < begin + 120)
		usleep(1000);
	end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 2);
	for (long i = 0; n && time(NULL) <= end; i++) {
		deed(i, "some text");
		if (i % 8 == 0) {
			scribble(v, n, &seed);
			usleep(20);		/* as many events as a reader can print */
		}
	}
	return 0;
}
