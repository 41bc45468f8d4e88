/* SPDX-License-Identifier: MIT */
/*
 * The frame of the fuzz drivers. A driver defines fuzz_one(bytes, size) and runs in one of three ways:
 *
 *	driver FILE...				each file once (also stdin, as "-")
 *	driver SEED_FILE... -n COUNT -s SEED	COUNT damaged copies of the seeds, the same ones for the same SEED
 *						(no SEED_FILE: those that the driver brings); -t SECONDS
 *						instead: as many as that time allows
 *	with -fsanitize=fuzzer -DWITH_LIBFUZZER	under libFuzzer
 *
 * Damage is what hurts parsers: bits, bytes, interesting numbers at any alignment, runs copied
 * from elsewhere, and a cut end. Half of it goes into the first and last bytes, where headers are.
 * With -k FILE the input is written there before each run, so that a crash can be looked at.
 */
#ifndef JAB_FUZZ_MUTATE_H
#define JAB_FUZZ_MUTATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fuzz_one(const uint8_t *p, size_t size);

#ifdef WITH_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
	fuzz_one(p, size);
	return 0;
}

#else

struct seed { uint8_t *p; size_t n; const char *path; };

/* The driver's own seeds, numbered from 0; p is NULL behind the last. The bytes are freed. */
static struct seed fuzz_seed(size_t i);

static uint64_t random_state;

/* splitmix64 */
static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t random_below(uint64_t n)
{
	return n ? random_next() % n : 0;
}

static struct seed read_seed(const char *path)
{
	struct seed s = { .path = path };
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
	size_t cap = 0, got;

	if (!f) {
		perror(path);
		exit(1);
	}
	do {
		if (s.n == cap)
			s.p = realloc(s.p, cap = cap ? cap * 2 : 65536);
		got = fread(s.p + s.n, 1, cap - s.n, f);
		s.n += got;
	} while (got);
	if (f != stdin)
		fclose(f);
	return s;
}

static size_t random_place(size_t n)
{
	size_t edge = n < 4096 ? n : 4096;

	switch (random_below(4)) {
	case 0: return random_below(edge);
	case 1: return n - 1 - random_below(edge);
	default: return random_below(n);
	}
}

static void damage(uint8_t *p, size_t n)
{
	static const uint64_t odd[] = {
		0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
		0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffff000,
	};
	size_t at = random_place(n), len = 1u << random_below(4), from;
	uint64_t v;

	switch (random_below(5)) {
	case 0:
		p[at] ^= 1u << random_below(8);
		break;
	case 1:
		p[at] = random_next();
		break;
	case 2:		/* a number that breaks comparisons */
		v = odd[random_below(sizeof(odd) / sizeof(odd[0]))];
		memcpy(p + at, &v, len < n - at ? len : n - at);
		break;
	case 3:		/* a number a little off */
		v = 0;
		len = len < n - at ? len : n - at;
		memcpy(&v, p + at, len);
		v += random_below(65) - 32;
		memcpy(p + at, &v, len);
		break;
	default:	/* something that is right elsewhere */
		len = random_below(64) + 1;
		from = random_place(n);
		len = len < n - at ? len : n - at;
		len = len < n - from ? len : n - from;
		memmove(p + at, p + from, len);
	}
}

static void keep(const char *path, const uint8_t *p, size_t n)
{
	FILE *f = path ? fopen(path, "wb") : NULL;

	if (f) {
		fwrite(p, 1, n, f);
		fclose(f);
	}
}

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* seconds: 0 if only count matters. */
static int run_mutations(const struct seed *seeds, size_t nseeds, long count, double seconds, const char *kept)
{
	double slowest = 0, took, end = seconds_of(CLOCK_MONOTONIC) + seconds;
	long i, k, accepted = 0;

	for (i = 0; seconds ? seconds_of(CLOCK_MONOTONIC) < end : i < count; i++) {
		const struct seed *s = &seeds[random_below(nseeds)];
		size_t n = s->n;
		/* its own allocation, so that ASan sees one byte too far */
		uint8_t *p = malloc(n + 1);

		memcpy(p, s->p, n);
		for (k = 1 + random_below(12); k > 0 && n; k--)
			damage(p, n);
		if (random_below(8) == 0)
			n = random_below(n + 1);
		p = realloc(p, n ? n : 1);
		keep(kept, p, n);
		took = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
		accepted += fuzz_one(p, n) == 0;
		took = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - took;
		if (took > slowest)
			slowest = took;
		if (took > 1)
			printf("input %ld, from %s, took %.1f s\n", i, s->path, took);
		free(p);
	}
	printf("%ld inputs, %ld accepted, slowest %.3f s of CPU\n", i, accepted, slowest);
	return slowest > 5;
}

int main(int argc, char **argv)
{
	struct seed *seeds = calloc(argc + 64, sizeof(*seeds));
	const char *kept = NULL;
	double seconds = 0;
	long count = 0;
	size_t n = 0, k;
	int i, r = 0;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
			count = atol(argv[++i]);
		else if (strcmp(argv[i], "-t") == 0 && i + 1 < argc)
			seconds = atof(argv[++i]);
		else if (strcmp(argv[i], "-s") == 0 && i + 1 < argc)
			random_state = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "-k") == 0 && i + 1 < argc)
			kept = argv[++i];
		else
			seeds[n++] = read_seed(argv[i]);
	}
	if (!n && !count && !seconds)
		seeds[n++] = read_seed("-");
	if (!n)
		for (; n < 64 && (seeds[n] = fuzz_seed(n)).p; n++)
			;
	for (k = 0; k < n && !count && !seconds; k++)
		printf("%s: %s\n", seeds[k].path, fuzz_one(seeds[k].p, seeds[k].n) == 0 ? "accepted" : "refused");
	if (count || seconds)
		r = run_mutations(seeds, n, count, seconds, kept);
	for (k = 0; k < n; k++)
		free(seeds[k].p);
	free(seeds);
	return r;
}

#endif
#endif
