/* SPDX-License-Identifier: MIT */
/* Each of several threads sets errno and calls look(); prints "N errno" of each call. */
#include "prog.h"

noinline long look(long n)
{
	__asm__ volatile("" : "+r"(n) : : "memory");
	return n;
}

static void *one_thread(void *arg)
{
	long n = (long)arg;

	printf("%ld %ld\n", n, 7 + n);
	fflush(stdout);
	errno = (int)n + 7;
	look(n);
	return NULL;
}

int main(void)
{
	one_thread((void *)1);
	for (long n = 2; n < 5; n++) {
		pthread_t t;

		if (pthread_create(&t, NULL, one_thread, (void *)n) || pthread_join(t, NULL))
			return 4;
	}
	one_thread((void *)100);
	return 0;
}
