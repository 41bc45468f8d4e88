// SPDX-License-Identifier: MIT
/*
 * A hostile target: it finds the page in which its threads park (src/arch/park.h) and fills all slots with requests of its own.
 *
 *	forger spin		names a thread that never sleeps
 *	forger steal PID	names a thread of another process as one of its own; what that is said to execute must stand at the
 *				same address there: another forger
 *	forger wait		does nothing
 *
 * Says "found", and "closed" when the tracer does not listen any more. Runs until it is killed.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 255

struct slot { uint32_t state, kind, tid, pid; uint64_t arg[2]; uint8_t unused[32]; };
struct park { uint32_t bell, open, keeper, missed; uint8_t unused[48]; struct slot slots[SLOTS]; };

static uint32_t spinner;
static const char path[] = "/bin/true";

__attribute__((noinline)) int work(int x)
{
	__asm__ volatile("" ::: "memory");
	return x;
}

static void *spin(void *arg)
{
	__atomic_store_n(&spinner, syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (;;)
		;
	return arg;
}

static int is_jab(uint32_t tid)
{
	char name[64], comm[32] = "";
	int fd;

	snprintf(name, sizeof(name), "/proc/%u/comm", tid);
	fd = open(name, O_RDONLY);
	if (fd >= 0 && read(fd, comm, sizeof(comm) - 1) < 0)
		comm[0] = 0;
	if (fd >= 0)
		close(fd);
	return !strncmp(comm, "jab", 3);
}

static struct park *find_in(uintptr_t lo, uintptr_t hi)
{
	for (; lo + sizeof(struct park) <= hi; lo += 64) {
		struct park *p = (struct park *)lo;

		if (p->open == 1 && p->keeper && p->keeper < 1u << 22 && !p->missed && p->bell < 1000 && is_jab(p->keeper))
			return p;
	}
	return NULL;
}

/* A file of jab's may be mapped before it has its length, and what jab unmaps is gone. */
static sigjmp_buf over;

static void on_fault(int sig)
{
	siglongjmp(over, sig);
}

static struct park *find_if_there(uintptr_t lo, uintptr_t hi)
{
	return sigsetjmp(over, 1) ? NULL : find_in(lo, hi);
}

static struct park *find(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	struct park *p = NULL;
	unsigned long lo, hi;
	char line[512], perms[8];

	while (f && !p && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, perms) == 3 && !strncmp(perms, "rw-s", 4))
			p = find_if_there(lo, hi);
	if (f)
		fclose(f);
	return p;
}

static void fill(struct park *p, uint32_t pid, uint32_t tid)
{
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &p->slots[i];

		s->kind = 0;
		s->tid = tid;
		s->pid = pid;
		s->arg[0] = (uintptr_t)path;
		__atomic_store_n(&s->state, 2, __ATOMIC_RELEASE);
	}
	__atomic_add_fetch(&p->bell, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &p->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *forge(void *arg)
{
	char **argv = arg;
	uint32_t tid = argv[2] ? atoi(argv[2]) : 0;
	struct park *p;

	signal(SIGBUS, on_fault);
	signal(SIGSEGV, on_fault);
	while (!(p = find()))
		usleep(10000);
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	while (!tid && !(tid = __atomic_load_n(&spinner, __ATOMIC_ACQUIRE)))
		usleep(1000);
	puts("found");
	fflush(stdout);
	while (__atomic_load_n(&p->open, __ATOMIC_ACQUIRE)) {
		fill(p, getpid(), tid);
		usleep(5000);
	}
	puts("closed");
	fflush(stdout);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc > 1 && !strcmp(argv[1], "spin"))
		pthread_create(&t, NULL, spin, NULL);
	if (argc > 1 && strcmp(argv[1], "wait"))
		pthread_create(&t, NULL, forge, argv);
	for (;;) {
		work(1);
		usleep(1000);
	}
}
