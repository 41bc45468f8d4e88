/* SPDX-License-Identifier: MIT */
/*
 * Counts the calls of functions of a running process for some seconds:
 *
 *	cc -o count count.c $(pkg-config --cflags --libs jab)
 *	./count PID SECONDS FUNCTION...
 *
 * Halfway through, the first function's probe is disabled: its count stands still from then on.
 */
#include <inttypes.h>
#include <jab/jab.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int print_count(void *arg, const struct jab_count *c)
{
	(void)arg;
	printf("%12" PRIu64 "  %s:%s\n", c->hits, c->module, c->function);
	return 0;
}

static int run(struct jab *j, struct jab_probe *first, double seconds)
{
	double start = now();
	int r = jab_insert(j), half = 0;

	while (r == 0 && now() - start < seconds && jab_alive(j)) {
		r = jab_dispatch(j) < 0 ? -1 : jab_wait(j, 10000000);
		if (r == 0 && !half && now() - start > seconds / 2) {
			half = 1;
			r = jab_probe_disable(first);
		}
	}
	if (r == 0)
		r = jab_remove(j);
	if (r == 0)
		r = jab_each_count(j, print_count, NULL);
	return r;
}

int main(int argc, char **argv)
{
	struct jab_options options = { .size = sizeof(options) };
	struct jab_probe *probe, *first = NULL;
	struct jab *j;
	int r;

	if (argc < 4) {
		fprintf(stderr, "usage: count PID SECONDS FUNCTION...\n");
		return 2;
	}
	if (jab_new(&options, &j) < 0) {
		fprintf(stderr, "count: %s\n", jab_error(NULL));
		return 1;
	}
	r = jab_attach(j, atoi(argv[1]));
	for (int i = 3; r == 0 && i < argc; i++) {
		r = jab_add_probe(j, argv[i], &probe);
		first = first ? first : probe;
	}
	if (r == 0)
		r = run(j, first, atof(argv[2]));
	if (r < 0)
		fprintf(stderr, "count: %s\n", jab_error(j));
	jab_free(j);	/* also takes the probes out, if they are still in */
	return r < 0;
}
