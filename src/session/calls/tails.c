/* SPDX-License-Identifier: MIT */
#include "session/calls/tails.h"

#include <string.h>
#include "base/err.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"

/*
 * A call may go through many functions, and some functions end the calls of many. What is beyond these limits is not followed: such
 * a call ends at the jump.
 */
#define MOST_LINKS 48		/* of one row */
#define MOST_EXITS 256		/* of all links of a row */
#define MOST_AT_ONCE 16		/* rows whose calls may end at one exit */
#define MOST_SAID 5		/* names in one message */

/* What was found for one row. */
struct search {
	struct jab *j;
	uint32_t target, home, counter, probe, early;
	uint64_t number;
	size_t first, exits;	/* link; exits of links so far */
	bool cut, is_call, unknown;
};

struct far_site { struct site s; uint32_t depth; };
typedef VEC(struct far_site) far_list;

static struct module *module_of(const struct jab *j, uint32_t target, uint32_t loaded)
{
	return j->files.v[j->targets.v[target].loaded.v[loaded].file].m;
}

const struct fcode *tails_decoded(struct jab *j, uint32_t target, uint32_t loaded, uint64_t addr)
{
	struct file *f = &j->files.v[j->targets.v[target].loaded.v[loaded].file];

	if (!f->code && code_open(f->m, &f->code) < 0)
		return NULL;
	return code_func(f->code, addr);
}

/* The slot by which a stub of the PLT jumps, or code without a PLT. */
static bool slot_at(const struct module *m, uint64_t at, uint64_t *ret_slot)
{
	const uint8_t *p = module_bytes(m, at, STUB_LEN);

	return p && m->arch->idioms->stub(p, at, ret_slot);
}

/* The function around a live address, in any module of the target. */
static bool func_at_live(struct jab *j, uint32_t target, uint64_t at, struct tail_dest *ret)
{
	for (uint32_t i = 0; i < j->targets.v[target].loaded.n; i++) {
		struct target *t = &j->targets.v[target];
		struct loaded *l = &t->loaded.v[i];
		const struct func *f;

		if (at < l->start || at >= l->end)
			continue;
		if (target_open_file(j, t, l) < 0 || target_may_patch(t, l) < 0)
			return false;
		f = module_func_at(module_of(j, target, i), at - l->bias);
		if (!f)
			return false;
		*ret = (struct tail_dest){ i, f - module_of(j, target, i)->funcs.v };
		return true;
	}
	return false;
}

/* Through a word that the loader has written, and nobody else will: what is in it by now. Before it is bound it leads back to the stub, where no function is. */
static bool dest_by_slot(struct jab *j, uint32_t target, uint32_t loaded, uint64_t slot, struct tail_dest *ret)
{
	const struct target *t = &j->targets.v[target];
	uint64_t value;

	if (!module_is_loaders_slot(module_of(j, target, loaded), slot))
		return false;
	if (!t->proc || proc_read(t->proc, TADDR(slot + t->loaded.v[loaded].bias), &value, sizeof(value)) < 0)
		return false;
	return func_at_live(j, target, value, ret);
}

/* Finds where a tail jump leads. False: that is not known. */
bool tails_dest(struct jab *j, uint32_t target, uint32_t loaded, uint64_t addr, uint8_t kind, struct tail_dest *ret)
{
	const struct fcode *f = tails_decoded(j, target, loaded, addr);
	struct module *m = module_of(j, target, loaded);
	uint32_t n = f && addr - f->lo < f->hi - f->lo ? f->index[addr - f->lo] : UINT32_MAX;
	const struct func *to;
	uint64_t slot;

	if (n == UINT32_MAX)
		return false;
	if (kind == EXIT_JMP_IND)
		return slot_at(m, addr, &slot) && dest_by_slot(j, target, loaded, slot, ret);
	to = module_func_at(m, f->insns.v[n].target);
	if (!to)
		return slot_at(m, f->insns.v[n].target, &slot) && dest_by_slot(j, target, loaded, slot, ret);
	*ret = (struct tail_dest){ loaded, to - m->funcs.v };
	return !(to->flags & FUNC_IFUNC);
}

uint64_t tails_func(const struct jab *j, const struct target *t, const struct site *s)
{
	const struct loaded *l = &t->loaded.v[s->loaded];
	const struct module *m = j->files.v[l->file].m;

	if (s->link)
		return t->links.v[s->link - 1].number;
	/* Calls of two probes on one function are two calls. */
	return (l->bias + (s->func < m->funcs.n ? m->funcs.v[s->func].addr : s->addr)) ^ j->counters.v[s->counter].row * 0x9e3779b97f4a7c15ull;
}

/* Number + 1 of the link for a function, new or known; 0: it can't be followed. */
static uint32_t link_to(struct search *x, const struct tail_dest *d, uint32_t depth, bool *ret_again)
{
	struct jab *j = x->j;
	struct target *t = &j->targets.v[x->target];
	struct module *m = module_of(j, x->target, d->loaded);
	const struct row *row = &j->rows.v[j->counters.v[x->counter].row];
	const struct fcode *f;
	bool self = d->loaded == x->home && d->func == row->func;

	*ret_again = self && x->is_call;
	for (size_t i = x->first; i < t->links.n; i++)
		if (t->links.v[i].loaded == d->loaded && t->links.v[i].func == d->func && !t->links.v[i].guard)
			return i + 1;
	f = m->runtime->no_tail_calls ? NULL : tails_decoded(j, x->target, d->loaded, m->funcs.v[d->func].addr);
	if (!f || f->broken)
		return 0;
	if (t->links.n - x->first >= MOST_LINKS || x->exits + f->exits.n > MOST_EXITS) {
		x->cut = true;
		return 0;
	}
	x->exits += f->exits.n;
	*vec_add(&t->links) = (struct tail_link){ x->number, d->loaded, d->func, depth, .self = self };
	return t->links.n;
}

/* The exits of a link as sites of the row, and the links that they lead to. */
static void add_exits(struct search *x, size_t link, far_list *found)
{
	const struct tail_link l = x->j->targets.v[x->target].links.v[link];
	const struct module *m = module_of(x->j, x->target, l.loaded);
	const struct fcode *f = tails_decoded(x->j, x->target, l.loaded, m->funcs.v[l.func].addr);

	*vec_add(found) = (struct far_site){ { .probe = x->probe, .target = x->target, .loaded = l.loaded, .counter = x->counter, .func = l.func,
					       .addr = m->funcs.v[l.func].addr, .kind = WANT_ENTRY, .link = link + 1 }, l.depth };
	for (size_t i = 0; f && !l.guard && i < f->exits.n; i++) {
		struct site s = { .probe = x->probe, .target = x->target, .loaded = l.loaded, .counter = x->counter, .func = l.func,
				  .addr = f->exits.v[i].addr, .kind = WANT_EXIT, .exit_kind = f->exits.v[i].kind, .link = link + 1,
				  .early = f->exits.v[i].kind == EXIT_RET ? 0 : x->early };
		struct tail_dest d;

		if (s.exit_kind != EXIT_RET && tails_dest(x->j, x->target, l.loaded, s.addr, s.exit_kind, &d))
			s.next = link_to(x, &d, l.depth + 1, &s.again);
		x->unknown |= s.exit_kind != EXIT_RET && !s.next && !s.again;
		*vec_add(found) = (struct far_site){ s, l.depth };
	}
}

/* The row's function as a link of which only the entry counts: there, notes of calls that have ended otherwise are forgotten. */
static void add_guard(struct search *x, far_list *found)
{
	struct target *t = &x->j->targets.v[x->target];
	const struct row *row = &x->j->rows.v[x->j->counters.v[x->counter].row];

	for (size_t i = x->first; i < t->links.n; i++)
		if (t->links.v[i].self)
			return;
	*vec_add(&t->links) = (struct tail_link){ x->number, x->home, row->func, 0, .self = true, .guard = true };
	add_exits(x, t->links.n - 1, found);
}

/* The sites of one row from number `from` on, up to the next row's: what their tail jumps lead to. */
static size_t search_row(struct jab *j, size_t from, far_list *found, size_t *cut)
{
	struct site *s = &j->sites.v[from];
	struct search x = { j, s->target, s->loaded, s->counter, s->probe, s->early, .first = j->targets.v[s->target].links.n,
			    .is_call = j->probes.v[s->probe].spec->kind == SPEC_CALL };
	bool once = false;
	size_t i;

	x.number = tails_func(j, &j->targets.v[x.target], s);
	for (i = from; i < j->sites.n && j->sites.v[i].counter == x.counter; i++) {
		uint32_t next = 0;
		bool again = false;
		struct tail_dest d;

		s = &j->sites.v[i];
		if (site_is_tail(s) && tails_dest(j, x.target, s->loaded, s->addr, s->exit_kind, &d))
			next = link_to(&x, &d, 1, &again);
		j->sites.v[i].next = next;
		j->sites.v[i].again = again;
		x.unknown |= site_is_tail(&j->sites.v[i]) && !next && !again;
	}
	for (size_t k = x.first; k < j->targets.v[x.target].links.n; k++) {
		add_exits(&x, k, found);
		once |= x.is_call && j->targets.v[x.target].links.v[k].self;
	}
	if (i < j->sites.n && j->sites.v[i].kind == WANT_ENTRY && j->sites.v[i].probe == x.probe && j->sites.v[i].target == x.target)
		j->sites.v[i].once = once;
	if (x.unknown)		/* a note of a call that has gone on there must not outlive it */
		add_guard(&x, found);
	*cut += x.cut;
	return i;
}

/* At one exit the calls end from the inside out: those with fewer jumps first. */
static int far_order(const void *a, const void *b)
{
	const struct far_site *x = a, *y = b;

	if (x->s.target != y->s.target)
		return x->s.target < y->s.target ? -1 : 1;
	if (x->s.loaded != y->s.loaded)
		return x->s.loaded < y->s.loaded ? -1 : 1;
	if (x->s.addr != y->s.addr)
		return x->s.addr < y->s.addr ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return x->s.counter < y->s.counter ? -1 : x->s.counter > y->s.counter;
}

static struct tail_link *link_of(const struct jab *j, const struct site *s)
{
	return &j->targets.v[s->target].links.v[s->link - 1];
}

/* At exits where too many calls may end, those with the most jumps are not followed. */
static void cut_crowded(struct jab *j, const far_list *found)
{
	size_t same = 0;

	for (size_t i = 0; i < found->n; i++) {
		const struct site *s = &found->v[i].s, *last = i ? &found->v[i - 1].s : NULL;

		if (!last || last->target != s->target || last->loaded != s->loaded || last->addr != s->addr)
			same = 0;
		if (!link_of(j, s)->cut && ++same > MOST_AT_ONCE)
			link_of(j, s)->cut = true;
	}
}

static size_t take_sites(struct jab *j, far_list *found)
{
	size_t left = 0;

	if (found->n)
		qsort(found->v, found->n, sizeof(*found->v), far_order);
	cut_crowded(j, found);
	for (size_t i = 0; i < found->n; i++) {
		if (link_of(j, &found->v[i].s)->cut)
			left++;
		else
			*vec_add(&j->sites) = found->v[i].s;
	}
	return left;
}

static bool may_follow(const struct jab *j, const struct site *s)
{
	uint8_t kind = j->probes.v[s->probe].spec->kind;

	return !s->link && s->counter != UINT32_MAX && site_is_tail(s) && (kind == SPEC_RETURN || kind == SPEC_CALL) &&
	       !module_of(j, s->target, s->loaded)->runtime->no_tail_calls;
}

/* ---- what is not known ---- */

static bool asks_duration(const struct jab *j, uint32_t counter)
{
	uint32_t program = j->counters.v[counter].program;
	const struct ir_prog *p = program ? j->programs.v[program - 1].progs[1] : NULL;

	for (size_t i = 0; p && i < p->ins.n; i++)
		if (ir_is_duration(&p->ins.v[i]))
			return true;
	return false;
}

/* "a, b and 3 more" of the functions of a probe with such jumps; the caller frees it. NULL: there are none. */
static char *unknown_of(const struct jab *j, uint32_t probe, size_t first, uint8_t *seen)
{
	char *text = NULL;
	size_t n = 0;

	for (size_t i = first; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		const struct row *row = s->counter == UINT32_MAX ? NULL : &j->rows.v[j->counters.v[s->counter].row];
		char *more;

		if (s->probe != probe || !row || !site_is_tail(s) || (s->next && !j->targets.v[s->target].links.v[s->next - 1].cut) ||
		    seen[row - j->rows.v] || !asks_duration(j, s->counter))
			continue;
		seen[row - j->rows.v] = 1;
		if (n++ >= MOST_SAID)
			continue;
		more = xasprintf("%s%s%s", text ? text : "", text ? ", " : "",
				 func_name(j->files.v[row->file].m, &j->files.v[row->file].m->funcs.v[row->func]));
		free(text);
		text = more;
	}
	if (n > MOST_SAID) {
		char *more = xasprintf("%s and %zu more", text, n - MOST_SAID);

		free(text);
		text = more;
	}
	return text;
}

static void say_unknown(const struct jab *j, size_t first)
{
	uint8_t *seen = xcalloc(j->rows.n + 1, 1);

	for (uint32_t i = 0; i < j->probes.n; i++) {
		char *names = j->probes.v[i].spec->kind == SPEC_CALL ? unknown_of(j, i, first, seen) : NULL;

		if (names)
			log_warn("%s: %s may end with a jump to a function that is not known before; duration ends there then",
				 j->probes.v[i].spec->text, names);
		free(names);
	}
	free(seen);
}

void tails_resolve(struct jab *j, size_t first)
{
	far_list found = { 0 };
	size_t cut = 0, last = j->sites.n, left;

	if (!j->events || !j->arch->emit_tail)
		return;
	for (size_t i = first; i < last; i++)
		if (may_follow(j, &j->sites.v[i]))
			i = search_row(j, i, &found, &cut) - 1;
	left = take_sites(j, &found);
	if (cut || left)
		log_info("tail calls: %zu functions lead to more others than are followed, and %zu exits end calls of too many: "
			 "some calls end at their jump", cut, left);
	say_unknown(j, first);
	vec_free(&found);
}

/* ---- code ---- */

enum what {
	WHAT_BODY, WHAT_NOTHING, WHAT_NOTE, WHAT_NOTE_AGAIN, WHAT_AGAIN, WHAT_PASS, WHAT_ENTER, WHAT_DROP,
	WHAT_ENTER_ONCE, WHAT_TAKE, WHAT_BACK, WHAT_ASK, WHAT_ASK_FAR,	/* with a body */
};

static bool is_followed(const struct tail_link *l)
{
	return !l->cut && !l->bad;
}

/*
 * A call probe has one slot for a stack pointer: what its function does after it was entered again is the same call, which began at the
 * first entry. The own sites end it and write its notes.
 */
static bool is_part_of_call(const struct jab *j, const struct site *s)
{
	return link_of(j, s)->self && !link_of(j, s)->guard && j->probes.v[s->probe].spec->kind == SPEC_CALL;
}

static enum what what_at(const struct jab *j, const struct site *s)
{
	const struct tail_link *next = s->next ? &j->targets.v[s->target].links.v[s->next - 1] : NULL;

	if (!j->arch->emit_tail)	/* calls end at the jump */
		return WHAT_BODY;
	if (next && !is_followed(next))
		next = NULL;
	if (!s->link && !site_is_tail(s))
		return s->once ? WHAT_ENTER_ONCE : WHAT_BODY;
	if (!s->link)
		return next ? (next->self && !s->again ? WHAT_NOTE_AGAIN : WHAT_NOTE) : s->early && !s->again ? WHAT_ASK : WHAT_BODY;
	if (!is_followed(link_of(j, s)))
		return WHAT_NOTHING;
	if (is_part_of_call(j, s))
		return s->kind == WANT_EXIT && !site_is_tail(s) ? WHAT_DROP : WHAT_NOTHING;
	if (s->kind != WANT_EXIT)
		return s->kind == WANT_ENTRY ? WHAT_ENTER : WHAT_BACK;
	return next ? (next->self && !s->again ? WHAT_AGAIN : WHAT_PASS) : site_is_tail(s) && !s->again ? WHAT_ASK_FAR : WHAT_TAKE;
}

bool tails_ends_early(const struct jab *j, const struct site *s)
{
	enum what what = what_at(j, s);

	return site_is_tail(s) && (what == WHAT_BODY || what >= WHAT_TAKE);
}


size_t tails_room(const struct jab *j, const struct site *s)
{
	if (!j->arch->emit_tail)
		return 0;
	if (site_is_tail(s) && s->early)
		return TAIL_ASK_MAX + j->arch->jumps->len;
	return s->link || s->next || s->once ? TAIL_CODE_MAX + j->arch->jumps->len : 0;
}

static struct tail_spec spec_of(const struct jab *j, const struct target *t, const struct site *s, enum tail_code code)
{
	const struct target *main = &j->targets.v[t->main];
	struct tail_spec spec = { .code = code, .func = tails_func(j, t, s), .table = main->notes_at, .crowded = rings_crowded_at(main),
				  .ret = s->addr + t->loaded.v[s->loaded].bias, .known = tails_known_at(main),
				  .ever = tails_known_at(main) + TAIL_KNOWN_SIZE,
				  .id = j->counters.v[s->counter].index };

	rings_asked(main, &spec.asked);
	return spec;
}

bool tails_emit(const struct jab *j, const struct target *t, const struct want *w, uint8_t *out, struct tails_code *ret)
{
	static const enum tail_code codes[] = {
		[WHAT_NOTE] = TAIL_NOTE, [WHAT_NOTE_AGAIN] = TAIL_NOTE_AGAIN, [WHAT_AGAIN] = TAIL_AGAIN, [WHAT_PASS] = TAIL_PASS,
		[WHAT_ENTER] = TAIL_ENTER, [WHAT_DROP] = TAIL_DROP,
		[WHAT_ENTER_ONCE] = TAIL_ENTER_ONCE, [WHAT_TAKE] = TAIL_TAKE, [WHAT_BACK] = TAIL_BACK, [WHAT_ASK] = TAIL_ASK,
		[WHAT_ASK_FAR] = TAIL_ASK_FAR,
	};
	const struct site *s = &j->sites.v[w->id];
	enum what what = what_at(j, s);
	struct tail_spec spec;

	*ret = (struct tails_code){ 0 };
	if (what == WHAT_BODY || what == WHAT_NOTHING)
		return what == WHAT_BODY;
	spec = spec_of(j, t, s, codes[what]);
	ret->before = j->arch->emit_tail(out, &spec);
	if (what < WHAT_ENTER_ONCE)
		return false;
	/* Of a call probe one call at most can end here. */
	ret->after = (what == WHAT_TAKE || what == WHAT_BACK) && j->probes.v[s->probe].spec->kind != SPEC_CALL ? j->arch->jumps->len : 0;
	spec.body = w->body - ret->before;
	j->arch->emit_tail(out, &spec);
	return true;
}

/* ---- memory ---- */

size_t tails_memory(const struct jab *j)
{
	for (size_t i = 0; j->events && i < j->probes.n; i++)
		if (j->probes.v[i].spec->kind == SPEC_RETURN || j->probes.v[i].spec->kind == SPEC_CALL)
			return TAIL_TABLE_SIZE + TAIL_KNOWN_SIZE + TAIL_EVER_SIZE;
	return 0;
}

int tails_take_memory(struct jab *j, struct target *t)
{
	struct target *main = main_part(j, t);
	int r;

	if (!t->links.n || main->has_notes || !main->rings)
		return 0;
	r = proc_take_memory(main->proc, TADDR(main->notes_at), TAIL_TABLE_SIZE + TAIL_KNOWN_SIZE + TAIL_EVER_SIZE);
	main->has_notes = !r;
	return r;
}

void tails_not_placed(struct jab *j, const struct site *s)
{
	if (s->kind == WANT_EXIT)	/* without the entry, stale notes can.t be recognized, but no call is lost */
		link_of(j, s)->bad = true;
}

void tails_forget_plan(struct target *t)
{
	for (size_t i = 0; i < t->links.n; i++)
		t->links.v[i].bad = false;
}
