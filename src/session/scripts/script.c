/* SPDX-License-Identifier: MIT */
#include "session/scripts/script.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "lang/format.h"
#include "session/arrivals/claims.h"
#include "session/events/rings.h"
#include "session/scripts/script_trace.h"
#include "session/events/shapes.h"
#include "session/scripts/units.h"

struct timer { uint32_t probe; uint64_t period, next; };

struct script_run {
	struct jab *j;
	FILE *out;
	enum script_style style;
	uint32_t unit;
	struct unit_maps *maps;
	const char *trace_path;
	struct script_trace *trace;	/* NULL: what is recorded is printed */
	struct interp in;
	VEC(struct timer) timers;
	struct format_names names;
	uint32_t pid, tid;		/* whose event is being shown, as the target says */
	uint32_t target;		/* likewise; UINT32_MAX: a map is, or what the tracer itself has said */
	bool no_warnings;
	bool objects_found;		/* names of libraries have become paths */
	bool begun;			/* the begin clauses have run */
	bool exited;
	int status;
};

static struct unit *unit_of(const struct script_run *s)
{
	return &s->j->units.v[s->unit];
}

static const struct ir_unit *ir_of(const struct script_run *s)
{
	return lang_unit(unit_of(s)->lang);
}

/* ---- names ---- */

static char *symbol(void *data, uint64_t addr)
{
	struct script_run *s = data;
	const char *text = events_address(s->j, s->pid, addr), *colon, *plus;

	if (!*text)
		return NULL;
	colon = strchr(text, ':');
	plus = strrchr(text, '+');
	if (!colon || !plus)
		return NULL;
	while (colon[1] == ':' && colon[2])	/* names of C++ come behind it */
		colon++;
	return xasprintf("%.*s+%llu", (int)(plus - colon - 1), colon + 1, strtoull(plus + 1, NULL, 0));
}

static const char *module(void *data, uint64_t addr)
{
	struct script_run *s = data;

	return events_module(s->j, s->pid, addr);
}

static const char *site(void *data, uint64_t number, bool func)
{
	struct script_run *s = data;
	struct row *row = number < s->j->rows.n ? &s->j->rows.v[number] : NULL;
	struct module *m = row ? s->j->files.v[row->file].m : NULL;

	if (!row)
		return NULL;
	if (!func)
		return unit_probe_name(s->j, row);
	return row->func == UINT32_MAX ? NULL : func_name(m, &m->funcs.v[row->func]);
}

static uint32_t stack(void *data, uint64_t id, uint64_t *frames, uint32_t most)
{
	struct script_run *s = data;
	pid_t pid = 0;
	uint32_t n;

	if (s->target != UINT32_MAX)
		return unit_event_stack(s->j, s->unit, s->target, id, frames, most);
	n = unit_maps_stack(s->maps, id, frames, most, &pid);
	if (n && pid)
		s->pid = pid;
	return n;
}

/* ---- what programs want from us ---- */

static void show_map(struct script_run *s, uint32_t map, uint64_t top, uint64_t div)
{
	static typeof(format_map) *const shows[] = {
		[SCRIPT_TEXT] = format_map, [SCRIPT_JSON] = format_map_json, [SCRIPT_FOLDED] = format_map_folded
	};
	uint32_t target = s->target;

	s->target = UINT32_MAX;
	shows[s->style](s->out, ir_of(s), map, &unit_maps_ops, s->maps, top, div, &s->names);
	s->target = target;
}

static void show_text(struct script_run *s, const char *type, const char *text, size_t len)
{
	if (s->style != SCRIPT_JSON && s->names.safe) {
		write_safe(s->out, text, len, "\n\t");
		return;
	}
	if (s->style != SCRIPT_JSON) {
		fwrite(text, 1, len, s->out);
		return;
	}
	fprintf(s->out, "{\"type\": \"%s\", \"data\": ", type);
	json_string(s->out, text, len);
	fputs("}\n", s->out);
}

/*
 * A FIFO would keep us waiting, and a device may act when it is opened: the type is checked before. Files of /proc and
 * /sys are regular ones.
 */
static FILE *open_regular(const char *path)
{
	int handle = open(path, O_PATH | O_CLOEXEC), fd = -1;
	struct stat st;
	char link[64];

	if (handle < 0 || fstat(handle, &st) < 0) {
		log_warn("cat: %s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		log_warn("cat: %s is %s and is not read", path, S_ISFIFO(st.st_mode) ? "a FIFO" :
			 S_ISSOCK(st.st_mode) ? "a socket" : S_ISDIR(st.st_mode) ? "a directory" : "a device");
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", handle);
		fd = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0)
			log_warn("cat: %s: %s", path, strerror(errno));
	}
	if (handle >= 0)
		close(handle);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

static void show_file(struct script_run *s, const char *path)
{
	uint32_t most = lang_config(unit_of(s)->lang)->max_cat_bytes;
	FILE *f = open_regular(path);
	char *text;

	if (!f)
		return;
	text = xrealloc(NULL, most);
	show_text(s, "cat", text, fread(text, 1, most, f));
	fclose(f);
	free(text);
}

/* What a command says, until it ends; nobody else is served meanwhile. */
static void show_command(struct script_run *s, const char *command)
{
	FILE *from = popen(command, "re"), *all;
	char *text = NULL, part[4096];
	size_t size, n;

	if (!from) {
		log_warn("system: %s: %s", command, strerror(errno));
		return;
	}
	all = s->style == SCRIPT_JSON ? xmemstream(&text, &size) : s->out;
	while ((n = fread(part, 1, sizeof(part), from)))
		fwrite(part, 1, n, all);
	pclose(from);
	if (all != s->out) {
		fclose(all);
		show_text(s, "syscall", text, size);
	}
	free(text);
}

static void known(void *data, enum ir_known what, struct field_value *v)
{
	struct script_run *s = data;

	if (s->target == UINT32_MAX)	/* a clause that runs here has said it itself */
		return;
	v->fault = false;
	if (what == IR_KNOWN_COMM) {
		v->text = (const uint8_t *)events_comm(s->j, s->pid, s->tid);
		v->len = strlen((const char *)v->text);
	} else {
		v->n.u = what == IR_KNOWN_PID ? s->pid : s->tid;
	}
}

/* Does something depend on whose event it is, and can't that be? */
static bool is_forged(struct script_run *s, uint32_t record)
{
	const struct ir_record *r = &ir_of(s)->records.v[record];
	bool asks = false;

	for (uint32_t i = 0; i < r->nfields; i++)
		asks |= r->fields[i].known != IR_KNOWN_NOT;
	if (!asks || s->target == UINT32_MAX || claim_check(s->j, s->target, s->pid, s->tid) == 0)
		return false;
	log_warn("%s(): left out: %s, though an event says so", r->kind == IR_RECORD_CAT ? "cat" : "system", err_text());
	return true;
}

/* What is done is made of the event's values as they are, but of what the kernel says where it can. */
static void show_named(struct script_run *s, uint32_t record, const uint8_t *payload, size_t len,
		       void (*show)(struct script_run *s, const char *name))
{
	char *name = NULL;
	size_t size;
	struct format_names raw = s->names;
	FILE *f;
	int r;

	if (is_forged(s, record))
		return;
	f = xmemstream(&name, &size);
	raw.safe = false;
	raw.known = known;
	r = format_event(f, ir_of(s), record, payload, len, &raw);

	fclose(f);
	if (r == 0)
		show(s, name);
	free(name);
}

static void serve(struct script_run *s, uint32_t record, const uint8_t *payload, size_t len)
{
	const struct ir_unit *u = ir_of(s);
	const struct ir_record *r = &u->records.v[record];
	struct field_value *v = xcalloc(r->nfields + 1, sizeof(*v));

	if (format_fields(r, payload, len, v) < 0) {
		s->j->events->damaged++;
	} else if (r->kind == IR_RECORD_CLEAR) {
		unit_maps_ops.clear(s->maps, r->map);
	} else if (r->kind == IR_RECORD_ZERO) {
		unit_maps_ops.zero(s->maps, r->map);
	} else if (r->kind == IR_RECORD_PRINT_MAP) {
		show_map(s, r->map, v[0].n.u, v[1].n.u);
	} else if (r->kind == IR_RECORD_EXIT) {
		s->exited = true;
		s->status = r->nfields ? v[0].n.i : 0;
	} else if (r->kind == IR_RECORD_CAT) {
		show_named(s, record, payload, len, show_file);
	} else if (r->kind == IR_RECORD_SYSTEM) {
		show_named(s, record, payload, len, show_command);
	} else if (r->kind != IR_RECORD_WARNF || !s->no_warnings) {
		bool message = s->style != SCRIPT_JSON && (r->kind == IR_RECORD_ERRORF || r->kind == IR_RECORD_WARNF);

		if (message)
			fflush(s->out);
		(s->style == SCRIPT_JSON ? format_event_json : format_event)(message ? stderr : s->out, u, record, payload, len, &s->names);
	}
	free(v);
}

/* An event of a target, copied out of its ring. */
static int take_event(void *arg, const struct raw_event *ev)
{
	struct script_run *s = arg;

	if (s->exited)
		return -ECANCELED;
	if (s->trace)
		script_trace_lost(s->trace, ev);
	if (!ev->payload)
		return 0;
	if (ev->head.id >= ir_of(s)->records.n) {
		s->j->events->damaged++;
		return 0;
	}
	if (s->trace && ir_of(s)->records.v[ev->head.id].kind == IR_RECORD_EVENT)
		return script_trace_add(s->trace, ev);
	s->pid = ev->head.pid;
	s->tid = ev->head.tid;
	s->target = ev->target;
	serve(s, ev->head.id, ev->payload, ev->head.len - sizeof(ev->head));
	s->target = UINT32_MAX;
	return ferror(s->out) ? -EPIPE : 0;
}

static void emit(void *data, uint32_t record, const uint8_t *payload, size_t len)
{
	struct script_run *s = data;

	s->pid = 0;
	serve(s, record, payload, len);
}

static void enable(void *data, uint32_t clause, bool on)
{
	struct script_run *s = data;

	unit_enable(s->j, s->unit, clause, on);
}

/* ---- clauses of the tracer ---- */

static void moment(void *data, struct interp_site *at)
{
	const struct script_run *s = data;
	uint32_t any = 0;

	at->ctx[IR_CTX_NSECS] = now_ns();
	at->ctx[IR_CTX_ELAPSED] = at->ctx[IR_CTX_NSECS] - s->j->started_ns;
	if (getrandom(&any, sizeof(any), GRND_NONBLOCK) < 0)
		any = at->ctx[IR_CTX_NSECS] * 0x9e3779b1u;
	at->ctx[IR_CTX_RAND] = any;
}

static void fill_site(struct script_run *s, struct interp_site *at)
{
	at->ctx[IR_CTX_PID] = at->ctx[IR_CTX_NS_PID] = getpid();
	at->ctx[IR_CTX_TID] = at->ctx[IR_CTX_NS_TID] = gettid();
	at->ctx[IR_CTX_UID] = getuid();
	at->ctx[IR_CTX_GID] = getgid();
	at->ctx[IR_CTX_NCPUS] = sysconf(_SC_NPROCESSORS_ONLN);
	at->ctx[IR_CTX_CPID] = s->j->child;
	at->comm = "jab";
}

/* probe: its number, counted over all clauses. */
static void run_probe(struct script_run *s, uint32_t probe)
{
	const struct ir_prog *p = unit_of(s)->tracer.v[probe];
	struct interp_site at = { 0 };

	if (!p)
		return;
	fill_site(s, &at);
	interp_run(&s->in, p, &at);
	if (s->in.exited) {
		s->exited = true;
		s->status = s->in.exit_status;
		s->in.exited = false;
	}
}

static void run_kind(struct script_run *s, enum probe_kind kind)
{
	const struct script *sc = unit_of(s)->script;

	for (uint32_t i = 0, n = 0; i < sc->clauses.n; i++)
		for (uint32_t k = 0; k < sc->clauses.v[i]->nprobes; k++, n++)
			if (sc->clauses.v[i]->probes[k]->kind == kind)
				run_probe(s, n);
}

int script_refuse(const struct jab *j)
{
	return refuse_language(j);
}

int script_load(struct jab *j, const struct script_options *o, struct script_run **ret_run)
{
	struct script_run *s = xcalloc(1, sizeof(*s));

	s->j = j;
	s->out = o->out;
	s->trace_path = o->trace;
	s->style = o->style;
	s->unit = j->units.n;
	s->target = UINT32_MAX;
	*ret_run = s;
	s->no_warnings = o->no_warnings;
	return unit_add_script(j, o);
}

char *script_errors(struct script_run *s)
{
	return unit_errors(unit_of(s));
}

bool script_has_errors(const struct script_run *s)
{
	return unit_of(s)->script->diags.errors;
}

bool script_has_sites(const struct script_run *s)
{
	for (size_t i = 0; i < s->j->probes.n; i++)
		if (!s->j->probes.v[i].missing)
			return true;
	return false;
}

bool script_may_miss(const struct script_run *s)
{
	uint8_t how = lang_config(unit_of(s)->lang)->missing_probes;

	return how == MISSING_WARN || how == MISSING_IGNORE;
}

/* A file that is not there is said where its probes are looked for. */
const char *script_object(struct script_run *s, size_t n)
{
	bool may_miss = script_may_miss(s);

	if (!s->objects_found)
		objects_find(s->j);
	s->objects_found = true;

	for (size_t i = 0; i < s->j->probes.n; i++) {
		const char *object = s->j->probes.v[i].spec->object;

		if (object && strchr(object, '/') && !(may_miss && access(object, F_OK) < 0) && !n--)
			return object;
	}
	return NULL;
}

static int open_trace(struct script_run *s, const struct tsc_clock *clock)
{
	struct ctf_options o = { .clock = *clock, .start = clock_now() };
	struct ctf *trace;
	int r = ctf_create(s->trace_path, &o, &trace);

	if (r < 0)
		return r;
	events_output(s->j, trace);
	s->trace = script_trace_new(s->j, s->unit);
	return 0;
}

int script_each_probe(const struct script_run *s, int (*each)(void *arg, const char *text, bool of_tracer), void *arg)
{
	const struct script *sc = unit_of(s)->script;
	int r = 0;

	for (uint32_t i = 0; i < sc->clauses.n; i++)
		for (uint32_t k = 0; !r && k < sc->clauses.v[i]->nprobes; k++) {
			const struct probe *p = sc->clauses.v[i]->probes[k];

			r = each(arg, p->text, p->kind == PROBE_BEGIN || p->kind == PROBE_END || p->kind == PROBE_INTERVAL);
		}
	return r;
}

int script_begin(struct script_run *s)
{
	const struct script *sc = unit_of(s)->script;
	struct tsc_clock clock;
	int r = events_clock(s->j, &clock);

	if (!r && s->trace_path)
		r = open_trace(s, &clock);
	if (r < 0)
		return r;
	s->maps = unit_maps_new(s->j, s->unit);
	s->j->tracer_maps = s->maps;
	s->names = (struct format_names){
		.data = s, .symbol = symbol, .stack = stack, .module = module, .site = site,
		.safe = s->style != SCRIPT_JSON && isatty(fileno(s->out)),
		.wall_offset = clock.realtime_ns, .trailer = lang_config(unit_of(s)->lang)->str_trunc_trailer,
		.source = &sc->diags,
	};
	s->in = (struct interp){ .unit = ir_of(s), .ops = &unit_maps_ops, .store = s->maps, .data = s, .emit = emit, .enable = enable, .moment = moment };
	s->in.cells = xcalloc(ir_of(s)->ncells + 1, sizeof(*s->in.cells));
	events_call_raw(s->j, take_event, s);
	run_kind(s, PROBE_BEGIN);
	for (uint32_t i = 0, n = 0; i < sc->clauses.n; i++)
		for (uint32_t k = 0; k < sc->clauses.v[i]->nprobes; k++, n++) {
			const struct probe *p = sc->clauses.v[i]->probes[k];

			if (p->kind == PROBE_INTERVAL)
				*vec_add(&s->timers) = (struct timer){ n, p->period, now_ns() + p->period };
		}
	s->begun = true;
	return 0;
}

int script_tick(struct script_run *s, uint64_t *ret_wait)
{
	uint64_t now = now_ns(), wait = UINT64_MAX;

	for (size_t i = 0; i < s->timers.n; i++) {
		struct timer *t = &s->timers.v[i];

		if (now >= t->next && !s->exited) {
			run_probe(s, t->probe);
			t->next += t->period;
			if (t->next <= now)	/* we were held up: one is enough */
				t->next = now + t->period;
		}
		wait = MIN(wait, t->next - now);
	}
	*ret_wait = wait;
	return s->trace ? script_trace_flush(s->trace) : 0;
}

/* A script with only begin and end has nothing to wait for. */
static bool is_over(const struct script_run *s)
{
	return s->begun && !s->timers.n && !s->j->targets.n && !s->j->newcomers && !script_has_sites(s);
}

bool script_exited(const struct script_run *s, int *ret_status)
{
	if (s->exited)
		*ret_status = s->status;
	return s->exited || is_over(s);
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct ir_unit *u = arg;

	return strcmp(u->maps.v[*(const uint32_t *)a].name, u->maps.v[*(const uint32_t *)b].name);
}

/* In the order of their names, as bpftrace does. */
static void show_maps(struct script_run *s)
{
	const struct ir_unit *u = ir_of(s);
	uint32_t *maps = xcalloc(u->maps.n + 1, sizeof(*maps));

	for (uint32_t i = 0; i < u->maps.n; i++)
		maps[i] = i;
	qsort_r(maps, u->maps.n, sizeof(*maps), by_name, (void *)u);
	for (uint32_t i = 0; i < u->maps.n; i++)
		if (unit_maps_ops.len(s->maps, maps[i]))
			show_map(s, maps[i], 0, 0);
	free(maps);
}

int script_end(struct script_run *s)
{
	int r = 0;

	s->exited = false;
	run_kind(s, PROBE_END);
	if (s->style == SCRIPT_TEXT && s->begun)
		fputs("\n\n", s->out);		/* what was printed while it ran ends here, as in bpftrace */
	if (lang_config(unit_of(s)->lang)->print_maps_on_exit)
		show_maps(s);
	unit_say_tracer(s->in.errors);
	if (s->trace)
		r = script_trace_flush(s->trace);
	return events_close(s->j) ?: r;
}

int script_dump_text(struct script_run *s, const char *what, FILE *to)
{
	return unit_dump(s->j, s->unit, what, to);
}

void script_free_run(struct script_run *s)
{
	if (!s)
		return;
	s->j->tracer_maps = NULL;
	unit_maps_free(s->maps);
	script_trace_free(s->trace);
	free(s->in.cells);
	vec_free(&s->timers);
	free(s);
}
