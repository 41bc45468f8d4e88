/* SPDX-License-Identifier: MIT */
/* What chain.c and its libraries share. */
#ifndef CHAIN_H
#define CHAIN_H

struct node { struct node *next; long value; };

#endif
