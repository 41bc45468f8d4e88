/* SPDX-License-Identifier: MIT */
/* Arenas of other processes are found also while a process keeps its mappings locked. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <unistd.h>

#include "base/clock.h"
#include "proc/undo/look.h"
#include <cmocka.h>		/* last: it makes fail() a macro */

#define LOCKED 5
#define LAST 9
#define LIMIT_NS 60000000000ull

static int locked, readers, reads;

/* The process LOCKED is not readable as long as `locked` says so; the others have an arena each. */
static void read_some(pid_t pid, bool descriptors, holder_list *list)
{
	(void)descriptors;
	__atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&reads, 1, __ATOMIC_SEQ_CST);
	while (pid == LOCKED && __atomic_load_n(&locked, __ATOMIC_SEQ_CST))
		sleep_ns(1000000);
	*vec_add(list) = (struct holder){ .pid = pid };
	__atomic_sub_fetch(&readers, 1, __ATOMIC_SEQ_CST);
}

static int set_up(void **state)
{
	(void)state;
	look_reads = read_some;
	return 0;
}

static void look(holder_list *list, pid_list *stuck)
{
	pid_list pids = { 0 };

	list->n = stuck->n = 0;
	for (pid_t pid = 1; pid <= LAST; pid++)
		*vec_add(&pids) = pid;
	look_for_holders(&pids, false, list, stuck);
	vec_free(&pids);
}

static bool all_but_one(const holder_list *list)
{
	bool good = list->n == LAST - 1;

	for (size_t i = 0; good && i < list->n; i++)
		good = list->v[i].pid == (pid_t)i + 1 + (i + 1 >= LOCKED);
	return good;
}

static void all_are_read(void **state)
{
	holder_list list = { 0 };
	pid_list stuck = { 0 };

	(void)state;
	locked = 0;
	look(&list, &stuck);
	assert_true(list.n == LAST && !stuck.n);
	vec_free(&list);
	vec_free(&stuck);
}

/* The others are found, the thread that sleeps is the only one, and what it finds in the end is not taken twice. */
static void one_is_locked(void **state)
{
	holder_list list = { 0 };
	pid_list stuck = { 0 };
	uint64_t end = now_ns() + LIMIT_NS;
	int wanted = 1;		/* the thread that sleeps reads no more than that */

	(void)state;
	locked = 1;
	reads = 0;
	for (int i = 0; i < 3; i++) {
		look(&list, &stuck);
		assert_true(all_but_one(&list));
		assert_true(stuck.n == 1 && stuck.v[0] == LOCKED);
		assert_int_equal(__atomic_load_n(&readers, __ATOMIC_SEQ_CST), 1);
		wanted += LAST - 1;
	}
	__atomic_store_n(&locked, 0, __ATOMIC_SEQ_CST);
	do {
		look(&list, &stuck);
		wanted += LAST - stuck.n;
	} while (stuck.n && now_ns() < end);
	assert_int_equal(__atomic_load_n(&reads, __ATOMIC_SEQ_CST), wanted);
	assert_true(list.n == LAST && !stuck.n);
	assert_int_equal(__atomic_load_n(&readers, __ATOMIC_SEQ_CST), 0);
	vec_free(&list);
	vec_free(&stuck);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_are_read),
		cmocka_unit_test(one_is_locked),
	};

	return cmocka_run_group_tests_name("look", tests, set_up, NULL);
}
