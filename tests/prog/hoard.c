/* SPDX-License-Identifier: MIT */
/* Memory that is lost in known amounts, and functions that fail in known ways: `hoard N` does so N times. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1000
static void *volatile keep[6 * MOST];

__attribute__((noipa)) void *lose(int n)
{
	return malloc(n);
}

__attribute__((noipa)) void *lose_zeroed(int n)
{
	return calloc(n, 2);
}

__attribute__((noipa)) void tidy(int n)
{
	char *p = malloc(n);

	memset(p, 1, n);
	p = realloc(p, n * 100);
	free(p);
}

__attribute__((noipa)) int fails_by_number(void)
{
	return -ENOENT;
}

__attribute__((noipa)) int fails_by_errno(void)
{
	errno = EACCES;
	return -1;
}

__attribute__((noipa)) void *fails_by_null(void)
{
	return NULL;
}

__attribute__((noipa)) int fails_never(int n)
{
	return n + 1;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10;

	for (int i = 0; i < n && i < MOST; i++) {
		void *p = NULL;

		keep[6 * i] = lose(100);
		keep[6 * i + 1] = lose_zeroed(50);
		keep[6 * i + 2] = strdup("hello world");
		keep[6 * i + 3] = realloc(malloc(10), 4000);
		if (posix_memalign(&p, 64, 300))
			return 1;
		keep[6 * i + 4] = p;
		tidy(1000);
		fails_by_number();
		fails_by_errno();
		fails_by_null();
		fails_never(i);
	}
	return 0;
}
