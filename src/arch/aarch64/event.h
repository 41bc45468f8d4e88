/* SPDX-License-Identifier: MIT */
/*
 * The frame of event code, and the registers between it and the routines that it calls. Below the site's stack pointer there is no red
 * zone; the frame is all that is taken, less than STACK_UNASKED.
 */
#ifndef JAB_ARCH_AARCH64_EVENT_H
#define JAB_ARCH_AARCH64_EVENT_H

#include "arch/aarch64/encode.h"

/* Offsets from sp: x0 to x3, x8 to x11, x16, x17 and x30, the flags, and pid and tid of the ring's owner in 4 bytes each. */
enum { SAVED_LINK = 80, SAVED_FLAGS = 88, SAVED_PID = 96, SAVED_TID = 100, FRAME = 112 };

enum {
	HEAD = 2,		/* x2: the ring's head when the lock was taken */
	EVENT = 3,		/* x3: address of the event */
	RING = 9,		/* x9: the ring; 0: none */
	PID = 10, TID = 11,	/* w10, w11: out of the first routine */
};

#endif
