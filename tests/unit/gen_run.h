/* SPDX-License-Identifier: MIT */
/*
 * Programs of the language, run twice in this process: as native code with every register and flag given,
 * and by the interpreter with the same. What both have recorded, counted and left in maps is compared.
 */
#ifndef JAB_TESTS_GEN_RUN_H
#define JAB_TESTS_GEN_RUN_H

#include <stdio.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "blob/blob.h"
#include "event_rings.h"
#include "gen/gen.h"
#include "gen/maps.h"
#include "lang/interp.h"
#include "machine.h"

#define GEN_SCRATCH (256u << 10)
#define GEN_MAPS (32u << 20)
#define GEN_STACK 65536
#define GEN_KEPT 8192
#define GEN_SITE 0x401000ull

static uint8_t gen_stack[GEN_STACK], gen_before[GEN_STACK];
static uint8_t *gen_maps_memory;
static uint64_t gen_errors[64][IR_ERRORS];
static uint64_t gen_cells[256];
#define GEN_PAIR_BITS 6
static uint8_t gen_pairs[GEN_PAIRS_SIZE(GEN_PAIR_BITS)];
static uint64_t gen_unpaired[65 + 64];		/* [64]: calls that were given up; behind it those that were left unseen */
static uint32_t gen_ids[256];
static struct gen_good gen_good;		/* of zeros: nothing is good */

static bool gen_fill;				/* code takes all the room there is, as in a pad */
static struct gen_site gen_at = { .addr = GEN_SITE, .number = 77, .func = GEN_SITE };

/* The stack that each body has promised to keep to, by where it stands. */
static struct { uint64_t body; int need; } gen_needs[64];

static inline size_t gen_need_of(uint64_t body)
{
	int need = gen_needs[body / 16 % 64].body == body ? gen_needs[body / 16 % 64].need : GEN_STACK_MAX;

	return MAX(need, STACK_UNASKED);
}

/* What one run has recorded. */
struct gen_seen { uint32_t n, id; uint64_t len; uint8_t payload[EVENT_LONG_MAX]; };
static struct gen_seen gen_native, gen_judged;

static inline uint8_t *gen_blob(void)
{
	static uint8_t *at;

	if (at)
		return at;
	at = map_or_die(64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memcpy(at, blob_image, blob_size);
	mprotect(at, 64 << 10, PROT_READ | PROT_EXEC);
	return at;
}

/* Behind reset_rings(). */
static inline void gen_set_up_scratch(void)
{
	struct event_slow_spec slow;

	for (int i = ncpus; i < nrings(); i++) {
		static uint8_t *scratch[NSLOW];

		if (!scratch[i - ncpus])
			scratch[i - ncpus] = map_or_die(GEN_SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		shared->slow_table[i - ncpus].scratch = (uint64_t)scratch[i - ncpus];
		shared->slow_table[i - ncpus].scratch_size = GEN_SCRATCH;
	}
	slow = make_slow_spec();
	emit_slow(&slow);
}

static inline void gen_set_up(void)
{
	if (!code_rw) {
		make_areas();
		gen_maps_memory = map_or_die(GEN_MAPS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		for (uint32_t i = 0; i < 256; i++)
			gen_ids[i] = 1000 + i;
	}
	reset_rings(RING_SIZE_MIN);
	gen_set_up_scratch();
}

/* Programs have asked for their stack already. */
static inline struct event_spec gen_make_event(bool has_rseq)
{
	struct event_spec spec = make_spec(has_rseq, NULL, 0);

	spec.no_stack = 0;
	return spec;
}

static inline struct gen_env gen_make_env(bool has_rseq, const struct maps_layout *l)
{
	return (struct gen_env){
		.event = gen_make_event(has_rseq), .ids = gen_ids, .maps = (uint64_t)gen_maps_memory, .layout = l, .cells = (uint64_t)gen_cells,
		.errors = (uint64_t)gen_errors, .enabled = 0, .nclauses = 64, .blob = (uint64_t)gen_blob(),
		.scratch_size = GEN_SCRATCH, .may_call = true, .mult = 1ull << 32, .pairs = (uint64_t)gen_pairs,
		.pair_bits = GEN_PAIR_BITS, .unpaired = (uint64_t)gen_unpaired, .good = (uint64_t)&gen_good,
		.timeless = (uint64_t)&shared->state.timeless, .has_thread_insn = has_rseq && getauxval(AT_HWCAP2) & 2,
		.uid = 11, .gid = 12, .online_cpus = 13, .cpid = 14,
	};
}

/* Code at an offset, and the way back behind it. Returns its length. */
static inline int gen_place(const struct ir_unit *u, const struct ir_prog *p, const struct gen_env *env, int off)
{
	uint8_t *rw = code_rw + BODY_OFF + off;
	int most = gen_measure(u, p), len;

	gen_at.no_stack = (uint64_t)&shared->no_stack;
	if (most < 0)
		return most;
	gen_at.size = gen_fill ? most : 0;
	if (most > CODE_SIZE - BODY_OFF - 256)
		return -E2BIG;
	len = gen_emit(u, p, env, &gen_at, (uint64_t)code_rx + BODY_OFF + off, rw);
	if (len < 0)
		return len;
	if (len > most)
		return -ERANGE;
	memcpy(rw + len, machine_back(), MACHINE_BACK);
	machine_body = (uint64_t)code_rx + BODY_OFF + off;
	gen_needs[machine_body / 16 % 64].body = machine_body;
	gen_needs[machine_body / 16 % 64].need = gen_stack_need(u, p);
	return len;
}

static inline void gen_look(int ring, const struct event_head *e, const uint64_t *fields)
{
	gen_native.n++;
	gen_native.id = e->id;
	gen_native.len = e->len - sizeof(*e);
	memcpy(gen_native.payload, fields, gen_native.len);
}

static inline void gen_emitted(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	gen_judged.n++;
	gen_judged.id = gen_ids[record];
	gen_judged.len = len;
	memcpy(gen_judged.payload, payload, MIN(len, sizeof(gen_judged.payload)));
}

static inline bool gen_read(void *data, uint64_t addr, void *buf, size_t len)
{
	struct iovec to = { buf, len }, from = { (void *)addr, len };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)len;
}

static inline void gen_machine(int flags, int misalign)
{
	fill_random(gen_stack, sizeof(gen_stack));
	machine_fill(flags & 127, (uint64_t)gen_stack + GEN_STACK - GEN_KEPT - misalign);
}

static uint32_t gen_their_pid, gen_our_pid, gen_our_tid;	/* of another pid namespace; 0: the process's own */

static inline struct interp_site gen_interp_site(void)
{
	struct interp_site s = { .comm = "comm" };

	memcpy(s.regs, machine_in.gpr, sizeof(machine_in.gpr));
	s.regs[16] = GEN_SITE;
	s.regs[17] = machine_in.flags;
	for (int i = 0; i < 16; i++)
		memcpy(&s.vectors[i], machine_in.fx + 160 + 16 * i, 8);
	s.ctx[IR_CTX_SITE] = 77;
	s.ctx[IR_CTX_NS_PID] = gen_their_pid ? gen_their_pid : (uint32_t)getpid();
	s.ctx[IR_CTX_NS_TID] = gettid();
	s.ctx[IR_CTX_PID] = gen_our_pid ? gen_our_pid : (uint32_t)getpid();
	s.ctx[IR_CTX_TID] = gen_our_tid ? gen_our_tid : (uint32_t)gettid();
	s.ctx[IR_CTX_UID] = 11;
	s.ctx[IR_CTX_GID] = 12;
	s.ctx[IR_CTX_NCPUS] = 13;
	s.ctx[IR_CTX_CPID] = 14;
	s.ctx[IR_CTX_THREAD] = (uint64_t)__builtin_thread_pointer();
	return s;
}

/* Run what was placed. NULL, or what of the machine has changed. */
static inline const char *gen_run(void (*run)(void))
{
	size_t low = machine_in.gpr[4] - gen_need_of(machine_body) - (uint64_t)gen_stack;
	const char *changed;

	memcpy(gen_before, gen_stack, sizeof(gen_stack));
	memset(&machine_out, 0, sizeof(machine_out));
	memset(&gen_native, 0, offsetof(struct gen_seen, payload));
	run();
	drain(gen_look);
	changed = machine_changed(gen_stack, gen_before, GEN_STACK);
	if (changed)
		return changed;
	if (run == machine_run && memcmp(gen_stack, gen_before, low))
		return "more of the stack than allowed";
	for (int i = ncpus; i < nrings(); i++)
		if (ring_owner(&rings[i]))
			return "a lock that is held";
	return NULL;
}

/* The last number that the native program has found; whether it is right is another matter. */
static uint64_t gen_stack_number;

static inline uint64_t gen_same_stack(void *data, uint32_t frames)
{
	return gen_stack_number;
}

static inline void gen_judge(struct interp *in, const struct ir_prog *p)
{
	struct interp_site site = gen_interp_site();

	memset(&gen_judged, 0, offsetof(struct gen_seen, payload));
	in->emit = gen_emitted;
	in->stack = gen_same_stack;
	in->read = gen_read;
	interp_run(in, p, &site);
}

/* ---- making programs by hand ---- */

static inline uint32_t gen_reg(struct ir_prog *p, enum ir_class c)
{
	*vec_add(&p->regs) = c;
	return p->regs.n - 1;
}

static inline struct ir_ins *gen_ins(struct ir_prog *p, enum ir_op op)
{
	struct ir_ins *i = vec_add(&p->ins);

	*i = (struct ir_ins){ .op = op, .type = IR_U64, .dst = IR_NONE, .a = IR_NONE, .b = IR_NONE, .slot = IR_NONE, .slot2 = IR_NONE };
	return i;
}

static inline void gen_arg(struct ir_prog *p, struct ir_ins *i, uint8_t type, uint32_t reg, uint64_t mask)
{
	struct ir_arg *a = vec_add(&p->args);

	*a = (struct ir_arg){ .type = type, .reg = reg, .mask = mask };
	if (!i->n)
		i->first = p->args.n - 1;
	i->n++;
}

/* A record with so many fields, numbers or (from `slots` on) strings. */
static inline uint32_t gen_record(struct ir_unit *u, uint32_t n, uint32_t slots, bool faulty)
{
	struct ir_record *r = vec_add(&u->records);

	*r = (struct ir_record){ .kind = IR_RECORD_EVENT, .nfields = n, .fields = xcalloc(n, sizeof(*r->fields)), .faulty = faulty };
	for (uint32_t i = 0; i < n; i++)
		r->fields[i] = (struct ir_field){ .type = i >= slots ? IR_STR : IR_U64, .cap = 256 };
	return u->records.n - 1;
}

static inline struct ir_map *gen_map(struct ir_unit *u, uint8_t kind, uint8_t num, uint32_t nkeys)
{
	struct ir_map *m = vec_add(&u->maps);

	*m = (struct ir_map){ .name = xstrdup("@m"), .kind = kind, .num = num, .nkeys = nkeys, .max_keys = 1024 };
	m->keys = xcalloc(nkeys + 1, sizeof(*m->keys));
	m->values = xcalloc(1, sizeof(*m->values));
	m->values[0].type = num;
	m->nvalues = kind == IR_MAP_VALUE;
	for (uint32_t i = 0; i < nkeys; i++)
		m->keys[i].type = IR_U64;
	return m;
}

#endif
