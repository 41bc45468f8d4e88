/* SPDX-License-Identifier: MIT */
/*
 * `storm T`: T threads call noise() while signals rain on them: a timer of the process, and a
 * sender that picks one thread after the other. Handlers run on alternate stacks, nest, and call
 * noise() too. Every second thread sleeps in short system calls, which the signals interrupt.
 */
#include <stdatomic.h>
#include <sys/time.h>
#include "phases.h"

static int threads;
static atomic_int quit;
static atomic_ulong sent, handled;

struct part {
	pthread_t id;
	atomic_long todo;
	char *stack;
} __attribute__((aligned(64)));

static struct part parts[256];

static void on_signal(int sig)
{
	int saved = errno;

	handled++;
	make_noise((unsigned long)sig * 7 + handled % 16);
	errno = saved;
}

static void use_own_stack(struct part *p)
{
	stack_t s = { .ss_size = 262144 };

	s.ss_sp = p->stack = malloc(s.ss_size);
	sigaltstack(&s, NULL);
}

static void *body(void *arg)
{
	struct part *p = arg;
	unsigned long x = 0;
	int sleeper = (p - parts) % 2;

	use_own_stack(p);
	while (!quit) {
		long todo = p->todo;

		make_noise(x++);
		if (todo) {
			work_times(todo);
			p->todo = 0;
		}
		if (sleeper)
			usleep(50);
	}
	return NULL;
}

static void *sender(void *arg)
{
	unsigned long i = 0;

	while (!quit) {
		if (!pthread_kill(parts[i % (unsigned)threads].id, i % 3 ? SIGUSR1 : SIGUSR2))
			sent++;
		if (++i % 64 == 0)
			usleep(20);
	}
	return NULL;
}

static void run(long n)
{
	int i;

	for (i = 0; i < threads; i++)
		parts[i].todo = share_of(n, i, threads);
	for (i = 0; i < threads; i++)
		while (parts[i].todo)
			usleep(100);
}

/* Each handler lets the other two in, never itself: three deep at most, whatever the rate. */
static void install(void)
{
	struct sigaction own = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct sigaction plain = { .sa_handler = on_signal };	/* on the stack in use */
	struct itimerval every = { { 0, 300 }, { 0, 300 } };

	sigaction(SIGUSR1, &own, NULL);
	sigaction(SIGALRM, &own, NULL);
	sigaction(SIGUSR2, &plain, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

int main(int argc, char **argv)
{
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	pthread_t rain;
	int i;

	threads = argc > 1 ? atoi(argv[1]) : 4;
	if (threads < 1 || threads > 256)
		return 2;
	install();
	for (i = 0; i < threads; i++)
		if (pthread_create(&parts[i].id, NULL, body, &parts[i]))
			return 4;
	if (pthread_create(&rain, NULL, sender, NULL))
		return 4;
	serve(run, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	quit = 1;
	pthread_join(rain, NULL);
	for (i = 0; i < threads; i++)
		pthread_join(parts[i].id, NULL);
	if (!handled)
		bad("no signal was handled");
	return verdict();
}
