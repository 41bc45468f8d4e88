/* SPDX-License-Identifier: MIT */
/*
 * `frames HOW`: a second thread calls work() for ever. `hold` interrupts it by a signal whose handler
 * waits until `go`. HOW says what is odd about the signal's frame:
 *
 *	restorer	the code that ends the handler has unusual bytes, in memory that is no file's
 *	nested		the handler is interrupted by another one on the alternate stack, which waits
 *	copied		none waits: the handler copies the registers to the heap and goes on elsewhere; a
 *			second handler brings them back
 *
 * For the first two the signals are none that preempt anything, and the program is large: then memory is
 * not searched for frames, and the walk from the thread's stack pointer must find them.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include "prog.h"

struct kernel_action { void (*handler)(int); unsigned long flags; void *restorer; unsigned long mask; };

static pthread_t worker;
static volatile unsigned long calls, sum;
static volatile int held, may_go;
static int interrupts = SIGHUP;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3;
}

static void wait_here(int sig)
{
	struct timespec t = { 0, 200000 };

	held = 1;
	while (!may_go)
		nanosleep(&t, NULL);
	held = 0;
}

static void outer(int sig)
{
	pthread_kill(pthread_self(), SIGTERM);
}

/* xor %eax,%eax; mov $15,%al; syscall */
static void use_own_restorer(void)
{
	static const unsigned char code[] = { 0x31, 0xc0, 0xb0, 0x0f, 0x0f, 0x05 };
	void *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kernel_action a = { wait_here, 0x04000000 | SA_RESTART, m, 0 };

	memcpy(m, code, sizeof(code));
	mprotect(m, 4096, PROT_READ | PROT_EXEC);
	syscall(SYS_rt_sigaction, SIGHUP, &a, NULL, 8);
}

static void use_two_stacks(void)
{
	struct sigaction first = { .sa_handler = outer, .sa_flags = SA_RESTART };
	struct sigaction second = { .sa_handler = wait_here, .sa_flags = SA_ONSTACK | SA_RESTART };

	sigaction(SIGHUP, &first, NULL);
	sigaction(SIGTERM, &second, NULL);
}

static gregset_t *kept;
static int wakes;

static void idle(void)
{
	struct timespec t = { 0, 200000 };

	held = 1;
	for (;;)
		nanosleep(&t, NULL);
}

static void leave(int sig, siginfo_t *info, void *context)
{
	static char room[65536] __attribute__((aligned(16)));
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	memcpy(kept, regs, sizeof(*kept));
	regs[REG_RIP] = (greg_t)idle;
	regs[REG_RSP] = (greg_t)(room + sizeof(room) - 8);
}

static void come_back(int sig, siginfo_t *info, void *context)
{
	memcpy(((ucontext_t *)context)->uc_mcontext.gregs, kept, sizeof(*kept));
	memset(kept, 0, sizeof(*kept));
	held = 0;
}

static void use_copies(void)
{
	struct sigaction first = { .sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction second = { .sa_sigaction = come_back, .sa_flags = SA_SIGINFO | SA_RESTART };

	kept = malloc(sizeof(*kept));
	interrupts = SIGALRM;
	wakes = SIGUSR1;
	sigaction(SIGALRM, &first, NULL);
	sigaction(SIGUSR1, &second, NULL);
}

static void *loop(void *arg)
{
	static char room[65536];
	stack_t alternate = { room, 0, sizeof(room) };

	sigaltstack(&alternate, NULL);
	for (;;) {
		sum += work(calls);
		calls++;
	}
	return NULL;
}

static void wait_for(volatile int *word, int value)
{
	struct timespec t = { 0, 100000 };

	while (*word != value)
		nanosleep(&t, NULL);
}

static int other(const char *line)
{
	if (!strcmp(line, "hold")) {
		may_go = 0;
		pthread_kill(worker, interrupts);
		wait_for(&held, 1);
		say("held");
		return 0;
	}
	if (!strcmp(line, "go")) {
		may_go = 1;
		if (wakes)
			pthread_kill(worker, wakes);
		wait_for(&held, 0);
		say("gone");
		return 0;
	}
	return 1;
}

static void run(long n)
{
	unsigned long end = calls + (unsigned long)n;
	struct timespec t = { 0, 100000 };

	while (calls < end)
		nanosleep(&t, NULL);
}

enum { LARGE = 48 << 20 };

int main(int argc, char **argv)
{
	char *large = malloc(LARGE);
	unsigned long n;

	memset(large, 1, LARGE);
	__asm__ volatile("" : : "r"(large) : "memory");

	if (argc > 1 && !strcmp(argv[1], "restorer"))
		use_own_restorer();
	else if (argc > 1 && !strcmp(argv[1], "copied"))
		use_copies();
	else
		use_two_stacks();
	pthread_create(&worker, NULL, loop, NULL);
	serve(run, other);
	may_go = 0;
	pthread_kill(worker, interrupts);
	wait_for(&held, 1);
	n = calls;
	if (sum != 3 * (n * (n - 1) / 2) && sum != 3 * (n * (n + 1) / 2))
		bad("sum %lu after %lu calls", sum, n);
	return verdict();
}
