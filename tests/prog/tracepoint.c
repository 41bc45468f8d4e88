/* SPDX-License-Identifier: MIT */
/* Every kind of field; compiled as C and as C++. Without FREESTANDING a program that calls all N times and prints a sum. */
#include "tracepoint.h"

#ifdef __cplusplus
#define PUBLIC extern "C" __attribute__((noinline))
#else
#define PUBLIC __attribute__((noinline))
#endif

long sum;
static int files_own = 7;

PUBLIC int integers(int i)
{
	signed char s8 = (signed char)(-i - 1);
	unsigned char u8 = (unsigned char)(200 + i);
	short s16 = (short)(-1000 - i);
	unsigned short u16 = (unsigned short)(60000 + i);
	unsigned u32 = 4000000000u + (unsigned)i;
	long s64 = -5000000000000l - i;
	unsigned long long u64 = 0xfffffffffffffff0ull + (unsigned)i;
#ifdef __cplusplus
	bool yes = i & 1;
#else
	_Bool yes = i & 1;
#endif
	JAB_TRACEPOINT(every, integers, ("s8", s8), ("u8", u8), ("s16", s16), ("u16", u16), ("s32", i), ("u32", u32), ("s64", s64), ("u64", u64),
		("yes", yes), ("constant", -5), ("large", 0x123456789abcll), ("own", files_own));
	return i;
}

PUBLIC int others(int i, const char *text, const void *pointer, struct line *line)
{
	char chars[16] = "inside ";
	int numbers[4] = { 1, -2, 3, i };
	float f = (float)i + 0.5f;
	double d = i * 1.25;
	enum color color = i ? GREEN : BLUE;
	chars[7] = (char)('0' + i);
	JAB_TRACEPOINT(every, others, ("f", f), ("d", d), ("text", text), ("pointer", pointer), ("chars", chars), ("numbers", numbers),
		("some", numbers, i & 3), ("color", color, JAB_ENUM(color)), ("line", *line, JAB_STRUCT(line)), ("from", line->from.x));
	return numbers[3] + chars[7];
}

PUBLIC int nothing(int i)
{
	JAB_TRACEPOINT(every, nothing);
	return from_header(i);
}

PUBLIC int guarded(int i)
{
	if (JAB_TRACEPOINT_ENABLED(every, guarded)) {
		int costly = i * 3;
		sum += 1000000;
		JAB_TRACEPOINT(every, guarded, ("costly", costly));
	}
	return i;
}

int second_file(int i);

#ifdef __cplusplus
enum class Mood : unsigned char { Calm, Cross };
JAB_TRACEPOINT_ENUM(Mood, Mood::Calm, Mood::Cross);
template<class T> struct Box {
	T value;
	Mood mood = Mood::Cross;
	int open(const T &other) const
	{
		JAB_TRACEPOINT(every, opened, ("value", value), ("other", other), ("mood", mood, JAB_ENUM(Mood)));
		return (int)other;
	}
};
template<class T> __attribute__((noinline)) int unbox(T x) { return Box<T>{ x }.open((T)(x + 1)); }
#endif

#ifndef FREESTANDING
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 3;
	struct line line = { { 1, 2.5, "a", GREEN }, { -3, 4.5, "b", RED }, "line", { 7, 8, 9 } };
	for (int i = 0; i < n; i++) {
		sum += integers(i) + others(i, "outside", &line, &line) + nothing(i) + guarded(i) + second_file(i);
#ifdef __cplusplus
		sum += unbox(i);
#endif
		if (argc > 2)
			usleep((unsigned)atoi(argv[2]));
	}
	printf("sum %ld\n", sum);
	return 0;
}
#endif
