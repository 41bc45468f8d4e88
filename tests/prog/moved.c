/* SPDX-License-Identifier: MIT */
/*
 * Moves its own code to anonymous memory at the same address, as programs do that want their text on
 * huge pages: no mapping tells any more which file it came from.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char __executable_start, __etext;

int main(void)
{
	uintptr_t lo = (uintptr_t)main & ~4095ul, hi = ((uintptr_t)&__etext + 4095) & ~4095ul;
	size_t len;
	char *copy;

	while (lo - 4096 >= ((uintptr_t)&__executable_start + 4096))	/* .init and the PLT come first */
		lo -= 4096;
	len = hi - lo;
	copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, (void *)lo, len);
	mprotect(copy, len, PROT_READ | PROT_EXEC);
	if (mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)lo) != (void *)lo)
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
