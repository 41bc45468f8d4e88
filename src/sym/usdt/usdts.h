/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder only. */
#ifndef JAB_SYM_USDTS_H
#define JAB_SYM_USDTS_H

#include "sym/usdt/usdt.h"

struct usdts {
	VEC(struct usdt) list;
	const char *damage;
	VEC(void *) made;	/* arguments and their locations */
};

struct usdts *usdts_of(struct module *m);

#endif
