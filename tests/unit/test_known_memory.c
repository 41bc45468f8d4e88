/* SPDX-License-Identifier: MIT */
/*
 * Known memory (arch/known.h): loads by the code that gen writes, calls that take memory away, and what stands between both. A load that
 * must not be made would end this program.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "arch/arch.h"
#include "arch/known.h"
#include "blob/blob.h"
#include "blob/program.h"
#include "gen/emit.h"

#define PAGE 4096ul
#define ASKED 0x5a5a5a5a5a5aul		/* what a reader returns that has to ask */
#define MOST_CPUS 64
#define CODE_ROOM 16384

static union { struct known k; uint8_t room[sizeof(struct known) + MOST_CPUS * sizeof(struct known_cpu)]; } table __attribute__((aligned(64)));
static struct known *const known = &table.k;
static uint32_t fast, quiet;
static uint8_t *code;

typedef uint64_t (*reader)(uint64_t at);
typedef void (*unmapper)(struct known *k, uint64_t at, uint64_t len, uint32_t how, uint32_t ncpus, const uint32_t *quiet);
static unmapper take_away;

static reader make_reader(int n, enum asm_type type, uint32_t delay)
{
	uint8_t *at = code + n * 1024;
	struct gen_env env = { .event = { .has_rseq = true, .fast = (uint64_t)&fast, .rseq_off = __rseq_offset, .rseq_sig = RSEQ_SIG },
			       .known = (uint64_t)known, .known_cpus = MOST_CPUS, .known_delay = delay };
	struct gen g = { .arch = &arch_x86_64, .a = { .ops = arch_x86_64.assembler, .at = (uint64_t)at }, .env = &env,
			 .out = -64 };	/* below the stack pointer: there is no frame */
	asm_label then = asm_new_label(&g.a);

	ins(&g, move, ASM_64, ASM_C, ASM_ARG0);
	g_load_known(&g, type, then);
	ins(&g, imm, ASM_A, ASKED);
	asm_bind(&g.a, then);
	ins(&g, ret);
	assert_int_equal(asm_link(&g.a), 0);
	assert_in_range(g.a.code.n, 1, 1024);
	memcpy(at, g.a.code.v, g.a.code.n);
	asm_free(&g.a);
	return (reader)at;
}

static void set(int n, const void *at, uint64_t len)
{
	known->hold[n] = (struct known_range){ (uint64_t)at, len };
	known->load[n] = (struct known_range){ (uint64_t)at, len - KNOWN_SHORT };
}

static uint8_t *pages(size_t n)
{
	uint8_t *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static int set_up(void **state)
{
	memset(&table, 0, sizeof(table));
	fast = 1;
	quiet = 0;
	if (code)
		return 0;
	code = mmap(NULL, CODE_ROOM + blob_size + PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code + CODE_ROOM, blob_image, blob_size);
	take_away = (unmapper)(code + CODE_ROOM + blob_offset(BLOB_UNMAP));
	return 0;
}

static uint64_t sum(size_t word)
{
	uint64_t n = 0;

	for (int i = 0; i < MOST_CPUS; i++)
		n += *(uint64_t *)((uint8_t *)&known->cpu[i] + word);
	return n;
}

#define INS (sum(offsetof(struct known_cpu, in[0])) + sum(offsetof(struct known_cpu, in[1])))
#define OUTS (sum(offsetof(struct known_cpu, out[0])) + sum(offsetof(struct known_cpu, out[1])))
#define LEFT (known->left[0] + known->left[1])

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ul + t.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

/* ---- loads ---- */

static void whole_loads_are_made_in_each_range(void **state)
{
	reader wide = make_reader(0, ASM_U64, 0), narrow = make_reader(1, ASM_I8, 0);
	uint8_t *p = pages(3);

	memset(p, 0x81, 3 * PAGE);
	for (int n = 0; n < KNOWN_RANGES; n++) {
		uint64_t outs = OUTS, left = LEFT;

		memset(known, 0, offsetof(struct known, phase));
		known->phase = n % 2 * 8;
		set(n, p + PAGE, PAGE);
		assert_int_equal(wide((uint64_t)p + PAGE), 0x8181818181818181);
		assert_int_equal(wide((uint64_t)p + 2 * PAGE - 8), 0x8181818181818181);
		assert_int_equal(narrow((uint64_t)p + PAGE + 5), (uint64_t)-127);
		assert_int_equal(OUTS - outs, 3);
		assert_int_equal(wide((uint64_t)p + 2 * PAGE - 7), ASKED);
		assert_int_equal(wide((uint64_t)p + PAGE - 1), ASKED);
		assert_int_equal(wide(0), ASKED);
		assert_int_equal(wide(~0ul), ASKED);
		assert_int_equal(LEFT - left, 4);
		assert_int_equal(INS, OUTS + LEFT);
		assert_int_equal(sum(offsetof(struct known_cpu, in[n % 2])), 7 * (n / 2 + 1));
	}
	munmap(p, 3 * PAGE);
}

/* Nothing in the thread block is touched while threads can't be told apart. */
static void without_registration_all_is_asked(void **state)
{
	reader r = make_reader(0, ASM_U64, 0);
	uint8_t *p = pages(1);

	set(0, p, PAGE);
	fast = 0;
	assert_int_equal(r((uint64_t)p), ASKED);
	assert_int_equal(INS, 0);
	munmap(p, PAGE);
}

/* A CPU that has no part, and the number of a thread that has not registered. */
static void *unregistered(void *arg)
{
	struct rseq *rs = (struct rseq *)((uint8_t *)__builtin_thread_pointer() + __rseq_offset);
	uint64_t *ret = arg;

	if (syscall(SYS_rseq, rs, 32, 1 /* RSEQ_FLAG_UNREGISTER */, RSEQ_SIG))
		return NULL;
	ret[1] = ((reader)code)(ret[0]);
	syscall(SYS_rseq, rs, 32, 0, RSEQ_SIG);
	return NULL;
}

static void a_thread_without_cpu_asks(void **state)
{
	uint8_t *p = pages(1);
	uint64_t arg[2] = { (uint64_t)p, 0 };
	pthread_t t;

	make_reader(0, ASM_U64, 0);
	set(0, p, PAGE);
	assert_int_equal(pthread_create(&t, NULL, unregistered, arg), 0);
	pthread_join(t, NULL);
	assert_int_equal(arg[1], ASKED);
	assert_int_equal(INS, 0);
	munmap(p, PAGE);
}

/* ---- what a call cuts ---- */

static void ranges_are_cut(void **state)
{
	static const struct { uint64_t at, len; uint32_t how; uint64_t rest; } rows[] = {
		{ 0x10000, 0x4000, KNOWN_CUT_RANGE, 0 },
		{ 0x12000, 0x1000, KNOWN_CUT_RANGE, 0x2000 },
		{ 0x12345, 0x1000, KNOWN_CUT_RANGE, 0x2000 },
		{ 0x13000, 1, KNOWN_CUT_RANGE, 0x3000 },
		{ 0x13fff, 1ull << 40, KNOWN_CUT_RANGE, 0x3000 },
		{ 0xf000, 0x1001, KNOWN_CUT_RANGE, 0 },
		{ 0, ~0ull, KNOWN_CUT_RANGE, 0 },
		{ 0xf000, 0x1000, KNOWN_CUT_RANGE, 0x4000 },
		{ 0x14000, 1ull << 40, KNOWN_CUT_RANGE, 0x4000 },
		{ 0x11000, 0, KNOWN_CUT_RANGE, 0x1000 },
		{ 0x900000, 0x1000, KNOWN_CUT_ALL, 0 },
		{ 0, 0, KNOWN_CUT_OFF, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(known, 0, sizeof(*known));
		set(3, (void *)0x10000, 0x4000);
		take_away(known, rows[i].at, rows[i].len, rows[i].how, MOST_CPUS, &quiet);
		assert_int_equal(known->hold[3].len, rows[i].rest);
		assert_int_equal(known->load[3].len, rows[i].rest ? rows[i].rest - KNOWN_SHORT : 0);
		assert_int_equal(known->hold[3].lo, 0x10000);
		assert_int_equal(known->off, rows[i].how == KNOWN_CUT_OFF ? KNOWN_OFF_CALL : KNOWN_ON);
		assert_int_equal(known->cuts, rows[i].rest != 0x4000);
	}
}

/* ---- copies ---- */

typedef int64_t (*program)(uint8_t *frame, const struct prog_op *op, const struct ring_ref *ring);
static uint64_t scratch[8192];

/* The bytes that were copied; -1: the read has failed. System calls are forbidden, so that nothing is asked. */
static int32_t copy(uint64_t from, uint32_t len)
{
	struct prog_op op = { .op = PROG_READ_BUF, .flags = PROG_KNOWN, .cap = len, .imm = len, .a = 0, .b = PROG_NONE, .slot = PROG_SLOTS,
			      .table = (uint64_t)known, .shape = (uint64_t)&fast, .max_len = (uint32_t)__rseq_offset };
	struct ring_ref ring = { .scratch = (uint64_t)scratch, .scratch_size = sizeof(scratch) };
	struct prog_run *run = (struct prog_run *)((uint8_t *)scratch + PROG_RUN);

	run->faults = 0;
	((program)(code + CODE_ROOM + blob_offset(BLOB_PROGRAM)))((uint8_t *)&from, &op, &ring);
	return run->faults ? -1 : *(int32_t *)((uint8_t *)scratch + PROG_SLOTS);
}

static const uint8_t *copied(void)
{
	return (uint8_t *)scratch + PROG_SLOTS + 4;
}

static void whole_copies_are_made_in_each_range(void **state)
{
	uint8_t *p = pages(4);

	for (size_t i = 0; i < 4 * PAGE; i++)
		p[i] = i * 7;
	for (int n = 0; n < KNOWN_RANGES; n++) {
		uint64_t at = (uint64_t)p + PAGE, missed = known->missed;

		memset(known, 0, offsetof(struct known, phase));
		known->phase = n % 2 * 8;
		set(n, p + PAGE, 2 * PAGE);
		assert_int_equal(copy(at, 1), 1);
		assert_int_equal(copy(at + 5, 5000), 5000);
		assert_memory_equal(copied(), p + PAGE + 5, 5000);
		assert_int_equal(copy(at + 2 * PAGE - 8, 8), 8);
		assert_memory_equal(copied(), p + 3 * PAGE - 8, 8);
		assert_int_equal(known->missed, missed);
		assert_int_equal(copy(at + 2 * PAGE - 8, 9), -1);
		assert_int_equal(copy(at - 1, 2), -1);
		assert_int_equal(copy(0, 8), -1);
		assert_int_equal(copy(~0ul, 1), -1);
		assert_int_equal(known->missed, missed + 4);
		assert_int_equal(known->came[0], known->went[0]);
		assert_int_equal(known->came[1], known->went[1]);
	}
	fast = 0;
	assert_int_equal(copy((uint64_t)p + PAGE, 1), -1);
	munmap(p, 4 * PAGE);
}

static uint64_t copy_eight(uint64_t at)
{
	return copy(at, 8) == 8 ? *(uint64_t *)copied() : ASKED;
}

/* ---- readers and calls at the same time ---- */

struct reading { reader r; uint64_t at, got; int done; bool alone; };

/* On a CPU where nothing else runs, as far as that is allowed: a thread that is preempted starts again in any case. */
static void be_alone_on(int cpu, bool alone)
{
	struct sched_param p = { .sched_priority = alone ? 1 : 0 };
	static cpu_set_t before;
	cpu_set_t one;

	if (alone)
		sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), alone ? &one : &before);
	sched_setscheduler(0, alone ? SCHED_FIFO : SCHED_OTHER, &p);
}

static void *read_once(void *arg)
{
	struct reading *x = arg;

	if (x->alone)
		be_alone_on(1, true);
	x->got = x->r(x->at);
	__atomic_store_n(&x->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

struct taking { uint64_t at, len; int done, reader_was_out; struct reading *x; };

static void *take_once(void *arg)
{
	struct taking *t = arg;

	take_away(known, t->at, t->len, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
	t->reader_was_out = INS + known->came[0] + known->came[1] == OUTS + LEFT + known->went[0] + known->went[1];
	__atomic_store_n(&t->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * A load that waits in a page fault is not interrupted by the barrier. Whoever takes the page away waits for it, also the second one that
 * comes, who finds the range cut already. The fault is held open by a userfaultfd.
 */
static bool in_a_page_fault(reader r)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	uint8_t *p = pages(1);
	struct uffdio_register reg = { .range = { (uint64_t)p, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = { (uint64_t)p, PAGE } };
	struct reading x = { .r = r, .at = (uint64_t)p, .got = 1 };
	struct taking t[2] = { { .at = (uint64_t)p, .len = PAGE }, { .at = (uint64_t)p, .len = PAGE } };
	pthread_t reads, takes[2];
	struct uffd_msg msg;
	uint64_t start;
	bool in_time;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		skip();
	set(0, p, PAGE);
	assert_int_equal(pthread_create(&reads, NULL, read_once, &x), 0);
	assert_int_equal(read(fd, &msg, sizeof(msg)), sizeof(msg));	/* now it is in the fault */
	start = now_ms();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&takes[i], NULL, take_once, &t[i]), 0);
		pause_ms(10);
	}
	assert_int_equal(ioctl(fd, UFFDIO_ZEROPAGE, &zero), 0);
	in_time = now_ms() - start < 60;
	pthread_join(reads, NULL);
	for (int i = 0; i < 2; i++) {
		pthread_join(takes[i], NULL);
		assert_true(t[i].reader_was_out || !in_time);
	}
	assert_true(!x.got || x.got == ASKED);		/* the fault may have ended with another thread in its place */
	assert_true(known->off == KNOWN_ON || !in_time);
	assert_int_equal(known->load[0].len, 0);
	assert_int_equal(known->hold[0].len, 0);
	close(fd);
	munmap(p, PAGE);
	return in_time;
}

/* On a busy machine this thread may come back after the calls have waited for long enough. */
static void until_in_time(reader r)
{
	int tries = 0;

	while (!in_a_page_fault(r) && tries++ < 20)
		known->off = KNOWN_ON;
	assert_in_range(tries, 0, 20);
}

static void a_load_in_a_page_fault_is_waited_for(void **state)
{
	until_in_time(make_reader(0, ASM_U64, 0));
}

static void a_copy_in_a_page_fault_is_waited_for(void **state)
{
	until_in_time(copy_eight);
}

/*
 * A reader that stays between look and load for some 50 ms: the barrier restarts it, and it finds the range gone. Without the barrier it
 * loads, and if the call waited for a shorter time, from what is not there any more.
 */
static bool is_restarted(void)
{
	uint8_t *p = pages(1);
	struct reading x = { .r = make_reader(0, ASM_U64, 100000000u), .at = (uint64_t)p, .alone = true };
	uint64_t ins = INS;
	pthread_t t;

	set(0, p, PAGE);
	be_alone_on(0, true);
	assert_int_equal(pthread_create(&t, NULL, read_once, &x), 0);
	while (INS == ins)
		pause_ms(1);
	take_away(known, (uint64_t)p, PAGE, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
	munmap(p, PAGE);
	pthread_join(t, NULL);
	be_alone_on(0, false);
	assert_int_equal(known->off, KNOWN_ON);
	assert_true(x.got == ASKED || !x.got);
	return x.got == ASKED;
}

/* On a busy machine this thread may come too late, when the reader has loaded. */
static void between_look_and_load_is_restarted(void **state)
{
	int tries = 0, restarted = 0;

	for (; tries < 12 && restarted < 3; tries++)
		restarted += is_restarted();
	assert_int_equal(restarted, 3);
}

/* A reader that does not come out is not waited for without end; then nothing is known any more, and no later call waits. */
static void waiting_ends(void **state)
{
	uint64_t start;

	known->cpu[3].in[0] = 1;
	set(0, (void *)0x10000, 0x1000);
	set(1, (void *)0x20000, 0x1000);
	take_away(known, 0x10000, 0x1000, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
	assert_int_equal(known->off, KNOWN_OFF_READER);
	assert_int_equal(known->hold[0].len, 0);
	start = now_ms();
	take_away(known, 0x20000, 0x1000, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
	assert_in_range(now_ms() - start, 0, 50);
	assert_int_equal(known->load[1].len, 0);
}

/*
 * Readers of the phase that a call has begun are not waited for: on many CPUs there is always one. The other phase must be empty before it
 * begins. `late`: this thread had no CPU for so long that the call has stopped waiting.
 */
static bool phases(bool *ret_late)
{
	struct taking t = { .at = 0x10000, .len = 0x1000 };
	uint64_t start = now_ms();
	bool waited, begun;
	pthread_t taker;

	memset(&table, 0, sizeof(table));
	set(0, (void *)0x10000, 0x1000);
	known->cpu[5].in[0] = known->cpu[6].in[1] = 1;
	assert_int_equal(pthread_create(&taker, NULL, take_once, &t), 0);
	pause_ms(10);
	waited = known->phase == 0 && !__atomic_load_n(&t.done, __ATOMIC_SEQ_CST);
	__atomic_store_n(&known->cpu[7].out[1], 1, __ATOMIC_SEQ_CST);
	for (int i = 0; !__atomic_load_n(&known->phase, __ATOMIC_SEQ_CST) && i < 40; i++)
		pause_ms(1);
	begun = known->phase == 8;
	__atomic_store_n(&known->cpu[9].in[1], 1, __ATOMIC_SEQ_CST);
	waited &= !__atomic_load_n(&t.done, __ATOMIC_SEQ_CST);
	__atomic_store_n(&known->cpu[8].out[0], 1, __ATOMIC_SEQ_CST);
	pthread_join(taker, NULL);
	*ret_late = now_ms() - start > 60;
	return waited && begun && known->off == KNOWN_ON && !known->lock && !known->hold[0].len;
}

static void who_comes_later_is_not_waited_for(void **state)
{
	bool late = true, good = false;

	for (int i = 0; late && !good && i < 50; i++)
		good = phases(&late);
	assert_true(good);
}

/* A thread that holds the lock for ever (one that a fork has not copied) is not waited for without end. */
static void a_lock_is_not_waited_for_for_ever(void **state)
{
	known->lock = 1;
	set(0, (void *)0x10000, 0x1000);
	take_away(known, 0x10000, 0x1000, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
	assert_int_equal(known->off, KNOWN_OFF_READER);
	assert_int_equal(known->hold[0].len, 0);
	assert_int_equal(known->lock, 1);
}

/* A forked child has the ranges of its parent; it can restart its threads, too. */
static void a_child_takes_away(void **state)
{
	uint8_t *p = pages(1);
	reader r = make_reader(0, ASM_U64, 0);
	int status;
	pid_t pid;

	set(0, p, PAGE);
	pid = fork();
	if (!pid) {
		bool ok = r((uint64_t)p) == 0;

		take_away(known, (uint64_t)p, PAGE, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
		munmap(p, PAGE);
		_exit(ok && r((uint64_t)p) == ASKED && !known->off ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(r((uint64_t)p), 0);
	munmap(p, PAGE);
}

/*
 * Blocks that two threads take away and bring back, each time known again, while three others load from them and copy. For longer than a
 * test takes: JAB_SECONDS.
 */
#define BLOCKS 8
#define BLOCK (8 * PAGE)

static uint8_t *blocks[BLOCKS];
static pthread_rwlock_t adding = PTHREAD_RWLOCK_INITIALIZER;	/* ranges are added while no call is cutting any */
static int quit;
static uint64_t late;
static uint64_t good_reads, wrong_reads, taken;

static void *read_blocks(void *arg)
{
	reader r = (reader)arg;
	uint64_t good = 0, wrong = 0, x = (uint64_t)&good;

	while (!__atomic_load_n(&quit, __ATOMIC_RELAXED)) {
		uint64_t at, v;

		x = x * 6364136223846793005u + 1442695040888963407u;
		at = (uint64_t)blocks[x >> 33 & (BLOCKS - 1)] + (x >> 40 & 7) * PAGE + (x >> 45 & 0x1f8);
		v = r(at);
		good += v != ASKED;
		wrong += v != ASKED && v && v != at;
	}
	__atomic_add_fetch(&good_reads, good, __ATOMIC_RELAXED);
	__atomic_add_fetch(&wrong_reads, wrong, __ATOMIC_RELAXED);
	return NULL;
}

static void fill_block(uint8_t *p)
{
	for (uint64_t *w = (uint64_t *)p; w < (uint64_t *)(p + BLOCK); w++)
		*w = (uint64_t)w;
}

static void *take_blocks(void *arg)
{
	uint64_t n = 0, x = 88172645463325252u + (uint64_t)arg;

	for (; !__atomic_load_n(&quit, __ATOMIC_RELAXED); n++) {
		int k = 2 * (x >> 33 & (BLOCKS / 2 - 1)) + (int)(uint64_t)arg;
		uint8_t *p = blocks[k];

		x = x * 6364136223846793005u + 1442695040888963407u;
		if (x >> 40 & 1)
			madvise(p, BLOCK, MADV_DONTNEED);	/* so that loads take page faults */
		pthread_rwlock_rdlock(&adding);
		take_away(known, (uint64_t)p, BLOCK, KNOWN_CUT_RANGE, MOST_CPUS, &quiet);
		pthread_rwlock_unlock(&adding);
		if (x >> 41 & 1) {
			munmap(p, BLOCK);
			if (mmap(p, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != p)
				abort();
		} else {
			mprotect(p, BLOCK, PROT_NONE);
			mprotect(p, BLOCK, PROT_READ | PROT_WRITE);
		}
		if (x >> 42 & 1)
			fill_block(p);
		pthread_rwlock_wrlock(&adding);
		late += known->off != KNOWN_ON;
		known->off = KNOWN_ON;
		known->hold[k].len = BLOCK;
		__atomic_store_n(&known->load[k].len, BLOCK - KNOWN_SHORT, __ATOMIC_SEQ_CST);
		pthread_rwlock_unlock(&adding);
	}
	__atomic_add_fetch(&taken, n, __ATOMIC_RELAXED);
	return NULL;
}

static void at_random(void **state)
{
	const char *seconds = getenv("JAB_SECONDS");
	reader load = make_reader(0, ASM_U64, 0), slow = make_reader(1, ASM_U64, 300);
	void *readers[] = { load, slow, copy_eight };
	pthread_t t[5];

	for (int k = 0; k < BLOCKS; k++) {
		blocks[k] = pages(BLOCK / PAGE);
		fill_block(blocks[k]);
		set(k, blocks[k], BLOCK);
	}
	quit = 0;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(pthread_create(&t[i], NULL, i < 3 ? read_blocks : take_blocks, i < 3 ? readers[i] : (void *)(i - 3)), 0);
	pause_ms(seconds ? 1000 * atoi(seconds) : 1000);
	__atomic_store_n(&quit, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	print_message("%lu reads, taken away %lu times, waited too long %lu times\n", (unsigned long)good_reads, (unsigned long)taken,
		      (unsigned long)late);
	assert_int_equal(wrong_reads, 0);
	assert_true(good_reads && taken);
	assert_int_equal(INS + known->came[0] + known->came[1], OUTS + LEFT + known->went[0] + known->went[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(whole_loads_are_made_in_each_range, set_up),
		cmocka_unit_test_setup(without_registration_all_is_asked, set_up),
		cmocka_unit_test_setup(a_thread_without_cpu_asks, set_up),
		cmocka_unit_test_setup(ranges_are_cut, set_up),
		cmocka_unit_test_setup(a_load_in_a_page_fault_is_waited_for, set_up),
		cmocka_unit_test_setup(a_copy_in_a_page_fault_is_waited_for, set_up),
		cmocka_unit_test_setup(whole_copies_are_made_in_each_range, set_up),
		cmocka_unit_test_setup(between_look_and_load_is_restarted, set_up),
		cmocka_unit_test_setup(at_random, set_up),
		cmocka_unit_test_setup(waiting_ends, set_up),
		cmocka_unit_test_setup(who_comes_later_is_not_waited_for, set_up),
		cmocka_unit_test_setup(a_lock_is_not_waited_for_for_ever, set_up),
		cmocka_unit_test_setup(a_child_takes_away, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
