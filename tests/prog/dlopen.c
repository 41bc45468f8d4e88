/* SPDX-License-Identifier: MIT */
/*
 * `dlopen LIB`: opens a library while it runs. "open" and "close" answer with their own name, "run N"
 * calls plug_work() N times in it.
 */
#include <dlfcn.h>
#include "prog.h"

static const char *path;
static void *lib;
static unsigned long (*plug_work)(unsigned long);

static void run(long n)
{
	long i;

	for (i = 0; lib && i < n; i++)
		if (plug_work((unsigned long)i % 70) != (unsigned long)i % 70 * 5 + 2)
			bad("plug_work(%ld) was wrong", i);
}

static void open_lib(void)
{
	lib = dlopen(path, RTLD_NOW);
	if (lib)
		plug_work = (unsigned long (*)(unsigned long))dlsym(lib, "plug_work");
	if (!lib || !plug_work)
		bad("dlopen: %s", dlerror());
}

static int other(const char *line)
{
	if (!strcmp(line, "open") && !lib) {
		open_lib();
	} else if (!strcmp(line, "close") && lib) {
		dlclose(lib);
		lib = NULL;
	} else {
		return 1;
	}
	say("%s", line);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	path = argv[1];
	serve(run, other);
	return verdict();
}
