/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables of real files: time to make them, size, and of how many bytes of code they tell.
 *
 *	unwind_tables FILE...
 */
#include "base/err.h"
#include "sym/unwind/unwind.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const kinds[] = { "none", "end", "stop", "cfa", "deref", "plt", "signal" };

/* Bytes of code by kind, alignment between functions counted with the function before it. */
static void count_kinds(const struct unwind_data *d, uint64_t len, uint64_t *bytes)
{
	const struct unwind_rule *rules = (const void *)((const char *)d + d->rules);
	const uint32_t *rows = (const void *)((const char *)d + d->rows);
	uint32_t b, i;

	for (b = 0; b < d->nblocks; b++) {
		uint64_t end = (uint64_t)b * UNWIND_BLOCK + UNWIND_BLOCK < len ? UNWIND_BLOCK : len % UNWIND_BLOCK;

		for (i = d->index[b]; i < d->index[b + 1]; i++) {
			uint32_t from = rows[i] % UNWIND_BLOCK;
			uint32_t to = i + 1 < d->index[b + 1] ? rows[i + 1] % UNWIND_BLOCK : end;

			bytes[rules[rows[i] / UNWIND_BLOCK].kind] += to > from ? to - from : 0;
		}
	}
}

/* Processor time: other load on the machine does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void show(const char *path)
{
	uint64_t lo, hi, bytes[8] = { 0 }, t0, t1;
	const struct unwind_data *d;
	struct module *m;

	if (module_open("", path, &m) < 0) {
		printf("%s: %s\n", path, err_text());
		return;
	}
	t0 = cpu_ns();
	d = module_unwind(m, &lo, &hi);
	t1 = cpu_ns();
	if (!d) {
		printf("%-24.40s no table\n", path);
		module_close(m);
		return;
	}
	count_kinds(d, hi - lo, bytes);
	printf("%-28s %7.2f ms  %8u rows %5u rules %9u bytes  code %9lu:", strrchr(path, '/') ? strrchr(path, '/') + 1 : path,
	       (t1 - t0) / 1e6, d->nrows, d->nrules, d->size, (unsigned long)(hi - lo));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (bytes[i])
			printf(" %s %.3f %%", kinds[i], 100.0 * bytes[i] / (hi - lo));
	printf("\n");
	module_close(m);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		show(argv[i]);
	return 0;
}
