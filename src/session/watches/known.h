/* SPDX-License-Identifier: MIT */
#ifndef JAB_SESSION_KNOWN_H
#define JAB_SESSION_KNOWN_H

#include "session/session.h"

/* The known memory of a target (arch/known.h). NULL in target.known: nothing of it follows pointers, or the CPU's table lacks it. */
struct known_view {
	uint64_t at;		/* struct known; 0: not there yet */
	uint32_t ncpus;
	const char *why;	/* no range is added (any more), because of this; NULL: none */
	bool ready, registered, said;
	uint64_t next;		/* when it is looked at again */
	uint64_t wait, added_at;	/* between two additions; the last one */
	uint64_t asked, loaded;	/* reads that had not found their range at the last addition, and those that had */
	uint64_t loads, others;	/* as last seen */
	uint32_t added, cuts;
};

void known_plan(struct jab *j, struct target *t);	/* before the watches are found */
uint8_t known_unmaps(const struct target *t, uint32_t nr);	/* for struct watch.unmaps */
uint8_t known_forbids(const struct target *t, uint32_t nr);
void known_refuse(struct target *t, const char *why);
size_t known_body(const struct target *t, uint8_t abi, uint8_t *out);

size_t known_size(const struct target *t);
void known_take(struct target *t, uint64_t at);
uint64_t known_at(const struct target *t);
uint32_t known_cpus(const struct target *t);
void known_init(struct target *t);			/* before the first pad is reached */
void known_look_after(struct target *t);		/* now and then: adds what is read often */
void known_count(struct target *t);			/* before its memory goes */
void known_say(struct target *t);			/* at the end */
/* Watches go, or have gone: nothing is read by plain loads any more, whatever code is left. why: why it stays so, or NULL. */
void known_drop(struct target *t, const char *why);
void known_free(struct target *t);

#endif
