/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder only. */
#ifndef JAB_SYM_USDTS_H
#define JAB_SYM_USDTS_H

#include "sym/usdt/usdt.h"

struct usdts {
	VEC(struct usdt) list;
	const char *damage;
	VEC(void *) made;	/* arguments and their locations, fields, types */
	VEC(struct usdt_type *) types;
};

#define USDT_NOTES_MAX 1000000u
#define USDT_TYPES_MAX 10000u

struct usdts *usdts_of(struct module *m);

/* fields.c */
void usdt_take_fields(struct module *m, struct usdts *list);
void usdt_check_fields(struct usdt *u);	/* those that don't fit the arguments are dropped */

#endif
