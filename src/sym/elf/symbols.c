/* SPDX-License-Identifier: MIT */
/*
 * Finds candidates for functions in the symbol tables: functions, ifuncs, and untyped labels (a label counts only
 * if an FDE begins there: hand-written assembly often lacks the type).
 */
#include "sym/priv.h"

#include "base/err.h"

static bool in_plt(const struct sym_priv *p, uint64_t addr)
{
	size_t i;

	for (i = 0; i < p->plt.n; i++)
		if (addr >= p->plt.v[i].lo && addr < p->plt.v[i].hi)
			return true;
	return false;
}

/*
 * Names of symbols that are not functions: cgo gives a whole object's text the name "net(.text)", Go's linker puts
 * its build id into the text.
 */
static bool is_no_function(const char *name, size_t len)
{
	if (len >= 7 && memcmp(name + len - 7, "(.text)", 7) == 0)
		return true;
	return strcmp(name, "go.buildid") == 0 || strcmp(name, "go:buildid") == 0;
}

/* Removes the version: memcpy@@GLIBC_2.14 is memcpy for users. */
static const char *plain_name(struct module *m, const char *name, size_t *len)
{
	const char *at = memchr(name, '@', *len);

	if (is_no_function(name, *len) || at == name)
		return NULL;
	if (!at)
		return name;
	*len = at - name;
	return module_string(m, name, *len);
}

/* foo.cold, foo.cold.3, foo.isra.0.cold */
static bool is_cold_name(const char *name, size_t len)
{
	size_t n = len;

	while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
		n--;
	if (n < len && n && name[n - 1] == '.')
		n--;
	else
		n = len;
	return n > 5 && memcmp(name + n - 5, ".cold", 5) == 0;
}

static uint8_t leading_underscores(const char *s)
{
	uint8_t n = 0;

	if (s[0] == '_' && (s[1] == 'Z' || s[1] == 'R'))
		return 0;
	while (s[n] == '_' && n < UINT8_MAX)
		n++;
	return n;
}

void raw_add(raw_list *list, struct raw_symbol s, size_t len)
{
	s.len = len;
	s.underscores = leading_underscores(s.name);
	s.cold = is_cold_name(s.name, len);
	*vec_add(list) = s;
}

static void collect(struct module *m, const struct symbols *s, uint8_t source, raw_list *list)
{
	size_t i;

	for (i = 1; i < s->n; i++) {
		Elf64_Sym sym = symbols_at(s, i);
		uint8_t type = ELF64_ST_TYPE(sym.st_info);
		const char *name;
		size_t len;

		if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
			continue;
		if (sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS || sym.st_name == 0 ||
		    sym.st_name >= s->strings_len)
			continue;
		if (!in_text(m, sym.st_value) || in_plt(priv(m), sym.st_value))
			continue;
		name = s->strings + sym.st_name;
		len = strnlen(name, MOST_NAME);
		if (len == 0 || len == MOST_NAME)
			continue;
		if (source != FROM_DYNSYM)
			name = plain_name(m, name, &len);
		if (name)
			raw_add(list, (struct raw_symbol){
				.addr = sym.st_value, .size = sym.st_size, .name = name, .source = source,
				.type = type, .local = ELF64_ST_BIND(sym.st_info) == STB_LOCAL,
			}, len);
	}
}

void symbols_collect(struct module *m, raw_list *list)
{
	struct sym_priv *p = priv(m);
	struct symbols full = image_symtab(&p->image, SHT_SYMTAB), dyn = image_dynsym(&p->image);

	collect(m, &full, FROM_SYMTAB, list);
	if (p->extra.image.p) {
		struct symbols s = image_symtab(&p->extra.image, SHT_SYMTAB);

		collect(m, &s, p->extra.source, list);
	}
	collect(m, &dyn, FROM_DYNSYM, list);
	if (m->runtime->own_tables && !full.p)
		go_collect(m, list);
}
