/* SPDX-License-Identifier: MIT */
/*
 * A function for each way in which C returns a value. The program says of each what it got, its parts one behind the
 * other: function|part|part... Functions whose registers hold more than the value are written out.
 */
#include <complex.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define noinline __attribute__((noinline))
/* Room for a jump, too. */
#define keep(x) __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop" : "+r"(x) : : "memory")

enum mood { CALM, BUSY = 5, ANGRY = -3 };
enum __attribute__((packed)) tiny { NONE, MUCH = 200 };
enum big { SMALL_ONE = 1, BIG_ONE = 0x7fffffffffffffffl };
struct one { char c; };
struct three { unsigned char c[3]; };
struct ints { int a, b, c; };
struct longs { long a, b; };
struct floats { float a, b, c; };
struct doubles { double a, b; };
struct real_first { double d; long l; };
struct real_last { int i; float f; double d; };
struct bits { unsigned a : 5; int b : 11; unsigned long c : 40; };
struct large { long a, b, c; };
struct packed { char c; long l; } __attribute__((packed));
union either { double d; long l; };
struct nested { struct { short a; unsigned char b; } in; const char *s; };
struct x87 { long double v; };
struct mixed { int i; long double v; };
struct holds_complex { float _Complex c; };
struct empty {};
typedef float vector __attribute__((vector_size(8)));
typedef char bytes __attribute__((vector_size(4)));
typedef float wide __attribute__((vector_size(16)));
typedef float wider __attribute__((vector_size(32)));

static long numbers[2] = { 7, 8 };

/* All of rax is set, and only the type says how much of it counts. */
#define FULL(type, name, value) \
	noinline __attribute__((naked)) type name(int n) { __asm__("movabs $" value ", %rax; ret"); }
#define MAKE(type, name, ...) noinline type name(int n) { keep(n); return (type)__VA_ARGS__; }

FULL(bool, full_bool, "0x7777777777777701")
FULL(signed char, full_char, "0x77777777777777fe")
FULL(unsigned char, full_byte, "0x77777777777777fe")
FULL(short, full_short, "0x777777777777fffd")
FULL(unsigned short, full_word, "0x777777777777fffd")
FULL(int, full_int, "0x77777777fffffffc")
FULL(unsigned int, full_unsigned, "0x77777777fffffffc")
FULL(enum tiny, full_tiny, "0x77777777777777c8")
FULL(enum mood, full_mood, "0x77777777fffffffd")
FULL(struct one, full_one, "0x77777777777777fb")
MAKE(long, give_long, -(1l << 40) - n)
MAKE(unsigned long, give_unsigned, ~0ul - n)
MAKE(enum big, give_big, n ? SMALL_ONE : BIG_ONE)
MAKE(long *, give_pointer, &numbers[n])
MAKE(float, give_float, n + .25f)
MAKE(double, give_double, n + .125)
MAKE(struct three, give_three, { { n, 2, 255 } })
MAKE(struct ints, give_ints, { n, -2, 3 })
MAKE(struct longs, give_longs, { n, -(1l << 50) })
MAKE(struct floats, give_floats, { n + .5f, 1.5f, -2.5f })
MAKE(struct doubles, give_doubles, { n + .5, -1.5 })
MAKE(struct real_first, give_real_first, { n + .5, -7 })
MAKE(struct real_last, give_real_last, { -n, 1.5f, 2.5 })
MAKE(struct bits, give_bits, { n + 5, -3, 1l << 39 })
MAKE(struct large, give_large, { n, -2, 1l << 60 })
MAKE(struct packed, give_packed, { n, -9 })
MAKE(union either, give_either, { .d = n + 2.5 })
MAKE(struct nested, give_nested, { { -n, 200 }, (char *)&numbers[n] })
MAKE(vector, give_vector, { n + .5f, 2.5f })
MAKE(bytes, give_bytes, { n, -2, 3, 4 })
MAKE(struct mixed, give_mixed, { n + 3, 4 })

/* No register that a probe can read has these. */
MAKE(long double, odd_x87, n + 1)
MAKE(float _Complex, odd_complex, n + 2.5f * I)
MAKE(double _Complex, odd_complex_double, n + 2.5 * I)
MAKE(long double _Complex, odd_complex_x87, n + 2.5L * I)
MAKE(__int128, odd_wide, (__int128)n << 64 | 3)
MAKE(struct x87, odd_struct, { n })
MAKE(struct holds_complex, odd_inside, { n + 2.5f * I })
MAKE(struct empty, odd_empty, {})
MAKE(wide, odd_vector, { n, 1, 2, 3 })
#pragma GCC diagnostic ignored "-Wpsabi"
MAKE(wider, odd_wider, { n, 1, 2, 3, 4, 5, 6, 7 })

noinline void nothing(int n) { keep(n); }

#define SAY(name, format, ...) do { __auto_type v = name(n); printf(#name "|" format "\n", __VA_ARGS__); } while (0)

static void say_numbers(int n)
{
	SAY(full_bool, "%d", v);
	SAY(full_char, "%d", v);
	SAY(full_byte, "%d", v);
	SAY(full_short, "%d", v);
	SAY(full_word, "%d", v);
	SAY(full_int, "%d", v);
	SAY(full_unsigned, "%u", v);
	SAY(full_tiny, "%d", (int)v);
	SAY(full_mood, "%d", (int)v);
	SAY(give_long, "%ld", v);
	SAY(give_unsigned, "%lu", v);
	SAY(give_big, "%ld", (long)v);
	SAY(give_pointer, "%p", (void *)v);
	SAY(give_float, "%.9g", v);
	SAY(give_double, "%.17g", v);
}

static void say_objects(int n)
{
	SAY(full_one, "%d", v.c);
	SAY(give_three, "%d|%d|%d", v.c[0], v.c[1], v.c[2]);
	SAY(give_ints, "%d|%d|%d", v.a, v.b, v.c);
	SAY(give_longs, "%ld|%ld", v.a, v.b);
	SAY(give_floats, "%.9g|%.9g|%.9g", v.a, v.b, v.c);
	SAY(give_doubles, "%.17g|%.17g", v.a, v.b);
	SAY(give_real_first, "%.17g|%ld", v.d, v.l);
	SAY(give_real_last, "%d|%.9g|%.17g", v.i, v.f, v.d);
	SAY(give_bits, "%u|%d|%lu", v.a, v.b, (unsigned long)v.c);
	SAY(give_large, "%ld|%ld|%ld", v.a, v.b, v.c);
	SAY(give_packed, "%d|%ld", v.c, v.l);
	SAY(give_either, "%.17g|%ld", v.d, v.l);
	SAY(give_nested, "%d|%d|%p", v.in.a, v.in.b, (const void *)v.s);
	SAY(give_vector, "%.9g|%.9g", v[0], v[1]);
	SAY(give_bytes, "%d|%d|%d|%d", v[0], v[1], v[2], v[3]);
	SAY(give_mixed, "%d", v.i);
}

int main(void)
{
	for (int n = 0; n < 2; n++) {
		say_numbers(n);
		say_objects(n);
		odd_x87(n);
		odd_complex(n);
		odd_complex_double(n);
		odd_complex_x87(n);
		odd_wide(n);
		odd_struct(n);
		odd_inside(n);
		odd_empty(n);
		odd_vector(n);
		odd_wider(n);
		nothing(n);
	}
	return 0;
}
