/* SPDX-License-Identifier: MIT */
/*
 * A server that gives up the file system after its start: `jail chroot DIR` makes DIR its root, `jail pivot DIR` does it
 * in a mount namespace of its own, from which the old root is then gone.
 */
#include "prog.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

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

static int pivot(const char *dir)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount(dir, dir, NULL, MS_BIND, NULL) || chdir(dir) || syscall(SYS_pivot_root, ".", "."))
		return -1;
	return umount2(".", MNT_DETACH);
}

int main(int argc, char **argv)
{
	if (argc != 3 || (!strcmp(argv[1], "pivot") ? pivot(argv[2]) : chroot(argv[2])) || chdir("/"))
		return 2;
	serve(run, NULL);
	if (sum != (calls ? 3 * (calls * (calls - 1) / 2) + calls : 0))
		bad("sum %lu after %lu calls", sum, calls);
	return verdict();
}
