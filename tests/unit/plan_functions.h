/* SPDX-License-Identifier: MIT */
/*
 * Functions of the shapes that make planning hard, for test_plan_exec.c: each takes and gives a number,
 * and does the same every time.
 */
#ifndef PLAN_FUNCTIONS_H
#define PLAN_FUNCTIONS_H

typedef long (*function)(long);

#define FUNC(name, body) \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body \
		"\n.size " #name ", . - " #name "\n"); \
	long name(long)

/* The same without alignment: no filler in front of it. */
#define TIGHT(name, body) \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body \
		"\n.size " #name ", . - " #name "\n"); \
	long name(long)

/*
 * How the functions lie in their pages matters: what belongs together must be in one. This puts a border
 * into x_rets; -DPAGE_OFFSET moves it elsewhere.
 */
#ifndef PAGE_OFFSET
#define PAGE_OFFSET 0xfb0
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
__asm__(".text\n.p2align 12\n.skip " TEXT(PAGE_OFFSET) ", 0xcc\n");

FUNC(x_middle, "mov %rdi,%rax\n cmp $5,%rdi\n ja 1f\n inc %rax\n1: add %rdi,%rax\n test $1,%dil\n je 2f\n"
     "not %rax\n2: ret");
FUNC(x_packed, "push %rbx\n push %rbp\n mov %rdi,%rbx\n cmp $3,%rdi\n je 1f\n push %r12\n pop %r12\n1: pop %rbp\n"
     "lea 7(%rbx),%rax\n pop %rbx\n ret");
FUNC(x_rets, "xor %eax,%eax\n test %rdi,%rdi\n je 1f\n cmp $1,%rdi\n je 2f\n cmp $2,%rdi\n je 3f\n mov $9,%eax\n"
     "1: ret\n2: inc %eax\n ret\n3: lea 5(%rdi,%rdi),%rax\n ret");
FUNC(x_table, "cmp $6,%rdi\n ja 9f\n lea 8f(%rip),%rdx\n movslq (%rdx,%rdi,4),%rax\n add %rdx,%rax\n jmp *%rax\n"
     "1: xor %eax,%eax\n ret\n2: push $7\n pop %rax\n ret\n3: mov $3,%al\n movzbl %al,%eax\n ret\n"
     "4: mov %edi,%eax\n5: inc %eax\n6: inc %eax\n ret\n7: mov $77,%eax\n ret\n9: mov $-1,%rax\n ret\n"
     ".section .rodata\n.p2align 2\n8: .long 1b-8b,2b-8b,3b-8b,4b-8b,5b-8b,6b-8b,7b-8b\n.text");
FUNC(x_loop, "xor %eax,%eax\n lea 3(%rdi),%rcx\n1: add %rcx,%rax\n dec %rcx\n jne 1b\n mov $4,%ecx\n2: inc %rax\n"
     "loop 2b\n mov %rdi,%rcx\n jrcxz 3f\n add $100,%rax\n3: ret");
FUNC(x_flags, "mov %rdi,%rax\n cmp $4,%rdi\n adc $0,%rax\n sbb $0,%rax\n rcl $1,%rax\n adc %rdi,%rax\n setc %dl\n"
     "seto %cl\n lahf\n movzbl %dl,%edx\n add %rdx,%rax\n ret");
FUNC(x_redzone, "mov %rdi,-8(%rsp)\n movq $5,-16(%rsp)\n mov %rdi,-120(%rsp)\n mov -8(%rsp),%rax\n"
     "add -16(%rsp),%rax\n add -120(%rsp),%rax\n ret");
FUNC(x_ripdata, "mov x_word(%rip),%rax\n add %rdi,x_word(%rip)\n cmpl $3,x_word(%rip)\n sete %dl\n movzbl %dl,%edx\n"
     "mov %rax,x_word(%rip)\n add %rdx,%rax\n add x_word(%rip),%rax\n ret\n.data\nx_word: .quad 3\n.text");
TIGHT(x_leaf, "lea 1(%rdi),%rax\n ret");
TIGHT(x_leaf2, "xor %eax,%eax\n ret");
TIGHT(x_leaf3, "ret");
TIGHT(x_leaf4, "mov %edi,%eax\n ret");
FUNC(x_calls, "push %rbx\n mov %rdi,%rbx\n call x_leaf\n mov %rax,%rdi\n call *x_slot(%rip)\n mov %rax,%rdi\n"
     "lea x_leaf4(%rip),%rdx\n call *%rdx\n add %rbx,%rax\n lea x_slot(%rip),%rcx\n mov %rax,%rdi\n call *(%rcx)\n"
     "pop %rbx\n ret\n.data\nx_slot: .quad x_leaf\n.text");
FUNC(x_callnear, "push %rdi\n call x_leaf\n pop %rdi\n call x_leaf4\n push %rax\n pop %rdi\n inc %edi\n call x_leaf\n ret");
FUNC(x_tail, "cmp $3,%rdi\n je x_leaf\n jb x_leaf4\n cmp $5,%rdi\n ja 1f\n jmp x_leaf\n1: lea x_leaf4(%rip),%rax\n"
     "jmp *%rax");
FUNC(x_endbr, "endbr64\n1: dec %rdi\n jns 1b\n mov %rdi,%rax\n ret");
FUNC(x_lock, "xor %eax,%eax\n mov %rdi,%rdx\n mov %rdi,-8(%rsp)\n test $1,%dil\n je 1f+1\n1: lock xadd %rdx,-8(%rsp)\n"
     "mov -8(%rsp),%rax\n add %rdx,%rax\n ret");
FUNC(x_system, "mov $39,%eax\n syscall\n test %eax,%eax\n setg %al\n movzbl %al,%eax\n add %rdi,%rax\n ret");
FUNC(x_recurse, "test %rdi,%rdi\n jle 1f\n push %rdi\n dec %rdi\n call x_recurse\n pop %rdi\n add %rdi,%rax\n ret\n"
     "1: xor %eax,%eax\n ret");
FUNC(x_short, "jmp 1f\n2: mov %edi,%eax\n ret\n1: test %edi,%edi\n jne 2b\n push $1\n pop %rax\n ret");
FUNC(x_vector, "movq %rdi,%xmm0\n paddq %xmm0,%xmm0\n movq %xmm0,%rax\n cvtsi2sd %rdi,%xmm1\n addsd %xmm1,%xmm1\n"
     "cvttsd2si %xmm1,%rdx\n add %rdx,%rax\n ret");
FUNC(x_nops, ".byte 0x0f,0x1f,0x44,0,0\n mov %rdi,%rax\n nop\n nop\n .byte 0x66,0x90\n .byte 0x0f,0x1f,0\n add $2,%rax\n ret");
FUNC(x_chain, "cmp $2,%rdi\n push %rdi\n je 1f\n jb 2f\n cmp $7,%rdi\n je 3f\n push %rbx\n pop %rbx\n2: nop\n1: nop\n"
     "3: pop %rax\n lea 1(%rax),%rax\n ret");
FUNC(x_string, "push %rbx\n sub $64,%rsp\n mov %rsp,%rdx\n xchg %rdi,%rdx\n mov $3,%ecx\n mov %rdx,%rax\n stosq\n stosq\n"
     "mov 8(%rsp),%rax\n add $64,%rsp\n pop %rbx\n ret");

/* What a compiler makes of ordinary code. */
__attribute__((noinline)) static long c_switch(long x)
{
	switch (x) {
	case 0: return 17;
	case 1: return x * 3;
	case 2: return -x;
	case 3: return x << 5 | 1;
	case 4: return 1234;
	case 5: return ~x;
	case 6: return x / 3;
	default: return 0;
	}
}

__attribute__((noinline)) static long c_sort(long x)
{
	unsigned int v[12], seed = x + 1;
	unsigned long sum = 0;

	for (int i = 0; i < 12; i++)
		v[i] = (seed = seed * 1103515245 + 12345) >> 16;
	for (int i = 1; i < 12; i++)
		for (int k = i; k > 0 && v[k - 1] > v[k]; k--) {
			unsigned int t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
	for (int i = 0; i < 12; i++)
		sum = sum * 31 + v[i];
	return sum;
}

__attribute__((noinline)) static long c_float(long x)
{
	double a = 1.5 * x, b = 0;

	for (int i = 0; i < 5; i++)
		b += a > 3 ? a / (i + 1) : a * i;
	return b * 1000;
}

static const struct { const char *name; function f; } functions[] = {
	{ "x_middle", x_middle }, { "x_packed", x_packed }, { "x_rets", x_rets }, { "x_table", x_table },
	{ "x_loop", x_loop }, { "x_flags", x_flags }, { "x_redzone", x_redzone }, { "x_ripdata", x_ripdata },
	{ "x_leaf", x_leaf }, { "x_leaf2", x_leaf2 }, { "x_leaf4", x_leaf4 }, { "x_calls", x_calls },
	{ "x_callnear", x_callnear }, { "x_tail", x_tail }, { "x_endbr", x_endbr }, { "x_lock", x_lock },
	{ "x_system", x_system }, { "x_recurse", x_recurse }, { "x_short", x_short }, { "x_vector", x_vector },
	{ "x_nops", x_nops }, { "x_chain", x_chain }, { "x_string", x_string }, { "c_switch", c_switch },
	{ "c_sort", c_sort }, { "c_float", c_float },
};

#endif
