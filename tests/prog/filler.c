/* SPDX-License-Identifier: MIT */
/*
 * Fills pages of its own when they are touched (userfaultfd): `filler` serves commands (prog.h). Each of N pages is
 * touched; the thread that fills it calls work(page), and only then the page is there. `filler ask` ends with 5 where
 * the kernel lets nobody do so. `filler stack`: one more thread is on a stack of such pages, with a large array in
 * the middle of it that it never touches.
 */
#include "prog.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096ul

static int fd;

noinline long work(const char *page)
{
	__asm__ volatile("" : "+r"(page));
	return (long)page;
}

static void *fill(void *arg)
{
	static const char text[PAGE] = "filled";
	struct uffd_msg m;

	while (read(fd, &m, sizeof(m)) == sizeof(m)) {
		struct uffdio_copy copy = { .dst = m.arg.pagefault.address & ~(PAGE - 1), .src = (uintptr_t)text, .len = PAGE };

		work((const char *)copy.dst);
		ioctl(fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static void run(long n)
{
	char *p = mmap(NULL, (size_t)n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { { (uintptr_t)p, (uint64_t)n * PAGE }, UFFDIO_REGISTER_MODE_MISSING, 0 };

	if (p == MAP_FAILED || ioctl(fd, UFFDIO_REGISTER, &r) < 0)
		bad("no pages to fill: %s", strerror(errno));
	for (long i = 0; !bad_why[0] && i < n; i++)
		if (strcmp(p + i * (long)PAGE, "filled"))
			bad("page %ld says %.10s", i, p + i * (long)PAGE);
	munmap(p, (size_t)n * PAGE);
}

#define STACK (1024 * 1024ul)

static noinline void rest(char *array)
{
	__asm__ volatile("" : : "r"(array));
	for (;;)
		usleep(500);
}

static void *skip(void *arg)
{
	char array[STACK / 2];

	rest(array);
	return arg;
}

static int start_on_such_a_stack(void)
{
	char *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { { (uintptr_t)p, STACK }, UFFDIO_REGISTER_MODE_MISSING, 0 };
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	return p == MAP_FAILED || ioctl(fd, UFFDIO_REGISTER, &r) < 0 || pthread_attr_setstack(&attr, p, STACK) ||
	       pthread_create(&t, &attr, skip, NULL);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	pthread_t t;

	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
		return 5;
	if (argc > 1 && strcmp(argv[1], "ask") == 0)
		return 0;
	if (pthread_create(&t, NULL, fill, NULL) || (argc > 1 && start_on_such_a_stack()))
		return 4;
	serve(run, NULL);
	return verdict();
}
