/* SPDX-License-Identifier: MIT */
/* Files that others name and change: what is opened, what is mapped and what is copied, and a truncation while it is read. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sym/priv.h"

#define SIZE (3 * 4096 + 100)
#define MOST_GUARDED 1024

static char dir[] = "/tmp/jab-test-content-XXXXXX";
static char name[128];

static const char *in_dir(const char *file)
{
	snprintf(name, sizeof(name), "%s/%s", dir, file);
	return name;
}

static int make_file(const char *file)
{
	char bytes[SIZE];
	int fd = open(in_dir(file), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	memset(bytes, 'x', sizeof(bytes));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), SIZE);
	return fd;
}

/* The flags of the mapping at p, such as r--s; "" if it is not a file's. */
static const char *mapping(const void *p)
{
	static char flags[8];
	unsigned long lo, hi, inode;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	flags[0] = 0;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s %*x %*s %lu", &lo, &hi, flags, &inode) == 4 && lo <= (uintptr_t)p && (uintptr_t)p < hi)
			break;
	fclose(f);
	return inode ? flags : "";
}

static void test_own_files_are_mapped_shared(void **state)
{
	int fd = make_file("own");
	struct content c;

	assert_int_equal(content_read(fd, "", "own", &c), 0);
	assert_true(c.mapped);
	assert_int_equal(c.size, SIZE);
	assert_string_equal(mapping(c.p), "r--s");	/* a uprobe changes private ones */
	content_free(&c);
	close(fd);
}

static void check_copied(int fd, const char *root)
{
	struct content c;

	assert_int_equal(content_read(fd, root, "other", &c), 0);
	assert_false(c.mapped);
	assert_string_equal(mapping(c.p), "");
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(c.p[SIZE - 1], 'x');
	assert_int_equal(content_check(&c, "other"), 0);
	content_free(&c);
	close(fd);
}

static void test_files_of_others_are_copied(void **state)
{
	int fd = make_file("group");

	assert_int_equal(fchmod(fd, 0664), 0);
	check_copied(fd, "");
	fd = make_file("all");
	assert_int_equal(fchmod(fd, 0646), 0);
	check_copied(fd, NULL);
	fd = make_file("root");
	check_copied(fd, dir);		/* a container's */
	if (geteuid() == 0) {
		fd = make_file("user");
		assert_int_equal(fchown(fd, 65534, 65534), 0);
		check_copied(fd, "/");
	}
}

static void test_a_truncated_mapping_reads_as_zeros(void **state)
{
	struct sigaction before, now;
	struct content c, other;
	int fd = make_file("cut"), fd2 = make_file("whole");

	assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
	assert_int_equal(content_read(fd, "", "cut", &c), 0);
	assert_int_equal(content_read(fd2, "", "whole", &other), 0);
	assert_int_equal(content_check(&c, "cut"), 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(*(volatile uint8_t *)(c.p + 4095), 'x');
	assert_int_equal(*(volatile uint8_t *)(c.p + 2 * 4096), 0);
	assert_int_equal(*(volatile uint8_t *)(c.p + 4096), 0);
	assert_int_equal(content_check(&c, "cut"), -ESTALE);
	assert_string_equal(err_text(), "cut was truncated while jab read it");
	assert_int_equal(content_check(&other, "whole"), 0);
	content_free(&c);
	content_free(&other);
	assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
	assert_ptr_equal(now.sa_handler, before.sa_handler);
	close(fd);
	close(fd2);
}

static sigjmp_buf back;
static volatile sig_atomic_t theirs;

static void their_handler(int sig)
{
	theirs++;
	siglongjmp(back, 1);
}

/* A mapping that is not jab's: the handler that was there before gets the signal. */
static void test_other_bus_errors_are_passed_on(void **state)
{
	struct sigaction mine = { .sa_handler = their_handler }, old, now;
	int fd = make_file("own"), fd2 = make_file("theirs");
	volatile uint8_t *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd2, 0);
	struct content c;

	assert_int_equal(sigaction(SIGBUS, &mine, &old), 0);
	assert_int_equal(content_read(fd, "", "own", &c), 0);
	assert_int_equal(ftruncate(fd2, 0), 0);
	if (!sigsetjmp(back, 1))
		assert_int_equal(p[4096], 12345);	/* not reached */
	assert_int_equal(theirs, 1);
	assert_int_equal(content_check(&c, "own"), 0);
	content_free(&c);
	assert_int_equal(sigaction(SIGBUS, &old, &now), 0);
	assert_ptr_equal(now.sa_handler, their_handler);
	munmap((void *)p, SIZE);
	close(fd);
	close(fd2);
}

/* More mappings than the handler knows of: the next file is copied. */
static void test_no_mapping_without_a_guard(void **state)
{
	uint8_t *p = mmap(NULL, MOST_GUARDED * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = make_file("own"), i;
	struct content c;

	for (i = 0; i < MOST_GUARDED; i++)
		assert_true(guard_add(p + i * 4096, 4096));
	assert_false(guard_add(p, 4096));
	assert_int_equal(content_read(fd, "", "own", &c), 0);
	assert_false(c.mapped);
	assert_int_equal(c.p[SIZE - 1], 'x');
	content_free(&c);
	for (i = 0; i < MOST_GUARDED; i++)
		guard_remove(p + i * 4096);
	munmap(p, MOST_GUARDED * 4096);
	close(fd);
}

static void test_sparse_giants_are_refused(void **state)
{
	int fd = make_file("sparse");
	struct content c;

	assert_int_equal(ftruncate(fd, 32 << 20), 0);
	assert_int_equal(content_read(fd, "", "sparse", &c), 0);
	content_free(&c);
	assert_int_equal(ftruncate(fd, 1ll << 40), 0);
	assert_int_equal(content_read(fd, "", "sparse", &c), -EFBIG);
	assert_null(c.p);
	close(fd);
}

static void check_content(int fd)
{
	char byte = 0;

	assert_true(fd >= 0);
	assert_int_equal(read(fd, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	assert_false(fcntl(fd, F_GETFL) & O_PATH);
	close(fd);
}

static void make_tree(void)
{
	assert_int_equal(mkdir(in_dir("sub"), 0755), 0);
	close(make_file("sub/file"));
	close(make_file("outside"));
	assert_int_equal(symlink("/file", in_dir("sub/link")), 0);
	assert_int_equal(symlink("../../../../../../../../file", in_dir("sub/up")), 0);
	assert_int_equal(symlink("../outside", in_dir("sub/out")), 0);
	assert_int_equal(mkfifo(in_dir("sub/fifo"), 0666), 0);
}

static void test_only_regular_files_below_the_root(void **state)
{
	char root[128];

	snprintf(root, sizeof(root), "%s", in_dir("sub"));
	check_content(open_below(root, "/file"));
	check_content(open_below(root, "file"));
	check_content(open_below(root, "/link"));
	check_content(open_below(root, "/up"));
	check_content(open_below(root, "/../../file"));
	check_content(open_below("", in_dir("outside")));
	assert_int_equal(open_below(root, "/out"), -ENOENT);
	assert_int_equal(open_below(root, "/outside"), -ENOENT);
	assert_int_equal(open_below(root, "/"), -EISDIR);
	assert_int_equal(open_below(root, "/fifo"), -ENOEXEC);
	assert_int_equal(open_below(NULL, in_dir("sub/fifo")), -ENOEXEC);
	assert_int_equal(open_below("", "/dev/null"), -ENOEXEC);
	assert_string_equal(err_text(), "/dev/null is not a regular file");
}

static void refuse_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(77);
}

/* Below a root no symbolic link is followed then: it could lead out of it. */
static void test_without_openat2(void **state)
{
	char root[128];
	int status;
	pid_t pid;

	snprintf(root, sizeof(root), "%s", in_dir("sub"));
	pid = fork();
	if (!pid) {
		refuse_openat2();
		_exit(open_below(root, "/file") < 0 ? 1 : open_below(root, "/link") != -ELOOP ? 2 :
		      open_below(root, "/../outside") != -ELOOP ? 3 : open_below(root, "/out") != -ELOOP ? 4 :
		      open_below(root, "/none") != -ENOENT ? 5 : open_below(root, "/fifo") != -ENOEXEC ? 6 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int setup(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	make_tree();
	return 0;
}

static int teardown(void **state)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_files_are_mapped_shared),
		cmocka_unit_test(test_files_of_others_are_copied),
		cmocka_unit_test(test_a_truncated_mapping_reads_as_zeros),
		cmocka_unit_test(test_other_bus_errors_are_passed_on),
		cmocka_unit_test(test_no_mapping_without_a_guard),
		cmocka_unit_test(test_sparse_giants_are_refused),
		cmocka_unit_test(test_only_regular_files_below_the_root),
		cmocka_unit_test(test_without_openat2),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
