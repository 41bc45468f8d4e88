/* SPDX-License-Identifier: MIT */
/* Signal frames: the context that rt_sigreturn reads, and the xsave image that belongs to it. */
#include "arch/x86/thread.h"
#include "arch/x86/x86.h"

#include <cpuid.h>
#include <elf.h>
#include <string.h>

#include "base/mem.h"

#define MAGIC1 0x46505853u	/* in the image at FX_SW_OFFSET, with the length; and at its end */
#define MAGIC2 0x46505845u
#define FX_SW_OFFSET 464	/* software bytes in the legacy part of an xsave image */
#define XSAVE_HEADER 512
#define XFEATURE_TILEDATA (1ull << 18)

struct frame_uc {
	uint64_t flags, link;
	struct { uint64_t sp; uint32_t flags, pad; uint64_t size; } stack;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
	uint64_t sigmask;
};

_Static_assert(sizeof(struct frame_uc) == 304, "layout of the kernel");
#define CONTEXT_LEN 320		/* a multiple of 64 */
_Static_assert(sizeof(struct frame_uc) <= CONTEXT_LEN && CONTEXT_LEN <= CONTEXT_MOST, "room for it");

struct fx_sw { uint32_t magic1, extended_size; uint64_t xfeatures; uint32_t xstate_size; };

/*
 * Where the parts of a standard-format image end. The CPU is asked once: in a virtual machine each question takes some
 * microseconds.
 */
static uint32_t part_end[64];

static void prepare(void)
{
	uint32_t a, b, c, d, low, high;

	if (part_end[0])
		return;
	__cpuid_count(0xd, 0, low, b, c, high);
	for (int i = 2; i < 63; i++) {
		if (!(((uint64_t)high << 32 | low) >> i & 1))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		if (a)
			part_end[i] = b + a;
	}
	part_end[0] = XSAVE_HEADER + 64;
}

/* Size of the image that holds these features. */
static uint32_t xstate_size(uint64_t features)
{
	uint32_t size;

	prepare();
	size = part_end[0];
	for (int i = 2; i < 63; i++)
		if (features >> i & 1)
			size = MAX(size, part_end[i]);
	return size;
}

/*
 * The image of ptrace becomes that of a signal frame by its magic words. Tile data, which only
 * threads with a permission may have, is left out unless it is there: its mere mention makes the
 * kernel ignore the rest. Returns the length with the last magic word.
 */
static size_t take_vectors(uint8_t *buf, size_t len)
{
	struct fx_sw sw = { .magic1 = MAGIC1 };
	uint64_t used;
	uint32_t end = MAGIC2;

	memcpy(&sw.xfeatures, buf + FX_SW_OFFSET, 8);
	memcpy(&used, buf + XSAVE_HEADER, 8);
	if (!(used & XFEATURE_TILEDATA))
		sw.xfeatures &= ~XFEATURE_TILEDATA;
	sw.xstate_size = MIN(xstate_size(sw.xfeatures), (uint32_t)len);
	sw.extended_size = sw.xstate_size + 4;
	memset(buf + FX_SW_OFFSET, 0, 48);
	memcpy(buf + FX_SW_OFFSET, &sw, 20);
	memcpy(buf + sw.xstate_size, &end, 4);
	return sw.xstate_size + 4;
}

/*
 * The alternate signal stack can't be seen from outside, and sigreturn sets what the frame says. An
 * impossible flag makes the kernel leave it as it is (it overlooks that error on purpose).
 */
static void write_context(uint8_t *out, const struct thread_regs *regs, uint64_t mask, uint64_t fp)
{
	const uint64_t *r = regs->cpu.reg;
	struct frame_uc u = {
		.flags = 1 | 2 | 4,	/* xstate, ss is saved, restore it strictly */
		.stack.flags = 4,
		.r8 = r[R8], .r9 = r[R9], .r10 = r[R10], .r11 = r[R11],
		.r12 = r[R12], .r13 = r[R13], .r14 = r[R14], .r15 = r[R15],
		.di = r[RDI], .si = r[RSI], .bp = r[RBP], .bx = r[RBX],
		.dx = r[RDX], .ax = r[RAX], .cx = r[RCX], .sp = r[RSP],
		.ip = regs->cpu.pc, .eflags = regs->cpu.flags, .cs = regs->rest[REST_CS], .ss = regs->rest[REST_SS],
		.oldmask = mask, .fpstate = fp, .sigmask = mask,
	};

	memcpy(out, &u, sizeof(u));
}

/*
 *	slot	offset	what
 *	0	0	restorer
 *	1	8	uc_flags, uc_link, uc_stack { sp, flags, size }
 *	6	48	r8 .. r15, rdi, rsi, rbp, rbx, rdx, rax, rcx
 *	21	168	rsp
 *	22	176	rip
 *	23	184	eflags
 *	24	192	cs, gs, fs, ss
 *	29	232	pointer to the xsave image, which is above
 */
#define FRAME_CS 24
#define FRAME_FPU 29
#define USER_CS 0x33
#define FLAGS_ALWAYS 0x202ull	/* set in user code: the fixed bit, interrupts enabled */
#define FLAGS_MOST (1ull << 22)

static bool may_be(uint64_t at, const uint64_t *f)
{
	return (at & 15) == 8 && (f[FRAME_CS] & 0xffff) == USER_CS;
}

static bool is_context(const uint64_t *pc)
{
	uint64_t flags = pc[1];

	return (flags & FLAGS_ALWAYS) == FLAGS_ALWAYS && flags < FLAGS_MOST && (pc[2] & 0xffff) == USER_CS;
}

static bool has_xsave(void)
{
	static int known;		/* 1: no, 2: yes */
	uint32_t r[4];

	if (!known)
		known = 1 + (__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) && r[2] >> 27 & 1);
	return known == 2;
}

static bool is_marked(const uint64_t *f, const struct cpu_memory *m)
{
	uint32_t sw[2], end;

	if (!has_xsave())
		return true;
	if (m->read(m->arg, f[FRAME_FPU] + FX_SW_OFFSET, sw, sizeof(sw)) < 0 || sw[0] != MAGIC1 ||
	    sw[1] < XSAVE_HEADER + 64 + 4 || sw[1] > FRAME_MOST)
		return false;
	return m->read(m->arg, f[FRAME_FPU] + sw[1] - 4, &end, sizeof(end)) == 0 && end == MAGIC2;
}

const struct signal_abi x86_signal_abi = {
	.vector_set = NT_X86_XSTATE,
	.vector_least = XSAVE_HEADER + 64,
	.context_len = CONTEXT_LEN,
	.sp = 21, .pc = 22, .flags = 23, .stack_sp = 3, .stack_flags = 4, .stack_size = 5, .vectors_at = FRAME_FPU,
	.nregs = 16, .reg = { 19, 20, 18, 17, 21, 16, 15, 14, 6, 7, 8, 9, 10, 11, 12, 13 },
	.to_vectors = 456,
	.to_own_vectors = 8 + CONTEXT_LEN,
	.may_be = may_be,
	.is_marked = is_marked,
	.prepare = prepare,
	.take_vectors = take_vectors,
	.write_context = write_context,
	.is_context = is_context,
};
