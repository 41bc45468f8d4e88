/* SPDX-License-Identifier: MIT */
/* The frame around the pieces of regs.S: everything a program can see, loaded before and stored behind. */
	.text

/*
 * void regs_run(struct state *in, struct state *out, void *f): load everything from in, call f,
 * store everything to out. The layout is that of struct state in regs.c.
 */
	.globl regs_run
	.type regs_run, @function
	.p2align 4
regs_run:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, %fs:keep_rsp@tpoff
	mov %rsi, %fs:keep_out@tpoff
	mov %rdx, %fs:keep_fn@tpoff
	mov 64*8(%rdi), %rsp
	mov %rdi, %r15
	mov 17*8(%r15), %eax
	xor %edx, %edx
	xrstor64 1024(%r15)
	mov 16*8(%r15), %rax
	push %rax
	mov 0*8(%r15), %rax
	mov 1*8(%r15), %rcx
	mov 2*8(%r15), %rdx
	mov 3*8(%r15), %rbx
	mov 5*8(%r15), %rbp
	mov 6*8(%r15), %rsi
	mov 7*8(%r15), %rdi
	mov 8*8(%r15), %r8
	mov 9*8(%r15), %r9
	mov 10*8(%r15), %r10
	mov 11*8(%r15), %r11
	mov 12*8(%r15), %r12
	mov 13*8(%r15), %r13
	mov 14*8(%r15), %r14
	mov 15*8(%r15), %r15
	popfq
	call *%fs:keep_fn@tpoff
	xchg %r15, %fs:keep_out@tpoff
	mov %rax, 0*8(%r15)
	mov %rcx, 1*8(%r15)
	mov %rdx, 2*8(%r15)
	mov %rbx, 3*8(%r15)
	mov %rsp, 4*8(%r15)
	mov %rbp, 5*8(%r15)
	mov %rsi, 6*8(%r15)
	mov %rdi, 7*8(%r15)
	mov %r8, 8*8(%r15)
	mov %r9, 9*8(%r15)
	mov %r10, 10*8(%r15)
	mov %r11, 11*8(%r15)
	mov %r12, 12*8(%r15)
	mov %r13, 13*8(%r15)
	mov %r14, 14*8(%r15)
	mov %fs:keep_out@tpoff, %rcx
	mov %rcx, 15*8(%r15)
	pushfq
	pop %rcx
	mov %rcx, 16*8(%r15)
	mov 17*8(%r15), %eax
	xor %edx, %edx
	xsave64 1024(%r15)
	cld
	mov %fs:keep_rsp@tpoff, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
	.size regs_run, .-regs_run

	.section .tbss, "awT", @nobits
	.p2align 3
keep_rsp:	.zero 8
keep_out:	.zero 8
keep_fn:	.zero 8

	.section .note.GNU-stack, "", @progbits
