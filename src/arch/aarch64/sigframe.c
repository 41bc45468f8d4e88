/* SPDX-License-Identifier: MIT */
/*
 * Signal frames. At the stack pointer of a handler, and of rt_sigreturn, are
 *
 *	slot	offset	what
 *	0	0	siginfo
 *	16	128	uc_flags, uc_link, uc_stack { sp, flags, size }
 *	21	168	uc_sigmask, and room for larger ones
 *	38	304	fault address, x0 ... x30, sp, pc, pstate
 *	74	592	records of a word { magic, length } and their content, up to one of 0: fpsimd first, which is always there
 *
 * and on this word of fpsimd a frame is known. SVE registers have a record of their own; by the kernel's ABI a thread has none in use
 * after any system call. SME is not known here.
 */
#include "arch/aarch64/aarch64.h"

#include <string.h>

#include "arch/aarch64/encode.h"
#include "base/err.h"
#include "base/mem.h"

#define FPSIMD_MAGIC 0x46508001ull
#define FPSIMD_LEN 528ull
#define FPSIMD_MARK (FPSIMD_MAGIC | FPSIMD_LEN << 32)
#define FPSIMD_SET 2		/* NT_PRFPREG */
#define SVE_SET 0x405		/* NT_ARM_SVE */
#define SVE_IN_USE 1

#define CONTEXT_BYTES 592
#define SLOT_REGS 39
#define SLOT_SP 70
#define SLOT_PC 71
#define SLOT_FLAGS 72
#define SLOT_MARK 74

struct frame {
	uint8_t info[128];
	uint64_t flags, link;
	struct { uint64_t sp; uint32_t flags, pad; uint64_t size; } stack;
	uint64_t mask;
	uint8_t masks[128];
	uint64_t fault, regs[31], sp, pc, pstate, pad;
};

_Static_assert(sizeof(struct frame) == CONTEXT_BYTES && CONTEXT_BYTES <= CONTEXT_MOST, "layout of the kernel");
_Static_assert(offsetof(struct frame, regs) == 8 * SLOT_REGS && offsetof(struct frame, pstate) == 8 * SLOT_FLAGS, "likewise");

static void prepare(void)
{
}

struct fpsimd_set { uint8_t vectors[512]; uint32_t fpsr, fpcr, unused[2]; };
struct fpsimd_record { uint64_t mark; uint32_t fpsr, fpcr; uint8_t vectors[512]; uint64_t end[2]; };

_Static_assert(sizeof(struct fpsimd_set) == 528 && offsetof(struct fpsimd_record, end) == FPSIMD_LEN, "layout of the kernel");

static size_t take_vectors(uint8_t *set, size_t len)
{
	struct fpsimd_record r = { .mark = FPSIMD_MARK };
	struct fpsimd_set s;

	memcpy(&s, set, sizeof(s));
	r.fpsr = s.fpsr;
	r.fpcr = s.fpcr;
	memcpy(r.vectors, s.vectors, sizeof(r.vectors));
	memcpy(set, &r, sizeof(r));
	return sizeof(r);
}

/* A system call ends the use of SVE registers, and what is in them is lost. */
struct sve_head { uint32_t size, max_size; uint16_t vl, max_vl, flags, unused; };
struct sve_record { uint32_t magic, size; uint16_t vl, flags, unused[2]; };

#define SVE_MAGIC 0x53564501u
#define RECORDS_MOST 4096	/* bytes of all records in a frame */

static bool wide_in_use(const uint8_t *set, size_t len)
{
	struct sve_head head;

	if (len < sizeof(head))
		return false;
	memcpy(&head, set, sizeof(head));
	return head.flags & SVE_IN_USE;
}

/* z0 to z31, p0 to p15 and the first-fault register, in the same order in both. */
static size_t add_wide(uint8_t *vectors, size_t len, const uint8_t *set, size_t set_len)
{
	struct sve_record r = { .magic = SVE_MAGIC };
	struct sve_head head;
	size_t regs, at = FPSIMD_LEN;

	memcpy(&head, set, sizeof(head));
	regs = 32 * head.vl + 17 * (head.vl / 8);
	r.size = (sizeof(r) + regs + 15) & ~15u;
	r.vl = head.vl;
	if (at + r.size + 16 > RECORDS_MOST || sizeof(head) + regs > set_len)
		return 0;
	memcpy(vectors + at, &r, sizeof(r));
	memset(vectors + at + sizeof(r), 0, r.size - sizeof(r) + 16);
	memcpy(vectors + at + sizeof(r), set + sizeof(head), regs);
	return at + r.size + 16;
}

/* An impossible flag makes the kernel leave the alternate signal stack as it is. */
static void write_context(uint8_t *out, const struct thread_regs *regs, uint64_t mask, uint64_t vectors)
{
	struct frame f = {
		.stack.flags = 4, .mask = mask, .sp = regs->cpu.reg[A64_SP], .pc = regs->cpu.pc, .pstate = regs->cpu.flags,
	};

	memcpy(f.regs, regs->cpu.reg, sizeof(f.regs));
	memcpy(out, &f, sizeof(f));
}

/* What user code can have: NZCV, TCO, DIT, SSBS, BTYPE. Its exception level and the masks of interrupts are 0. */
#define FLAGS_POSSIBLE 0xf3001c00ull

static bool may_be(uint64_t at, const uint64_t *f)
{
	return (at & 15) == 0 && !(f[SLOT_FLAGS] & ~FLAGS_POSSIBLE);
}

static bool is_context(const uint64_t *pc)
{
	return !(pc[0] & 3) && !(pc[1] & ~FLAGS_POSSIBLE);
}

static bool is_marked(const uint64_t *f, const struct cpu_memory *m)
{
	return f[SLOT_MARK] == FPSIMD_MARK;
}

const struct signal_abi a64_signal_abi = {
	.vector_set = FPSIMD_SET,
	.vector_least = sizeof(struct fpsimd_set),
	.context_len = CONTEXT_BYTES,
	.sp = SLOT_SP, .pc = SLOT_PC, .flags = SLOT_FLAGS, .stack_sp = 18, .stack_flags = 19, .stack_size = 20, .vectors_at = SLOT_MARK,
	.nregs = 32,
	.reg = { 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68,
		 69, SLOT_SP },
	.mark = FPSIMD_MARK,
	.may_be = may_be,
	.is_marked = is_marked,
	.prepare = prepare,
	.wide_set = SVE_SET,
	.wide_in_use = wide_in_use,
	.add_wide = add_wide,
	.take_vectors = take_vectors,
	.write_context = write_context,
	.is_context = is_context,
};
