/* SPDX-License-Identifier: MIT */
/*
 * Instructions done by hand, against the CPU. The code runs with a signal after every instruction;
 * each time the handler looks whether registers, flags and memory are what doing the instruction by
 * hand had foretold, and foretells the next.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <asm/prctl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch/arch.h"
#include "machine.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define STATUS 0x8d5ull		/* CF PF AF ZF SF OF */
#define CODE_SIZE 4096
#define STACK_SIZE 65536
#define CPUS (CPU_TABLE_FEW - 2)

static uint8_t *code_rw, *code_rx;
static uint8_t stack[STACK_SIZE] __attribute__((aligned(16)));
static uint64_t data[64], table[CPU_TABLE_FEW], counters[CPUS], shared;
static struct process_state state_of;

/* ---- memory: read as it is, written to a list ---------------------------------------------- */

struct note { uint64_t at, value; size_t len; };
static struct note notes[8];
static int n_notes;

static int read_here(void *arg, uint64_t at, void *to, size_t len)
{
	memcpy(to, (void *)at, len);
	return 0;
}

static int write_note(void *arg, uint64_t at, const void *from, size_t len)
{
	assert_true(n_notes < (int)ARRAY_SIZE(notes) && len <= 8);
	notes[n_notes] = (struct note){ .at = at, .len = len };
	memcpy(&notes[n_notes++].value, from, len);
	return 0;
}

static int add_note(void *arg, uint64_t at, uint64_t n)
{
	uint64_t v = *(uint64_t *)at + n;

	return write_note(arg, at, &v, 8);
}

static const struct cpu_memory memory = { NULL, read_here, write_note, add_note };

/* ---- in step ------------------------------------------------------------------------------- */

static struct cpu foretold;
static bool know, strict;
static uint64_t undefined;	/* flags that the instruction leaves open */
static uint64_t tls;
static int compared, diverted, wrong;
static char why[256];

static struct cpu look(const greg_t *g)
{
	static const int number[16] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};
	struct cpu c = { .pc = g[REG_RIP], .flags = g[REG_EFL], .tls = tls };

	for (int i = 0; i < 16; i++)
		c.reg[i] = g[number[i]];
	return c;
}

static void complain(const char *what, uint64_t got, uint64_t want)
{
	if (!wrong++)
		snprintf(why, sizeof(why), "%s: %#lx by the CPU, %#lx by hand, before %#lx", what, got, want,
			 foretold.pc - (uint64_t)code_rx);
}

/* The kernel ends a sequence of ours at each signal: then the counter is elsewhere, and that is all. */
static void compare(const struct cpu *now)
{
	if (now->pc != foretold.pc && !strict) {
		diverted++;
		foretold.pc = now->pc;
	}
	if (now->pc != foretold.pc)
		complain("pc", now->pc, foretold.pc);
	for (int i = 0; i < 16; i++)
		if (now->reg[i] != foretold.reg[i])
			complain("register", now->reg[i], foretold.reg[i]);
	if ((now->flags ^ foretold.flags) & STATUS & ~undefined)
		complain("flags", now->flags & STATUS, foretold.flags & STATUS);
	for (int i = 0; i < n_notes; i++)
		if (memcmp((void *)notes[i].at, &notes[i].value, notes[i].len) && !(diverted && !strict))
			complain("memory", *(uint64_t *)notes[i].at, notes[i].value);
	compared++;
}

static void on_step(int sig, siginfo_t *info, void *ctx)
{
	greg_t *regs = ((ucontext_t *)ctx)->uc_mcontext.gregs;
	struct cpu now = look(regs);

	if (know)
		compare(&now);
	know = false;
	if (now.pc == (uint64_t)machine_landing) {
		regs[REG_EFL] &= ~FLAG_TF;
		return;
	}
	if (now.pc - (uint64_t)code_rx >= CODE_SIZE)
		return;
	foretold = now;
	n_notes = 0;
	know = arch_x86_64.perform(&foretold, &memory) == 0;
	if (!know && !wrong++)
		snprintf(why, sizeof(why), "not known: code+%#lx", now.pc - (uint64_t)code_rx);
}

static int set_up(void **state)
{
	struct sigaction sa = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	int fd = memfd_create("code", 0);

	assert_int_equal(ftruncate(fd, CODE_SIZE), 0);
	code_rw = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	code_rx = mmap(NULL, CODE_SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	close(fd);
	assert_int_equal(syscall(SYS_arch_prctl, ARCH_GET_FS, &tls), 0);
	return sigaction(SIGTRAP, &sa, NULL);
}

/* Behind the code: back to the landing. */
static void put_end(size_t len)
{
	uint64_t landing = (uint64_t)machine_landing;

	memcpy(code_rw + len, "\xff\x25\0\0\0\0", 6);
	memcpy(code_rw + len + 6, &landing, 8);
}

static void prepare(int flags)
{
	fill_random(stack, sizeof(stack));
	fill_random(data, sizeof(data));
	machine_fill(flags, (uint64_t)stack + STACK_SIZE - 1024);
	machine_body = (uint64_t)code_rx;
	wrong = diverted = 0;
	know = false;
}

static void run(const char *what)
{
	machine_in.flags |= FLAG_TF;
	machine_run();
	if (wrong)
		fail_msg("%s: %s", what, why);
}

/* ---- single forms -------------------------------------------------------------------------- */

/* rcx points to data, rdx to a place in the code (+0x80: a jump to the end). */
struct row { const char *what, *hex; uint64_t undefined; };

#define AF 0x10
#define OF 0x800

static const struct row rows[] = {
	{ "add rax, rbx", "48 01 d8", 0 },
	{ "add ebx, [rcx+8]", "03 59 08", 0 },
	{ "adc rax, rbx", "48 11 d8", 0 },
	{ "sbb esi, edi", "19 fe", 0 },
	{ "sub rsi, [rcx+64]", "48 2b 71 40", 0 },
	{ "sub [rcx], r9d", "44 29 09", 0 },
	{ "cmp rsi, imm", "48 81 fe 00 ff 00 7f", 0 },
	{ "cmp [rcx], 0", "48 83 39 00", 0 },
	{ "cmp [rcx+5], eax", "39 41 05", 0 },
	{ "add al, 127", "04 7f", 0 },
	{ "and eax, imm", "25 ff 00 ff 00", AF },
	{ "and esi, imm", "81 e6 ff ff 0f 00", AF },
	{ "or rdx, rax", "48 09 c2", AF },
	{ "xor rax, rdx", "48 31 d0", AF },
	{ "xor ecx, ecx", "31 c9", AF },
	{ "test rcx, rcx", "48 85 c9", AF },
	{ "test eax, imm", "a9 00 00 08 00", AF },
	{ "test rax, -imm", "48 a9 00 00 ff ff", AF },
	{ "add [rcx], imm", "48 81 01 28 00 00 00", 0 },
	{ "inc edi", "ff c7", 0 },
	{ "dec r8d", "41 ff c8", 0 },
	{ "dec ecx", "ff c9", 0 },
	{ "lock inc [rcx]", "f0 48 ff 01", 0 },
	{ "lock inc [rcx+8]", "f0 48 ff 41 08", 0 },
	{ "shl rdx, 32", "48 c1 e2 20", AF | OF },
	{ "shr rax, 12", "48 c1 e8 0c", AF | OF },
	{ "shr eax, 1", "c1 e8 01", AF },
	{ "shl rsi, 1", "48 c1 e6 01", AF },
	{ "mov [rcx+16], eax", "89 41 10", 0 },
	{ "mov [rcx+0x80], r14", "4c 89 b1 80 00 00 00", 0 },
	{ "mov eax, [rcx]", "8b 01", 0 },
	{ "mov [rcx+4], imm", "c7 41 04 78 56 34 82", 0 },
	{ "mov q[rcx+4], imm", "48 c7 41 04 78 56 34 82", 0 },
	{ "mov eax, imm", "b8 86 00 00 80", 0 },
	{ "mov r10, imm64", "49 ba 01 02 03 04 05 06 07 88", 0 },
	{ "movslq rax, ebx", "48 63 c3", 0 },
	{ "movslq rbx, [rcx]", "48 63 19", 0 },
	{ "lea rax, [rcx+rbx*8-8]", "48 8d 44 d9 f8", 0 },
	{ "lea r12, [rip+0x10]", "4c 8d 25 10 00 00 00", 0 },
	{ "lea eax, [rbx]", "8d 03", 0 },
	{ "prefetchw [rcx+0x200]", "0f 0d 89 00 02 00 00", 0 },
	{ "push, pop", "41 53 41 5b", 0 },
	{ "push imm by pop", "50 59 58 50 58", 0 },
	{ "pushf, popf", "9c 9d", 0 },
	{ "lahf, seto, sahf", "9f 0f 90 c0 04 7f 9e", 0 },
	{ "setbe r9b", "41 0f 96 c1", 0 },
	{ "push [rsp+8], pop [rsp]", "ff b4 24 08 00 00 00 8f 04 24", 0 },
	{ "push [rcx], pop rax", "ff 31 58", 0 },
	{ "call over int3, pop", "e8 01 00 00 00 cc 58", 0 },
	{ "jo", "70 01 90", 0 }, { "jno", "71 01 90", 0 }, { "jc", "72 01 90", 0 }, { "jnc", "73 01 90", 0 },
	{ "jz", "74 01 90", 0 }, { "jnz", "75 01 90", 0 }, { "jbe", "76 01 90", 0 }, { "ja", "77 01 90", 0 },
	{ "js", "78 01 90", 0 }, { "jns", "79 01 90", 0 }, { "jp", "7a 01 90", 0 }, { "jnp", "7b 01 90", 0 },
	{ "jl", "7c 01 90", 0 }, { "jge", "7d 01 90", 0 }, { "jle", "7e 01 90", 0 }, { "jg", "7f 01 90", 0 },
	{ "ja rel32", "0f 87 01 00 00 00 90", 0 },
	{ "jrcxz, not", "e3 01 90", 0 },
	{ "jrcxz", "31 c9 e3 01 90", AF },
	{ "jmp rdx", "ff e2", 0 },
	{ "call rdx, pop", "ff d2 58", 0 },
};

static size_t put_hex(const char *hex)
{
	size_t n = 0;
	unsigned byte;

	for (; sscanf(hex, "%2x", &byte) == 1; hex += 3) {
		code_rw[n++] = byte;
		if (!hex[2])
			break;
	}
	return n;
}

static void forms_are_those_of_the_cpu(void **state)
{
	strict = true;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(code_rw, 0xcc, CODE_SIZE);
		put_end(put_hex(rows[i].hex));
		put_end(0x80);
		undefined = rows[i].undefined;
		compared = 0;
		for (int f = 0; f < 128; f++) {
			prepare(f);
			if (f & 1)
				data[0] = data[8] = machine_in.gpr[6] = f >> 1;	/* equal and small ones, too */
			if (f % 3 == 0)
				machine_in.gpr[0] = 0;
			machine_in.gpr[1] = (uint64_t)data;
			machine_in.gpr[2] = (uint64_t)code_rx + 0x80;
			run(rows[i].what);
		}
		assert_true(compared >= 128);
	}
	undefined = 0;
}

static void others_are_refused(void **state)
{
	static const char *const not_ours[] = {
		"0f 05", "cc", "f4", "0f 0b", "f0 48 01 01", "c5 f8 77", "66 90", "65 48 8b 01", "f3 a4",
		"0f a2", "67 8b 01", "c1 f8 03", "88 e0", "f0 ff 01",
	};

	for (size_t i = 0; i < ARRAY_SIZE(not_ours); i++) {
		struct cpu c = { .pc = (uint64_t)code_rx }, before;

		memset(code_rw, 0x90, 64);
		put_hex(not_ours[i]);
		c.reg[1] = (uint64_t)data;
		before = c;
		n_notes = 0;
		assert_int_equal(arch_x86_64.perform(&c, &memory), -ENOTSUP);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

/* ---- whole bodies -------------------------------------------------------------------------- */

static void count_body(bool has_rseq)
{
	struct count_spec spec = {
		.rseq_off = __rseq_offset, .rseq_sig = RSEQ_SIG, .has_rseq = has_rseq,
		.cpu_table = (uint64_t)table, .shared = (uint64_t)&shared, .fast = (uint64_t)&state_of.fast,
	};

	state_of.fast = 1;
	for (int i = 0; i < CPUS; i++)
		table[i] = (uint64_t)&counters[i];
	memset(code_rw, 0xcc, CODE_SIZE);
	put_end(arch_x86_64.emit_count(code_rw, (uint64_t)code_rx, &spec));
	strict = !has_rseq;
	shared = 0;
	for (int f = 0; f < 128; f++) {
		prepare(f);
		run("count");
		assert_true(!has_rseq || diverted);
		assert_memory_equal(machine_out.gpr, machine_in.gpr, sizeof(machine_in.gpr));
	}
	assert_int_equal(shared, 128);
}

static void counting_is_foretold(void **state)
{
	count_body(false);
	if (__rseq_size)
		count_body(true);
}

/* Registers, flags and the stack pointer are as before, and it was counted once: no CPU needed. */
static void a_body_is_done_without_a_cpu(void **state)
{
	struct count_spec spec = { .shared = (uint64_t)&shared };
	int len = arch_x86_64.emit_count(code_rw, (uint64_t)code_rx, &spec);

	for (int f = 0; f < 128; f++) {
		struct cpu c = { .pc = (uint64_t)code_rx, .tls = tls }, before;

		fill_random(c.reg, sizeof(c.reg));
		c.reg[4] = (uint64_t)stack + STACK_SIZE / 2;
		c.flags = flags_from(f);
		before = c;
		shared = f;
		while (c.pc != (uint64_t)code_rx + len) {
			n_notes = 0;
			assert_int_equal(arch_x86_64.perform(&c, &memory), 0);
			for (int i = 0; i < n_notes; i++)
				memcpy((void *)notes[i].at, &notes[i].value, notes[i].len);
		}
		c.pc = before.pc;
		assert_memory_equal(&c, &before, sizeof(c));
		assert_int_equal(shared, f + 1);
	}
}

#define VM 0x100ull
#define SETTLS 0x80000ull
#define SETTID 0x100000ull
#define TID_OFF 0x2d0
#define CPU_AT 40		/* a block's cpu_id, in words from data */

/* The block of the new thread is in our data, so that its CPU number can be seen. */
static const struct raise_spec raise_all = {
	.fast = (uint64_t)data, .raised = (uint64_t)(data + 1), .tid_off = TID_OFF, .rseq_off = 8 * CPU_AT - 4, .has_rseq = true,
};

/* clone3's arguments, where the C library has them: on the stack above. */
static uint64_t *clone_args(void)
{
	return (uint64_t *)((machine_in.gpr[4] + 64) & ~7ull);
}

static void set_clone(enum clone_abi abi, uint64_t flags, uint64_t tls, uint64_t ptid)
{
	uint64_t *args = clone_args();

	args[0] = flags;
	args[3] = ptid;
	args[7] = tls;
	machine_in.gpr[7] = abi == CLONE_ABI_CLONE3 ? (uint64_t)args : flags;
	machine_in.gpr[6] = 64;
	machine_in.gpr[8] = tls;
	machine_in.gpr[2] = ptid;
	data[0] = 7;
	data[1] = 0;
	data[CPU_AT] = 3;
}

/* Runs it as the CPU and by hand. Is what is to come a stranger? */
static bool raises(const struct raise_spec *spec)
{
	memset(code_rw, 0xcc, CODE_SIZE);
	put_end(arch_x86_64.emit_raise(code_rw, spec));
	run("raise");
	assert_memory_equal(machine_out.gpr, machine_in.gpr, sizeof(machine_in.gpr));
	assert_true(data[0] == 7 ? data[1] == 0 : data[0] == 0 && data[1] == 1);
	return !data[0];
}

static bool clone_raises(enum clone_abi abi, bool own_numbers, uint64_t flags, uint64_t tls, uint64_t ptid)
{
	struct raise_spec spec = raise_all;

	spec.abi = abi;
	spec.own_numbers = own_numbers;
	prepare(random_word() % 128);
	set_clone(abi, flags, tls, ptid);
	return raises(&spec);
}

static void raising_is_foretold(void **state)
{
	struct raise_spec spec = raise_all;

	strict = true;
	undefined = AF;			/* test leaves it open; popf brings back what counts */
	for (spec.abi = CLONE_ABI_VFORK; spec.abi <= CLONE_ABI_SET_FS; spec.abi++)
		for (int f = 0; f < 128; f++) {
			prepare(f);
			set_clone(spec.abi, VM, 0, 0);
			if (spec.abi == CLONE_ABI_SET_FS)
				machine_in.gpr[7] = 0xbeef00001002;	/* the kernel looks at the lower half */
			assert_true(raises(&spec));
		}
	undefined = 0;
}

static void strangers_are_told(void **state)
{
	const uint64_t block = (uint64_t)data;

	strict = true;
	undefined = AF;
	for (enum clone_abi abi = CLONE_ABI_CLONE; abi <= CLONE_ABI_CLONE3; abi++) {
		assert_false(clone_raises(abi, false, 17, 0, 0));		/* a fork */
		assert_false(clone_raises(abi, false, SETTLS, block, 0));
		assert_true(clone_raises(abi, false, VM, block, 0));
		assert_true(clone_raises(abi, true, VM, block, 0));
		assert_true(clone_raises(abi, false, VM | SETTID, block, block + TID_OFF));
		assert_true(clone_raises(abi, false, VM | SETTLS, block, block + TID_OFF));
		assert_false(clone_raises(abi, true, VM | SETTLS, block, 0));
		assert_false(clone_raises(abi, false, VM | SETTLS | SETTID, block, block + TID_OFF));
		/* With a number, but not where the others have it: no block of theirs. Nothing is written there. */
		assert_true(clone_raises(abi, false, VM | SETTLS | SETTID, 16, 16 + TID_OFF + 4));
		assert_true(clone_raises(abi, false, VM | SETTLS | SETTID, block, block + 0x30));
		assert_true(clone_raises(abi, false, VM | SETTLS | SETTID, 0, 0x404000));
		assert_true(clone_raises(abi, false, VM | SETTLS | SETTID, block, 0));
		assert_int_equal(data[CPU_AT], 3);
	}
	undefined = 0;
}

/* A new thread finds no CPU number of the one that had its block before. */
static void new_threads_have_no_cpu(void **state)
{
	struct raise_spec spec = raise_all;

	strict = true;
	undefined = AF;
	for (enum clone_abi abi = CLONE_ABI_CLONE; abi <= CLONE_ABI_CLONE3; abi++) {
		uint64_t flags = VM | SETTLS | SETTID, block = (uint64_t)data;

		assert_false(clone_raises(abi, false, flags, block, block + TID_OFF));
		assert_int_equal((uint32_t)data[CPU_AT], -1u);
		assert_true(clone_raises(abi, false, flags, block, block + TID_OFF + 8));
		assert_int_equal(data[CPU_AT], 3);

		spec.abi = abi;			/* there are no CPU numbers in blocks */
		spec.has_rseq = false;
		prepare(1);
		set_clone(abi, flags, block, block + TID_OFF);
		assert_false(raises(&spec));
		assert_int_equal(data[CPU_AT], 3);

		spec.tid_off = 0;		/* nor thread numbers */
		set_clone(abi, flags, block, block);
		assert_true(raises(&spec));
		spec = raise_all;
	}
	undefined = 0;
}

/* What the kernel refuses is not looked at, and what may not be there is not read. */
static void bad_arguments_are_left_to_the_kernel(void **state)
{
	struct raise_spec spec = raise_all;

	strict = true;
	undefined = AF;
	spec.abi = CLONE_ABI_CLONE3;
	for (int way = 0; way < 2; way++) {
		prepare(0);
		set_clone(spec.abi, VM, 0, 0);
		machine_in.gpr[7] = way ? 16 : 0;
		machine_in.gpr[6] = way ? 8 : 88;
		assert_false(raises(&spec));
	}
	for (int way = 0; way < 3; way++) {
		prepare(0);
		set_clone(spec.abi, VM, 0, 0);
		machine_in.gpr[7] = way == 0 ? 16 : way == 1 ? machine_in.gpr[4] - 1 : machine_in.gpr[4] + 4096 - 63;
		assert_true(raises(&spec));
	}
	spec.abi = CLONE_ABI_SET_FS;
	prepare(0);
	set_clone(spec.abi, VM, 0, 0);
	machine_in.gpr[7] = 0x1003;
	assert_false(raises(&spec));
	undefined = 0;
}

/* Two ranges, and one that was taken back before. */
static bool forgets(enum forget_abi abi, uint64_t at, uint64_t len, uint64_t rdx, uint64_t r10)
{
	static const uint64_t before[] = { 0x500000, 0x2000 - 7, 0, 0, 0x700000, 0x1000 - 7 };
	struct forget_spec spec = { .table = (uint64_t)data, .n = 3, .abi = abi };
	bool gone;
	int n;

	memset(code_rw, 0xcc, CODE_SIZE);
	n = arch_x86_64.emit_forget(code_rw, &spec);
	assert_in_range(n, 1, COUNT_MAX);
	put_end(n);
	prepare(n & 127);
	memcpy(data, before, sizeof(before));
	machine_in.gpr[7] = at;
	machine_in.gpr[6] = len;
	machine_in.gpr[2] = rdx;
	machine_in.gpr[10] = r10;
	run("forget");
	assert_memory_equal(machine_out.gpr, machine_in.gpr, sizeof(machine_in.gpr));
	gone = !data[1];
	assert_int_equal(data[0], before[0]);
	assert_int_equal(data[1], gone ? 0 : before[1]);
	assert_int_equal(data[3], 0);
	assert_int_equal(data[5], gone ? 0 : before[5]);
	return gone;
}

static void forgetting_is_foretold(void **state)
{
	strict = true;
	undefined = AF;
	for (int abi = FORGET_RANGE; abi <= FORGET_MAP; abi++) {
		uint64_t none = 0, fixed = 0x10;

		assert_true(forgets(abi, 0x500000, 0x1000, none, fixed));
		assert_true(forgets(abi, 0x501000, 1, none, fixed));
		assert_true(forgets(abi, 0x4ff000, 0x1001, none, fixed));
		assert_true(forgets(abi, 0x600000, 0x200000, none, fixed));
		assert_true(forgets(abi, 0x700000, 0x1000, none, fixed));
		assert_true(forgets(abi, 0, ~0ull, none, fixed));
		assert_false(forgets(abi, 0x4ff000, 0x1000, none, fixed));
		assert_false(forgets(abi, 0x502000, 0x1000, none, fixed));
		assert_false(forgets(abi, 0x701000, 0x7000000, none, fixed));
		assert_false(forgets(abi, 0, 0x1000, none, fixed));
	}
	assert_false(forgets(FORGET_PROTECT, 0x500000, 0x1000, 5, 0));
	assert_true(forgets(FORGET_PROTECT, 0x500000, 0x1000, 2, 0));
	assert_false(forgets(FORGET_MAP, 0x500000, 0x1000, 0, 0x100022));
	undefined = 0;
}

/* Which of both does a call of this number, with a range that meets one of ours? Bit 0: raises, bit 1: forgets. */
static int does(uint64_t number, bool guarded)
{
	struct gate_spec spec = { .raise = { .fast = (uint64_t)(data + 8), .raised = (uint64_t)(data + 9), .abi = CLONE_ABI_CLONE },
				  .forget = { .table = (uint64_t)data, .n = 1, .abi = FORGET_MAP }, .forgets = guarded };
	int n;

	memset(code_rw, 0xcc, CODE_SIZE);
	n = arch_x86_64.emit_gate(code_rw, &spec);
	assert_in_range(n, 1, GATE_MAX);
	put_end(n);
	prepare(number & 127);
	data[0] = 0x500000;
	data[1] = 0x1000 - 7;
	data[8] = 7;
	data[9] = 0;
	machine_in.gpr[0] = number;
	machine_in.gpr[7] = 0x500000;
	machine_in.gpr[6] = 0x1000;
	machine_in.gpr[2] = machine_in.gpr[10] = 0;
	run("gate");
	assert_memory_equal(machine_out.gpr, machine_in.gpr, sizeof(machine_in.gpr));
	assert_true(data[8] ? !data[9] : data[9]);
	return (data[8] ? 0 : 1) | (data[1] ? 0 : 2);
}

static void gates_are_foretold(void **state)
{
	static const uint64_t raising[] = { 56, 58, 158, 435 }, forgetting[] = { 9, 10, 11, 25, 28, 329 };

	strict = true;
	undefined = AF;
	for (uint64_t number = 0; number < 500; number++) {
		int want = 0;

		for (int i = 0; i < 4; i++)
			want |= number == raising[i];
		for (int i = 0; i < 6; i++)
			want |= (number == forgetting[i]) << 1;
		assert_int_equal(does(number, true), want);
		assert_int_equal(does(number, false), want & 1);
		assert_int_equal(does(0xdead00000000 | number, true), want);	/* as the kernel sees it */
	}
	assert_int_equal(does(-1, true), 0);
	undefined = 0;
}

/* Does a call with this first argument, and this number, hush? */
static bool hushes_with(uint64_t number, uint64_t arg, uint64_t arg2, uint8_t first, uint8_t n, uint8_t second, uint32_t wanted)
{
	struct hush_spec spec = { (uint64_t)data, (uint64_t)(data + 1), (uint64_t)(data + 2), first, n, second, wanted };
	int len;

	memset(code_rw, 0xcc, CODE_SIZE);
	len = arch_x86_64.emit_hush(code_rw, &spec);
	assert_in_range(len, 1, HUSH_MAX);
	put_end(len);
	prepare(arg & 127);
	data[0] = 7ull << 32;
	data[2] = 7ull << 32 | 5;
	machine_in.gpr[0] = number;
	machine_in.gpr[7] = arg;
	machine_in.gpr[6] = arg2;
	run("hush");
	assert_memory_equal(machine_out.gpr, machine_in.gpr, sizeof(machine_in.gpr));
	assert_int_equal(data[0] >> 32, 7);
	assert_int_equal(data[2], 7ull << 32 | ((uint32_t)data[0] ? 0 : 5));
	return (uint32_t)data[0];
}

static bool hushes(uint64_t number, uint64_t arg, uint8_t first, uint8_t n, uint32_t wanted)
{
	return hushes_with(number, arg, 1, first, n, 0, wanted);
}

static void hushing_is_foretold(void **state)
{
	strict = true;
	undefined = AF;
	for (uint64_t arg = 0; arg < 64; arg++) {
		assert_int_equal(hushes(157, arg, 22, 1, 0), arg == 22);
		assert_int_equal(hushes(157, arg, 22, 1, 157), arg == 22);
		assert_int_equal(hushes(317, arg, 0, 2, 317), arg < 2);
		assert_int_equal(hushes(0xdead00000000 | 317, 0xbeef00000000 | arg, 0, 2, 317), arg < 2);	/* as the kernel sees it */
		assert_false(hushes(158, arg, 22, 1, 157));
		for (uint64_t arg2 = 0; arg2 < 4; arg2++)
			assert_int_equal(hushes_with(157, arg, arg2, 22, 1, 1, 157), arg == 22 && arg2 == 1);
	}
	assert_false(hushes(317, -1, 0, 2, 317));
	undefined = 0;
}

static __thread uint64_t *g;

/* Does the body run, with so much left of a stack? The hit is counted here or there. */
static bool has_space(uint32_t need, uint64_t left, int flags)
{
	struct space_spec spec = { .g_off = (char *)&g - (char *)tls, .need = need, .instead = (uint64_t)&data[2], .body = 4 };

	memset(code_rw, 0xcc, CODE_SIZE);
	assert_int_equal(arch_x86_64.emit_space(code_rw, &spec), SPACE_LEN);
	memcpy(code_rw + SPACE_LEN, "\xf0\x48\xff\x07", 4);	/* lock incq (%rdi) */
	put_end(SPACE_LEN + 4);
	prepare(flags);
	machine_in.gpr[7] = (uint64_t)&data[3];
	data[0] = machine_in.gpr[4] - left;
	data[2] = data[3] = 0;
	undefined = AF;
	run("space");
	assert_int_equal(data[2] + data[3], 1);
	assert_memory_equal(machine_out.gpr, machine_in.gpr, sizeof(machine_in.gpr));
	return data[3];
}

static void space_is_looked_at(void **state)
{
	strict = true;
	for (int f = 0; f < 128; f++) {
		uint32_t need = 160 + 8 * (random_word() % 70);

		g = (uint64_t *)data;
		assert_true(has_space(need, need, f));
		assert_true(has_space(need, need + 8 * (random_word() % 9000), f));
		assert_false(has_space(need, need - 1, f));
		assert_false(has_space(need, 8 * (random_word() % (need / 8)), f));
		assert_false(has_space(need, 0, f));
		assert_true(has_space(need, -8, f));		/* another stack */
		assert_true(has_space(need, -(random_word() >> 20), f));
		g = NULL;
		assert_true(has_space(need, 8, f));
	}
	undefined = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forgetting_is_foretold),
		cmocka_unit_test(gates_are_foretold),
		cmocka_unit_test(hushing_is_foretold),
		cmocka_unit_test(space_is_looked_at),
		cmocka_unit_test(forms_are_those_of_the_cpu),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test(counting_is_foretold),
		cmocka_unit_test(a_body_is_done_without_a_cpu),
		cmocka_unit_test(raising_is_foretold),
		cmocka_unit_test(strangers_are_told),
		cmocka_unit_test(new_threads_have_no_cpu),
		cmocka_unit_test(bad_arguments_are_left_to_the_kernel),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
