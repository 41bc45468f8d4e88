// SPDX-License-Identifier: MIT
// What the options of every day show: text as parameters, slow calls, threads of several names. `daily N` makes N rounds in two
// threads and says how many calls were slow.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <pthread.h>
#include <string>
#include <unistd.h>

extern "C" __attribute__((noipa)) int greet(const char *name, char *buf, unsigned char *bytes, int n)
{
	(void)bytes;
	return n + name[0] + buf[0];
}

__attribute__((noinline)) int take(const std::string &s, std::map<int, std::string> &m)
{
	if (s.size() > 3)
		usleep(20000);
	asm volatile("" ::: "memory");
	return m.size();
}

static int rounds;

static void *run(void *name)
{
	std::map<int, std::string> m;
	char buf[] = "buf";

	if (name)
		pthread_setname_np(pthread_self(), (const char *)name);
	for (int i = 0; i < rounds; i++) {
		greet("world", buf, (unsigned char *)buf, i);
		take(i % 4 ? "a" : "longer", m);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;

	rounds = argc > 1 ? atoi(argv[1]) : 20;
	pthread_create(&other, NULL, run, (void *)"odd \"name");
	run(NULL);
	pthread_join(other, NULL);
	printf("%d\n", 2 * ((rounds + 3) / 4));
}
