/* SPDX-License-Identifier: MIT */
/*
 * The sites of regs.c. Each piece of code exists twice, byte for byte: site_NAME, which a test
 * probes, and ref_NAME, which it leaves alone. Both are run from the same state (every register,
 * the flags, the vector and x87 state, the red zone, the stack) and must leave the same one.
 * A piece that would show its own address takes the address of its beginning off.
 */
	.text

/* One copy of every piece, with the prefix in front of its name. */
	.macro FN prefix:req, name:req
	.globl \prefix\()_\name
	.type \prefix\()_\name, @function
\prefix\()_\name:
	.endm
	.macro END prefix:req, name:req
	.size \prefix\()_\name, .-\prefix\()_\name
	.endm

	.macro PIECES p:req

	/* Windows of whole instructions, in all mixtures of lengths. */
	.p2align 4
FN \p, len5
	mov $0x12345678, %eax
	ret
END \p, len5
	.p2align 4
FN \p, len_1_4
	push %rbx
	lea 8(%rcx), %rbx
	pop %rbx
	ret
END \p, len_1_4
	.p2align 4
FN \p, len_2_3
	mov %eax, %ecx
	add %rsi, %rdx
	ret
END \p, len_2_3
	.p2align 4
FN \p, len_3_2
	mov %r8, %r9
	xchg %eax, %ecx
	ret
END \p, len_3_2
	.p2align 4
FN \p, len_11111
	push %rax
	push %rcx
	push %rdx
	pop %rdx
	pop %rcx
	pop %rax
	ret
END \p, len_11111
	.p2align 4
FN \p, len10
	movabs $0x1122334455667788, %r10
	ret
END \p, len10
	.p2align 4
FN \p, len15
	.byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	inc %rdx
	ret
END \p, len15
	.p2align 4
FN \p, nop5
	.byte 0x0f, 0x1f, 0x44, 0, 0
	sbb %rax, %rcx
	ret
END \p, nop5
	.p2align 4
FN \p, endbr
	endbr64
	adc %rcx, %rdx
	setc %al
	ret
END \p, endbr
	.p2align 4
FN \p, endbr_push
	endbr64
	push %rbp
	mov %rsp, %rbp
	mov %rbp, %rax
	pop %rbp
	ret
END \p, endbr_push

	/* Functions that are shorter than a jump. */
	.p2align 4
FN \p, slack1
	ret
END \p, slack1
	.p2align 4
FN \p, slack3
	inc %eax
	ret
END \p, slack3
	.p2align 4
FN \p, packed1
	ret
END \p, packed1
FN \p, packed3
	xor %ecx, %ecx
	ret
END \p, packed3
FN \p, packed4
	adc $-1, %eax
	ret
END \p, packed4
FN \p, packed_last
	lea 3(%rsi, %rdi), %r11
	ret
END \p, packed_last

	/* Flags: read right behind the site, or carried across the whole piece. */
	.p2align 4
FN \p, flags_adc
	adc %rax, %rbx
	sbb %rcx, %rdx
	ret
END \p, flags_adc
	.p2align 4
FN \p, flags_set
	seto %al
	setp %cl
	sets %dl
	setz %bl
	setc %sil
	ret
END \p, flags_set
	.p2align 4
FN \p, flags_lahf
	lahf
	mov %rax, %rdx
	sahf
	cmovo %rax, %rcx
	ret
END \p, flags_lahf
	.p2align 4
FN \p, flags_pushf
	pushfq
	pop %rax
	and $0xcd5, %eax
	ret
END \p, flags_pushf
	.p2align 4
FN \p, flags_df
	std
	mov %rax, %rcx
	cld
	mov %rcx, %rdx
	ret
END \p, flags_df
	.p2align 4
FN \p, flags_incdec		/* leaves the carry flag alone */
	inc %rax
	dec %rcx
	rcl $1, %rdx
	rcr $3, %rsi
	ret
END \p, flags_incdec
	.p2align 4
FN \p, flags_none		/* nothing here touches a flag */
	mov %rax, %rcx
	lea 1(%rax), %rdx
	not %rsi
	ret
END \p, flags_none

	/* Addresses relative to the program counter. */
	.p2align 4
FN \p, rip_load
	mov regs_data(%rip), %rax
	add regs_data+8(%rip), %rcx
	ret
END \p, rip_load
	.p2align 4
FN \p, rip_lea
	lea regs_data(%rip), %rax
	lea regs_data+4096(%rip), %rdx
	ret
END \p, rip_lea
	.p2align 4
FN \p, rip_store
	mov %rax, regs_scratch(%rip)
	mov regs_scratch(%rip), %r15
	ret
END \p, rip_store
	.p2align 4
FN \p, rip_imm8			/* an immediate behind the displacement */
	cmpb $0x41, regs_data(%rip)
	setb %al
	ret
END \p, rip_imm8
	.p2align 4
FN \p, rip_imm32
	imul $0x1001, regs_data+16(%rip), %rax
	testl $0x8421, regs_data(%rip)
	ret
END \p, rip_imm32
	.p2align 4
FN \p, rip_vector
	movdqu regs_data(%rip), %xmm3
	paddd regs_data+16(%rip), %xmm4
	ret
END \p, rip_vector
	.p2align 4
FN \p, rip_lock
	lock xadd %rax, regs_scratch(%rip)
	mov %rax, regs_scratch(%rip)
	ret
END \p, rip_lock
	.p2align 4
FN \p, thread_pointer
	mov %fs:0, %rax
	cmp %fs:0, %rax
	mov $0, %eax
	ret
END \p, thread_pointer

	/* Branches inside the window, and into it. */
	.p2align 4
FN \p, jcc_short
	jc 1f
	inc %rax
1:	jo 2f
	inc %rcx
2:	ret
END \p, jcc_short
	.p2align 4
FN \p, jcc_near
	{disp32} js 1f
	add $5, %rax
1:	{disp32} jp 2f
	add $6, %rcx
2:	ret
END \p, jcc_near
	.p2align 4
FN \p, jrcxz
	jrcxz 1f
	mov $1, %eax
1:	jecxz 2f
	mov $2, %edx
2:	xor %ecx, %ecx
	jrcxz 3f
	mov $3, %esi
3:	ret
END \p, jrcxz
	.p2align 4
FN \p, loops
	mov $5, %ecx
1:	inc %eax
	loop 1b
	mov $4, %ecx
2:	dec %rdx
	loopne 2b
	mov $3, %ecx
3:	cmp %ecx, %ecx
	loope 3b
	ret
END \p, loops
	.p2align 4
FN \p, inner_target		/* a loop back into the second byte of the first window */
	push %rcx
1:	add $3, %al
	jnc 1b
	pop %rcx
	ret
END \p, inner_target
	.p2align 4
FN \p, entry_target		/* a loop back to the entry itself */
	dec %ax
	jns \p\()_entry_target
	ret
END \p, entry_target
	.p2align 4
FN \p, lock_skip		/* a jump over a lock prefix, into an instruction */
	test $1, %al
	je 1f
	lock
1:	xadd %rdx, -8(%rsp)
	ret
END \p, lock_skip
	.p2align 4
FN \p, jump_table
	and $3, %eax
	lea 9f(%rip), %rdx
	movslq (%rdx, %rax, 4), %rcx
	add %rdx, %rcx
	sub %rdx, %rdx
	jmp *%rcx
1:	mov $11, %eax
	jmp 5f
2:	mov $22, %eax
	jmp 5f
3:	mov $33, %eax
4:	inc %eax
5:	xor %ecx, %ecx
	ret
	.section .rodata
	.p2align 2
9:	.long 1b - 9b, 2b - 9b, 3b - 9b, 4b - 9b
	.text
END \p, jump_table
	.p2align 4
FN \p, jmp_short
	jmp 1f
	ud2
1:	inc %rax
	ret
END \p, jmp_short
	.p2align 4
FN \p, many_exits
	test $1, %al
	jz 1f
	ret
1:	test $2, %al
	jnz 2f
	inc %rcx
	ret
2:	test $4, %al
	jnz 3f
	xor %eax, %eax
	ret
3:	add $4, %rsi
	rep ret
END \p, many_exits
	.p2align 4
FN \p, tail_jmp
	inc %rax
	jmp regs_tail
END \p, tail_jmp
	.p2align 4
FN \p, tail_jcc
	test $1, %al
	jnz regs_tail
	dec %rcx
	ret
END \p, tail_jcc
	.p2align 4
FN \p, tail_indirect
	lea regs_tail(%rip), %r11
	jmp *%r11
END \p, tail_indirect
	.p2align 4
FN \p, tail_memory
	jmp *regs_tail_ptr(%rip)
END \p, tail_memory

	/* Calls: what is pushed must be the address behind the call as the program knows it. */
	.p2align 4
FN \p, call_first
	call regs_callee
	sub $\p\()_call_first - regs_zero, %rax
	movq $0, -8(%rsp)
	ret
END \p, call_first
	.p2align 4
FN \p, call_second
	mov %edi, %edi
	call regs_callee
	sub $\p\()_call_second - regs_zero, %rax
	movq $0, -8(%rsp)
	ret
END \p, call_second
	.p2align 4
FN \p, call_memory
	call *regs_callee_ptr(%rip)
	sub $\p\()_call_memory - regs_zero, %rax
	movq $0, -8(%rsp)
	ret
END \p, call_memory
	.p2align 4
FN \p, call_reg
	lea regs_callee(%rip), %rdx
	call *%rdx
	sub $\p\()_call_reg - regs_zero, %rax
	movq $0, -8(%rsp)
	ret
END \p, call_reg
	.p2align 4
FN \p, call_next		/* the old way to ask for the program counter */
	call 1f
1:	pop %rax
	lea regs_zero(%rip), %rcx
	sub %rcx, %rax
	sub $\p\()_call_next - regs_zero, %rax
	xor %ecx, %ecx
	movq $0, -8(%rsp)
	ret
END \p, call_next

	/* The stack and the red zone. */
	.p2align 4
FN \p, red_write
	mov %rax, -8(%rsp)
	mov %rcx, -16(%rsp)
	mov %rdx, -128(%rsp)
	mov -64(%rsp), %rsi
	ret
END \p, red_write
	.p2align 4
FN \p, red_read
	mov -8(%rsp), %rax
	add -128(%rsp), %rax
	xor -120(%rsp), %rcx
	ret
END \p, red_read
	.p2align 4
FN \p, frame
	push %rbp
	mov %rsp, %rbp
	sub $0x20, %rsp
	mov %rax, -0x10(%rbp)
	leave
	ret
END \p, frame
	.p2align 4
FN \p, enter
	enter $16, $0
	mov %rbp, %rax
	leave
	ret
END \p, enter
	.p2align 4
FN \p, rsp_read
	mov %rsp, %rax
	lea -128(%rsp), %rcx
	ret
END \p, rsp_read
	.p2align 4
FN \p, pop_mem
	push %rax
	pop -16(%rsp)
	mov -8(%rsp), %rcx
	ret
END \p, pop_mem
	.p2align 4
FN \p, ret_imm			/* never above its frame: what a pop leaves behind is nobody's */
	push (%rsp)
	movq $0, 8(%rsp)
	ret $8
END \p, ret_imm

	/* Vector and x87 state. */
	.p2align 4
FN \p, sse
	pxor %xmm0, %xmm1
	paddq %xmm2, %xmm3
	pshufd $0x1b, %xmm4, %xmm5
	movq %rax, %xmm6
	ret
END \p, sse
	.p2align 4
FN \p, x87
	fxch %st(1)
	fxch %st(3)
	fnstsw %ax
	ret
END \p, x87
	.p2align 4
FN \p, mxcsr
	stmxcsr -8(%rsp)
	mov -8(%rsp), %eax
	fnstcw -16(%rsp)
	mov -16(%rsp), %cx
	ret
END \p, mxcsr
	.p2align 4
FN \p, string
	lea -64(%rsp), %rdi
	lea 16(%rsp), %rsi
	mov $24, %ecx
	cld
	rep movsb
	ret
END \p, string

	/* A system call at the site, behind it, and as the end of a window. */
	.p2align 4
FN \p, syscall
	mov $39, %eax
	syscall
	sub regs_pid(%rip), %rax
	mov $0, %ecx
	mov $0, %r11d
	ret
END \p, syscall
	.p2align 4
FN \p, syscall_short
	push $39
	pop %rax
	syscall
	xor %ecx, %ecx
	xor %r11d, %r11d
	xor %eax, %eax
	ret
END \p, syscall_short
	.endm

	.macro AVX_PIECES p:req
	.p2align 4
FN \p, avx
	vpaddd %ymm0, %ymm1, %ymm2
	vpxor regs_data(%rip), %ymm3, %ymm4
	vextracti128 $1, %ymm5, %xmm6
	ret
END \p, avx
	.endm

	.macro AVX512_PIECES p:req
	.p2align 4
FN \p, avx512
	vpaddq %zmm17, %zmm18, %zmm19
	vpaddd regs_data(%rip), %zmm20, %zmm21{%k1}
	kmovw %k2, %eax
	ret
END \p, avx512
	.endm

	/* The anchor of the pieces' addresses: differences to it are the same in both copies. */
	.globl regs_zero
regs_zero:
	.p2align 4
	.type regs_tail, @function
regs_tail:
	add $17, %rbx
	ret
	.size regs_tail, .-regs_tail
	.p2align 4
	/* Returns where it was called from, seen from regs_zero. */
	.type regs_callee, @function
regs_callee:
	mov (%rsp), %rax
	lea regs_zero(%rip), %rdx
	sub %rdx, %rax
	ret
	.size regs_callee, .-regs_callee

	PIECES ref
	AVX_PIECES ref
	AVX512_PIECES ref
	.p2align 8
	PIECES site
	AVX_PIECES site
	AVX512_PIECES site
	.p2align 8

	.section .data.rel, "aw"
	.p2align 3
regs_tail_ptr:		.quad regs_tail
regs_callee_ptr:	.quad regs_callee

	.data
	.p2align 6
	.globl regs_data, regs_scratch, regs_pid
regs_data:
	.quad 0x4142434445464748, 0x0102030405060708, 0x1111222233334444, 0x8877665544332211
	.quad 0xfedcba9876543210, 0x0f1e2d3c4b5a6978, 0x5555aaaa3333cccc, 0x123456789abcdef0
	.zero 4160
regs_scratch:	.quad 0
regs_pid:	.quad 0

	.section .note.GNU-stack, "", @progbits
