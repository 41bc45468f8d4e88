/* SPDX-License-Identifier: MIT */
/* Damaged probe texts. Whatever is accepted is freed again, and quoting gives the same name back. */
#include "base/err.h"
#include "sym/sym.h"

#include "mutate.h"

static void check_quote(const char *text)
{
	char *quoted = spec_quote(text);
	struct probe_spec *spec;

	if (spec_parse(quoted, &spec) < 0 || spec->place_kind > PLACE_GLOB || strcmp(spec->place, text) != 0)
		abort();
	spec_free(spec);
	free(quoted);
}

/* Nested repetitions keep libc's regcomp() busy for hours. Whoever types them waits; we don't. */
static bool too_slow(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += strchr("*+?{", *text) != NULL;
	return n > 4;
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	struct probe_spec *spec;
	char *text = calloc(1, size + 1), *readable;
	int r;

	memcpy(text, p, size);
	if (*text)
		check_quote(text);
	readable = demangle(text);
	free(readable);
	if (strchr(text, '/') && too_slow(text)) {
		free(text);
		return 0;
	}
	r = spec_parse(text, &spec);
	if (r == 0) {
		if (!spec->place || strcmp(spec->text, text) != 0 || (spec->place_kind == PLACE_REGEX) != !!spec->regex)
			abort();
		spec_matches_object(spec, "/usr/lib/libc.so.6", false);
		spec_matches_object(spec, "[vdso]", false);
		spec_free(spec);
	} else if (!*err_text()) {
		abort();
	}
	free(text);
	return r;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	static const char *const texts[] = {
		"main", "hot=u:libc:malloc+0x10", "uretprobe:/bin/ls:main", "exe:ns::S::f(int, char) const+4",
		"insn:*:do_[a-z]*", "libc:/^pthread_(un|)lock$/%return", "std::map<int, (anonymous namespace)::S>::find",
		"A::operator%(int)%return", "operator++", "net/http.(*conn).serve", "0x401000", "/a\\/b:c/+4",
		"call:f if x > 3", "@foo.c:42 i", "_ZN2ns1fIiEEvT_", "_RNvCs15kBYyAo9fc_7mycrate7example",
		"_ZNSt6vectorIiSaIiEE9push_backEOi", "a\\:b:c\\ d",
	};

	if (i >= ARRAY_SIZE(texts))
		return (struct seed){ 0 };
	return (struct seed){ (uint8_t *)strdup(texts[i]), strlen(texts[i]), texts[i] };
}
#endif
