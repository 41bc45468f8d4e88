/* SPDX-License-Identifier: MIT */
/* Probes as users write them: what is read, what is refused, and which functions are meant. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elfmake.h"
#include "sym/priv.h"
#include "sym/sym.h"

/*
 * What a spec was read as: kind (e entry, r return, i instructions, c call, u static tracepoint), place kind (n name, g glob,
 * x regex, a address, l line), then [NAME=] [object|] [provider:] place [+offset].
 */
static void describe(const struct probe_spec *s, char *out, size_t room)
{
	char off[32] = "", addr[32];

	if (s->has_offset)
		snprintf(off, sizeof(off), "+%llu", (unsigned long long)s->offset);
	snprintf(addr, sizeof(addr), "%#llx", (unsigned long long)s->addr);
	if (s->place_kind == PLACE_LINE)
		snprintf(off, sizeof(off), ":%llu", (unsigned long long)s->addr);
	snprintf(out, room, "%c%c %s%s%s%s%s%s%s%s%s%s", "ericu"[s->kind], "ngxal"[s->place_kind], s->name ? s->name : "",
		 s->name ? "=" : "", s->object ? s->object : "", s->object ? "|" : "", s->provider ? s->provider : "",
		 s->provider ? ":" : "",
		 s->place_kind == PLACE_ADDR ? addr : s->place, off, s->rest ? " // " : "", s->rest ? s->rest : "");
}

static const struct { const char *text, *expect; } rows[] = {
	{ "main", "en main" },
	{ "  main  ", "en main" },
	{ "exe:main", "en exe|main" },
	{ "libc:malloc", "en libc|malloc" },
	{ "*:*", "eg *|*" },
	{ "libstdc++:f", "en libstdc++|f" },
	{ "u:main", "en main" },
	{ "uprobe:/bin/ls:main", "en /bin/ls|main" },
	{ "/usr/bin/my\\:prog:main", "en /usr/bin/my:prog|main" },
	{ "/opt/a\\ b/prog:main", "en /opt/a b/prog|main" },
	{ "./a.out:main", "en ./a.out|main" },
	{ "u:f:main", "en f|main" },
	{ "usdt:setjmp", "un setjmp" },
	{ "usdt:*", "ug *" },
	{ "usdt:libc:setjmp", "un libc:setjmp" },
	{ "usdt:lib*:setjmp", "ug lib*:setjmp" },
	{ "U:/lib/libc.so.6:libc:setjmp", "un /lib/libc.so.6|libc:setjmp" },
	{ "usdt:/usr/bin/python3:line", "un /usr/bin/python3|line" },
	{ "usdt:*:myapp:*", "ug *|myapp:*" },
	{ "x=usdt:python:line arg0 arg1:string", "un x=python:line // arg0 arg1:string" },
	{ "usdt:a\\:b:p:n", "un a:b|p:n" },
	{ "ur:libc:read", "rn libc|read" },
	{ "uretprobe:read", "rn read" },
	{ "read%return", "rn read" },
	{ "ur:read%return", "rn read" },
	{ "insn:exe:ma*", "ig exe|ma*" },
	{ "insn:0x1000", "ia 0x1000" },
	{ "hot=libc:malloc", "en hot=libc|malloc" },
	{ "my-tp.1=u:exe:f", "en my-tp.1=exe|f" },
	/* what follows the place is kept as it is */
	{ "libc:malloc size", "en libc|malloc // size" },
	{ "libc:malloc  size if size > 1000000", "en libc|malloc // size if size > 1000000" },
	{ "malloc if arg0 > 3", "en malloc // if arg0 > 3" },
	{ "exe:readline%return $retval:string", "rn exe|readline // $retval:string" },
	/* places */
	{ "main+0x10", "en main+16" },
	{ "main+010", "en main+8" },
	{ "main+10", "en main+10" },
	{ "main+0", "en main+0" },
	{ "0x401000", "ea 0x401000" },
	{ "libc:0x1000", "ea libc|0x1000" },
	{ "4096", "ea 0x1000" },
	{ "010", "ea 0x8" },
	{ "0x401000%return", "ra 0x401000" },
	{ "do_*", "eg do_*" },
	{ "do_?", "eg do_?" },
	{ "do_[ab]+4", "eg do_[ab]+4" },
	{ "do_\\*", "en do_*" },
	{ "/^do_(home|end)$/", "ex ^do_(home|end)$" },
	{ "libc:/^pthread_mutex_(lock|unlock)$/", "ex libc|^pthread_mutex_(lock|unlock)$" },
	{ "/bin/ls:/^x/", "ex /bin/ls|^x" },
	{ "/a:b/", "ex a:b" },
	{ "/a\\/b\\.c/", "ex a/b\\.c" },
	{ "u:exe:/a b/", "ex exe|a b" },
	{ "/[*+]+x{2}y*/", "ex [*+]+x{2}y*" },
	{ "/^f$/%return", "rx ^f$" },
	{ "/^f$/+4", "ex ^f$+4" },
	{ "call:exe:f", "cn exe|f" },
	{ "@foo.c:42 i > 3", "el foo.c:42 // i > 3" },
	{ "libc:@a/foo.c:42", "el libc|a/foo.c:42" },
	{ "u:exe:@foo.c:42", "el exe|foo.c:42" },
	/* C++ */
	{ "ns::f", "en ns::f" },
	{ "::f", "en ::f" },
	{ "exe:ns::f(int)", "en exe|ns::f(int)" },
	{ "exe:::f", "en exe|::f" },
	{ "u:exe:ns::f(int)+4", "en exe|ns::f(int)+4" },
	{ "ns::f(int)%return", "rn ns::f(int)" },
	{ "ns::S::f(int, char) const", "en ns::S::f(int, char) const" },
	{ "std::map<int, std::string>::find", "en std::map<int, std::string>::find" },
	{ "(anonymous namespace)::f()", "en (anonymous namespace)::f()" },
	{ "f[abi:cxx11](int)", "eg f[abi:cxx11](int)" },
	{ "operator+", "en operator+" },
	{ "operator+(A const&, A const&)", "en operator+(A const&, A const&)" },
	{ "ns::operator+(A)+4", "en ns::operator+(A)+4" },
	{ "operator++", "en operator++" },
	{ "operator%", "en operator%" },
	{ "A::operator%(int)%return", "rn A::operator%(int)" },
	{ "operator=", "en operator=" },
	{ "operator==", "en operator==" },
	{ "A::operator=(A const&)", "en A::operator=(A const&)" },
	{ "operator<", "en operator<" },
	{ "exe:operator<(A, B)", "en exe|operator<(A, B)" },
	{ "A::operator->()", "en A::operator->()" },
	{ "A::operator()(int)", "en A::operator()(int)" },
	{ "operator new(unsigned long)", "en operator new(unsigned long)" },
	{ "operator delete[](void*)", "eg operator delete[](void*)" },
	{ "A::operator bool() const", "en A::operator bool() const" },
	{ "std::vector<*", "eg std::vector<*" },
	/* Rust, Go */
	{ "<T as core::fmt::Debug>::fmt", "en <T as core::fmt::Debug>::fmt" },
	{ "exe:net/http.(*conn).serve", "eg exe|net/http.(*conn).serve" },
	{ "main.main.func1", "en main.main.func1" },
	{ "type\\:.eq.main.T", "en type:.eq.main.T" },
};

static void test_read(void **state)
{
	struct probe_spec *s;
	char got[256];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (spec_parse(rows[i].text, &s) < 0) {
			print_error("%s: %s\n", rows[i].text, err_text());
			assert_true(false);
		}
		describe(s, got, sizeof(got));
		if (strcmp(got, rows[i].expect) != 0)
			print_error("%s\n", rows[i].text);
		assert_string_equal(got, rows[i].expect);
		assert_string_equal(s->text, rows[i].text);
		spec_free(s);
	}
	spec_free(NULL);
}

static const struct { const char *text; int err; const char *says; } refusals[] = {
	{ "", -EINVAL, "names no function" },
	{ "   ", -EINVAL, "names no function" },
	{ "u:", -EINVAL, "names no function" },
	{ "libc:", -EINVAL, "names no function" },
	{ "NAME=", -EINVAL, "names no function" },
	{ ":main", -EINVAL, "object" },
	{ "u:a:b:c", -EINVAL, "too many ':'" },
	{ "%return", -EINVAL, "names no function" },
	{ "+4", -EINVAL, "names no function" },
	{ "f%entry", -EINVAL, "%entry" },
	{ "f+", -EINVAL, "not a number" },
	{ "f+x", -EINVAL, "'x' is not a number" },
	{ "f+09", -EINVAL, "not a number" },
	{ "f+0x", -EINVAL, "not a number" },
	{ "f+0x11111111111111111", -EINVAL, "not a number" },
	{ "f+4%return", -EINVAL, "makes no sense" },
	{ "ur:f+4", -EINVAL, "makes no sense" },
	{ "insn:f+4", -EINVAL, "makes no sense" },
	{ "insn:f%return", -EINVAL, "no %return" },
	{ "0xzz", -EINVAL, "not an address" },
	{ "12ab", -EINVAL, "not an address" },
	{ "/abc", -EINVAL, "closing '/'" },
	{ "/bin/ls", -EINVAL, "FILE:FUNCTION" },
	{ "/(/", -EINVAL, "bad regular expression" },
	{ "//", -EINVAL, "empty" },
	{ "/a+++++++++++++++++++++++++++++++++++++++++/", -EINVAL, "repeated" },
	{ "/a/+b", -EINVAL, "not a number" },
	{ "call:f%return", -EINVAL, "no %return" },
	{ "call:f+4", -EINVAL, "makes no sense" },
	{ "usdt:a:b:c:d", -EINVAL, "too many ':'" },
	{ "usdt:libc:", -EINVAL, "name of the static tracepoint is missing" },
	{ "usdt:libc:setjmp%return", -EINVAL, "neither return nor offset" },
	{ "U:libc:setjmp+4", -EINVAL, "neither return nor offset" },
	{ "kprobe:do_sys_open", -ENOTSUP, "kernel probes" },
	{ "k:f", -ENOTSUP, "kernel" },
	{ "fentry:f", -ENOTSUP, "kernel" },
	{ "tracepoint:sched:sched_switch", -ENOTSUP, "kernel tracepoints" },
	{ "syscall:openat", -ENOTSUP, "kernel system call probes (kind 'syscall') are not supported yet; " },
	{ "syscall:openat%return", -ENOTSUP, "can be probed: 'libc:openat'" },
	{ "tracepoint:syscalls:sys_enter_openat", -ENOTSUP, "can be probed: 'libc:openat'" },
	{ "k:vfs_read", -ENOTSUP, "can be probed: 'libc:open'" },
	{ "profile:hz:99", -ENOTSUP, "'profile' is no kind" },
	{ "@foo.c", -EINVAL, "@FILE:LINE" },
	{ "@foo.c:", -EINVAL, "@FILE:LINE" },
	{ "@foo.c:0", -EINVAL, "@FILE:LINE" },
	{ "@:42", -EINVAL, "@FILE:LINE" },
	{ "u:@foo.c:x i", -EINVAL, "@FILE:LINE" },
	{ "ur:@foo.c:42", -EINVAL, "has no entry" },
};

static void test_refused(void **state)
{
	struct probe_spec *s = (void *)1;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(refusals); i++) {
		int r = spec_parse(refusals[i].text, &s);

		if (r != refusals[i].err || !strstr(err_text(), refusals[i].says))
			print_error("'%s': %d %s\n", refusals[i].text, r, r < 0 ? err_text() : "");
		assert_int_equal(r, refusals[i].err);
		assert_non_null(strstr(err_text(), refusals[i].says));
		assert_ptr_equal(s, (void *)1);
	}
}

static const struct { const char *object, *path; bool is_exe, yes; } objects[] = {
	{ "libc", "/usr/lib/x86_64-linux-gnu/libc.so.6", false, true },
	{ "libc", "/usr/lib/libc-2.36.so", false, true },
	{ "libc.so", "/usr/lib/libc.so.6", false, true },
	{ "libc.so.6", "/usr/lib/libc.so.6", false, true },
	{ "libc", "/usr/lib/libc.so", false, true },
	{ "lib", "/usr/lib/libc.so.6", false, false },
	{ "libc", "/usr/lib/libcrypto.so.3", false, false },
	{ "libc", "/usr/lib/libc-client.so.1", false, false },
	{ "libpython3.11", "/usr/lib/libpython3.11.so.1.0", false, true },
	{ "libpython3", "/usr/lib/libpython3.11.so.1.0", false, false },
	{ "libstdc++", "/usr/lib/libstdc++.so.6.0.30", false, true },
	{ "ld-linux-x86-64", "/usr/lib/ld-linux-x86-64.so.2", false, true },
	{ "exe", "/bin/anything", true, true },
	{ "exe", "/usr/lib/libc.so.6", false, false },
	{ "*", "/usr/lib/libc.so.6", false, true },
	{ NULL, "/usr/lib/libc.so.6", false, true },
	{ "ls", "/bin/ls", true, true },
	{ "ls", "/bin/lsof", true, false },
	{ "/bin/ls", "/usr/bin/ls", true, true },
	{ "/usr/bin/ls", "/bin/ls", true, true },
	{ "/opt/bin/ls", "/bin/ls", true, false },
	{ "/bin/ls", "/bin/ls (deleted)", true, true },
	{ "ls", "/bin/ls (deleted)", true, true },
	{ "libc*", "/usr/lib/libcrypto.so.3", false, true },
	{ "/usr/lib/*", "/usr/lib/libcrypto.so.3", false, true },
	{ "libc*", "/usr/lib/libz.so.1", false, false },
	{ "vdso", "[vdso]", false, true },
	{ "[vdso]", "[vdso]", false, true },
};

static void test_objects(void **state)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(objects); i++) {
		struct probe_spec s = { .object = (char *)objects[i].object };

		if (spec_matches_object(&s, objects[i].path, objects[i].is_exe) != objects[i].yes)
			print_error("%s %s\n", objects[i].object, objects[i].path);
		assert_int_equal(spec_matches_object(&s, objects[i].path, objects[i].is_exe), objects[i].yes);
	}
}

static const struct { const char *glob, *text; bool yes; } globs[] = {
	{ "*", "", true }, { "", "", true }, { "", "a", false }, { "a*", "abc", true }, { "*c", "abc", true },
	{ "a*c", "abcbc", true }, { "a*d", "abcbc", false }, { "?bc", "abc", true }, { "?", "", false },
	{ "[ab]c", "bc", true }, { "[!ab]c", "bc", false }, { "[^ab]c", "xc", true }, { "[a-c]", "b", true },
	{ "[a-c]", "d", false }, { "[", "[", true }, { "x[]", "x[]", true }, { "\\*", "*", true },
	{ "\\*", "a", false }, { "*a*b*", "xxaxxbxx", true }, { "*a*b*", "xxbxxaxx", false },
	{ "a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
};

static void test_globs(void **state)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(globs); i++) {
		if (glob_match(globs[i].glob, globs[i].text, strlen(globs[i].text)) != globs[i].yes)
			print_error("%s %s\n", globs[i].glob, globs[i].text);
		assert_int_equal(glob_match(globs[i].glob, globs[i].text, strlen(globs[i].text)), globs[i].yes);
	}
}

static const struct { const char *raw, *readable, *name; } mangled[] = {
	{ "_ZN2ns1fEi", "ns::f(int)", "ns::f" },
	{ "_Z1fIiEvT_", "void f<int>(int)", "f<int>" },
	{ "_ZN2nsplERKNS_1SES2_", "ns::operator+(ns::S const&, ns::S const&)", "ns::operator+" },
	{ "_ZNK1SclEi", "S::operator()(int) const", "S::operator()" },
	{ "_ZNK1SltERKS_", "S::operator<(S const&) const", "S::operator<" },
	{ "_ZNK1ScvbEv", "S::operator bool() const", "S::operator bool" },
	{ "_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()", "(anonymous namespace)::f" },
	{ "_ZThn8_N1S1fEv", "non-virtual thunk to S::f()", "non-virtual thunk to S::f()" },
	{ "_ZZ1fiENKUlcE_clEc", "f(int)::{lambda(char)#1}::operator()(char) const", "f(int)::{lambda(char)#1}::operator()" },
	{ "_ZZNK1S1fEvE1g", "S::f() const::g", "S::f() const::g" },
	{ "_Znwm", "operator new(unsigned long)", "operator new" },
	{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt", "core::fmt::Write::write_fmt" },
	{ "_RNvC6mycratE3foo", NULL, NULL },
	{ "_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example", "mycrate::example" },
	{ "main", NULL, NULL },
	{ "_Z", NULL, NULL },
	{ "", NULL, NULL },
};

static void test_demangle(void **state)
{
	struct name_parts parts;
	char *s;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mangled); i++) {
		s = demangle(mangled[i].raw);
		if (!mangled[i].readable) {
			assert_null(s);
			continue;
		}
		assert_string_equal(s ? s : "none", mangled[i].readable);
		parts = name_split(s);
		s[parts.params] = 0;
		assert_string_equal(s + parts.start, mangled[i].name);
		free(s);
	}
}

/* One module; each row names the functions (by letter) that a place means. */
static const struct made_symbol symbols[] = {
	{ "malloc", 0x1000, 8, STT_FUNC, STB_GLOBAL },			/* a */
	{ "__libc_malloc", 0x1000, 8, STT_FUNC, STB_GLOBAL },		/* a */
	{ "mallinfo", 0x1010, 8, STT_FUNC, STB_GLOBAL },		/* b */
	{ "malloc.cold", 0x1020, 8, STT_FUNC, STB_LOCAL },		/* c */
	{ "_ZN2ns1fEi", 0x1030, 8, STT_FUNC, STB_GLOBAL },		/* d */
	{ "_ZN2ns1fEPc", 0x1040, 8, STT_FUNC, STB_GLOBAL },		/* e */
	{ "_ZN2ns1fEPPc", 0x1050, 8, STT_FUNC, STB_GLOBAL },		/* f */
	{ "_Z7longishIiEvT_", 0x1060, 8, STT_FUNC, STB_GLOBAL },	/* g */
	{ "main.(*T).M", 0x1070, 8, STT_FUNC, STB_GLOBAL },		/* h */
	{ "main.(*XT).M", 0x1080, 8, STT_FUNC, STB_GLOBAL },		/* i */
	{ "_ZNKSs4sizeEv", 0x1090, 8, STT_FUNC, STB_GLOBAL },		/* j: std::string::size() const */
	{ "odd", 0x10a0, 8, STT_FUNC, STB_LOCAL },			/* k */
	{ "odd", 0x10b0, 8, STT_FUNC, STB_LOCAL },			/* l */
	{ "_ZN2ns1fEi.cold", 0x10d0, 8, STT_FUNC, STB_LOCAL },		/* n */
	{ "_ZN2ns1fEi.part.0", 0x10e0, 8, STT_FUNC, STB_LOCAL },	/* o */
};							/* m: an FDE without a name, at 0x10c0 */

static const struct { const char *place, *expect; } meant[] = {
	{ "*", "abdefghijklmo" },
	{ "malloc", "a" },
	{ "__libc_malloc", "a" },
	{ "mall*", "ab" },
	{ "*malloc*", "a" },
	{ "malloc.cold", "c" },
	{ "/^mal/", "ab" },
	{ "/^malloc$/", "a" },
	{ "ns::f", "def" },
	{ "ns::*", "defo" },
	{ "_ZN2ns1fEi.cold", "n" },
	{ "ns::f(int)\\ [clone\\ .cold\\]", "n" },
	{ "ns::f(int)", "d" },
	{ "ns::f(char*)", "e" },
	{ "ns::f(char?)", "e" },
	{ "ns::f(char**)", "f" },
	{ "*(char*)", "ef" },
	{ "_ZN2ns1fEi", "d" },
	{ "_ZN2ns*", "defo" },
	{ "/^ns::f$/", "def" },
	{ "/char/", "ef" },
	{ "longish<int>", "g" },
	{ "longish<int>(int)", "g" },
	{ "void\\ longish<int>(int)", "g" },
	{ "longish*", "g" },
	{ "main.(*T).M", "h" },
	{ "main.(*).M", "hi" },
	{ "std::string::size", "j" },
	{ "std::string::*", "j" },
	{ "odd", "kl" },
	{ "func_0x10c0", "m" },
	{ "func_0x*", "m" },
	{ "0x1034", "d" },
	{ "0x1038", "" },
	{ "f", "" },
	{ "mallo", "" },
	{ "nothing*", "" },
};

static struct module *make_names(void)
{
	static const struct made_fde fdes[] = { { 0x10c0, 8, 0, 0 } };
	static struct made e;
	struct module *m;

	made_start(&e);
	made_symbols(&e, SHT_SYMTAB, symbols, ARRAY_SIZE(symbols));
	made_frames(&e, fdes, 1);
	assert_int_equal(module_open_memory(e.p, made_finish(&e, ET_DYN), "made", &m), 0);
	return m;
}

static void test_match(void **state)
{
	struct module *m = make_names();
	struct probe_spec *s;
	char got[32];
	size_t i, k;
	int n;

	for (i = 0; i < ARRAY_SIZE(meant); i++) {
		func_list list = { 0 };

		assert_int_equal(spec_parse(meant[i].place, &s), 0);
		n = spec_match(s, m, &list);
		assert_int_equal(n, list.n);
		for (k = 0; k < list.n; k++)
			got[k] = 'a' + (m->funcs.v[list.v[k]].addr - 0x1000) / 16;
		got[k] = 0;
		if (strcmp(got, meant[i].expect) != 0)
			print_error("%s\n", meant[i].place);
		assert_string_equal(got, meant[i].expect);
		vec_free(&list);
		spec_free(s);
	}
	module_close(m);
}

/* With as few backslashes as it takes: people read them. */
static const struct { const char *name, *expect; } quotes[] = {
	{ "f(char const*)", "f(char const*)" },
	{ "(anonymous namespace)::f(int) [clone .isra.0]", "(anonymous namespace)::f(int) [clone .isra.0]" },
	{ "ns::A<int>::operator*(int&) const", "ns::A<int>::operator*(int&) const" },
	{ "net/http.(*conn).serve", "net/http.(*conn).serve" },
	{ "operator/(V const&, int)", "operator/(V const&, int)" },
	{ "void longish<int>(int)", "void\\ longish<int>(int)" },
	{ "a*b", "a\\*b" },
	{ "@at", "\\@at" },
	{ "a:/b/", "\\a\\:\\/b\\/" },
};

static void test_quote_sparingly(void **state)
{
	struct probe_spec *s;
	char *got;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(quotes); i++) {
		got = spec_quote(quotes[i].name);
		assert_string_equal(got, quotes[i].expect);
		assert_int_equal(spec_parse(got, &s), 0);
		assert_true(!s->object && !s->rest && s->place_kind <= PLACE_GLOB);
		spec_free(s);
		free(got);
	}
}

/* What `jab list` prints must mean the same function when it is typed again. */
static void test_quote(void **state)
{
	static const char *const more[] = { "a:b", "x=y", "f+4", "f%return", "9lives", "/slash/", "@at", "a b", "a\\b", "v if x" };
	struct module *m = make_names();
	struct probe_spec *s;
	size_t i, k;
	char *quoted;

	for (i = 0; i < m->funcs.n; i++) {
		func_list list = { 0 };

		quoted = spec_quote(func_name(m, &m->funcs.v[i]));
		assert_int_equal(spec_parse(quoted, &s), 0);
		spec_match(s, m, &list);
		for (k = 0; k < list.n && list.v[k] != i; k++)
			;
		assert_true(k < list.n);
		vec_free(&list);
		spec_free(s);
		free(quoted);
	}
	for (i = 0; i < ARRAY_SIZE(more); i++) {
		quoted = spec_quote(more[i]);
		assert_int_equal(spec_parse(quoted, &s), 0);
		assert_int_equal(s->place_kind, PLACE_NAME);
		assert_string_equal(s->place, more[i]);
		assert_true(!s->object && !s->name && !s->has_offset);
		spec_free(s);
		free(quoted);
	}
	module_close(m);
}

static const struct { const char *wanted, *expect; } near[] = {
	{ "mallco", "malloc" },
	{ "maloc", "malloc" },
	{ "xmalloc", "malloc" },
	{ "ns::g", "ns::f" },
	{ "lngish<int>", "longish<int>" },
	{ "longish<int>", "longish<int>" },
	{ "f", "ns::f" },
	{ "nothing_like_it", "" },
	{ "", "" },
};

static void test_suggest(void **state)
{
	struct module *m = make_names();
	char out[64], tiny[4];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(near); i++) {
		suggest_names(&m, 1, near[i].wanted, 1, out, sizeof(out));
		assert_string_equal(out, near[i].expect);
	}
	suggest_names(&m, 1, "mallxc", 3, out, sizeof(out));
	assert_string_equal(out, "malloc");
	suggest_names(&m, 1, "mallco", 3, tiny, sizeof(tiny));	/* no room: nothing rather than half a name */
	assert_string_equal(tiny, "");
	module_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read), cmocka_unit_test(test_refused), cmocka_unit_test(test_objects),
		cmocka_unit_test(test_globs), cmocka_unit_test(test_demangle), cmocka_unit_test(test_match),
		cmocka_unit_test(test_quote), cmocka_unit_test(test_quote_sparingly), cmocka_unit_test(test_suggest),
	};

	return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
