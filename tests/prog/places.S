/* SPDX-License-Identifier: MIT */
/*
 * Variables that are nowhere but in expressions of the debug info, written by hand: every operation and
 * every kind of place that compilers use, on registers that hold known numbers at `here`.
 */
	.text
	.globl main, spot, here
	.type main, @function
	.type spot, @function
main:
	sub	$8, %rsp
	call	spot
	xor	%eax, %eax
	add	$8, %rsp
	ret
	.size main, . - main
spot:
.Lspot:
	push	%rbx
	push	%r12
	push	%r13
	movabs	$0x1122334455667788, %rax
	movq	%rax, %xmm1
	movabs	$0x4004000000000000, %r12	/* 2.5 */
	movabs	$0xfeedfeed3fc00000, %r13	/* 1.5f, and more above it */
	mov	$-10, %rax
	mov	$3, %rbx
	mov	$100, %rcx
	movabs	$0xffffffff00000007, %rdx
	movabs	$0x8000000000000000, %rsi
	mov	$63, %edi
	mov	$64, %r8d
	mov	$70, %r9d
	xor	%r10d, %r10d
	lea	numbers(%rip), %r11
	nop
here:
	nop
	nop
	nop
	nop
	nop
	pop	%r13
	pop	%r12
	pop	%rbx
	ret
.Lend:
	.size spot, . - spot

	.data
	.balign 8
numbers:
	.quad	0x1122334495667788, -5

	.macro abbrev number, tag, children
	.uleb128 \number, \tag
	.byte	\children
	.endm
	.macro text name
	.asciz	"\name"
	.endm
	.section .debug_abbrev, "", @progbits
	abbrev	1, 0x11, 1			/* compile unit */
	.uleb128 0x03, 0x08, 0x13, 0x0b, 0x11, 0x01, 0x12, 0x07, 0, 0
	abbrev	2, 0x24, 0			/* base type */
	.uleb128 0x03, 0x08, 0x0b, 0x0b, 0x3e, 0x0b, 0, 0
	abbrev	3, 0x2e, 1			/* function */
	.uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0x3f, 0x19, 0, 0
	abbrev	4, 0x34, 0			/* variable */
	.uleb128 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0
	.byte	0

	.section .debug_info, "", @progbits
.Lunit:
	.long	.Lunit_end - .Lunit_start
.Lunit_start:
	.short	5
	.byte	1, 8
	.long	0
	.uleb128 1
	text	places.S
	.byte	0x1d				/* C11 */
	.quad	.Lspot
	.quad	.Lend - .Lspot
.Lint:	.uleb128 2
	text	int
	.byte	4, 5
.Lunsigned: .uleb128 2
	text	"unsigned int"
	.byte	4, 7
.Llong:	.uleb128 2
	text	long
	.byte	8, 5
.Lulong: .uleb128 2
	text	"unsigned long"
	.byte	8, 7
.Lchar:	.uleb128 2
	text	"signed char"
	.byte	1, 6
.Lbool:	.uleb128 2
	text	_Bool
	.byte	1, 2
.Lfloat: .uleb128 2
	text	float
	.byte	4, 4
.Ldouble: .uleb128 2
	text	double
	.byte	8, 4
	.uleb128 3
	text	spot
	.quad	.Lspot
	.quad	.Lend - .Lspot

	.macro op bytes:vararg
	.byte	\bytes
	.endm
	.macro typed code, type			/* convert and reinterpret */
	.byte	\code
	.uleb128 \type - .Lunit
	.endm
	.macro of_reg reg, type
	.byte	0xa5, \reg
	.uleb128 \type - .Lunit
	.endm
	/* name, type, then what stands between: expr NAME, TYPE; ...; done NAME */
	.macro expr name, type
	.uleb128 4
	.asciz	"\name"
	.long	\type - .Lunit
	.uleb128 .Lto_\name - .Lfrom_\name
.Lfrom_\name:
	.endm
	.macro done name
	.byte	0x9f				/* stack value */
.Lto_\name:
	.endm

	/* The same for a place */
	.macro at name, type
	expr	\name, \type
	.endm
	.macro end name
.Lto_\name:
	.endm

#define CONVERT 0xa8
#define PIECE(n) 0x93, n
#define IN_RAX 0x50
#define IN_RCX 0x52
#define IN_RBX 0x53
#define IN_R12 0x5c
#define IN_R13 0x5d
#define IN_XMM1 0x62
#define PLAIN 0xa8, 0
#define RAX 0x70, 0
#define RDX 0x71, 0
#define RCX 0x72, 0
#define RBX 0x73, 0
#define RSI 0x74, 0
#define RDI 0x75, 0
#define R8 0x78, 0
#define R9 0x79, 0
#define R10 0x7a, 0
#define R11 0x7b, 0

	expr	plain_div, .Llong
	op	RAX, RBX, 0x1b
	done	plain_div
	expr	plain_mod, .Llong
	op	RAX, RCX, 0x1d
	done	plain_mod
	expr	plain_less, .Lint
	op	RSI, RBX, 0x2d
	done	plain_less
	expr	typed_div, .Lulong
	op	RAX
	typed	CONVERT, .Lulong
	op	RBX
	typed	CONVERT, .Lulong
	op	0x1b, PLAIN
	done	typed_div
	expr	typed_mod, .Lulong
	op	RAX
	typed	CONVERT, .Lulong
	op	RCX
	typed	CONVERT, .Lulong
	op	0x1d, PLAIN
	done	typed_mod
	expr	typed_less, .Lint
	op	RSI
	typed	CONVERT, .Lulong
	op	RBX
	typed	CONVERT, .Lulong
	op	0x2d
	done	typed_less
	expr	typed_more, .Lint
	op	RSI
	typed	CONVERT, .Lulong
	op	RBX
	typed	CONVERT, .Lulong
	op	0x2b
	done	typed_more
	expr	narrow_less, .Lint
	of_reg	0, .Lint
	of_reg	3, .Lint
	op	0x2d
	done	narrow_less
	expr	narrow_div, .Lunsigned
	of_reg	1, .Lunsigned
	op	0x32
	typed	CONVERT, .Lunsigned
	op	0x1b, PLAIN
	done	narrow_div
	expr	narrow_big_div, .Lunsigned
	of_reg	0, .Lunsigned
	op	0x33
	typed	CONVERT, .Lunsigned
	op	0x1b, PLAIN
	done	narrow_big_div
	expr	wrapped, .Llong
	of_reg	2, .Lint
	op	0x0c, 0xff, 0xff, 0xff, 0x7f
	typed	CONVERT, .Lint
	op	0x22, PLAIN
	done	wrapped
	expr	product, .Llong
	of_reg	0, .Lunsigned
	of_reg	0, .Lunsigned
	op	0x1e, PLAIN
	done	product
	expr	right, .Llong
	of_reg	0, .Lint
	op	0x34
	typed	CONVERT, .Lint
	op	0x25, PLAIN
	done	right
	expr	right_signed, .Llong
	of_reg	0, .Lunsigned
	op	0x34
	typed	CONVERT, .Lunsigned
	op	0x26, PLAIN
	done	right_signed
	expr	by_63, .Llong
	op	RAX, RDI, 0x24
	done	by_63
	expr	largest, .Llong
	op	RAX, RCX, 0x14, 0x14, 0x2a, 0x28, 1, 0, 0x16, 0x13
	done	largest
	expr	smallest, .Llong
	op	RAX, RCX, 0x14, 0x14, 0x2c, 0x28, 1, 0, 0x16, 0x13
	done	smallest
	expr	turned, .Llong
	op	RAX, RBX, RCX, 0x17, 0x1c, 0x1c
	done	turned
	expr	distance, .Llong
	of_reg	0, .Lint
	op	0x19, PLAIN
	done	distance
	expr	upside_down, .Llong
	of_reg	1, .Lunsigned
	op	0x20, PLAIN
	done	upside_down
	expr	minus, .Llong
	of_reg	1, .Lunsigned
	op	0x1f, PLAIN
	done	minus
	expr	loaded, .Llong
	op	R11, 0xa6, 4
	.uleb128 .Lint - .Lunit
	op	PLAIN
	done	loaded
	expr	loaded_byte, .Llong
	op	R11, 0xa6, 1
	.uleb128 .Lchar - .Lunit
	op	PLAIN
	done	loaded_byte
	expr	fixed, .Llong
	op	0xa4
	.uleb128 .Lint - .Lunit
	op	4, 0xfe, 0xff, 0xff, 0xff, PLAIN
	done	fixed
	expr	narrowed, .Llong
	op	RDX
	typed	CONVERT, .Lchar
	op	PLAIN
	done	narrowed
	at	double_in_general, .Ldouble
	op	IN_R12
	end	double_in_general
	at	float_in_general, .Lfloat
	op	IN_R13
	end	float_in_general
	expr	double_of_number, .Ldouble
	op	0x7c, 0
	done	double_of_number
	expr	float_of_number, .Lfloat
	op	0x0c, 0, 0, 0x20, 0xc1
	done	float_of_number
	at	long_in_vector, .Llong
	op	IN_XMM1
	end	long_in_vector
	at	int_in_vector, .Lint
	op	IN_XMM1
	end	int_in_vector
	at	char_in_vector, .Lchar
	op	IN_XMM1
	end	char_in_vector
	at	int_of_bytes, .Lint
	op	0x9e, 4, 0xfe, 0xff, 0xff, 0xff
	end	int_of_bytes
	at	float_of_bytes, .Lfloat
	op	0x9e, 4, 0, 0, 0x20, 0xc1
	end	float_of_bytes
	at	halves, .Llong
	op	IN_RAX, PIECE(4), IN_RCX, PIECE(4)
	end	halves
	at	short_halves, .Lint
	op	IN_RAX, PIECE(2), R11, PIECE(2)
	end	short_halves
	at	four_ways, .Llong
	op	0x35, 0x9f, PIECE(1), IN_RBX, PIECE(1), R11, PIECE(2), 0x9e, 4, 1, 2, 3, 0x84, PIECE(4)
	end	four_ways
	at	double_halves, .Ldouble
	op	0x30, 0x9f, PIECE(4), 0x0c, 0, 0, 4, 0xc0, 0x9f, PIECE(4)
	end	double_halves
	at	from_vector, .Llong
	op	IN_XMM1, PIECE(4), IN_XMM1, PIECE(4)
	end	from_vector
	at	float_parts, .Lfloat
	op	0x30, 0x9f, PIECE(2), 0x0a, 0x20, 0xc1, 0x9f, PIECE(2)
	end	float_parts
	/* What only we can tell: gdb refuses the first, and leaves the others to the machine. */
	expr	by_nothing, .Llong
	op	RCX, R10, 0x1b
	done	by_nothing
	expr	all_out, .Llong
	op	RAX, R8, 0x24
	done	all_out
	expr	all_right, .Llong
	op	RAX, R9, 0x25
	done	all_right
	expr	only_sign, .Llong
	op	RAX, R9, 0x26
	done	only_sign
	.byte	0, 0
.Lunit_end:

	.section .note.GNU-stack, "", @progbits
