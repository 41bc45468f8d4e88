/* SPDX-License-Identifier: MIT */
/*
 * Two address spaces that must never be mixed up. A taddr is an address in a live target: it can't
 * be dereferenced or handed to memcpy by mistake. Addresses inside a module's file ("link
 * addresses": what the symbol table says) are plain uint64_t; live = link + bias.
 */
#ifndef JAB_BASE_ADDR_H
#define JAB_BASE_ADDR_H

#include <stdint.h>

typedef struct { uint64_t v; } taddr;

#define TADDR(x) ((taddr){ (uint64_t)(x) })

/*
 * Stands where the address of a failed read stands, for a return value that was asked for at a jump to
 * another function: it is not known before that one returns. No read of it can succeed. "tailcall" in memory.
 */
#define ADDR_TAIL_CALL 0x6c6c61636c696174ull

/* The same for a parameter that the function did not keep, when no known caller has called. "not kept". */
#define ADDR_NOT_KEPT 0x7470656b20746f6eull

/* The same for the return value of a function that returns nothing. "noresult". */
#define ADDR_NO_RESULT 0x746c757365726f6eull

/* The same for the return value of a call that was left by an exception or by longjmp. "no frame". */
#define ADDR_NO_FRAME 0x656d617266206f6eull

#endif
