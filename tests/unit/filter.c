/* SPDX-License-Identifier: MIT */
/*
 * Part of every unit test. JAB_TEST=PATTERN runs only the tests of a group whose names match; * and ? match anything.
 *
 * cmocka catches signals of a crash and goes on with the next test. A forked target that crashed would do so, too, and
 * run all tests that are left beside its parent, whose targets crash as well, and so on. So forked children are without it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* No test catches SIGSYS before it forks: that handler is cmocka's. A test's own handlers stay. */
static void forget_cmocka(void)
{
	static const int crashes[] = { SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS };
	struct sigaction its, now;

	if (sigaction(SIGSYS, NULL, &its) < 0 || its.sa_handler == SIG_DFL || its.sa_handler == SIG_IGN)
		return;
	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
		if (sigaction(crashes[i], NULL, &now) == 0 && now.sa_handler == its.sa_handler)
			signal(crashes[i], SIG_DFL);
}

__attribute__((constructor)) static void set_up(void)
{
	const char *pattern = getenv("JAB_TEST");

	pthread_atfork(NULL, NULL, forget_cmocka);
	if (pattern && *pattern)
		cmocka_set_test_filter(pattern);
}
