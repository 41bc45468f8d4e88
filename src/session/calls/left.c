/* SPDX-License-Identifier: MIT */
#include "session/calls/left.h"

#include <string.h>
#include "base/err.h"
#include "session/arrivals/follow.h"
#include "session/watches/go.h"
#include "session/events/rings.h"
#include "session/scripts/units.h"

#define LATER_SIZE (256u << 10)

/* Where the stack pointer of another frame is loaded, by the name of the function. */
static const struct { const char *name; uint8_t how; } places[] = {
	{ "_Unwind_RaiseException", LEAVE_RETURN }, { "_Unwind_Resume", LEAVE_RETURN }, { "_Unwind_ForcedUnwind", LEAVE_RETURN },
	{ "_Unwind_Resume_or_Rethrow", LEAVE_RETURN },
	{ "longjmp", LEAVE_JMP_BUF }, { "_longjmp", LEAVE_JMP_BUF }, { "siglongjmp", LEAVE_JMP_BUF }, { "__longjmp_chk", LEAVE_JMP_BUF },
	{ "__libc_longjmp", LEAVE_JMP_BUF }, { "__libc_siglongjmp", LEAVE_JMP_BUF },
	{ "__libunwind_Registers_x86_64_jumpto", LEAVE_LLVM },
};

static const char *const libraries[] = { "libc.so", "libc-2.", "libgcc_s", "ld-musl-", "libunwind.so", "libpthread" };

static bool may_have_places(const struct loaded *l)
{
	const char *slash = strrchr(l->path, '/'), *name = slash ? slash + 1 : l->path;

	if (l->is_exe || l->file != UINT32_MAX)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
		if (!strncmp(name, libraries[i], strlen(libraries[i])))
			return true;
	return false;
}

static void add_want(struct loaded *l, uint64_t addr, uint8_t kind, uint8_t how)
{
	struct want *w;

	for (size_t i = 0; i < l->wants.n; i++)
		if (l->wants.v[i].addr == addr && l->wants.v[i].id == (LANDING_ID | how))
			return;
	w = vec_add(&l->wants);
	w->addr = addr;
	w->kind = kind;
	w->id = LANDING_ID | how;
	w->body = GEN_LANDING_MAX;
}

/* Where the unwinder goes on in another frame. The address it goes to is at the new stack pointer. */
static bool is_eh_return(const struct module *m, uint64_t addr)
{
	for (const struct code_bytes *f = m->arch->idioms->eh_return; f->len; f++) {
		const uint8_t *bytes = module_bytes(m, addr, f->len);

		if (bytes && !memcmp(bytes, f->bytes, f->len))
			return true;
	}
	return false;
}

static void add_returns(struct jab *j, struct loaded *l, uint64_t addr)
{
	struct file *f = &j->files.v[l->file];
	const struct fcode *c = f->code || !code_open(f->m, &f->code) ? code_func(f->code, addr) : NULL;

	for (uint32_t i = 0; c && !c->broken && i < c->insns.n && fcode_addr(c, i) < c->end; i++)
		if (is_eh_return(f->m, fcode_addr(c, i)))
			add_want(l, fcode_addr(c, i), WANT_INSN, LEAVE_RETURN);
}

static bool has_place(const struct module *m, size_t name, uint8_t *ret_how)
{
	const char *s = m->names.v[name].name;

	if (s[0] != '_' && s[0] != 'l' && s[0] != 's')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (!strcmp(s, places[i].name)) {
			*ret_how = places[i].how;
			return true;
		}
	return false;
}

/* Returns whether there are any; with add, wants are made for them. */
static bool look(struct jab *j, struct target *t, struct loaded *l, bool add)
{
	struct module *m;
	bool found = false;
	uint8_t how;

	if (!may_have_places(l) || target_open_file(j, t, l) < 0 || target_may_patch(t, l) < 0)
		return false;
	m = j->files.v[l->file].m;
	if (m->runtime->no_unwinding)
		return false;
	for (size_t i = 0; i < m->names.n; i++) {
		if (!has_place(m, i, &how))
			continue;
		found = true;
		if (add && how == LEAVE_RETURN)
			add_returns(j, l, m->funcs.v[m->names.v[i].func].addr);
		else if (add)
			add_want(l, m->funcs.v[m->names.v[i].func].addr, WANT_ENTRY, how);
	}
	return found;
}

/* True if calls are watched and the address of their notes is known; before the arena is made, if it will be. */
static bool watches_calls(struct jab *j, const struct target *t)
{
	const struct target *main = main_part(j, t);

	return t->proc && !t->scout && j->events && units_have_calls(j) && (!main->nviews || main->views[0].env.pairs);
}

bool left_is_wanted(struct jab *j, struct target *t)
{
	bool found = false;

	for (size_t i = 0; !found && watches_calls(j, t) && i < t->loaded.n; i++)
		found = look(j, t, &t->loaded.v[i], false);
	return found;
}

/* ---- leavers ---- */

static const struct ir_prog *left_of(const struct jab *j, const struct counter *c)
{
	return c->role == COUNT_ENTRIES && c->program ? j->programs.v[c->program - 1].progs[2] : NULL;
}

/* Code of libraries that come later goes where room was kept for it. */
static uint64_t room_for(struct target *t, struct target *main, uint32_t size)
{
	uint64_t at = main->left_room;

	if (t == main)
		return room_alloc(t->room, size, 0, UINT64_MAX);
	if (main->left_end - at < size)
		return 0;
	main->left_room += size;
	return at;
}

/* known: number of leavers before this plan. */
static uint32_t number_of(struct target *t, struct target *main, size_t known, const struct left_func *f)
{
	for (size_t i = 0; i < known; i++)
		if (main->left_funcs.v[i].row == f->row && main->left_funcs.v[i].bias == f->bias)
			return i;
	*vec_add(&main->left_funcs) = *f;
	main->left_funcs.v[main->left_funcs.n - 1].at = room_for(t, main, f->size);
	return main->left_funcs.n - 1;
}

uint32_t left_number(const struct jab *j, const struct target *t, uint32_t site)
{
	size_t lo = 0, hi = t->leavers.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (t->leavers.v[mid].site < site)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->leavers.n && t->leavers.v[lo].site == site ? t->leavers.v[lo].number + 1 : 0;
}

/* Functions that find no room are left out: their calls stay open when they are left. */
static void plan_leavers(struct jab *j, struct target *t)
{
	struct target *main = main_part(j, t);
	uint32_t target = t - j->targets.v, none = 0;
	size_t known;

	t->leavers.n = 0;
	if (t == main) {
		t->left_funcs.n = 0;
		t->left_room = follow_parks(j, t) ? room_alloc(t->room, LATER_SIZE, 0, UINT64_MAX) : 0;
		t->left_end = t->left_room ? t->left_room + LATER_SIZE : 0;
	}
	known = main->left_funcs.n;
	for (size_t i = 0; i < j->sites.n; i++) {
		const struct site *s = &j->sites.v[i];
		const struct counter *c = s->counter == UINT32_MAX ? NULL : &j->counters.v[s->counter];
		struct left_func f;
		uint32_t n;

		if (s->target != target || !c || !left_of(j, c) || go_g_off(j, s))
			continue;
		f = (struct left_func){ .row = c->row, .bias = t->loaded.v[s->loaded].bias,
					.size = j->programs.v[c->program - 1].body[2] + GEN_LEAVER_MORE };
		n = number_of(t, main, known, &f);
		if (main->left_funcs.v[n].at && (t == main || n < main->counter_cap))
			*vec_add(&t->leavers) = (struct leaver){ i, n };
		else
			none++;
	}
	if (none)
		log_info("process %d: no room for the code that ends calls of %u functions if they are left without a return", t->proc->pid, none);
}

int left_plan(struct jab *j, struct target *t)
{
	if (!watches_calls(j, t))
		return 0;
	for (size_t i = 0; i < t->loaded.n; i++)
		look(j, t, &t->loaded.v[i], true);
	plan_leavers(j, t);
	return 0;
}

void left_planned(const struct target *t, const struct loaded *l, const struct want *w)
{
	if (w->tactic == TACTIC_NONE)
		log_info("process %d, %s at %#llx: %s; calls that are left there stay open", t->proc->pid, l->path,
			 (unsigned long long)w->addr, w->reason ? w->reason : "no jump fits");
}

/* ---- memory, in that of the main part which the target can't write ---- */

size_t left_tables_size(const struct jab *j, const struct target *t)
{
	return j->events && units_have_calls(j) ? sizeof(struct leave_desc) + 8ull * t->counter_cap : 0;
}

void left_take(struct target *t, uint8_t *here, uint64_t at)
{
	t->left = (struct leave_desc *)here;
	t->left_at = at;
	memset(here, 0, sizeof(*t->left) + 8ull * t->counter_cap);
}

static uint64_t stack_top(const struct target *t)
{
	for (size_t i = 0; i < t->proc->maps.n; i++)
		if (!strcmp(t->proc->maps.v[i].path, "[stack]"))
			return t->proc->maps.v[i].end;
	return 0;
}

static bool has_longjmp(const struct loaded *l)
{
	for (size_t i = 0; i < l->wants.n; i++)
		if (l->wants.v[i].id == (LANDING_ID | LEAVE_JMP_BUF))
			return true;
	return false;
}

/* Code that calls longjmp() to end a thread: the C library, or in a program that it is a part of the one function. */
static struct span thread_end(const struct jab *j, const struct target *t)
{
	for (size_t i = 0; i < t->loaded.n; i++) {
		const struct loaded *l = &t->loaded.v[i];
		const struct module *m = l->file == UINT32_MAX ? NULL : j->files.v[l->file].m;

		if (!m || !has_longjmp(l))
			continue;
		if (!l->is_exe)
			return (struct span){ l->start, l->end };
		for (size_t k = 0; k < m->names.n; k++) {
			const struct func *f = &m->funcs.v[m->names.v[k].func];

			if (!strcmp(m->names.v[k].name, "unwind_stop"))
				return (struct span){ f->addr + l->bias, f->addr + l->bias + f->size };
		}
	}
	return (struct span){ 0 };
}

static void fill_desc(const struct jab *j, struct target *t)
{
	const struct gen_env *env = &t->views[0].env;
	struct span end = thread_end(j, t);

	if (t->left->pairs || !env->pairs)
		return;
	*t->left = (struct leave_desc){
		.pairs = env->pairs, .marks = GEN_PAIRS_TABLES(env->pair_bits), .maps = env->pairs + 2 * GEN_PAIRS_TABLES(env->pair_bits),
		.sums = env->pairs + GEN_PAIRS_SUMS(env->pair_bits), .map_words = GEN_PAIRS_MAP_WORDS(env->pair_bits), .nleavers = t->counter_cap, .leavers = t->left_at + sizeof(*t->left),
		.stack_top = stack_top(t), .end = end.lo, .end_size = end.hi - end.lo, .quiet = t->rings->quiet_at, .may_call = t->rings->may_read, .has_thread_insn = env->has_thread_insn,
	};
}

int left_landing_body(struct jab *j, struct target *t, uint32_t how, uint8_t *out)
{
	const struct target *main = main_part(j, t);
	struct gen_landing l = { .how = how, .blob = main->blob_at, .desc = main->left_at, .slow = main->rings->slow_at };

	return gen_landing(&l, out);
}

int left_emit(struct jab *j, struct target *t)
{
	struct target *main = main_part(j, t);

	if (!main->left || !main->nviews)
		return 0;
	fill_desc(j, main);
	for (size_t i = 0; i < t->leavers.n; i++) {
		const struct leaver *l = &t->leavers.v[i];
		struct left_func *f = &main->left_funcs.v[l->number];
		uint8_t *out = f->done ? NULL : arena_view(main->arena, TADDR(f->at));
		int n;

		if (!out)
			continue;
		n = unit_emit_left(j, t, l->site, f->at, out);
		if (n < 0)
			return n;
		gen_leaver_end(NULL, out + n);
		f->done = true;
		__atomic_store_n(&((uint64_t *)(main->left + 1))[l->number], f->at, __ATOMIC_RELEASE);
	}
	return 0;
}
