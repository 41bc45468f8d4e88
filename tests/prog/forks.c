/* SPDX-License-Identifier: MIT */
/*
 * `forks T`: T threads that start processes by fork, vfork, posix_spawn and system in turn and
 * check how each one ends; forked children call noise(). Other commands:
 *	forkrun N K	K forked children share N calls of work(); answers when all have ended -> "done N"
 *	hold		fork a child that waits                      -> "child PID"
 *	release		it calls work() three times and ends         -> "released STATUS"
 * "quiet" ends the background and answers "quiet".
 */
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include "phases.h"

extern char **environ;
static int threads;
static atomic_int quit;
static atomic_ulong ended;
static pthread_t ids[64];
static int hold_pipe[2], held = -1;

static void check_end(const char *how, pid_t pid, int want)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			bad("%s: waitpid: %s", how, strerror(errno));
			return;
		}
	ended++;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
		bad("%s: child ended with status %#x", how, status);
}

static void by_fork(void)
{
	pid_t pid = fork();
	int i;

	if (!pid) {
		for (i = 0; i < 20; i++)
			make_noise((unsigned long)i);
		_exit(bad_why[0] ? 3 : 5);
	}
	if (pid > 0)
		check_end("fork", pid, 5);
}

static void by_vfork(void)
{
	static char *const argv[] = { "true", NULL };
	pid_t pid = vfork();

	if (!pid) {
		execv("/bin/true", argv);
		_exit(9);
	}
	if (pid > 0)
		check_end("vfork", pid, 0);
}

/* The child never executes anything: it runs our code in our memory while the parent waits. */
static void by_vfork_exit(void)
{
	pid_t pid = vfork();

	if (!pid) {
		noise(3);
		_exit(6);
	}
	if (pid > 0)
		check_end("vfork without exec", pid, 6);
}

static void by_spawn(void)
{
	static char *const argv[] = { "sh", "-c", "exit 4", NULL };
	pid_t pid;

	if (!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ))
		check_end("posix_spawn", pid, 4);
}

static void by_system(void)
{
	int status = system("exit 2");

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 2)
		bad("system: %#x", status);
	ended++;
}

static void *forker(void *arg)
{
	static void (*const ways[])(void) = { by_fork, by_vfork, by_vfork_exit, by_spawn, by_fork, by_system };
	unsigned long i = (unsigned long)arg;

	while (!quit) {
		ways[i++ % (sizeof(ways) / sizeof(ways[0]))]();
		make_noise(i);
	}
	return NULL;
}

static void fork_run(long n, int k)
{
	pid_t pids[64];
	int i;

	for (i = 0; i < k; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			work_times(share_of(n, i, k));
			_exit(bad_why[0] ? 3 : 0);
		}
	}
	for (i = 0; i < k; i++)
		check_end("forkrun", pids[i], 0);
}

static void hold(void)
{
	char c;

	if (held > 0 || pipe(hold_pipe))
		exit(4);
	held = fork();
	if (!held) {
		close(hold_pipe[1]);
		while (read(hold_pipe[0], &c, 1) < 0)
			;
		work_times(3);
		_exit(bad_why[0] ? 3 : 0);
	}
	close(hold_pipe[0]);
	say("child %d", held);
}

static void release(void)
{
	int status = -1;

	close(hold_pipe[1]);
	waitpid(held, &status, 0);
	held = -1;
	say("released %d", status);
}

static void hush(void)
{
	int i;

	quit = 1;
	for (i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	threads = 0;
}

static int other(const char *line)
{
	long n;
	int k;

	if (sscanf(line, "forkrun %ld %d", &n, &k) == 2 && k > 0 && k <= 64) {
		fork_run(n, k);
		say("done %ld", n);
	} else if (!strcmp(line, "hold")) {
		hold();
	} else if (!strcmp(line, "release")) {
		release();
	} else if (!strcmp(line, "quiet")) {
		hush();
		say("quiet");
	} else {
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int i;

	threads = argc > 1 ? atoi(argv[1]) : 1;
	if (threads < 0 || threads > 64)
		return 2;
	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, forker, (void *)(long)i))
			return 4;
	serve(work_times, other);
	hush();
	return verdict();
}
