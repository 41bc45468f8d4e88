/* SPDX-License-Identifier: MIT */
/*
 * Code with which a borrowed thread makes a table of system calls, until one has another result than the one wanted. It writes an answer and
 * then sleeps on a futex as long as that has a certain value; afterwards it goes home. See proc/borrow/batch.c.
 */
#ifndef JAB_ARCH_BATCH_H
#define JAB_ARCH_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "arch/thread.h"

struct batch_call {
	uint64_t nr, args[6];
	uint64_t want;		/* the only result with which the next call is made */
};

struct batch_answer {
	uint64_t done;		/* 1: the rest is true */
	uint64_t left;		/* calls that were not made or not as wanted */
	int64_t value;		/* of the last one */
};

struct batch_start {
	uint64_t code;		/* address of the code, */
	uint64_t table;		/* of the struct batch_call to begin with, */
	uint64_t calls;		/* (so many follow) */
	uint64_t answer;	/* of the struct batch_answer, */
	uint64_t futex;		/* of the futex, */
	uint64_t home;		/* of the code to go on with in the end */
	uint32_t asleep;	/* the futex's value up to then */
};

#define BATCH_CODE_MAX 120

struct batch_code {
	const uint8_t *bytes;	/* may be at any address */
	size_t len;		/* at most BATCH_CODE_MAX */
	size_t over;		/* from this offset on no call of the table is made any more */
	void (*start)(struct thread_regs *r, const struct batch_start *s);	/* the stack pointer is the caller's */
	uint64_t (*left)(const struct thread_regs *r);	/* while pc is in the code: calls that were not made as wanted */
};

#endif
