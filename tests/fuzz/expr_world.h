/* SPDX-License-Identifier: MIT */
/*
 * What random expressions talk about: the parameters of a function, and the memory that they point to. The
 * fuzzer includes it, so that its own debug info has these types; so does the C text that it makes.
 */
#ifndef JAB_FUZZ_EXPR_WORLD_H
#define JAB_FUZZ_EXPR_WORLD_H

#include <stdint.h>

enum colour { RED, GREEN = 7, BLUE = -2 };
enum size { SMALL = 1, LARGE = 100000 };

struct inner { int16_t s; uint8_t u; signed char c; };

struct thing {
	int8_t i8;
	uint8_t u8;
	int16_t i16;
	uint16_t u16;
	int32_t i32;
	uint32_t u32;
	int64_t i64;
	uint64_t u64;
	float f;
	_Bool yes;
	char ch;
	uint16_t gap;
	double d;
	enum colour colour;
	enum size size;
	unsigned int b3 : 3;
	int s5 : 5;
	unsigned int b24 : 24;
	unsigned int b31 : 31;
	_Bool b1 : 1;
	int s32 : 32;
	unsigned int b32 : 32;
	uint64_t b40 : 40;
	uint64_t b1a : 1;
	int64_t s50 : 50;
	int64_t s64 : 64;
	uint16_t h9 : 9;
	int8_t c7 : 7;
	int arr[4];
	uint8_t bytes[8];
	struct inner in, ins[2];
	union { int64_t ul; double ud; uint32_t uw[2]; };
	struct { int odd : 9, even : 7; } __attribute__((packed)) bits;
	struct thing *next;
	int *ip;
	uint16_t *up;
	double *dp;
};

/* Six in general registers, two in vector registers, two on the stack. */
#define EXPR_PARAMS int8_t va, uint16_t vb, int32_t vc, uint64_t vd, struct thing *p, unsigned char *q, float x, double y, \
	int16_t sa, uint32_t sb

#endif
