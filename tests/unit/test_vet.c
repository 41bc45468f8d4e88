/* SPDX-License-Identifier: MIT */
/* What the kernel tells of memory beyond its maps: which of it is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "session/watches/vet.h"

#define PAGE 4096ul
#define HEAD 73			/* what stands before the path in a line of smaps */
#define PART 511		/* the bytes of a line that are read at once */

static char path[1024];

/* A file whose path goes on, where the first part of its line ends, as if a line began there: one that says that the page is plain. */
static void make_file(const void *page, char *dir)
{
	size_t n;
	int fd;

	assert_non_null(mkdtemp(dir));
	n = sprintf(path, "%s/", dir);
	while (HEAD + n < PART) {
		size_t len = PART - HEAD - n - 1;

		len = len > 400 ? 200 : len > 200 ? len / 2 : len;
		memset(path + n, 'a', len);
		path[n + len] = '\0';
		assert_return_code(mkdir(path, 0700), 0);
		n += len;
		n += sprintf(path + n, "/");
	}
	sprintf(path + n, "%lx-%lx rw-p 00000000 00:00 0 x", (unsigned long)page, (unsigned long)page + PAGE);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_return_code(fd, 0);
	assert_return_code(ftruncate(fd, PAGE), 0);
	assert_true(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	close(fd);
}

static void remove_file(const char *dir)
{
	unlink(path);
	for (char *slash; (slash = strrchr(path, '/')) && strlen(path) > strlen(dir); rmdir(path))
		*slash = '\0';
}

static void test_a_path_is_no_mapping(void **state)
{
	char dir[] = "/tmp/jab_vet_XXXXXX";
	void *plain = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct known_range ranges[] = { { (uint64_t)plain, PAGE }, { (uint64_t)none, PAGE } };
	bool good[2] = { false, false };
	struct proc *p;
	pid_t pid;

	make_file(none, dir);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	assert_int_equal(proc_open(pid, &p), 0);
	vet_ranges(p, ranges, 2, good);
	proc_close(p);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	remove_file(dir);
	assert_true(good[0]);
	assert_false(good[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_path_is_no_mapping),
	};

	return cmocka_run_group_tests_name("vet", tests, NULL, NULL);
}
