/* SPDX-License-Identifier: MIT */
/* Names that the language knows by itself. */
#ifndef JAB_LANG_BUILTIN_H
#define JAB_LANG_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names for pid(target_ns) and tid(target_ns) that nobody can write otherwise. */
#define NS_PID "pid(target_ns)"
#define NS_TID "tid(target_ns)"

enum builtin {
	B_NONE,
	B_PID, B_TID, B_CPU, B_NSECS, B_ELAPSED, B_DURATION, B_UID, B_GID, B_RAND, B_NCPUS, B_CPID, B_NS_PID, B_NS_TID,	/* numbers */
	B_ERRNO,
	B_PROBETYPE, B_USERMODE, B_HAS_CPID, B_USERNAME,
	B_PPID, B_PCOMM, B_LEADER_COMM, B_CGROUP, B_JIFFIES, B_NUMAID, B_STR_LENGTH,
	B_COMM, B_FUNC, B_PROBE, B_USTACK, B_RETVAL, B_LEFT, B_ARGS,
	B_ARG, B_SARG,			/* with their number behind them */
	B_PARAMS, B_REGS, B_STACK,	/* $params, $regs, $stack of probe lines */
	B_REG,				/* a register, in probe lines */
	B_VECTOR, B_VARG,		/* likewise a vector register, as a float; an argument in one. Value: number << 4 | bytes */
	B_VAR,				/* a variable of the program */
	B_FIELD,			/* of a static tracepoint, by its name */
	B_ENUMERATOR,
	B_CONSTANT,			/* an enumerator of the script */
};

enum call {
	C_NONE,
	C_PRINTF, C_PRINT, C_CLEAR, C_ZERO, C_DELETE, C_HAS_KEY, C_LEN, C_STR, C_BUF, C_USYM, C_REG, C_EXIT,
	C_STRLEN, C_STRNCMP, C_STRCONTAINS, C_STRSTR, C_BSWAP, C_STRFTIME, C_TIME, C_CAT, C_SYSTEM, C_ERRORF, C_WARNF, C_RECORD,
	C_EVERY, C_LIMIT, C_RATE, C_ENABLE, C_DISABLE, C_USTACK, C_UPTR, C_UADDR, C_NSECS, C_PID,
	C_JOIN, C_NTOP, C_PTON, C_MACADDR, C_STRERROR,
	C_IS_ARRAY, C_IS_INTEGER, C_IS_UNSIGNED, C_IS_PTR, C_IS_STR, C_IS_LITERAL, C_STATIC_ASSERT, C_GETOPT,
	C_COMM, C_CGROUP_PATH, C_CGROUPID, C_SIGNAL_NAME, C_SYSCALL_NAME, C_STRCAP, C_MEMCMP, C_ASSERT_STR,
	C_BUILTIN,			/* pid(): the same as pid */
	/* values of maps, in the order of enum ir_map_kind */
	C_COUNT, C_SUM, C_AVG, C_MIN, C_MAX, C_STATS, C_HIST, C_LHIST, C_QUANTILE,
};

struct call_info {
	const char *name;
	uint8_t call;
	uint8_t least, most;	/* arguments */
	const char *usage;
};

enum builtin builtin_find(const char *name, uint32_t *ret_number);
int builtin_numbered(const char *name, const char *word, uint32_t *ret_number);	/* is it the word and a number? */
const struct call_info *call_find(const char *name);

/* Whether it is a name or a function. */
bool builtin_known(const char *name);

/* Known to bpftrace, but not here: the end of a sentence that says so; NULL if it is unknown there too. */
const char *builtin_missing(const char *name);

/* The nearest known name, for "did you mean"; NULL if none is near. */
const char *builtin_near(const char *name, int calls);

#endif
