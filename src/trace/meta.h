/* SPDX-License-Identifier: MIT */
/* The parsed metadata of a trace that jab has written. */
#ifndef JAB_TRACE_META_H
#define JAB_TRACE_META_H

#include "trace/layout.h"

struct env_entry { char *key, *value; };

struct meta {
	uint8_t uuid[16];
	bool has_uuid;
	struct tsc_clock clock;
	VEC(struct env_entry) env;
	VEC(struct ctf_class *) classes;	/* by id; unused ids are NULL */
	struct ctf_class *own[CTF_OWN_CLASSES];	/* from CTF_MODULE_ID on */
};

/* The caller frees with meta_free(), also after a failure. */
int meta_parse(struct meta *m, const char *text, size_t len);
void meta_free(struct meta *m);
const struct ctf_class *meta_class(const struct meta *m, uint32_t id);
const char *meta_env(const struct meta *m, const char *key);

#endif
