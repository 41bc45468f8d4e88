/* SPDX-License-Identifier: MIT */
/*
 * N small functions f10000, f10001, ..., each different, in four shapes that compilers make: with a
 * frame, a leaf with a branch, a loop, and one that calls its neighbour. An assembler macro makes
 * 50,000 of them in a second where a compiler takes a minute. `many_table` lists them.
 */
	.altmacro

	.macro frame n
	push %rbp
	mov %rsp, %rbp
	push %rbx
	lea \n(%rdi), %rbx
	imul $(2 * \n + 1), %rbx, %rax
	pop %rbx
	pop %rbp
	ret
	.endm

	.macro branch n
	lea -\n(%rdi), %rax
	cmp $\n, %rdi
	jb 1f
	xor $\n, %rax
	ret
1:	add $(3 * \n), %rax
	ret
	.endm

	.macro loop n
	mov $(\n % 7 + 1), %ecx
	xor %eax, %eax
1:	lea \n(%rax,%rdi,2), %rax
	dec %ecx
	jnz 1b
	ret
	.endm

	.macro caller n
	sub $8, %rsp
	test %rdi, %rdi
	je 1f
	lea \n(%rdi), %rdi
	call leaf
	add $8, %rsp
	ret
1:	mov $\n, %eax
	add $8, %rsp
	ret
	.endm

	.macro one n
	.globl f\n
	.type f\n, @function
	.p2align 4
f\n:
	.if (\n % 4) == 0
	frame \n
	.elseif (\n % 4) == 1
	branch \n
	.elseif (\n % 4) == 2
	loop \n
	.else
	caller \n
	.endif
	.size f\n, . - f\n
	.pushsection .data.rel.ro, "aw", @progbits
	.quad f\n
	.popsection
	.endm

	.section .data.rel.ro, "aw", @progbits
	.globl many_table
	.p2align 3
many_table:

	.text
	.type leaf, @function
	.p2align 4
leaf:	lea 7(%rdi,%rdi,2), %rax
	ret
	.size leaf, . - leaf

	.set i, 10000
	.rept N
	one %i
	.set i, i + 1
	.endr

	.section .data.rel.ro
	.globl many_end
many_end:

	.section .note.GNU-stack, "", @progbits
