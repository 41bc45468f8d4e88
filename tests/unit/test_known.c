/* SPDX-License-Identifier: MIT */
/* What is kept of files from one process to the next, and how far a loader is. */
#include <asm/prctl.h>
#include <search.h>
#include "proc_target.h"
#include "proc/fileid.h"
#include "proc/internal.h"
#include "proc/text/knowncalls.h"
#include "proc/exec/loading.h"

#define SECOND 1000000000ull

/* ---- which file, and in which state ---- */

static void every_part_of_an_identity_counts(void **state)
{
	const struct file_id a = { 1, 2, 3, 4, 5 };
	struct file_id b[] = { { 9, 2, 3, 4, 5 }, { 1, 9, 3, 4, 5 }, { 1, 2, 9, 4, 5 }, { 1, 2, 3, 9, 5 }, { 1, 2, 3, 4, 9 } };

	(void)state;
	assert_true(file_id_same(&a, &a));
	for (size_t i = 0; i < ARRAY_SIZE(b); i++)
		assert_false(file_id_same(&a, &b[i]));
}

/* Two changes within the grain of a file system's times look like one. */
static void a_file_that_was_just_changed_is_not_settled(void **state)
{
	struct file_id id = { .changed = 100 * SECOND };

	(void)state;
	assert_false(file_id_is_settled(&id, 100 * SECOND));
	assert_false(file_id_is_settled(&id, 102 * SECOND));
	assert_false(file_id_is_settled(&id, 99 * SECOND));	/* a clock that was set back */
	assert_true(file_id_is_settled(&id, 104 * SECOND));
}

/* ---- system calls in the text ---- */

static void sleeps(void *arg)
{
	(void)arg;
	sh->ready = 1;
	for (;;)
		pause();
}

/* Into a function that it does not use: a vfork with its number right in front. The page becomes a private one. */
static const uint8_t vfork_bytes[] = { 0xb8, SYS_vfork, 0, 0, 0, 0x0f, 0x05 };

static uint64_t changed_at(void)
{
	return (uint64_t)(uintptr_t)lfind;
}

static void changes_its_text(void *arg)
{
	int fd = open("/proc/self/mem", O_RDWR);

	if (pwrite(fd, vfork_bytes, sizeof(vfork_bytes), changed_at()) != sizeof(vfork_bytes))
		sh->wrong = __LINE__;
	close(fd);
	sleeps(arg);
}

static size_t calls_of(void (*run)(void *), struct text_call *out, size_t most)
{
	const struct text_call *calls;
	struct proc *p;
	pid_t pid;
	size_t n;

	fresh_shared();
	pid = start_target(run, NULL);
	while (!sh->ready)
		sleep_ns(1000000);
	assert_int_equal(sh->wrong, 0);
	assert_int_equal(proc_open(pid, &p), 0);
	assert_int_equal(proc_text_calls(p, &calls, &n), 0);
	assert_true(n && n <= most);
	memcpy(out, calls, n * sizeof(*calls));
	proc_close(p);
	end_target(pid);
	return n;
}

static bool has_call(const struct text_call *v, size_t n, uint64_t at)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].at.v == at)
			return true;
	return false;
}

#define MOST 4096

static void calls_are_the_same_when_they_are_known(void **state)
{
	static struct text_call first[MOST], then[MOST];
	size_t n = calls_of(sleeps, first, MOST);

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(calls_of(sleeps, then, MOST), n);
		for (size_t k = 0; k < n; k++) {
			assert_true(has_call(first, n, then[k].at.v));
			assert_memory_equal(then[k].bytes, (void *)then[k].at.v, then[k].len);	/* it is a fork of ours */
		}
	}
}

static void text_that_a_process_has_changed_is_searched(void **state)
{
	static struct text_call calls[MOST];
	size_t n = calls_of(changes_its_text, calls, MOST);

	(void)state;
	assert_true(has_call(calls, n, changed_at()));
	n = calls_of(sleeps, calls, MOST);		/* what was found there is nobody else's */
	assert_false(has_call(calls, n, changed_at()));
	n = calls_of(changes_its_text, calls, MOST);	/* and what is known of the file is not all of it */
	assert_true(has_call(calls, n, changed_at()));
}

/* ---- what is kept for the time of a stop ---- */

static void drop_call(void *arg, const struct text_call *c)
{
	(void)arg;
	(void)c;
}

/* Is the page with that function known to be the file's, in a stop and in the next one, in which nobody has looked? */
static void look_at_text(void (*run)(void *), bool *ret_in_stop, bool *ret_next)
{
	const struct map *m;
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(run, NULL);
	while (!sh->ready)
		sleep_ns(1000000);
	assert_int_equal(proc_open(pid, &p), 0);
	assert_int_equal(proc_stop(p), 0);
	assert_int_equal(proc_read_maps(p), 0);
	m = proc_map_at(p, changed_at());
	assert_non_null(m);
	known_calls_take(p, m, false, drop_call, NULL);
	*ret_in_stop = proc_text_is_files(p, changed_at(), changed_at() + 1);
	assert_int_equal(proc_resume(p), 0);
	assert_int_equal(proc_stop(p), 0);
	*ret_next = proc_text_is_files(p, changed_at(), changed_at() + 1);
	assert_int_equal(proc_resume(p), 0);
	proc_close(p);
	end_target(pid);
}

static void text_is_known_to_be_the_files_for_one_stop(void **state)
{
	bool in_stop, next;

	(void)state;
	look_at_text(sleeps, &in_stop, &next);
	assert_true(in_stop);
	assert_false(next);
	look_at_text(changes_its_text, &in_stop, &next);
	assert_false(in_stop);
}

static void locks_a_page(void *arg)
{
	(void)arg;
	sh->ready = 1;
	while (!sh->stop)
		sleep_ns(1000000);
	if (mlock((void *)sh, 4096) < 0)
		sh->wrong = __LINE__;
	sh->ready = 2;
	for (;;)
		pause();
}

static void the_status_of_one_stop_is_not_that_of_the_next(void **state)
{
	struct proc *p;
	pid_t pid;

	(void)state;
	fresh_shared();
	pid = start_target(locks_a_page, NULL);
	while (!sh->ready)
		sleep_ns(1000000);
	assert_int_equal(proc_open(pid, &p), 0);
	assert_int_equal(proc_stop(p), 0);
	assert_false(proc_locks_memory(p));
	assert_int_equal(proc_resume(p), 0);
	sh->stop = 1;
	while (sh->ready < 2)
		sleep_ns(1000000);
	if (sh->wrong)
		skip();		/* it may lock none */
	assert_int_equal(proc_stop(p), 0);
	assert_true(proc_locks_memory(p));
	assert_int_equal(proc_resume(p), 0);
	proc_close(p);
	end_target(pid);
}

static bool has_map_at(struct proc *p, uint64_t at)
{
	const struct map *m = proc_map_at(p, at);

	return m && m->start == at;
}

/* A call of ours in the middle of a stop; the borrowed thread is given back. */
static int64_t call_in_stop(struct proc *p, long nr, uint64_t at, uint64_t prot, uint64_t flags)
{
	const uint64_t args[6] = { at, 4096, prot, flags, -1, 0 };
	int64_t value;

	assert_int_equal(proc_stop(p), 0);
	assert_int_equal(proc_syscall(p, nr, args, &value), 0);
	assert_int_equal(proc_resume(p), 0);
	return value;
}

static void mappings_are_read_again_when_they_may_have_changed(void **state)
{
	struct proc *p;
	uint64_t at;
	pid_t pid;

	(void)state;
	fresh_shared();
	pid = start_target(sleeps, NULL);
	while (!sh->ready)
		sleep_ns(1000000);
	assert_int_equal(proc_open(pid, &p), 0);
	assert_int_equal(proc_stop(p), 0);
	assert_int_equal(proc_read_maps(p), 0);
	at = call_in_stop(p, SYS_mmap, 0, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS);
	assert_int_equal(proc_read_others_maps(p), 0);	/* not by a call of ours */
	assert_false(has_map_at(p, at));
	assert_int_equal(proc_read_maps(p), 0);
	assert_true(has_map_at(p, at));
	assert_int_equal(call_in_stop(p, SYS_munmap, at, 0, 0), 0);
	assert_int_equal(proc_resume(p), 0);
	assert_int_equal(proc_stop(p), 0);
	assert_int_equal(proc_read_others_maps(p), 0);
	assert_false(has_map_at(p, at));
	assert_int_equal(proc_resume(p), 0);
	proc_close(p);
	end_target(pid);
}

/* ---- loaders ---- */

static struct thread_regs at_entry(uint64_t nr, uint64_t arg)
{
	struct thread_regs r = { .call = nr };

	r.cpu.reg[arch_host()->thread->args[0]] = arg;
	r.cpu.reg[arch_host()->thread->result] = -ENOSYS;
	return r;
}

static void a_loader_is_ready_when_it_unmaps_its_cache(void **state)
{
	struct loading l = { .cache = 0x7000 };
	struct thread_regs r = at_entry(SYS_munmap, 0x7000);

	(void)state;
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_READY);
	r.cpu.reg[arch_host()->thread->result] = 0;		/* the end of that call: too late to be the begin */
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	r = at_entry(SYS_munmap, 0x8000);
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	r = at_entry(SYS_mmap, 0x7000);
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	l.cache = 0;
	r = at_entry(SYS_munmap, 0);
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
}

static void a_loader_without_a_cache_is_told_from_others(void **state)
{
	struct loading l = { 0 };
	struct thread_regs r = at_entry(SYS_arch_prctl, ARCH_SET_FS);
	int fd = open("/etc/ld.so.cache", O_RDONLY);
	void *cache;

	(void)state;
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_UNSEEN);
	if (fd < 0)
		skip();
	cache = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(cache, MAP_FAILED);
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	assert_int_equal(l.cache, (uint64_t)(uintptr_t)cache);
	munmap(cache, 4096);
	close(fd);
}

/* The first file that is mapped as the cache would be may be another one. */
static void another_file_is_not_taken_for_the_cache(void **state)
{
	struct loading l = { 0 };
	struct thread_regs r = at_entry(SYS_mmap, 0);
	int fd = open("/proc/self/exe", O_RDONLY), cache_fd = open("/etc/ld.so.cache", O_RDONLY);
	void *other = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0), *cache;

	(void)state;
	r.cpu.reg[arch_host()->thread->args[2]] = PROT_READ;
	r.cpu.reg[arch_host()->thread->args[4]] = fd;
	r.cpu.reg[arch_host()->thread->result] = (uint64_t)(uintptr_t)other;
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	assert_int_equal(l.mapped, (uint64_t)(uintptr_t)other);
	r = at_entry(SYS_arch_prctl, ARCH_SET_FS);
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_UNSEEN);
	if (cache_fd < 0)
		skip();
	cache = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, cache_fd, 0);
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	assert_int_equal(l.cache, (uint64_t)(uintptr_t)cache);
	l = (struct loading){ .mapped = (uint64_t)(uintptr_t)cache };
	assert_int_equal(loading_look(&l, getpid(), &r), LOADING_ON);
	assert_int_equal(l.cache, (uint64_t)(uintptr_t)cache);
	munmap(cache, 4096);
	munmap(other, 4096);
	close(cache_fd);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_of_an_identity_counts),
		cmocka_unit_test(a_file_that_was_just_changed_is_not_settled),
		cmocka_unit_test(text_that_a_process_has_changed_is_searched),	/* before anything is known */
		cmocka_unit_test(calls_are_the_same_when_they_are_known),
		cmocka_unit_test(text_is_known_to_be_the_files_for_one_stop),
		cmocka_unit_test(the_status_of_one_stop_is_not_that_of_the_next),
		cmocka_unit_test(mappings_are_read_again_when_they_may_have_changed),
		cmocka_unit_test(a_loader_is_ready_when_it_unmaps_its_cache),
		cmocka_unit_test(a_loader_without_a_cache_is_told_from_others),
		cmocka_unit_test(another_file_is_not_taken_for_the_cache),
	};

	return cmocka_run_group_tests_name("known", tests, NULL, NULL);
}
