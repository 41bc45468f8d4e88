/* SPDX-License-Identifier: MIT */
/*
 * Steps from frame to frame. Where the table has a row for the pc, its rule is used. Where it has none (code
 * generated at run time, hand-written assembly), the register of the frame pointer is followed if it is plausible as one. A row
 * always takes precedence: in code compiled without frame pointers the register holds anything, and at times a
 * value that looks like a frame pointer.
 *
 * The walk ends: the stack pointer grows with every step except the one out of a signal handler, and there are at
 * most `limit` steps. Nothing is loaded from an address found in the target; the tables are jab's own.
 */
#include "blob/unwind.h"

#define ALL_REGS ((uint32_t)((1ull << NREGS) - 1))
#define BIT(reg) (1u << (reg))

/* Two frames further apart than this are not connected by frame pointers. */
#define CHAIN_MAX (1u << 20)

#define CHUNK_MIN 1024u
/* A frame's saved registers are within this distance below its return address; no signal context is longer. */
#define BELOW 192u

enum step { STEP_ON, STEP_END, STEP_FAULT, STEP_LOST };

/* Consecutive frames are often in the same module, so the last span is tried first. */
static const struct unwind_span *find_span(struct unwind_walk *w, const struct unwind_dir *dir, uint64_t pc)
{
	uint64_t a = 0, b = dir->n, mid = *(const volatile uint32_t *)&w->s->span;
	const struct unwind_span *s;

	if (mid < b && pc - dir->span[mid].lo < dir->span[mid].hi - dir->span[mid].lo)
		return &dir->span[mid];
	while (a < b) {
		mid = (a + b) / 2;
		s = &dir->span[mid];
		if (pc < s->lo) {
			b = mid;
		} else if (pc >= s->hi) {
			a = mid + 1;
		} else {
			w->s->span = mid;
			return s;
		}
	}
	return 0;
}

static const struct unwind_rule *find_rule(struct unwind_walk *w, uint64_t pc)
{
	const struct unwind_dir *dir = w->dir;
	const struct unwind_span *s = dir ? find_span(w, dir, pc) : 0;
	const struct unwind_data *d;
	const uint32_t *row;
	uint32_t place, n, half;

	if (!s)
		return 0;
	d = (const void *)((const char *)dir + s->data);
	pc -= s->lo;
	row = (const uint32_t *)((const char *)d + d->rows) + d->index[pc >> UNWIND_BLOCK_BITS];
	n = d->index[(pc >> UNWIND_BLOCK_BITS) + 1] - d->index[pc >> UNWIND_BLOCK_BITS];
	place = pc & (UNWIND_BLOCK - 1);
	/* The last row that begins at or before `place`, searched without branches that could be mispredicted. */
	for (; n > 1; n -= half) {
		half = n / 2;
		row += (row[half] & (UNWIND_BLOCK - 1)) <= place ? half : 0;
	}
	return (const struct unwind_rule *)((const char *)d + d->rules) + (*row >> UNWIND_BLOCK_BITS);
}

void unwind_copy_page(struct unwind_walk *w, uint64_t sp, uint64_t touched)
{
	uint64_t n = (PAGE - (sp & (PAGE - 1))) / 8;

	if ((sp ^ touched) >= PAGE)
		return;
	if (n > w->copy_room / 8)
		n = w->copy_room / 8;
	w->s->copy_at = sp;
	w->s->copy_len = 8 * n;
	copy_words(w->copy, (const void *)sp, n);
}

/*
 * Takes 8 bytes at addr from the copy, if they are in it. copy_at and copy_len are read once: another thread may
 * write them, see struct unwind_state.
 */
static int from_copy(const struct unwind_walk *w, uint64_t addr, uint64_t *ret)
{
	uint64_t off = addr - *(const volatile uint64_t *)&w->s->copy_at;
	uint32_t len = *(const volatile uint32_t *)&w->s->copy_len;

	if (len < 8 || len > w->copy_room || off > len - 8)
		return 0;
	__builtin_memcpy(ret, w->copy + off, 8);	/* on a damaged stack addr need not be aligned */
	return 1;
}

/* The length to read: reads cost by the page, so to the end of this page, and one more page if little is left of this one. */
static uint32_t chunk(const struct unwind_walk *w, uint64_t from)
{
	uint32_t len = PAGE - (from & (PAGE - 1));

	if (len < CHUNK_MIN)
		len += PAGE;
	return len < w->copy_room ? len : w->copy_room;
}

/*
 * Fetches 8 bytes of the stack. If the copy does not have them, a new copy begins a little below: the frame's saved
 * registers are there.
 */
static int fetch(struct unwind_walk *w, uint64_t addr, uint64_t *ret)
{
	uint64_t sp = w->s->regs[REG_SP], from = addr;

	if (from_copy(w, addr, ret))
		return 1;
	if (addr >= sp)
		from = addr - sp < BELOW ? sp : addr - BELOW;
	w->s->copy_len = 0;
	w->s->copy_at = from;
	w->s->copy_len = w->read(w->arg, from, w->copy, chunk(w, from));
	if (from_copy(w, addr, ret))
		return 1;
	w->s->fault = addr;
	return 0;
}

/* Ends a step, when ip and cfa are those of the calling frame. */
static enum step arrive(struct unwind_walk *w)
{
	w->s->regs[REG_SP] = w->s->cfa;
	if (!w->s->ip)
		return STEP_END;
	return w->s->ip >= 4096 && w->s->ip >> USER_BITS == 0 ? STEP_ON : STEP_LOST;
}

/* The chain of frame pointers ends with 0. */
static enum step step_chain(struct unwind_walk *w)
{
	uint64_t bp = w->s->regs[REG_FP], sp = w->s->regs[REG_SP];

	if (!(w->s->known & BIT(REG_FP)))
		return STEP_LOST;
	if (!bp)
		return STEP_END;
	if (bp & 7 || bp < sp || bp - sp > CHAIN_MAX)
		return STEP_LOST;
	w->s->cfa = bp + 16;	/* the frame pointer and the return address */
	w->s->known = BIT(REG_SP) | BIT(REG_FP);
	if (!fetch(w, w->s->cfa - 8, &w->s->ip) || !fetch(w, w->s->cfa - 16, &w->s->regs[REG_FP]))
		return STEP_FAULT;
	return arrive(w);
}

static enum step step_signal(struct unwind_walk *w)
{
	static const uint8_t order[NREGS] = SIGNAL_ORDER;
	uint64_t at = w->s->regs[REG_SP] + SIGNAL_REGS;

	for (uint32_t i = 0; i < NREGS; i++, at += 8)
		if (!fetch(w, at, order[i] == REG_SP ? &w->s->cfa : &w->s->regs[order[i]]))
			return STEP_FAULT;
	if (!fetch(w, at, &w->s->ip))
		return STEP_FAULT;
	w->s->known = ALL_REGS;
	return arrive(w);
}

static enum step find_cfa(struct unwind_walk *w, const struct unwind_rule *rule)
{
	if (!(w->s->known & BIT(rule->reg)))
		return STEP_LOST;
	w->s->cfa = w->s->regs[rule->reg] + (int64_t)rule->off;
	if (rule->kind == UNWIND_DEREF) {
		if (!fetch(w, w->s->cfa, &w->s->cfa))
			return STEP_FAULT;
		w->s->cfa += (int64_t)rule->add;
	}
	if (rule->kind == UNWIND_PLT && (w->s->ip & 15) >= (uint16_t)rule->add)
		w->s->cfa += 8;
	/* A leaf function that keeps its return address in a register may use no stack at all. */
	if (w->s->cfa < w->s->regs[REG_SP] || (w->s->cfa == w->s->regs[REG_SP] && !(rule->flags & UNWIND_RA_REG)))
		return STEP_LOST;
	return STEP_ON;
}

static enum step find_ip(struct unwind_walk *w, const struct unwind_rule *rule)
{
	if (!(rule->flags & UNWIND_RA_REG))
		return fetch(w, w->s->cfa + (int64_t)rule->ra, &w->s->ip) ? STEP_ON : STEP_FAULT;
	if (!(w->s->known & BIT(rule->ra)))
		return STEP_LOST;
	w->s->ip = w->s->regs[rule->ra];
	return STEP_ON;
}

static int fetch_saved(struct unwind_walk *w, int from_bp, int16_t off, uint32_t reg)
{
	w->s->known |= BIT(reg);
	return fetch(w, (from_bp ? w->s->regs[REG_FP] : w->s->cfa) + (int64_t)off, &w->s->regs[reg]);
}

/* EXTRA first: its slot may be relative to this frame's frame pointer. */
static enum step find_saved(struct unwind_walk *w, const struct unwind_rule *rule)
{
	w->s->known &= BIT(REG_SP) | BIT(REG_FP) | BIT(REG_EXTRA);
	if (rule->flags & UNWIND_EXTRA_LOST)
		w->s->known &= ~BIT(REG_EXTRA);
	if (rule->flags & (UNWIND_EXTRA_CFA | UNWIND_EXTRA_FP) &&
	    !fetch_saved(w, rule->flags & UNWIND_EXTRA_FP, rule->extra, REG_EXTRA))
		return STEP_FAULT;
	if (rule->flags & UNWIND_FP_LOST)
		w->s->known &= ~BIT(REG_FP);
	if (rule->flags & (UNWIND_FP_CFA | UNWIND_FP_FP) &&
	    !fetch_saved(w, rule->flags & UNWIND_FP_FP, rule->fp, REG_FP))
		return STEP_FAULT;
	return STEP_ON;
}

static enum step step_rule(struct unwind_walk *w, const struct unwind_rule *rule)
{
	enum step r = find_cfa(w, rule);

	if (r == STEP_ON)
		r = find_ip(w, rule);
	if (r == STEP_ON)
		r = find_saved(w, rule);
	return r == STEP_ON ? arrive(w) : r;
}

/* At a function's first instruction nothing is on the stack but the return address, if that is not in a register. */
static enum step step_entry(struct unwind_walk *w)
{
	w->s->cfa = w->s->regs[REG_SP] + CALL_PUSHES;
#if CALL_PUSHES
	return fetch(w, w->s->regs[REG_SP], &w->s->ip) ? arrive(w) : STEP_FAULT;
#else
	w->s->ip = w->s->regs[REG_LINK];
	return arrive(w);
#endif
}

/*
 * A return address is the end of a call, and may be the start of the next function; so ip - 1 is looked up, unless
 * ip is exact.
 */
static enum step step(struct unwind_walk *w, uint32_t first)
{
	const struct unwind_rule *rule = find_rule(w, w->s->ip - !w->s->exact);

	w->s->exact = 0;
	switch (rule ? rule->kind : UNWIND_NONE) {
	case UNWIND_END:
		return STEP_END;
	case UNWIND_STOP:
		return STEP_LOST;
	case UNWIND_SIGNAL:
		w->s->exact = 1;
		return step_signal(w);
	case UNWIND_NONE:
		return first && w->s->entry ? step_entry(w) : step_chain(w);
	default:
		return step_rule(w, rule);
	}
}

uint32_t unwind_walk(struct unwind_walk *w, uint64_t *frames, uint32_t limit, enum unwind_end *ret_end)
{
	uint32_t n = 0;
	enum step r = STEP_ON;

	w->s->exact = 1;
	w->s->known = ALL_REGS;
	while (n < limit) {
		frames[n++] = w->s->ip;
		if (n == limit)
			break;
		r = step(w, n == 1);
		if (r != STEP_ON)
			break;
	}
	*ret_end = r == STEP_END ? UNWIND_OUTERMOST : r == STEP_FAULT ? UNWIND_FAULT :
		   r == STEP_LOST ? UNWIND_LOST : UNWIND_LIMIT;
	return n;
}
