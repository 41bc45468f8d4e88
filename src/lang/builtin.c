/* SPDX-License-Identifier: MIT */
#include "lang/builtin.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct { const char *name; uint8_t b; } names[] = {
	{ "pid", B_PID }, { "tid", B_TID }, { "cpu", B_CPU }, { "nsecs", B_NSECS }, { "elapsed", B_ELAPSED },
	{ "duration", B_DURATION }, { "uid", B_UID }, { "gid", B_GID }, { "rand", B_RAND }, { "ncpus", B_NCPUS },
	{ NS_PID, B_NS_PID }, { NS_TID, B_NS_TID },
	{ "cpid", B_CPID }, { "errno", B_ERRNO }, { "comm", B_COMM }, { "func", B_FUNC }, { "probe", B_PROBE }, { "ustack", B_USTACK },
	{ "retval", B_RETVAL }, { "args", B_ARGS }, { "probetype", B_PROBETYPE }, { "usermode", B_USERMODE }, { "has_cpid", B_HAS_CPID },
	{ "username", B_USERNAME }, { "left", B_LEFT },
	{ "ppid", B_PPID }, { "pcomm", B_PCOMM }, { "leader_comm", B_LEADER_COMM }, { "leader_tid", B_PID }, { "cgroup", B_CGROUP },
	{ "jiffies", B_JIFFIES }, { "numaid", B_NUMAID }, { "default_str_length", B_STR_LENGTH },
	{ "$retval", B_RETVAL }, { "$params", B_PARAMS }, { "$args", B_PARAMS }, { "$regs", B_REGS }, { "$stack", B_STACK }, { "$backtrace", B_USTACK },
};

static const struct call_info calls[] = {
	{ "printf", C_PRINTF, 1, 64, "printf(\"format\", ...)" }, { "print", C_PRINT, 1, 3, "print(value) or print(@map, top, div)" },
	{ "clear", C_CLEAR, 1, 1, "clear(@map)" }, { "zero", C_ZERO, 1, 1, "zero(@map)" },
	{ "delete", C_DELETE, 1, 2, "delete(@map[key]) or delete(@map, key)" }, { "has_key", C_HAS_KEY, 2, 2, "has_key(@map, key)" },
	{ "len", C_LEN, 1, 1, "len(@map)" }, { "str", C_STR, 1, 2, "str(pointer, length)" },
	{ "buf", C_BUF, 1, 2, "buf(pointer, length)" }, { "usym", C_USYM, 1, 1, "usym(address)" },
	{ "reg", C_REG, 1, 1, "reg(\"name\")" }, { "exit", C_EXIT, 0, 1, "exit(status)" },
	{ "strlen", C_STRLEN, 1, 1, "strlen(string)" }, { "strncmp", C_STRNCMP, 3, 3, "strncmp(a, b, length)" },
	{ "strcontains", C_STRCONTAINS, 2, 2, "strcontains(text, part)" }, { "strstr", C_STRSTR, 2, 2, "strstr(text, part)" },
	{ "bswap", C_BSWAP, 1, 1, "bswap(integer)" }, { "strftime", C_STRFTIME, 2, 2, "strftime(\"format\", nsecs)" },
	{ "time", C_TIME, 0, 1, "time(\"format\")" }, { "cat", C_CAT, 1, 64, "cat(\"path\", ...)" },
	{ "system", C_SYSTEM, 1, 64, "system(\"command\", ...)" },
	{ "errorf", C_ERRORF, 1, 64, "errorf(\"format\", ...)" }, { "warnf", C_WARNF, 1, 64, "warnf(\"format\", ...)" },
	{ "record", C_RECORD, 1, 63, "record(a, name=b, ...)" }, { "every", C_EVERY, 1, 1, "every(100)" },
	{ "limit", C_LIMIT, 1, 1, "limit(10)" }, { "rate", C_RATE, 1, 1, "rate(1000)" },
	{ "enable", C_ENABLE, 1, 1, "enable(\"name\")" }, { "disable", C_DISABLE, 1, 1, "disable(\"name\")" },
	{ "ustack", C_USTACK, 0, 2, "ustack(mode, frames)" }, { "uptr", C_UPTR, 1, 1, "uptr(pointer)" },
	{ "uaddr", C_UADDR, 1, 1, "uaddr(\"symbol\")" },
	{ "nsecs", C_NSECS, 0, 1, "nsecs(boot)" }, { "pid", C_PID, 0, 1, "pid(target_ns)" }, { "tid", C_PID, 0, 1, "tid(target_ns)" },
	{ "join", C_JOIN, 1, 2, "join(pointers, \" \")" }, { "ntop", C_NTOP, 1, 2, "ntop(family, address)" },
	{ "pton", C_PTON, 1, 1, "pton(\"address\")" }, { "macaddr", C_MACADDR, 1, 1, "macaddr(bytes)" },
	{ "strerror", C_STRERROR, 1, 1, "strerror(number)" },
	{ "is_array", C_IS_ARRAY, 1, 1, "is_array(value)" }, { "is_integer", C_IS_INTEGER, 1, 1, "is_integer(value)" },
	{ "is_unsigned_integer", C_IS_UNSIGNED, 1, 1, "is_unsigned_integer(value)" }, { "is_ptr", C_IS_PTR, 1, 1, "is_ptr(value)" },
	{ "is_str", C_IS_STR, 1, 1, "is_str(value)" }, { "is_literal", C_IS_LITERAL, 1, 1, "is_literal(value)" },
	{ "static_assert", C_STATIC_ASSERT, 2, 2, "static_assert(constant, \"text\")" },
	{ "getopt", C_GETOPT, 1, 3, "getopt(\"name\", default, \"what it is\")" },
	{ "comm", C_COMM, 0, 1, "comm(pid)" }, { "cgroup_path", C_CGROUP_PATH, 1, 2, "cgroup_path(cgroup)" },
	{ "cgroupid", C_CGROUPID, 1, 1, "cgroupid(\"/sys/fs/cgroup/...\")" }, { "signal_name", C_SIGNAL_NAME, 1, 1, "signal_name(number)" },
	{ "syscall_name", C_SYSCALL_NAME, 1, 1, "syscall_name(number)" },
	{ "strcap", C_STRCAP, 1, 1, "strcap(string)" }, { "memcmp", C_MEMCMP, 3, 3, "memcmp(a, b, length)" },
	{ "assert_str", C_ASSERT_STR, 1, 1, "assert_str(value)" },
	{ "count", C_COUNT, 0, 0, "count()" }, { "sum", C_SUM, 1, 1, "sum(number)" }, { "avg", C_AVG, 1, 1, "avg(number)" },
	{ "min", C_MIN, 1, 1, "min(number)" }, { "max", C_MAX, 1, 1, "max(number)" }, { "stats", C_STATS, 1, 1, "stats(number)" },
	{ "hist", C_HIST, 1, 2, "hist(number, bits)" }, { "lhist", C_LHIST, 4, 4, "lhist(number, min, max, step)" },
	{ "quantile", C_QUANTILE, 2, 17, "quantile(number, .5, .99)" },
};

#define KERNEL ": it is about the kernel, and probes here are in programs"
#define HARM ": the program is never disturbed; printf() tells that it was here"

/* Known to bpftrace, but not here; what to do instead, where there is something. */
static const struct { const char *name, *hint; } missing[] = {
	{ "kstack", "; ustack is the program's own stack" }, { "ksym", "; usym() names addresses of the program" },
	{ "kaddr", KERNEL "; uaddr() finds symbols of the program" }, { "percpu_kaddr", KERNEL }, { "kptr", KERNEL },
	{ "curtask", KERNEL }, { "ctx", KERNEL }, { "path", KERNEL },
	{ "skboutput", KERNEL }, { "socket_cookie", KERNEL }, { "kfunc_allowed", KERNEL }, { "kfunc_exist", KERNEL },
	{ "override", ": the program is never changed" }, { "signal", HARM }, { "signal_thread", HARM },
	{ "unwatch", ": there are no watchpoints" },
	{ "globmatch", "; strncmp() and strcontains() compare parts of strings" },
	{ "tseries", "; @x[nsecs / 1s] = sum(...) counts by the second" },
	{ "debugf", "; use printf()" }, { "syscall", KERNEL },
};

/* "arg12" with word "arg" */
int builtin_numbered(const char *name, const char *word, uint32_t *ret)
{
	size_t n = strlen(word), digits;

	if (strncmp(name, word, n) != 0)
		return 0;
	digits = strspn(name + n, "0123456789");
	if (!digits || digits > 3 || name[n + digits])
		return 0;
	*ret = atoi(name + n);
	return 1;
}

enum builtin builtin_find(const char *name, uint32_t *ret_number)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].b;
	if (builtin_numbered(name, "arg", ret_number))
		return B_ARG;
	return builtin_numbered(name, "sarg", ret_number) ? B_SARG : B_NONE;
}

const struct call_info *call_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return &calls[i];
	return NULL;
}

bool builtin_known(const char *name)
{
	uint32_t number;

	return builtin_find(name, &number) || call_find(name) || strcmp(name, "config") == 0;
}

const char *builtin_missing(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(missing); i++)
		if (strcmp(missing[i].name, name) == 0)
			return missing[i].hint;
	return NULL;
}

/* Levenshtein, small words only. */
static unsigned int distance(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), i, k;
	unsigned int row[32], diag, old;

	if (na > 31 || nb > 30)
		return 99;
	for (k = 0; k <= nb; k++)
		row[k] = k;
	for (i = 1; i <= na; i++) {
		diag = row[0];
		row[0] = i;
		for (k = 1; k <= nb; k++) {
			old = row[k];
			row[k] = MIN(MIN(row[k], row[k - 1]) + 1, diag + (a[i - 1] != b[k - 1]));
			diag = old;
		}
	}
	return row[nb];
}

const char *builtin_near(const char *name, int want_calls)
{
	unsigned int best = MIN(3, strlen(name) / 2 + 1), d;
	const char *found = NULL;
	size_t i;

	for (i = 0; want_calls && i < ARRAY_SIZE(calls); i++)
		if ((d = distance(name, calls[i].name)) < best) {
			best = d;
			found = calls[i].name;
		}
	for (i = 0; !want_calls && i < ARRAY_SIZE(names); i++)
		if ((d = distance(name, names[i].name)) < best && names[i].name[0] != '$') {
			best = d;
			found = names[i].name;
		}
	return found;
}

