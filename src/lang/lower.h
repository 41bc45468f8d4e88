/* SPDX-License-Identifier: MIT */
/* The lowerer's own parts. */
#ifndef JAB_LANG_LOWER_H
#define JAB_LANG_LOWER_H

#include "lang/agg.h"
#include "lang/check.h"

enum val_kind {
	K_VOID,
	K_CONST, K_FCONST,	/* k */
	K_REG,
	K_SLOT,			/* text or bytes, the whole slot */
	K_MEM,			/* an object at address reg (if any) + off */
	K_SLOT_MEM,		/* an object in a slot at off, + reg (if any) */
	K_PIECES,		/* an object that is not in memory: from byte off on of what loc says */
	K_TUPLE,
};

struct val {
	uint8_t kind;
	bool good;		/* K_MEM: the address can't fail */
	const struct vtype *type;
	uint64_t mask;		/* faults it depends on; K_MEM: of its address */
	num k;
	uint32_t reg, slot;
	int64_t off;
	const struct loc *loc;
	struct val *elems;
	uint32_t n;
};

/* A computation that need not be done again as long as control stays below it. */
struct known { uint8_t op, type; uint32_t a, b, dst; int64_t imm; uint64_t mask; };
typedef VEC(struct known) known_list;

struct saved { int meaning; uint64_t number; const char *name; uint32_t index; const struct vtype *type; uint64_t mask; };

#define LOWER_MOST_FIELDS 32	/* of an event, where some were made of one */

struct lower {
	struct checker *c;
	struct lang *l;
	struct pool *pool;
	struct ir_unit *u;
	struct ir_prog *p;		/* being written */
	struct ir_prog *entry;		/* call probes: what runs first; else NULL */
	known_list known, entry_known;
	VEC(struct saved) saved;
	uint32_t end;			/* label of the program's end */
	uint32_t next_bit;
	uint32_t reserved;		/* fields of the event that come after those which are being made of one */
	uint64_t entry_bits;		/* while a program with is_left is written: those that the entry has */
	uint32_t loop_depth;
	uint32_t loop_bit;
	uint32_t on_break, on_continue;
	uint64_t rounds;		/* of the loops around us, multiplied */
	uint32_t maybe;			/* conditions around us within an expression: what stands here need not happen */
	bool steps;			/* variables change in the middle of this statement */
	const struct expr *at;
	bool failed;
};

/* lower.c: instructions */
struct ir_ins *lower_ins(struct lower *w, uint8_t op);
uint64_t lower_live(struct lower *w, uint64_t addr);	/* a link address, as it is there */
uint32_t lower_reg(struct lower *w, uint8_t class);
uint32_t lower_slot(struct lower *w, uint32_t cap, const char *text);
uint32_t lower_label(struct lower *w);
void lower_place_label(struct lower *w, uint32_t label);
void lower_jump(struct lower *w, uint8_t op, uint32_t reg, uint32_t label);
void lower_if_fault(struct lower *w, uint64_t mask, uint32_t label);
uint32_t lower_pure(struct lower *w, uint8_t op, uint8_t type, uint32_t a, uint32_t b, int64_t imm);
void lower_forget(struct lower *w, size_t mark);
void lower_forget_all(struct lower *w);
void lower_error(struct lower *w, const struct expr *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
uint32_t lower_bit(struct lower *w);
void lower_statements(struct lower *w, const struct stmt *s);

/* lower_val.c: values */
struct val val_const(const struct vtype *type, int64_t v);
struct val val_reg(const struct vtype *type, uint32_t reg, uint64_t mask);
uint32_t val_in_reg(struct lower *w, const struct val *v);
struct val val_load(struct lower *w, const struct val *v);		/* an object that is a number */
struct val val_object(struct lower *w, const struct val *a);		/* what stands in front of a dot */
struct val val_number(struct lower *w, const struct val *a, uint64_t bytes);	/* 1, 2, 4, 8 bytes of an object as a number */
struct val val_convert(struct lower *w, const struct val *v, const struct vtype *to);
struct val val_text(struct lower *w, const struct val *v, const struct expr *e);	/* any text as a slot */
struct val val_read_text(struct lower *w, const struct val *address, const struct val *len, uint32_t most);
struct val val_bytes(struct lower *w, const struct val *v);		/* an object as a slot */
struct val val_read_bytes(struct lower *w, const struct val *address, uint32_t most, const struct vtype *type);
struct val val_address(struct lower *w, const struct val *v);
struct val place_new(struct lower *w, const struct vtype *type, bool in_slot);
void place_set(struct lower *w, struct val *place, const struct val *v, const struct expr *e);
void place_zero(struct lower *w, const struct val *place);

/* Operands of maps and events */
typedef VEC(struct ir_arg) arg_list;
void arg_add(struct lower *w, arg_list *list, const struct val *v);	/* tuples: their elements */
void args_set(struct lower *w, struct ir_ins *i, arg_list *list, uint32_t nkeys);
uint32_t arg_show(struct lower *w, const struct vtype *t);
uint32_t shown_number(struct lower *w, const struct vtype *t);		/* in ir_unit.shown */
uint64_t val_mask(const struct val *v);					/* of all its elements */

/* lower_expr.c */
struct val lower_expr(struct lower *w, const struct expr *e);
bool lower_steps(const struct expr *e);			/* is a variable changed, and not by all of it? */
struct val lower_math(struct lower *w, uint8_t op, const struct vtype *t, const struct val *a, const struct val *b);
struct val lower_divided(struct lower *w, uint8_t op, const struct vtype *t, const struct val *a, const struct val *b);	/* by zero: 1 in scripts */
/* Go to label if the truth of e is sense; else go on. A condition that can't be read goes to fault. */
void lower_branch(struct lower *w, const struct expr *e, bool sense, uint32_t label, uint32_t fault);
struct val lower_text(struct lower *w, const char *s, uint32_t len);
struct val lower_variable(struct lower *w, const struct expr *e);
const struct vtype *update_type(struct lower *w, uint8_t op, const struct vtype *t, const struct vtype *by);
struct val lower_scaled(struct lower *w, const struct val *index, uint64_t size);

/* lower_object.c */
struct val lower_object(struct lower *w, const struct expr *e);	/* where it is; nothing is loaded */
struct val lower_member(struct lower *w, const struct expr *e);
struct val lower_member_of(struct lower *w, const struct val *obj, const struct vmember *m);
struct val lower_element(struct lower *w, const struct expr *e);
struct val lower_index(struct lower *w, const struct expr *e);
struct val lower_address(struct lower *w, const struct expr *e);

/* lower_pieces.c */
struct val pieces_load(struct lower *w, const struct val *v);

/* lower_field.c: what an event can hold of it; one field, or many */
void lower_fields(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v);
bool lower_some_fields(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v); /* false: none */

/* lower_loc.c */
#define STACK_GOOD_MIN (-128)
#define STACK_GOOD_MAX 0		/* what is above may be another page, and that missing: gen/loads.c looks */
/* Memory at so many bytes of this module's block, or of a variable that has a name. */
struct val lower_thread_local(struct lower *w, const char *symbol, int64_t byte, const struct vtype *type, const struct expr *e);
struct val lower_nodes(struct lower *w, const struct loc *loc, uint32_t last, const struct expr *e);
struct val lower_located(struct lower *w, const struct loc *loc, const struct vtype *type, const struct expr *e);
struct val lower_var(struct lower *w, const struct var *v, const struct vtype *type, const struct expr *e);	/* it, or what it refers to */
struct val lower_bits(struct lower *w, struct val v, const struct vtype *type);	/* a number of which the low bytes are a value */
struct val lower_vector_bits(struct lower *w, uint32_t number);	/* the lower half */
uint64_t lower_unknown(struct lower *w, uint32_t address);	/* a value is not known if this is not 0; its mask */

/* lower_usdt.c: of the site's static tracepoint */
struct val lower_usdt_arg(struct lower *w, const struct expr *e);
struct val lower_usdt_field(struct lower *w, const struct expr *e);
void lower_usdt_params(struct lower *w, arg_list *list, struct ir_record *r);

/* lower_name.c */
struct val lower_site_reg(struct lower *w, uint32_t number);
struct val lower_asked_reg(struct lower *w, uint32_t number, const struct vtype *type);	/* one that the user names */
struct val lower_stack(struct lower *w, const struct expr *e, uint32_t frames);
struct val lower_left(struct lower *w, const struct vtype *type);	/* how the call ended */
struct val lower_name(struct lower *w, const struct expr *e);
struct val lower_process_place(struct lower *w, const struct expr *e);	/* E_PLACE */
void lower_frames(struct lower *w, arg_list *list, struct ir_record *r, const char *name, uint32_t frames);	/* a backtrace */
struct val lower_program_var(struct lower *w, const struct expr *e);
struct val lower_var_object(struct lower *w, const struct expr *e);
void lower_params(struct lower *w, arg_list *list, struct ir_record *r);
bool lower_shows_result(struct lower *w);	/* would an event have something of retval? */
void lower_regs(struct lower *w, arg_list *list, struct ir_record *r);

/* lower_map.c */
uint32_t lower_map_number(struct lower *w, struct map_info *m);
struct val lower_map_get(struct lower *w, const struct expr *e);
void lower_map_keys(struct lower *w, const struct expr *e, arg_list *list, uint64_t *ret_mask);
struct val lower_map_assign(struct lower *w, const struct expr *e);
struct val lower_map_step(struct lower *w, const struct expr *e);

/* lower_loop.c */
void lower_while(struct lower *w, const struct stmt *s);
void lower_range(struct lower *w, const struct stmt *s);
void lower_for_map(struct lower *w, const struct stmt *s);

/* lower_call.c */
struct val lower_call(struct lower *w, const struct expr *e);
struct ir_record *lower_record(struct lower *w, uint8_t kind, const struct expr *e);
void lower_field(struct lower *w, struct ir_record *r, arg_list *list, const char *name, const struct val *v);
void lower_emit(struct lower *w, struct ir_record *r, arg_list *list);
char *lower_shape(const struct vtype *t);

/* lower_net.c */
struct val lower_net(struct lower *w, const struct expr *e);		/* ntop, pton, macaddr, strerror */
struct val lower_join(struct lower *w, const struct expr *e);

#endif
