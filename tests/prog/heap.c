/* SPDX-License-Identifier: MIT */
/*
 * Memory that is read by probes while it is taken, given back and changed.
 *
 *	heap [WAY]	`run N`: N calls of look(p, n) with a node on the heap, whose value is 7, as is that of the node it points to. WAY, at
 *			the start:
 *		jit		maps memory that can be written and executed
 *		filler		opens a userfaultfd
 *			and as commands:
 *		lock		protects the node's page, and takes the protection away again
 *		filler		opens a userfaultfd by syscall()
 *		library		loads libraries
 *	heap_raw	likewise; it has code that makes system calls of any number
 *	heap gone MS	two threads call gone(p, key) with places in blocks that two others take away all the time, in all ways there are, for
 *			so long; at each place stands key, 0, or nothing any more
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "prog.h"

struct node { struct node *next; long value; char text[48]; };

static struct node *nodes[2];

noinline long look(struct node *p, long n)
{
	__asm__ volatile("" : "+r"(p), "+r"(n));
	return n;
}

#ifdef RAW
/* A system call whose number nobody knows. */
static noinline long raw_call(long number)
{
	long r;

	__asm__ volatile("mov %1,%%rax; nop; syscall" : "=&a"(r) : "r"(number) : "rcx", "r11", "memory");
	return r;
}
#else
#define raw_call syscall
#endif

static void run(long n)
{
	for (long i = 0; i < n; i++)
		look(nodes[i & 1], i);
}

static int change(const char *what)
{
	char *page = (char *)((uintptr_t)nodes[0] & -4096ul);
	bool ok = true;

	if (!strcmp(what, "lock"))
		ok = !mprotect(page, 4096, PROT_NONE) && !mprotect(page, 4096, PROT_READ | PROT_WRITE);
	else if (!strcmp(what, "filler"))
		ok = syscall(SYS_userfaultfd, O_CLOEXEC | 1) >= 0;
	else if (!strcmp(what, "library"))
		ok = dlopen("libz.so.1", RTLD_NOW);
	else
		return 1;
	say(ok ? "done" : "failed");
	return 0;
}

/* ---- gone ---- */

#define BLOCKS 8
#define BLOCK 65536

static char *_Atomic blocks[BLOCKS];
static atomic_int quit;

noinline long gone(const uint64_t *p, uint64_t key)
{
	__asm__ volatile("" : "+r"(p), "+r"(key));
	return (long)key;
}

static uint64_t key_of(const void *p)
{
	return (uintptr_t)p * 0x9e3779b97f4a7c15u | 1;
}

static void fill(char *at)
{
	for (int i = 0; i < BLOCK; i += 512)
		*(volatile uint64_t *)(at + i) = key_of(at + i);
}

static void *read_all(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	unsigned long n = 0;

	while (!quit) {
		char *b = blocks[rand_r(&seed) % BLOCKS];

		for (int i = 0; i < 32; i++, n++) {
			char *p = b + rand_r(&seed) % (BLOCK / 512) * 512;

			gone((uint64_t *)p, key_of(p));
		}
	}
	return (void *)n;
}

static char *new_block(void *at)
{
	char *p = mmap(at, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	if (p == MAP_FAILED)
		exit(4);
	fill(p);
	return p;
}

static void fork_one(char *b)
{
	pid_t pid = fork();

	if (!pid) {
		munmap(b, BLOCK);
		gone((uint64_t *)b, key_of(b));
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void take(unsigned what, char *b, unsigned *seed)
{
	struct timespec t = { 0, rand_r(seed) % 50000 };
	void *more;

	switch (what % 9) {
	case 0:
		munmap(b, BLOCK);
		nanosleep(&t, NULL);
		new_block(b);
		break;
	case 1:
		mprotect(b, BLOCK, PROT_NONE);
		nanosleep(&t, NULL);
		mprotect(b, BLOCK, PROT_READ | PROT_WRITE);
		break;
	case 2:
		more = mremap(b, BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, b + (1ul << 32));
		nanosleep(&t, NULL);
		if (more != MAP_FAILED)
			munmap(more, BLOCK);
		new_block(b);
		break;
	case 3:
		madvise(b, BLOCK, MADV_DONTNEED);
		break;
	case 4:
		mmap(b, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		nanosleep(&t, NULL);
		new_block(b);
		break;
	case 5:
		madvise(b, BLOCK / 2, 102);	/* MADV_GUARD_INSTALL */
		nanosleep(&t, NULL);
		madvise(b, BLOCK / 2, 103);
		break;
	case 6:
		more = malloc(3 << 20);
		free(more);
#ifdef __GLIBC__
		malloc_trim(0);
#endif
		break;
	case 7:
		syscall(SYS_munmap, b, BLOCK);
		nanosleep(&t, NULL);
		new_block(b);
		break;
	case 8:
		if (rand_r(seed) % 16 == 0)
			fork_one(b);
		break;
	}
}

static void *take_all(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	unsigned long n = 0;

	for (; !quit; n++) {
		struct timespec t = { 0, n % 512 ? 20000 : 600000000 };	/* also at first: time for probes to know the memory */
		char *b = blocks[2 * (rand_r(&seed) % (BLOCKS / 2)) + ((uintptr_t)arg & 1)];

		nanosleep(&t, NULL);
		take((unsigned)rand_r(&seed), b, &seed);
	}
	return (void *)n;
}

static int gone_main(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	pthread_t threads[4];
	void *n[4];

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = new_block(NULL);
	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, i < 2 ? read_all : take_all, (void *)(77 + i));
	nanosleep(&t, NULL);
	quit = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], &n[i]);
	printf("calls %lu\ntaken %lu\n", (unsigned long)n[0] + (unsigned long)n[1], (unsigned long)n[2] + (unsigned long)n[3]);
	return verdict();
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";

	if (!strcmp(way, "gone"))
		return gone_main(argc > 2 ? atol(argv[2]) : 1000);
	for (int i = 0; i < 2; i++) {
		nodes[i] = malloc(sizeof(*nodes[i]));
		nodes[i]->value = 7;
		strcpy(nodes[i]->text, "text of a node on the heap");
	}
	nodes[0]->next = nodes[1];
	nodes[1]->next = nodes[0];
	if (!strcmp(way, "jit") && mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		return 4;
	if (raw_call(SYS_getpid) != getpid())
		return 4;
	if (!strcmp(way, "filler") && syscall(SYS_userfaultfd, O_CLOEXEC | 1) < 0)
		return 4;
	serve(run, change);
	return verdict();
}
