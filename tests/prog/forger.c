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
struct keeper { uint32_t tid, open; struct park *park; };
struct park { uint32_t bell, missed; uint8_t unused[56]; struct slot slots[SLOTS]; };

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

static struct keeper *find_in(uintptr_t lo, uintptr_t hi)
{
	for (; lo + sizeof(struct keeper) <= hi; lo += 64) {
		struct keeper *k = (struct keeper *)lo;

		if (k->open == 1 && k->park && k->tid && k->tid < 1u << 22 && is_jab(k->tid))
			return k;
	}
	return NULL;
}

/* A file of jab's may be mapped before it has its length, and what jab unmaps is gone. */
static sigjmp_buf over;

static void on_fault(int sig)
{
	siglongjmp(over, sig);
}

static struct keeper *find_if_there(uintptr_t lo, uintptr_t hi)
{
	return sigsetjmp(over, 1) ? NULL : find_in(lo, hi);
}

static struct keeper *find(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	struct keeper *k = NULL;
	unsigned long lo, hi;
	char line[512], perms[8];

	while (f && !k && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, perms) == 3 && !strncmp(perms, "r--s", 4))
			k = find_if_there(lo, hi);
	if (f)
		fclose(f);
	return k;
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
	struct keeper *k;

	signal(SIGBUS, on_fault);
	signal(SIGSEGV, on_fault);
	while (!(k = find()))
		usleep(10000);
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	while (!tid && !(tid = __atomic_load_n(&spinner, __ATOMIC_ACQUIRE)))
		usleep(1000);
	puts("found");
	fflush(stdout);
	while (__atomic_load_n(&k->open, __ATOMIC_ACQUIRE)) {
		fill(k->park, getpid(), tid);
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
