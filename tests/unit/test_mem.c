/* SPDX-License-Identifier: MIT */
/* Lack of memory: a jump to the frame, the end where none may be left, and text streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define TOO_MUCH (SIZE_MAX / 4)

static int takes_too_much(void)
{
	free(xrealloc(NULL, TOO_MUCH));
	return 1;
}

static int tries_inside(void)
{
	return 10 + mem_try(takes_too_much(), 3);
}

__attribute__((unused)) static void test_jump(void **state)
{
	assert_int_equal(mem_try(takes_too_much(), 2), 2);
	assert_int_equal(mem_try(tries_inside(), 2), 13);	/* the inner one catches it */
	assert_int_equal(mem_try(takes_too_much(), 4), 4);	/* as often as it happens */
}

__attribute__((unused)) static void test_list_is_whole_after_a_jump(void **state)
{
	VEC(char) list = { 0 };

	*vec_add(&list) = 'x';
	assert_int_equal(mem_try((vec_grow(list.v, 0, &(size_t){ 0 }, TOO_MUCH / 8), 1), 2), 2);
	for (int i = 0; i < 100; i++)
		*vec_add(&list) = 'y';
	assert_int_equal(list.n, 101);
	vec_free(&list);
}

/* The signal that ends a process that can't go on. */
static int ended_by(bool hold)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct mem_frame f;

		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		mem_reserve(4096);
		if (hold)
			mem_enter(&f, true);
		takes_too_much();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

__attribute__((unused)) static void test_end(void **state)
{
	assert_int_equal(ended_by(true), SIGABRT);
	assert_int_equal(ended_by(false), SIGABRT);
}

__attribute__((unused)) static void test_reserve(void **state)
{
	assert_true(mem_reserve(1000));
	assert_true(mem_reserve(100));
	assert_false(mem_reserve(TOO_MUCH));
	assert_true(mem_reserve(1000));
}

static void test_text_stream(void **state)
{
	char *text;
	size_t n;
	FILE *f = xmemstream(&text, &n);
	long at;

	assert_int_equal(ftell(f), 0);
	fputs("abc", f);
	assert_int_equal(ftell(f), 3);	/* types_name.c limits a text by this */
	for (int i = 0; i < 10000; i++)
		fprintf(f, "%d ", i);
	at = ftell(f);
	fclose(f);
	assert_int_equal(n, at);
	assert_int_equal(strlen(text), n);
	assert_memory_equal(text, "abc0 1 2", 8);
	free(text);
	fclose(xmemstream(&text, &n));
	assert_string_equal(text, "");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_ADDRESS__	/* which ends the process itself */
		cmocka_unit_test(test_jump),
		cmocka_unit_test(test_list_is_whole_after_a_jump),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_reserve),
#endif
		cmocka_unit_test(test_text_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
