/* SPDX-License-Identifier: MIT */
/* Calling conventions: where arguments and results are, and which registers a call keeps. */
#ifndef JAB_ARCH_CALL_H
#define JAB_ARCH_CALL_H

#include <stdint.h>

#define NO_REG 0xff

/* How structs are passed. */
enum call_rules {
	CALL_BY_CLASS,		/* System V: up to 16 bytes by what each half of 8 bytes holds (sym/types/types_abi.c) */
	CALL_BY_SCALAR,		/* only numbers and pointers are known to be in registers */
};

struct call_abi {
	uint8_t args[16], nargs;	/* general registers of arguments; further arguments are on the stack */
	uint8_t rets[16], nrets;	/* and of results */
	uint8_t float_args, float_rets;	/* so many vector registers, from the first one on */
	uint8_t result_at;		/* register that has the address of a result in memory at the return, NO_REG: none; */
	uint8_t result_to;		/* and at the entry, NO_REG: it is the first argument */
	uint8_t pushes;			/* bytes of a return address that a call pushes: on the stack arguments begin there */
	uint8_t link;			/* register of the return address at the entry, if nothing is pushed */
	uint8_t kept[16], nkept;	/* registers that a function gives back as they were, besides the stack pointer */
	uint8_t rules;			/* enum call_rules */
};

#endif
