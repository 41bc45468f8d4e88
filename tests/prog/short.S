/* SPDX-License-Identifier: MIT */
/*
 * Functions of one to four bytes: packed without filler, and then each followed by filler.
 * short_main.c calls each one N times.
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
FN packed_1		/* one byte, and the next function begins at once */
	ret
END packed_1
FN packed_2
	nop
	ret
END packed_2
FN packed_3
	xor %eax, %eax
	ret
END packed_3
FN packed_4
	or $-1, %eax
	ret
END packed_4
FN packed_1b
	ret
END packed_1b
FN packed_jump		/* two bytes: a short tail jump */
	jmp packed_4
END packed_jump
FN packed_3b
	mov %edi, %eax
	ret
END packed_3b
FN packed_5		/* the first that fits by itself */
	lea 7(%rdi), %rax
	ret
END packed_5

	.p2align 4
FN loose_1
	ret
END loose_1
	.p2align 4
FN loose_2
	push $3
	pop %rax
	ret
END loose_2
	.p2align 4
FN loose_3
	xor %eax, %eax
	ret
END loose_3
	.p2align 4
FN loose_4
	or $-1, %eax
	ret
END loose_4
	.p2align 4

	.section .note.GNU-stack, "", @progbits
