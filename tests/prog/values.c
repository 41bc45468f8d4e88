/* SPDX-License-Identifier: MIT */
/*
 * Calls with values of many kinds. `values N` makes N rounds and prints, call by call, the fields that
 * `jab trace` must show for the probe
 *	exe:take n=arg0:int s=arg1:string[8] v=arg2:int[3] u=arg3:u16 b=arg4:bytes[4] d=xmm0:double f=xmm1:float
 * with -t int:round:round -t string:title:title. `values crash` makes one round and a real fault.
 */
#include "prog.h"
#include <stdbool.h>
#include <sys/mman.h>

int round_number;
char title[] = "a \"title\"";

noinline long take(int n, const char *s, const int *v, unsigned short u, const unsigned char *b, double d, float f)
{
	__asm__ volatile("" : "+r"(n), "+r"(s), "+r"(v), "+r"(u), "+r"(b), "+x"(d), "+x"(f));
	return (long)n * 2 - u;
}

/* As the tool must show it: plain characters only, so that nothing needs an escape. */
static void show_text(const char *s, bool good)
{
	if (!good)
		printf("s=<fault>");
	else if (strlen(s) < 8)
		printf("s=\"%s\"", s);
	else
		printf("s=\"%.8s\"...", s);
}

static void show_bytes(const unsigned char *b, bool good)
{
	if (good)
		printf(" b=%02x%02x%02x%02x", b[0], b[1], b[2], b[3]);
	else
		printf(" b=<fault>");
}

static void one(int n, const char *s, bool s_good, const int *v, bool v_good, unsigned short u, const unsigned char *b,
		bool b_good, double d, float f)
{
	long r = take(n, s, v, u, b, d, f);

	printf("n=%d ", n);
	show_text(s, s_good);
	if (v_good)
		printf(" v=[%d,%d,%d]", v[0], v[1], v[2]);
	else
		printf(" v=<fault>");
	printf(" u=%u", u);
	show_bytes(b, b_good);
	printf(" d=%.17g f=%.9g round=%d title=\"a \\\"title\\\"\"\n", d, f, round_number);
	if (r != (long)n * 2 - u)
		exit(3);
}

static void round_of_calls(char *hole, char *edge)
{
	static const int numbers[] = { 1, -2, 2147483647 };
	static const unsigned char bytes[] = { 0, 1, 0xfe, 0xff };

	one(-1, "", true, numbers, true, 0, bytes, true, 0, 0);
	one(7, "1234567", true, numbers, true, 65535, bytes, true, -1.5, .25);
	one(8, "12345678", true, numbers, true, 1, bytes, true, 1e300, 1e30);
	one(9, "123456789", true, numbers, true, 2, bytes, true, .1, .1);
	one(1, NULL, false, numbers, true, 3, bytes, true, 1, 1);
	one(2, hole, false, (int *)hole, false, 4, (unsigned char *)hole, false, 2, 2);
	one(3, (char *)0x8000000000000000, false, NULL, false, 5, bytes, true, 3, 3);
	one(4, edge - 4, true, (int *)(edge - 12), true, 6, (unsigned char *)edge - 4, true, 4, 4);
	one(5, edge - 4, true, (int *)(edge - 8), false, 7, (unsigned char *)edge - 3, false, 5, 5);
}

int main(int argc, char **argv)
{
	char *p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int n = argc > 1 && strcmp(argv[1], "crash") ? atoi(argv[1]) : 1;

	if (p == MAP_FAILED || munmap(p + 4096, 4096) < 0)
		return 2;
	memset(p, 1, 4096);
	memcpy(p + 4092, "end", 4);
	for (round_number = 1; round_number <= n; round_number++)
		round_of_calls(p + 4096 + 64, p + 4096);
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "crash"))
		*(volatile char *)(p + 4096) = 1;
	return 0;
}
