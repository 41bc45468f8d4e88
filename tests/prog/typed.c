/* SPDX-License-Identifier: MIT */
/*
 * C values of many kinds, the same ones in each run, so that a tracer and a debugger can be asked for the
 * same hit of the same function. Lines that are probed are found by the words behind "line:".
 */
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define noinline __attribute__((noinline, noclone, noipa))
#define keep(x) __asm__ volatile("" : "+r"(x) : : "memory")

enum mood { CALM, BUSY = 5, ANGRY = -3 };
enum big { HUGE_ONE = 1, HUGE_TWO = 0x7fffffffffffffffl };

struct inner { short a; union { unsigned word; unsigned char bytes[4]; float real; } u; };

struct item {
	int id;
	unsigned int flag : 3, wide : 20;
	signed int left : 5;
	bool yes : 1;
	unsigned long far : 50;
	char name[12];
	const char *text;
	struct item *next;
	struct inner in[3];
	int grid[2][3];
	struct { long x, y; };
	enum mood mood;
	enum big big;
	double d;
	float f;
	_Bool on;
	signed char sc;
	unsigned char uc;
	short s;
	unsigned short us;
	volatile const long cv;
	int (*call)(int);
	void *any;
	uint64_t u64;
	int64_t i64;
	__int128 wider;
	int tail[];
};

struct pair { int a, b; };			/* one register */
struct two { long n; double d; };		/* one of each kind */
struct large { long v[5]; };			/* in memory */

int exported = 77;
static long hidden = -5;
volatile long retval = -77;			/* means something else in a probe at a return */
volatile long duration = -78;
const char *title = "a title";
char label[8] = "a label";
static struct word { int n; unsigned char text[]; } word = { 5, "hello" };
struct word *spoken = &word;
const char *const names[3] = { "zero", "one", "two" };
static struct item items[4];
static __thread int own = 9;
volatile int sink;

static int called(int x) { return x + 1; }

static inline __attribute__((always_inline)) long scaled(long base, const struct item *it, unsigned char by)
{
	static long total = 3;			/* the copies do not mention it */
	long result = base * by;

	total += by;
	__asm__ volatile("" : "+r"(result) : "r"(base), "r"(it) : "memory");
	sink = result;				/* line: scaled */
	return result + it->id;
}

noinline int step(int n, struct item *it, struct pair p, struct two t, struct large l, signed char c, unsigned short u,
		  enum mood m, float f, double d, const char *s, long seventh, char eighth)
{
	long here = n * 1000L;
	struct item *walk = it;
	int count = 0;

	keep(here);
	while (walk && count < 3) {
		count++;
		keep(count);
		keep(walk);
		walk = walk->next;		/* line: walk */
	}
	{
		int n = count * 7;		/* hides the parameter */

		keep(n);
		sink = n;			/* line: inner */
	}
	hidden += n;
	own += 2;
	count += scaled(n + 3, it, 200 + n);
	sink = here + count + p.a + p.b + t.n + l.v[4] + c + u + m + f + d + *s + seventh + eighth;	/* line: end */
	return count;
}

noinline struct pair give_pair(int n) { keep(n); return (struct pair){ n, -n }; }
noinline struct large give_large(int n) { keep(n); return (struct large){ { n, n * 2, 3, 4, -n } }; }
noinline enum mood give_mood(int n) { keep(n); return n & 1 ? BUSY : ANGRY; }
noinline float give_float(int n) { keep(n); return n + 0.25f; }
noinline signed char give_char(int n) { keep(n); return n - 120; }
noinline const char *give_text(int n) { keep(n); return names[n % 3]; }
noinline struct item *give_item(int n) { keep(n); return &items[n]; }

noinline bool give_bool(struct pair *args) { keep(args); return args->a & 1; }

noinline long tail_end(long n) { keep(n); return n * 5; }
noinline long tail_call(long n)
{
	if (n & 1)
		return tail_end(n + 1);
	keep(n);
	return n + 100;
}

static long (*volatile ending)(long) = tail_end;

/* The same through a pointer: where it leads is not known before. */
noinline long tail_away(long n)
{
	if (n & 1)
		return ending(n + 1);
	keep(n);
	return n + 100;
}

static void fill(struct item *it, int n)
{
	it->id = 10 + n;
	it->flag = 5;
	it->wide = 0xabcde + n;
	it->left = -3 - n;
	it->yes = n & 1;
	it->far = 0x123456789abcdul + n;
	strcpy(it->name, n & 1 ? "eleven char" : "abc");
	it->text = names[n % 3];
	it->next = n ? it - 1 : NULL;
	for (int i = 0; i < 3; i++) {
		it->in[i].a = -i;
		it->in[i].u.word = 0x40490fdb + i + n;
	}
	for (int i = 0; i < 6; i++)
		it->grid[i / 3][i % 3] = n * 100 - i;
	it->x = 1L << (33 + n);
	it->y = -it->x;
	it->mood = n & 1 ? BUSY : ANGRY;
	it->big = n & 1 ? HUGE_ONE : HUGE_TWO;
	it->d = n / 3.0;
	it->f = -n / 7.0f;
	it->on = true;
	it->sc = -100 - n;
	it->uc = 200 + n;
	it->s = -30000 + n;
	it->us = 60000 + n;
	it->call = called;
	it->any = &exported;
	it->u64 = ~0ul - n;
	it->i64 = -(1L << 62) - n;
	it->wider = n;
}

/* Calls of libc, whose types come from its own debug info. */
static int by_id(const void *a, const void *b) { return ((const struct pair *)a)->a - ((const struct pair *)b)->a; }

static int call_libc(void)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_family = AF_INET }, *list = NULL;
	struct pair pairs[3] = { { 3, 0 }, { 1, 1 }, { 2, 2 } };
	FILE *f = fopen("/dev/null", "w");

	qsort(pairs, 3, sizeof(*pairs), by_id);
	if (!f || getaddrinfo("127.0.0.1", "8080", &hints, &list))
		return 1;
	fputs("text", f);
	freeaddrinfo(list);
	return fclose(f);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return strcmp(argv[1], "libc") ? 2 : call_libc();
	for (int n = 0; n < 4; n++) {
		fill(&items[n], n);
		sink = step(n, &items[n], (struct pair){ n * 3, -n - 1 }, (struct two){ n * 5L, n + 0.5 },
			    (struct large){ { n, 2, 3, 4, -n * 9L } }, -n - 100, 65000 + n, items[n].mood, n + 0.75f, n * -1.5,
			    items[n].name, -70 - n, 'a' + n);
		sink += give_pair(n).b + give_large(n).v[1] + give_mood(n) + give_float(n) + give_char(n) + *give_text(n) +
			give_item(n)->id + tail_call(n) + tail_away(n) + give_bool(&(struct pair){ n, n * 11 });
		exported++;
	}
	return 0;
}
