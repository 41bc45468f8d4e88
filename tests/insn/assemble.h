/* SPDX-License-Identifier: MIT */
/*
 * What each operation of the assembler writes on x86-64: a ROW is what it is for, the bytes, the instructions as the
 * disassembler shows them, and the operation. All stand at 0x1000.
 */
/* moves */
ROW("move between registers", "48 89 c1", "mov %rax, %rcx", move, ASM_64, ASM_B, ASM_A)
ROW("move to itself is nothing", "", "", move, ASM_64, ASM_A, ASM_A)
ROW("move of 4 bytes clears the rest", "89 c0", "mov %eax, %eax", move, ASM_32, ASM_A, ASM_A)
ROW("move from the program", "4c 89 f8", "mov %r15, %rax", move, ASM_64, ASM_A, ASM_SITE + 15)
ROW("zero", "31 d2", "xor %edx, %edx", imm, ASM_C, 0)
ROW("zero in one above 7", "45 31 c0", "xor %r8d, %r8d", imm, ASM_KEPT + 2, 0)
ROW("a constant of 4 bytes", "b8 00 00 00 80", "mov $-0x80000000, %eax", imm, ASM_A, 0x80000000)
ROW("a negative constant", "48 c7 c2 fe ff ff ff", "mov $-0x02, %rdx", imm, ASM_C, -2ull)
ROW("a long constant", "48 b8 ef cd ab 89 67 45 23 01", "mov $0x123456789ABCDEF, %rax", imm, ASM_A, 0x123456789abcdef)
ROW("zero that keeps the flags", "ba 00 00 00 00", "mov $0x00, %edx", imm32, ASM_C, 0)
ROW("an address is always as long", "49 b9 01 00 00 00 00 00 00 00", "mov $0x01, %r9", address, ASM_KEPT + 3, 1)
ROW("load a byte", "48 0f b6 80 01 00 00 00", "movzxb 0x01(%rax), %rax", load, ASM_U8, ASM_A, asm_far(ASM_A, 1))
ROW("load 2 bytes", "48 0f b7 80 01 00 00 00", "movzxw 0x01(%rax), %rax", load, ASM_U16, ASM_A, asm_far(ASM_A, 1))
ROW("load 4 bytes", "8b 11", "mov (%rcx), %edx", load, ASM_U32, ASM_C, asm_at(ASM_B, 0))
ROW("load 8 bytes, near", "48 8b 41 08", "mov 0x08(%rcx), %rax", load, ASM_U64, ASM_A, asm_at(ASM_B, 8))
ROW("load a signed byte", "48 0f be 80 ff ff ff ff", "movsxb -0x01(%rax), %rax", load, ASM_I8, ASM_A, asm_far(ASM_A, -1))
ROW("load signed 2 bytes", "48 0f bf 80 ff ff ff ff", "movsxw -0x01(%rax), %rax", load, ASM_I16, ASM_A, asm_far(ASM_A, -1))
ROW("load signed 4 bytes", "48 63 80 ff ff ff ff", "movsxdl -0x01(%rax), %rax", load, ASM_I32, ASM_A, asm_far(ASM_A, -1))
ROW("load a word of the frame", "4c 8b 5c 24 00", "mov (%rsp), %r11", load, ASM_U64, ASM_KEPT + 5, asm_at(ASM_SP, 0))
ROW("load a word of the frame, further",
    "48 8b 84 24 80 00 00 00",
    "mov 0x80(%rsp), %rax",
    load, ASM_U64, ASM_A, asm_at(ASM_SP, 128))
ROW("load by index", "48 8b 0c ca", "mov (%rdx,%rcx,8), %rcx", load, ASM_U64, ASM_B, asm_indexed(ASM_C, ASM_B, 8))
ROW("load from the thread block",
    "64 8b 04 25 f8 ff ff ff",
    "mov %fs:0xFFFFFFFFFFFFFFF8, %eax",
    load, ASM_U32, ASM_A, asm_tls(-8))
ROW("load from an address", "a1 ef cd ab 89 67 45 23 01", "mov 0x0123456789ABCDEF, %eax", load_absolute, 0x123456789abcdef)
ROW("store a byte", "88 11", "mov %dl, (%rcx)", store, ASM_8, ASM_C, asm_at(ASM_B, 0))
ROW("store 2 bytes", "66 89 11", "mov %dx, (%rcx)", store, ASM_16, ASM_C, asm_at(ASM_B, 0))
ROW("store 4 bytes", "89 87 10 00 00 00", "mov %eax, 0x10(%rdi)", store, ASM_32, ASM_A, asm_far(ASM_E, 16))
ROW("store 8 bytes by index",
    "48 89 b4 01 28 00 00 00",
    "mov %rsi, 0x28(%rcx,%rax,1)",
    store, ASM_64, ASM_D, asm_indexed_far(ASM_B, ASM_A, 1, 40))
ROW("store a register of the program",
    "4c 89 64 24 80",
    "mov %r12, -0x80(%rsp)",
    store, ASM_64, ASM_SITE + 12, asm_at(ASM_SP, -128))
ROW("store a constant", "48 c7 44 24 08 ff ff ff ff", "movq $-0x01, 0x08(%rsp)", store_imm, ASM_64, asm_at(ASM_SP, 8), -1)
ROW("store a constant of 4 bytes", "c7 41 0c 05 00 00 00", "movl $0x05, 0x0C(%rcx)", store_imm, ASM_32, asm_at(ASM_B, 12), 5)
ROW("store in the thread block",
    "64 48 c7 04 25 08 00 00 00 00 00 00 00",
    "movq $0x00, %fs:0x0000000000000008",
    store_imm, ASM_64, asm_tls(8), 0)
ROW("lea of the stack pointer", "48 8d 64 24 80", "lea -0x80(%rsp), %rsp", lea, ASM_64, ASM_SP, asm_at(ASM_SP, -128))
ROW("lea of 4 bytes by index",
    "8d 94 01 01 00 00 00",
    "lea 0x01(%rcx,%rax,1), %edx",
    lea, ASM_32, ASM_C, asm_indexed_far(ASM_B, ASM_A, 1, 1))
ROW("lea without a displacement", "48 8d 14 01", "lea (%rcx,%rax,1), %rdx", lea, ASM_64, ASM_C, asm_indexed(ASM_B, ASM_A, 1))
ROW("lea of the base that needs one", "48 8d 55 00", "lea (%rbp), %rdx", lea, ASM_64, ASM_C, asm_at(ASM_SITE + 5, 0))
ROW("lea of r12", "49 8d 54 24 00", "lea (%r12), %rdx", lea, ASM_64, ASM_C, asm_at(ASM_SITE + 12, 0))
ROW("lea of r13 by r14",
    "4b 8d 54 b5 00",
    "lea (%r13,%r14,4), %rdx",
    lea, ASM_64, ASM_C, asm_indexed(ASM_SITE + 13, ASM_SITE + 14, 4))
ROW("extend a byte", "0f b6 c0", "movzx %al, %eax", extend, ASM_U8, ASM_A, ASM_A)
ROW("extend 2 bytes", "0f b7 c0", "movzx %ax, %eax", extend, ASM_U16, ASM_A, ASM_A)
ROW("extend 4 bytes", "89 c0", "mov %eax, %eax", extend, ASM_U32, ASM_A, ASM_A)
ROW("extend a signed byte", "48 0f be c0", "movsx %al, %rax", extend, ASM_I8, ASM_A, ASM_A)
ROW("extend signed 2 bytes", "48 0f bf c0", "movsx %ax, %rax", extend, ASM_I16, ASM_A, ASM_A)
ROW("extend signed 4 bytes", "48 98", "cdqe", extend, ASM_I32, ASM_A, ASM_A)
ROW("extend signed 4 bytes elsewhere", "48 63 d0", "movsxd %eax, %rdx", extend, ASM_I32, ASM_C, ASM_A)
ROW("select", "48 0f 4c f7", "cmovl %rdi, %rsi", select, ASM_LT, ASM_D, ASM_E)
ROW("set", "0f 92 c2", "setb %dl", set, ASM_ULT, ASM_C)

/* integers */
ROW("add", "48 01 d0", "add %rdx, %rax", alu, ASM_ADD, ASM_64, ASM_A, ASM_C)
ROW("test 4 bytes", "85 c9", "test %ecx, %ecx", alu, ASM_TEST, ASM_32, ASM_B, ASM_B)
ROW("test a register of the program", "4d 85 c9", "test %r9, %r9", alu, ASM_TEST, ASM_64, ASM_SITE + 9, ASM_SITE + 9)
ROW("compare with a register as an operand", "49 3b c0", "cmp %r8, %rax", alu_from, ASM_CMP, ASM_64, ASM_A, asm_in(ASM_SITE + 8))
ROW("subtract memory", "2b 41 08", "sub 0x08(%rcx), %eax", alu_from, ASM_SUB, ASM_32, ASM_A, asm_at(ASM_B, 8))
ROW("subtract with borrow", "1b 51 0c", "sbb 0x0C(%rcx), %edx", alu_from, ASM_SBB, ASM_32, ASM_C, asm_at(ASM_B, 12))
ROW("compare memory", "48 39 01", "cmp %rax, (%rcx)", alu_to, ASM_CMP, ASM_64, asm_at(ASM_B, 0), ASM_A)
ROW("compare a byte of memory", "38 11", "cmp %dl, (%rcx)", alu_to, ASM_CMP, ASM_8, asm_at(ASM_B, 0), ASM_C)
ROW("test memory", "48 85 81 08 00 00 00", "test %rax, 0x08(%rcx)", alu_to, ASM_TEST, ASM_64, asm_far(ASM_B, 8), ASM_A)
ROW("and a short constant", "83 e1 1f", "and $0x1F, %ecx", alu_imm, ASM_AND, ASM_32, asm_in(ASM_B), 31)
ROW("or a negative constant", "48 83 ca ff", "or $-0x01, %rdx", alu_imm, ASM_OR, ASM_64, asm_in(ASM_C), -1)
ROW("xor a long constant", "48 81 f0 80 00 00 00", "xor $0x80, %rax", alu_imm, ASM_XOR, ASM_64, asm_in(ASM_A), 128)
ROW("xor a byte", "34 01", "xor $0x01, %al", alu_imm, ASM_XOR, ASM_8, asm_in(ASM_A), 1)
ROW("add a constant that is always as long",
    "48 81 c0 01 00 00 00",
    "add $0x01, %rax",
    alu_imm, ASM_ADD, ASM_64, asm_in_far(ASM_A), 1)
ROW("compare 2 bytes of memory", "66 83 39 01", "cmpw $0x01, (%rcx)", alu_imm, ASM_CMP, ASM_16, asm_at(ASM_B, 0), 1)
ROW("compare a word by index",
    "48 83 3c c8 00",
    "cmpq $0x00, (%rax,%rcx,8)",
    alu_imm, ASM_CMP, ASM_64, asm_indexed(ASM_A, ASM_B, 8), 0)
ROW("compare 4 bytes of memory, long",
    "81 79 0c ff ff ff 7f",
    "cmpl $0x7FFFFFFF, 0x0C(%rcx)",
    alu_imm, ASM_CMP, ASM_32, asm_at(ASM_B, 12), 0x7fffffff)
ROW("add a constant of 4 bytes", "48 81 c1 40 00 00 00", "add $0x40, %rcx", alu_wide, ASM_ADD, ASM_64, ASM_B, 64)
ROW("compare A with a constant of 4 bytes", "48 3d 04 00 00 00", "cmp $0x04, %rax", alu_wide, ASM_CMP, ASM_64, ASM_A, 4)
ROW("not", "48 f7 d0", "not %rax", unary, ASM_NOT, ASM_64, asm_in(ASM_A))
ROW("negate", "f7 da", "neg %edx", unary, ASM_MINUS, ASM_32, asm_in(ASM_C))
ROW("increment", "48 ff c6", "inc %rsi", unary, ASM_INC, ASM_64, asm_in(ASM_D))
ROW("increment memory",
    "48 ff 84 d1 10 00 00 00",
    "inc 0x10(%rcx,%rdx,8)",
    unary, ASM_INC, ASM_64, asm_indexed_far(ASM_B, ASM_C, 8, 16))
ROW("decrement", "ff ca", "dec %edx", unary, ASM_DEC, ASM_32, asm_in(ASM_C))
ROW("decrement memory", "48 ff 4c 24 10", "dec 0x10(%rsp)", unary, ASM_DEC, ASM_64, asm_at(ASM_SP, 16))
ROW("shift left", "48 c1 e2 20", "shl $0x20, %rdx", shift, ASM_SHL, ASM_64, ASM_C, 32)
ROW("shift right", "c1 e8 1a", "shr $0x1A, %eax", shift, ASM_SHR, ASM_32, ASM_A, 26)
ROW("shift right, signed", "48 c1 f8 01", "sar $0x01, %rax", shift, ASM_SAR, ASM_64, ASM_A, 1)
ROW("rotate", "48 c1 c1 18", "rol $0x18, %rcx", shift, ASM_ROL, ASM_64, ASM_B, 24)
ROW("shift left by B", "48 d3 e0", "shl %cl, %rax", shift_by, ASM_SHL, ASM_A)
ROW("shift right by B, signed", "48 d3 f8", "sar %cl, %rax", shift_by, ASM_SAR, ASM_A)
ROW("multiply", "48 0f af c8", "imul %rax, %rcx", mul, ASM_B, ASM_A)
ROW("multiply by a constant", "48 69 c8 08 00 00 00", "imul $0x08, %rax, %rcx", mul_imm, ASM_64, ASM_B, ASM_A, 8)
ROW("multiply 4 bytes by a constant", "69 c0 08 00 00 00", "imul $0x08, %eax, %eax", mul_imm, ASM_32, ASM_A, ASM_A, 8)
ROW("full product", "48 f7 e1", "mul %rcx", mul_full, ASM_B)
ROW("divide", "48 99 48 f7 f9", "cqo; idiv %rcx", div, ASM_B)
ROW("divide, unsigned", "48 f7 f1", "div %rcx", udiv, ASM_B)
ROW("swap 2 bytes", "66 c1 c0 08 0f b7 c0", "rol $0x08, %ax; movzx %ax, %eax", swap, ASM_16, ASM_A)
ROW("swap 4 bytes", "0f c8", "bswap %eax", swap, ASM_32, ASM_A)
ROW("swap 8 bytes", "48 0f ca", "bswap %rdx", swap, ASM_64, ASM_C)
ROW("flip a bit", "48 0f ba f8 3f", "btc $0x3F, %rax", bit_flip, ASM_A, 63)
ROW("highest bit", "48 0f bd d0", "bsr %rax, %rdx", highest_bit, ASM_C, ASM_A)

/* branches: the label is at the end of the code */
ROW("jump", "e9 00 00 00 00", "jmp 0x0000000000001005", jump, l)
ROW("short jump", "eb 00", "jmp 0x0000000000001002", jump_short, l)
ROW("jump that is as long as a branch", "90 e9 00 00 00 00", "nop; jmp 0x0000000000001006", jump_as_branch, l)
ROW("branch: equal", "0f 84 00 00 00 00", "jz 0x0000000000001006", branch, ASM_EQ, l)
ROW("branch: not equal", "0f 85 00 00 00 00", "jnz 0x0000000000001006", branch, ASM_NE, l)
ROW("branch: less, unsigned", "0f 82 00 00 00 00", "jb 0x0000000000001006", branch, ASM_ULT, l)
ROW("branch: not less, unsigned", "0f 83 00 00 00 00", "jnb 0x0000000000001006", branch, ASM_UGE, l)
ROW("branch: not more, unsigned", "0f 86 00 00 00 00", "jbe 0x0000000000001006", branch, ASM_ULE, l)
ROW("branch: more, unsigned", "0f 87 00 00 00 00", "jnbe 0x0000000000001006", branch, ASM_UGT, l)
ROW("branch: less", "0f 8c 00 00 00 00", "jl 0x0000000000001006", branch, ASM_LT, l)
ROW("branch: not less", "0f 8d 00 00 00 00", "jnl 0x0000000000001006", branch, ASM_GE, l)
ROW("branch: not more", "0f 8e 00 00 00 00", "jle 0x0000000000001006", branch, ASM_LE, l)
ROW("branch: more", "0f 8f 00 00 00 00", "jnle 0x0000000000001006", branch, ASM_GT, l)
ROW("branch: negative", "0f 88 00 00 00 00", "js 0x0000000000001006", branch, ASM_NEG, l)
ROW("branch: not negative", "0f 89 00 00 00 00", "jns 0x0000000000001006", branch, ASM_POS, l)
ROW("branch: float less or none", "0f 82 00 00 00 00", "jb 0x0000000000001006", branch, ASM_FLT_UN, l)
ROW("branch: float not less", "0f 83 00 00 00 00", "jnb 0x0000000000001006", branch, ASM_FGE, l)
ROW("branch: float not more or none", "0f 86 00 00 00 00", "jbe 0x0000000000001006", branch, ASM_FLE_UN, l)
ROW("branch: float more", "0f 87 00 00 00 00", "jnbe 0x0000000000001006", branch, ASM_FGT, l)
ROW("short branch", "75 00", "jnz 0x0000000000001002", branch_short, ASM_NE, l)
ROW("branch if B is 0", "e3 00", "jrcxz 0x0000000000001002", branch_b_zero, l)
ROW("call", "48 b8 ef cd ab 89 67 45 23 01 ff d0", "mov $0x123456789ABCDEF, %rax; call %rax", call, 0x123456789abcdef)
ROW("call of a label", "e8 00 00 00 00", "call 0x0000000000001005", call_label, l)
ROW("return", "c3", "ret", ret)
ROW("load of what is at a label",
    "4c 8b 15 00 00 00 00",
    "mov 0x0000000000001007, %r10",
    load, ASM_U64, ASM_KEPT + 4, asm_const(l))
ROW("compare with what is at a label",
    "48 3b 15 00 00 00 00",
    "cmp 0x0000000000001007, %rdx",
    alu_from, ASM_CMP, ASM_64, ASM_C, asm_const(l))

/* atomic */
ROW("atomic increment", "f0 48 ff 01", "lock inc (%rcx)", atomic_inc, asm_at(ASM_B, 0))
ROW("atomic increment by index",
    "f0 48 ff 84 d1 10 00 00 00",
    "lock inc 0x10(%rcx,%rdx,8)",
    atomic_inc, asm_indexed_far(ASM_B, ASM_C, 8, 16))
ROW("atomic add", "f0 48 01 b9 10 00 00 00", "lock add %rdi, 0x10(%rcx)", atomic_add, asm_far(ASM_B, 16), ASM_E)
ROW("atomic add of a constant", "f0 81 01 00 00 01 00", "lock addl $0x10000, (%rcx)", atomic_add_imm, asm_at(ASM_B, 0), 65536)
ROW("atomic fetch and add", "f0 48 0f c1 01", "lock xadd %rax, (%rcx)", atomic_fetch_add, asm_at(ASM_B, 0), ASM_A)
ROW("compare and swap", "f0 48 0f b1 b9 18 00 00 00", "lock cmpxchg %rdi, 0x18(%rcx)", atomic_cas, asm_far(ASM_B, 24), ASM_E)
ROW("compare and swap of a pair", "f0 48 0f c7 4e 08", "lock cmpxchg16b 0x08(%rsi)", atomic_cas_pair, asm_at(ASM_D, 8))
ROW("atomic set bit", "f0 48 0f ab 10", "lock bts %rdx, (%rax)", atomic_set_bit, ASM_A, ASM_C)

/* floats */
ROW("vector load", "f2 0f 10 8a 10 00 00 00", "movsdq 0x10(%rdx), %xmm1", vload, ASM_V1, asm_far(ASM_C, 16))
ROW("vector store",
    "f2 0f 11 8c 01 10 00 00 00",
    "movsd %xmm1, 0x10(%rcx,%rax,1)",
    vstore, ASM_V1, asm_indexed_far(ASM_B, ASM_A, 1, 16))
ROW("vector store of the program's",
    "66 44 0f d6 4c 24 08",
    "movq %xmm9, 0x08(%rsp)",
    vstore_site, ASM_SITE_V + 9, asm_at(ASM_SP, 8))
ROW("vector move", "0f 28 c8", "movaps %xmm0, %xmm1", vmove, ASM_V1, ASM_V0)
ROW("vector set", "66 48 0f 6e c8", "movq %rax, %xmm1", vset, ASM_64, ASM_V1, ASM_A)
ROW("vector set of 4 bytes", "66 0f 6e c0", "movd %eax, %xmm0", vset, ASM_32, ASM_V0, ASM_A)
ROW("vector get", "66 48 0f 7e ca", "movq %xmm1, %rdx", vget, ASM_64, ASM_C, ASM_V1)
ROW("vector get of 4 bytes", "66 0f 7e c0", "movd %xmm0, %eax", vget, ASM_32, ASM_A, ASM_V0)
ROW("float add", "f2 0f 58 c1", "addsd %xmm1, %xmm0", farith, ASM_FADD, ASM_V0, ASM_V1)
ROW("float multiply", "f2 0f 59 c1", "mulsd %xmm1, %xmm0", farith, ASM_FMUL, ASM_V0, ASM_V1)
ROW("float subtract", "f2 0f 5c c1", "subsd %xmm1, %xmm0", farith, ASM_FSUB, ASM_V0, ASM_V1)
ROW("float divide", "f2 0f 5e c1", "divsd %xmm1, %xmm0", farith, ASM_FDIV, ASM_V0, ASM_V1)
ROW("float least", "f2 0f 5d 8a 18 00 00 00", "minsd 0x18(%rdx), %xmm1", farith_from, ASM_FMIN, ASM_V1, asm_far(ASM_C, 24))
ROW("float greatest", "f2 0f 5f 8a 20 00 00 00", "maxsd 0x20(%rdx), %xmm1", farith_from, ASM_FMAX, ASM_V1, asm_far(ASM_C, 32))
ROW("float compare", "66 0f 2e c1", "ucomisd %xmm1, %xmm0", fcmp, ASM_V0, ASM_V1)
ROW("float equal", "0f 9b c0 0f 94 c1 20 c8", "setnp %al; setz %cl; and %cl, %al", fset_equal, true)
ROW("float not equal", "0f 9a c0 0f 95 c1 08 c8", "setp %al; setnz %cl; or %cl, %al", fset_equal, false)
ROW("float zero", "66 0f ef c9", "pxor %xmm1, %xmm1", fzero, ASM_V1)
ROW("widen", "f3 41 0f 5a c1", "cvtss2sd %xmm9, %xmm0", widen, ASM_V0, ASM_SITE_V + 9)
ROW("widen from memory", "f3 0f 5a 44 24 08", "cvtss2sdl 0x08(%rsp), %xmm0", widen_from, ASM_V0, asm_at(ASM_SP, 8))
ROW("narrow", "f2 0f 5a c0", "cvtsd2ss %xmm0, %xmm0", narrow, ASM_V0, ASM_V0)
ROW("from an integer", "f2 48 0f 2a c0", "cvtsi2sd %rax, %xmm0", from_int, false)
ROW("from an integer, float", "f3 48 0f 2a c0 f3 0f 5a c0", "cvtsi2ss %rax, %xmm0; cvtss2sd %xmm0, %xmm0", from_int, true)
ROW("from an unsigned integer",
    "48 85 c0 78 07 f2 48 0f 2a c0 eb 15 48 89 c1 48 d1 e8 83 e1 01 48 09 c8 f2 48 0f 2a c0 f2 0f 58 c0",
    "test %rax, %rax; js 0x000000000000100C; cvtsi2sd %rax, %xmm0; jmp 0x0000000000001021; mov %rax, %rcx; shr $0x01, %rax; and $0x01, %ecx; or %rcx, %rax; cvtsi2sd %rax, %xmm0; addsd %xmm0, %xmm0",
    from_unsigned, false)
ROW("from an unsigned integer, float",
    "48 85 c0 78 07 f3 48 0f 2a c0 eb 15 48 89 c1 48 d1 e8 83 e1 01 48 09 c8 f3 48 0f 2a c0 f3 0f 58 c0 f3 0f 5a c0",
    "test %rax, %rax; js 0x000000000000100C; cvtsi2ss %rax, %xmm0; jmp 0x0000000000001021; mov %rax, %rcx; shr $0x01, %rax; and $0x01, %ecx; or %rcx, %rax; cvtsi2ss %rax, %xmm0; addss %xmm0, %xmm0; cvtss2sd %xmm0, %xmm0",
    from_unsigned, true)
ROW("to an integer", "f2 48 0f 2c c0", "cvttsd2si %xmm0, %rax", to_int)
ROW("to an unsigned integer",
    "48 b8 00 00 00 00 00 00 e0 43 66 48 0f 6e c8 66 0f 2e c1 72 10 f2 0f 5c c1 f2 48 0f 2c c0 48 0f ba f8 3f eb 05 f2 48 0f 2c c0",
    "mov $0x43E0000000000000, %rax; movq %rax, %xmm1; ucomisd %xmm1, %xmm0; jb 0x0000000000001025; subsd %xmm1, %xmm0; cvttsd2si %xmm0, %rax; btc $0x3F, %rax; jmp 0x000000000000102A; cvttsd2si %xmm0, %rax",
    to_unsigned)
ROW("enter code with floats",
    "0f 11 44 24 40 0f 11 4c 24 50 0f ae 5c 24 60 c7 44 24 64 80 1f 00 00 0f ae 54 24 64",
    "movups %xmm0, 0x40(%rsp); movups %xmm1, 0x50(%rsp); stmxcsr 0x60(%rsp); movl $0x1F80, 0x64(%rsp); ldmxcsr 0x64(%rsp)",
    float_enter, 64)
ROW("leave code with floats",
    "0f ae 54 24 60 0f 10 44 24 40 0f 10 4c 24 50",
    "ldmxcsr 0x60(%rsp); movups 0x40(%rsp), %xmm0; movups 0x50(%rsp), %xmm1",
    float_leave, 64)

/* thread */
ROW("take the flags", "9f 0f 90 c0", "lahf; seto %al", flags_take)
ROW("give the flags", "04 7f 9e", "add $0x7F, %al; sahf", flags_give)
ROW("show the flags",
    "9c 58 25 2a f6 ff ff 0f b6 4c 24 09 81 e1 d5 00 00 00 09 c8 0f b6 4c 24 08 c1 e1 0b 09 c8",
    "pushfq; pop %rax; and $-0x9D6, %eax; movzxb 0x09(%rsp), %ecx; and $0xD5, %ecx; or %ecx, %eax; movzxb 0x08(%rsp), %ecx; shl $0x0B, %ecx; or %ecx, %eax",
    flags_show, 8)
ROW("enter C", "9c fc", "pushfq; cld", c_enter)
ROW("leave C", "59 f6 c5 04 74 01 fd", "pop %rcx; test $0x04, %ch; jz 0x0000000000001007; std", c_leave)
ROW("note registers that C saves",
    "48 89 99 18 00 00 00 48 89 a9 28 00 00 00 4c 89 a1 60 00 00 00 4c 89 a9 68 00 00 00 4c 89 b1 70 00 00 00 4c 89 b9 78 00 00 00",
    "mov %rbx, 0x18(%rcx); mov %rbp, 0x28(%rcx); mov %r12, 0x60(%rcx); mov %r13, 0x68(%rcx); mov %r14, 0x70(%rcx); mov %r15, 0x78(%rcx)",
    note_saved, ASM_B, 0)
ROW("ticks", "0f 31", "rdtsc", ticks)
ROW("number of the CPU", "b8 7b 00 00 00 0f 03 c0 25 ff 0f 00 00", "mov $0x7B, %eax; lsl %eax, %eax; and $0xFFF, %eax", cpu)
ROW("thread pointer", "f3 48 0f ae c0", "rdfsbase %rax", thread)
ROW("ask for stack",
    "4c 89 5c 24 18 48 89 7c 24 10 48 8d bc 24 00 ff ff ff 48 8d 15 0c 00 00 00 48 b8 ef cd ab 89 67 45 23 01 ff e0 4c 8b 5c 24 18 48 8b 7c 24 10 85 c9",
    "mov %r11, 0x18(%rsp); mov %rdi, 0x10(%rsp); lea -0x100(%rsp), %rdi; lea 0x0000000000001025, %rdx; mov $0x123456789ABCDEF, %rax; jmp %rax; mov 0x18(%rsp), %r11; mov 0x10(%rsp), %rdi; test %ecx, %ecx",
    ask_room, 0x123456789abcdef, -256, 16)
ROW("begin of a sequence",
    "48 8d 05 09 00 00 00 64 48 89 04 25 68 ff ff ff",
    "lea 0x0000000000001010, %rax; mov %rax, %fs:0xFFFFFFFFFFFFFF68",
    seq_begin, &seq)
ROW("commit of a sequence", "64 48 c7 04 25 68 ff ff ff 00 00 00 00", "movq $0x00, %fs:0xFFFFFFFFFFFFFF68", seq_commit, &seq)
