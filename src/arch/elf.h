/* SPDX-License-Identifier: MIT */
/* What the ABI of a CPU adds to ELF: types of relocations, and where thread-local storage is. */
#ifndef JAB_ARCH_ELF_H
#define JAB_ARCH_ELF_H

#include <stdint.h>

struct elf_abi {
	uint32_t relative, irelative, absolute, glob_dat, jump_slot;	/* types of relocations of whole words */
	uint32_t tls_offset;	/* that of an offset from the thread pointer */
	uint8_t tls_head;	/* 0: a program's TLS block ends at the thread pointer; else it begins this many bytes after the thread pointer */
};

#endif
