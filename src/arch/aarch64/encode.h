/* SPDX-License-Identifier: MIT */
/*
 * Instructions of aarch64 as words. Each function returns one; x, w, n, t... are numbers of registers. Number 31 is the stack
 * pointer as the base of a load or store and in add and sub, and the zero register elsewhere.
 */
#ifndef JAB_ARCH_AARCH64_ENCODE_H
#define JAB_ARCH_AARCH64_ENCODE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define A64_SP 31
#define A64_ZR 31
#define A64_LR 30
#define A64_NOP 0xd503201fu

/* Conditions of b.cond, cset and csel; the lowest bit inverts one. */
enum a64_cond { A64_EQ, A64_NE, A64_HS, A64_LO, A64_MI, A64_PL, A64_VS, A64_VC, A64_HI, A64_LS, A64_GE, A64_LT, A64_GT, A64_LE, A64_AL };

static inline uint32_t a64_movz(int x, uint16_t v, int shift16)
{
	return 0xd2800000u | (uint32_t)shift16 << 21 | (uint32_t)v << 5 | x;
}

static inline uint32_t a64_movk(int x, uint16_t v, int shift16)
{
	return 0xf2800000u | (uint32_t)shift16 << 21 | (uint32_t)v << 5 | x;
}

static inline uint32_t a64_mov(int x, int from)			/* mov x, from; neither is sp */
{
	return 0xaa0003e0u | (uint32_t)from << 16 | x;
}

static inline uint32_t a64_add_imm(int x, int n, uint32_t v)	/* add x, n, #v; v < 4096 */
{
	return 0x91000000u | (v & 0xfff) << 10 | (uint32_t)n << 5 | x;
}

static inline uint32_t a64_sub_imm(int x, int n, uint32_t v)
{
	return 0xd1000000u | (v & 0xfff) << 10 | (uint32_t)n << 5 | x;
}

/* 8 bytes at n + off, a multiple of 8 below 32768. */
static inline uint32_t a64_ldr(int x, int n, uint32_t off)
{
	return 0xf9400000u | (off / 8) << 10 | (uint32_t)n << 5 | x;
}

static inline uint32_t a64_str(int x, int n, uint32_t off)
{
	return 0xf9000000u | (off / 8) << 10 | (uint32_t)n << 5 | x;
}

/* 4 bytes at n + off, a multiple of 4 below 16384. */
static inline uint32_t a64_ldr32(int w, int n, uint32_t off)
{
	return 0xb9400000u | (off / 4) << 10 | (uint32_t)n << 5 | w;
}

static inline uint32_t a64_str32(int w, int n, uint32_t off)
{
	return 0xb9000000u | (off / 4) << 10 | (uint32_t)n << 5 | w;
}

/* Two registers at n + off, a multiple of 8 from -512 to 504. */
static inline uint32_t a64_pair(uint32_t op, int x, int y, int n, int off)
{
	return op | ((uint32_t)(off / 8) & 0x7f) << 15 | (uint32_t)y << 10 | (uint32_t)n << 5 | x;
}

#define a64_stp(x, y, n, off) a64_pair(0xa9000000u, x, y, n, off)
#define a64_ldp(x, y, n, off) a64_pair(0xa9400000u, x, y, n, off)
#define a64_stp_pre(x, y, n, off) a64_pair(0xa9800000u, x, y, n, off)	/* n += off first */
#define a64_ldp_post(x, y, n, off) a64_pair(0xa8c00000u, x, y, n, off)	/* n += off afterwards */

/* Exclusive and atomic ones, on 8 bytes. */
#define a64_ldxr(x, n) (0xc85f7c00u | (uint32_t)(n) << 5 | (x))
#define a64_ldaxr(x, n) (0xc85ffc00u | (uint32_t)(n) << 5 | (x))
#define a64_stxr(w, x, n) (0xc8007c00u | (uint32_t)(w) << 16 | (uint32_t)(n) << 5 | (x))
#define a64_stlxr(w, x, n) (0xc800fc00u | (uint32_t)(w) << 16 | (uint32_t)(n) << 5 | (x))
#define a64_stadd(x, n) (0xf820001fu | (uint32_t)(x) << 16 | (uint32_t)(n) << 5)
#define a64_ldar(x, n) (0xc8dffc00u | (uint32_t)(n) << 5 | (x))
#define a64_stlr(x, n) (0xc89ffc00u | (uint32_t)(n) << 5 | (x))
#define A64_CLREX 0xd5033f5fu

/* Branches by a distance in bytes. */
static inline uint32_t a64_b(int64_t distance)
{
	return 0x14000000u | ((uint32_t)(distance / 4) & 0x3ffffff);
}

static inline uint32_t a64_bl(int64_t distance)
{
	return 0x94000000u | ((uint32_t)(distance / 4) & 0x3ffffff);
}

static inline uint32_t a64_b_cond(int cond, int64_t distance)
{
	return 0x54000000u | ((uint32_t)(distance / 4) & 0x7ffff) << 5 | cond;
}

static inline uint32_t a64_cbz(int x, bool not, int64_t distance)
{
	return 0xb4000000u | (uint32_t)not << 24 | ((uint32_t)(distance / 4) & 0x7ffff) << 5 | x;
}

static inline uint32_t a64_cbz32(int w, bool not, int64_t distance)
{
	return 0x34000000u | (uint32_t)not << 24 | ((uint32_t)(distance / 4) & 0x7ffff) << 5 | w;
}

#define a64_br(x) (0xd61f0000u | (uint32_t)(x) << 5)
#define a64_blr(x) (0xd63f0000u | (uint32_t)(x) << 5)
#define a64_ret(x) (0xd65f0000u | (uint32_t)(x) << 5)
#define A64_SVC 0xd4000001u
#define A64_BRK 0xd4200000u

#define a64_mrs_nzcv(x) (0xd53b4200u | (x))
#define a64_msr_nzcv(x) (0xd51b4200u | (x))
#define a64_mrs_tpidr(x) (0xd53bd040u | (x))
#define a64_mrs_cntvct(x) (0xd53be040u | (x))
#define A64_ISB 0xd5033fdfu
#define A64_DMB_ISH 0xd5033bbfu

static inline void a64_put(uint8_t **p, uint32_t word)
{
	memcpy(*p, &word, sizeof(word));
	*p += sizeof(word);
}

#define A64_ADDRESS_LEN 16

/* x = v, in four instructions whatever v is. */
static inline void a64_put_address(uint8_t **p, int x, uint64_t v)
{
	a64_put(p, a64_movz(x, v, 0));
	for (int i = 1; i < 4; i++)
		a64_put(p, a64_movk(x, v >> 16 * i, i));
}

#endif
