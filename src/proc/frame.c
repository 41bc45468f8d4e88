/* SPDX-License-Identifier: MIT */
/*
 * The emergency frame: what the kernel writes when it delivers a signal, and what rt_sigreturn reads
 * to put everything back. It holds the thread's registers, vector state and signal mask, so that a
 * borrowed thread finds its own way back when we are dead.
 *
 * It is laid below the thread's stack pointer and its red zone, where a signal frame would be
 * laid: nothing there belongs to anybody. From low to high addresses:
 *
 *   base   15, address of `syscall`     only when there is no restorer: for `pop %rax; ret`
 *   uc     ucontext                     rsp at rt_sigreturn
 *   fp     xsave image                  64-byte aligned
 *          scratch                      arguments of borrowed calls
 */
#include "proc/internal.h"

#include <cpuid.h>
#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define XSTATE_MAX 16384
#define MAGIC1 0x46505853u
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

struct fx_sw { uint32_t magic1, extended_size; uint64_t xfeatures; uint32_t xstate_size; };

#define CHAIN_LEN 64
#define UC_LEN 320		/* a multiple of 64 */
#define BELOW 2048		/* for a handler, should a signal come while the thread returns alone */

/* Room needed between the red zone and the end of the stack. */
size_t frame_room(void)
{
	return 128 + 64 + SCRATCH_LEN + XSTATE_MAX / 2 + UC_LEN + CHAIN_LEN + BELOW;
}

/*
 * Where the parts of a standard-format image end. The CPU is asked once, before anything is stopped:
 * in a virtual machine each question takes some microseconds.
 */
static uint32_t part_end[64];

void frame_prepare(void)
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

	frame_prepare();
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
static int take_xstate(pid_t tid, uint8_t *buf)
{
	struct iovec io = { buf, XSTATE_MAX - 64 };
	struct fx_sw sw = { .magic1 = MAGIC1 };
	uint64_t used;
	uint32_t end = MAGIC2;

	if (ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &io) < 0 || io.iov_len < XSAVE_HEADER + 64)
		return fail(-errno, "vector registers of thread %d: %s", tid, strerror(errno));
	memcpy(&sw.xfeatures, buf + FX_SW_OFFSET, 8);
	memcpy(&used, buf + XSAVE_HEADER, 8);
	if (!(used & XFEATURE_TILEDATA))
		sw.xfeatures &= ~XFEATURE_TILEDATA;
	sw.xstate_size = MIN(xstate_size(sw.xfeatures), (uint32_t)io.iov_len);
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
static void fill_uc(struct frame_uc *u, const struct user_regs_struct *r, uint64_t mask, uint64_t fp)
{
	*u = (struct frame_uc){
		.flags = 1 | 2 | 4,	/* xstate, ss is saved, restore it strictly */
		.stack.flags = 4,
		.r8 = r->r8, .r9 = r->r9, .r10 = r->r10, .r11 = r->r11,
		.r12 = r->r12, .r13 = r->r13, .r14 = r->r14, .r15 = r->r15,
		.di = r->rdi, .si = r->rsi, .bp = r->rbp, .bx = r->rbx,
		.dx = r->rdx, .ax = r->rax, .cx = r->rcx, .sp = r->rsp,
		.ip = r->rip, .eflags = r->eflags, .cs = r->cs, .ss = r->ss,
		.oldmask = mask, .fpstate = fp, .sigmask = mask,
	};
}

/* Write the frame so that it ends at `top`, keeping the old bytes in b. */
int frame_write(struct proc *p, struct thread *t, uint64_t top, struct borrow *b)
{
	uint8_t image[CHAIN_LEN + UC_LEN + XSTATE_MAX + SCRATCH_LEN] = { 0 };
	uint64_t chain[2] = { 15, priv(p)->gadget.call };
	struct user_regs_struct regs = t->regs;
	int r, xlen = take_xstate(t->tid, image + CHAIN_LEN + UC_LEN);
	struct frame_uc uc;

	if (xlen < 0)
		return xlen;
	b->len = CHAIN_LEN + UC_LEN + ((xlen + 63) & ~63) + SCRATCH_LEN;
	b->at = (top - b->len) & ~63ull;
	b->scratch = b->at + b->len - SCRATCH_LEN;
	b->sp = b->at + CHAIN_LEN - (priv(p)->gadget.pop ? sizeof(chain) : 0);
	if (ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(b->mask), &b->mask) < 0)
		return fail(-errno, "signal mask of thread %d: %s", t->tid, strerror(errno));
	call_restart_regs(p, &regs);
	fill_uc(&uc, &regs, b->mask, b->at + CHAIN_LEN + UC_LEN);
	memcpy(image + CHAIN_LEN - sizeof(chain), chain, sizeof(chain));
	memcpy(image + CHAIN_LEN, &uc, sizeof(uc));
	b->old = xrealloc(b->old, b->len);
	r = proc_read(p, TADDR(b->at), b->old, b->len);
	if (r == 0)
		r = proc_write(p, TADDR(b->at), image, b->len);
	return r;
}
