/* SPDX-License-Identifier: MIT */
/*
 * A CPU that has nothing to do goes to sleep, and to wake it takes longer than all else that a step of a borrowed thread
 * takes. A program with one thread stands still for each of them. So CPUs are asked to stay awake meanwhile,
 * with what audio programs use for that, where we may. It ends with the descriptor, also when we die.
 */
#include "proc/internal.h"

#include <fcntl.h>
#include <unistd.h>

int awake_begin(void)
{
	const int32_t latency = 0;
	int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, &latency, sizeof(latency)) != sizeof(latency)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void awake_end(int fd)
{
	if (fd >= 0)
		close(fd);
}
