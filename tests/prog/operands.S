/* SPDX-License-Identifier: MIT */
/*
 * Static tracepoints with an operand of each form, by notes of our own making: every register has a known value, and
 * so has every byte of the table that operands in memory lead to. operands(n) goes through all of them n times.
 */
	.macro note place, name, args
	.pushsection .note.stapsdt, "", "note"
	.balign 4
	.4byte 992f - 991f, 994f - 993f, 3
991:	.asciz "stapsdt"
992:	.balign 4
993:	.8byte \place, _.stapsdt.base, 0
	.asciz "forms"
	.asciz "\name"
	.asciz "\args"
994:	.balign 4
	.popsection
	.endm

	.macro site name, args
990:	nop
	note 990b, \name, "\args"
	.endm

	.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
	.weak _.stapsdt.base
	.hidden _.stapsdt.base
_.stapsdt.base:
	.space 1
	.size _.stapsdt.base, 1

	.data
	.balign 8
	.globl table
	.type table, @object
table:
	.set i, 0
	.rept 64
	.byte (0x81 + 7 * i) & 0xff
	.set i, i + 1
	.endr
	.size table, 64
	.type floats, @object
floats:
	.double -2.5, 1e100
	.float 0.25, -8
	.size floats, 24

	.section .tdata, "awT", @progbits
	.globl own
	.type own, @object
own:	.4byte -77, 78
	.size own, 8

	.macro set reg, number
	movabs $(0xf1e2d3c4b5a69780 + \number), %\reg
	.endm

	.text
	.globl operands
	.type operands, @function
operands:
	.cfi_startproc
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	push %rdi
again:
	set rax, 0
	set rcx, 1
	set rdx, 2
	set rbx, 3
	set rbp, 5
	set rsi, 6
	set rdi, 7
	set r8, 8
	set r9, 9
	set r10, 10
	set r11, 11
	set r12, 12
	set r13, 13
	set r14, 14
	set r15, 15
	movsd floats(%rip), %xmm0
	movsd floats+8(%rip), %xmm7
	movss floats+16(%rip), %xmm8
	movss floats+20(%rip), %xmm15
	site rax, "8@%rax -8@%rax 4@%eax -4@%eax 2@%ax -2@%ax 1@%al -1@%al 1@%ah -1@%ah"
	site rbx, "8@%rbx -8@%rbx 4@%ebx -4@%ebx 2@%bx -2@%bx 1@%bl -1@%bl 1@%bh -1@%bh"
	site rcx, "8@%rcx -8@%rcx 4@%ecx -4@%ecx 2@%cx -2@%cx 1@%cl -1@%cl 1@%ch -1@%ch"
	site rdx, "8@%rdx -8@%rdx 4@%edx -4@%edx 2@%dx -2@%dx 1@%dl -1@%dl 1@%dh -1@%dh"
	site rsi, "8@%rsi -8@%rsi 4@%esi -4@%esi 2@%si -2@%si 1@%sil -1@%sil"
	site rdi, "8@%rdi -8@%rdi 4@%edi -4@%edi 2@%di -2@%di 1@%dil -1@%dil"
	site rbp, "8@%rbp -8@%rbp 4@%ebp -4@%ebp 2@%bp -2@%bp 1@%bpl -1@%bpl"
	site r8, "8@%r8 -8@%r8 4@%r8d -4@%r8d 2@%r8w -2@%r8w 1@%r8b -1@%r8b"
	site r9, "8@%r9 -8@%r9 4@%r9d -4@%r9d 2@%r9w -2@%r9w 1@%r9b -1@%r9b"
	site r10, "8@%r10 -8@%r10 4@%r10d -4@%r10d 2@%r10w -2@%r10w 1@%r10b -1@%r10b"
	site r11, "8@%r11 -8@%r11 4@%r11d -4@%r11d 2@%r11w -2@%r11w 1@%r11b -1@%r11b"
	site r12, "8@%r12 -8@%r12 4@%r12d -4@%r12d 2@%r12w -2@%r12w 1@%r12b -1@%r12b"
	site r13, "8@%r13 -8@%r13 4@%r13d -4@%r13d 2@%r13w -2@%r13w 1@%r13b -1@%r13b"
	site r14, "8@%r14 -8@%r14 4@%r14d -4@%r14d 2@%r14w -2@%r14w 1@%r14b -1@%r14b"
	site r15, "8@%r15 -8@%r15 4@%r15d -4@%r15d 2@%r15w -2@%r15w 1@%r15b -1@%r15b"
	/* the size counts, not the name of the register */
	site widths, "8@%eax 4@%rax -2@%rax 1@%ax -4@%al %rax"
	site constants, "-4@$-5 4@$5 8@$0x1234567890abcdef 1@$255 -1@$-1 2@$65535 -8@$-9223372036854775808 4@$010 1@$0"
	site vectors, "8f@%xmm0 -8f@%xmm7 4f@%xmm8 -4f@%xmm15 8@%xmm0"
	lea table(%rip), %rbp
	mov $2, %ecx
	mov $-1, %r9
	site memory, "8@(%rbp) -4@4(%rbp) 2@0x10(%rbp) 1@-1(%rbp,%rcx) -8@-8(%rbp,%rcx,8) 4@8(%rbp,%r9,4) 1@(%rbp,%rcx,2) 8@(,%rbp,1)"
	site symbols, "8@table(%rip) -4@table+8(%rip) 2@table+16-2(%rip) 1@-3+table+4(%rip) 8f@floats(%rip) -4f@floats+20(%rip)"
	site thread_local, "-4@%fs:own@tpoff 4@%fs:own@tpoff+4"
	sub $16, %rsp
	movabs $0x8899aabbccddeeff, %rax
	mov %rax, (%rsp)
	site stack, "8@(%rsp) -4@4(%rsp) 2@6(%rsp)"
	add $16, %rsp
	site nothing, ""
990:	nop			/* the forms of nops that are as long as a jump */
	.byte 0x0f, 0x1f, 0x44, 0, 0
	note 990b, "pair", "-4@$1"
990:	.byte 0x0f, 0x1f, 0x44, 0, 0
	note 990b, "nop5", "-4@$2"
990:	.byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	note 990b, "nop10", "-4@$3"
	site unread, "4@%eax 8@%st 4@123(%rip) 16f@(%rsp) 4@missing(%rip) 8@%gs:4 8@(%ecx) 4@x@GOTPCREL(%rip) 3@%eax @ 4@ 8@$ 4@%xmm99 -1@%cl"
	decq (%rsp)
	jnz again
	pop %rdi
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	.cfi_endproc
	.size operands, . - operands
	.section .note.GNU-stack, "", @progbits
