/* SPDX-License-Identifier: MIT */
/* flood N SECONDS PROGRAM: as user 65534, N processes that do nothing but execute PROGRAM, each in a child, for so long. Started by root. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void execute_for_ever(char **argv)
{
	for (;;) {
		pid_t pid = fork();

		if (!pid) {
			execv(argv[0], argv);
			_exit(127);
		}
		if (pid < 0)
			usleep(1000);
		else
			waitpid(pid, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[1]) : 0;

	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	for (int i = 0; i < n; i++)
		if (fork() == 0) {
			alarm(atoi(argv[2]));
			execute_for_ever(argv + 3);
		}
	for (int i = 0; i < n; i++)
		wait(NULL);
	return 0;
}
