/* SPDX-License-Identifier: MIT */
/*
 * The value of an expression at the entry of the function. At the first instruction that is its current value;
 * later, callee-saved registers are found by the unwind tables, and values passed in other registers by the debug
 * info of the caller: it describes for each call what was put there, in terms of the caller's own registers. The
 * return address selects the call; if it is that of no known call, the value is unknown.
 */
#include "sym/dwarf/dw_loc.h"

#include "arch/arch.h"

static const char not_kept[] = "it is not kept up to this address; it is known at the function's entry";

static const struct arch *arch_of(const struct symbolic *s)
{
	return s->t->m->arch;
}

/* DWARF's number of a general register. */
static int dwarf_number(const struct arch_regs *regs, int reg)
{
	int n = 0;

	while (n < regs->n && regs->dwarf[n] != reg)
		n++;
	return n;
}

enum rule { LOST, SAME, SAVED };

/* Where a register of the caller is according to the unwind table: in itself (SAME), or at an offset from the CFA (SAVED). */
static enum rule rule_of(Dwarf_Frame *frame, uint8_t reg, int64_t *ret_off)
{
	Dwarf_Op room[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, room, &ops, &n) != 0 || (n == 0 && ops))
		return LOST;
	if (n == 0)
		return SAME;
	if (ops[0].atom != DW_OP_call_frame_cfa || n > 2 || (n == 2 && ops[1].atom != DW_OP_plus_uconst))
		return LOST;
	*ret_off = n == 2 ? ops[1].number : 0;
	return SAVED;
}

/* Without a rule for the first one libdw takes it for a register that is not callee-saved, unlike the others; so the third decides. */
static void add_reg(struct symbolic *s, Dwarf_Frame *frame, uint16_t cfa, int i, struct outer *o)
{
	const struct arch_regs *regs = arch_of(s)->regs;
	const uint8_t *kept = arch_of(s)->c_call->kept;
	int64_t off = 0, unused;
	enum rule rule = rule_of(frame, dwarf_number(regs, kept[i]), &off);
	int r = kept[i];

	if (rule == LOST && !i && rule_of(frame, dwarf_number(regs, kept[2]), &unused) != LOST)
		rule = SAME;
	if (rule == LOST)
		return;
	o->reg[r] = rule == SAME ? loc_make(s, LOP_REG, r, 0, 0) : loc_make(s, LOP_LOAD, loc_plus(s, cfa, off), 0, 8);
	o->known |= 1u << r;
}

/* The caller's registers. A function that never returns need not save any. */
static struct outer caller_regs(struct symbolic *s, uint16_t cfa)
{
	Dwarf_CFI *cfi[2] = { dw_eh_frame(s->t), s->t->main.dw ? dwarf_getcfi(s->t->main.dw) : NULL };
	uint8_t sp = arch_of(s)->regs->sp;
	struct outer o = { .known = 1u << sp };
	Dwarf_Frame *frame;
	size_t i, k;

	o.reg[sp] = cfa;
	for (i = 0; i < 2 && o.known == 1u << sp && !die_flag(s->func, DW_AT_noreturn); i++) {
		if (!cfi[i] || dwarf_cfi_addrframe(cfi[i], s->pc, &frame) != 0)
			continue;
		for (k = 0; k < arch_of(s)->c_call->nkept; k++)
			add_reg(s, frame, cfa, k, &o);
		free(frame);
	}
	return o;
}

static uint16_t base_of(struct symbolic *s, uint16_t n)
{
	struct loc_node x = loc_at(s, n);

	return x.op == LOP_ADD && loc_at(s, x.b).op == LOP_CONST ? x.a : n;
}

static bool is_same(struct symbolic *s, uint16_t a, uint16_t b)
{
	struct loc_node x = loc_at(s, a), y = loc_at(s, b);

	return a == b || (x.op == LOP_REG && y.op == LOP_REG && x.a == y.a);
}

/* Compilers describe only memory that nothing else changes: the frame, and constants. */
bool loc_is_kept(struct symbolic *s, uint16_t address)
{
	const struct arch_regs *regs = arch_of(s)->regs;
	uint16_t base = base_of(s, address);

	return loc_at(s, base).op == LOP_ADDR || is_same(s, base, base_of(s, s->outer->reg[regs->sp])) ||
	       (s->outer->known & 1u << regs->fp && is_same(s, base, base_of(s, s->outer->reg[regs->fp])));
}

/* The value that one call passes, as a node. If it is not known, everything is restored. */
static bool handed_over(struct symbolic *s, const struct dw_call *call, uint64_t reg, const struct outer *o, uint16_t *ret_node)
{
	struct symbolic before = *s;
	Dwarf_Die caller = call->caller;
	Dwarf_Attribute attr;
	Dwarf_Op *ops;
	size_t n;

	if (!dw_call_value(call, reg, &attr) || dwarf_getlocation(&attr, &ops, &n) != 0 || !n)
		return false;
	s->outer = o;
	s->func = &caller;
	s->pc = call->ret - 1;
	s->attr = &attr;
	s->depth = 0;
	loc_run(s, ops, n);
	if (!s->why && s->is == IS_NONE && s->depth == 1) {
		*ret_node = s->stack[0].node;
		before.nodes = s->nodes;
		n = 1;
	} else {
		before.nodes.v = s->nodes.v;
		before.nodes.cap = s->nodes.cap;
		n = 0;
	}
	*s = before;
	return n;
}

static void push_from_calls(struct symbolic *s, uint64_t reg, uint16_t cfa, const struct outer *o)
{
	const struct dw_call *calls;
	uint16_t back, value, chosen = 0, is_known = 0, is_here;
	uint64_t entry;
	size_t n, i, known = 0;

	if (!dw_entry_pc(s->func, &entry)) {
		loc_give_up(s, not_kept);
		return;
	}
	s->why = dw_calls_to(s->t, entry, &calls, &n);
	back = loc_make(s, LOP_LOAD, loc_plus(s, cfa, -8), 0, 8);	/* of a CPU whose calls push it: see loc_push_entry() */
	for (i = 0; i < n && !s->why; i++) {
		if (!handed_over(s, &calls[i], reg, o, &value))
			continue;
		is_here = loc_make(s, LOP_EQ, back, loc_make(s, LOP_ADDR, 0, 0, calls[i].ret), 0);
		chosen = known ? loc_make(s, LOP_IF, is_here, value, chosen) : value;
		is_known = known ? loc_make(s, LOP_OR, is_known, is_here, 0) : is_here;
		known++;
	}
	if (!known)
		loc_give_up(s, "it is not kept up to this address, and no caller says what it was");
	else
		loc_push(s, loc_make(s, LOP_KNOWN, chosen, is_known, 0));
}

/* The inner expression of DW_OP_entry_value: nearly always one register. */
static bool inner_ops(struct symbolic *s, const Dwarf_Op *op, Dwarf_Attribute *attr, Dwarf_Op **ops, size_t *n)
{
	if (s->nested <= 2 && !s->outer && dwarf_getlocation_attr(s->attr, op, attr) == 0 && dwarf_getlocation(attr, ops, n) == 0)
		return true;
	loc_give_up(s, not_kept);
	return false;
}

static void push_at_entry(struct symbolic *s, Dwarf_Attribute *attr, const Dwarf_Op *ops, size_t n)
{
	Dwarf_Attribute *outer = s->attr;

	s->nested++;
	s->attr = attr;
	loc_run(s, ops, n);
	s->attr = outer;
	s->nested--;
	if (s->is == IS_REGISTER)
		loc_push_reg(s, s->reg, 0);
	s->is = IS_NONE;
}

void loc_push_entry(struct symbolic *s, const Dwarf_Op *op)
{
	Dwarf_Attribute attr;
	struct outer o;
	uint16_t cfa;
	Dwarf_Op *ops;
	size_t n, i;
	int reg;

	if (!inner_ops(s, op, &attr, &ops, &n))
		return;
	if (s->at_entry) {
		push_at_entry(s, &attr, ops, n);
		return;
	}
	reg = n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31 ? reg_of_dwarf(arch_of(s)->regs, ops[0].atom - DW_OP_reg0) : -1;
	if (!s->func || reg < 0) {
		loc_give_up(s, not_kept);
		return;
	}
	loc_push_cfa(s);
	if (s->why)
		return;
	cfa = loc_pop(s);
	o = caller_regs(s, cfa);
	for (i = 0; i < arch_of(s)->c_call->nkept; i++)
		if (arch_of(s)->c_call->kept[i] == reg && o.known & 1u << reg) {
			loc_push(s, o.reg[reg]);
			return;
		}
	if (!arch_of(s)->c_call->pushes)	/* where the return address is, is another question at each instruction */
		loc_give_up(s, not_kept);
	else
		push_from_calls(s, ops[0].atom - DW_OP_reg0, cfa, &o);
}
