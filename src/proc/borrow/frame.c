/* SPDX-License-Identifier: MIT */
/*
 * The emergency frame: a signal frame, as the kernel writes it to deliver a signal and rt_sigreturn reads it
 * to restore the thread. It holds the thread's registers, vector state and signal mask, so that a
 * borrowed thread restores itself if the tracer is dead.
 *
 * It is written below the thread's stack pointer and red zone, where the kernel would write a signal
 * frame: the thread has nothing there. From low to high addresses:
 *
 *   base   number of rt_sigreturn and   only when there is no restorer: for the code that pops both
 *          address of a system call     from the stack (struct gadget)
 *   uc     context                      the stack pointer at rt_sigreturn
 *   fp     vector registers             64-byte aligned
 *          scratch                      arguments of borrowed calls
 */
#include "arch/asm.h"
#include "proc/internal.h"

#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define CHAIN_LEN 64
#define BELOW 2048		/* for a signal handler, if the tracer dies and a signal comes while the thread restores itself */

/* Room needed between the red zone and the end of the stack. */
size_t frame_room(void)
{
	return arch_host()->assembler->red_zone + 64 + SCRATCH_LEN + VECTORS_MAX / 2 + arch_host()->signal->context_len + CHAIN_LEN + BELOW;
}

void frame_prepare(void)
{
	arch_host()->signal->prepare();
}

/* A copy of what system calls discard, for borrow_end(); 0 bytes: nothing is in use. */
static void take_wide(struct proc *p, pid_t tid, struct borrow *b)
{
	const struct signal_abi *s = p->arch->signal;
	struct iovec io;

	b->wide_len = 0;
	if (!s->wide_set)
		return;
	b->wide = xrealloc(b->wide, VECTORS_MAX);
	io = (struct iovec){ b->wide, VECTORS_MAX };
	if (ptrace(PTRACE_GETREGSET, tid, s->wide_set, &io) == 0 && s->wide_in_use(b->wide, io.iov_len))
		b->wide_len = io.iov_len;
}

/* The vector registers as a frame has them. Returns their length. */
static int take_vectors(struct proc *p, pid_t tid, struct borrow *b, uint8_t *buf)
{
	const struct signal_abi *s = p->arch->signal;
	struct iovec io = { buf, VECTORS_MAX - 64 };
	size_t len;

	if (ptrace(PTRACE_GETREGSET, tid, s->vector_set, &io) < 0 || io.iov_len < s->vector_least)
		return fail(-errno, "vector registers of thread %d: %s", tid, strerror(errno));
	len = s->take_vectors(buf, io.iov_len);
	take_wide(p, tid, b);
	if (b->wide_len)
		len = s->add_wide(buf, len, b->wide, b->wide_len);
	return len ? (int)len : fail(-ENOTSUP, "thread %d has vector registers in use that are too long for a signal frame of ours", tid);
}

/* Write the frame so that it ends at `top`, keeping the old bytes in b. */
int frame_write(struct proc *p, struct thread *t, uint64_t top, struct borrow *b)
{
	uint8_t image[CHAIN_LEN + CONTEXT_MOST + VECTORS_MAX + SCRATCH_LEN] = { 0 };
	const size_t context = p->arch->signal->context_len;
	uint64_t chain[2] = { SYS_rt_sigreturn, priv(p)->gadget.call };
	struct thread_regs regs = t->regs;
	int r, xlen = take_vectors(p, t->tid, b, image + CHAIN_LEN + context);

	if (xlen < 0)
		return xlen;
	b->len = CHAIN_LEN + context + ((xlen + 63) & ~63) + SCRATCH_LEN;
	b->at = (top - b->len) & ~63ull;
	b->scratch = b->at + b->len - SCRATCH_LEN;
	b->sp = b->at + CHAIN_LEN - (priv(p)->gadget.pop ? sizeof(chain) : 0);
	if (ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(b->mask), &b->mask) < 0)
		return fail(-errno, "signal mask of thread %d: %s", t->tid, strerror(errno));
	call_restart_regs(p, &regs);
	p->arch->signal->write_context(image + CHAIN_LEN, &regs, b->mask, b->at + CHAIN_LEN + context);
	memcpy(image + CHAIN_LEN - sizeof(chain), chain, sizeof(chain));
	b->old = xrealloc(b->old, b->len);
	r = proc_read(p, TADDR(b->at), b->old, b->len);
	if (r == 0)
		r = proc_write(p, TADDR(b->at), image, b->len);
	return r;
}
