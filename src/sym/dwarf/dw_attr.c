/* SPDX-License-Identifier: MIT */
/*
 * Attributes of a debugging entry. They may be at the entry itself or at the one it refers to (a declaration, an
 * abstract function); libdw follows these references, up to a limit.
 */
#include "sym/types/types_priv.h"

bool die_at(const struct unit *u, const uint8_t *at, Dwarf_Die *ret_die)
{
	if (at < (const uint8_t *)u->die.addr || at >= u->end)
		return false;
	*ret_die = (Dwarf_Die){ .addr = (void *)at, .cu = u->die.cu };
	return true;
}

static Dwarf_Attribute *attr_of(Dwarf_Die *die, unsigned int name, Dwarf_Attribute *attr)
{
	return dwarf_attr_integrate(die, name, attr);
}

const char *die_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *s = dwarf_formstring(attr_of(die, DW_AT_name, &attr));

	return s && *s ? s : NULL;
}

bool die_flag(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	bool set = false;

	/* DW_AT_declaration of the declaration does not apply to the definition. */
	return dwarf_formflag(name == DW_AT_declaration ? dwarf_attr(die, name, &attr) :
			      attr_of(die, name, &attr), &set) == 0 && set;
}

bool die_number(Dwarf_Die *die, unsigned int name, uint64_t *ret_value)
{
	Dwarf_Attribute attr;
	Dwarf_Sword s;
	Dwarf_Word u;

	if (!attr_of(die, name, &attr))
		return false;
	if (attr.form == DW_FORM_sdata || attr.form == DW_FORM_implicit_const) {
		if (dwarf_formsdata(&attr, &s) != 0)
			return false;
		*ret_value = s;
		return true;
	}
	if (dwarf_formudata(&attr, &u) != 0)
		return false;
	*ret_value = u;
	return true;
}

/*
 * Go emits expressions as blocks, as in DWARF 3, in units of DWARF 4, where libdw does not take a block for an
 * expression. As long as the length is one byte, both have the same encoding.
 */
bool die_place(Dwarf_Die *die, unsigned int name, Dwarf_Attribute *ret_attr)
{
	Dwarf_Block block;

	if (!attr_of(die, name, ret_attr))
		return false;
	if ((ret_attr->form == DW_FORM_block || ret_attr->form == DW_FORM_block1) &&
	    dwarf_formblock(ret_attr, &block) == 0 && block.length < 128)
		ret_attr->form = DW_FORM_exprloc;
	return true;
}

bool die_ref(Dwarf_Die *die, unsigned int name, Dwarf_Die *ret_die)
{
	Dwarf_Attribute attr;
	Dwarf_Die found;

	if (!attr_of(die, name, &attr) || !dwarf_formref_die(&attr, &found))
		return false;
	*ret_die = found;
	return true;
}

const char *die_file(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Files *files;
	Dwarf_Word number;
	const char *file;
	Dwarf_Die cu;
	size_t n;

	if (dwarf_formudata(attr_of(die, name, &attr), &number) != 0 ||
	    dwarf_cu_info(attr.cu, NULL, NULL, &cu, NULL, NULL, NULL, NULL) != 0 ||
	    dwarf_getsrcfiles(&cu, &files, &n) != 0 || number >= n)
		return NULL;
	file = dwarf_filesrc(files, number, NULL, NULL);
	return file && strcmp(file, "???") != 0 ? file : NULL;
}

bool die_first(Dwarf_Die *die, Dwarf_Die *ret_child)
{
	return dwarf_child(die, ret_child) == 0;
}

bool die_next(Dwarf_Die *die)
{
	const void *before = die->addr;

	/* DW_AT_sibling of a damaged entry may point backwards. */
	return dwarf_siblingof(die, die) == 0 && die->addr > before;
}

type_id die_type(struct types *t, Dwarf_Die *die)
{
	Dwarf_Die to;

	return die_ref(die, DW_AT_type, &to) ? type_of_die(t, &to) : TYPE_ID_VOID;
}
