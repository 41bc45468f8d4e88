/* SPDX-License-Identifier: MIT */
/* `left_host LIBRARY TIMES`: loads it and unloads it again so often, and calls plug_top() 100 times each. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long sum = 0, times = argc > 2 ? atol(argv[2]) : 1;

	for (long n = 0; argc > 1 && n < times; n++) {
		void *lib = dlopen(argv[1], RTLD_NOW);
		long (*top)(long) = lib ? (long (*)(long))dlsym(lib, "plug_top") : NULL;

		if (!top)
			return 1;
		for (long i = 0; i < 100; i++)
			sum += n * top(i);
		dlclose(lib);
	}
	printf("sum %ld\n", sum);
	return 0;
}
