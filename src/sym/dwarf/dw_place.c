/* SPDX-License-Identifier: MIT */
/* Where a variable is at an address: which of its location expressions is valid there, or its constant value. */
#include "sym/types/types_priv.h"

struct loc loc_gone(const char *why)
{
	static const struct loc_piece gone = { .kind = LOC_GONE };

	return (struct loc){ .pieces = &gone, .n = 1, .why = why };
}

struct loc loc_one(struct types *t, struct loc_piece p)
{
	struct loc_piece *piece = types_alloc(t, sizeof(p));

	*piece = p;
	return (struct loc){ .pieces = piece, .n = 1 };
}

static struct loc constant(struct types *t, Dwarf_Die *var, uint64_t size)
{
	Dwarf_Attribute attr;
	Dwarf_Block block;
	const char *text;
	uint64_t v;

	if (!dwarf_attr_integrate(var, DW_AT_const_value, &attr))
		return loc_gone("the compiler kept no place for it");
	if (die_number(var, DW_AT_const_value, &v))
		return loc_one(t, (struct loc_piece){ .kind = LOC_CONST, .size = size, .off = v });
	if (dwarf_formblock(&attr, &block) == 0)
		return loc_one(t, (struct loc_piece){ .kind = LOC_BYTES, .size = MIN(block.length, size), .bytes = block.data });
	text = dwarf_formstring(&attr);
	if (text)
		return loc_one(t, (struct loc_piece){ .kind = LOC_BYTES, .size = MIN(strlen(text) + 1, size),
						      .bytes = (const uint8_t *)text });
	return loc_gone("its value is described in a way that is not supported");
}

static bool is_listed(Dwarf_Attribute *attr)
{
	unsigned int form = dwarf_whatform(attr);

	return form == DW_FORM_sec_offset || form == DW_FORM_loclistx || form == DW_FORM_data4 || form == DW_FORM_data8;
}

/*
 * Several entries may cover one address: the machine has one state there, but the debug info follows the program
 * through steps that have no instruction. Empty ranges are such steps. At the function's entry the first entry
 * counts, before anything is assigned; elsewhere an empty range counts only if there is no other.
 */
static int location_at(Dwarf_Attribute *attr, uint64_t pc, bool first, Dwarf_Op **ops, size_t *n)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;
	int r = first ? 0 : dwarf_getlocation_addr(attr, pc, ops, n, 1);

	while (r == 0 && (at = dwarf_getlocations(attr, at, &base, &lo, &hi, ops, n)) > 0)
		if ((lo == pc && hi == pc) || (first && pc - lo < hi - lo))
			return 1;
	return r == 0 && at < 0 ? -1 : r;
}

struct loc dw_location(struct types *t, Dwarf_Die *var, Dwarf_Die *func, uint64_t pc, uint64_t size, bool *ret_listed)
{
	struct dw_context c = { .func = func, .pc = pc, .size = size };
	Dwarf_Attribute attr;
	uint64_t entry;
	Dwarf_Op *ops;
	size_t n;
	int r;

	*ret_listed = false;
	if (!die_place(var, DW_AT_location, &attr))
		return constant(t, var, size);
	*ret_listed = is_listed(&attr);
	c.at_entry = func && dw_entry_pc(func, &entry) && entry == pc;
	r = location_at(&attr, pc, c.at_entry, &ops, &n);
	if (r < 0)
		return loc_gone("its debug info is damaged");
	if (r == 0 || n == 0)
		return loc_gone("it is optimised away at this address");
	return dw_evaluate(t, &c, &attr, ops, n);
}

bool dw_is_indirect(Dwarf_Die *var)
{
	Dwarf_Attribute attr;
	Dwarf_Addr base, lo, hi;
	Dwarf_Op *ops;
	size_t n;

	if (!die_place(var, DW_AT_location, &attr) ||
	    dwarf_getlocations(&attr, 0, &base, &lo, &hi, &ops, &n) <= 0 || !n)
		return false;
	if (!is_listed(&attr))
		return n >= 2 && ops[n - 1].atom == DW_OP_deref;
	return n == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31 && ops[0].number == 0;
}
