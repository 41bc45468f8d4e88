/* SPDX-License-Identifier: MIT */
/* A node in a library's data, and one of zeros that is filled in. */
#include "chain.h"

static struct node zeros;
static struct node data = { &zeros, 5001 };

struct node *LIB(void);

struct node *LIB(void)
{
	zeros = (struct node){ &data, 5002 };
	data.value++;		/* the page is the program's own now */
	return &data;
}
