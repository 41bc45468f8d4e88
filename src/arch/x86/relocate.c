/* SPDX-License-Identifier: MIT */
/*
 * Copies an instruction to another address. Most are copied unchanged; a distance in the bytes is corrected, and
 * branches with a distance of one byte get a longer form. No other register or flag is needed, so this works before
 * any code.
 *
 * Calls are the hard ones: the callee must find the original return address, for unwinders and for the time after
 * the pad is gone. So the address is stored by two moves and the call becomes a jump. A `call` to the next
 * instruction comes first: without it every outer return would be mispredicted, because the CPU's return stack
 * would be one entry short. The int3 between makes it count (a call with distance 0 does not); nothing ever reaches
 * it.
 */
#include "arch/x86/x86.h"

#include "arch/x86/assemble.h"
#include "base/err.h"

struct prefixes {
	uint8_t len;		/* of all prefixes, REX included */
	uint8_t rex;
	bool data16;
	bool addr32;
	bool bnd;		/* f2, which on branches means bnd */
	bool notrack;		/* 3e, which on indirect branches means notrack */
	uint8_t segment;	/* 64, 65 or 0: the other segments start at 0 */
};

/* Reads one legacy prefix; false if the byte is none. */
static bool read_prefix(uint8_t byte, struct prefixes *p)
{
	switch (byte) {
	case 0x66:
		p->data16 = true;
		return true;
	case 0x67:
		p->addr32 = true;
		return true;
	case 0xf2:
		p->bnd = true;
		return true;
	case 0x3e:
		p->notrack = true;
		return true;
	case 0x64:
	case 0x65:
		p->segment = byte;
		return true;
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0xf0:
	case 0xf3:
		return true;
	default:
		return false;
	}
}

/* A REX counts only right before the opcode. */
static struct prefixes read_prefixes(const uint8_t *code, const struct insn *insn)
{
	struct prefixes p = { 0 };

	for (; p.len < insn->len; p.len++) {
		if ((code[p.len] & 0xf0) == 0x40)
			p.rex = code[p.len];
		else if (read_prefix(code[p.len], &p))
			p.rex = 0;
		else
			break;
	}
	return p;
}

/* Writes the distance from the end of these four bytes (whose address is `end`) to the target. */
static int put_rel32(uint8_t **p, uint64_t end, uint64_t target)
{
	int64_t distance = target - end;

	if (distance != (int32_t)distance)
		return -ERANGE;
	put32(p, distance);
	return 0;
}

/*
 * Copies the bytes with another distance: rel32 branches, rip-relative memory, xbegin. Memory relative to eip wraps
 * at 32 bits, so it is always in reach; branches ignore that prefix.
 */
static int copy_repaired(const uint8_t *code, const struct insn *insn, const struct prefixes *pre,
			 uint64_t to, uint8_t *out)
{
	bool branch = insn->kind == INSN_JMP || insn->kind == INSN_JCC || insn->kind == INSN_XBEGIN;
	uint8_t *rel = out + insn->rel_off;
	uint64_t end = to + insn->len;

	memcpy(out, code, insn->len);
	if (pre->addr32 && !branch)
		put32(&rel, insn->target - end);
	else if (put_rel32(&rel, end, insn->target) < 0)
		return -ERANGE;
	return insn->len;
}

/* jmp and jcc with a rel8: the long form has the same prefixes. */
static int widen_branch(const uint8_t *code, const struct insn *insn, uint64_t to, uint8_t *out)
{
	int opcode = insn->rel_off - 1;
	uint8_t *p = out;

	put_bytes(&p, code, opcode);
	if (insn->kind == INSN_JMP)
		put(&p, 0xe9);
	else
		put(&p, 0x0f, code[opcode] + 0x10);
	if (put_rel32(&p, to + (p - out) + 4, insn->target) < 0)
		return -ERANGE;
	return p - out;
}

/* loop and jrcxz have no long form: they jump to a jump. */
static int widen_loop(const uint8_t *code, const struct insn *insn, uint64_t to, uint8_t *out)
{
	uint8_t *p = out;

	put_bytes(&p, code, insn->rel_off);
	put(&p, 0x02);				/* loop taken */
	put(&p, 0xeb, 0x05);			/* jmp  over */
	put(&p, 0xe9);				/* taken: jmp target */
	if (put_rel32(&p, to + (p - out) + 4, insn->target) < 0)
		return -ERANGE;
	return p - out;				/* over: */
}

/* Writes a value to where rsp points; push takes no more than 32 bits. */
static void put_store_at_sp(uint8_t **p, uint64_t v)
{
	put(p, 0xc7, 0x04, 0x24);		/* movl $low,(%rsp) */
	put32(p, v);
	put(p, 0xc7, 0x44, 0x24, 0x04);		/* movl $high,4(%rsp) */
	put32(p, v >> 32);
}

static void put_balanced_call(uint8_t **p)
{
	put(p, 0xe8, 0x01, 0x00, 0x00, 0x00);	/* call 1f */
	put(p, 0xcc);				/* int3 */
						/* 1: */
}

static int call_direct(const struct insn *insn, uint64_t from, uint64_t to, uint8_t *out)
{
	uint8_t *p = out;

	put_balanced_call(&p);
	put_store_at_sp(&p, from + insn->len);
	put(&p, 0xe9);				/* jmp  target */
	if (put_rel32(&p, to + (p - out) + 4, insn->target) < 0)
		return -ERANGE;
	return p - out;
}

static void put_branch_prefixes(uint8_t **p, const struct prefixes *pre)
{
	if (pre->bnd)
		put(p, 0xf2);
	if (pre->notrack)
		put(p, 0x3e);
}

static int call_register(const uint8_t *code, const struct insn *insn, const struct prefixes *pre,
			 uint64_t from, uint8_t *out)
{
	uint8_t modrm = code[pre->len + 1];
	uint8_t *p = out;

	put_balanced_call(&p);
	put_store_at_sp(&p, from + insn->len);
	put_branch_prefixes(&p, pre);
	if (pre->rex)
		put(&p, pre->rex);
	put(&p, 0xff, (modrm & 0xc7) | 4 << 3);	/* jmp  *%reg */
	return p - out;
}

/* Pushes the operand of a call: its bytes with /6 in place of /2, and without the branch hints. */
static int push_operand(const uint8_t *code, const struct insn *insn, const struct prefixes *pre,
			uint64_t to, uint8_t *out)
{
	int tail = pre->len + 2;		/* after opcode and ModRM */
	struct insn push = *insn;
	uint8_t bytes[INSN_MAX];
	uint8_t *p = bytes;

	if (pre->segment)
		put(&p, pre->segment);
	if (pre->addr32)
		put(&p, 0x67);
	if (pre->rex)
		put(&p, pre->rex);
	put(&p, 0xff, (code[tail - 1] & 0xc7) | 6 << 3);
	put_bytes(&p, code + tail, insn->len - tail);

	push.len = p - bytes;
	if (insn->rel_size) {
		push.rel_off = push.len - 4;
		return copy_repaired(bytes, &push, pre, to, out);
	}
	memcpy(out, bytes, push.len);
	return push.len;
}

/*
 * call *mem, and call *%rsp. The operand is read first, with rsp as it was: it may be relative to
 * rsp, it may be the very word the return address will overwrite, and it may fault. Then it is
 * carried below the red zone and the return address takes its place. After the last lea it is
 * the lowest word of the new red zone, where a signal leaves it alone.
 *
 *	rsp (original)	   0
 *			  -8	operand, then return address	<- rsp at the jump
 *	red zone	-128
 *			-136	operand for the jump
 */
static int call_memory(const uint8_t *code, const struct insn *insn, const struct prefixes *pre,
		       uint64_t from, uint64_t to, uint8_t *out)
{
	int r = push_operand(code, insn, pre, to, out);
	uint8_t *p = out + r;

	if (r < 0)
		return r;
	put(&p, 0x48, 0x8d, 0x64, 0x24, 0x88);			/* lea  -120(%rsp),%rsp */
	put_balanced_call(&p);
	put(&p, 0xff, 0xb4, 0x24, 0x80, 0x00, 0x00, 0x00);	/* push 128(%rsp) */
	put(&p, 0x8f, 0x04, 0x24);				/* pop  (%rsp) */
	put(&p, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00); /* lea 128(%rsp),%rsp */
	put_store_at_sp(&p, from + insn->len);
	put_branch_prefixes(&p, pre);
	put(&p, 0xff, 0x64, 0x24, 0x80);			/* jmp  *-128(%rsp) */
	return p - out;
}

static int call_indirect(const uint8_t *code, const struct insn *insn, const struct prefixes *pre,
			 uint64_t from, uint64_t to, uint8_t *out)
{
	uint8_t modrm = code[pre->len + 1];
	bool is_reg = modrm >> 6 == 3;
	bool is_sp = is_reg && (modrm & 7) == 4 && !(pre->rex & 1);

	if (is_reg && !is_sp)
		return call_register(code, insn, pre, from, out);
	return call_memory(code, insn, pre, from, to, out);
}

/* Instructions that get other bytes, with which an unexpected prefix would mean something else. */
static bool is_rewritten(const struct insn *insn)
{
	switch (insn->kind) {
	case INSN_JMP:
	case INSN_JCC:
	case INSN_LOOP:
	case INSN_XBEGIN:
	case INSN_CALL:
	case INSN_CALL_IND:
		return true;
	default:
		return false;
	}
}

static bool is_movable(const uint8_t *code, const struct insn *insn, const struct prefixes *pre)
{
	uint8_t reg;

	if (insn->kind == INSN_ENDBR || insn->kind == INSN_SYSCALL)
		return false;

	/* 66 without REX.W: Intel ignores it, AMD cuts the target to 16 bits. */
	if (is_rewritten(insn) && pre->data16 && !(pre->rex & 8))
		return false;

	/* Far calls and jumps through memory: not used in practice, and a call pushes its own address. */
	if (insn->kind == INSN_STOP && code[pre->len] == 0xff) {
		reg = code[pre->len + 1] >> 3 & 7;
		return reg != 3 && reg != 5;
	}
	return true;
}

int x86_relocate(const uint8_t *code, const struct insn *insn, uint64_t from, uint64_t to,
		 uint8_t *out)
{
	struct prefixes pre = read_prefixes(code, insn);

	if (!is_movable(code, insn, &pre))
		return -ENOTSUP;
	if (insn->kind == INSN_CALL)
		return call_direct(insn, from, to, out);
	if (insn->kind == INSN_CALL_IND)
		return call_indirect(code, insn, &pre, from, to, out);
	if (insn->kind == INSN_LOOP)
		return widen_loop(code, insn, to, out);
	if (insn->rel_size == 1)
		return widen_branch(code, insn, to, out);
	if (insn->rel_size == 4)
		return copy_repaired(code, insn, &pre, to, out);
	memcpy(out, code, insn->len);
	return insn->len;
}
