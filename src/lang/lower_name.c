/* SPDX-License-Identifier: MIT */
/* Words: what the site knows, and the program's own variables by name. */
#include "lang/lower.h"

#include <string.h>

#include "arch/arch.h"
#include "base/addr.h"
#include "base/err.h"

struct val lower_site_reg(struct lower *w, uint32_t number)
{
	return val_reg(&v_u64, lower_pure(w, IR_REG, IR_I64, IR_NONE, IR_NONE, number), 0);
}

static struct val from_stack(struct lower *w, int64_t off)
{
	struct val m = lower_site_reg(w, w->l->arch->regs->sp);

	m.kind = K_MEM;
	m.off = off;
	m.good = off >= STACK_GOOD_MIN && off <= STACK_GOOD_MAX;
	return val_load(w, &m);
}

/* The integer arguments of the calling convention, at the first instruction. */
static struct val argument(struct lower *w, uint32_t n)
{
	bool go = w->c->site && w->c->site->own_calls;
	const struct call_abi *call = go ? w->l->arch->go_call : w->l->arch->c_call;

	if (n < call->nargs)
		return lower_site_reg(w, call->args[n]);
	return from_stack(w, call->pushes + 8 * (int64_t)(n - call->nargs));
}

/* ---- entry values of call probes ---- */

static struct val at_entry(struct lower *w, const struct expr *e)
{
	if (e->meaning == B_VAR || e->meaning == B_RETVAL)
		return lower_var(w, e->ref, e->type, e);
	if (e->meaning == B_VARG)
		return val_reg(e->type, lower_pure(w, IR_VECTOR, v_ir(e->type), IR_NONE, IR_NONE, e->value >> 4), 0);
	if (e->meaning == B_SARG)
		return from_stack(w, w->l->arch->c_call->pushes + 8 * (int64_t)e->value);
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
			lower_error(w, e, "'%s' is handed over in registers, and is gone at the exit; a probe on the entry has it", e->name);
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
		a = lower_located(w, loc, &v_void_ptr, e);
		v.reg = val_in_reg(w, &a);
		v.mask = a.mask;
		return v;
	}
	if (loc->n == 1 && p->kind == LOC_GLOBAL) {
		v.off = lower_live(w, p->off);
		return v;
	}
	if (loc->n == 1 && p->kind == LOC_TLS)
		return lower_thread_local(w, NULL, p->off, e->type, e);
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

/* Of a frame that is gone the stack is not known: it has no frames then. */
struct val lower_stack(struct lower *w, const struct expr *e, uint32_t frames)
{
	if (w->p->is_left)
		return val_const(e->type, 0);
	return val_reg(e->type, lower_pure(w, IR_STACK, IR_I64, IR_NONE, IR_NONE, frames), 0);
}

static uint64_t gone_mask(struct lower *w)
{
	struct val gone = val_const(&v_u64, ADDR_NO_FRAME);

	return lower_unknown(w, val_in_reg(w, &gone));
}

/* Where a frame is gone, only its stack pointer is known. */
struct val lower_asked_reg(struct lower *w, uint32_t number, const struct vtype *type)
{
	struct val v = lower_site_reg(w, number);

	v.type = type;
	if (w->p->is_left && number != w->l->arch->regs->sp)
		v.mask |= gone_mask(w);
	return v;
}

static struct val asked_vector(struct lower *w, const struct expr *e)
{
	struct val v = val_reg(e->type, lower_pure(w, IR_VECTOR, v_ir(e->type), IR_NONE, IR_NONE, e->value >> 4), 0);

	v.mask |= w->p->is_left ? gone_mask(w) : 0;
	return v;
}

/* As many bytes of it as there are. */
static struct val stack_bytes(struct lower *w, const struct expr *e)
{
	struct val sp = lower_asked_reg(w, w->l->arch->regs->sp, &v_u64), v = val_read_bytes(w, &sp, e->value, e->type);

	w->p->ins.v[w->p->ins.n - 1].flags |= IR_PARTIAL;
	return v;
}

void lower_frames(struct lower *w, arg_list *list, struct ir_record *r, const char *name, uint32_t frames)
{
	struct val v = { .kind = K_SLOT, .type = v_bytes(w->pool, 8 * frames), .slot = lower_slot(w, 8 * frames, NULL), .reg = IR_NONE };

	if (!w->p->is_left) {
		uint32_t bit = lower_bit(w);
		struct ir_ins *i = lower_ins(w, IR_FRAMES);

		i->slot = v.slot;
		i->imm = frames;
		i->bit = bit;
		v.mask = 1ull << bit;
	}
	lower_field(w, r, list, name, &v);
	list->v[list->n - 1].type = r->fields[r->nfields - 1].type = IR_ADDRS;
}

struct val lower_process_place(struct lower *w, const struct expr *e)
{
	const struct lang_site *s = w->c->site;
	uint64_t at = 0;

	if (s->object && s->object(s->arg, e->name, e->value, &at) < 0)
		lower_error(w, e, "%s", err_text());
	return val_const(e->type, at);
}

static void copy_word(struct lower *w, uint32_t slot, const char *word)
{
	uint32_t text = lower_slot(w, strlen(word), word);
	struct ir_ins *i = lower_ins(w, IR_SLOT_COPY);

	i->slot = slot;
	i->slot2 = text;
}

struct val lower_left(struct lower *w, const struct vtype *type)
{
	struct val v = { .kind = K_SLOT, .type = type, .reg = IR_NONE };
	uint32_t how, is_thrown, end;

	if (!w->p->is_left) {
		v.slot = lower_slot(w, strlen("return"), "return");
		return v;
	}
	how = lower_pure(w, IR_CTX, IR_I64, IR_NONE, IR_NONE, IR_CTX_LEFT);
	is_thrown = lower_pure(w, IR_EQ, IR_I64, how, lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, LEFT_THROWN), 0);
	v.slot = lower_slot(w, LEFT_LEN, NULL);
	end = lower_label(w);
	copy_word(w, v.slot, "thrown");
	lower_jump(w, IR_JNZ, is_thrown, end);
	copy_word(w, v.slot, "longjmp");
	lower_place_label(w, end);
	return v;
}

/* Where the function goes on in another one, its value is not there yet. */
static uint64_t tail_mask(struct lower *w)
{
	return lower_unknown(w, context(w, &v_u64, IR_CTX_TAIL).reg);
}

/* Rust: the address of a result in memory is known at the entry, and only there. */
static bool is_kept_result(const struct lower *w, const struct expr *e)
{
	const struct func_types *f;

	return w->entry && e->ref && types_func(w->c->site->types, w->c->site->entry, &f) == 0 && f->result_at.loc.n;
}

static struct val return_value(struct lower *w, const struct expr *e)
{
	struct val v, none = val_const(&v_u64, ADDR_NO_RESULT);

	if (is_kept_result(w, e))
		v = saved_value(w, e);
	else
		v = e->ref ? lower_var(w, e->ref, e->type, e) : e->type->kind == V_FLOAT ?
		    val_reg(e->type, lower_pure(w, IR_VECTOR, v_ir(e->type), IR_NONE, IR_NONE, 0), 0) : lower_site_reg(w, 0);
	if (e->value)	/* the function returns nothing */
		v.mask |= lower_unknown(w, val_in_reg(w, &none));
	else if (w->p->is_left)
		v.mask |= gone_mask(w);
	else if (w->c->site->tails)
		v.mask |= tail_mask(w);
	return v;
}

static struct val errno_value(struct lower *w, const struct expr *e)
{
	struct val v = lower_thread_local(w, "errno", 0, e->type, e);

	return val_load(w, &v);
}

struct val lower_name(struct lower *w, const struct expr *e)
{
	static const uint8_t ctx[] = {
		[B_PID] = IR_CTX_PID, [B_TID] = IR_CTX_TID, [B_CPU] = IR_CTX_CPU, [B_NSECS] = IR_CTX_NSECS,
		[B_ELAPSED] = IR_CTX_ELAPSED, [B_DURATION] = IR_CTX_DURATION, [B_UID] = IR_CTX_UID, [B_GID] = IR_CTX_GID,
		[B_RAND] = IR_CTX_RAND, [B_NCPUS] = IR_CTX_NCPUS, [B_CPID] = IR_CTX_CPID, [B_NS_PID] = IR_CTX_NS_PID, [B_NS_TID] = IR_CTX_NS_TID,
	};
	struct val v;

	switch ((enum builtin)e->meaning) {
	case B_COMM:	return lower_comm(w, e);
	case B_FUNC:	return text_or_site(w, e, w->c->site->func);
	case B_PROBE:	return text_or_site(w, e, w->c->site->probe);
	case B_PROBETYPE: return text_or_site(w, e, check_probe_type(w->c));
	case B_USERMODE: return val_const(e->type, 1);
	case B_USERNAME: return context(w, e->type, IR_CTX_UID);
	case B_PPID: case B_PCOMM: case B_LEADER_COMM: case B_CGROUP: return context(w, e->type, IR_CTX_PID);
	case B_STR_LENGTH: return val_const(e->type, w->l->config.max_strlen);
	case B_NUMAID:	return val_const(e->type, 0);
	case B_JIFFIES:		/* user space knows them as hundredths of a second */
		v = context(w, &v_u64, IR_CTX_NSECS);
		return val_reg(e->type, lower_pure(w, IR_DIV, IR_U64, v.reg, lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 10000000), 0), 0);
	case B_HAS_CPID:
		v = context(w, &v_i64, IR_CTX_CPID);
		return val_reg(e->type, lower_pure(w, IR_NE, IR_I64, v.reg, lower_pure(w, IR_CONST, IR_I64, IR_NONE, IR_NONE, 0), 0), 0);
	case B_USTACK:	return lower_stack(w, e, e->value ? e->value : 127);
	case B_STACK:	return stack_bytes(w, e);
	case B_ENUMERATOR: case B_CONSTANT: return val_const(e->type, e->value);
	case B_VAR:	return lower_program_var(w, e);
	case B_FIELD:	return lower_usdt_field(w, e);
	case B_ARG: case B_SARG: case B_VARG:
		if (e->ref)
			return lower_usdt_arg(w, e);
		return w->entry ? saved_value(w, e) : at_entry(w, e);
	case B_RETVAL:	return return_value(w, e);
	case B_LEFT:	return lower_left(w, e->type);
	case B_REG:	return lower_asked_reg(w, e->value, e->type);
	case B_VECTOR:	return asked_vector(w, e);
	case B_ERRNO:	return errno_value(w, e);
	default:
		return context(w, e->type, ctx[e->meaning]);
	}
}

/* Can an event have it, or a part of it? */
static bool is_shown(struct lower *w, const struct var *v)
{
	bool is_ref;
	const struct vtype *t = v_of_var(w->pool, w->c->site->types, v->type, &is_ref);
	uint32_t i;

	if (t->kind == V_ERROR || !loc_is_there(&v->loc))
		return false;
	for (i = 0; i < v->loc.n; i++)
		if (v->loc.pieces[i].kind == LOC_ST || (v->loc.pieces[i].kind == LOC_VECTOR && v->loc.pieces[i].size > 8))
			return false;
	return true;
}

bool lower_shows_result(struct lower *w)
{
	const struct func_types *f;

	return !w->c->site->types || types_func(w->c->site->types, w->c->site->entry, &f) < 0 ||
	       (type_get(w->c->site->types, type_strip(w->c->site->types, f->ret))->kind == TYPE_VOID ? !f->is_void :
		is_shown(w, check_result_var(w->c->site, f)));
}

/* const char *: what it points to was not made to be written to, so it is text at the entry already. */
static bool is_const_text(struct types *t, type_id id)
{
	const struct type *p = type_get(t, type_strip(t, id)), *to;
	bool is_const = false;

	if (p->kind != TYPE_PTR)
		return false;
	for (id = p->ref; (to = type_get(t, id))->kind == TYPE_CONST || to->kind == TYPE_VOLATILE; id = to->ref)
		is_const |= to->kind == TYPE_CONST;
	return is_const && to->kind == TYPE_INT && to->size == 1 && to->flags & TYPE_CHAR && to->name && !strcmp(to->name, "char");
}

#define SHOWN_TEXT 256

/* str(name, 256), or the name alone if that can't be had there. */
static struct val param_text(struct lower *w, struct expr *name)
{
	struct expr limit = { .kind = E_INT, .value = SHOWN_TEXT, .at = name->at, .len = name->len }, *list[] = { name, &limit };
	struct expr call = { .kind = E_CALL, .name = "str", .list = list, .nlist = 2, .at = name->at, .len = name->len };

	return check_expr(w->c, &call)->kind == V_ERROR ? lower_program_var(w, name) : lower_expr(w, &call);
}

/* $params: all parameters of the function, by name. */
void lower_params(struct lower *w, arg_list *list, struct ir_record *r)
{
	const struct func_types *f;
	const struct expr *at = w->at;
	uint32_t i;

	if (w->c->site->usdt) {
		lower_usdt_params(w, list, r);
		return;
	}
	if (!w->c->site->types || types_func(w->c->site->types, w->c->site->entry, &f) < 0) {
		lower_error(w, w->at, "$params needs the program's debug info");
		return;
	}
	for (i = 0; i < f->nparams; i++) {
		bool is_ref;
		const struct vtype *t = v_of_var(w->pool, w->c->site->types, f->params[i].type, &is_ref);
		struct expr e = { .kind = E_NAME, .meaning = B_VAR, .ref = (void *)&f->params[i], .type = t,
				  .name = f->params[i].name ? f->params[i].name : "?", .at = at->at, .len = at->len };
		struct val v;

		if (!is_shown(w, &f->params[i]) || (w->entry && f->params[i].loc.n > 1))
			continue;
		if (f->params[i].flags & (VAR_UNSURE | VAR_DISPUTED))
			diag_warn(w->l->diags, at->at, at->len, "the compiler may have changed how this static function is called");
		v = w->c->clause->is_line && is_const_text(w->c->site->types, f->params[i].type) ? param_text(w, &e) : lower_program_var(w, &e);
		lower_some_fields(w, r, list, e.name, &v);
		w->at = at;		/* it was an expression of this round */
	}
}

void lower_regs(struct lower *w, arg_list *list, struct ir_record *r)
{
	uint32_t i;

	for (i = 0; i <= reg_pc(w->l->arch->regs); i++) {
		struct val v = lower_asked_reg(w, i, &v_u64);

		lower_field(w, r, list, w->l->arch->regs->names[i], &v);
		r->fields[r->nfields - 1].show = IR_SHOW_RAW;
	}
}
