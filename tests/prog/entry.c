/* SPDX-License-Identifier: MIT */
/*
 * Parameters that a function does not keep. Each call first writes down what it got, so that the
 * program itself says what they were; where that is known later, and from whom, differs by the way it was called.
 */
#include <stdio.h>
#include <stdlib.h>

#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif

struct { int a; long b; const char *s; unsigned short h; int way; } volatile truth;
volatile long sink;
static const char *const names[] = { "zero", "one" };

/* Leaves nothing of what a function may use. */
APART long work(long n)
{
	sink += n;
	__asm__ volatile("xor %%edi, %%edi; mov %%edi, %%esi; mov %%edi, %%edx; mov %%edi, %%ecx; mov %%edi, %%r8d; mov %%edi, %%r9d;"
			 "mov %%edi, %%r10d; mov %%edi, %%r11d; mov %%edi, %%eax"
			 ::: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
	return sink & 1;
}

APART long lost(int a, long b, const char *s, unsigned short h)
{
	long r;

	truth.a = a;
	truth.b = b;
	truth.s = s;
	truth.h = h;
	r = work(a);
	r += work(r);
	return r + 1;		/* line: lost */
}

APART long constant(void)
{
	truth.way = 1;
	return lost(-7, 1l << 40, "constant", 65535) + 1;
}

/* Kept for later use in registers that a function gives back. */
APART long held(int n)
{
	long x = n * 1000003l, r;
	const char *s = names[n & 1];

	truth.way = 2;
	r = lost(n, x, s, n * 7);
	r += lost(n + 1, x - 1, s, n * 9);
	return r + x + n + *s;
}

/* What it hands over is in its frame, or is the frame. */
APART long framed(int n)
{
	char text[32];
	long many[8], r;
	int i;

	snprintf(text, sizeof(text), "frame %d", n);
	for (i = 0; i < 8; i++)
		many[i] = work(n + i);
	truth.way = 3;
	r = lost(n, (long)many, text, 3);
	return r + text[0] + many[n & 7];
}

APART long deep(int n)
{
	long r;

	truth.way = 4;
	r = lost(n, n * 5l, "deep", n);
	return n > 0 ? deep(n - 1) + r + n : r;
}

/* Here nobody can say it: the call's own words are about another function. */
APART long jumped(int n)
{
	truth.way = 5;
	return lost(n, n - 1, "jumped", n);
}

APART long through_pointer(int n, long (*f)(int, long, const char *, unsigned short))
{
	truth.way = 6;
	return f(n, n + 2, "pointer", n) + n;
}

/* Comes back to itself without a call: what its first caller handed over is long gone. */
APART long there(int n, long b);

APART long and_back(int n, long b)
{
	sink += b;
	return n > 0 ? there(n - 1, b * 2) : b;
}

APART long there(int n, long b)
{
	long r;

	truth.a = n;
	truth.b = b;
	r = work(n) + work(b);
	sink += r;		/* line: there */
	return and_back(truth.a, truth.b);
}

int main(int argc, char **argv)
{
	long (*volatile f)(int, long, const char *, unsigned short) = lost;
	long r = 0;
	int i;

	for (i = 0; i < 3; i++) {
		r += constant() + held(i) + framed(i);
		r += deep(2) + i;
		r += jumped(i) + i;
		r += through_pointer(i, f) + i;
		r += there(2, 100 + i) + i;
	}
	printf("%ld\n", r);
	return argc > 5 ? !!argv[1] : 0;
}
