/* SPDX-License-Identifier: MIT */
/* Functions with parameters of all classes; each prints the bytes that it got: function|number|hex. */
#include <complex.h>
#include <immintrin.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

static void bytes(const char *func, const char *which, const void *p, size_t n)
{
	const unsigned char *b = p;

	printf("%s|%s|", func, which);
	while (n--)
		printf("%02x", *b++);
	printf("\n");
}

#define GOT(n, x) bytes(__func__, #n, &(x), sizeof(x))
#define GAVE(x) bytes(__func__, "return", &(x), sizeof(x))

struct two { long a, b; };
struct mixed { double d; long l; };
struct floats { float x, y, z; };
struct small { int a; float b; };
struct bytes3 { char c[3]; };
struct large { long v[3]; };
struct __attribute__((packed)) crooked { char c; double d; };
struct doubles { double a, b; };
struct nested { struct { short s; char c[2]; } in; float f; struct small tail; };
struct fields { uint64_t a : 20, b : 44; double d; };
union either { double d; long l; };
union pieces { double d; float f[2]; };
struct alignas_ { long a __attribute__((aligned(16))); long b; };
struct empty {};
struct one_x87 { long double v; };
struct wrapped { __m128 v; };
struct over { int a; double d __attribute__((aligned(32))); };
typedef char tiny __attribute__((vector_size(4)));	/* none of the machine's vectors */
typedef union { int *i; char *c; } transparent __attribute__((transparent_union));

NOINLINE long ints(char a, unsigned short b, int c, long d, void *e, _Bool f, int g, char h)
{
	long r = a + b + c + d + g + h + f;

	GOT(0, a); GOT(1, b); GOT(2, c); GOT(3, d); GOT(4, e); GOT(5, f); GOT(6, g); GOT(7, h); GAVE(r);
	return r;
}

NOINLINE double reals(float a, double b, int i, long double c, float d, double e, float f, double g, float h, double j, double k)
{
	double r = a + b + i + d + e + f + g + h + j + k;

	GOT(0, a); GOT(1, b); GOT(2, i); bytes(__func__, "3", &c, 10); GOT(4, d); GOT(5, e); GOT(6, f); GOT(7, g);
	GOT(8, h); GOT(9, j); GOT(10, k); GAVE(r);
	return r;
}

NOINLINE struct mixed structs(struct two a, struct mixed b, struct floats c, struct small d, struct bytes3 e)
{
	struct mixed r = { b.d + c.x, a.a + d.a };

	GOT(0, a); GOT(1, b); GOT(2, c); GOT(3, d); GOT(4, e); GAVE(r);
	return r;
}

NOINLINE struct large in_memory(struct large a, int i, struct crooked b, struct two c, struct two d, struct two e, int last)
{
	struct large r = { { a.v[2], i, last } };

	GOT(0, a); GOT(1, i); GOT(2, b); GOT(3, c); GOT(4, d); GOT(5, e); GOT(6, last); GAVE(r);
	return r;
}

NOINLINE struct doubles unions(union either a, union pieces b, struct nested c, struct fields d, struct doubles e)
{
	struct doubles r = { e.b, e.a };

	GOT(0, a); GOT(1, b); GOT(2, c); GOT(3, d); GOT(4, e); GAVE(r);
	return r;
}

NOINLINE __int128 wide(int i, __int128 a, struct alignas_ b, char c, struct one_x87 d, __int128 e, __int128 f, __int128 g)
{
	__int128 r = a + e;

	GOT(0, i); GOT(1, a); GOT(2, b); GOT(3, c); bytes(__func__, "4", &d, 10); GOT(5, e); GOT(6, f); GOT(7, g); GAVE(r);
	return r;
}

NOINLINE float _Complex complexes(float _Complex a, double _Complex b, long double _Complex c)
{
	float _Complex r = a * 2;

	GOT(0, a); GOT(1, b); bytes(__func__, "2", &c, 10); GAVE(r);
	return r;
}

NOINLINE long double x87(long double a)
{
	long double r = a + 1;

	bytes(__func__, "0", &a, 10);
	bytes(__func__, "return", &r, 10);
	return r;
}

NOINLINE double _Complex complex_double(int i)
{
	double _Complex r = i + 2.5 * I;

	GOT(0, i); GAVE(r);
	return r;
}

NOINLINE long double _Complex complex_x87(int i)
{
	long double _Complex r = i + 2.5L * I;

	GOT(0, i);
	bytes(__func__, "return", &r, 10);
	return r;
}

NOINLINE __m128 vectors(__m128 a, struct wrapped b, __m256 c, int i)
{
	GOT(0, a); GOT(1, b); GOT(2, c); GOT(3, i); GAVE(b.v);
	return b.v;
}

NOINLINE struct bytes3 variadic(const char *fmt, double d, ...)
{
	struct bytes3 r = { "xyz" };

	GOT(0, fmt); GOT(1, d); GAVE(r);
	return r;
}

NOINLINE struct small nothing(struct empty e, int i, struct floats f)
{
	struct small r = { i, f.z };

	GOT(1, i); GOT(2, f); GAVE(r);
	return r;
}

/* More pairs than registers: the one that does not fit goes to the stack as a whole, later ones may still fit. */
NOINLINE struct floats crowded(struct two a, struct two b, int i, struct two no, int j, struct mixed k)
{
	struct floats r = { i, j, k.d };

	GOT(0, a); GOT(1, b); GOT(2, i); GOT(3, no); GOT(4, j); GOT(5, k); GAVE(r);
	return r;
}

NOINLINE int pointers(transparent a, int b)
{
	GOT(0, a.i); GOT(1, b);
	return b;
}

/* Where registers run out, compilers have their own ways with a number of 16 bytes. */
NOINLINE int halves(long a, long b, long c, long d, long e, __int128 f, long g, long h)
{
	GOT(4, e); GOT(5, f); GOT(6, g); GOT(7, h);
	return a + b + c + d;
}

NOINLINE int behind(__int128 a, __int128 b, __int128 c, int d, __int128 e, int f, struct over g, int h)
{
	GOT(0, a); GOT(1, b); GOT(2, c); GOT(3, d); GOT(4, e); GOT(5, f);
	bytes(__func__, "6", &g.a, sizeof(g.a));
	GOT(7, h);
	return f;
}

NOINLINE tiny tinies(tiny a, float f, int i)
{
	GOT(0, a); GOT(1, f); GOT(2, i); GAVE(a);
	return a;
}

/* Only known callers: the compiler may hand over as it likes. */
static NOINLINE int local(int a, struct two *b, double c)
{
	GOT(0, a); GOT(1, b); GOT(2, c);
	return a + b->a + c;
}

int main(void)
{
	struct two two = { 0x1122334455667788, -3 };
	struct mixed mixed = { 1.5, 77 };
	struct nested nested = { { 5, "ab" }, 2.5, { 9, 1.25 } };
	struct alignas_ aligned = { 5, 6 };
	struct wrapped v = { _mm_set_ps(1, 2, 3, 4) };

	memset((char *)&aligned, 7, sizeof(aligned));
	ints(-1, 0xfedc, -123456, 1l << 40, &two, 1, 42, 'h');
	reals(1.5, -2.5, 7, 3.25L, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5);
	structs(two, mixed, (struct floats){ 1, 2, 3 }, (struct small){ 4, 5 }, (struct bytes3){ "abc" });
	in_memory((struct large){ { 1, 2, 3 } }, 4, (struct crooked){ 'c', 2.5 }, two, two, two, 99);
	unions((union either){ .l = 5 }, (union pieces){ .d = 2.25 }, nested, (struct fields){ 3, 4, 5.5 }, (struct doubles){ 1.25, 2 });
	wide(1, ((__int128)5 << 64) + 6, aligned, 'c', (struct one_x87){ 2.5L }, 7, ((__int128)1 << 100), 9);
	complexes(1 + 2 * I, 3 + 4 * I, 5 + 6 * I);
	x87(2.75L);
	complex_double(3);
	complex_x87(4);
	vectors(_mm_set1_ps(2.5), v, _mm256_set_ps(1, 2, 3, 4, 5, 6, 7, 8), 12);
	variadic("fmt", 2.5, 3, 4.5);
	nothing((struct empty){}, 3, (struct floats){ 7, 8, 9 });
	crowded(two, two, 1, two, 2, mixed);
	pointers((char *)"text", 5);
	halves(1, 2, 3, 4, 5, ((__int128)6 << 64) + 7, 8, 9);
	behind(1, 2, 3, 4, 5, 6, (struct over){ 7, 8.5 }, 9);
	tinies((tiny){ 1, 2, 3, 4 }, 5.5, 6);
	return local(1, &two, 2.5) == 12345;
}
