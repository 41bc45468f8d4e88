/* SPDX-License-Identifier: MIT */
#include "session/arrivals/follow.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "blob/blob.h"
#include "proc/threads/ids.h"
#include "proc/arena/keeper.h"
#include "session/calls/left.h"
#include "session/arrivals/newcomers.h"
#include "session/watches/parks.h"
#include "session/events/rings.h"
#include "session/events/shapes.h"
#include "session/calls/tails.h"
#include "session/scripts/units.h"

/* The file that the kernel has mapped as the program's loader; NULL: it has none. */
static const char *loader_of(struct proc *p)
{
	uint64_t base = proc_auxv(p, AT_BASE);
	const struct map *m = base ? proc_map_at(p, base) : NULL;

	return m ? m->path : NULL;
}

static const struct func *debug_state(struct module *m)
{
	for (size_t i = 0; i < m->names.n; i++)
		if (!strcmp(m->names.v[i].name, "_dl_debug_state"))
			return &m->funcs.v[m->names.v[i].func];
	return NULL;
}

static struct loaded *find_loader(struct jab *j, struct target *t, uint64_t *ret_addr)
{
	const char *path = loader_of(t->proc);

	for (size_t i = 0; path && i < t->loaded.n; i++) {
		struct loaded *l = &t->loaded.v[i];
		const struct func *f;

		if (strcmp(l->path, path) || target_open_file(j, t, l) < 0)
			continue;
		f = debug_state(j->files.v[l->file].m);
		if (f) {
			*ret_addr = f->addr;
			return l;
		}
	}
	return NULL;
}

bool follow_parks(const struct jab *j, const struct target *t)
{
	return j->follow && j->arch->emit_park && (t->scout || !newcomers_suffice(j));
}

/* Scripts may ask for numbers, which are not the target's own where it is in another pid namespace. */
bool follow_answers(const struct jab *j, const struct target *t)
{
	bool foreign = false;
	uint32_t pid;

	return j->units.n && !t->scout && j->arch->emit_park && proc_ns_pid(t->proc, &pid, &foreign) == 0 && foreign;
}

int follow_plan(struct jab *j, struct target *t)
{
	if (t->park)
		return 0;
	/* A thread that parks makes system calls. */
	if (proc_seccomp(t->proc)) {
		log_info("process %d is under seccomp: programs that it starts and libraries that it loads are "
			 "not followed", t->proc->pid);
		return 0;
	}
	t->park = xcalloc(1, sizeof(*t->park));
	t->park->follows = follow_parks(j, t);
	return 0;
}

static void watch_loader(struct jab *j, struct target *t)
{
	uint64_t addr;
	struct loaded *l = find_loader(j, t, &addr);
	struct want *w;

	if (!l) {
		log_info("process %d has no loader that tells of libraries: those that come later are not probed",
			 t->proc->pid);
		return;
	}
	w = vec_add(&l->wants);
	w->addr = addr;
	w->kind = WANT_ENTRY;
	w->id = WATCH_ID | t->watches.n;
	*vec_add(&t->watches) = (struct watch){ .at = addr + l->bias, .parks = true, .park_kind = PARK_LOADED };
}

void follow_watch(struct jab *j, struct target *t, const struct text_call *calls, size_t n)
{
	if (!t->park || !t->park->follows)
		return;
	if (!t->served)		/* else the loader has a pad already */
		watch_loader(j, t);
	for (size_t i = 0; !newcomers_are_all(j) && i < n; i++) {
		bool at = calls[i].nr == SYS_execveat;

		if ((at || calls[i].nr == SYS_execve) && !watch_call(t, &calls[i], &(struct watch){
			.at = calls[i].at.v, .parks = true, .park_kind = at ? PARK_EXECAT : PARK_EXEC }))
			log_info("process %d: an exec at %#llx can't be watched", t->proc->pid,
				 (unsigned long long)calls[i].at.v);
	}
}

size_t follow_body(const struct target *t, uint8_t kind, uint8_t *out)
{
	struct park_spec spec = { .keeper = t->park->keeper_at, .routine = t->blob_at + blob_offset(BLOB_PARK), .kind = kind,
				  .quiet = t->state_at + offsetof(struct process_state, quiet) };

	return t->proc->arch->emit_park(out, &spec);
}

size_t follow_data_size(const struct target *t)
{
	return t->park ? PARK_SIZE : 0;
}

size_t follow_tables_size(const struct target *t)
{
	return t->park ? PARK_KEEPER_SIZE : 0;
}

void follow_take_tables(struct target *t, uint8_t *here, uint64_t at)
{
	t->park->by = (struct park_keeper *)here;
	t->park->keeper_at = at;
}

void follow_take(struct target *t, uint8_t *here, uint64_t at)
{
	t->park->here = (struct park *)here;
	t->park->at = at;
}

void follow_open(struct target *t)
{
	struct park_view *v = t->park;
	uint32_t pid;
	bool foreign = false;

	proc_ns_pid(t->proc, &pid, &foreign);
	if (foreign && !v->ids)
		v->ids = id_map_new(t->proc);
	v->by->park = v->at;
	if (keeper_open(t->arena, TADDR(v->keeper_at + offsetof(struct park_keeper, tid)), &v->keeper) < 0)
		log_info("process %d: %s; parked threads go on after %d ms at the latest", t->proc->pid, err_text(),
			 PARK_LIMIT_MS);
	__atomic_store_n(&v->by->open, 1, __ATOMIC_RELEASE);
}

void park_free(struct park_view *v)
{
	if (!v)
		return;
	for (uint32_t i = 0; i < PARK_SLOTS; i++)
		sleeper_close(&v->asks[i].sleeper);
	keeper_close(v->keeper);
	id_map_free(v->ids);
	free(v);
}

bool follow_has_sites(const struct jab *j, uint32_t target)
{
	for (size_t i = j->sites.n; i-- > 0;)
		if (j->sites.v[i].target == target && j->sites.v[i].counter != UINT32_MAX)
			return true;
	return false;
}

/* More than there are counters for: these are not placed. */
static void refuse_surplus(struct jab *j, uint32_t target)
{
	struct target *m = &j->targets.v[j->targets.v[target].main];
	size_t refused = 0;

	for (size_t i = 0; m->counter_cap && i < j->sites.n; i++) {
		struct site *s = &j->sites.v[i];

		if (s->target != target || s->counter == UINT32_MAX ||
		    j->counters.v[s->counter].index < m->counter_cap)
			continue;
		s->counter = UINT32_MAX;
		s->reason = j->targets.v[target].only ? "there is no room for more counters (jab_options.more_sites)" : "too many probes in libraries that were loaded later";
		j->probes.v[s->probe].refused++;
		refused++;
	}
	if (refused && !j->targets.v[target].only)
		log_warn("process %d: %zu places in a library that it has loaded are more than was planned for, and are "
			 "not probed", m->proc->pid, refused);
}

int follow_place(struct jab *j, uint32_t target, size_t first)
{
	int r = units_compile(j);

	if (!r && j->events && main_part(j, &j->targets.v[target])->rings)
		r = units_take_more(j, main_part(j, &j->targets.v[target]));
	refuse_surplus(j, target);
	if (!r)
		tails_resolve(j, first);
	if (!r)
		r = place_plan(j, &j->targets.v[target], false);
	if (!r && j->events)
		r = shapes_declare(j);
	return r ? r : place_insert(j, target);
}

int follow_probe(struct jab *j, uint32_t target)
{
	bool scout = j->targets.v[target].scout;
	size_t first = j->sites.n;
	int r = scout ? 0 : resolve_more(j, target);

	/* A process without a site is still watched: it may execute a program that has one. */
	if (!r && !scout && !follow_has_sites(j, target) && j->targets.v[target].main != target &&
	    !left_is_wanted(j, &j->targets.v[target]))
		return 0;
	if (!r)
		r = follow_place(j, target, first);
	if (r < 0 && !target_lost(j, &j->targets.v[target]))
		log_warn("process %d: %s; what is new there is not probed", j->targets.v[target].proc->pid, err_text());
	return r;
}

/* The libraries of an executed program are mapped: from here on it is treated as a process that was attached to. */
static void grow_up(struct jab *j, uint32_t scout)
{
	pid_t pid = j->targets.v[scout].proc->pid;
	struct proc *p;
	uint32_t target;

	if (proc_open(pid, &p) < 0 || target_add(j, p) < 0) {
		log_warn("process %d: %s", pid, err_text());
		j->unfollowed.failed++;
		return;
	}
	target = j->targets.n - 1;
	j->targets.v[target].served = j->targets.v[target].followed = true;
	j->targets.v[scout].serves = target + 1;
	if (follow_probe(j, target) < 0 && !j->targets.v[target].lost)
		j->unfollowed.failed++;
}

/*
 * Whether the loader says that its list is complete. At the start of a program glibc calls once before it
 * maps libraries and once when all is done, musl only then. r_state of struct r_debug tells.
 */
static bool is_complete(struct jab *j, struct target *t)
{
	uint64_t addr, size, at;
	struct loaded *l = find_loader(j, t, &addr);
	struct module *m = l ? j->files.v[l->file].m : NULL;
	int state;

	if (!m)
		return true;
	if (module_object(m, "_r_debug", &addr, &size))
		at = addr + l->bias;
	else if (!module_object(m, "_dl_debug_addr", &addr, &size) ||
		 proc_read(t->proc, TADDR(addr + l->bias), &at, sizeof(at)) < 0)
		return t->park->calls >= 2;
	if (proc_read(t->proc, TADDR(at + offsetof(struct r_debug, r_state)), &state, sizeof(state)) < 0)
		return true;
	return state == RT_CONSISTENT;
}

void follow_loaded(struct jab *j, uint32_t target)
{
	struct target *t = &j->targets.v[target];
	uint32_t main = target;

	t->park->calls++;
	if (t->serves) {
		main = t->serves - 1;
	} else if (t->scout) {
		if (is_complete(j, t))
			grow_up(j, target);
		return;
	}
	if (target_add_part(j, main))
		follow_probe(j, j->targets.n - 1);
}

void follow_executed(struct jab *j, struct proc *p, bool loaded)
{
	struct target *t;
	uint32_t target;
	int r;

	if (target_add(j, p) < 0) {
		j->unfollowed.failed += proc_alive(p);
		proc_close(p);
		return;
	}
	target = j->targets.n - 1;
	t = &j->targets.v[target];
	t->scout = !loaded;
	t->followed = loaded;
	log_info("process %d executes %s", p->pid, p->exe);
	r = follow_probe(j, target);
	proc_resume(p);
	t = &j->targets.v[target];
	j->unfollowed.failed += r < 0 && !t->lost;
	if (!t->inserted)
		target_drop(j, t);
}

int follow_poll(struct jab *j)
{
	return parks_poll(j) + newcomers_poll(j) + tails_poll(j);
}

#define MOST_BELLS 64

struct bell { uint64_t val, uaddr; uint32_t flags, reserved; };

void follow_wait(struct jab *j, uint64_t ns)
{
	struct bell bells[MOST_BELLS];
	struct timespec until;
	unsigned n = 0;
	uint32_t *door, heard;

	door = newcomers_bell(j, &heard, &ns);
	if (door)
		bells[n++] = (struct bell){ heard, (uint64_t)door, 2 /* FUTEX_32 */, 0 };
	ns = parks_wait(j, ns);
	for (size_t i = j->targets.n; i-- > 0;) {
		struct park_view *v = j->targets.v[i].park;

		if (!park_listens(v) || !j->targets.v[i].inserted)
			continue;
		if (n == MOST_BELLS) {		/* more than the kernel listens to */
			ns = MIN(ns, 1000000ull);
			break;
		}
		bells[n++] = (struct bell){ v->heard, (uint64_t)&v->here->bell, 2, 0 };
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ns % 1000000000;
	until.tv_sec += ns / 1000000000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	/* futex_waitv; kernels before 5.16 have none: look every millisecond instead */
	if (!n || (syscall(449, bells, n, 0, &until, CLOCK_MONOTONIC) < 0 && errno == ENOSYS))
		sleep_ns(n ? MIN(ns, 1000000ull) : ns);
}

void follow_stop(struct jab *j)
{
	parks_stop(j);
}
