/* SPDX-License-Identifier: MIT */
/*
 * Writing machine code: each line of a generator is one instruction, its bytes on the left and its text in a
 * comment on the right. The pointer advances with each byte that is put.
 */
#ifndef JAB_ARCH_X86_ASSEMBLE_H
#define JAB_ARCH_X86_ASSEMBLE_H

#include <assert.h>
#include <stdbool.h>
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

/*
 * rcx = the index into a table by CPU (CPU_TABLE_FEW, CPU_TABLE_MANY), from the CPU number at cpu_off from the
 * thread pointer
 */
static inline void put_cpu(uint8_t **p, int32_t cpu_off, bool many)
{
	put(p, 0x64, 0x0f, many ? 0xb7 : 0xb6, 0x0c, 0x25);	/* movzbl or movzwl %fs:cpu_id,%ecx */
	put32(p, cpu_off);
}

#define BRANCHES_MOST 6

/* Short branches to one address that comes later: the end of each of them. */
struct branches { uint8_t *v[BRANCHES_MOST]; int n; };

static inline void put_branch(uint8_t **p, uint8_t opcode, struct branches *b)
{
	assert(b->n < BRANCHES_MOST);
	put(p, opcode, 0);
	b->v[b->n++] = *p;
}

static inline void land_branches(const struct branches *b, const uint8_t *target)
{
	for (int i = 0; i < b->n; i++) {
		assert(target - b->v[i] < 128);
		b->v[i][-1] = target - b->v[i];
	}
}

#endif
