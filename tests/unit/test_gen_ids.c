/* SPDX-License-Identifier: MIT */
/* pid and tid in a target of another pid namespace: its own numbers and ours, from the table, or from the tracer. */
#include <pthread.h>
#include <sys/syscall.h>
#include "arch/park.h"
#include "gen_world.h"

static uint64_t id_table[ID_TABLE];
static struct park id_park;
static struct park_keeper id_keeper;
static uint64_t id_answer;
static bool id_over;

/* The tracer: gives its answer to whoever asks. */
static void *answer(void *arg)
{
	while (!__atomic_load_n(&id_over, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < PARK_SLOTS; i++) {
			struct park_slot *s = &id_park.slots[i];

			if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != PARK_WAITING || s->kind != PARK_IDS)
				continue;
			s->arg[0] = id_answer;
			__atomic_store_n(&s->state, PARK_GO, __ATOMIC_RELEASE);
			syscall(SYS_futex, &s->state, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
		}
		usleep(200);
	}
	return arg;
}

static void open_park(uint32_t open)
{
	id_park = (struct park){ 0 };
	id_keeper = (struct park_keeper){ .open = open, .tid = 1, .park = (uint64_t)&id_park };
}

/* n: 2, or 4 with those of the process itself */
static struct world *ids_world(uint32_t n, bool has_tid, bool park)
{
	static const uint8_t what[] = { IR_CTX_PID, IR_CTX_TID, IR_CTX_NS_PID, IR_CTX_NS_TID };
	struct world *w = world_new();
	uint32_t out[ARRAY_SIZE(what)];
	struct gen_env env;

	for (uint32_t k = 0; k < n; k++) {
		struct ir_ins *i;

		out[k] = gen_reg(w->p, IR_I);
		i = gen_ins(w->p, IR_CTX);
		i->imm = what[k];
		i->dst = out[k];
	}
	emit_numbers(w, out, n);
	world_start(w, true);
	env = gen_make_env(true, w->l);
	env.event.has_tid = has_tid;
	env.ids_table = (uint64_t)id_table;
	env.keeper = park ? (uint64_t)&id_keeper : 0;
	assert_true(gen_place(&w->u, w->p, &env, 1) > 0);
	return w;
}

static void note_id(uint32_t theirs, uint32_t ours, bool other)
{
	id_table[(theirs % ID_TABLE) ^ (other ? ID_OTHER : 0)] = id_entry(theirs, ours);
}

/* Noted at either place, the tracer is not asked; and it is never asked for what the process calls itself. */
static void numbers_of_another_namespace(void **state)
{
	uint32_t far = gettid() + 2 * ID_TABLE;

	open_park(1);
	for (int way = 0; way < 6; way++) {
		bool other = way & 1, asks_kernel = way >= 2;
		struct world *w = ids_world(4, way < 4, true);

		memset(id_table, 0, sizeof(id_table));
		gen_their_pid = asks_kernel ? 0 : 77;
		gen_our_pid = asks_kernel ? 5000 : 4000;
		gen_our_tid = 5000;
		*pid_cell = asks_kernel ? getpid() : 77;
		note_id(*pid_cell, gen_our_pid, other);
		note_id(gettid(), 5000, other);
		if (other)	/* another number has the first place */
			note_id(far, 1, false);
		/* The pid cell is ours to change only where nobody asks the kernel. */
		if (other && !asks_kernel)
			note_id(77, 4000, false);
		set_fast(way != 2 && way != 3);
		for (int k = 0; k < 8; k++)
			hit(w, 1, 2, k % 4 ? machine_run : machine_run_stepped);
		assert_int_equal(id_park.bell, 0);
		world_free(w);
	}
	set_fast(true);
	*pid_cell = getpid();
	gen_their_pid = gen_our_pid = gen_our_tid = 0;
}

/* What is missing is asked for once, and noted; what was noted before at that place moves. */
static void numbers_that_the_tracer_knows(void **state)
{
	uint32_t me = gettid(), far = me + ID_TABLE;
	struct world *w = ids_world(2, true, true);	/* what takes most of the stack is to ask */
	pthread_t tracer;

	memset(id_table, 0, sizeof(id_table));
	note_id(far, 9, false);
	open_park(1);
	id_answer = 6000ull << 32 | 6000;
	id_over = false;
	gen_our_pid = gen_our_tid = 6000;
	assert_int_equal(pthread_create(&tracer, NULL, answer, NULL), 0);
	for (int k = 0; k < 6; k++)
		hit(w, 1, 2, k != 3 ? machine_run : machine_run_stepped);
	id_over = true;
	pthread_join(tracer, NULL);
	assert_int_equal(id_park.bell, 1);
	assert_true(id_table[me % ID_TABLE] == id_entry(me, 6000) && id_table[(me % ID_TABLE) ^ ID_OTHER] == id_entry(far, 9));
	gen_our_pid = gen_our_tid = 0;
	world_free(w);
}

/* Nobody can be asked, or nobody listens: 0, which is counted each time. */
static void numbers_that_nobody_knows(void **state)
{
	for (int way = 0; way < 2; way++) {
		struct world *w = ids_world(4, true, way);

		open_park(0);
		memset(id_table, 0, sizeof(id_table));
		for (int k = 1; k < 5; k++) {
			gen_machine(random_word(), 0);
			assert_null(gen_run(machine_run));
			assert_int_equal(gen_errors[0][IR_ERR_IDS], 2 * k);
			assert_true(((uint64_t *)gen_native.payload)[0] == 0 && ((uint64_t *)gen_native.payload)[1] == 0);
			assert_int_equal(((uint64_t *)gen_native.payload)[2], getpid());
		}
		world_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_another_namespace),
		cmocka_unit_test(numbers_that_the_tracer_knows),
		cmocka_unit_test(numbers_that_nobody_knows),
	};

	gen_set_up();
	return cmocka_run_group_tests_name("gen_ids", tests, NULL, NULL);
}
