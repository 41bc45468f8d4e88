// SPDX-License-Identifier: MIT
// What C++ returns otherwise than C: by reference, by address, with bases. Says function|part|part...
#include <cstdio>
#include <string>
#include <string_view>

#define KEEP(x) __asm__ volatile("" : "+r"(x) : : "memory")
#define noinline extern "C" __attribute__((noinline))

struct Plain { int a, b; };
struct Copied { int a; Copied(int n) : a(n) {} Copied(const Copied &o) : a(o.a) {} };
struct Ended { int a; ~Ended() { KEEP(a); } };
struct Fixed { int a; Fixed(int n) : a(n) {} Fixed(const Fixed &) = delete; Fixed(Fixed &&) = delete; };
struct Moved { int a; Moved(int n) : a(n) {} Moved(Moved &&) = default; Moved(const Moved &) = delete; };
struct Base { int b; };
struct Derived : Base { float f; };
struct Shared : virtual Base { int c; };
struct Methods { virtual int method() { return 1; } int a = 0; };

static int numbers[2] = { 11, 12 };
static Plain plains[2] = { { 1, -2 }, { 3, -4 } };

#pragma GCC diagnostic ignored "-Wreturn-type"
#define MAKE(type, name, value) noinline type name(int n) { KEEP(n); return value; }

MAKE(int &, ref_number, numbers[n])
MAKE(const Plain &, ref_plain, plains[n])
MAKE(Copied, make_copied, Copied(n + 5))
MAKE(Ended, make_ended, Ended{ n + 6 })
MAKE(Fixed, make_fixed, Fixed(n + 7))
MAKE(Moved, make_moved, Moved(n + 8))
MAKE(std::string, make_string, n ? "short" : "a string that is too long to be kept in place")
MAKE(std::string_view, make_view, n ? "one" : "another")
MAKE(int Plain::*, make_member, &Plain::b)
MAKE(auto, odd_method, &Methods::method)

noinline Derived make_derived(int n)
{
	Derived d;

	KEEP(n);
	d.b = n + 9;
	d.f = n + .5f;
	return d;
}

noinline Shared make_shared(int n)
{
	Shared s;

	KEEP(n);
	s.b = n + 10;
	s.c = n + 11;
	return s;
}

int main()
{
	for (int n = 0; n < 2; n++) {
		int Plain::*member = make_member(n);
		Derived d = make_derived(n);
		const Plain &p = ref_plain(n);
		long offset;

		__builtin_memcpy(&offset, &member, sizeof(offset));
		printf("ref_number|%d\nref_plain|%d|%d\n", ref_number(n), p.a, p.b);
		printf("make_copied|%d\nmake_ended|%d\n", make_copied(n).a, make_ended(n).a);
		printf("make_fixed|%d\nmake_moved|%d\n", make_fixed(n).a, make_moved(n).a);
		printf("make_string|%s\nmake_view|%s\n", make_string(n).c_str(), make_view(n).data());
		printf("make_derived|%d|%g\nmake_member|%ld\nmake_shared|%d\n", d.b, d.f, offset, make_shared(n).c);
		odd_method(n);
	}
}
