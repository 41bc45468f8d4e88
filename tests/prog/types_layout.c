/* SPDX-License-Identifier: MIT */
/* Types of all shapes; the program prints what the compiler thinks of them: kind|type|what|numbers. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum colour { RED, GREEN = 7, BLUE };
enum below { NEGATIVE = -5, ZERO = 0 };
enum wide { LARGE = 0x123456789abcll };
struct fields { unsigned int a : 3, b : 7; int c : 5; uint64_t d : 40; unsigned char e : 1; unsigned int : 0; int f : 31; };
struct packed { char c; int i; double d; short s; } __attribute__((packed));
struct aligned { char c; int wide __attribute__((aligned(32))); };
union either { int i; double d; char text[13]; struct { short x, y; } point; };
typedef struct { int first; union { long number; double real; struct { char lo, hi; }; }; int last; } nameless;
typedef uint32_t word;
struct later;

struct holder {
	struct holder *next;
	int (*compare)(const void *, const void *);
	int (*table[4])(int, ...);
	char names[3][8];
	const char *const fixed;
	double (*matrix)[4];
	volatile word words[5];
	enum colour colour;
	union either either;
	struct later *later;
	_Bool flag;
	long double longest;
	float _Complex both;
	__int128 huge;
	char rest[];
};

struct holder global_holder;
static int static_number = 3;
__thread long per_thread = 9;
nameless anonymous;
struct fields fields;
struct packed packed;
struct aligned aligned;
enum colour colour;
enum below below;
enum wide wide;

#define SIZE(T) printf("size|%s|%zu\n", #T, sizeof(T))
#define MEMBER(T, m) printf("member|%s|%s|%zu|%zu\n", #T, #m, offsetof(T, m), sizeof(((T *)0)->m))
#define VALUE(T, v) printf("value|%s|%s|%lld\n", #T, #v, (long long)(v))
/* set all ones in it: the lowest and the number of the bits that changed */
#define BITS(T, m) do { \
	T x; \
	memset(&x, 0, sizeof(x)); \
	x.m = -1; \
	bits(#T, #m, (unsigned char *)&x, sizeof(x)); \
} while (0)

static void bits(const char *type, const char *member, const unsigned char *p, size_t n)
{
	size_t i, first = n * 8, count = 0;

	for (i = 0; i < n * 8; i++)
		if (p[i / 8] >> (i % 8) & 1) {
			first = count ? first : i;
			count++;
		}
	printf("bits|%s|%s|%zu|%zu\n", type, member, first, count);
}

int main(void)
{
	static int inner_static;

	inner_static += ++static_number + (int)per_thread + global_holder.colour;
	SIZE(struct holder); SIZE(struct fields); SIZE(struct packed); SIZE(struct aligned); SIZE(union either);
	SIZE(nameless); SIZE(enum colour); SIZE(enum below); SIZE(enum wide); SIZE(word);
	MEMBER(struct holder, next); MEMBER(struct holder, compare); MEMBER(struct holder, table);
	MEMBER(struct holder, names); MEMBER(struct holder, fixed); MEMBER(struct holder, matrix);
	MEMBER(struct holder, words); MEMBER(struct holder, colour); MEMBER(struct holder, either);
	MEMBER(struct holder, later); MEMBER(struct holder, flag); MEMBER(struct holder, longest);
	MEMBER(struct holder, both); MEMBER(struct holder, huge);
	MEMBER(struct packed, c); MEMBER(struct packed, i); MEMBER(struct packed, d); MEMBER(struct packed, s);
	MEMBER(struct aligned, wide); MEMBER(union either, text); MEMBER(union either, d);
	MEMBER(nameless, first); MEMBER(nameless, number); MEMBER(nameless, real); MEMBER(nameless, hi); MEMBER(nameless, last);
	BITS(struct fields, a); BITS(struct fields, b); BITS(struct fields, c); BITS(struct fields, d);
	BITS(struct fields, e); BITS(struct fields, f);
	VALUE(enum colour, RED); VALUE(enum colour, GREEN); VALUE(enum colour, BLUE);
	VALUE(enum below, NEGATIVE); VALUE(enum wide, LARGE);
	return inner_static + anonymous.first + fields.a + packed.c + aligned.c + colour + below + (int)wide > 1000000;
}
