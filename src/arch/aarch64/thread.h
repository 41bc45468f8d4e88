/* SPDX-License-Identifier: MIT */
#ifndef JAB_ARCH_AARCH64_THREAD_H
#define JAB_ARCH_AARCH64_THREAD_H

/* In struct thread_regs.rest: */
enum { REST_X0 };		/* what x0 was before the call whose result is in it now */

#endif
