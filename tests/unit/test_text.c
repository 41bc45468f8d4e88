/* SPDX-License-Identifier: MIT */
/* Arenas, and text that is changed and put back, in targets that go on working meanwhile. */
#include "text_target.h"

static void test_once(void **state)
{
	struct control *c = control_new();
	pid_t pid = target_start(body_spin4, c);
	struct look before = look_at(pid);
	struct text_report rep;
	struct rig r;

	must(rig_open(&r, pid, 10));
	assert_works(c, 0);
	add_hot(&r);
	must(text_apply(r.p, r.a, &r.patch));
	assert_works(c, 0);
	assert_works(c, 3);
	assert_true(*rig_counter(&r, 0) > 0);
	must(text_remove(r.p, r.a, &rep));
	assert_int_equal(rep.restored, 1);
	assert_int_equal(rep.foreign, 0);
	assert_int_equal(rep.processes, 1);
	assert_int_equal(rep.pages_kept, 0);
	assert_true(rep.verified);
	assert_false(rep.arena_left);
	print_message("pause %" PRIu64 " us\n", r.p->pause_ns / 1000);
	rig_close(&r);
	assert_same(pid, &before);
	assert_works(c, 0);
	look_free(&before);
	target_end(pid, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
