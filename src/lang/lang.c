/* SPDX-License-Identifier: MIT */
/*
 * A script as a whole: its settings, definitions and declared maps, and its clauses one after the
 * other. Maps may be read in a clause above the one that writes them, so all clauses are looked at
 * without a word until nothing new is learnt, and then once more aloud.
 */
#include "lang/check.h"

#include <string.h>
#include <unistd.h>

#include "base/err.h"

#define MOST_ROUNDS 8
#define LOOP_ROUNDS 1024

static bool config_bool(const char *value, bool *ret)
{
	*ret = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
	return *ret || strcmp(value, "false") == 0 || strcmp(value, "0") == 0;
}

static bool config_number(const char *value, uint64_t least, uint64_t most, uint32_t *ret)
{
	char *end;
	uint64_t v = strtoull(value, &end, 0);

	if (!*value || *end || v < least || v > most)
		return false;
	*ret = v;
	return true;
}

static bool config_stack(const char *value, uint8_t *ret)
{
	static const char *const modes[] = { "bpftrace", "perf", "raw" };
	uint8_t i;

	for (i = 0; i < ARRAY_SIZE(modes); i++)
		if (strcmp(value, modes[i]) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* Without BPFTRACE_, in small letters. */
static void config_name(const char *name, char out[40])
{
	size_t i;

	if (strncasecmp(name, "BPFTRACE_", 9) == 0)
		name += 9;
	for (i = 0; name[i] && i < 39; i++)
		out[i] = name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i];
	out[i] = 0;
}

static bool config_missing(const char *value, uint8_t *ret_how)
{
	static const char *const words[] = { [MISSING_WARN] = "warn", [MISSING_IGNORE] = "ignore", [MISSING_ERROR] = "error" };

	for (uint8_t i = MISSING_WARN; i < ARRAY_SIZE(words); i++)
		if (strcmp(value, words[i]) == 0) {
			*ret_how = i;
			return true;
		}
	return false;
}

/* Those of bpftrace that change nothing here. */
static const char *const ignored[] = {
	"cache_user_symbols", "cpp_demangle", "lazy_symbolication", "license", "log_size", "max_bpf_progs",
	"max_probes", "on_stack_limit", "perf_rb_pages", "show_debug_info", "symbol_source", "unstable_map_decl",
	"unstable_tseries", "unstable_addr", "unstable_import", "use_blazesym", "max_ast_nodes", "debug_output",
	"max_type_res_iterations", "unstable_dw_ustack",
};

/* False: there is no such setting. */
static bool read_config(struct lang *l, const struct config *c)
{
	char name[40];
	bool good;
	size_t i;

	config_name(c->name, name);
	if (strcmp(name, "max_strlen") == 0 || strcmp(name, "strlen") == 0)
		good = config_number(c->value, 1, 65536, &l->config.max_strlen);
	else if (strcmp(name, "max_map_keys") == 0 || strcmp(name, "map_keys_max") == 0)
		good = config_number(c->value, 1, 1 << 26, &l->config.max_map_keys);
	else if (strcmp(name, "max_loop") == 0)
		good = config_number(c->value, 1, 1 << 20, &l->config.max_loop);
	else if (strcmp(name, "max_cat_bytes") == 0 || strcmp(name, "cat_bytes_max") == 0)
		good = config_number(c->value, 1, 1 << 30, &l->config.max_cat_bytes);
	else if (strcmp(name, "stack_mode") == 0)
		good = config_stack(c->value, &l->config.stack_mode);
	else if (strcmp(name, "print_maps_on_exit") == 0)
		good = config_bool(c->value, &l->config.print_maps_on_exit);
	else if (strcmp(name, "missing_probes") == 0)
		good = config_missing(c->value, &l->config.missing_probes);
	else if (strcmp(name, "str_trunc_trailer") == 0)
		good = (l->config.str_trunc_trailer = c->value) != NULL;
	else {
		for (i = 0; i < ARRAY_SIZE(ignored); i++)
			if (strcmp(name, ignored[i]) == 0)
				return true;
		return false;
	}
	if (!good)
		diag_error(l->diags, c->value_at, c->value_len, "'%s' is no value for %s", c->value, c->len ? name : c->name);
	return true;
}

/* Those of the environment win. Unknown ones may be meant for bpftrace, which has some that are about itself. */
static void read_configs(struct lang *l)
{
	const struct script *s = l->script;
	size_t i, n;

	for (i = 0; i < s->configs.n; i++)
		if (s->configs.v[i].value && !read_config(l, &s->configs.v[i]))
			diag_error(l->diags, s->configs.v[i].at, s->configs.v[i].len, "unknown config variable '%s'", s->configs.v[i].name);
	for (i = 0; environ[i] && s->clauses.n && !s->clauses.v[0]->is_line; i++) {
		n = strcspn(environ[i], "=");
		if (strncmp(environ[i], "BPFTRACE_", 9) == 0 && environ[i][n])
			read_config(l, &(struct config){ .name = pool_text(l->pool, environ[i], n), .value = environ[i] + n + 1 });
	}
}

/* Known by name before any is laid out: lists point to themselves, and to what comes later. */
static struct vtype *declare_struct(struct lang *l, const struct struct_decl *d)
{
	struct vtype *t = pool_new(l->pool, struct vtype);

	*t = (struct vtype){ .kind = V_STRUCT, .show = IR_STRUCT, .decl = d };
	*vec_add(&l->structs) = t;
	return t;
}

/* As a C compiler for x86-64 lays it out. */
static void define_struct(struct lang *l, struct vtype *t)
{
	struct checker c = { .l = l };
	const struct struct_decl *d = t->decl;
	struct vmember *members = pool_alloc(l->pool, (d->nmembers + 1) * sizeof(*members));
	uint64_t bit = 0, align, size = 0, most = 1;
	bool is_union = strcmp(d->tag, "union") == 0;
	uint32_t i;

	for (i = 0; i < d->nmembers; i++) {
		const struct member_decl *m = &d->members[i];
		const struct vtype *type = check_type_name(&c, m->type);

		if (type->kind != V_ERROR && !type->size && type->kind != V_ARRAY)	/* int y[0]: as many as there are */
			diag_error(l->diags, m->at, m->len, "'%s' has no size", m->name);
		align = d->packed ? 8 : v_align(type) * 8;
		most = MAX(most, align / 8);
		if (is_union)
			bit = 0;
		if (!m->is_field || (!d->packed && (bit % align) + m->bits > type->size * 8))
			bit = (bit + align - 1) / align * align;
		members[i] = (struct vmember){ .name = m->name, .type = type, .bit_off = bit, .bit_size = m->is_field ? m->bits : 0 };
		bit += m->is_field ? m->bits : type->size * 8;
		size = MAX(size, (bit + 7) / 8);
	}
	t->packed = d->packed;
	t->size = (size + most - 1) / most * most;
	t->members = members;
	t->nmembers = d->nmembers;
}

static void define_all(struct lang *l)
{
	size_t i;

	for (i = 0; i < l->script->enums.n; i++)
		*vec_add(&l->enums) = v_enum(l->pool, &l->script->enums.v[i]);
	for (i = 0; i < l->script->structs.n; i++)
		declare_struct(l, &l->script->structs.v[i]);
	for (i = 0; i < l->structs.n; i++)
		define_struct(l, l->structs.v[i]);
}

static void declare_map(struct lang *l, const struct map_decl *d)
{
	static const char *const kinds[] = { "hash", "lruhash", "percpuhash", "percpulruhash" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds) && strcmp(kinds[i], d->kind) != 0; i++)
		;
	if (i == ARRAY_SIZE(kinds))
		diag_error(l->diags, d->at, d->len, "'%s' is no kind of map (hash, lruhash, percpuhash, percpulruhash)", d->kind);
	else if (!d->max_keys || d->max_keys > 1 << 26)
		diag_error(l->diags, d->at, d->len, "a map has from 1 to %d keys", 1 << 26);
	else
		map_find(l, d->name, d->at)->max_keys = d->max_keys;
}

int lang_new(struct script *script, struct lang **ret_lang)
{
	struct lang *l = xcalloc(1, sizeof(*l));
	size_t i;

	l->arch = arch_host();
	l->script = script;
	l->pool = &script->pool;
	l->diags = &script->diags;
	l->config = (struct lang_config){ .max_strlen = 1024, .max_loop = LOOP_ROUNDS, .max_cat_bytes = 1 << 20,
					  .print_maps_on_exit = true, .str_trunc_trailer = ".." };
	read_configs(l);
	define_all(l);
	for (i = 0; i < script->maps.n; i++)
		declare_map(l, &script->maps.v[i]);
	if (l->diags->errors) {
		lang_free(l);
		return fail(-EINVAL, "%s has errors", script->diags.name);
	}
	*ret_lang = l;
	return 0;
}

void lang_free(struct lang *l)
{
	if (!l)
		return;
	ir_unit_free(&l->unit);
	vec_free(&l->maps);
	vec_free(&l->structs);
	vec_free(&l->enums);
	vec_free(&l->noted);
	vec_free(&l->cells);
	vec_free(&l->asked);
	free(l);
}

struct ir_unit *lang_unit(struct lang *l)
{
	return &l->unit;
}

const struct lang_config *lang_config(const struct lang *l)
{
	return &l->config;
}

static void infer_clause(struct lang *l, uint32_t i, const struct lang_site *site, bool hopeful)
{
	struct checker c = { .l = l, .site = site, .clause = l->script->clauses.v[i], .quiet = true, .hopeful = hopeful };

	check_clause(&c);
	vec_free(&c.vars);
}

/* --name after -- that no getopt() asks for. */
static int check_options(struct lang *l)
{
	const struct script *s = l->script;
	const char *all = "";
	size_t k;

	for (k = 0; k < l->asked.n; k++)
		if (!strstr(all, pool_printf(l->pool, "--%s", l->asked.v[k])))
			all = pool_printf(l->pool, "%s%s--%s", all, *all ? ", " : "", l->asked.v[k]);
	for (uint32_t i = 0; i < s->noptions; i++) {
		const char *name = s->options[i] + 2;
		size_t n = strcspn(name, "=");

		for (k = 0; k < l->asked.n && (strlen(l->asked.v[k]) != n || memcmp(l->asked.v[k], name, n) != 0); k++)
			;
		if (k == l->asked.n)
			return fail(-EINVAL, "the script has no option --%.*s%s%s", (int)n, name, *all ? "; it has " : "", all);
	}
	return 0;
}

int lang_infer(struct lang *l, const struct lang_site *(*site)(void *arg, uint32_t clause), void *arg)
{
	bool hopeful = false;	/* @a = @a + 1 and nothing else */
	uint32_t i, round;

	for (round = 0; round < MOST_ROUNDS; round++) {
		l->changed = false;
		for (i = 0; i < l->script->clauses.n; i++)
			infer_clause(l, i, site(arg, i), hopeful);
		if (!l->changed && hopeful)
			break;
		hopeful = !l->changed;
	}
	for (i = 0; i < l->script->maps.n; i++) {
		const struct map_decl *d = &l->script->maps.v[i];

		if (!map_find(l, d->name, d->at)->has_keys)
			diag_warn(l->diags, d->at, d->len, "Unused map: %s", d->name);
	}
	return check_options(l);
}

/* Fields that are registers, or what these point to, of types that need no debug info. */
static bool is_general_field(const struct lang *l, const struct expr *f, bool has_types)
{
	const struct expr *e = f->kind == E_NAMED ? f->a : f;
	uint32_t number;

	if (e->kind == E_CAST && e->prefix)
		e = e->to->tag || !(v_basic(e->to->name) || !strcmp(e->to->name, "string")) ? NULL : e->a;
	else if (e->kind == E_CALL && e->prefix)
		e = e->list[0];
	if (!e || e->kind != E_NAME)
		return false;
	if (!strcmp(e->name, "retval") || !strcmp(e->name, "$retval"))
		return !has_types;
	return !strcmp(e->name, "$regs") || !strcmp(e->name, "$stack") || !strcmp(e->name, "$backtrace") || builtin_numbered(e->name, "arg", &number) ||
	       check_is_register(l, e->name);
}

static bool is_general(const struct lang *l, uint32_t clause, const struct lang_site *site, bool has_types)
{
	const struct clause *c = l->script->clauses.v[clause];

	if (!c->is_line || c->predicate || site->at == LANG_CALL || site->is_copy || site->usdt)
		return false;
	if (c->nfields == c->nmore && has_types && !site->many)
		return false;
	for (uint32_t i = 0; i < c->nfields; i++)
		if (!is_general_field(l, c->fields[i], has_types))
			return false;
	return true;
}

bool lang_is_general(const struct lang *l, uint32_t clause, const struct lang_site *site)
{
	return is_general(l, clause, site, site->types);
}

bool lang_asks_types(const struct lang *l, uint32_t clause, const struct lang_site *site)
{
	return !is_general(l, clause, site, true);
}

bool lang_fits(struct lang *l, uint32_t clause, const struct lang_site *site)
{
	struct checker c = { .l = l, .site = site, .clause = l->script->clauses.v[clause], .quiet = true };
	bool fits = check_clause(&c) == 0;

	vec_free(&c.vars);
	return fits;
}

int lang_compile(struct lang *l, uint32_t clause, const struct lang_site *site, struct ir_prog *ret_progs[2])
{
	struct checker c = { .l = l, .site = site, .clause = l->script->clauses.v[clause] };
	int r = check_clause(&c);

	if (r == 0)
		r = lower_clause(&c, clause, ret_progs);
	vec_free(&c.vars);
	return r;
}
