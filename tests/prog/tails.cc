/* SPDX-License-Identifier: MIT */
/*
 * Functions that end with a jump to another one in every way: directly, over several functions, on a condition, back and
 * forth, through the PLT and through pointers, and left by an exception after the jump. `tails N [THREADS]` prints
 * "name calls returns sum", counted by the caller's side; sum is that of the returned values. `tails N calm` throws nothing:
 * no function may be left by an exception while the kernel has its return address.
 *
 * `tails N odd` calls a function with a return address that is not after a call instruction.
 * `tails N many`: as many functions jump to one as it has letters in the alphabet, almost.
 * `tails N hops`: a hundred instructions call twenty functions, each of which jumps through a pointer.
 * `tails N hook`: a function jumps to where a variable points, which is changed half way.
 * `tails N loop`: one instruction calls three functions in turn, each some time, and each jumps through a pointer.
 * `tails N fork`: every call of forked() makes a child in the function that it jumps to, which returns, too.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define body extern "C" __attribute__((noipa))

static volatile long sink;
static bool calm;

body long leaf(long n)
{
	struct timespec t = { 0, 300000 };

	if (n % 4 == 0)
		nanosleep(&t, nullptr);
	sink = n;
	return n * 3;
}

body long direct(long n) { return leaf(n + 1); }
body long twice(long n) { return direct(n + 2); }
body long maybe(long n) { return n & 1 ? direct(n) : n; }
body long both(long n) { return n & 2 ? twice(n) : maybe(n); }

body long odd(long n);
body long even(long n) { return n ? odd(n - 1) : 1; }
body long odd(long n) { return n ? even(n - 1) : 0; }

/* Only some of the ways lead back. */
body long round_two(long n);
body long round_one(long n) { return n > 3 ? round_two(n - 1) : leaf(n | 1); }
body long round_two(long n) { return n & 1 ? round_one(n - 2) : n; }

body long through_plt(const char *text) { return strtol(text, nullptr, 10); }

static long (*volatile ways[])(long) = { leaf, direct, maybe };

body long by_pointer(long n) { return ways[n % 3](n); }
body long to_pointer(long n) { return by_pointer(n + 1); }

body long thrower(long n)
{
	if (n % 3 == 0)
		throw n;
	sink = n;
	return n;
}

body long via(long n) { return thrower(n + 1); }

/* One instruction calls both: what is left of a call that was left by an exception must not be taken for the next one. */
body long one_place(long (*f)(long), long n)
{
	try {
		return f(n);
	} catch (long v) {
		return -v;
	}
}

struct tally { const char *name; unsigned long calls, returns; long sum; };

enum { DIRECT, TWICE, MAYBE, BOTH, EVEN, ODD, ONE, TWO, PLT, POINTER, TO, VIA, NALL };

static const char *const names[NALL] = {
	"direct", "twice", "maybe", "both", "even", "odd", "round_one", "round_two", "through_plt", "by_pointer", "to_pointer", "via",
};

static void note(struct tally *t, int which, long value)
{
	t[which].calls++;
	t[which].returns++;
	t[which].sum += value;
}

/* What happens inside, as the source says. */
static void expect(struct tally *t, int which, long n)
{
	long v = 0;

	switch (which) {
	case DIRECT: v = (n + 1) * 3; break;
	case TWICE: expect(t, DIRECT, n + 2); v = (n + 3) * 3; break;
	case MAYBE:
		if (n & 1)
			expect(t, DIRECT, n);
		v = n & 1 ? (n + 1) * 3 : n;
		break;
	case BOTH:
		expect(t, n & 2 ? TWICE : MAYBE, n);
		v = n & 2 ? (n + 3) * 3 : n & 1 ? (n + 1) * 3 : n;
		break;
	case EVEN:
		if (n)
			expect(t, ODD, n - 1);
		v = n % 2 == 0;
		break;
	case ODD:
		if (n)
			expect(t, EVEN, n - 1);
		v = n % 2 == 1;
		break;
	}
	note(t, which, v);
}

static long expect_round(struct tally *t, int which, long n)
{
	long v = which == ONE ? (n > 3 ? expect_round(t, TWO, n - 1) : (n | 1) * 3) : n & 1 ? expect_round(t, ONE, n - 2) : n;

	note(t, which, v);
	return v;
}

static __attribute__((noipa)) void one_round(struct tally *t, long n)
{
	char text[24];
	long got = 0;

	got += direct(n) + twice(n) + maybe(n) + both(n) + even(n % 7) + round_one(n % 9);
	expect(t, DIRECT, n);
	expect(t, TWICE, n);
	expect(t, MAYBE, n);
	expect(t, BOTH, n);
	expect(t, EVEN, n % 7);
	expect_round(t, ONE, n % 9);
	snprintf(text, sizeof(text), "%ld", n);
	got += through_plt(text);
	note(t, PLT, n);
	for (int i = 0; i < 2; i++) {
		long m = n + i, v = i ? to_pointer(n) : by_pointer(n);

		if (m % 3 == 1)
			expect(t, DIRECT, m);
		else if (m % 3 == 2)
			expect(t, MAYBE, m);
		note(t, POINTER, v);
		if (i)
			note(t, TO, v);
		got += v;
	}
	for (int i = 0; !calm && i < 2; i++) {
		got += one_place(via, n + i);
		t[VIA].calls++;
		if ((n + i + 1) % 3) {
			t[VIA].returns++;
			t[VIA].sum += n + i + 1;
		}
		got += one_place(thrower, n + i);
	}
	sink = got;
}

struct worker { pthread_t thread; long n; struct tally all[NALL]; };

static void *work(void *arg)
{
	struct worker *w = (struct worker *)arg;

	for (long i = 0; i < w->n; i++)
		one_round(w->all, i);
	return nullptr;
}

body long end_of_many(long n) { sink = n; return n + 7; }

#define MANY(x) body long many_##x(long n) { return end_of_many(n + sizeof(#x)); }
#define EACH(op) op(a) op(b) op(c) op(d) op(e) op(f) op(g) op(h) op(i) op(j) op(k) op(l) op(m) op(n) op(o) op(p) op(q) op(r) op(s) op(t)
EACH(MANY)

#define CALL(x) got += many_##x(i);

static void call_many(long n)
{
	long got = 0;

	for (long i = 0; i < n; i++) {
		EACH(CALL)
	}
	printf("many %ld %ld %ld\n", 20 * n, 20 * n, got);
}

#define HOP(x) body long hop_##x(long n, long) { return ways[n % 3](n); }
EACH(HOP)

/* Each call stands there for itself, and its second argument says which one it is. One function after the other is called for the first time. */
#define FIVE(x) if (i >= 8 * (#x[0] - 'a')) { \
	got += hop_##x(3, 5 * #x[0]); got += hop_##x(3, 5 * #x[0] + 1); got += hop_##x(3, 5 * #x[0] + 2); \
	got += hop_##x(3, 5 * #x[0] + 3); got += hop_##x(3, 5 * #x[0] + 4); }

static void hops(long n)
{
	long got = 0;

	for (long i = 0; i < n; i++) {
		EACH(FIVE)
		got += leaf(0);
		usleep(10000);
	}
	sink = got;
}

static long (*volatile hook)(long) = leaf;

body long by_hook(long n) { return hook(n); }

static void hooked(long n)
{
	long got = 0;

	for (long i = 0; i < n; i++) {
		if (i == n / 2)
			hook = direct;
		got += by_hook(4 * i + 1);
		usleep(1000);
	}
	printf("by_hook %ld %ld %ld\n", n, n, got);
}

body long turn_one(long n) { return ways[0](n); }
body long turn_two(long n) { return ways[0](n + 1); }
body long turn_three(long n) { return ways[0](n + 2); }

static void turns(long n)
{
	static long (*volatile all[])(long) = { turn_one, turn_two, turn_three };
	long got = 0;

	for (long i = 0; i < n; i++)
		got += all[i / 500 % 3](4 * i);
	sink = got;
}

/* As a call of by_pointer() would be, but no call instruction is in front of where it returns to. */
body long pushed(long n)
{
	long r;

	asm volatile("mov %%rsp, %%rbx\n and $-16, %%rsp\n sub $256, %%rsp\n lea 1f(%%rip), %%rax\n push %%rax\n jmp by_pointer\n nop\n"
		     "1: mov %%rbx, %%rsp"
		     : "=a"(r), "+D"(n) : : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	return r;
}

body long forks(long n)
{
	pid_t child = fork();

	if (child > 0)
		waitpid(child, nullptr, 0);
	return child ? n : n + 1000;
}

body long forked(long n) { return forks(n + 1); }

int main(int argc, char **argv)
{
	static struct worker w[16];
	long n = argc > 1 ? atol(argv[1]) : 10;
	int threads = argc > 2 && atoi(argv[2]) ? atoi(argv[2]) : 1;

	calm = argc > 2 && !strcmp(argv[2], "calm");
	if (argc > 2 && !strcmp(argv[2], "odd")) {
		for (long i = 0; i < n; i++)
			if (pushed(i) != ways[i % 3](i))
				return 1;
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "loop")) {
		turns(n);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "hook")) {
		hooked(n);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "hops")) {
		hops(n);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "many")) {
		call_many(n);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "fork")) {
		for (long i = 0; i < n; i++)
			if (forked(i) >= 1000)
				_exit(0);
		return 0;
	}
	for (int i = 0; i < threads; i++) {
		w[i].n = n;
		if (threads == 1)
			work(&w[i]);
		else
			pthread_create(&w[i].thread, nullptr, work, &w[i]);
	}
	for (int i = 0; threads > 1 && i < threads; i++)
		pthread_join(w[i].thread, nullptr);
	for (int k = 0; k < NALL; k++) {
		struct tally t = { names[k], 0, 0, 0 };

		for (int i = 0; i < threads; i++) {
			t.calls += w[i].all[k].calls;
			t.returns += w[i].all[k].returns;
			t.sum += w[i].all[k].sum;
		}
		printf("%s %lu %lu %ld\n", t.name, t.calls, t.returns, t.sum);
	}
	return 0;
}
