/* SPDX-License-Identifier: MIT */
/*
 * Parts of the metadata text. Every type that a field may have gets a short alias at the top, so that an event
 * class stays small (it should fit a page, see metadata.c) and jab's own reader can look up words instead of
 * parsing types. All aliases are 64-aligned: so a 32-bit number in an 8-byte slot is read correctly, the rest being
 * padding. Elements of arrays have no padding: their words begin with a p. An alias must not be a word that the
 * fields of headers and contexts use.
 */
#include <ctype.h>
#include <stdio.h>

#include "trace/layout.h"

static const struct alias {
	const char *word;
	struct ctf_field type;
} aliases[] = {
	{ "i8_t", { .kind = CTF_SIGNED, .bits = 8, .base = 10 } },
	{ "i16_t", { .kind = CTF_SIGNED, .bits = 16, .base = 10 } },
	{ "i32_t", { .kind = CTF_SIGNED, .bits = 32, .base = 10 } },
	{ "i64_t", { .kind = CTF_SIGNED, .bits = 64, .base = 10 } },
	{ "ix8_t", { .kind = CTF_SIGNED, .bits = 8, .base = 16 } },
	{ "ix16_t", { .kind = CTF_SIGNED, .bits = 16, .base = 16 } },
	{ "ix32_t", { .kind = CTF_SIGNED, .bits = 32, .base = 16 } },
	{ "ix64_t", { .kind = CTF_SIGNED, .bits = 64, .base = 16 } },
	{ "io8_t", { .kind = CTF_SIGNED, .bits = 8, .base = 8 } },
	{ "io16_t", { .kind = CTF_SIGNED, .bits = 16, .base = 8 } },
	{ "io32_t", { .kind = CTF_SIGNED, .bits = 32, .base = 8 } },
	{ "io64_t", { .kind = CTF_SIGNED, .bits = 64, .base = 8 } },
	{ "u8_t", { .kind = CTF_UNSIGNED, .bits = 8, .base = 10 } },
	{ "u16_t", { .kind = CTF_UNSIGNED, .bits = 16, .base = 10 } },
	{ "u32_t", { .kind = CTF_UNSIGNED, .bits = 32, .base = 10 } },
	{ "u64_t", { .kind = CTF_UNSIGNED, .bits = 64, .base = 10 } },
	{ "x8_t", { .kind = CTF_UNSIGNED, .bits = 8, .base = 16 } },
	{ "x16_t", { .kind = CTF_UNSIGNED, .bits = 16, .base = 16 } },
	{ "x32_t", { .kind = CTF_UNSIGNED, .bits = 32, .base = 16 } },
	{ "x64_t", { .kind = CTF_UNSIGNED, .bits = 64, .base = 16 } },
	{ "o8_t", { .kind = CTF_UNSIGNED, .bits = 8, .base = 8 } },
	{ "o16_t", { .kind = CTF_UNSIGNED, .bits = 16, .base = 8 } },
	{ "o32_t", { .kind = CTF_UNSIGNED, .bits = 32, .base = 8 } },
	{ "o64_t", { .kind = CTF_UNSIGNED, .bits = 64, .base = 8 } },
	{ "ptr_t", { .kind = CTF_POINTER, .bits = 64, .base = 16 } },
	{ "f32_t", { .kind = CTF_FLOAT, .bits = 32 } },
	{ "f64_t", { .kind = CTF_FLOAT, .bits = 64 } },
	{ "text_t", { .kind = CTF_STRING } },
	{ "byte_t", { .kind = CTF_BYTES } },
	{ "addr_t", { .kind = CTF_ADDRS } },
};

/* Prints the alias of a number, 64-aligned or packed. */
static void print_number(FILE *f, const struct alias *a, bool packed)
{
	const struct ctf_field *t = &a->type;

	if (t->kind == CTF_FLOAT)
		fprintf(f, "typealias floating_point { exp_dig = %d; mant_dig = %d;", t->bits == 32 ? 8 : 11,
			t->bits == 32 ? 24 : 53);
	else
		fprintf(f, "typealias integer { size = %d; signed = %s; base = %d;", t->bits,
			t->kind == CTF_SIGNED ? "true" : "false", t->base);
	fprintf(f, " align = %d; } := %s%s;\n", packed ? 8 : 64, packed ? TSDL_PACKED : "", a->word);
}

static void print_alias(FILE *f, const struct alias *a)
{
	switch (a->type.kind) {
	case CTF_STRING:
		fprintf(f, "typealias integer { size = 8; align = 8; encoding = UTF8; } := %s;\n", a->word);
		break;
	case CTF_BYTES:
		fprintf(f, "typealias integer { size = 8; align = 8; base = 16; } := %s;\n", a->word);
		break;
	case CTF_ADDRS:
		fprintf(f, "typealias integer { size = 64; align = 64; base = 16; } := %s;\n", a->word);
		break;
	default:
		print_number(f, a, false);
		print_number(f, a, true);
	}
}

/* head_t is for headers and contexts; count_t is the length of a string or of addresses. */
char *tsdl_aliases(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = xmemstream(&text, &size);

	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		print_alias(f, &aliases[i]);
	fputs("typealias integer { size = 32; align = 32; } := head_t;\n"
	      "typealias integer { size = 32; align = 64; } := count_t;\n", f);
	fclose(f);
	return text;
}

/* The word of a type; NULL: there is no such type. */
const char *tsdl_type(const struct ctf_field *f)
{
	struct ctf_field want = *f;

	if (f->kind == CTF_BYTES && f->is_text)
		want.kind = CTF_STRING;
	if (f->kind == CTF_POINTER)
		want.bits = 64, want.base = 16;
	else if (f->kind == CTF_FLOAT)
		want.base = 0;
	else if (f->kind == CTF_STRING || f->kind == CTF_BYTES || f->kind == CTF_ADDRS)
		want.bits = want.base = 0;
	else if (!f->base)
		want.base = 10;
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (aliases[i].type.kind == want.kind && aliases[i].type.bits == want.bits &&
		    aliases[i].type.base == want.base)
			return aliases[i].word;
	return NULL;
}

bool tsdl_type_parse(const char *word, struct ctf_field *ret_field)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
		if (strcmp(aliases[i].word, word) == 0) {
			*ret_field = aliases[i].type;
			return true;
		}
	return false;
}

/* Quotes a string. All special characters become three octal digits, which a following digit can't extend. */
char *tsdl_quote(const char *s)
{
	char *out = xcalloc(strlen(s) * 4 + 3, 1), *p = out;

	*p++ = '"';
	for (; *s; s++) {
		unsigned char c = *s;

		if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7f)
			p += sprintf(p, "\\%03o", c);
		else
			*p++ = c;
	}
	*p = '"';
	return out;
}

/* _NAME_length is reserved for the length of the string NAME: such a name gets another underscore. */
static char *not_a_length(char *name)
{
	size_t len = strlen(name);
	char *other;

	if (name[0] != '_' || len < 8 || strcmp(name + len - 7, "_length") != 0)
		return name;
	other = xasprintf("%s_", name);
	free(name);
	return other;
}

static char *as_identifier(const char *s)
{
	char *out = xasprintf("%s%s", isdigit((unsigned char)*s) ? "_" : "", *s ? s : "_");

	for (char *p = out; *p; p++)
		if (!isalnum((unsigned char)*p) || (unsigned char)*p >= 0x80)
			*p = '_';
	return not_a_length(out);
}

/*
 * A field's name as an identifier, without the leading underscore that distinguishes it from the language's
 * keywords and that readers strip. Names that become equal are numbered.
 */
char *tsdl_field_name(const struct ctf_field *fields, size_t i)
{
	char *name = as_identifier(fields[i].name), *numbered;
	size_t same = 0;

	for (size_t k = 0; k < i; k++) {
		char *other = as_identifier(fields[k].name);

		same += strcmp(other, name) == 0;
		free(other);
	}
	if (!same)
		return name;
	numbered = xasprintf("%s__%zu", name, same + 1);
	free(name);
	return numbered;
}
