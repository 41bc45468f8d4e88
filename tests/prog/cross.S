/* SPDX-License-Identifier: MIT */
/*
 * Functions that share their tails, as hand-written string functions do: a neighbour jumps into the
 * middle of another function, by a short and by a long branch, forwards and backwards.
 */
	.text
	.macro FN name:req
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro END name:req
	.size \name, .-\name
	.endm

	.p2align 4
FN before_short			/* a two-byte jump to cross_a+3 */
	lea 100(%rdi), %rax
	jmp 1f
END before_short
	.p2align 4
FN cross_a
	mov %rdi, %rax
1:	add $1, %rax
	add $2, %rax
	ret
END cross_a
	.p2align 4
FN after_short			/* a short one back to the same place */
	lea 200(%rdi), %rax
	jmp 1b
END after_short

	.p2align 12
FN far_away			/* a five-byte jump to cross_a+3 */
	lea 300(%rdi), %rax
	jmp 1b
END far_away

	.section .note.GNU-stack, "", @progbits
