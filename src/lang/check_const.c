/* SPDX-License-Identifier: MIT */
/* What is known when a script is compiled: questions about types, named parameters, clocks, numbers that C has in its headers. */
#include "lang/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "lang/lex.h"

#define MOST_ERRNO 134

static bool fold(uint8_t op, int64_t a, int64_t b, int64_t *ret)
{
	switch (op) {
	case '+':	*ret = (uint64_t)a + b; return true;
	case '-':	*ret = (uint64_t)a - b; return true;
	case '*':	*ret = (uint64_t)a * b; return true;
	case T_SHL:	*ret = (uint64_t)a << (b & 63); return true;
	case '|':	*ret = a | b; return true;
	case '&':	*ret = a & b; return true;
	case '<':	*ret = a < b; return true;
	case '>':	*ret = a > b; return true;
	case T_LE:	*ret = a <= b; return true;
	case T_GE:	*ret = a >= b; return true;
	case T_EQ:	*ret = a == b; return true;
	case T_NE:	*ret = a != b; return true;
	case T_ANDAND:	*ret = a && b; return true;
	case T_OROR:	*ret = a || b; return true;
	case '/': case '%':
		if (!b || (a == INT64_MIN && b == -1))
			return false;
		*ret = op == '/' ? a / b : a % b;
		return true;
	}
	return false;
}

/* A constant where the grammar needs one. */
bool const_int(const struct expr *e, int64_t *ret_value)
{
	int64_t a, b;

	switch (e->kind) {
	case E_INT: case E_BOOL:
		*ret_value = e->value;
		return true;
	case E_UNARY:
		if (!const_int(e->a, &a) || !strchr("+-!~", e->op))
			return false;
		*ret_value = e->op == '-' ? (int64_t)-(uint64_t)a : e->op == '!' ? !a : e->op == '~' ? ~a : a;
		return true;
	case E_BINARY:
		return const_int(e->a, &a) && const_int(e->b, &b) && fold(e->op, a, b, ret_value);
	case E_PARAM:
		if (!e->ref)
			return false;
		*ret_value = *(const int64_t *)e->ref;
		return true;
	case E_SIZEOF: case E_OFFSETOF:
		*ret_value = e->value;
		return true;
	case E_NAME:
		*ret_value = e->value;
		return e->meaning == B_CONSTANT || e->meaning == B_ENUMERATOR;
	case E_CALL:
		*ret_value = e->value;
		return (e->meaning >= C_IS_ARRAY && e->meaning <= C_IS_LITERAL) || e->meaning == C_STRCAP || e->meaning == C_CGROUPID;
	}
	return false;
}

static bool is_literal(const struct expr *e)
{
	return e->kind == E_INT || e->kind == E_FLOAT || e->kind == E_STR || e->kind == E_BOOL ||
	       (e->kind == E_UNARY && (e->op == '-' || e->op == '+') && is_literal(e->a));
}

/* is_integer(x) and its like; the answer is in value. */
const struct vtype *check_kind_of(struct checker *c, struct expr *e)
{
	bool literal = is_literal(e->list[0]);	/* asking changes what it is */
	const struct vtype *t = check_value(c, e->list[0]);
	bool is_int = t->kind == V_INT && !t->is_bool;

	switch ((enum call)e->meaning) {
	case C_IS_ARRAY:	e->value = t->kind == V_ARRAY; break;
	case C_IS_INTEGER:	e->value = is_int; break;
	case C_IS_UNSIGNED:	e->value = is_int && !t->is_signed; break;
	case C_IS_PTR:		e->value = t->kind == V_PTR; break;
	case C_IS_STR:		e->value = t->kind == V_STR || t->kind == V_SITE; break;
	default:		e->value = literal; break;
	}
	return &v_bool;
}

/* static_assert(condition, "text") */
const struct vtype *check_static_assert(struct checker *c, struct expr *e, const struct call_info *i)
{
	int64_t yes;

	check_value(c, e->list[0]);
	if (!check_literal(c, e->list[1], i))
		return &v_void;
	if (!const_int(e->list[0], &yes))
		check_error(c, e->list[0], "static_assert() takes what is known when compiling; assert() asks at each hit");
	else if (!yes)
		check_error(c, e, "%s", e->list[1]->name);
	return &v_void;
}

/* ---- getopt() ---- */

/* What is behind --name=, "" for --name; NULL: it was not given. */
static const char *given(const struct script *s, const char *name)
{
	size_t n = strlen(name);

	for (uint32_t i = 0; i < s->noptions; i++)
		if (strncmp(s->options[i] + 2, name, n) == 0 && (!s->options[i][2 + n] || s->options[i][2 + n] == '='))
			return s->options[i] + 2 + n + (s->options[i][2 + n] == '=');
	return NULL;
}

static bool read_number(const char *s, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = *s == '-' ? (uint64_t)strtoll(s, &end, 0) : strtoull(s, &end, 0);
	return *s && !*end && !errno;
}

/* "" and the like: what a switch that stands alone means. False: it is neither. */
static bool read_switch(const char *s, uint64_t *ret)
{
	*ret = !*s || strcmp(s, "1") == 0 || strcasecmp(s, "true") == 0;
	return *ret || strcmp(s, "0") == 0 || strcasecmp(s, "false") == 0;
}

/*
 * getopt("name"), getopt("name", default, "what it is"): becomes the literal that it stands for. One that is wrong stays
 * as it is, and is complained about when that is heard.
 */
const struct vtype *check_getopt(struct checker *c, struct expr *e, const struct call_info *i)
{
	struct expr *def = e->nlist > 1 ? e->list[1] : NULL;
	bool is_text = def && def->kind == E_STR, is_switch = !def || def->kind == E_BOOL;
	int64_t n = def ? def->value : 0;
	uint64_t value;
	const char *text;

	if (!check_literal(c, e->list[0], i) || (e->nlist == 3 && !check_literal(c, e->list[2], i)))
		return &v_error;
	*vec_add(&c->l->asked) = e->list[0]->name;
	text = given(c->l->script, e->list[0]->name);
	if (!is_text && !is_switch && !const_int(def, &n)) {
		check_error(c, def, "the default of an option is a number, a string, true or false");
		return &v_error;
	}
	value = n;
	if (text && !is_text && !(is_switch ? read_switch : read_number)(text, &value)) {
		check_error(c, e, "--%s is %s, but '%s' was given", e->list[0]->name, is_switch ? "true or false" : "a number", text);
		return &v_error;
	}
	e->kind = is_text ? E_STR : is_switch ? E_BOOL : E_INT;
	e->name = is_text ? (text ? text : def->name) : e->name;
	e->text_len = is_text ? strlen(e->name) : 0;
	e->value = value;
	e->prefix = value <= INT64_MAX || !text || text[0] == '-';	/* such numbers have a sign, like those of characters */
	return check_expr(c, e);
}

/* ---- clocks ---- */

/* How far another clock is from the one that targets look at. Asked once: a script's times must fit each other. */
static uint64_t offset_of(clockid_t id)
{
	static uint64_t boot, tai;
	uint64_t *known = id == CLOCK_TAI ? &tai : &boot;
	struct timespec a, b;

	if (!*known && clock_gettime(CLOCK_MONOTONIC, &a) == 0 && clock_gettime(id, &b) == 0)
		*known = (b.tv_sec - a.tv_sec) * 1000000000ull + b.tv_nsec - a.tv_nsec;
	return *known;
}

static bool clock_offset(const char *name, uint64_t *ret)
{
	if (strcmp(name, "monotonic") == 0)
		*ret = 0;
	else if (strcmp(name, "boot") == 0)
		*ret = offset_of(CLOCK_BOOTTIME);
	else if (strcmp(name, "tai") == 0 || strcmp(name, "sw_tai") == 0)
		*ret = offset_of(CLOCK_TAI);
	else
		return false;
	return true;
}

const struct vtype *check_nsecs(struct checker *c, struct expr *e)
{
	const char *clock = !e->nlist ? "monotonic" : e->list[0]->kind == E_NAME ? e->list[0]->name : "";

	if (!clock_offset(clock, &e->value))
		check_error(c, e->list[0], "the clocks of nsecs() are monotonic, boot, tai and sw_tai");
	return &v_u64;
}

/* ---- headers ---- */

#define H(name) { #name, name }
static const struct { const char *name; int32_t value; } known[] = {
	H(AF_UNIX), H(AF_INET), H(AF_INET6),
	H(SOCK_STREAM), H(SOCK_DGRAM),
	H(O_RDONLY), H(O_WRONLY), H(O_RDWR), H(O_CREAT), H(O_EXCL), H(O_TRUNC), H(O_APPEND), H(O_NONBLOCK), H(O_CLOEXEC),
	H(SEEK_SET), H(SEEK_CUR), H(SEEK_END), H(STDIN_FILENO), H(STDOUT_FILENO), H(STDERR_FILENO),
	H(PROT_NONE), H(PROT_READ), H(PROT_WRITE), H(PROT_EXEC), H(MAP_SHARED), H(MAP_PRIVATE), H(MAP_FIXED), H(MAP_ANONYMOUS),
	H(SIGHUP), H(SIGINT), H(SIGQUIT), H(SIGILL), H(SIGTRAP), H(SIGABRT), H(SIGBUS), H(SIGFPE), H(SIGKILL), H(SIGUSR1), H(SIGSEGV),
	H(SIGUSR2), H(SIGPIPE), H(SIGALRM), H(SIGTERM), H(SIGCHLD), H(SIGCONT), H(SIGSTOP), H(SIGTSTP),
	H(CLOCK_REALTIME), H(CLOCK_MONOTONIC),
};

bool header_constant(const char *name, int64_t *ret)
{
	const char *error;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].name, name) == 0) {
			*ret = known[i].value;
			return true;
		}
	for (int i = 1; name[0] == 'E' && i < MOST_ERRNO; i++) {
		error = strerrorname_np(i);
		if (error && strcmp(error, name) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}
