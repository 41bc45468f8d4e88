/* SPDX-License-Identifier: MIT */
/*
 * Run code with every register and flag given, and look at all of them afterwards. The code ends
 * with a jump to one of two landings, so that a test can see which way it went.
 *
 *	machine_in = ...; machine_body = address; machine_run(); look at machine_out, machine_way
 */
#ifndef JAB_TESTS_MACHINE_H
#define JAB_TESTS_MACHINE_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

struct machine {
	uint64_t gpr[16];		/* in the order of their numbers; 4 is rsp */
	uint64_t flags;
	uint8_t fx[512] __attribute__((aligned(64)));	/* x87, mxcsr, xmm */
	uint8_t high[16][32];		/* ymm, all of it */
};

/* Used by the assembly below, which has no register free to point to them. */
struct machine machine_in __attribute__((visibility("hidden")));
struct machine machine_out __attribute__((visibility("hidden")));
uint64_t machine_body __attribute__((visibility("hidden")));
uint64_t machine_sp __attribute__((visibility("hidden")));
uint32_t machine_has_avx __attribute__((visibility("hidden")));
uint32_t machine_way __attribute__((visibility("hidden")));	/* which landing it was */
static unsigned long machine_steps;

void machine_run(void);
void machine_landing(void);
void machine_landing_2(void);

#define EACH_GPR(op) \
	op(rax, 0) op(rcx, 8) op(rdx, 16) op(rbx, 24) op(rsp, 32) op(rbp, 40) op(rsi, 48) \
	op(rdi, 56) op(r8, 64) op(r9, 72) op(r10, 80) op(r11, 88) op(r12, 96) op(r13, 104) \
	op(r14, 112) op(r15, 120)
#define EACH_YMM(op) \
	op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13) \
	op(14) op(15)
#define LOAD(r, o) "mov machine_in+" #o "(%rip), %" #r "\n"
#define SAVE(r, o) "mov %" #r ", machine_out+" #o "(%rip)\n"
#define LOAD_YMM(n) "vmovdqu machine_in+704+32*" #n "(%rip), %ymm" #n "\n"
#define SAVE_YMM(n) "vmovdqu %ymm" #n ", machine_out+704+32*" #n "(%rip)\n"

_Static_assert(offsetof(struct machine, flags) == 128, "see the assembly");
_Static_assert(offsetof(struct machine, fx) == 192, "see the assembly");
_Static_assert(offsetof(struct machine, high) == 704, "see the assembly");

__asm__(".text\n"
	".globl machine_run\n"
	".hidden machine_run\n"
	".globl machine_landing\n"
	".hidden machine_landing\n"
	".globl machine_landing_2\n"
	".hidden machine_landing_2\n"
	"machine_run:\n"
	"push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"mov %rsp, machine_sp(%rip)\n"
	"fxrstor64 machine_in+192(%rip)\n"
	"cmpl $0, machine_has_avx(%rip)\n"
	"je 1f\n"
	EACH_YMM(LOAD_YMM)
	"1:\n"
	"push machine_in+128(%rip)\n"
	"popfq\n"
	EACH_GPR(LOAD)
	"jmp *machine_body(%rip)\n"
	"machine_landing:\n"
	"movl $1, machine_way(%rip)\n"
	"jmp 3f\n"
	"machine_landing_2:\n"
	"movl $2, machine_way(%rip)\n"
	"3:\n"
	EACH_GPR(SAVE)
	"mov machine_sp(%rip), %rsp\n"
	"pushfq\n"
	"pop machine_out+128(%rip)\n"
	"cld\n"
	"fxsave64 machine_out+192(%rip)\n"
	"cmpl $0, machine_has_avx(%rip)\n"
	"je 2f\n"
	EACH_YMM(SAVE_YMM)
	"2:\n"
	"fninit\n"
	"push $0x1f80\n ldmxcsr (%rsp)\n pop %rax\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"ret\n");

static inline uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static inline void fill_random(void *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)p)[i] = random_word();
}

/* CF PF AF ZF SF DF OF from the bits of n. */
static inline uint64_t flags_from(int n)
{
	static const uint8_t bit[] = { 0, 2, 4, 6, 7, 10, 11 };
	uint64_t flags = 0x202;

	for (int i = 0; i < 7; i++)
		if (n >> i & 1)
			flags |= 1ull << bit[i];
	return flags;
}

/* Everything random, flags from the bits of n, rsp as told. */
static inline void machine_fill(int n, uint64_t sp)
{
	double st[2] = { 1.5, -3.25 };

	fill_random(&machine_in, sizeof(machine_in));
	machine_in.flags = flags_from(n);
	machine_in.gpr[4] = sp;

	/* A valid x87 image with two values on its stack; rounding and masks that aren't usual. */
	__asm__ volatile("fninit; fldl %1; fldl %2; fxsave64 %0; fninit"
			 : "=m"(machine_in.fx) : "m"(st[0]), "m"(st[1]));
	*(uint16_t *)machine_in.fx = 0x0e7f;
	*(uint32_t *)(machine_in.fx + 24) = 0x7fc0;
	for (int i = 0; i < 16; i++)
		memcpy(machine_in.fx + 160 + 16 * i, machine_in.high[i], 16);
	machine_has_avx = __builtin_cpu_supports("avx");
}

/*
 * NULL, or what the code has changed. rsp was in a stack of that size, which was `before`; what is below the red zone may be
 * anything.
 */
static inline const char *machine_changed(const uint8_t *stack, const uint8_t *before, size_t size)
{
	static const char *const names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
					     "r12", "r13", "r14", "r15" };
	size_t red_zone = machine_in.gpr[4] - 128 - (uint64_t)stack;

	for (int i = 0; i < 16; i++)
		if (machine_out.gpr[i] != machine_in.gpr[i])
			return names[i];
	if (machine_out.flags != machine_in.flags)
		return "the flags";
	if (memcmp(machine_out.fx, machine_in.fx, 416))
		return "the floating point state";
	if (machine_has_avx && memcmp(machine_out.high, machine_in.high, sizeof(machine_in.high)))
		return "the vector registers";
	if (memcmp(stack + red_zone, before + red_zone, size - red_zone))
		return "the stack";
	return NULL;
}

/* Fails a test of cmocka. */
#define machine_check(stack, before, size) \
	do { \
		const char *changed_ = machine_changed(stack, before, size); \
		if (changed_) \
			fail_msg("changed: %s", changed_); \
	} while (0)

#define MACHINE_BACK 14

/* What to put behind the code: jmp *0(%rip); address of the first landing. */
static inline const uint8_t *machine_back(void)
{
	static uint8_t back[MACHINE_BACK] = { 0xff, 0x25 };
	uint64_t landing = (uint64_t)machine_landing;

	memcpy(back + 6, &landing, 8);
	return back;
}

#define FLAG_TF 0x100ull

/* A signal after every instruction: its frame is written right below the red zone. */
static inline void machine_on_step(int sig, siginfo_t *info, void *ctx)
{
	greg_t *regs = ((ucontext_t *)ctx)->uc_mcontext.gregs;
	uint64_t pc = regs[REG_RIP];

	if (pc == (uint64_t)machine_landing || pc == (uint64_t)machine_landing_2)
		regs[REG_EFL] &= ~FLAG_TF;
	machine_steps++;
}

/* As machine_run(), but interrupted after every instruction until the landing. */
static inline void machine_run_stepped(void)
{
	struct sigaction sa = { .sa_sigaction = machine_on_step, .sa_flags = SA_SIGINFO };
	struct sigaction old;

	sigaction(SIGTRAP, &sa, &old);
	machine_in.flags |= FLAG_TF;
	machine_run();
	machine_in.flags &= ~FLAG_TF;
	sigaction(SIGTRAP, &old, NULL);
}

#endif
