/* SPDX-License-Identifier: MIT */
/*
 * Functions to be probed, alike but for their first instruction, because that one decides what a
 * kernel uprobe costs: a push is emulated, a nop of five bytes can be optimised, anything else is
 * single-stepped out of line. The references do the same work plus one known thing. They are
 * assembler so that no compiler changes what is compared.
 */
	.macro begin name
	.globl \name
	.type \name, @function
	.p2align 6
\name:
	.endm

	.macro end name
	.size \name, . - \name
	.endm

	.text

	begin work_push
	push %rbx
	mov %rdi, %rbx
	lea 3(%rbx,%rbx,4), %rax
	pop %rbx
	ret
	end work_push

	begin work_nop
	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00
	push %rbx
	mov %rdi, %rbx
	lea 3(%rbx,%rbx,4), %rax
	pop %rbx
	ret
	end work_nop

	begin work_step
	mov %rdi, %rax
	lea 3(%rax,%rax,4), %rax
	push %rbx
	pop %rbx
	ret
	end work_step

	begin work_other
	push %rbx
	mov %rdi, %rbx
	lea 5(%rbx,%rbx,8), %rax
	pop %rbx
	ret
	end work_other

	begin ref_rdtsc
	push %rbx
	mov %rdi, %rbx
	rdtsc
	lea 3(%rbx,%rbx,4), %rax
	pop %rbx
	ret
	end ref_rdtsc

	begin ref_lock
	push %rbx
	mov %rdi, %rbx
	lock incq counter(%rip)
	lea 3(%rbx,%rbx,4), %rax
	pop %rbx
	ret
	end ref_lock

	.bss
	.p2align 6
counter:
	.skip 64

	.section .note.GNU-stack, "", @progbits
