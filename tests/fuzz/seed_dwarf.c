/* SPDX-License-Identifier: MIT */
/* A small file with much debug info: what fuzz_dwarf damages. It is never run. */
enum colour { RED, GREEN = 7, BLUE = -1 };
struct later;
typedef unsigned long word_t;
struct bits { unsigned int a : 3, b : 7; int c : 5; };
union either { int i; float f; char text[12]; };

struct node {
	struct node *next;
	const char *name;
	union { long number; double real; };
	struct { short x, y; } at[3][2];
	enum colour colour;
	struct bits bits;
	int (*compare)(const struct node *, const void *, ...);
	struct later *later;
	volatile word_t words[];
};

struct pair { double d; int i; };
struct node *first;
static int counter = 3;
__thread long per_thread;

static inline __attribute__((always_inline)) int twice(int n)
{
	int m = n * 2;

	return m + counter;
}

struct pair make(float f, struct pair p, long double wide, union either e)
{
	struct pair r = { f + p.d + (double)wide, e.i };
	int i;

	for (i = 0; i < p.i; i++) {
		int inner = twice(i);

		r.i += inner;
	}
	return r;
}

int walk(struct node *n, const char *name, ...)
{
	static int calls;
	char buf[n->colour + 4];

	buf[0] = name[0];
	for (calls++; n; n = n->next)
		per_thread += twice(n->at[1][0].x) + buf[0];
	return calls;
}

/* Parameters that are not kept, with calls that tell them, and a jump that hides them. */
__attribute__((noinline)) static int spent(int a, long b, int way)
{
	per_thread += a + b;
	walk(first, "spent", way);
	walk(first, "again", counter);
	return counter + way;
}

int spend(long n)
{
	int r = spent(7, n * 3, 1);

	r += spent(counter, n + r, 2);
	return r + n;
}

int spend_and_go(int n)
{
	return n > 3 ? spent(n, n, 3) : spend_and_go(counter) + 1;
}
