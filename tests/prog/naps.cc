/* SPDX-License-Identifier: MIT */
/*
 * Chains of tail calls that take a known time: `naps N` goes N rounds. Functions jump directly, on a condition, through pointers, tables of
 * virtual functions, thunks and the PLT, to each other in turn, and to their own first instruction, and sleep before or after the jump.
 */
#include <cstdio>
#include <cstdlib>
#include <time.h>
#include <unistd.h>

#define body extern "C" __attribute__((noipa))
#define method __attribute__((noipa))

static volatile long sink;

body void nap(long us)
{
	struct timespec t = { 0, us * 1000 };

	nanosleep(&t, nullptr);
}

body long end_short(long n) { nap(1000); sink = n; return n + 1; }
body long end_long(long n) { nap(2000); sink = n; return n + 2; }
body long one_jump(long n) { return end_short(n + 1); }
body long two_jumps(long n) { return one_jump(n + 1); }
body long naps_before(long n) { nap(500); return two_jumps(n + 1); }
body long on_condition(long n) { return n & 1 ? naps_before(n) : end_long(n); }

static long (*volatile ways[])(long) = { end_short, end_long, one_jump };

body long by_pointer(long n) { return ways[n % 3](n); }
body long to_pointer(long n) { return by_pointer(n + 1); }

struct handler { long (*run)(handler *, long); handler *next; };

body long last_handler(handler *, long n) { nap(400); return n; }
body long next_handler(handler *h, long n) { nap(300); h = h->next; return h->run(h, n + 1); }
body long first_handler(handler *h, long n) { h = h->next; return h->run(h, n + 1); }

struct Task { virtual long run(long n) = 0; virtual ~Task() {} };
struct Slow : Task { method long run(long n) override { nap(600); return n; } };
struct Wrap : Task {
	Task *in;
	Wrap(Task *t) : in(t) {}
	method long run(long n) override { return in->run(n + 1); }
};

struct Other { long pad = 0; virtual long other(long n) { return n; } };
struct Named { long pad = 0; virtual long named(long n) = 0; };
struct Both : Other, Named { method long named(long n) override { nap(900); return n + 3; } };

body long by_thunk(Named *x, long n) { return x->named(n); }

body long ping(long n);
body long pong(long n) { nap(300); return n ? ping(n - 1) : 7; }
body long ping(long n) { nap(300); return n ? pong(n - 1) : 8; }

/* `return n ? again(n - 1) : 5` with what it has saved taken back first; compilers jump behind the first instruction where they can. */
body long again(long n);
asm(".pushsection .text\n .globl again\n .type again, @function\n again: push %rbx\n mov %rdi, %rbx\n mov $300, %edi\n call nap\n"
    "mov %rbx, %rdi\n pop %rbx\n test %rdi, %rdi\n jz 1f\n dec %rdi\n jmp again\n 1: mov $5, %eax\n ret\n .size again, . - again\n"
    ".popsection");

/* And a loop that begins there. */
body long tight(long n);
asm(".pushsection .text\n .globl tight\n .type tight, @function\n tight: lea -1(%rdi), %rdi\n test %rdi, %rdi\n jnz tight\n"
    "mov $6, %eax\n nop\n nop\n nop\n nop\n nop\n ret\n .size tight, . - tight\n .popsection");

body int by_plt(useconds_t us) { return usleep(us); }

int main(int argc, char **argv)
{
	handler h[] = { { first_handler, &h[1] }, { next_handler, &h[2] }, { last_handler, nullptr } };
	long rounds = argc > 1 ? atol(argv[1]) : 10, s = 0;
	Slow slow;
	Wrap wrap(&slow);
	Task *volatile task = &wrap;
	Both both;

	for (long i = 0; i < rounds; i++) {
		s += one_jump(i) + two_jumps(i) + naps_before(i) + on_condition(i) + by_pointer(i) + to_pointer(i);
		s += h[0].run(h, i) + task->run(i) + by_thunk(&both, i) + ping(3) + again(3) + tight(5) + by_plt(500);
	}
	printf("%ld\n", s);
	return 0;
}
