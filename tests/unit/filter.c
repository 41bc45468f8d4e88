/* SPDX-License-Identifier: MIT */
/* JAB_TEST=PATTERN runs only the tests of a group whose names match; * and ? match anything. Part of every unit test. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>

__attribute__((constructor)) static void set_filter(void)
{
	const char *pattern = getenv("JAB_TEST");

	if (pattern && *pattern)
		cmocka_set_test_filter(pattern);
}
