/* SPDX-License-Identifier: MIT */
/* The assembler for x86-64: floats, with the scalar instructions of SSE2, which all of these CPUs have. */
#include "arch/x86/asm.h"

static int vec(enum asm_vec v)
{
	return v >= ASM_SITE_V ? v - ASM_SITE_V : v;
}

void x86_vload(struct assembler *a, enum asm_vec to, struct asm_operand from)
{
	x86_enc(a, PREFIX_SD, false, 0x0f10, vec(to), from);		/* movsd */
}

void x86_vstore(struct assembler *a, enum asm_vec from, struct asm_operand to)
{
	x86_enc(a, PREFIX_SD, false, 0x0f11, vec(from), to);
}

void x86_vstore_site(struct assembler *a, enum asm_vec from, struct asm_operand to)
{
	x86_enc(a, PREFIX_16, false, 0x0fd6, vec(from), to);		/* movq */
}

void x86_vmove(struct assembler *a, enum asm_vec to, enum asm_vec from)
{
	x86_enc_reg(a, 0, false, 0x0f28, vec(to), vec(from));		/* movaps */
}

void x86_vset(struct assembler *a, enum asm_width w, enum asm_vec to, enum asm_reg from)
{
	x86_enc_reg(a, PREFIX_16, w == ASM_64, 0x0f6e, vec(to), x86_reg(from));	/* movd, movq */
}

void x86_vget(struct assembler *a, enum asm_width w, enum asm_reg to, enum asm_vec from)
{
	x86_enc_reg(a, PREFIX_16, w == ASM_64, 0x0f7e, vec(from), x86_reg(to));
}

static const uint16_t ariths[] = {
	[ASM_FADD] = 0x0f58, [ASM_FMUL] = 0x0f59, [ASM_FSUB] = 0x0f5c, [ASM_FMIN] = 0x0f5d, [ASM_FDIV] = 0x0f5e, [ASM_FMAX] = 0x0f5f,
};

void x86_farith(struct assembler *a, enum asm_float op, enum asm_vec to, enum asm_vec from)
{
	x86_enc_reg(a, PREFIX_SD, false, ariths[op], vec(to), vec(from));
}

void x86_farith_from(struct assembler *a, enum asm_float op, enum asm_vec to, struct asm_operand from)
{
	x86_enc(a, PREFIX_SD, false, ariths[op], vec(to), from);
}

/* Says "unordered" by all of CF, ZF and PF; above and not below are false then. */
void x86_fcmp(struct assembler *a, enum asm_vec x, enum asm_vec y)
{
	x86_enc_reg(a, PREFIX_16, false, 0x0f2e, vec(x), vec(y));	/* ucomisd %y,%x */
}

void x86_fset_equal(struct assembler *a, bool equal)
{
	if (equal) {
		bytes(a, 0x0f, 0x9b, 0xc0);		/* setnp %al */
		bytes(a, 0x0f, 0x94, 0xc1);		/* sete %cl */
		bytes(a, 0x20, 0xc8);			/* and  %cl,%al */
	} else {
		bytes(a, 0x0f, 0x9a, 0xc0);		/* setp %al */
		bytes(a, 0x0f, 0x95, 0xc1);		/* setne %cl */
		bytes(a, 0x08, 0xc8);			/* or   %cl,%al */
	}
}

void x86_fzero(struct assembler *a, enum asm_vec to)
{
	x86_enc_reg(a, PREFIX_16, false, 0x0fef, vec(to), vec(to));	/* pxor */
}

void x86_widen(struct assembler *a, enum asm_vec to, enum asm_vec from)
{
	x86_enc_reg(a, PREFIX_SS, false, 0x0f5a, vec(to), vec(from));	/* cvtss2sd */
}

void x86_widen_from(struct assembler *a, enum asm_vec to, struct asm_operand from)
{
	x86_enc(a, PREFIX_SS, false, 0x0f5a, vec(to), from);
}

void x86_narrow(struct assembler *a, enum asm_vec to, enum asm_vec from)
{
	x86_enc_reg(a, PREFIX_SD, false, 0x0f5a, vec(to), vec(from));	/* cvtsd2ss */
}

void x86_from_int(struct assembler *a, bool is_float)
{
	bytes(a, is_float ? PREFIX_SS : PREFIX_SD, 0x48, 0x0f, 0x2a, 0xc0);	/* cvtsi2sd %rax,%xmm0 */
	if (is_float)
		x86_widen(a, ASM_V0, ASM_V0);
}

/* From 2^63 on: half of it, odd kept sticky so that it rounds as the whole would, then doubled. */
void x86_from_unsigned(struct assembler *a, bool is_float)
{
	uint8_t prefix = is_float ? PREFIX_SS : PREFIX_SD;
	asm_label big = asm_new_label(a), done = asm_new_label(a);

	bytes(a, 0x48, 0x85, 0xc0);			/* test %rax,%rax */
	a->ops->branch_short(a, ASM_NEG, big);
	bytes(a, prefix, 0x48, 0x0f, 0x2a, 0xc0);	/* cvtsi2sd %rax,%xmm0 */
	a->ops->jump_short(a, done);
	asm_bind(a, big);
	bytes(a, 0x48, 0x89, 0xc1);			/* mov  %rax,%rcx */
	bytes(a, 0x48, 0xd1, 0xe8, 0x83, 0xe1, 1);	/* shr  %rax; and $1,%ecx */
	bytes(a, 0x48, 0x09, 0xc8);			/* or   %rcx,%rax */
	bytes(a, prefix, 0x48, 0x0f, 0x2a, 0xc0);	/* cvtsi2sd %rax,%xmm0 */
	bytes(a, prefix, 0x0f, 0x58, 0xc0);		/* addsd %xmm0,%xmm0 */
	asm_bind(a, done);
	if (is_float)
		x86_widen(a, ASM_V0, ASM_V0);
}

void x86_to_int(struct assembler *a)
{
	bytes(a, 0xf2, 0x48, 0x0f, 0x2c, 0xc0);		/* cvttsd2si %xmm0,%rax */
}

void x86_to_unsigned(struct assembler *a)
{
	asm_label small = asm_new_label(a), done = asm_new_label(a);

	x86_asm_address(a, ASM_A, 0x43e0000000000000);	/* 2^63 */
	x86_vset(a, ASM_64, ASM_V1, ASM_A);
	x86_fcmp(a, ASM_V0, ASM_V1);
	a->ops->branch_short(a, ASM_FLT_UN, small);
	x86_farith(a, ASM_FSUB, ASM_V0, ASM_V1);
	x86_to_int(a);
	a->ops->bit_flip(a, ASM_A, 63);
	a->ops->jump_short(a, done);
	asm_bind(a, small);
	x86_to_int(a);
	asm_bind(a, done);
}

#define MXCSR_DEFAULT 0x1f80

/* xmm0, xmm1, the program's mxcsr, ours */
void x86_float_enter(struct assembler *a, int32_t off)
{
	x86_enc(a, 0, false, 0x0f11, 0, asm_at(ASM_SP, off));		/* movups %xmm0,off(%rsp) */
	x86_enc(a, 0, false, 0x0f11, 1, asm_at(ASM_SP, off + 16));
	x86_enc(a, 0, false, 0x0fae, 3, asm_at(ASM_SP, off + 32));	/* stmxcsr */
	a->ops->store_imm(a, ASM_32, asm_at(ASM_SP, off + 36), MXCSR_DEFAULT);
	x86_enc(a, 0, false, 0x0fae, 2, asm_at(ASM_SP, off + 36));	/* ldmxcsr */
}

void x86_float_leave(struct assembler *a, int32_t off)
{
	x86_enc(a, 0, false, 0x0fae, 2, asm_at(ASM_SP, off + 32));
	x86_enc(a, 0, false, 0x0f10, 0, asm_at(ASM_SP, off));
	x86_enc(a, 0, false, 0x0f10, 1, asm_at(ASM_SP, off + 16));
}
