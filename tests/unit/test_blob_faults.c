/* SPDX-License-Identifier: MIT */
/*
 * Pointers that lead nowhere. Whatever they are, whatever the program does about SIGSEGV and SIGBUS, and
 * whoever unmaps what they point to at that moment: the field says so, and nobody gets a signal. Targets
 * are forked; each makes many events of bad pointers and exits with 0 if it noticed nothing.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "blob_rings.h"

#define HITS 5000		/* of one target */
#define RACE_HITS 1000000

/* rdi leads nowhere, rsi leads to a pointer that leads nowhere. */
static const struct bulk_field by_rdi[] = {
	{ .kind = EVENT_MEM, .reg = 7, .size = 8 },
	{ .kind = EVENT_MEM, .reg = 7, .size = 1 },
	{ .kind = EVENT_BYTES, .reg = 7, .limit = 24 },
	{ .kind = EVENT_BYTES, .reg = 7, .limit = 5 },
	{ .kind = EVENT_STRING, .reg = 7, .limit = 64 },
	{ .kind = EVENT_MEM, .reg = 7, .size = 4, .flags = BULK_DEREF },
	{ .kind = EVENT_STRING, .reg = 6, .limit = 64, .flags = BULK_DEREF },
	{ .kind = EVENT_REG, .reg = 2, .size = 8 },
	{ .kind = EVENT_STRING, .reg = 2, .limit = 64 },		/* rdx: a good one */
};

#define NFIELDS 9
#define FAULTY 0x7full		/* all but the last two */

static const char good_text[] = "still here";

static uint64_t bad_pointer, wrong, recorded;
static bool refused;
static bulk_fn *fn;

static bool is_string(const uint64_t *at, uint32_t i, const char *want, uint64_t address)
{
	uint32_t len;
	const uint8_t *p = bulk_at(at, i, &len);
	size_t n = strlen(want) + 1;

	return len == n + 8 && !memcmp(p, want, n) && !memcmp(p + n, &address, 8);
}

/* Every faulty field tells the address, the others are as ever. */
static void look(int ring, const struct event_head *e, const uint64_t *at)
{
	const char *word = refused ? "<unreadable>" : "<fault>";
	uint64_t bytes[3] = { bad_pointer };
	uint32_t len;

	wrong += refused ? at[0] >> 32 != (FAULTY | 0x100) || (uint32_t)at[0] : at[0] != FAULTY;
	wrong += bulk_number(at, 0) != bad_pointer || bulk_number(at, 1) != bad_pointer;
	wrong += memcmp(bulk_at(at, 2, &len), bytes, 24) != 0;
	wrong += memcmp(bulk_at(at, 3, &len), "\0\0\0\0\0\0\0", 8) != 0;
	wrong += !is_string(at, 4, word, bad_pointer);
	wrong += bulk_number(at, 5) != bad_pointer;
	wrong += !refused && !is_string(at, 6, word, bad_pointer);
	wrong += bulk_number(at, 7) != (uint64_t)good_text;
	wrong += !refused && memcmp(bulk_at(at, 8, &len), good_text, sizeof(good_text)) != 0;
	wrong += e->len != sizeof(*e) + bulk_end(at, NFIELDS);
	recorded++;
}

static void start(uint32_t flags)
{
	reset_bulk_rings(1 << 20, flags & BULK_MAY_CALL);
	describe(by_rdi, NFIELDS, flags);
	fn = emit_bulk_function();
	wrong = recorded = 0;
	refused = false;
}

/* ---- every kind of bad pointer, every disposition ----------------------------------------- */

enum disposition { SEGV_DEFAULT, SEGV_HANDLED, SEGV_IGNORED, SEGV_BLOCKED, DISPOSITIONS };

static volatile sig_atomic_t signals;

static void on_fault(int sig)
{
	signals++;
}

static void dispose(enum disposition how)
{
	static const int sigs[] = { SIGSEGV, SIGBUS };
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < 2; i++) {
		signal(sigs[i], how == SEGV_HANDLED ? on_fault : how == SEGV_IGNORED ? SIG_IGN : SIG_DFL);
		sigaddset(&set, sigs[i]);
	}
	if (how == SEGV_BLOCKED)
		sigprocmask(SIG_BLOCK, &set, NULL);
}

static bool none_pending(void)
{
	sigset_t set;

	sigpending(&set);
	return !sigismember(&set, SIGSEGV) && !sigismember(&set, SIGBUS);
}

/* Hits, reading what it has written in between. */
static void hit_many(uint64_t pointer, int hits)
{
	bad_pointer = pointer;
	for (int i = 0; i < hits; i++) {
		fn(pointer, (uint64_t)&bad_pointer, (uint64_t)good_text);
		if (i % 1000 == 999)
			drain(look);
	}
	drain(look);
}

static int target_main(uint64_t pointer, enum disposition how)
{
	dispose(how);
	start(BULK_MAY_CALL);
	hit_many(pointer, HITS);
	if (signals || !none_pending())
		return 2;
	if (recorded + lost_of_probe() != HITS || lost_of_probe())
		return 3;
	return wrong ? 4 : 0;
}

static int wait_for(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

static uint64_t unmapped_page(void)
{
	void *p = map_or_die(4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	munmap(p, 4096);
	return (uint64_t)p;
}

/* A file that is shorter than its mapping: reading there is SIGBUS. */
static uint64_t truncated_page(void)
{
	int fd = memfd_create("short", 0);
	void *p = map_or_die(8192, PROT_READ, MAP_SHARED, fd);

	close(fd);
	return (uint64_t)p + 4096;
}

static void bad_pointers_of_all_kinds(void **state)
{
	const struct { const char *what; uint64_t pointer; } rows[] = {
		{ "NULL", 0 },
		{ "near NULL", 16 },
		{ "unmapped", unmapped_page() + 8 },
		{ "no permission", (uint64_t)map_or_die(4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1) },
		{ "truncated file", truncated_page() },
		{ "not canonical", 0x8000000000000000 },
		{ "just not canonical", 0x0000800000000000 },
		{ "below the kernel", 0xffff7fffffffff00 },
		{ "kernel", 0xffffffff81000000 },
		{ "the end of everything", -1ull },
		{ "text", 0x6f77206f6c6c6568 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int how = 0; how < DISPOSITIONS; how++) {
			pid_t pid = fork();
			int r;

			if (pid == 0)
				_exit(target_main(rows[i].pointer, how));
			r = wait_for(pid);
			if (r)
				fail_msg("%s, disposition %d: %d", rows[i].what, how, r);
		}
	}
}

/* ---- the end of what is there ------------------------------------------------------------- */

static uint64_t one_event[BULK_LEN_MAX / 8];

static void keep(int ring, const struct event_head *e, const uint64_t *at)
{
	memcpy(one_event, at, e->len - sizeof(*e));
}

/* A read that begins well and ends in a page that isn't there. */
static void reads_into_nothing(void **state)
{
	uint8_t *page = map_or_die(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	static const struct bulk_field f[] = {
		{ .kind = EVENT_MEM, .reg = 7, .size = 8 },
		{ .kind = EVENT_BYTES, .reg = 7, .limit = 21 },
		{ .kind = EVENT_BYTES, .reg = 7, .limit = 21, .flags = BULK_PARTIAL },
		{ .kind = EVENT_MEM, .reg = 7, .size = 8, .flags = BULK_DEREF },
	};

	memset(page, 'z', 4096);
	munmap(page + 4096, 4096);
	reset_bulk_rings(RING_SIZE_MIN, true);
	for (int back = 1; back < 30; back++) {
		uint64_t from = (uint64_t)page + 4096 - back, number;
		uint8_t want[24] = { 0 }, partial[24] = { 0 };
		uint32_t len;

		describe(f, 4, BULK_MAY_CALL);
		memset((uint8_t *)rings[ncpus].data, 0x55, ring_size);
		emit_bulk_function()(from, 0, 0);
		assert_int_equal(drain(keep), 1);
		number = back < 8 ? from : 0x7a7a7a7a7a7a7a7a;
		memcpy(want, back < 21 ? (void *)&from : page, back < 21 ? 8 : 21);
		memset(partial, 'z', back < 21 ? back : 21);
		assert_int_equal(bulk_number(one_event, 0), number);
		assert_memory_equal(bulk_at(one_event, 1, &len), want, 24);
		assert_memory_equal(bulk_at(one_event, 2, &len), partial, 24);
		assert_int_equal(bulk_number(one_event, 3), number);	/* the pointer leads nowhere itself */
		assert_int_equal(one_event[0], 8 | (back < 8) | (back < 21) * 6);
	}
	munmap(page, 4096);
}

/* ---- unmapped at that moment -------------------------------------------------------------- */

static atomic_bool racing;
static char *race_page;
static uint64_t race_good, race_bad, race_wrong;

static void *map_and_unmap(void *arg)
{
	while (atomic_load(&racing)) {
		mmap(race_page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		mprotect(race_page, 4096, PROT_NONE);
		mprotect(race_page, 4096, PROT_READ);
		munmap(race_page, 4096);
	}
	return NULL;
}

static void look_at_race(int ring, const struct event_head *e, const uint64_t *at)
{
	uint32_t len;
	const uint8_t *p = bulk_at(at, 1, &len);
	bool number_bad = at[0] & 1, string_bad = at[0] & 2;

	race_wrong += bulk_number(at, 0) != (number_bad ? (uint64_t)race_page + 64 : 0);
	race_wrong += string_bad ? !is_string(at, 1, "<fault>", (uint64_t)race_page) : len != 1 || *p;
	race_good += !number_bad + !string_bad;
	race_bad += number_bad + string_bad;
	recorded++;
}

static int race_main(enum disposition how)
{
	static const struct bulk_field f[] = {
		{ .kind = EVENT_MEM, .reg = 7, .size = 8, .value = 64 },
		{ .kind = EVENT_STRING, .reg = 7, .limit = 32 },
	};
	pthread_t thread;

	dispose(how);
	race_page = (char *)unmapped_page();
	reset_bulk_rings(1 << 20, true);
	describe(f, 2, BULK_MAY_CALL);
	fn = emit_bulk_function();
	atomic_store(&racing, true);
	pthread_create(&thread, NULL, map_and_unmap, NULL);
	for (int i = 0; i < RACE_HITS; i++) {
		fn((uint64_t)race_page, 0, 0);
		if (i % 1000 == 999)
			drain(look_at_race);
	}
	atomic_store(&racing, false);
	pthread_join(thread, NULL);
	drain(look_at_race);
	printf("    %lu read, %lu faults\n", race_good, race_bad);
	fflush(stdout);
	if (signals || !none_pending() || recorded + lost_of_probe() != RACE_HITS)
		return 2;
	return race_wrong || !race_good || !race_bad ? 3 : 0;
}

static void unmapped_by_another_thread(void **state)
{
	static const enum disposition how[] = { SEGV_DEFAULT, SEGV_BLOCKED };

	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(race_main(how[i]));
		assert_int_equal(wait_for(pid), 0);
	}
}

/* ---- where calls are forbidden ------------------------------------------------------------ */

/* What a call gets as its answer: all but exit, or only process_vm_readv. */
static void filter_calls(bool all, uint32_t answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, all ? SYS_exit : SYS_process_vm_readv, all, !all),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = 4, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(99);
}

/*
 * Any call but exit would kill it, so that it ends well shows that none was made. (Not the strict mode
 * of seccomp: there rdtsc is forbidden, too.)
 */
static void no_call_under_seccomp(void **state)
{
	pid_t pid;

	start(0);
	pid = fork();
	if (pid == 0) {
		note_pid();
		filter_calls(true, SECCOMP_RET_KILL_PROCESS);
		for (int i = 0; i < 1000; i++)
			fn(16, (uint64_t)&bad_pointer, (uint64_t)good_text);
		syscall(SYS_exit, 7);
	}
	assert_int_equal(wait_for(pid), 7);
	refused = true;
	bad_pointer = 16;
	drain(look);
	assert_int_equal(recorded, 1000);
	assert_int_equal(wrong, 0);
}

/* A filter that answers with an error instead. */
static int filtered_main(void)
{
	filter_calls(false, SECCOMP_RET_ERRNO | EPERM);
	start(BULK_MAY_CALL);
	refused = true;
	hit_many(16, 1000);
	return recorded != 1000 ? 2 : wrong ? 3 : 0;
}

static void refused_calls_are_told(void **state)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(filtered_main());
	assert_int_equal(wait_for(pid), 0);
}

/* ---- the first thread has ended ----------------------------------------------------------- */

static void *hit_without_leader(void *arg)
{
	while (syscall(SYS_tgkill, getpid(), getpid(), 0) == 0) {
		char path[64], line[512] = "";
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, line, sizeof(line) - 1) < 0 || strstr(line, ") Z"))
			break;
		close(fd);
	}
	hit_many(16, 1000);
	_exit(recorded != 1000 ? 2 : wrong ? 3 : 0);
}

static void main_thread_has_ended(void **state)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid == 0) {
		start(BULK_MAY_CALL);
		pthread_create(&thread, NULL, hit_without_leader, NULL);
		syscall(SYS_exit, 0);
	}
	assert_int_equal(wait_for(pid), 0);
}

static int set_up(void **state)
{
	make_blob_areas();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_pointers_of_all_kinds),
		cmocka_unit_test(reads_into_nothing),
		cmocka_unit_test(unmapped_by_another_thread),
		cmocka_unit_test(no_call_under_seccomp),
		cmocka_unit_test(refused_calls_are_told),
		cmocka_unit_test(main_thread_has_ended),
	};

	return cmocka_run_group_tests_name("blob_faults", tests, set_up, NULL);
}
