/* SPDX-License-Identifier: MIT */
/*
 * A program that others of its own user may not trace, and one of these others.
 *
 *	guarded			becomes user 65534, makes itself undumpable and serves commands
 *	guarded attack PID...	as that user, tries to get at the memory that jab shares with the processes: by the numbers of all
 *				segments, and by what /proc shows of them. What it gets it overwrites. Says how much it got.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include "prog.h"

static unsigned long sum, calls;

noinline unsigned long work(unsigned long x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

static void run(long n)
{
	for (long i = 0; i < n; i++)
		sum += work(calls++);
}

static void spoil(void *at, size_t size)
{
	memset(at, 0xcc, size);
}

/* Those whose key or creator says that they are jab's; others are none of our business. */
static int by_number(int creator)
{
	FILE *f = fopen("/proc/sysvipc/shm", "r");
	unsigned long size;
	int key, id, maker, last, got = 0;
	unsigned mode;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%d %d %o %lu %d %d", &key, &id, &mode, &size, &maker, &last) != 6)
			continue;
		if (key >> 8 == 0x6a6162 || maker == creator || last == creator) {
			void *at = shmat(id, NULL, 0);

			if (at != (void *)-1) {
				spoil(at, size);
				got++;
			}
		}
	}
	return got;
}

static int by_folder(int pid, const char *folder)
{
	char path[320], name[256];
	struct dirent *e;
	struct stat st;
	int got = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, folder);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		ssize_t n;
		void *at;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, folder, e->d_name);
		n = readlink(path, name, sizeof(name) - 1);
		name[n > 0 ? n : 0] = 0;
		fd = strstr(name, "jab-") || strstr(name, "SYSV") ? open(path, O_RDWR) : -1;
		if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size)
			continue;
		at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (at != MAP_FAILED) {
			spoil(at, (size_t)st.st_size);
			got++;
		}
	}
	return got;
}

static int attack(int n, char **pids)
{
	int got = 0;

	for (int i = 0; i < n; i++) {
		int pid = atoi(pids[i]);

		if (!ptrace(PTRACE_ATTACH, pid, NULL, NULL))
			return 4;		/* then nothing is guarded */
		got += by_number(pid) + by_folder(pid, "map_files") + by_folder(pid, "fd");
	}
	printf("%d\n", got);
	return 0;
}

int main(int argc, char **argv)
{
	if (setgid(65534) || setuid(65534))
		return 2;
	if (argc > 2)
		return attack(argc - 2, argv + 2);
	prctl(PR_SET_DUMPABLE, 0);
	serve(run, NULL);
	if (sum != (calls ? 3 * (calls * (calls - 1) / 2) + calls : 0))
		bad("sum %lu after %lu calls", sum, calls);
	return verdict();
}
