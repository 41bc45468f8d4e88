/* SPDX-License-Identifier: MIT */
/* Random scripts around random expressions. The C text that comes along is thrown away. */
#ifndef JAB_FUZZ_SCRIPT_MAKE_H
#define JAB_FUZZ_SCRIPT_MAKE_H

#include "expr_make.h"

#define SCRIPT_CLAUSES 3		/* at most, beside BEGIN */

static inline void statements(struct gen *g, int depth);

static inline void number(struct gen *g)
{
	g->left = below(4);
	gen_int(g);
}

static inline void key(struct gen *g)
{
	number(g);
	put_ours(g, " & %u", 1 + below(7));
}

static inline void text(struct gen *g)
{
	static const char *const some[] = {
		"\"abc\"", "\"\"", "\"a longer text than some\"", "@name", "comm", "@pair[1, \"abc\"].1", "str(q)", "str(q)",
		"(vc > 0 ? str(q) : \"abc\")", "str(p->bytes)", "$s", "$t.1",
	};
	uint32_t n = ARRAY_SIZE(some) - (g->nvars ? 0 : 2);	/* a condition has no variables */

	if (below(4))
		put_ours(g, "%s", some[below(n)]);
	else
		put_ours(g, below(2) ? "str(q + %u)" : "str(q, %u)", below(20));
}

/* Numbers that come from text and maps. */
static inline void asked(struct gen *g)
{
	static const char *const maps[] = { "@n", "@k[vb & 3]", "@words[str(q)]", "@pair[2, \"abc\"].0", "len(@k)", "len(@words)", "@max", "@min",
					    "@count", "@counts[1]", "@sum[\"abc\"]", "@avg", "((uint8[8])vd)[vb & 7]", "((int16[4])p->u64)[vb & 3]",
					    "bswap((uint32)vd)", "bswap((uint16)vc)", "str(q)[vb & 3]", "@obj.s", "@objs[va & 1].u", "@floats",
					    "(p->bytes == p->next->bytes)", "(p->arr != p->next->arr)", "($t == (1, \"t\", 2))", "$o.s",
					    "(int64)$d", "$t.0", "$t.2" };

	switch (below(8)) {
	case 0:
		put_ours(g, "(");
		text(g);
		put_ours(g, below(2) ? " == " : " != ");
		text(g);
		put_ours(g, ")");
		break;
	case 1:
		put_ours(g, "strlen(");
		text(g);
		put_ours(g, ")");
		break;
	case 2:
		put_ours(g, "strncmp(");
		text(g);
		put_ours(g, ", ");
		text(g);
		put_ours(g, ", %u)", 1 + below(9));
		break;
	case 3:
		put_ours(g, "strcontains(");
		text(g);
		put_ours(g, ", \"%s\")", below(2) ? "ab" : "b");
		break;
	case 4:
		put_ours(g, "has_key(@k, ");
		key(g);
		put_ours(g, ")");
		break;
	case 5:
		put_ours(g, "has_key(@words, ");
		text(g);
		put_ours(g, ")");
		break;
	default:
		put_ours(g, "%s", maps[below(ARRAY_SIZE(maps) - (g->nvars ? 0 : 5))]);
	}
}

static inline void value(struct gen *g)
{
	static const char *const ops[] = { " + ", " - ", " * ", " / ", " % ", " & ", " < ", " == ", " && ", " || ", " >> " };

	if (below(2)) {
		number(g);
		return;
	}
	put_ours(g, "(");
	asked(g);
	put_ours(g, "%s", ops[below(ARRAY_SIZE(ops))]);
	if (below(2))
		asked(g);
	else
		number(g);
	put_ours(g, ")");
}

static inline void aggregate(struct gen *g)
{
	static const char *const single[] = { "@sum1 = sum", "@avg = avg", "@min = min", "@max = max", "@hist = hist", "@stats = stats" };
	static const char *const keyed[] = { "sums", "avgs", "mins", "maxs", "hists", "statss" };
	static const char *const calls[] = { "sum", "avg", "min", "max", "hist", "stats" };
	uint32_t n = below(6);

	switch (below(6)) {
	case 0: put_ours(g, "@count = count(); "); return;
	case 1:
		put_ours(g, "@counts[");
		key(g);
		put_ours(g, "] = count(); ");
		return;
	case 2:
		put_ours(g, "@sum[");
		text(g);
		put_ours(g, "] = sum(");
		break;
	case 3:
		put_ours(g, "@lin = lhist(");
		value(g);
		put_ours(g, ", -10, 100, 7); ");
		return;
	case 4:
		put_ours(g, "%s(", single[n]);
		break;
	default:
		put_ours(g, "@%s[", keyed[n]);
		key(g);
		put_ours(g, "] = %s(", calls[n]);
	}
	value(g);
	put_ours(g, "); ");
}

/* A number: a map that holds those can't be given a boolean. */
static inline void plain_value(struct gen *g)
{
	put_ours(g, "0 + (");
	value(g);
	put_ours(g, ")");
}

static inline void store(struct gen *g)
{
	switch (below(10)) {
	case 0: put_ours(g, "@n = "); plain_value(g); break;
	case 1: put_ours(g, below(2) ? "@n++" : "--@n"); break;
	case 2: put_ours(g, "@n += "); value(g); break;
	case 3: put_ours(g, "@k["); key(g); put_ours(g, "] = "); plain_value(g); break;
	case 4: put_ours(g, "@k["); key(g); put_ours(g, below(2) ? "]++" : "] -= 3"); break;
	case 5: put_ours(g, "@words["); text(g); put_ours(g, "] = "); plain_value(g); break;
	case 6: put_ours(g, "@words["); text(g); put_ours(g, "]++"); break;
	case 7: put_ours(g, "@name = "); text(g); break;
	case 8:
		put_ours(g, "@pair[");
		key(g);
		put_ours(g, ", ");
		text(g);
		put_ours(g, "] = (0 + ");
		value(g);
		put_ours(g, ", ");
		text(g);
		put_ours(g, ")");
		break;
	default:
		put_ours(g, below(2) ? "delete(@k, " : "delete(@counts, ");
		key(g);
		put_ours(g, ")");
	}
	put_ours(g, "; ");
}

static inline void keep_local(struct gen *g)
{
	switch (below(6)) {
	case 0: put_ours(g, "$s = "); text(g); break;
	case 4: put_ours(g, "$o = p->ins[vb & 1]"); break;
	case 5: put_ours(g, "$d = x * 2.0 + "); number(g); break;
	case 1:
		put_ours(g, "$t = (0 + ");
		value(g);
		put_ours(g, ", ");
		text(g);
		put_ours(g, ", 0 + ");
		number(g);
		put_ours(g, ")");
		break;
	case 2: put_ours(g, "$v0 += "); value(g); break;
	default: put_ours(g, "$v0 = 0 + "); value(g);
	}
	put_ours(g, "; ");
}

static inline void show_it(struct gen *g)
{
	switch (below(4)) {
	case 0:
		put_ours(g, "printf(\"%%d %%s %%x\\n\", ");
		value(g);
		put_ours(g, ", ");
		text(g);
		put_ours(g, ", ");
		number(g);
		put_ours(g, ")");
		break;
	case 1: put_ours(g, "print(("); value(g); put_ours(g, ", "); text(g); put_ours(g, "))"); break;
	case 2: put_ours(g, "record(a = "); text(g); put_ours(g, ", b = "); value(g); put_ours(g, ")"); break;
	default: put_ours(g, "print("); text(g); put_ours(g, ")");
	}
	put_ours(g, "; ");
}

static inline void branch_or_loop(struct gen *g, int depth)
{
	uint32_t how = below(5);

	if (how == 0) {
		put_ours(g, "$i%d = 0; while ($i%d < %u) { $i%d++; ", depth, depth, 1 + below(4), depth);
	} else if (how == 1) {
		put_ours(g, "unroll(%u) { ", 1 + below(3));
	} else if (how == 2) {
		put_ours(g, "for ($f%d : %u..%u) { ", depth, below(3), below(5));
	} else {
		put_ours(g, "if (");
		value(g);
		put_ours(g, ") { ");
	}
	statements(g, depth + 1);
	if (how > 2 && below(2)) {
		put_ours(g, "} else { ");
		statements(g, depth + 1);
	}
	if (how != 1 && how < 3 && below(3) == 0) {
		put_ours(g, "if (");
		value(g);
		put_ours(g, ") { %s } ", below(2) ? "break" : "continue");
	}
	put_ours(g, "} ");
}

static inline void statements(struct gen *g, int depth)
{
	for (int n = 1 + below(depth ? 2 : 4); n; n--) {
		g->npieces = below(4) ? g->npieces : 0;
		switch (below(depth < 2 ? 9 : 7)) {
		case 0: case 1: aggregate(g); break;
		case 2: case 3: case 4: store(g); break;
		case 5: keep_local(g); break;
		case 6: show_it(g); break;
		default: branch_or_loop(g, depth);
		}
	}
}

/* All maps are named once with the types that they have, where no number of the key and value can be wrong. */
static inline void make_script(struct gen *g)
{
	static const char *const conditions[] = { "/every(3)/ ", "/limit(5)/ ", "", "" };

	put_ours(g, "config = { max_map_keys = 12 } BEGIN { @n = 0; @k[0] = 0; @words[\"\"] = 0; @name = \"\"; @pair[0, \"\"] = (0, \"\"); "
		    "@count = count(); @counts[0] = count(); @sum[\"\"] = sum(1); @avg = avg(1); @min = min(1); @max = max(1); } ");
	for (int n = 1 + below(SCRIPT_CLAUSES); n; n--) {
		*g = (struct gen){ .ours = g->ours, .c = g->c };
		put_ours(g, below(4) ? "u:exe:world " : "call:exe:world ");
		if (below(3) == 0) {
			put_ours(g, "/ (");
			value(g);
			put_ours(g, ") / ");
		} else {
			put_ours(g, "%s", conditions[below(4)]);
		}
		put_ours(g, "{ $v0 = 0 + vd; $s = \"start\"; $t = (1, \"t\", 2); $o = p->in; $d = y; ");
		put_ours(g, "if (vb & 1) { @obj = p->in; @objs[va & 1] = p->ins[1]; @floats = sum((int64)x); } ");
		g->nvars = 1;
		g->npieces = 0;
		statements(g, 0);
		put_ours(g, "} ");
	}
}

#endif
