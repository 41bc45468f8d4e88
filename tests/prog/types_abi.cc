// SPDX-License-Identifier: MIT
// C++'s ways to hand over: references, classes by address, `this`, hidden results, member pointers.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#define NOINLINE __attribute__((noinline))

static void bytes(const char *func, const char *which, const void *p, size_t n)
{
	const unsigned char *b = (const unsigned char *)p;

	printf("%s|%s|", func, which);
	while (n--)
		printf("%02x", *b++);
	printf("\n");
}

#define GOT(f, n, x) bytes(f, #n, &(x), sizeof(x))
// a reference is a pointer
#define GOT_REF(f, n, x) do { auto *p_ = &(x); bytes(f, #n, &p_, sizeof(p_)); } while (0)
#define GAVE(f, x) bytes(f, "return", &(x), sizeof(x))

namespace geo {

struct Point { int x, y; };			// trivial: in registers
struct Guarded {				// has a destructor: by address
	long a;
	Guarded(long n) : a(n) {}
	Guarded(const Guarded &o) : a(o.a) {}
	~Guarded() { a = 0; }
};
struct Holder { Guarded inner; int n; };	// has one inside: by address, too
struct Base { int b; };
struct Derived : Base { float f; };		// in one register
struct Empty {};
struct Moved { int *p; Moved(int *q) : p(q) {} Moved(Moved &&o) : p(o.p) {} Moved(const Moved &) = delete; };
struct Fixed { long a; Fixed(long n) : a(n) {} Fixed(const Fixed &) = delete; Fixed(Fixed &&) = delete; };	// nobody may copy it
struct Defaulted { int v; Defaulted() = default; Defaulted(const Defaulted &) = default; ~Defaulted() = default; };

struct Selfish {				// copies by way of a typedef of itself, and is large
	typedef Selfish Self;
	long v[4];
	Selfish() = default;
	Selfish(const Self &o) { memcpy(v, o.v, sizeof(v)); }
};

class Shape {
public:
	virtual ~Shape() {}
	NOINLINE virtual double area(float scale, Point p);
	NOINLINE static int count(long n, Point p);
	int sides = 4;
};

double Shape::area(float scale, Point p)
{
	double r = sides * scale + p.x;
	const Shape *self = this;

	GOT("geo::Shape::area", 0, self); GOT("geo::Shape::area", 1, scale); GOT("geo::Shape::area", 2, p);
	GAVE("geo::Shape::area", r);
	return r;
}

int Shape::count(long n, Point p)
{
	int r = n + p.y;

	GOT("geo::Shape::count", 0, n); GOT("geo::Shape::count", 1, p); GAVE("geo::Shape::count", r);
	return r;
}

}

using namespace geo;

extern "C" {

NOINLINE int guarded(Guarded a, int i, Holder b, Point p)
{
	GOT("guarded", 0, a); GOT("guarded", 1, i);
	bytes("guarded", "2", &b, 12);
	GOT("guarded", 3, p);
	return i;
}

NOINLINE Point derived(Derived a, Empty e, Point p, Defaulted d)
{
	GOT("derived", 0, a); GOT("derived", 2, p); GOT("derived", 3, d); GAVE("derived", p);
	return p;
}

NOINLINE int references(int &a, const Guarded &b, Point &&c, std::nullptr_t n, int Point::*m)
{
	GOT_REF("references", 0, a); GOT_REF("references", 1, b); GOT_REF("references", 2, c); GOT("references", 4, m);
	return a;
}

NOINLINE int methods(int (Shape::*f)(int), long l)
{
	GOT("methods", 0, f); GOT("methods", 1, l);
	return l;
}

NOINLINE int moved(Moved m, int i)
{
	GOT("moved", 0, m); GOT("moved", 1, i);
	return i;
}

NOINLINE int selfish(Selfish s, int i)
{
	GOT("selfish", 0, s); GOT("selfish", 1, i);
	return i;
}

NOINLINE int shape(Shape s, int i)	// has a vtable: by address
{
	GOT("shape", 0, s); GOT("shape", 1, i);
	return i;
}

NOINLINE int strings(std::string s, std::string_view v, const std::string &r, int i)
{
	GOT("strings", 0, s); GOT("strings", 1, v); GOT_REF("strings", 2, r); GOT("strings", 3, i);
	return i;
}

// more addresses than registers: the address itself is on the stack
NOINLINE int crowded(long a, long b, long c, long d, long e, long f, Guarded g, std::string s)
{
	GOT("crowded", 5, f); GOT("crowded", 6, g); GOT("crowded", 7, s);
	return a + b + c + d + e;
}

}

NOINLINE Guarded make_guarded(long n, float f)
{
	long a = n * 2;

	GOT("make_guarded", 0, n); GOT("make_guarded", 1, f); GAVE("make_guarded", a);
	return Guarded(a);
}

NOINLINE Fixed make_fixed(long n)
{
	long a = n * 3;

	GOT("make_fixed", 0, n); GAVE("make_fixed", a);
	return Fixed(a);
}

NOINLINE std::vector<int> make_vector(int n)
{
	GOT("make_vector", 0, n);
	return std::vector<int>(n, n);
}

struct Made {
	long a, b;
	NOINLINE Made(long x, int y) : a(x), b(y)
	{
		Made *self = this;

		GOT("Made::Made", 0, self); GOT("Made::Made", 1, x); GOT("Made::Made", 2, y);
	}
};

static long free_function(int) { return 3; }

int main()
{
	int n = 7;
	Shape s;
	Made made(5, 6);
	Guarded g(42);

	guarded(g, 5, Holder{ Guarded(9), 3 }, { 1, 2 });
	Derived d;
	d.b = 3;
	d.f = 2.5;
	Defaulted df;
	df.v = 77;
	derived(d, Empty(), { 8, 9 }, df);
	references(n, g, Point{ 1, 2 }, nullptr, &Point::y);
	methods(nullptr, 8);
	moved(Moved(&n), 4);
	shape(s, 5);
	Selfish self;
	memset(self.v, 7, sizeof(self.v));
	selfish(self, 6);
	strings("a string that is long enough not to be kept in place", "view", "ref", 99);
	crowded(1, 2, 3, 4, 5, 6, g, "crowded");
	make_guarded(4, 2.5);
	make_vector(3);
	make_fixed(5);
	Shape::count(3, { 4, 5 });
	return s.area(1.5, { 6, 7 }) + made.a + free_function(2) < 0;
}
