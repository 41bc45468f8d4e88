/* SPDX-License-Identifier: MIT */
/*
 * Calls that scripts watch, and what those scripts must find out, computed here in C.
 *
 *	script tell N		N calls of take(); prints sums, extremes, histograms and counts by key, a line each
 *	script format		calls of show(); prints each with C's printf
 *	script deep N D		N calls of sink_in(), D deep; prints all calls, returns and the sum of what was returned
 *	script jump N		N calls of leap(), of which every third leaves by longjmp
 *	script tail N		N calls of tail(), which goes on in tail_end()
 *	script threads T N	N calls of take() in each of T threads
 *	script fork K N		K children with N calls of take() each
 *	script serve		commands: prog.h; "tell N", "format" and so on too, whose last line is "told"
 */
#include "prog.h"
#include <setjmp.h>
#include <stdbool.h>
#include <sys/wait.h>

enum mood { CALM, BUSY = 5, ANGRY = -3 };

struct item {
	int id;
	short small;
	unsigned flag : 3, wide : 20;
	signed int left : 5;
	char name[16];
	struct item *next;
	double weight;
	float ratio;
	struct { long a, b; } in;
	int v[4];
	enum mood mood;
	union { unsigned int word; unsigned char bytes[4]; } both;
};

static const char *words[] = { "alpha", "beta", "gamma", "a longer word, of thirty letters", "" };
#define WORDS 5
static struct item items[8];
static unsigned long seed = 12345;
int rounds;		/* scripts read it by name */

noinline long take(int n, const char *s, struct item *it, double d)
{
	__asm__ volatile("" : "+r"(n), "+r"(s), "+r"(it), "+x"(d) : : "memory");
	return (long)n * 3 - it->id;
}

noinline int show(signed char c, unsigned short h, int i, unsigned int u, long l, const char *s)
{
	__asm__ volatile("" : "+r"(c), "+r"(h), "+r"(i), "+r"(u), "+r"(l), "+r"(s));
	return i;
}

noinline long sink_in(long depth)
{
	long r = 0;

	__asm__ volatile("" : "+r"(depth));
	if (depth > 1)
		r = sink_in(depth - 1);
	__asm__ volatile("" : "+r"(r));		/* or it becomes a loop */
	return r + depth;
}

static jmp_buf way_out;

noinline long leap(long n)
{
	__asm__ volatile("" : "+r"(n));
	if (n % 3 == 0)
		longjmp(way_out, 1);
	return n + 7;
}

noinline long tail_end(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n * 5;
}

noinline long tail(long n)
{
	__asm__ volatile("" : "+r"(n));
	return tail_end(n + 1);
}

static void make_items(void)
{
	for (int i = 0; i < 8; i++) {
		struct item *it = &items[i];

		it->id = i * 11 - 20;
		it->small = (short)(-i * 1000);
		it->flag = (unsigned)i & 7;
		it->wide = 1000000u - (unsigned)i;
		it->left = 7 - 3 * i > -16 ? 7 - 3 * i : -16;
		snprintf(it->name, sizeof(it->name), "item-%d", i);
		it->next = &items[(i * 3 + 1) % 8];
		it->weight = i * 1.25 - 2;
		it->ratio = (float)i / 4;
		it->in.a = i * 1000000007L;
		it->in.b = -it->in.a;
		for (int k = 0; k < 4; k++)
			it->v[k] = i * 10 - k;
		it->mood = i % 3 == 0 ? CALM : i % 3 == 1 ? BUSY : ANGRY;
		it->both.word = 0x01020304u * (unsigned)(i + 1);
	}
}

/* What one number did, call by call. */
struct facts {
	long count, sum, min, max;
	long pos;			/* of those > 100 */
	long buckets[70], linear[12];
};

static int bucket_of(long v)	/* 0: negative, 1: zero, 2: one, then powers of two */
{
	int b = 2;

	if (v < 0)
		return 0;
	if (!v)
		return 1;
	while (v >>= 1)
		b++;
	return b;
}

static void note(struct facts *f, long v)
{
	if (!f->count || v < f->min)
		f->min = v;
	if (!f->count || v > f->max)
		f->max = v;
	f->count++;
	f->sum += v;
	f->pos += v > 100;
	f->buckets[bucket_of(v)]++;
	f->linear[v < 0 ? 0 : v >= 100 ? 11 : v / 10 + 1]++;
}

static void say_facts(const struct facts *f)
{
	say("count %ld", f->count);
	say("sum %ld", f->sum);
	say("min %ld", f->min);
	say("max %ld", f->max);
	say("avg %ld", f->sum / f->count);
	say("pos %ld", f->pos);
	for (int i = 0; i < 70; i++)
		if (f->buckets[i])
			say("hist %ld %ld", i == 0 ? -1 : i == 1 ? 0 : 1L << (i - 2), f->buckets[i]);
	for (int i = 0; i < 12; i++)
		if (f->linear[i])
			say("lhist %d %ld", (i - 1) * 10, f->linear[i]);
}

struct by_key { long count, sum; };

struct told {
	struct facts n, ret;
	struct by_key word[WORDS], item[8], pair[WORDS][8];
	long chain, members, bits, array, unions, busy, starts_a, wide_sum;
	double d, weights, ratios;
};

static void note_item(struct told *t, const struct item *it)
{
	t->chain += it->next->next->next->id;
	t->members += it->small + it->in.a % 1000 + it->in.b % 7;
	t->bits += it->flag * 2 + it->left;
	t->wide_sum += it->wide;
	t->array += it->v[0] * 3 + it->v[3] - it->next->v[2];
	t->unions += it->both.bytes[2];
	t->busy += it->mood == BUSY;
	t->weights += it->weight;
	t->ratios += it->ratio;
}

static unsigned int random_below(unsigned int n)
{
	seed = seed * 6364136223846793005ul + 1442695040888963407ul;
	return (unsigned int)(seed >> 33) % n;
}

static void call_once(struct told *t)
{
	unsigned int w = random_below(WORDS), i = random_below(8);
	int n = (int)random_below(300) - 60;
	double d = n / 8.0;
	long r;

	rounds++;
	r = take(n, words[w], &items[i], d);
	note(&t->n, n);
	note(&t->ret, r);
	t->word[w].count++, t->word[w].sum += n;
	t->item[i].count++, t->item[i].sum += n;
	t->pair[w][i].count++, t->pair[w][i].sum += n;
	t->starts_a += words[w][0] == 'a';
	t->d += d;
	note_item(t, &items[i]);
}

static void say_keys(const struct told *t)
{
	for (int w = 0; w < WORDS; w++)
		if (t->word[w].count)
			say("word %ld %ld %s", t->word[w].count, t->word[w].sum, words[w]);
	for (int i = 0; i < 8; i++)
		if (t->item[i].count)
			say("item %ld %ld %d", t->item[i].count, t->item[i].sum, items[i].id);
	for (int w = 0; w < WORDS; w++)
		for (int i = 0; i < 8; i++)
			if (t->pair[w][i].count)
				say("pair %ld %ld %d,%s", t->pair[w][i].count, t->pair[w][i].sum, items[i].id, words[w]);
}

static void tell(long n)
{
	struct told t = { 0 };

	for (long i = 0; i < n; i++)
		call_once(&t);
	say_facts(&t.n);
	say("ret_sum %ld", t.ret.sum);
	say("ret_max %ld", t.ret.max);
	say("chain %ld", t.chain);
	say("members %ld", t.members);
	say("bits %ld", t.bits);
	say("wide %ld", t.wide_sum);
	say("array %ld", t.array);
	say("unions %ld", t.unions);
	say("busy %ld", t.busy);
	say("starts_a %ld", t.starts_a);
	say("rounds %d", rounds);
	say("d %.3f", t.d);
	say("weights %.3f", t.weights);
	say("ratios %.3f", t.ratios);
	say_keys(&t);
}

static void format(void)
{
	static const long longs[] = { 0, 1, -1, 42, 1L << 40, -(1L << 40), 0x7fffffffffffffff, -0x7fffffffffffffff - 1 };

	for (int i = 0; i < 8; i++) {
		signed char c = (signed char)longs[i];
		unsigned short h = (unsigned short)(longs[i] + 3);
		int n = (int)(longs[i] >> 8);
		unsigned int u = (unsigned int)longs[i];
		const char *s = words[i % WORDS];

		show(c, h, n, u, longs[i], s);
		printf("%hhd|%hhu|%hd|%hu|%d|%i|%u|%x|%X|%o|", c, c, h, h, n, n, u, u, u, u);
		printf("%ld|%lu|%lx|%lld|%llu|%llx|%p|", longs[i], longs[i], longs[i], (long long)longs[i],
		       (unsigned long long)longs[i], (unsigned long long)longs[i], (void *)s);
		printf("[%8d]|[%-8d]|[%08d]|[%+d]|[% d]|[%#x]|", n, n, n, n, n, u);
		printf("%s|[%12s]|[%-12s]|[%.3s]|%c|%%\n", s, s, s, s, 'a' + i);
	}
	fflush(stdout);
}

static noinline void deep(long n, long depth)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += sink_in(depth);
	say("calls %ld", n * depth);
	say("sum %ld", sum);
}

static void jump(long n)
{
	static volatile long sum, left;
	static volatile long i;

	sum = left = 0;
	for (i = 0; i < n; i++)
		if (setjmp(way_out))
			left++;
		else
			sum += leap(i);
	say("calls %ld", n);
	say("left %ld", left);
	say("sum %ld", sum);
}

static void tails(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += tail(i);
	say("calls %ld", n);
	say("sum %ld", sum);
}

static void *many(void *arg)
{
	long n = *(long *)arg;

	for (long i = 0; i < n; i++)
		take((int)(i % 1000), words[i % 3], &items[i % 8], 0);
	return NULL;
}

static void threads(int t, long n)
{
	pthread_t ids[256];
	long sum = 0;

	for (int i = 0; i < t; i++)
		if (pthread_create(&ids[i], NULL, many, &n))
			exit(4);
	for (int i = 0; i < t; i++)
		pthread_join(ids[i], NULL);
	for (long i = 0; i < n; i++)
		sum += i % 1000;
	say("count %ld", t * n);
	say("sum %ld", t * sum);
	for (int k = 0; k < 8; k++)
		say("item %ld %d", t * (n / 8 + (k < n % 8)), items[k].id);
	for (int k = 0; k < 3; k++)
		say("word %ld %s", t * (n / 3 + (k < n % 3)), words[k]);
}

static void forked(int k, long n)
{
	int status;

	for (int i = 0; i < k; i++) {
		pid_t pid = fork();

		if (!pid) {
			many(&n);
			_exit(0);
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			bad("a child ended with %#x", status);
		say("child %d %ld", pid, n);
	}
}

static bool command(const char *line)
{
	long n, m;

	if (sscanf(line, "tell %ld", &n) == 1)
		tell(n);
	else if (!strcmp(line, "format"))
		format();
	else if (sscanf(line, "deep %ld %ld", &n, &m) == 2)
		deep(n, m);
	else if (sscanf(line, "jump %ld", &n) == 1)
		jump(n);
	else if (sscanf(line, "tail %ld", &n) == 1)
		tails(n);
	else if (sscanf(line, "threads %ld %ld", &m, &n) == 2 && m <= 256)
		threads((int)m, n);
	else if (sscanf(line, "fork %ld %ld", &m, &n) == 2)
		forked((int)m, n);
	else
		return false;
	return true;
}

static int other(const char *line)
{
	if (!command(line))
		return 1;
	say("told");
	return 0;
}

static void run(long n)
{
	many(&n);
}

int main(int argc, char **argv)
{
	char line[256] = "";

	make_items();
	for (int i = 1; i < argc; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", i > 1 ? " " : "", argv[i]);
	for (int i = 0; i < WORDS; i++)		/* other tracers can't read what is not in memory yet */
		__asm__ volatile("" : : "r"(strlen(words[i])) : "memory");
	if (!strcmp(line, "serve")) {
		serve(run, other);
		return verdict();
	}
	if (!command(line))
		return 2;
	return bad_why[0] ? 3 : 0;
}
