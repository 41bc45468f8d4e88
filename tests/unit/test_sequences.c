/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences, one instruction at a time. The generated code uses an rseq block that only this test knows, so the
 * kernel does not abort at each step; the test does what the kernel would do, at the instruction that it chooses.
 * A reader looks at the shared memory after every instruction: it must see the state before the hit or the state after it,
 * and never the old one again. An abort at any instruction must leave exactly one hit.
 */
#include "gen_world.h"

#include <signal.h>
#include <ucontext.h>

#include "arch/rseq.h"

struct block { uint32_t cpu_id_start, cpu_id; uint64_t rseq_cs; uint32_t flags, pad[3]; };

static __thread volatile struct block own __attribute__((aligned(32)));

/* One run of a sequence. */
static struct {
	int abort_at;			/* instruction of the sequence; 0: none */
	int in_sequence;		/* instructions of it that were reached */
	int seen_new;			/* steps at which the new state was there */
	bool aborted;
	bool was_inside;		/* the instruction before was one of the sequence */
	bool was_armed;
	const char *wrong;
	const char *(*look)(bool *ret_new);	/* what is wrong with the state, or NULL */
} run;

static int32_t own_offset(void)
{
	return (char *)&own - (char *)__builtin_thread_pointer();
}

static void look_once(void)
{
	bool is_new = false;
	const char *wrong = run.look ? run.look(&is_new) : NULL;

	if (!wrong && run.seen_new && !is_new)
		wrong = "the old state has come back";
	if (!wrong && is_new && !run.seen_new && !run.was_inside)
		wrong = "the store that commits is outside of the sequence";
	if (wrong && !run.wrong)
		run.wrong = wrong;
	run.seen_new += is_new;
}

/* As the kernel does it: another CPU, and on to the abort address. */
static void abort_sequence(const struct rseq_descriptor *d, greg_t *regs)
{
	if (memcmp((void *)(d->abort_ip - 4), &(uint32_t){ RSEQ_SIG }, 4) && !run.wrong)
		run.wrong = "no signature is in front of the abort address";
	own.cpu_id_start = own.cpu_id = (own.cpu_id + 1) % ncpus;
	own.rseq_cs = 0;
	regs[REG_RIP] = d->abort_ip;
	run.aborted = true;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const struct rseq_descriptor *d = (void *)own.rseq_cs;
	uint64_t pc = regs[REG_RIP];
	bool inside = d && pc - d->start_ip < d->post_commit_offset;

	if (pc == (uint64_t)machine_landing || pc == (uint64_t)machine_landing_2)
		regs[REG_EFL] &= ~FLAG_TF;
	if (!run.aborted)
		look_once();
	if (d && !run.was_armed && pc != d->start_ip && !run.wrong)
		run.wrong = "a signal between the arming and the start would disarm it";
	run.was_inside = inside;
	run.was_armed = d;
	if (inside && ++run.in_sequence == run.abort_at)
		abort_sequence(d, regs);
}

/* The handler has a stack of its own: what the code keeps below rsp is compared too. */
static void run_steps(void)
{
	static uint8_t room[256 << 10];
	struct sigaction sa = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK }, old;
	stack_t alt = { .ss_sp = room, .ss_size = sizeof(room) }, before;

	sigaltstack(&alt, &before);
	sigaction(SIGTRAP, &sa, &old);
	machine_in.flags |= FLAG_TF;
	machine_run();
	machine_in.flags &= ~FLAG_TF;
	sigaction(SIGTRAP, &old, NULL);
	sigaltstack(&before, NULL);
}

static void begin(int abort_at, const char *(*look)(bool *ret_new))
{
	memset(&run, 0, sizeof(run));
	run.abort_at = abort_at;
	run.look = look;
	own.cpu_id_start = own.cpu_id = 0;
	own.rseq_cs = 0;
}

/* Returns whether there is an instruction more to abort at. */
static bool end(void)
{
	if (run.wrong)
		fail_msg("%s (abort at %d, in the sequence %d)", run.wrong, run.abort_at, run.in_sequence);
	assert_int_equal(own.rseq_cs, 0);	/* the descriptor may be unmapped later */
	assert_int_equal(run.aborted, run.abort_at && run.in_sequence == run.abort_at);
	if (!run.aborted)
		assert_true(run.seen_new > 0 && run.in_sequence > 3);
	return run.aborted || !run.abort_at;
}

/* ---- counts ---- */

#define COUNT_INDEX 3

static struct { uint64_t table[CPU_TABLE_MANY], cpu[MAX_CPUS][8], shared; struct process_state state; } counters;

static uint64_t counted(void)
{
	uint64_t sum = counters.shared;

	for (int i = 0; i < MAX_CPUS; i++)
		sum += counters.cpu[i][COUNT_INDEX];
	return sum;
}

static const char *look_at_count(bool *ret_new)
{
	uint64_t n = counted();

	*ret_new = n == 1;
	return n > 1 ? "counted twice" : NULL;
}

static void counts(void **state)
{
	struct count_spec spec = { .rseq_off = own_offset(), .rseq_sig = RSEQ_SIG, .has_rseq = true, .index = COUNT_INDEX,
				   .many_cpus = true, .fast = (uint64_t)&counters.state.fast,
				   .cpu_table = (uint64_t)counters.table, .shared = (uint64_t)&counters.shared };
	bool more = true;

	for (int at = 0; more; at++) {
		uint8_t *rw = code_rw + BODY_OFF + at % 64;
		int len = arch_x86_64.emit_count(rw, (uint64_t)code_rx + BODY_OFF + at % 64, &spec);

		memset(&counters, 0, sizeof(counters));
		counters.state.fast = 1;
		for (int i = 0; i < MAX_CPUS; i++)
			counters.table[i] = (uint64_t)counters.cpu[i];
		memcpy(rw + len, machine_back(), MACHINE_BACK);
		machine_body = (uint64_t)code_rx + BODY_OFF + at % 64;
		begin(at, look_at_count);
		gen_machine(random_word(), 0);
		memcpy(gen_before, gen_stack, sizeof(gen_stack));
		run_steps();
		machine_check(gen_stack, gen_before, GEN_STACK);
		assert_int_equal(counted(), 1);
		assert_int_equal(counters.shared, run.aborted);
		more = end();
	}
}

/* ---- events ---- */

static uint64_t head_before;
static bool overwrites;

static bool event_is_whole(const struct ring *r)
{
	const uint8_t *at = r->data + head_before % r->size;
	struct event_head e;
	uint64_t field;

	memcpy(&e, at, sizeof(e));
	memcpy(&field, at + sizeof(e), 8);
	return e.id == 42 && e.len == event_len(1) && e.time && e.time <= __builtin_ia32_rdtsc() && e.pid == (uint32_t)getpid() &&
	       e.tid == (uint32_t)gettid() && field == machine_in.gpr[RDI];
}

/* The mark of a new stretch is there when its first event can be. */
static const char *look_at_event(bool *ret_new)
{
	struct ring *r = &rings[0];
	uint64_t head = r->head->head, stretch = ring_stretch(r->size);

	*ret_new = head != head_before;
	if (!*ret_new)
		return NULL;
	if (head != head_before + event_len(1))
		return "head is nowhere";
	if (overwrites && head / stretch != head_before / stretch && r->head->marks[head / stretch % (r->size / stretch)] != head)
		return "a stretch without its mark";
	return event_is_whole(r) ? NULL : "head has moved before the event is whole";
}

static uint32_t events_seen;

static void count_event(int ring, const struct event_head *e, const uint64_t *fields)
{
	events_seen += e->id == 42 && fields[0] == machine_in.gpr[RDI];
}

static void place_event(const struct event_spec *spec, int at)
{
	machine_body = (uint64_t)emit_body(at % 64, spec, machine_back(), MACHINE_BACK);
	gen_machine(random_word(), 0);
	memcpy(gen_before, gen_stack, sizeof(gen_stack));
}

/* From a head that is `before` bytes in front of a stretch's end. */
static void events_from(uint32_t before)
{
	static const struct event_field field = { EVENT_REG, RDI, 8, 0 };
	struct event_spec spec = make_spec(true, &field, 1);
	bool more = true;

	spec.rseq_off = own_offset();
	spec.overwrite = overwrites;
	for (int at = 0; more; at++) {
		reset_rings(RING_SIZE_MIN);
		gen_set_up_scratch();
		head_before = 5 * ring_stretch(ring_size) - before;
		for (int i = 0; i < nrings(); i++)
			rings[i].tail = rings[i].head->tail = rings[i].head->head = head_before;
		begin(at, look_at_event);
		place_event(&spec, at);
		run_steps();
		machine_check(gen_stack, gen_before, GEN_STACK);
		events_seen = 0;
		assert_int_equal(drain(count_event), 1);
		assert_int_equal(events_seen, 1);
		assert_int_equal(lost_of_probe(), 0);
		more = end();
	}
}

static void events(void **state)
{
	for (int way = 0; way < 2; way++) {
		overwrites = way;
		events_from(24);
		events_from(1024);
	}
}

/* The reader asks for the counter of the probe when that of the ring has changed. */
static bool was_lost;

static const char *look_at_lost(bool *ret_new)
{
	was_lost |= ring_lost(&rings[0]) > 0;
	return ring_lost(&rings[0]) > shared->lost[0][LOST_INDEX] ? "the ring's counter comes first" : NULL;
}

static void lost_events(void **state)
{
	static const struct event_field field = { EVENT_REG, RDI, 8, 0 };
	struct event_spec spec = make_spec(true, &field, 1);

	spec.rseq_off = own_offset();
	for (int room = 0; room < 2; room++) {
		reset_rings(RING_SIZE_MIN);
		gen_set_up_scratch();
		rings[0].head->head = ring_size - event_len(1) + (room ? 0 : 8);	/* it would just fit; it just does not */
		was_lost = false;
		begin(0, look_at_lost);
		place_event(&spec, 0);
		run_steps();
		machine_check(gen_stack, gen_before, GEN_STACK);
		assert_int_equal(lost_of_probe(), !room);
		assert_int_equal(lost_of_rings(), !room);
		assert_int_equal(rings[0].head->head, ring_size - (room ? 0 : event_len(1) - 8));
		assert_null(run.wrong);
		assert_int_equal(was_lost, !room);
		assert_int_equal(own.rseq_cs, 0);
	}
}

/* ---- aggregations ---- */

static struct world *world;
static struct agg agg_before, agg_new;

static struct agg read_map(void)
{
	uint64_t five = 5;
	struct bytes key = { (uint8_t *)&five, world->u.maps.v[0].nkeys ? sizeof(five) : 0, 0 };
	struct map_entry e;

	return maps_reader_ops.get(world->r, 0, &key, &e) ? *e.agg : (struct agg){ 0 };
}

static bool same_agg(const struct agg *a, const struct agg *b)
{
	return a->count == b->count && a->sum.u == b->sum.u && a->min.u == b->min.u && a->max.u == b->max.u;
}

static const char *look_at_agg(bool *ret_new)
{
	struct agg a = read_map();

	if (same_agg(&a, &agg_before))
		return NULL;
	*ret_new = true;
	if (a.count != agg_before.count + 1)
		return "half of the new values";
	if (!run.seen_new)
		agg_new = a;
	return same_agg(&a, &agg_new) ? NULL : "the new state changes";
}

static struct world *world_of(uint8_t kind, uint8_t num, uint32_t nkeys)
{
	struct world *w = world_new();
	uint32_t value = reg_of(w, RSI), key = reg_of(w, RDI);

	if (num == IR_F64) {
		struct ir_ins *i = gen_ins(w->p, IR_I2F);

		i->type = IR_F64;
		i->a = value;
		i->dst = value = gen_reg(w->p, IR_F);
	}
	gen_map(&w->u, kind, num, nkeys);
	agg_ins(w, 0, value, nkeys, &key);
	return w;
}

/* Values that change all of sum, least and greatest now and then. */
static int64_t value_of(int n)
{
	return n % 3 == 0 ? 1000 + n : n % 3 == 1 ? -1000 - n : n;
}

static void one_kind(uint8_t kind, uint8_t num, uint32_t nkeys)
{
	struct gen_env env;
	bool more = true;

	world = world_of(kind, num, nkeys);
	world_start(world, true);
	hit(world, 5, 1, machine_run);
	env = gen_make_env(true, world->l);
	env.event.rseq_off = own_offset();
	assert_true(gen_place(&world->u, world->p, &env, 3) > 0);
	for (int at = 0; more; at++) {
		agg_before = read_map();
		begin(at, look_at_agg);
		hit(world, 5, value_of(at) + (num == IR_U64 ? 5000 : 0), run_steps);
		more = end();
		same_maps(world);
		if (at % 7)
			continue;
		maps_reader_ops.clear(world->r, 0);
		store_ops.clear(world->store, 0);
		hit(world, 5, 1, machine_run);
		same_maps(world);
	}
	world_free(world);
}

static void aggregations(void **state)
{
	for (uint8_t kind = IR_MAP_COUNT; kind <= IR_MAP_STATS; kind++)
		for (uint32_t nkeys = 0; nkeys < 2; nkeys++) {
			one_kind(kind, IR_I64, nkeys);
			one_kind(kind, IR_U64, nkeys);
			if (kind != IR_MAP_COUNT)
				one_kind(kind, IR_F64, nkeys);
		}
}

static void hit_in_shared_part(const uint64_t *count)
{
	uint64_t before = *count;

	hit(world, 5, 1, machine_run);
	assert_int_equal(*count, before + 1);
	assert_int_equal(own.rseq_cs, 0);
	same_maps(world);
}

/* What a thread finds for its CPU is an index only if there is such a part, and is not looked for where its block may be another's. */
static void aggregations_without_a_cpu(void **state)
{
	static const uint32_t forged[] = { -1u, -2u, 0x80000000, 0x7fffffff, 65536, 65535, 256, 255 };
	struct gen_env env;
	uint64_t *count;

	world = world_of(IR_MAP_COUNT, IR_I64, 0);
	world_start(world, true);
	env = gen_make_env(true, world->l);
	env.event.rseq_off = own_offset();
	assert_true(gen_place(&world->u, world->p, &env, 3) > 0);
	count = (uint64_t *)(gen_maps_memory + world->l->parts + world->l->part_size * world->l->ncpus + world->l->maps[0].values);
	begin(0, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
		own.cpu_id = forged[i];
		hit_in_shared_part(count);
	}
	own.cpu_id = world->l->ncpus + 1;
	hit_in_shared_part(count);
	own.cpu_id = 0;
	shared->state.fast = 0;
	hit_in_shared_part(count);
	shared->state.fast = 1;
	world_free(world);
}

/* ---- aggregations that all CPUs share: another thread adds to the same words at any moment ---- */

static uint8_t *shared_block;
static int interfere_at, steps_done;
static bool floats;

static void add_one_there(int32_t off)
{
	double d;

	memcpy(&d, shared_block + off, 8);
	d += 1;
	if (floats)
		memcpy(shared_block + off, &d, 8);
	else
		++*(uint64_t *)(shared_block + off);
}

static void lower_there(int32_t off, int64_t v)
{
	double d = v;

	memcpy(shared_block + off, floats ? (void *)&d : (void *)&v, 8);
}

static const char *interfere(bool *ret_new)
{
	if (++steps_done != interfere_at)
		return NULL;
	add_one_there(AGG_SUM);
	lower_there(AGG_MIN, -77777);
	lower_there(AGG_MAX, 77777);
	return NULL;
}

static void one_shared_kind(uint8_t kind, uint8_t num)
{
	struct gen_env env;
	int n = 1;

	floats = num == IR_F64;
	for (interfere_at = 0; interfere_at <= n; interfere_at++) {
		struct agg a;

		world = world_of(kind, num, 0);
		world_start(world, false);
		hit(world, 5, 100, machine_run);
		env = gen_make_env(false, world->l);
		assert_true(gen_place(&world->u, world->p, &env, 3) > 0);
		shared_block = gen_maps_memory + world->l->parts + world->l->part_size * world->l->ncpus + world->l->maps[0].values;
		begin(0, interfere);
		steps_done = 0;
		hit(world, 5, interfere_at % 2 ? 1000 : -1000, run_steps);
		n = interfere_at ? n : steps_done - 2;	/* the last ones are in the landing */
		a = read_map();
		assert_int_equal(a.count, 2);
		assert_int_equal(floats ? (int64_t)a.sum.f : a.sum.i, 100 + (interfere_at % 2 ? 1000 : -1000) + (interfere_at > 0));
		assert_int_equal(floats ? (int64_t)a.min.f : a.min.i, interfere_at ? -77777 : -1000);
		assert_int_equal(floats ? (int64_t)a.max.f : a.max.i, interfere_at ? 77777 : 100);
		world_free(world);
	}
	assert_true(n > 20);
}

static void shared_aggregations(void **state)
{
	one_shared_kind(IR_MAP_STATS, IR_I64);
	one_shared_kind(IR_MAP_STATS, IR_F64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(counts),
		test(events),
		test(lost_events),
		test(aggregations),
		test(aggregations_without_a_cpu),
		test(shared_aggregations),
	};

	return cmocka_run_group_tests_name("sequences", tests, NULL, NULL);
}
