/* SPDX-License-Identifier: MIT */
/*
 * System calls in text: `syscall` instructions whose number is loaded by an instruction before them, and the other instructions
 * that give a thread another thread pointer.
 */
#include "arch/x86/x86.h"

#include <emmintrin.h>
#include <string.h>
#include <sys/syscall.h>

static const uint8_t mov_rax[] = { 0x48, 0xc7, 0xc0 };	/* mov $imm32,%rax */
static const uint8_t mov_eax[] = { 0xb8 };		/* mov $imm32,%eax */

/*
 * glibc's syscall(), which makes any call: the sixth argument is loaded last of all. And musl's clone(): behind the load
 * of the fourth one only the new stack is made ready. Both loads have five bytes.
 */
static const uint8_t any_call[] = { 0x4c, 0x8b, 0x4c, 0x24, 0x08 };	/* mov 8(%rsp),%r9 */
static const uint8_t musl_clone[] = { 0x4c, 0x8b, 0x54, 0x24, 0x08,	/* mov 8(%rsp),%r10 */
				      0x4d, 0x89, 0xd9,			/* mov %r11,%r9 */
				      0x48, 0x83, 0xe6, 0xf0,		/* and $-16,%rsi */
				      0x48, 0x83, 0xee, 0x08,		/* sub $8,%rsi */
				      0x48, 0x89, 0x0e };		/* mov %rcx,(%rsi) */
#define LOAD_LEN 5

static bool is_mov(const uint8_t *bytes, size_t at, const uint8_t *op, size_t len)
{
	return at >= len + 4 && memcmp(bytes + at - len - 4, op, len) == 0;
}

static bool look_for(const uint8_t *bytes, size_t at, const uint8_t *form, size_t len)
{
	return at >= len && memcmp(bytes + at - len, form, len) == 0;
}

/*
 * Other instructions may stand between the number of arch_prctl and the call, first of all those that load its arguments. If they
 * lead there in a straight line, the load of the number is an instruction.
 */
#define FAR 24

static bool leads_to(const uint8_t *bytes, size_t from, size_t to)
{
	struct insn insn;

	for (; from < to; from += insn.len)
		if (x86_decode(bytes + from, to + 2 - from, from, &insn) < 0 || (insn.kind != INSN_PLAIN && insn.kind != INSN_NOP))
			return false;
	return from == to;
}

static void look_far(const uint8_t *bytes, size_t at, call_found found, void *arg)
{
	static const uint8_t load[] = { 0xb8, SYS_arch_prctl, 0, 0, 0 }, wide[] = { 0x48, 0xc7, 0xc0, SYS_arch_prctl, 0, 0, 0 };

	for (size_t back = sizeof(load) + 1; back <= FAR && back <= at; back++) {
		const uint8_t *p = bytes + at - back;
		bool prefix = back < at && p[-1] >> 4 == 4;	/* it may load another register */

		if (!memcmp(p, load, sizeof(load)))
			found(arg, at - back, !prefix && leads_to(bytes, at - back, at) ? sizeof(load) : 0, FAR_ARCH_PRCTL);
		else if (back > sizeof(wide) && !memcmp(p, wide, sizeof(wide)))
			found(arg, at - back, 0, FAR_ARCH_PRCTL);
	}
}

/*
 * Whether these bytes may be an instruction, and not a part of another one: somebody who begins to decode at one of the
 * addresses before them comes to them. Wherever one begins, after a few instructions all are at the same ones.
 */
#define SURELY 96		/* bytes before them at which to begin, */
#define STARTS 16		/* and how many addresses there: an instruction begins at one of them */

static bool comes_to(const uint8_t *bytes, size_t n, size_t from, size_t to)
{
	struct insn insn;

	while (from < to)
		from += x86_decode(bytes + from, n - from, from, &insn) < 0 ? 1 : insn.len;
	return from == to;
}

/* The kernel goes on behind a call: before the next branch all must be instructions. Data beside code mostly are none. */
static bool goes_on(const uint8_t *bytes, size_t n, size_t at)
{
	struct insn insn = { .kind = INSN_PLAIN };

	for (at += 2; at + INSN_MAX <= n && (insn.kind == INSN_PLAIN || insn.kind == INSN_NOP); at += insn.len)
		if (x86_decode(bytes + at, n - at, at, &insn) < 0)
			return false;
	return true;
}

static bool is_insn(const uint8_t *bytes, size_t n, size_t at)
{
	size_t first = at > SURELY ? at - SURELY : 0;

	if (!goes_on(bytes, n, at))
		return false;
	for (size_t from = first; from < first + STARTS && from < at; from++)
		if (comes_to(bytes, n, from, at))
			return true;
	return !at;
}

/* A `syscall` stands at `at`: which number is put into rax right before it? */
static void look_before(const uint8_t *bytes, size_t n, size_t at, call_found found, void *arg)
{
	size_t len = is_mov(bytes, at, mov_rax, sizeof(mov_rax)) ? 7 : is_mov(bytes, at, mov_eax, sizeof(mov_eax)) ? 5 : 0;
	uint32_t nr;

	if (len) {
		memcpy(&nr, bytes + at - 4, sizeof(nr));
		found(arg, at - len, len, nr);
	} else if (look_for(bytes, at, any_call, sizeof(any_call))) {
		found(arg, at - sizeof(any_call), LOAD_LEN, ANY_CALL);
	} else if (look_for(bytes, at, musl_clone, sizeof(musl_clone))) {
		found(arg, at - sizeof(musl_clone), LOAD_LEN, SYS_clone);
	} else {
		look_far(bytes, at, found, arg);
		if (is_insn(bytes, n, at))
			found(arg, at, 0, OPEN_CALL);
	}
}

/*
 * wrfsbase, which gives a thread another thread pointer without asking the kernel: f3, mostly a REX prefix, 0f ae, and a
 * register. `at` is that of the 0f.
 */
static void look_around(const uint8_t *bytes, size_t n, size_t at, call_found found, void *arg)
{
	size_t rex = at && bytes[at - 1] >> 4 == 4;

	if (at + 3 <= n && at > rex && bytes[at - 1 - rex] == 0xf3 && bytes[at + 2] >> 3 == 0xd0 >> 3)
		found(arg, at, 0, FAR_ARCH_PRCTL);
}

static void look(const uint8_t *bytes, size_t n, size_t at, call_found found, void *arg)
{
	if (bytes[at + 1] == 0x05)
		look_before(bytes, n, at, found, arg);
	else
		look_around(bytes, n, at, found, arg);
}

/* Two bytes that are rare side by side, looked for sixteen at a time. */
void x86_find_calls(const uint8_t *bytes, size_t n, call_found found, void *arg)
{
	const __m128i first = _mm_set1_epi8(0x0f), call = _mm_set1_epi8(0x05), base = _mm_set1_epi8((char)0xae);
	size_t i = 0;

	for (; i + 17 <= n; i += 16) {
		__m128i a = _mm_loadu_si128((const __m128i *)(bytes + i));
		__m128i b = _mm_loadu_si128((const __m128i *)(bytes + i + 1));
		int hits = _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first),
							   _mm_or_si128(_mm_cmpeq_epi8(b, call), _mm_cmpeq_epi8(b, base))));

		for (; hits; hits &= hits - 1)
			look(bytes, n, i + __builtin_ctz(hits), found, arg);
	}
	for (; i + 2 <= n; i++)
		if (bytes[i] == 0x0f && (bytes[i + 1] == 0x05 || bytes[i + 1] == 0xae))
			look(bytes, n, i, found, arg);
}
