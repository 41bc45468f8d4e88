/* SPDX-License-Identifier: MIT */
/* Probes with handles. */
#include "api/api.h"

#include <stdlib.h>

/* A probe with a handle can be switched, and so is made a clause where it can be one. */
static int add_probe(struct jab *j, const char *spec, struct jab_probe **ret_probe)
{
	bool running = j->handle->stage == STAGE_RUNNING;
	uint32_t had = j->probes.n;
	struct jab_probe *p;
	int r;

	r = running ? session_add_running(j, spec) : session_add_probe(j, spec, ret_probe);
	if (r < 0 || !ret_probe)
		return r;
	p = *vec_add(&j->handle->probes) = *ret_probe = xcalloc(1, sizeof(*p));
	*p = (struct jab_probe){ j, had, j->probes.n - had };
	return 0;
}

int jab_add_probe(struct jab *j, const char *spec, struct jab_probe **ret_probe)
{
	return API_CALL(j, STAGE_OPEN | STAGE_RUNNING, add_probe(j, spec, ret_probe));
}

static int switch_all(struct jab_probe *p, bool on)
{
	int r = 0;

	for (uint32_t i = p->first; !r && i < p->first + p->n; i++)
		r = session_switch(p->j, i, on);
	return r;
}

int jab_probe_enable(struct jab_probe *p)
{
	return API_CALL(p->j, STAGE_ANY, switch_all(p, true));
}

int jab_probe_disable(struct jab_probe *p)
{
	return API_CALL(p->j, STAGE_ANY, switch_all(p, false));
}

static int take_out(struct jab_probe *p)
{
	struct handle *h = p->j->handle;
	int r = 0;

	for (uint32_t i = p->first; !r && i < p->first + p->n; i++)
		r = session_take_out(p->j, i);
	for (size_t i = 0; !r && i < h->probes.n; i++)
		if (h->probes.v[i] == p) {
			h->probes.v[i] = h->probes.v[--h->probes.n];
			free(p);
			break;
		}
	return r;
}

int jab_probe_remove(struct jab_probe *p)
{
	struct jab *j = p->j;

	return API_CALL(j, STAGE_ANY, take_out(p));
}

struct hits { const struct jab_probe *p; uint32_t i; uint64_t n; };

static int add_hits(void *arg, const struct jab_probe_info *info)
{
	struct hits *h = arg;

	if (h->i >= h->p->first && h->i < h->p->first + h->p->n)
		h->n += info->hits;
	h->i++;
	return 0;
}

int64_t jab_probe_hits(const struct jab_probe *p)
{
	struct hits h = { p, 0, 0 };
	int r = API_CALL(p->j, STAGE_ANY, session_each_probe(p->j, add_hits, &h));

	return r < 0 ? r : (int64_t)h.n;
}
