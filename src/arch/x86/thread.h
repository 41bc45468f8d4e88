/* SPDX-License-Identifier: MIT */
/* Numbers of the registers in struct thread_regs. */
#ifndef JAB_ARCH_X86_THREAD_H
#define JAB_ARCH_X86_THREAD_H

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };
enum { REST_CS, REST_SS, REST_DS, REST_ES, REST_FS, REST_GS, REST_GS_BASE };

#endif
