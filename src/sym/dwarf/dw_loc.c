/* SPDX-License-Identifier: MIT */
/*
 * Location expressions. DWARF describes a location as instructions for a stack machine; these are executed once
 * symbolically, so that the result is a list of nodes without a stack, in nearly all cases just a register or an
 * offset from one.
 */
#include "sym/dwarf/dw_loc.h"

#include "arch/arch.h"

#define MOST_NODES 1024
#define MOST_PIECES 256

static const char too_complex[] = "its place is described in a way that is not supported";
static const char gone_here[] = "it is optimised away at this address";

void loc_give_up(struct symbolic *s, const char *why)
{
	if (!s->why)
		s->why = why;
}

static const struct arch_regs *regs_of(const struct symbolic *s)
{
	return s->t->m->arch->regs;
}

uint16_t loc_make(struct symbolic *s, uint8_t op, uint16_t a, uint16_t b, int64_t imm)
{
	if (s->nodes.n >= MOST_NODES) {
		loc_give_up(s, too_complex);
		return 0;
	}
	*vec_add(&s->nodes) = (struct loc_node){ op, a, b, imm };
	return s->nodes.n - 1;
}

void loc_push_sort(struct symbolic *s, uint16_t n, uint8_t sort)
{
	if (s->depth == MOST_STACK)
		loc_give_up(s, too_complex);
	else
		s->stack[s->depth++] = (struct loc_item){ n, sort };
}

void loc_push(struct symbolic *s, uint16_t n)
{
	loc_push_sort(s, n, 0);
}

static void push_const(struct symbolic *s, int64_t v)
{
	loc_push(s, loc_make(s, LOP_CONST, 0, 0, v));
}

struct loc_item loc_pop_item(struct symbolic *s)
{
	if (!s->depth) {
		loc_give_up(s, too_complex);
		return (struct loc_item){ loc_make(s, LOP_CONST, 0, 0, 0), 0 };
	}
	return s->stack[--s->depth];
}

uint16_t loc_pop(struct symbolic *s)
{
	return loc_pop_item(s).node;
}

struct loc_node loc_at(struct symbolic *s, uint16_t n)
{
	return n < s->nodes.n ? s->nodes.v[n] : (struct loc_node){ 0 };
}

/* a + c in the simplest form: constants are summed up here, so that reg + off stays recognisable. */
uint16_t loc_plus(struct symbolic *s, uint16_t a, int64_t c)
{
	struct loc_node x = loc_at(s, a);

	if (c == 0)
		return a;
	if (x.op == LOP_CONST || x.op == LOP_ADDR || x.op == LOP_TLS)
		return loc_make(s, x.op, 0, 0, (uint64_t)x.imm + c);
	if (x.op == LOP_ADD && loc_at(s, x.b).op == LOP_CONST)
		return loc_plus(s, x.a, (uint64_t)loc_at(s, x.b).imm + c);
	return loc_make(s, LOP_ADD, a, loc_make(s, LOP_CONST, 0, 0, c), 0);
}

void loc_push_reg(struct symbolic *s, uint64_t reg, int64_t off)
{
	int r = reg_of_dwarf(regs_of(s), reg);

	if (r < 0)
		loc_give_up(s, "it depends on a register that is not a general one");
	else if (!s->outer)
		loc_push(s, loc_plus(s, loc_make(s, LOP_REG, r, 0, 0), off));
	else if (s->outer->known & 1u << r)
		loc_push(s, loc_plus(s, s->outer->reg[r], off));
	else
		loc_give_up(s, "it depends on a register that its caller did not keep");
}

/* Pushes the canonical frame address (the stack pointer before the call), as the unwind tables define it. */
void loc_push_cfa(struct symbolic *s)
{
	Dwarf_CFI *cfi[2] = { dw_eh_frame(s->t), s->t->main.dw ? dwarf_getcfi(s->t->main.dw) : NULL };
	Dwarf_Frame *frame;
	Dwarf_Op *ops;
	size_t n, i;
	int before = s->depth;

	for (i = 0; i < 2 && s->nested < 4; i++) {
		if (!cfi[i] || dwarf_cfi_addrframe(cfi[i], s->pc, &frame) != 0)
			continue;
		s->nested++;
		if (dwarf_frame_cfa(frame, &ops, &n) == 0 && n > 0)
			loc_run(s, ops, n);
		s->nested--;
		free(frame);
		s->is = IS_NONE;	/* libdw expresses it as "breg7 8; stack_value" */
		if (s->depth > before)
			return;
	}
	if (s->at_entry)
		loc_push(s, loc_plus(s, loc_make(s, LOP_REG, regs_of(s)->sp, 0, 0), s->t->m->arch->c_call->pushes));
	else
		loc_give_up(s, "no unwind table says where its frame is");
}

/*
 * A frame relative to the frame pointer exists only while that is the function's own: not in the prologue, not after the
 * epilogue. That is known from the unwind table.
 */
static bool is_frame_up(struct symbolic *s)
{
	struct loc_node x;

	loc_push_cfa(s);
	s->is = IS_REGISTER;
	if (s->why) {
		s->why = NULL;
		return true;
	}
	x = loc_at(s, loc_pop(s));
	if (x.op == LOP_ADD)
		x = loc_at(s, x.a);
	return x.op != LOP_REG || x.a != regs_of(s)->sp;	/* relative to the stack pointer: no frame */
}

static void push_frame_base(struct symbolic *s, int64_t off)
{
	Dwarf_Attribute attr, *outer = s->attr;
	Dwarf_Op *ops;
	size_t n;

	if (!s->func || s->nested > 2 || !die_place(s->func, DW_AT_frame_base, &attr) ||
	    dwarf_getlocation_addr(&attr, s->pc, &ops, &n, 1) < 1) {
		loc_give_up(s, "its function does not say where its frame is");
		return;
	}
	s->nested++;
	s->attr = &attr;
	loc_run(s, ops, n);
	s->attr = outer;
	s->nested--;
	if (s->is == IS_REGISTER && s->reg == 6 && !is_frame_up(s))
		loc_give_up(s, "the function's frame is not set up at this address");
	if (s->is == IS_REGISTER)
		loc_push_reg(s, s->reg, 0);
	s->is = IS_NONE;
	loc_push(s, loc_plus(s, loc_pop(s), off));
}

static void push_tls(struct symbolic *s)
{
	struct loc_node x = loc_at(s, loc_pop(s));

	if (x.op == LOP_CONST || x.op == LOP_ADDR)
		loc_push(s, loc_make(s, LOP_TLS, 0, 0, x.imm));
	else
		loc_give_up(s, too_complex);
}

static void push_indexed(struct symbolic *s, const Dwarf_Op *op, bool address)
{
	Dwarf_Attribute attr;
	Dwarf_Addr v;

	if (dwarf_getlocation_attr(s->attr, op, &attr) != 0 || dwarf_formaddr(&attr, &v) != 0)
		loc_give_up(s, too_complex);
	else
		loc_push(s, loc_make(s, address ? LOP_ADDR : LOP_CONST, 0, 0, v));
}

static void push_typed_const(struct symbolic *s, const Dwarf_Op *op)
{
	Dwarf_Attribute attr;
	Dwarf_Block block;
	int64_t v = 0;

	if (dwarf_getlocation_attr(s->attr, op, &attr) != 0 || dwarf_formblock(&attr, &block) != 0 || block.length > 8) {
		loc_give_up(s, too_complex);
		return;
	}
	memcpy(&v, block.data, block.length);
	push_const(s, v);
	loc_convert(s, op);
}

static void push_load(struct symbolic *s, uint64_t size)
{
	if ((size != 1 && size != 2 && size != 4 && size != 8) || (s->outer && !loc_is_kept(s, s->depth ? s->stack[s->depth - 1].node : 0)))
		loc_give_up(s, too_complex);
	else
		loc_push(s, loc_make(s, LOP_LOAD, loc_pop(s), 0, size));
}

static void close_register(struct symbolic *s, struct loc_piece *p)
{
	const struct arch_regs *regs = regs_of(s);
	int r = reg_of_dwarf(regs, s->reg);

	p->kind = LOC_GONE;
	if (r >= 0) {
		p->kind = LOC_REG;
		p->reg = r;
	} else if (s->reg >= regs->dwarf_stacked.lo && s->reg <= regs->dwarf_stacked.hi) {
		p->kind = LOC_ST;
		p->reg = s->reg - regs->dwarf_stacked.lo;
	}
	for (size_t i = 0; i < ARRAY_SIZE(regs->dwarf_vectors) && p->kind == LOC_GONE; i++)
		if (s->reg >= regs->dwarf_vectors[i].lo && s->reg <= regs->dwarf_vectors[i].hi) {
			p->kind = LOC_VECTOR;
			p->reg = s->reg - regs->dwarf_vectors[i].lo + regs->dwarf_vectors[i].first;
		}
}

static void close_computed(struct symbolic *s, struct loc_piece *p)
{
	bool value = s->is == IS_VALUE;
	uint16_t n = loc_pop(s);
	struct loc_node x = loc_at(s, n);

	p->node = n;
	p->off = x.imm;
	if (x.op == LOP_CONST)
		p->kind = value ? LOC_CONST : LOC_GLOBAL;
	else if (x.op == LOP_ADDR && !value)
		p->kind = LOC_GLOBAL;
	else if (x.op == LOP_TLS && !value)
		p->kind = LOC_TLS;
	else if (x.op == LOP_REG) {
		p->kind = value ? LOC_REG : LOC_MEM;
		p->reg = x.a;
		p->off = 0;
	} else if (x.op == LOP_ADD && loc_at(s, x.a).op == LOP_REG && loc_at(s, x.b).op == LOP_CONST && !value) {
		p->kind = LOC_MEM;
		p->reg = loc_at(s, x.a).a;
		p->off = loc_at(s, x.b).imm;
	} else {
		p->kind = value ? LOC_VALUE : LOC_MEM_AT;
		p->off = 0;
	}
}

static void close_piece(struct symbolic *s, uint64_t size)
{
	struct loc_piece p = { .kind = LOC_GONE, .size = MIN(size, (uint64_t)UINT32_MAX) };

	if (s->is == IS_REGISTER) {
		close_register(s, &p);
	} else if (s->is == IS_BYTES) {
		p.kind = LOC_BYTES;
		p.bytes = s->bytes;
		p.size = MIN(size, s->nbytes);
	} else if (s->depth) {
		close_computed(s, &p);
	}
	s->is = IS_NONE;
	if (s->pieces.n < MOST_PIECES)
		*vec_add(&s->pieces) = p;
	else
		loc_give_up(s, too_complex);
}

/* Compilers may describe only the first pieces: the rest is not available, and not after them. */
static void close_rest(struct symbolic *s)
{
	uint64_t have = 0;
	size_t i;

	for (i = 0; i < s->pieces.n; i++)
		have += s->pieces.v[i].size;
	if (have < s->size)
		close_piece(s, s->size - have);
}

static void take_bytes(struct symbolic *s, const Dwarf_Op *op)
{
	Dwarf_Block block;

	if (dwarf_getlocation_implicit_value(s->attr, op, &block) != 0) {
		loc_give_up(s, too_complex);
		return;
	}
	s->is = IS_BYTES;
	s->bytes = block.data;
	s->nbytes = block.length;
}

/* Operations on locations, not on numbers. */
static void placing(struct symbolic *s, const Dwarf_Op *op)
{
	switch (op->atom) {
	case DW_OP_regx:
		s->is = IS_REGISTER;
		s->reg = op->number;
		break;
	case DW_OP_stack_value: s->is = IS_VALUE; break;
	case DW_OP_implicit_value: take_bytes(s, op); break;
	case DW_OP_piece: close_piece(s, op->number); break;
	case DW_OP_bit_piece:
		if (op->number % 8 || op->number2)
			loc_give_up(s, too_complex);
		close_piece(s, op->number / 8);
		break;
	case DW_OP_implicit_pointer: case DW_OP_GNU_implicit_pointer:
		loc_give_up(s, "the pointer itself is optimised away");
		break;
	case DW_OP_entry_value: case DW_OP_GNU_entry_value: loc_push_entry(s, op); break;
	case DW_OP_GNU_parameter_ref: loc_give_up(s, gone_here); break;
	default: loc_give_up(s, too_complex);
	}
}

static void pushing(struct symbolic *s, const Dwarf_Op *op)
{
	switch (op->atom) {
	case DW_OP_addr: loc_push(s, loc_make(s, LOP_ADDR, 0, 0, op->number)); break;
	case DW_OP_addrx: case DW_OP_GNU_addr_index: push_indexed(s, op, true); break;
	case DW_OP_constx: case DW_OP_GNU_const_index: push_indexed(s, op, false); break;
	case DW_OP_const1u ... DW_OP_consts: push_const(s, op->number); break;
	case DW_OP_bregx: loc_push_reg(s, op->number, op->number2); break;
	case DW_OP_fbreg: push_frame_base(s, op->number); break;
	case DW_OP_call_frame_cfa: loc_push_cfa(s); break;
	case DW_OP_form_tls_address: case DW_OP_GNU_push_tls_address: push_tls(s); break;
	case DW_OP_deref: push_load(s, 8); break;
	case DW_OP_deref_size: push_load(s, op->number); break;
	case DW_OP_deref_type: case DW_OP_GNU_deref_type:
		push_load(s, op->number);
		loc_convert(s, op);
		break;
	case DW_OP_regval_type: case DW_OP_GNU_regval_type:
		loc_push_reg(s, op->number, 0);
		loc_convert(s, op);
		break;
	case DW_OP_convert: case DW_OP_GNU_convert: case DW_OP_reinterpret: case DW_OP_GNU_reinterpret:
		loc_convert(s, op);
		break;
	case DW_OP_const_type: case DW_OP_GNU_const_type: push_typed_const(s, op); break;
	default: placing(s, op);
	}
}

static size_t find_target(const Dwarf_Op *ops, size_t n, size_t from)
{
	uint64_t to = ops[from].offset + 3 + (int16_t)ops[from].number;
	size_t i;

	for (i = from + 1; i < n && ops[i].offset != to; i++)
		;
	return i;
}

/*
 * A conditional branch over a part of the expression: that part is executed on a copy, and wherever the two stacks
 * differ, the condition selects the value. Compilers express the smaller of two numbers in this way.
 */
static size_t branch(struct symbolic *s, const Dwarf_Op *ops, size_t n, size_t from)
{
	uint16_t cond = loc_pop(s);
	struct loc_item taken[MOST_STACK];
	size_t to = find_target(ops, n, from), pieces = s->pieces.n;
	int depth = s->depth, i;

	memcpy(taken, s->stack, sizeof(taken));
	if (to < n && ++s->nested < 8)
		loc_run(s, ops + from + 1, to - from - 1);
	else
		loc_give_up(s, too_complex);
	s->nested--;
	if (s->depth != depth || s->is != IS_NONE || s->pieces.n != pieces)
		loc_give_up(s, too_complex);
	for (i = 0; i < depth && !s->why; i++) {
		if (taken[i].sort != s->stack[i].sort)
			loc_give_up(s, too_complex);
		if (taken[i].node != s->stack[i].node)
			s->stack[i].node = loc_make(s, LOP_IF, cond, taken[i].node, s->stack[i].node);
	}
	return to - 1;
}

void loc_run(struct symbolic *s, const Dwarf_Op *ops, size_t n)
{
	size_t i;

	for (i = 0; i < n && !s->why; i++) {
		const Dwarf_Op *op = &ops[i];

		if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
			push_const(s, op->atom - DW_OP_lit0);
		else if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
			loc_push_reg(s, op->atom - DW_OP_breg0, op->number);
		else if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31) {
			s->is = IS_REGISTER;
			s->reg = op->atom - DW_OP_reg0;
		} else if (op->atom == DW_OP_bra)
			i = branch(s, ops, n, i);
		else if (op->atom != DW_OP_nop && !loc_arithmetic(s, op))
			pushing(s, op);
	}
}

static struct loc finish(struct symbolic *s)
{
	struct loc_piece *pieces = types_alloc(s->t, s->pieces.n * sizeof(*pieces));
	struct loc_node *nodes;
	bool needs = false;
	struct loc l = { .pieces = pieces, .n = s->pieces.n };
	size_t i;

	for (i = 0; i < s->pieces.n; i++) {
		pieces[i] = s->pieces.v[i];
		needs |= pieces[i].kind == LOC_MEM_AT || pieces[i].kind == LOC_VALUE;
		if (pieces[i].kind == LOC_GONE)
			l.why = gone_here;
	}
	if (needs) {
		l.nodes = nodes = types_alloc(s->t, s->nodes.n * sizeof(*nodes));
		l.nnodes = s->nodes.n;
		memcpy(nodes, s->nodes.v, s->nodes.n * sizeof(*nodes));
	}
	return l;
}

struct loc dw_evaluate(struct types *t, const struct dw_context *c, Dwarf_Attribute *attr, const Dwarf_Op *ops, size_t n)
{
	struct symbolic s = { .t = t, .func = c->func, .pc = c->pc, .size = c->size, .at_entry = c->at_entry, .attr = attr };
	struct loc l;

	loc_run(&s, ops, n);
	if (!s.why && (s.is != IS_NONE || s.depth || !s.pieces.n))
		close_piece(&s, s.size);
	else if (!s.why)
		close_rest(&s);
	l = s.why ? loc_gone(s.why) : finish(&s);
	vec_free(&s.nodes);
	vec_free(&s.pieces);
	return l;
}
