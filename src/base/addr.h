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

#endif
