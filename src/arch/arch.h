/* SPDX-License-Identifier: MIT */
/*
 * Everything that depends on the CPU, as one table. All functions are pure: bytes in, bytes out. Addresses are only
 * numbers to compute with; nothing is dereferenced and no process is accessed (but see thread.h).
 *
 *	instructions		decode, relocate, text; idioms.h: code that is known by its bytes
 *	jumps			jumps.h: length, reach, forms, searches for branches
 *	registers		regs.h: names, DWARF's numbers; operand.h: operands as text
 *	calling conventions	call.h: of C and of Go
 *	unwinding		unwind.h: what instructions do to the stack
 *	files			elf.h: relocations, thread-local storage
 *	threads			thread.h: registers in ptrace, the system-call ABI; sigframe.h; batch.h
 *	clock			clock.h
 *	code for pads		emit_...; asm.h: the assembler of programs of the language
 */
#ifndef JAB_ARCH_H
#define JAB_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/batch.h"
#include "arch/call.h"
#include "arch/clock.h"
#include "arch/cpu.h"
#include "arch/elf.h"
#include "arch/event.h"
#include "arch/idioms.h"
#include "arch/jumps.h"
#include "arch/operand.h"
#include "arch/park.h"
#include "arch/regs.h"
#include "arch/sigframe.h"
#include "arch/thread.h"
#include "arch/unwind.h"

enum insn_kind {
	INSN_PLAIN,		/* continues with the next instruction */
	INSN_NOP,		/* any nop form, one byte or many */
	INSN_INT3,
	INSN_ENDBR,		/* landing mark of indirect branches (endbr64): never displaced */
	INSN_JMP,		/* direct jump; target is set */
	INSN_JCC,		/* conditional jump; target is set */
	INSN_LOOP,		/* loop, loopz, loopnz, jrcxz, jecxz: rel8 only; target is set */
	INSN_XBEGIN,		/* target is the abort address */
	INSN_CALL,		/* direct call; target is set */
	INSN_JMP_IND,		/* jmp *reg, jmp *mem */
	INSN_CALL_IND,		/* call *reg, call *mem */
	INSN_RET,		/* ret, rep ret, ret imm16 */
	INSN_SYSCALL,		/* syscall, sysenter, int 0x80 */
	INSN_STOP,		/* ud2, hlt, int imm...: does not continue with the next instruction */
};

enum insn_flags {
	INSN_PCREL = 1 << 0,	/* direct branch, or memory relative to rip (target is set) */
	INSN_MAY_FAULT = 1 << 1, /* touches memory other than at a fixed distance from rsp, rbp,
				    rip or fs; or divides; or is privileged */
	INSN_USES_SP = 1 << 2,	/* reads or writes the stack or the stack pointer */
	INSN_READS_FLAGS = 1 << 3,
	INSN_WRITES_FLAGS = 1 << 4, /* overwrites all of CF PF AF ZF SF OF */
	INSN_LITERAL = 1 << 5,	/* loads from `target`, which is beside the code: a constant, no instruction */
	INSN_EXCLUSIVE = 1 << 6, /* load-exclusive: up to INSN_EXCLUSIVE_END no other memory may be written */
	INSN_EXCLUSIVE_END = 1 << 7,
};

struct insn {
	uint8_t len;
	uint8_t kind;		/* enum insn_kind */
	uint8_t flags;		/* enum insn_flags */
	uint8_t rel_off;	/* offset of the rel8/rel32/disp32 in the bytes; 0: there is none */
	uint8_t rel_size;	/* 1 or 4; 0: there is none */
	uint64_t target;	/* of a direct branch or of a pc-relative operand */
};

#define INSN_MAX 15		/* longest instruction */
#define RELOC_MAX 72		/* longest relocated form of one instruction */

/* Parameters of a pad's counting code. All addresses are those of the target. */
struct count_spec {
	int32_t rseq_off;	/* rseq area from the thread pointer; used if has_rseq */
	uint32_t rseq_sig;	/* the signature that the kernel expects before an abort address */
	bool has_rseq;		/* every thread has registered with rseq: count per CPU without a lock */
	bool many_cpus;		/* as in struct event_spec */
	uint64_t cpu_table;	/* u64 table[] by the lower bits of cpu_id: base address of that CPU's counters, 0: it has
				   none. The target can't write it */
	uint64_t fast;		/* process_state.fast */
	uint64_t shared;	/* address of the shared counter, for threads without rseq registration and for the few hits
				   that were interrupted in the sequence. Hits = sum over the CPUs + this */
	uint32_t index;		/* this counter is at base + 8 * index */
};

/* Which system call makes the new thread; its arguments are in their registers. */
enum clone_abi {
	CLONE_ABI_VFORK,	/* always a child on its parent's thread block */
	CLONE_ABI_CLONE,	/* clone(flags, ...) */
	CLONE_ABI_CLONE3,	/* clone3(args, ...) */
	CLONE_ABI_SET_FS,	/* arch_prctl(code, ...): no new thread, but another thread block for this one */
};

struct raise_spec {
	uint64_t fast;		/* process_state.fast: becomes 0 */
	uint64_t raised;	/* u32 that the tracer reads: becomes 1 */
	int32_t tid_off;	/* offset of the tid in a thread block; 0: not known, no new block is relied on */
	int32_t rseq_off;	/* as in count_spec: a new thread's block gets an invalid CPU number there, */
	bool has_rseq;		/* if this is set */
	enum clone_abi abi;
	bool own_numbers;	/* new threads write their tids into their blocks themselves */
};

/* The system call that can unmap or protect pages that pads load from; its arguments are in their registers. */
enum forget_abi {
	FORGET_RANGE,		/* munmap, mremap, madvise: all pages in (address, length) */
	FORGET_PROTECT,		/* mprotect, pkey_mprotect: if PROT_READ is not set */
	FORGET_MAP,		/* mmap: if MAP_FIXED is set */
};

struct forget_spec {
	uint64_t table;		/* array of { u64 start, length }; the lengths become 0 */
	uint32_t n;
	enum forget_abi abi;
};

/* The system call that may take known memory away (arch/known.h), or make what is known of it doubtful. */
enum unmap_abi {
	UNMAP_RANGE,		/* munmap: (address, length) */
	UNMAP_MOVE,		/* mremap: likewise; with MREMAP_FIXED, anything */
	UNMAP_PROTECT,		/* mprotect: if PROT_READ is not set; with PROT_EXEC there may be new code, which makes calls unseen */
	UNMAP_MAP,		/* mmap: if MAP_FIXED is set; PROT_EXEC as above */
	UNMAP_ADVISE,		/* madvise: unless private anonymous memory stays readable with this advice */
	UNMAP_BRK,		/* brk: what is above the new break */
	UNMAP_ATTACH,		/* shmat: if SHM_REMAP is set */
	UNMAP_FORBID,		/* prctl: if it forbids system calls; then known memory can't be given up properly any more */
	UNMAP_ALWAYS,		/* process_madvise, seccomp */
	UNMAP_OFF,		/* userfaultfd, io_uring_setup, pkey_mprotect */
	UNMAP_ANY,		/* the number is in its register */
};

struct unmap_spec {
	uint64_t known;		/* struct known */
	uint64_t routine;	/* BLOB_UNMAP */
	uint64_t quiet;		/* process_state.quiet */
	uint32_t ncpus;
	enum unmap_abi abi;
};

/* Code before a `syscall` of any number; the number and the arguments are in their registers. */
struct gate_spec {
	struct raise_spec raise;	/* what is done for any call that creates a thread or process */
	struct forget_spec forget;	/* and for any call that changes a mapping, */
	bool forgets;			/* if this is set */
};

/* Code before a system call that may forbid other ones; its arguments are in their registers. */
struct hush_spec {
	uint64_t word;		/* address of a flag of struct process_state: becomes 1, */
	uint64_t told;		/* address of a u32 that the tracer reads: becomes 1, */
	uint64_t clears;	/* address of a u32 that becomes 0 (0: there is none), */
	uint8_t first, n;	/* if the lower half of the first argument is one of n values from `first` on, */
	uint8_t second;		/* and the lower half of the second one is this; 0: no check, */
	uint32_t number;	/* and if the call has this number; 0: no check */
};

/* Code that checks for room on a goroutine's stack. */
struct space_spec {
	int32_t g_off;		/* offset from the thread pointer of the address of g, whose first member is the stack's
				   lower end */
	uint32_t need;		/* bytes needed below the site's stack pointer */
	uint64_t instead;	/* address of the counter of hits without room */
	uint32_t body;		/* bytes of the body, which is skipped without room */
};

/*
 * Notes of calls that have left their function by a tail jump and are not back in their caller yet. A note is one word, found by the
 * stack pointer and the return address at that jump, which are the same at the `ret` that ends the call, and by the function:
 *
 *	bits 16...63	of a hash of these; bit 16 is always set
 *	bit 15		the call has jumped to the entry of its own function: the next note of this key adds to it
 *	bit 14		it has just jumped to another function, at whose entry this bit is cleared. An entry that finds a note without it
 *			was called: the note is what is left of a call that has ended by an exception or longjmp
 *	bits 0...13	number of calls
 *
 * A word of 0 is free. Words stand in buckets of one cache line; a note that finds its bucket full takes the place of another one,
 * and that is counted. All changes are made by one compare-and-exchange, with a lock where a free word is taken.
 */
#define TAIL_BUCKETS 1024
#define TAIL_BUCKET_SIZE 64
#define TAIL_TABLE_SIZE (TAIL_BUCKETS * TAIL_BUCKET_SIZE)
#define TAIL_CODE_MAX 320
#define TAIL_ASK_MAX 512	/* of TAIL_ASK and TAIL_ASK_FAR */

/*
 * Most entries and exits that look for a note find none, often many times in a call that has one. So there is a byte for each sum of a
 * stack pointer and a number of the function, of 16 bits, that says whether a note was ever written with such a one; it is never cleared.
 */
#define TAIL_EVER_SIZE (1 << 16)

/*
 * Where a tail jump leads to a function that is not known, its call can be seen to end at its return address, if a probe is there. Which
 * return addresses have one is said by a table of words, hashes of the address and the function, in buckets as above; others are reported to
 * the tracer. What is reported may be anything: any process of a family can write there.
 */
#define TAIL_KNOWN_BUCKETS 1024
#define TAIL_KNOWN_SIZE (TAIL_KNOWN_BUCKETS * TAIL_BUCKET_SIZE)
#define TAIL_ASKED 512
struct tail_asked { uint64_t at; uint32_t id, unused; };

enum tail_code {
	TAIL_NOTE,		/* at the jump: write the note */
	TAIL_NOTE_AGAIN,	/* likewise, and the jump leads to the entry of the same function */
	TAIL_AGAIN,		/* at a jump of another function to that entry: mark the note, if there is one */
	TAIL_PASS,		/* at a jump from one of the other functions to the next: likewise */
	TAIL_ENTER,		/* at the entry of one of these: clear that mark, or forget a note that does not have it */
	TAIL_DROP,		/* at a ret of the function itself, whose own body ends the call: forget the note */
	TAIL_ENTER_ONCE,	/* at its entry: as TAIL_ENTER, and by a jump `body` is jumped over: the call has begun before */
	TAIL_TAKE,		/* at a ret: take one call off the note and go on after this code; without a note, jump over `body` */
	TAIL_BACK,		/* at a return address: likewise */
	TAIL_ASK,		/* at a jump to an unknown function: if its return address has a probe, write the note and jump over
				   `body`; else tell of that address */
	TAIL_ASK_FAR,		/* likewise at such a jump of another function: leave the note, or take it as TAIL_TAKE does */
};

struct tail_spec {
	enum tail_code code;
	uint64_t func;		/* a number for the function and the probe */
	uint64_t table;		/* TAIL_TABLE_SIZE bytes, zeroed, aligned to TAIL_BUCKET_SIZE */
	uint64_t crowded;	/* u64: notes that took the place of another one */
	uint32_t body;		/* bytes that are jumped over */
	uint64_t ret;		/* TAIL_BACK: that address */
	uint64_t known;		/* TAIL_ASK: TAIL_KNOWN_SIZE bytes, aligned to TAIL_BUCKET_SIZE, */
	uint64_t asked;		/* struct tail_asked[TAIL_ASKED], */
	uint32_t id;		/* what is reported with the address */
	uint64_t ever;		/* TAIL_EVER_SIZE bytes */
};

#define JUMP_BY_WORD_LEN 2	/* the bytes that tell */

#define ANY_CALL UINT32_MAX
#define FAR_ARCH_PRCTL (UINT32_MAX - 1)
#define OPEN_CALL (UINT32_MAX - 2)
#define FAR_LEN 32
typedef void (*call_found)(void *arg, size_t offset, size_t len, uint32_t nr);

struct asm_ops;			/* arch/asm.h */

struct arch {
	const char *name;
	uint16_t elf_machine;
	bool one_insn;		/* every instruction has the length of a jump, which so replaces exactly one of them */
	uint64_t user_top;	/* end of the addresses of processes */
	const struct arch_regs *regs;
	/* Reads an operand as the assembler writes it. NULL, or what is wrong with it, as the end of a sentence. */
	const char *(*operand)(const char *text, size_t len, struct text_operand *ret_operand);
	const struct call_abi *c_call, *go_call;	/* go_call: since Go passes arguments in registers */

	const struct unwind_abi *unwind;
	const struct clock_abi *clock;
	const struct elf_abi *elf;
	const struct code_idioms *idioms;
	const struct thread_abi *thread;
	const struct signal_abi *signal;
	const struct batch_code *batch;
	const struct asm_ops *assembler;

	/* Decodes one instruction. Returns 0, or -EILSEQ if the bytes are not a valid one. */
	int (*decode)(const uint8_t *code, size_t room, uint64_t addr, struct insn *ret_insn);

	/*
	 * Copies an instruction from the address `from` so that it does the same at `to`. Returns the length
	 * written to out (RELOC_MAX bytes of room), -ERANGE if its target is out of reach from there, -ENOTSUP if
	 * this form can't be moved (syscall, endbr64). The length depends on the instruction only, never on the
	 * addresses. A call leaves the original return address, so the code after it in the pad is not reached.
	 */
	int (*relocate)(const uint8_t *code, const struct insn *insn, uint64_t from, uint64_t to,
			uint8_t *out);

	const struct jump_abi *jumps;
	/* Writes the jump, of jumps->len bytes, from `from` to `to`; -ERANGE if too far. */
	int (*jump)(uint8_t *out, uint64_t from, uint64_t to);

	/*
	 * With one_insn: likewise a call, which does not touch the stack; and whether the indirect jump at `code`, with so many
	 * bytes of its function before it, stays in the function.
	 */
	int (*call)(uint8_t *out, uint64_t from, uint64_t to);
	bool (*stays)(const uint8_t *code, size_t before);

	/*
	 * Calls found() for each system call in the text with a constant number, with the offset and the length of an instruction
	 * before it that a jump can replace (0: there is none). Of glibc's syscall(), which makes any call, the number is ANY_CALL;
	 * of calls and instructions that change the thread pointer FAR_ARCH_PRCTL, if other instructions are in between (at most
	 * FAR_LEN bytes in all). OPEN_CALL: a system call whose number is not known.
	 */
	void (*find_calls)(const uint8_t *bytes, size_t n, call_found found, void *arg);

	/*
	 * Writes the counting code as it runs at address `at`: keeps every register, the flags and the red zone,
	 * continues after its last byte. Returns its length, at most COUNT_MAX. The length does not depend on `at`,
	 * so a call with out == NULL measures it.
	 */
	int (*emit_count)(uint8_t *out, uint64_t at, const struct count_spec *spec);

	/*
	 * Writes the code before a clone that clears process_state.fast if the new thread will not have rseq and a
	 * thread block of its own. Returns its length, at most COUNT_MAX.
	 */
	int (*emit_raise)(uint8_t *out, const struct raise_spec *spec);

	/*
	 * Writes the code before a call that can unmap pages: if it touches one range of the table, the lengths of
	 * all ranges become 0. Returns its length.
	 */
	int (*emit_forget)(uint8_t *out, const struct forget_spec *spec);

	/* Writes both, for a `syscall` that makes calls of any number. Returns its length, at most GATE_MAX. */
	int (*emit_gate)(uint8_t *out, const struct gate_spec *spec);

	/* Writes the code before a call that may take known memory away. Returns its length, at most UNMAP_MAX. */
	int (*emit_unmap)(uint8_t *out, const struct unmap_spec *spec);

	/* Writes the code that notes that calls may be forbidden from now on. Returns its length, at most HUSH_MAX. */
	int (*emit_hush)(uint8_t *out, const struct hush_spec *spec);

	/* Writes the check before a body in Go code. Always SPACE_LEN bytes. */
	int (*emit_space)(uint8_t *out, const struct space_spec *spec);

	/* Write the code of a note of a tail call; it takes less than STACK_UNASKED of stack. At most TAIL_CODE_MAX (TAIL_ASK_MAX) bytes. */
	int (*emit_tail)(uint8_t *out, const struct tail_spec *spec);
	uint64_t (*tail_known)(uint64_t func, uint64_t ret, uint32_t *ret_bucket);	/* the word of such a table */

	/*
	 * Writes the code that records an event as it runs at address `at`, with the same guarantees as emit_count.
	 * Returns its length, at most EVENT_CODE_MAX; -ERANGE or -EINVAL for an invalid spec.
	 */
	int (*emit_event)(uint8_t *out, uint64_t at, const struct event_spec *spec);

	/*
	 * Writes the routines that event code calls when it can't use the ring of its CPU; they may be at any
	 * address. Returns their length, at most EVENT_SLOW_MAX.
	 */
	int (*emit_event_slow)(uint8_t *out, const struct event_slow_spec *spec);

	/*
	 * Emulates the instruction at the thread's pc. Knows only the instructions that the code above is made of:
	 * -ENOTSUP for all others, with nothing changed. A lock that the code tries to take is always found taken.
	 */
	int (*perform)(struct cpu *c, const struct cpu_memory *m);

	/*
	 * Writes the code that records a bulk event; it may be at any address and keeps what emit_count keeps.
	 * Below the stack pointer it takes at most BULK_STACK_MAX bytes, including everything that it calls.
	 * Returns its length, at most BULK_CODE_MAX.
	 */
	int (*emit_bulk)(uint8_t *out, const struct bulk_spec *spec);

	/*
	 * Writes one instruction as assembler text. Returns its length, or -EILSEQ; *ret_names: an address that it
	 * names, 0: none.
	 */
	int (*text)(const uint8_t *code, size_t room, uint64_t addr, char *out, size_t out_room, uint64_t *ret_names);

	/* Writes the code in which a thread parks; keeps all registers. At most PARK_CODE_MAX bytes. */
	int (*emit_park)(uint8_t *out, const struct park_spec *spec);

	/* Whether a pad ends with this: a jump to where a word of the module leads. */
	bool (*jumps_by_word)(const uint8_t code[JUMP_BY_WORD_LEN]);
};

#define COUNT_MAX 216
#define GATE_MAX 256
#define HUSH_MAX 112
#define UNMAP_MAX 256
#define SPACE_LEN 67

extern const struct arch arch_x86_64;
extern const struct arch arch_aarch64;

/* Registers of a thread by what they are for. */
static inline uint64_t regs_sp(const struct arch *a, const struct thread_regs *r)
{
	return r->cpu.reg[a->regs->sp];
}

static inline void regs_set_sp(const struct arch *a, struct thread_regs *r, uint64_t sp)
{
	r->cpu.reg[a->regs->sp] = sp;
}

static inline uint64_t regs_arg(const struct arch *a, const struct thread_regs *r, unsigned int n)
{
	return r->cpu.reg[a->thread->args[n]];
}

static inline int64_t regs_result(const struct arch *a, const struct thread_regs *r)
{
	return r->cpu.reg[a->thread->result];
}

/* What this CPU's table has no code for yet, as a word for messages; NULL: it has all. */
enum arch_part { ARCH_EVENTS, ARCH_LANGUAGE };
const char *arch_lacks(const struct arch *a, enum arch_part part);

/* The CPU of an ELF file; NULL: this build does not trace it. */
const struct arch *arch_of_machine(uint16_t elf_machine);

/* The CPU that this build runs on. */
const struct arch *arch_host(void);

/* The CPUs that this build traces, as a list for messages: "x86-64". */
const char *arch_names(void);

#endif
