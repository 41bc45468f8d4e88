/* SPDX-License-Identifier: MIT */
/*
 * An idle CPU enters a sleep state, and its wake-up takes longer than everything else in a step of a borrowed thread, during
 * which the program stands still. So the kernel is asked for no wake-up latency meanwhile, by /dev/cpu_dma_latency (which
 * audio programs use, too), if that is permitted. The request ends with the descriptor, also when the tracer dies.
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
