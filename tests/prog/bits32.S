/* SPDX-License-Identifier: MIT */
/* A 32-bit program without a library: says "ready" and waits for the end of its input. */
	.globl _start
	.text
work:
	nop
	ret
_start:
	call work
	mov $4, %eax
	mov $1, %ebx
	mov $text, %ecx
	mov $6, %edx
	int $0x80
again:
	mov $3, %eax
	mov $0, %ebx
	mov $room, %ecx
	mov $1, %edx
	int $0x80
	test %eax, %eax
	jg again
	mov $1, %eax
	mov $0, %ebx
	int $0x80
	.data
text:	.ascii "ready\n"
room:	.byte 0
	.section .note.GNU-stack, "", @progbits
