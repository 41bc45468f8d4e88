/* SPDX-License-Identifier: MIT */
/* Loads and unloads a library again and again: late LIBRARY ROUNDS. Prints how often late_hit() was called. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long calls = 0;

	for (int i = 0; i < atoi(argv[2]); i++) {
		void *lib = dlopen(argv[1], RTLD_NOW);
		void (*call)(int n);
		long *count;

		if (!lib) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		call = (void (*)(int))dlsym(lib, "late_call");
		count = dlsym(lib, "late_count");
		call(i);
		calls += *count;
		dlclose(lib);
	}
	printf("%ld\n", calls);
	return 0;
}
