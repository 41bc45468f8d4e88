/* SPDX-License-Identifier: MIT */
/* The kernel's side of restartable sequences, as far as generated code touches it. */
#ifndef JAB_ARCH_RSEQ_H
#define JAB_ARCH_RSEQ_H

#include <stdint.h>

/* offsets in the kernel's struct rseq */
#define RSEQ_CPU_ID 4
#define RSEQ_CS 8

/* What the kernel reads when it finds a thread with rseq_cs set. */
struct rseq_descriptor {
	uint32_t version;
	uint32_t flags;
	uint64_t start_ip;
	uint64_t post_commit_offset;
	uint64_t abort_ip;
};

#define RSEQ_DESCRIPTOR_ALIGN 32
_Static_assert(sizeof(struct rseq_descriptor) == 32, "layout is the kernel's");

#endif
