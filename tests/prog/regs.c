/* SPDX-License-Identifier: MIT */
/*
 * Nothing a program can see may change because of a probe. Every piece of regs.S is run twice from
 * the same random state, once where a probe may sit (site_*) and once where not (ref_*), and all
 * that can be observed afterwards is compared: general registers, flags, x87, SSE, AVX and AVX-512
 * state, the red zone, the stack above. Signals arrive all the time meanwhile.
 *
 * `regs ROUNDS`: prints a checksum of all results (the same in every run when not a PIE) and
 * ends with 0; on a difference says which piece and what, status 3. `regs serve` serves commands,
 * `run N` being N rounds.
 */
#include <cpuid.h>
#include <sys/mman.h>
#include <sys/time.h>
#include "prog.h"

#define STACK_AT ((void *)0x3a0000000000)
#define STACK_LEN 0x20000
#define STACK_TOP 0x10000	/* where %rsp points when a piece is called */
#define RED 128

struct state {			/* regs_run.S knows the offsets */
	uint64_t gpr[16];	/* 4 is %rsp: only stored */
	uint64_t flags;
	uint64_t xmask;
	uint64_t pad0[46];
	uint64_t rsp;		/* at 512: where the stack begins */
	uint64_t pad1[63];
	uint8_t xsave[8192] __attribute__((aligned(64)));
} __attribute__((aligned(64)));
_Static_assert(__builtin_offsetof(struct state, rsp) == 512, "regs_run.S");
_Static_assert(__builtin_offsetof(struct state, xsave) == 1024, "regs_run.S");

void regs_run(struct state *in, struct state *out, void *f);
extern uint64_t regs_pid, regs_scratch;

#define PIECES(X) \
	X(len5) X(len_1_4) X(len_2_3) X(len_3_2) X(len_11111) X(len10) X(len15) X(nop5) X(endbr) \
	X(endbr_push) X(slack1) X(slack3) X(packed1) X(packed3) X(packed4) X(packed_last) \
	X(flags_adc) X(flags_set) X(flags_lahf) X(flags_pushf) X(flags_df) X(flags_incdec) \
	X(flags_none) X(rip_load) X(rip_lea) X(rip_store) X(rip_imm8) X(rip_imm32) X(rip_vector) \
	X(rip_lock) X(thread_pointer) X(jcc_short) X(jcc_near) X(jrcxz) X(loops) X(inner_target) \
	X(entry_target) X(lock_skip) X(jump_table) X(jmp_short) X(many_exits) X(tail_jmp) \
	X(tail_jcc) X(tail_indirect) X(tail_memory) X(call_first) X(call_second) X(call_memory) \
	X(call_reg) X(call_next) X(red_write) X(red_read) X(frame) X(enter) X(rsp_read) X(pop_mem) \
	X(ret_imm) X(sse) X(x87) X(mxcsr) X(string) X(syscall) X(syscall_short) X(avx) X(avx512)

#define DECLARE(n) void site_##n(void), ref_##n(void);
PIECES(DECLARE)

static const struct piece { const char *name; void (*site)(void), (*ref)(void); } pieces[] = {
#define ROW(n) { #n, site_##n, ref_##n },
	PIECES(ROW)
};
#define NPIECES (sizeof(pieces) / sizeof(pieces[0]))

/* Where the parts of the XSAVE area lie that are filled and compared, beyond the legacy 512 bytes. */
static struct { unsigned off, len; } parts[4];
static int nparts;
static uint64_t xmask = 3;

static struct state in, out_ref, out_site;
static uint8_t *stack, stack_in[STACK_LEN], stack_ref[STACK_LEN];
static uint64_t seed = 1, sum = 14695981039346656037u;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void fill(void *at, size_t len)
{
	uint8_t *p = at;
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)(rnd() >> 24);
}

static uint64_t xcr0(void)
{
	uint32_t a, d;

	__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return a | (uint64_t)d << 32;
}

/* AVX, and opmask with both halves of AVX-512: components 2, 5, 6 and 7. */
static void find_parts(void)
{
	static const int wanted[] = { 2, 5, 6, 7 };
	unsigned a, b, c, d, i;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
		printf("no xsave here\n");
		exit(4);
	}
	xmask |= xcr0() & 0xe4;
	for (i = 0; i < 4; i++) {
		if (!(xmask >> wanted[i] & 1))
			continue;
		__cpuid_count(13, wanted[i], a, b, c, d);
		parts[nparts].len = a;
		parts[nparts++].off = b;
	}
}

static int can_run(const struct piece *p)
{
	if (!strcmp(p->name, "avx512"))
		return (xmask & 0xe4) == 0xe4;
	if (!strcmp(p->name, "avx"))
		return __builtin_cpu_supports("avx2");
	return 1;
}

/* Any values, except that no floating point exception may be unmasked. */
static void fill_xsave(uint8_t *x)
{
	uint16_t fcw = 0x37f | (rnd() & 0xc00), fsw = rnd() & 0x7f7f & ~0x80;
	uint32_t mxcsr = 0x1f80 | (rnd() & 0xe07f);
	int i;

	memset(x, 0, sizeof(in.xsave));
	memcpy(x, &fcw, 2);
	memcpy(x + 2, &fsw, 2);
	x[4] = 0xff;
	memcpy(x + 24, &mxcsr, 4);
	for (i = 0; i < 8; i++)
		fill(x + 32 + 16 * i, 10);
	fill(x + 160, 256);
	for (i = 0; i < nparts; i++)
		fill(x + parts[i].off, parts[i].len);
	memcpy(x + 512, &xmask, 8);
}

static void fill_in(void)
{
	fill(in.gpr, sizeof(in.gpr));
	in.flags = (rnd() & 0xcd5) | 2;		/* CF PF AF ZF SF DF OF */
	in.xmask = out_ref.xmask = out_site.xmask = xmask;
	in.rsp = (uint64_t)(stack + STACK_TOP);
	fill_xsave(in.xsave);
	fill(stack_in + STACK_TOP - 4096, 8192);
}

static const char *const gpr_names[16] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
	"r9", "r10", "r11", "r12", "r13", "r14", "r15" };

static void differs(const char *piece, const char *what, uint64_t is, uint64_t should)
{
	bad("site_%s: %s is %#lx, should be %#lx", piece, what, is, should);
}

static void compare_regs(const char *name)
{
	int i;

	for (i = 0; i < 16; i++)
		if (out_site.gpr[i] != out_ref.gpr[i])
			differs(name, gpr_names[i], out_site.gpr[i], out_ref.gpr[i]);
	if (out_site.flags != out_ref.flags)
		differs(name, "rflags", out_site.flags, out_ref.flags);
}

static void compare_bytes(const char *name, const char *what, const uint8_t *is, const uint8_t *should,
			  size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++)
		if (is[i] != should[i])
			bad("site_%s: %s byte %zu is %#x, should be %#x", name, what, i, is[i], should[i]);
}

/* The last x87 instruction's address and operand (bytes 6 to 23) are not part of the promise. */
static void compare_xsave(const char *name)
{
	const uint8_t *is = out_site.xsave, *should = out_ref.xsave;
	int i;

	compare_bytes(name, "x87 control", is, should, 0, 6);
	compare_bytes(name, "mxcsr", is, should, 24, 28);
	compare_bytes(name, "x87/xmm", is, should, 32, 416);
	for (i = 0; i < nparts; i++)
		compare_bytes(name, "wide vector", is, should, parts[i].off, parts[i].off + parts[i].len);
}

static void mix(const void *at, size_t len)
{
	const uint8_t *p = at;
	size_t i;

	for (i = 0; i < len; i++)
		sum = (sum ^ p[i]) * 1099511628211u;
}

/* Where this piece's own red zone begins; below it signals and probes may write. */
#define LOW (STACK_TOP - 8 - RED)
#define HIGH (STACK_TOP + 4096)

static void one(const struct piece *p)
{
	fill_in();
	memcpy(stack + LOW - 64, stack_in + LOW - 64, HIGH - LOW + 64);
	regs_run(&in, &out_ref, (void *)p->ref);
	memcpy(stack_ref + LOW, stack + LOW, HIGH - LOW);

	memcpy(stack + LOW - 64, stack_in + LOW - 64, HIGH - LOW + 64);
	regs_run(&in, &out_site, (void *)p->site);

	compare_regs(p->name);
	compare_xsave(p->name);
	/* The top slot below the stack pointer held the return address and then the flags. */
	compare_bytes(p->name, "red zone", stack, stack_ref, LOW, STACK_TOP - 8);
	compare_bytes(p->name, "stack", stack, stack_ref, STACK_TOP, HIGH);
	mix(out_site.gpr, sizeof(out_site.gpr));
	mix(&out_site.flags, 8);
	mix(out_site.xsave + 160, 256);
	mix(stack + LOW, STACK_TOP - 8 - LOW);
}

static void run(long rounds)
{
	size_t i;

	while (rounds-- > 0 && !bad_why[0])
		for (i = 0; i < NPIECES; i++)
			if (can_run(&pieces[i]))
				one(&pieces[i]);
}

static volatile long ticks;

/* Its own vector work makes the kernel save and restore what the piece holds. */
static void on_tick(int sig)
{
	uint8_t buf[64];

	memset(buf, sig, sizeof(buf));
	__asm__ volatile("" : : "r"(buf) : "memory");
	ticks = ticks + buf[7];
}

static void start_ticks(void)
{
	struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	struct itimerval every = { { 0, 500 }, { 0, 500 } };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

int main(int argc, char **argv)
{
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	int serving = argc > 1 && !strcmp(argv[1], "serve");

	stack = mmap(STACK_AT, STACK_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		     MAP_FIXED_NOREPLACE, -1, 0);
	if (stack != STACK_AT)
		return 4;
	regs_pid = (uint64_t)getpid();
	find_parts();
	start_ticks();
	if (serving)
		serve(run, NULL);
	else
		run(argc > 1 ? atol(argv[1]) : 100);
	setitimer(ITIMER_REAL, &never, NULL);
	if (!serving)
		printf("checksum %016lx\n", sum);
	return verdict();
}
