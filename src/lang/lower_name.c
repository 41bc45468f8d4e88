/* SPDX-License-Identifier: MIT */
/* Words: what the site knows, and the program's own variables by where they are. */
#include "lang/lower.h"

#include <string.h>

#include "arch/regs.h"
#include "base/err.h"

#define STACK_GOOD_MIN (-128)
#define STACK_GOOD_MAX 2040	/* above it the stack may end */
#define REG_SP 4

struct val lower_site_reg(struct lower *w, uint32_t number)
{
	return val_reg(&v_u64, lower_pure(w, IR_REG, IR_I64, IR_NONE, IR_NONE, number), 0);
}

static struct val from_stack(struct lower *w, int64_t off)
{
	struct val m = lower_site_reg(w, REG_SP);

	m.kind = K_MEM;
	m.off = off;
	m.good = off >= STACK_GOOD_MIN && off <= STACK_GOOD_MAX;
	return val_load(w, &m);
}

/* The integer arguments of the calling convention, at the first instruction. */
static struct val argument(struct lower *w, uint32_t n)
{
	bool go = w->c->site && w->c->site->is_go;
	uint32_t in_regs = go ? ARRAY_SIZE(x86_regs.go_args) : ARRAY_SIZE(x86_regs.args);

	if (n < in_regs)
		return lower_site_reg(w, go ? x86_regs.go_args[n] : x86_regs.args[n]);
	return from_stack(w, 8 + 8 * (int64_t)(n - in_regs));
}

/* ---- thread-local variables ---- */

/* Memory at so many bytes of this module's block, or of a variable that has a name. */
static struct val thread_local(struct lower *w, const char *symbol, int64_t byte, const struct vtype *type, const struct expr *e)
{
	const struct lang_site *s = w->c->site;
	struct val v = val_reg(type, lower_pure(w, IR_CTX, IR_I64, IR_NONE, IR_NONE, IR_CTX_THREAD), 0);
	int64_t off = 0;

	if (s->tls && s->tls(s->tls_arg, symbol, &off) < 0)
		lower_error(w, e, "'%s' is thread-local, and %s", e->name, err_text());
	v.kind = K_MEM;
	v.off = off + byte;
	return v;
}

/* ---- locations ---- */

static uint8_t node_op(uint8_t op)
{
	static const uint8_t ops[] = {
		[LOP_ADD] = IR_ADD, [LOP_SUB] = IR_SUB, [LOP_MUL] = IR_MUL, [LOP_AND] = IR_AND, [LOP_OR] = IR_OR,
		[LOP_XOR] = IR_XOR, [LOP_SHL] = IR_SHL, [LOP_SHR] = IR_SHR, [LOP_SAR] = IR_SHR, [LOP_SDIV] = IR_DIV,
		[LOP_UMOD] = IR_MOD, [LOP_UDIV] = IR_DIV, [LOP_EQ] = IR_EQ, [LOP_NE] = IR_NE, [LOP_SLT] = IR_LT,
		[LOP_SLE] = IR_LE, [LOP_SGT] = IR_GT, [LOP_SGE] = IR_GE,
	};

	return op < ARRAY_SIZE(ops) ? ops[op] : IR_NOP;
}

static uint8_t sized(unsigned int bytes, bool sign)
{
	return (sign ? IR_I8 : IR_U8) + (bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 0);
}

static struct val node_load(struct lower *w, const struct val *address, unsigned int bytes)
{
	struct val m = *address;

	m.kind = K_MEM;
	m.type = bytes == 1 ? &v_u8 : bytes == 2 ? &v_u16 : bytes == 4 ? &v_u32 : &v_u64;
	m.good = false;
	if (address->kind == K_CONST) {
		m.reg = IR_NONE;
		m.off = address->k.i;
	}
	return val_load(w, &m);
}

static struct val node_math(struct lower *w, const struct loc_node *n, const struct val *a, const struct val *b)
{
	bool is_signed = n->op == LOP_SAR || n->op == LOP_SDIV || (n->op >= LOP_SLT && n->op <= LOP_SGE);
	uint32_t ra = val_in_reg(w, a), rb = val_in_reg(w, b);

	return val_reg(&v_u64, lower_pure(w, node_op(n->op), is_signed ? IR_I64 : IR_U64, ra, rb, 0), a->mask | b->mask);
}

static struct val node_value(struct lower *w, const struct loc_node *n, const struct val *vals, const struct expr *e)
{
	const struct val *a = &vals[n->a], *b = &vals[n->b];

	switch ((enum loc_op)n->op) {
	case LOP_CONST:	return val_const(&v_u64, n->imm);
	case LOP_REG:	return lower_site_reg(w, n->a);
	case LOP_ADDR:	return val_const(&v_u64, lower_live(w, n->imm));
	case LOP_LOAD:	return node_load(w, a, n->imm);
	case LOP_NEG:	return val_reg(&v_u64, lower_pure(w, IR_NEG, IR_U64, val_in_reg(w, a), IR_NONE, 0), a->mask);
	case LOP_NOT:	return val_reg(&v_u64, lower_pure(w, IR_NOT, IR_U64, val_in_reg(w, a), IR_NONE, 0), a->mask);
	case LOP_SEXT: case LOP_ZEXT:
		return val_reg(&v_u64, lower_pure(w, IR_CAST, sized(n->imm, n->op == LOP_SEXT), val_in_reg(w, a), IR_NONE, 0), a->mask);
	case LOP_TLS: {
		struct val v = thread_local(w, NULL, n->imm, &v_u64, e);

		return val_address(w, &v);
	}
	default:
		return node_math(w, n, a, b);
	}
}

struct val lower_nodes(struct lower *w, const struct loc *loc, uint32_t last, const struct expr *e)
{
	struct val *vals = pool_alloc(w->pool, ((size_t)loc->nnodes + 1) * sizeof(*vals));
	uint32_t i;

	for (i = 0; i < loc->nnodes && i <= last; i++)
		vals[i] = node_value(w, &loc->nodes[i], vals, e);
	return vals[MIN(last, loc->nnodes ? loc->nnodes - 1 : 0)];
}

static struct val object(struct lower *w, const struct val *address, const struct vtype *type)
{
	struct val m = { .kind = K_MEM, .type = type, .reg = IR_NONE, .slot = IR_NONE, .mask = address->mask };

	if (address->kind == K_CONST)
		m.off = address->k.i;
	else
		m.reg = val_in_reg(w, address);
	return v_is_scalar(type) ? val_load(w, &m) : m;
}

/* A value in a register or computed: of the width that its type says. */
static struct val narrowed(struct lower *w, struct val v, const struct vtype *type, const struct expr *e)
{
	if (type->kind == V_FLOAT && v.type->kind != V_FLOAT) {
		lower_error(w, e, "'%s' is a float in an integer register, which is not supported yet", e->name);
		return v;
	}
	v.type = &v_u64;
	if (type->is_bool && v.kind == K_REG)	/* only the low byte is its own */
		v.reg = lower_pure(w, IR_CAST, IR_U8, v.reg, IR_NONE, 0);
	if (type->kind == V_INT && v.kind == K_REG && type->size < 8)
		v = val_reg(type, lower_pure(w, IR_CAST, v_ir(type), v.reg, IR_NONE, 0), v.mask);
	else if (v.kind == K_CONST)
		v = val_convert(w, &v, type);
	v.type = type;
	return v;
}

static struct val bytes_const(const struct loc_piece *p, const struct vtype *type)
{
	struct val v = val_const(type, 0);
	float f;

	memcpy(&v.k, p->bytes, MIN(p->size, 8u));
	if (type->kind == V_FLOAT) {
		v.kind = K_FCONST;
		memcpy(&f, p->bytes, 4);
		if (type->size == 4)
			v.k.f = f;
	}
	return v;
}

static struct val located(struct lower *w, const struct loc *loc, const struct vtype *type, const struct expr *e)
{
	const struct loc_piece *p = &loc->pieces[0];
	struct val v;

	if (v_is_object(type) && (loc->n > 1 || (p->kind != LOC_MEM && p->kind != LOC_GLOBAL && p->kind != LOC_TLS && p->kind != LOC_MEM_AT)))
		return (struct val){ .kind = K_PIECES, .type = type, .loc = loc, .reg = IR_NONE, .slot = IR_NONE };
	if (loc->n != 1) {
		lower_error(w, e, "'%s' is in several pieces, which can't be read yet", e->name);
		return val_const(&v_i64, 0);
	}
	switch ((enum loc_kind)p->kind) {
	case LOC_REG:
		return narrowed(w, lower_site_reg(w, p->reg), type, e);
	case LOC_XMM:
		if (type->kind == V_FLOAT)
			return val_reg(type, lower_pure(w, IR_XMM, v_ir(type), IR_NONE, IR_NONE, p->reg), 0);
		break;
	case LOC_MEM:
		v = lower_site_reg(w, p->reg);
		v.kind = K_MEM;
		v.type = type;
		v.off = p->off;
		v.good = p->reg == REG_SP && p->off >= STACK_GOOD_MIN && p->off <= STACK_GOOD_MAX;
		return v_is_scalar(type) ? val_load(w, &v) : v;
	case LOC_GLOBAL:
		v = val_const(&v_u64, lower_live(w, p->off));
		return object(w, &v, type);	/* a program may shut pages of its own data: see gen/loads.c */
	case LOC_CONST:
		return narrowed(w, val_const(&v_u64, p->off), type, e);
	case LOC_MEM_AT:
		v = lower_nodes(w, loc, p->node, e);
		return object(w, &v, type);
	case LOC_VALUE:
		return narrowed(w, lower_nodes(w, loc, p->node, e), type, e);
	case LOC_BYTES:
		if (v_is_scalar(type))
			return bytes_const(p, type);
		break;
	case LOC_TLS:
		v = thread_local(w, NULL, p->off, type, e);
		return v_is_scalar(type) ? val_load(w, &v) : v;
	case LOC_ST: case LOC_GONE:
		break;
	}
	lower_error(w, e, "'%s' can't be read here: %s", e->name, loc->why ? loc->why : "it is in a place that is not supported yet");
	return val_const(&v_i64, 0);
}

/* A variable, or what it refers to. */
static struct val variable(struct lower *w, const struct var *v, const struct vtype *type, const struct expr *e)
{
	struct val a;
	bool is_ref;

	v_of_var(w->pool, w->c->site->types, v->type, &is_ref);
	if (!is_ref)
		return located(w, &v->loc, type, e);
	a = located(w, &v->loc, &v_void_ptr, e);
	return object(w, &a, type);
}

/* ---- entry values of call probes ---- */

static struct val at_entry(struct lower *w, const struct expr *e)
{
	if (e->meaning == B_VAR)
		return variable(w, e->ref, e->type, e);
	if (e->meaning == B_SARG)
		return from_stack(w, 8 + 8 * (int64_t)e->value);
	return argument(w, e->value);
}

/* Addresses of objects are kept; the objects themselves are read when they are asked for. */
static struct val saved_value(struct lower *w, const struct expr *e)
{
	struct ir_prog *exit = w->p;
	struct saved *s;
	struct val v;
	uint32_t reg;
	size_t i;

	for (i = 0; i < w->saved.n; i++) {
		s = &w->saved.v[i];
		if (s->meaning == e->meaning && s->number == e->value && (e->meaning != B_VAR || strcmp(s->name, e->name) == 0))
			break;
	}
	if (i == w->saved.n) {
		known_list k = w->known;
		struct ir_ins *ins;

		w->known = w->entry_known;
		w->p = w->entry;
		v = at_entry(w, e);
		if (v.kind == K_PIECES)
			lower_error(w, e, "'%s' is handed over in registers, and is gone at the exit", e->name);
		if (v.kind == K_MEM)
			v = val_address(w, &v);
		reg = val_in_reg(w, &v);
		ins = lower_ins(w, IR_SAVE);
		ins->a = reg;
		ins->imm = i;
		w->entry_known = w->known;
		w->known = k;
		w->p = exit;
		*vec_add(&w->saved) = (struct saved){ e->meaning, e->value, e->name, i, e->type, v.mask };
	}
	s = &w->saved.v[i];
	v = val_reg(s->type, 0, s->mask);
	for (i = 0; i < w->known.n; i++)
		if (w->known.v[i].op == IR_SAVED && w->known.v[i].imm == s->index)
			break;
	if (i < w->known.n) {
		v.reg = w->known.v[i].dst;
	} else {
		struct ir_ins *ins = lower_ins(w, IR_SAVED);

		ins->imm = s->index;
		ins->dst = v.reg = lower_reg(w, s->type->kind == V_FLOAT ? IR_F : IR_I);
		*vec_add(&w->known) = (struct known){ .op = IR_SAVED, .a = IR_NONE, .b = IR_NONE, .imm = s->index, .dst = v.reg };
	}
	if (!v_is_scalar(s->type))
		v.kind = K_MEM;
	return v;
}

/* Of the program or of the thread: there at the exit of a call as well. */
static bool is_global(const struct expr *e)
{
	const struct loc *loc = e->meaning == B_VAR ? &((const struct var *)e->ref)->loc : NULL;

	return loc && (loc->pieces[0].kind == LOC_GLOBAL || loc->pieces[0].kind == LOC_TLS);
}

struct val lower_program_var(struct lower *w, const struct expr *e)
{
	return w->entry && !is_global(e) ? saved_value(w, e) : at_entry(w, e);
}

/* Where a variable of the program is, for its address. */
struct val lower_var_object(struct lower *w, const struct expr *e)
{
	const struct loc *loc = &((const struct var *)e->ref)->loc;
	const struct loc_piece *p = &loc->pieces[0];
	struct val v = { .kind = K_MEM, .type = e->type, .reg = IR_NONE, .slot = IR_NONE }, a;
	bool is_ref;

	v_of_var(w->pool, w->c->site->types, ((const struct var *)e->ref)->type, &is_ref);
	if (is_ref && !w->entry) {
		a = located(w, loc, &v_void_ptr, e);
		v.reg = val_in_reg(w, &a);
		v.mask = a.mask;
		return v;
	}
	if (loc->n == 1 && p->kind == LOC_GLOBAL) {
		v.off = lower_live(w, p->off);
		return v;
	}
	if (loc->n == 1 && p->kind == LOC_TLS)
		return thread_local(w, NULL, p->off, e->type, e);
	if (w->entry || loc->n != 1 || (p->kind != LOC_MEM && p->kind != LOC_MEM_AT)) {
		lower_error(w, e, "'%s' has no address here: it is not in memory%s", e->name, w->entry ? " at the exit" : "");
		return v;
	}
	a = p->kind == LOC_MEM ? lower_site_reg(w, p->reg) : lower_nodes(w, loc, p->node, e);
	v.reg = val_in_reg(w, &a);
	v.mask = a.mask;
	v.off = p->kind == LOC_MEM ? p->off : 0;
	return v;
}

/* ---- builtins ---- */

static struct val context(struct lower *w, const struct vtype *type, uint32_t what)
{
	struct ir_ins *i;
	uint32_t dst;

	/* each look at the clock is a new one */
	if (what != IR_CTX_NSECS && what != IR_CTX_ELAPSED && what != IR_CTX_RAND && what != IR_CTX_CPU)
		return val_reg(type, lower_pure(w, IR_CTX, IR_I64, IR_NONE, IR_NONE, what), 0);
	dst = lower_reg(w, IR_I);
	i = lower_ins(w, IR_CTX);
	i->imm = what;
	i->dst = dst;
	return val_reg(type, dst, 0);
}

static struct val text_or_site(struct lower *w, const struct expr *e, const char *name)
{
	if (e->type->kind != V_STR)
		return context(w, e->type, IR_CTX_SITE);
	return (struct val){ .kind = K_SLOT, .type = e->type, .slot = lower_slot(w, strlen(name), name), .reg = IR_NONE };
}

static struct val lower_comm(struct lower *w, const struct expr *e)
{
	uint32_t slot = lower_slot(w, 16, NULL);

	lower_ins(w, IR_COMM)->slot = slot;
	return (struct val){ .kind = K_SLOT, .type = e->type, .slot = slot, .reg = IR_NONE };
}

static struct val lower_stack(struct lower *w, const struct expr *e)
{
	return val_reg(e->type, lower_pure(w, IR_STACK, IR_I64, IR_NONE, IR_NONE, 127), 0);
}

/*
 * Where the function goes on in another one, its value is not there yet: the read of an address that is
 * none says so, in the way of all reads that fail.
 */
static uint64_t tail_mask(struct lower *w)
{
	struct val m = context(w, &v_u64, IR_CTX_TAIL);
	uint32_t at = m.reg, end;
	size_t mark = w->known.n, i;

	for (i = 0; i < mark; i++)
		if (w->known.v[i].op == IR_IF_FAULT && w->known.v[i].a == at)
			return w->known.v[i].mask;
	end = lower_label(w);
	lower_jump(w, IR_JZ, at, end);
	m.kind = K_MEM;
	m = val_load(w, &m);
	lower_forget(w, mark);
	lower_place_label(w, end);
	/* once is enough */
	*vec_add(&w->known) = (struct known){ .op = IR_IF_FAULT, .a = at, .b = IR_NONE, .mask = m.mask };
	return m.mask;
}

static struct val return_value(struct lower *w, const struct expr *e)
{
	struct val v = e->ref ? variable(w, e->ref, e->type, e) : lower_site_reg(w, 0);

	if (w->c->site->tails)
		v.mask |= tail_mask(w);
	return v;
}

static struct val errno_value(struct lower *w, const struct expr *e)
{
	struct val v = thread_local(w, "errno", 0, e->type, e);

	return val_load(w, &v);
}

struct val lower_name(struct lower *w, const struct expr *e)
{
	static const uint8_t ctx[] = {
		[B_PID] = IR_CTX_PID, [B_TID] = IR_CTX_TID, [B_CPU] = IR_CTX_CPU, [B_NSECS] = IR_CTX_NSECS,
		[B_ELAPSED] = IR_CTX_ELAPSED, [B_DURATION] = IR_CTX_DURATION, [B_UID] = IR_CTX_UID, [B_GID] = IR_CTX_GID,
		[B_RAND] = IR_CTX_RAND, [B_NCPUS] = IR_CTX_NCPUS, [B_CPID] = IR_CTX_CPID,
	};

	switch ((enum builtin)e->meaning) {
	case B_COMM:	return lower_comm(w, e);
	case B_FUNC:	return text_or_site(w, e, w->c->site->func);
	case B_PROBE:	return text_or_site(w, e, w->c->site->probe);
	case B_USTACK: case B_STACK: return lower_stack(w, e);
	case B_ENUMERATOR: case B_CONSTANT: return val_const(e->type, e->value);
	case B_VAR:	return lower_program_var(w, e);
	case B_ARG: case B_SARG: return w->entry ? saved_value(w, e) : at_entry(w, e);
	case B_RETVAL:	return return_value(w, e);
	case B_REG:	return lower_site_reg(w, e->value);
	case B_ERRNO:	return errno_value(w, e);
	default:
		return context(w, e->type, ctx[e->meaning]);
	}
}

/* $params: all parameters of the function, by name. */
void lower_params(struct lower *w, arg_list *list, struct ir_record *r)
{
	const struct func_types *f;
	uint32_t i;

	if (!w->c->site->types || types_func(w->c->site->types, w->c->site->entry, &f) < 0) {
		lower_error(w, w->at, "$params needs the program's debug info");
		return;
	}
	for (i = 0; i < f->nparams; i++) {
		bool is_ref;
		const struct vtype *t = v_of_var(w->pool, w->c->site->types, f->params[i].type, &is_ref);
		struct expr e = { .kind = E_NAME, .meaning = B_VAR, .ref = (void *)&f->params[i], .type = t,
				  .name = f->params[i].name ? f->params[i].name : "?", .at = w->at->at, .len = w->at->len };
		struct val v;

		if (t->kind == V_ERROR || !loc_is_there(&f->params[i].loc) || (w->entry && f->params[i].loc.n > 1))
			continue;
		if (f->params[i].flags & (VAR_UNSURE | VAR_DISPUTED))
			diag_warn(w->l->diags, w->at->at, w->at->len, "the compiler may have changed how this static function is called");
		v = lower_program_var(w, &e);
		lower_fields(w, r, list, e.name, &v);
	}
}

void lower_regs(struct lower *w, arg_list *list, struct ir_record *r)
{
	static const char *const names[] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip",
	};
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		struct val v = lower_site_reg(w, i);

		v.type = &v_void_ptr;
		lower_field(w, r, list, names[i], &v);
	}
}
