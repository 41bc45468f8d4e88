/* SPDX-License-Identifier: MIT */
/*
 * Writing machine code by hand: each line of a generator is one instruction, its bytes on the
 * left and its text in a comment on the right. The pointer moves on as bytes are put.
 */
#ifndef JAB_ARCH_X86_ASSEMBLE_H
#define JAB_ARCH_X86_ASSEMBLE_H

#include <stdint.h>
#include <string.h>

#define put(p, ...) put_bytes(p, (const uint8_t[]){ __VA_ARGS__ }, \
			      sizeof((const uint8_t[]){ __VA_ARGS__ }))

static inline void put_bytes(uint8_t **p, const uint8_t *bytes, size_t len)
{
	memcpy(*p, bytes, len);
	*p += len;
}

static inline void put32(uint8_t **p, uint32_t v)
{
	memcpy(*p, &v, sizeof(v));
	*p += sizeof(v);
}

static inline void put64(uint8_t **p, uint64_t v)
{
	memcpy(*p, &v, sizeof(v));
	*p += sizeof(v);
}

#endif
