/* SPDX-License-Identifier: MIT */
/*
 * C++ values of many kinds, the same ones in each run. Each step() has its number as first argument, so
 * that a tracer and a debugger can be asked at the same moment.
 */
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define noinline __attribute__((noinline, noclone, noipa))

namespace shop {

enum class Colour : unsigned char { Red = 1, Green = 7, Blue = 200 };
enum Plain { NONE, SOME = 5, LESS = -4 };
enum Mask : uint64_t { BIT0 = 1, BIT63 = 1ull << 63 };

struct Bits {
	unsigned a : 3;
	signed b : 5;
	unsigned long c : 40;
	bool d : 1;
	Colour e : 8;
};

union Both {
	uint32_t word;
	uint8_t bytes[4];
	float real;
};

struct Base {
	int id = 0;
	static int made;
	static const long limit = 99;
	virtual ~Base() {}
	virtual int area() const { return id; }
};
int Base::made = 3;

struct Other {
	long weight = 0;
	const char *label = nullptr;
};

class Derived : public Base, public Other {
public:
	Colour colour = Colour::Red;
	Plain plain = NONE;
	Bits bits {};
	Both both {};
	int grid[2][3] {};
	std::string name;
	std::string_view view;
	std::vector<int> numbers;
	std::unique_ptr<int> owned;
	Derived *next = nullptr;
	const volatile short cv = -7;
	float f = 0;
	double d = 0;
	bool yes = true;
	char letter = 'x';
	unsigned char octet = 250;
	wchar_t wide = L'w';
	char32_t rune = U'\u20ac';
	struct { int x, y; } point {};
	int Derived::*member = nullptr;
	int (*callback)(int) = nullptr;
	Mask mask = BIT63;

	noinline int method(int k, const Derived &peer) const;
	noinline static long fixed(long k, Other *o);
	int area() const override { return point.x * point.y; }
};

template <typename T> struct Box { T value; Box<T> *next; };

noinline int Derived::method(int k, const Derived &peer) const
{
	int sum = k + id + peer.id;
	asm volatile("" : "+r"(sum) : : "memory");
	for (int i = 0; i < 3; i++)
		sum += grid[0][i];		// line: method
	asm volatile("" : "+r"(sum) : : "memory");
	return sum + static_cast<int>(numbers.size());
}

noinline long Derived::fixed(long k, Other *o)
{
	asm volatile("" : : "r"(o) : "memory");
	return o ? o->weight * k : -k;
}

static long counter = 40;
thread_local int per_thread = 11;
namespace { int hidden = 21; }

} // namespace shop

using namespace shop;

int table[5] = { 1, -2, 3, -4, 5 };
static const char *const words[] = { "zero", "one", "two" };
volatile int sink;

static inline __attribute__((always_inline)) int mixed(int base, const Derived *who, unsigned char small)
{
	int local = base * 3;
	asm volatile("" : "+r"(local), "+r"(small) : "r"(who), "r"(base) : "memory");
	sink = local;				// line: mixed
	return local + who->id + small;
}

extern "C" noinline int step(int n, Derived &d, const Derived *p, Box<double> box, const std::string &s,
			     std::string_view v, Colour c, Plain plain, float f, double g)
{
	long here = n * 1000L;
	Derived *walk = &d;
	int size = 0;
	asm volatile("" : "+r"(here) : "r"(p) : "memory");
	while (walk && size < 3) {
		size += 1;
		asm volatile("" : "+r"(size), "+r"(walk) : : "memory");
		walk = walk->next;		// line: walk
	}
	counter += n;
	per_thread += 2;
	hidden += n;
	size += mixed(n, p, 200 + n);
	sink = static_cast<int>(here) + size + static_cast<int>(s.size() + v.size()) + static_cast<int>(c) + plain +
	       static_cast<int>(f + g + box.value);	// line: end
	return size;
}

extern "C" noinline Other give(int n)
{
	Other o;
	o.weight = n * 7;
	o.label = words[n % 3];
	return o;
}

extern "C" noinline double ratio(int n, long double wide)
{
	asm volatile("" : : : "memory");
	return n / 4.0 + static_cast<double>(wide);
}

extern "C" noinline Colour paint(int n)
{
	asm volatile("" : "+r"(n));
	return n & 1 ? Colour::Green : Colour::Blue;
}

extern "C" noinline std::string text(int n)
{
	return std::string(static_cast<size_t>(n) * 9, 'a' + n);
}

extern "C" noinline bool truth(int n)
{
	asm volatile("" : "+r"(n));
	return n > 1;
}

static int twice(int x) { return 2 * x; }

int main()
{
	for (int n = 0; n < 4; n++) {
		Derived a, b;
		std::string longer = "a string that does not fit into the object itself " + std::to_string(n);
		Box<double> box { n + 0.25, nullptr };

		a.id = n;
		b.id = -n;
		a.weight = 1L << (40 + n);
		a.label = words[n % 3];
		a.colour = n & 1 ? Colour::Green : Colour::Blue;
		a.plain = n & 1 ? SOME : LESS;
		a.bits = Bits { 5, -3, 0xabcdef1234ull + n, true, Colour::Green };
		a.both.word = 0x3fc00000 + n;
		for (int i = 0; i < 6; i++)
			a.grid[i / 3][i % 3] = n * 10 - i;
		a.name = n & 1 ? longer : "short";
		a.view = std::string_view(longer).substr(2, 6);
		a.numbers.assign(n + 1, n * 11);
		a.owned = std::make_unique<int>(77 + n);
		a.next = &b;
		a.f = n + 0.5f;
		a.d = -n / 3.0;
		a.yes = n & 1;
		a.point = { n, n + 1 };
		a.member = nullptr;
		a.callback = twice;
		Base::made += n;
		step(n, a, &b, box, a.name, a.view, a.colour, a.plain, a.f, a.d);
		sink = a.method(n, b) + static_cast<int>(Derived::fixed(n, &a)) + static_cast<int>(give(n).weight);
		sink = static_cast<int>(ratio(n, n * 2.0L)) + static_cast<int>(paint(n)) + static_cast<int>(text(n).size()) + truth(n);
		sink += a.area() + table[n] + *words[n % 3];
	}
	return 0;
}
