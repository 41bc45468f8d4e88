/* SPDX-License-Identifier: MIT */
/* Text of others in our output and messages: what is shown as it is, what is escaped. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

static int say(int err, const char *name)
{
	return fail(err, "no function %s", name);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cxxname.h"
#include "base/text.h"

static const struct { const char *text, *shown; } rows[] = {
	{ "", "" },
	{ "plain text, \"quoted\" 'too' \\ ~", "plain text, \"quoted\" 'too' \\ ~" },
	{ "e\033[31ms\n\"c", "e\\x1b[31ms\\x0a\"c" },
	{ "\t\r\b\a\001\037", "\\x09\\x0d\\x08\\x07\\x01\\x1f" },
	{ "\177", "\\x7f" },
	{ "\\x1b stays", "\\x1b stays" },			/* escaped once, as often as it passes */
	{ "caf\303\251 \342\202\254 \360\237\230\200", "caf\303\251 \342\202\254 \360\237\230\200" },
	{ "\302\233""31m", "\\xc2\\x9b31m" },			/* C1 as UTF-8 */
	{ "\302\200\302\237", "\\xc2\\x80\\xc2\\x9f" },
	{ "\302\240", "\302\240" },				/* the first one behind C1 */
	{ "\233""31m", "\\x9b31m" },				/* C1 as a byte */
	{ "\303", "\\xc3" },					/* cut */
	{ "\342\202", "\\xe2\\x82" },
	{ "\303(", "\\xc3(" },
	{ "\300\257", "\\xc0\\xaf" },				/* overlong */
	{ "\355\240\200", "\\xed\\xa0\\x80" },			/* surrogate */
	{ "\364\220\200\200", "\\xf4\\x90\\x80\\x80" },		/* beyond U+10FFFF */
	{ "\342\200\252\342\200\256", "\\xe2\\x80\\xaa\\xe2\\x80\\xae" },	/* U+202A, U+202E */
	{ "\342\201\246\342\201\251", "\\xe2\\x81\\xa6\\xe2\\x81\\xa9" },	/* U+2066, U+2069 */
	{ "\342\200\250\342\200\251", "\\xe2\\x80\\xa8\\xe2\\x80\\xa9" },	/* separators of lines and paragraphs */
	{ "\342\200\216\342\200\217\330\234", "\\xe2\\x80\\x8e\\xe2\\x80\\x8f\\xd8\\x9c" },	/* marks of direction */
	{ "\342\200\247\342\200\257\342\201\245", "\342\200\247\342\200\257\342\201\245" },	/* their neighbours */
	{ "\342\201\252", "\342\201\252" },
};

static void test_rows(void **state)
{
	char out[256], again[256], *written;
	size_t size;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		FILE *f = open_memstream(&written, &size);

		assert_int_equal(text_safe(rows[i].text, strlen(rows[i].text), "", out, sizeof(out)), strlen(rows[i].shown));
		assert_string_equal(out, rows[i].shown);
		text_safe(out, strlen(out), "", again, sizeof(again));
		assert_string_equal(again, out);
		print_safe(f, rows[i].text);
		fclose(f);
		assert_string_equal(written, rows[i].shown);
		free(written);
	}
}

static void test_kept_and_nul(void **state)
{
	char out[64];

	text_safe("a\n\tb\0c", 6, "\n\t", out, sizeof(out));
	assert_string_equal(out, "a\n\tb\\x00c");
}

/* Nothing is written beyond the room, and no escape or character is cut in two. */
static void test_room(void **state)
{
	static const char text[] = "ab\033\303\251";	/* a b \x1b é: 1 + 1 + 4 + 2 */
	static const size_t fits[] = { 0, 0, 1, 2, 2, 2, 2, 6, 6, 8, 8 };

	for (size_t room = 0; room < sizeof(fits) / sizeof(fits[0]); room++) {
		char out[16];

		memset(out, '#', sizeof(out));
		assert_int_equal(text_safe(text, strlen(text), "", out, room), fits[room]);
		for (size_t i = room; i < sizeof(out); i++)
			assert_int_equal(out[i], '#');
		if (room)
			assert_int_equal(out[fits[room]], '\0');
	}
}

/* What a sentence says of a file that is called like this. */
static void test_sentences(void **state)
{
	say(-1, "a\nb\033c");
	assert_string_equal(err_text(), "no function a\\x0ab\\x1bc");
	fail_in(-1, "file\r%s", "x\n");
	assert_string_equal(err_text(), "file\\x0dx\\x0a: no function a\\x0ab\\x1bc");
	/* lines of our own stay lines, also as a part of another sentence */
	fail_lines(-1, "1:1: error: no\n  text\n  ^~~");
	assert_string_equal(err_text(), "1:1: error: no\n  text\n  ^~~");
	say(-1, err_text());
	assert_string_equal(err_text(), "no function 1:1: error: no\n  text\n  ^~~");
	fail_in(-1, "probe\n");
	assert_string_equal(err_text(), "probe\\x0a: no function 1:1: error: no\n  text\n  ^~~");
	say(-1, "\n");
	assert_string_equal(err_text(), "no function \\x0a");
}

/* A message is one line, whatever is in it. */
static void test_messages(void **state)
{
	int to[2], stderr_was = dup(STDERR_FILENO);
	char got[256] = "";

	assert_int_equal(pipe(to), 0);
	dup2(to[1], STDERR_FILENO);
	log_warn("%s is odd", "a\njab: forged\033[1m");
	dup2(stderr_was, STDERR_FILENO);
	assert_true(read(to[0], got, sizeof(got) - 1) > 0);
	assert_string_equal(got, "jab: a\\x0ajab: forged\\x1b[1m is odd\n");
	close(to[0]);
	close(to[1]);
	close(stderr_was);
}

static const struct { const char *name, *brief; } names[] = {
	{ "main", NULL },
	{ "std::vector<int>::size() const", NULL },
	{ "operator<(a const&, b const&)", NULL },
	{ "take(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)", "take(std::string const&)" },
	{ "take(std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >)", "take(std::string)" },
	{ "std::__cxx11::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> >::swap()", "std::wstring::swap()" },
	{ "std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> >(int)",
	  "std::ostream& std::operator<< <std::char_traits<char>>(int)" },
	{ "f(std::map<int, std::vector<int, std::allocator<int> >, std::less<int>, std::allocator<std::pair<int const, int> > >&)",
	  "f(std::map<int, std::vector<int>>&)" },
	{ "std::unique_ptr<shop, std::default_delete<shop> >::~unique_ptr()", "std::unique_ptr<shop>::~unique_ptr()" },
	{ "pool<std::allocator<int> >::get()", "pool<std::allocator<int>>::get()" },	/* the first argument is no default */
	{ "my::basic_string<char>::f()", NULL },
	{ "std::function<void (int, std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >)>::f()",
	  "std::function<void (int, std::string)>::f()" },
	{ "name[abi:cxx11](int)", "name(int)" },
	{ "shop::work::h0123456789abcdef", "shop::work" },
	{ "shop::work::h0123456789abcde", NULL },
	{ "<alloc::string::String as core::fmt::Display>::fmt::h0123456789abcdef", "<alloc::string::String as core::fmt::Display>::fmt" },
	{ "core::ops::function::FnOnce<fn(u8) -> u8, A>::call::h0123456789abcdef", "core::ops::function::FnOnce<fn(u8) -> u8, A>::call" },
	{ "open<std::allocator<int", NULL }, { "odd)>::h0123456789abcdef", "odd)>" }, { "<", NULL }, { "", NULL },
};

static void test_short_names(void **state)
{
	char out[256], tight[8], *deep = malloc(4001);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = cxx_short_name(names[i].name, strlen(names[i].name), out, sizeof(out));

		if (!names[i].brief)
			assert_int_equal(n, 0);
		else
			assert_string_equal(n ? out : names[i].name, names[i].brief);
	}
	assert_int_equal(cxx_short_name("name[abi:cxx11](int)", 20, tight, sizeof(tight)), 7);
	assert_string_equal(tight, "name(in");
	memset(deep, '<', 4000);
	assert_int_equal(cxx_short_name(deep, 4000, out, sizeof(out)), 0);
	free(deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_kept_and_nul),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_sentences),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_short_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
