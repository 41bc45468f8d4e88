/* SPDX-License-Identifier: MIT */
/* The code of a site in a pad: that of its row (shapes.c, units.c), and around it what tail calls need (tails.c). */
#include "session/events/shapes.h"

#include <string.h>
#include "session/calls/tails.h"

size_t shape_body(const struct jab *j, const struct site *s)
{
	return shape_own_body(j, s) + tails_room(j, s) + (s->early ? count_body(j->arch) : 0);
}

/* Calls that end here although they go on. */
static int emit_early(const struct jab *j, const struct target *t, const struct site *s, uint64_t at, uint8_t *out)
{
	struct count_spec spec = t->spec;

	if (!s->early || !tails_ends_early(j, s))
		return 0;
	spec.index = j->counters.v[s->early - 1].index;
	spec.shared = counter_shared_at(t, spec.index);
	return j->arch->emit_count(out, at, &spec);
}

void shape_fill(const struct arch *arch, uint8_t *out, uint64_t at, size_t used, size_t size)
{
	if (used + arch->jumps->len <= size)	/* the shorter form: jump over what is left */
		arch->jump(out + used, at + used, at + size);
	else
		arch->jumps->fill(out + used, size - used);
}

int shape_emit(struct jab *j, struct target *t, const struct want *w, uint64_t at, uint8_t *out)
{
	struct want own = *w;
	struct tails_code code;
	int n;

	if (!tails_emit(j, t, w, out, &code))
		return code.before;
	code.before += emit_early(j, main_part(j, t), &j->sites.v[w->id], at + code.before, out + code.before);
	own.body -= code.before + code.after;
	n = shape_emit_own(j, t, &own, at + code.before, out + code.before);
	if (n < 0 || !code.after)
		return n < 0 ? n : (int)code.before + n;
	shape_fill(j->arch, out + code.before, at + code.before, n, own.body);
	j->arch->jump(out + w->body - code.after, at + w->body - code.after, at);
	return w->body;
}
