/* SPDX-License-Identifier: MIT */
/*
 * `openers T`: T threads that fork without a pause, and one that opens and closes a file. A child looks at its descriptors: it
 * must have those that the program had at its start, and the file of the other thread at most. That file gets the lowest
 * free number each time, as POSIX says, which programs rely on (`close(0); open(...)`).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "phases.h"

#define MOST 64

static atomic_int quit;
static atomic_ulong forks;
static int lowest;	/* free at the start */

/* In a child, where only one thread is left: no library function that may want a lock. */
static int count_strange(void)
{
	char buf[8192];
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY), strange = 0;
	long n, at;

	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (at = 0; at < n;) {
			struct dirent64 *e = (void *)(buf + at);
			int fd = atoi(e->d_name);

			at += e->d_reclen;
			strange += e->d_name[0] != '.' && fd > lowest && fd != dir;
		}
	return strange;
}

static void *forker(void *arg)
{
	int status;

	while (!quit) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(count_strange());
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			bad("fork: %s", strerror(errno));
		else if (status)
			bad("a child has %d descriptors that nobody gave it", WEXITSTATUS(status));
		forks++;
	}
	return arg;
}

static void *opener(void *arg)
{
	while (!quit) {
		int fd = open("/dev/null", O_RDONLY);

		if (fd != lowest)
			bad("open() returned %d, not %d", fd, lowest);
		close(fd);
		make_noise((unsigned long)fd);
		usleep(20);
	}
	return arg;
}

static void run(long n)
{
	work_times(n);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1, i;
	pthread_t id[MOST + 1];

	if (threads < 1 || threads > MOST)
		return 2;
	lowest = open("/dev/null", O_RDONLY);
	close(lowest);
	for (i = 0; i <= threads; i++)
		if (pthread_create(&id[i], NULL, i ? forker : opener, NULL))
			return 4;
	serve(run, NULL);
	quit = 1;
	for (i = 0; i <= threads; i++)
		pthread_join(id[i], NULL);
	if (!forks)
		bad("no fork was made");
	return verdict();
}
