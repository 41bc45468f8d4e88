/* SPDX-License-Identifier: MIT */
/*
 * Two address spaces that must never be mixed up. A taddr is an address in a live target: its type keeps it from
 * being dereferenced or passed to memcpy by mistake. Addresses inside a module's file ("link addresses", as in the
 * symbol table) are plain uint64_t; live = link + bias.
 */
#ifndef JAB_BASE_ADDR_H
#define JAB_BASE_ADDR_H

#include <stdint.h>

typedef struct { uint64_t v; } taddr;

#define TADDR(x) ((taddr){ (uint64_t)(x) })

/*
 * Takes the place of the address of a failed read, for a return value that was asked for at a jump to another
 * function (tail call): it is not known before that function returns. No read of this address can succeed.
 * "tailcall" in memory.
 */
#define ADDR_TAIL_CALL 0x6c6c61636c696174ull

/*
 * Takes the place of the address of a failed read, for a parameter that the function did not keep, if the call came
 * from no known caller. "not kept".
 */
#define ADDR_NOT_KEPT 0x7470656b20746f6eull

/* Takes the place of the address of a failed read, for the return value of a function that returns nothing. "noresult". */
#define ADDR_NO_RESULT 0x746c757365726f6eull

/* Takes the place of the address of a failed read, for the return value of a call left by an exception or longjmp. "no frame". */
#define ADDR_NO_FRAME 0x656d617266206f6eull

#endif
