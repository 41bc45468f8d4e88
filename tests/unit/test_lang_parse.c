/* SPDX-License-Identifier: MIT */
/* Scripts and probe lines: what they are read as. Errors are tested by text in tests/lang/err. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lang/ast.h"

struct row { const char *text, *expect; };

static void check(const struct row *r, bool line)
{
	struct script *s;
	char *got, *why;
	int err = line ? line_parse(r->text, NULL, &s) : script_parse("t", r->text, strlen(r->text), &s);

	if (err < 0) {
		why = diags_text(&s->diags);
		print_error("%s\n%s", r->text, why);
		free(why);
	}
	assert_int_equal(err, 0);
	got = script_dump(s);
	if (*got)
		got[strlen(got) - 1] = 0;
	if (strcmp(got, r->expect) != 0)
		print_error("%s\n", r->text);
	assert_string_equal(got, r->expect);
	free(got);
	script_free(s);
}

/* in BEGIN { ... } */
static const struct row expressions[] = {
	/* numbers */
	{ "1", "1" }, { "0x1F", "31" }, { "0X1f", "31" }, { "017", "15" }, { "0", "0" },
	{ "1_000_000", "1000000" }, { "0xff_ff", "65535" }, { "1e6", "1000000" }, { "2e3", "2000" }, { "1E2", "100" },
	{ "123ul", "123" }, { "123ULL", "123" }, { "18446744073709551615", "18446744073709551615" },
	{ "5ms", "5000000" }, { "1s", "1000000000" }, { "3us", "3000" }, { "7ns", "7" }, { "1m", "60000000000" },
	{ "2h", "7200000000000" }, { "1d", "86400000000000" },
	{ "1.5", "1.50000" }, { ".5", "0.500000" }, { "1e-3", "0.00100000" }, { "1.5e3", "1500.00" }, { "2.", "2.00000" },
	{ "'A'", "65" }, { "'\\n'", "10" }, { "'\\0'", "0" }, { "'\\xff'", "18446744073709551615" },
	{ "true", "true" }, { "false", "false" },
	/* strings */
	{ "\"hi\"", "\"hi\"" }, { "\"a\\tb\\n\\\"\\\\\"", "\"a\\x09b\\x0a\\\"\\\\\"" },
	{ "\"\\x41\\101\\033[31m\"", "\"AA\\x1b[31m\"" }, { "\"a\" \"b\"", "\"ab\"" },
	/* names */
	{ "pid", "pid" }, { "arg0", "arg0" }, { "$x", "$x" }, { "$1", "$1" }, { "$#", "$#" }, { "$12", "$12" },
	{ "@", "@" }, { "@x", "@x" }, { "@[1]", "@[1]" }, { "@x[pid, comm]", "@x[pid, comm]" },
	{ "@x[(pid, comm)]", "@x[(tuple pid comm)]" }, { "ns::x", "ns::x" }, { "args.x", "(. args)x" }, { "args->x", "(-> args)x" },
	/* precedence */
	{ "1 + 2 * 3", "(+ 1 (* 2 3))" }, { "1 - 2 - 3", "(- (- 1 2) 3)" }, { "(1 + 2) * 3", "(* (+ 1 2) 3)" },
	{ "1 << 2 + 3", "(<< 1 (+ 2 3))" }, { "1 < 2 == 3 > 4", "(== (< 1 2) (> 3 4))" },
	{ "1 & 2 == 3", "(& 1 (== 2 3))" }, { "1 | 2 ^ 3 & 4", "(| 1 (^ 2 (& 3 4)))" },
	{ "1 || 2 && 3", "(|| 1 (&& 2 3))" }, { "a ? b : c ? d : e", "(? a b (? c d e))" },
	{ "!$x == ~3", "(== (! $x) (~ 3))" }, { "-1 - -1", "(- (- 1) (- 1))" }, { "a % b / c", "(/ (% a b) c)" },
	{ "a >= b >> 2", "(>= a (>> b 2))" }, { "- - 1", "(- (- 1))" },
	/* steps */
	{ "$x++", "(post++ $x)" }, { "--$x", "(-- $x)" }, { "@x[1]--", "(post-- @x[1])" }, { "++@", "(++ @)" },
	{ "$x = $y++ + 1", "(set $x (+ (post++ $y) 1))" },
	/* postfix */
	{ "$p->a.b[3]->c", "(-> (index (. (-> $p)a)b 3))c" }, { "$t.0", "(element $t)0" },
	{ "$t.0.1", "(element (element $t)0)1" }, { "*$p->x", "(* (-> $p)x)" }, { "&$p->x", "(& (-> $p)x)" },
	{ "(*$p).x", "(. (* $p))x" }, { "$a[1][2]", "(index (index $a 1) 2)" }, { "@m[1].2", "(element @m[1])2" },
	/* calls */
	{ "str(arg0)", "(str arg0)" }, { "exit()", "(exit)" }, { "printf(\"%d\\n\", 1,)", "(printf \"%d\\x0a\" 1)" },
	{ "record($a, name = 3 + 4)", "(record $a name=(+ 3 4))" }, { "reg(\"ip\")", "(reg \"ip\")" },
	{ "quantile($x, .5, .99)", "(quantile $x 0.500000 0.990000)" },
	/* casts */
	{ "(int)1", "(cast int 1)" }, { "(uint8) $x", "(cast uint8 $x)" }, { "(unsigned long long)-1", "(cast unsigned long long (- 1))" },
	{ "(struct foo *)arg0", "(cast struct foo* arg0)" }, { "((struct foo *)arg0)->x", "(-> (cast struct foo* arg0))x" },
	{ "(struct foo*)arg0->x", "(cast struct foo* (-> arg0)x)" }, { "*(uint64 *)(arg0 + 8)", "(* (cast uint64* (+ arg0 8)))" },
	{ "(const char *)x", "(cast char* x)" }, { "(char const * const *)x", "(cast char** x)" }, { "(foo_t *)x", "(cast foo_t* x)" },
	{ "(foo_t)x", "(cast foo_t x)" }, { "(foo)", "foo" }, { "(foo) - 1", "(- foo 1)" }, { "(a) * b", "(* a b)" },
	{ "(a * b)", "(* a b)" }, { "(uint8[8])12345", "(cast uint8[8] 12345)" }, { "(uint8[])1", "(cast uint8[] 1)" },
	{ "(ns::S *)x", "(cast ns::S* x)" }, { "(enum e)3", "(cast enum e 3)" }, { "(size_t)-1", "(cast size_t (- 1))" },
	{ "(class C *)x", "(cast struct C* x)" }, { "(double)1 / 3", "(/ (cast double 1) 3)" },
	{ "sizeof(struct foo)", "(sizeof struct foo)" }, { "sizeof($x)", "(sizeof $x)" }, { "sizeof(int) * 2", "(* (sizeof int) 2)" },
	{ "offsetof(struct foo, a.b)", "(offsetof struct foo a.b)" },
	/* tuples and blocks */
	{ "(1, \"a\")", "(tuple 1 \"a\")" }, { "(1,)", "(tuple 1)" }, { "()", "(tuple)" }, { "(1, (2, 3))", "(tuple 1 (tuple 2 3))" },
	{ "$x = { $y = 1; $y + 1 }", "(set $x (block {(set $y 1)} (+ $y 1)))" },
	/* assignments */
	{ "$x = 1", "(set $x 1)" }, { "$x += 2", "(set+ $x 2)" }, { "@x <<= 3", "(set<< @x 3)" }, { "@x[1] >>= 3", "(set>> @x[1] 3)" },
	{ "@ = count()", "(set @ (count))" }, { "@h[comm] = hist(arg0)", "(set @h[comm] (hist arg0))" },
	{ "$x ^= 1", "(set^ $x 1)" }, { "$x |= 1", "(set| $x 1)" }, { "$x %= 3", "(set% $x 3)" },
};

static const struct row scripts[] = {
	{ "BEGIN { }", "begin {}" }, { "end{}", "end {}" }, { "begin, END {}", "begin, end {}" },
	{ "interval:s:1 {}", "interval:1000000000ns {}" }, { "i:ms:10 {}", "interval:10000000ns {}" },
	{ "interval:hz:10 {}", "interval:100000000ns {}" }, { "interval:1s {}", "interval:1000000000ns {}" },
	{ "interval:us:500 {}", "interval:500000ns {}" }, { "interval:1e9 {}", "interval:1000000000ns {}" },
	{ "uprobe:/bin/bash:readline { }", "uprobe:/bin/bash:readline {}" },
	{ "uretprobe:/bin/bash:readline{ }", "uretprobe:/bin/bash:readline {}" },
	{ "uprobe:libc:malloc,uprobe:libc:free { exit() }", "uprobe:libc:malloc, uprobe:libc:free {(exit)}" },
	{ "uprobe:libc:malloc,\n\tu:libc:free /pid == 3/ { exit(); }", "uprobe:libc:malloc, u:libc:free /(== pid 3)/ {(exit)}" },
	{ "u:/lib/*/libc.so.6:malloc* /arg0 / 2 > 3/ {}", "u:/lib/*/libc.so.6:malloc* /(> (/ arg0 2) 3)/ {}" },
	{ "u:libc:/^pthread_(un)?lock$/ /1/ {}", "u:libc:/^pthread_(un)?lock$/ /1/ {}" },
	{ "uprobe:./a.out:\"ns::f(int, char)\" {}", "uprobe:./a.out:ns::f(int, char) {}" },
	{ "u:exe:ns::f(int, char) {}", "u:exe:ns::f(int, char) {}" },
	{ "u:exe:std::map<int, int>::find {}", "u:exe:std::map<int, int>::find {}" },
	{ "u:exe:f+0x10 {}", "u:exe:f+0x10 {}" }, { "call:libc:malloc { @ = hist(duration) }", "call:libc:malloc {(set @ (hist duration))}" },
	{ "hot=u:libc:malloc {}", "hot=u:libc:malloc {}" }, { "@foo.c:42 { }", "@foo.c:42 {}" }, { "u:exe:@a/foo.c:42 { }", "exe:@a/foo.c:42 {}" },
	{ "#!/usr/bin/jab\n// c\n/* d\n */ BEGIN /* e */ { /* f */ } // g", "begin {}" },
	{ "BEGIN{} END{}", "begin {}\nend {}" },
	/* statements */
	{ "BEGIN { ; ; exit(); ; }", "begin {(exit)}" },
	{ "BEGIN { if ($a == 1) { exit() } }", "begin {(if (== $a 1) {(exit)})}" },
	{ "BEGIN { if (1) {} else { clear(@) } }", "begin {(if 1 {} {(clear @)})}" },
	{ "BEGIN { if (1) {} else if (2) {} else {} $x = 1 }", "begin {(if 1 {} {(if 2 {})}); (set $x 1)}" },
	{ "BEGIN { while ($i < 10) { $i++; break; continue } }", "begin {(while (< $i 10) {(post++ $i); (break); (continue)})}" },
	{ "BEGIN { unroll(3) { print(1) } }", "begin {(unroll 3 {(print 1)})}" },
	{ "BEGIN { for ($kv : @m) { print($kv.0) } }", "begin {(for $kv @m {(print (element $kv)0)})}" },
	{ "BEGIN { for $i : 0..10 { } }", "begin {(for-range $i 0 10 {})}" },
	{ "BEGIN { for ($i : 0..$n) { return } }", "begin {(for-range $i 0 $n {(return)})}" },
	{ "BEGIN { let $x; let $y: uint8 = 3; let $z = 4 }", "begin {(let $x); (let $y : uint8 3); (let $z 4)}" },
	{ "BEGIN { { $x = 1 } }", "begin {(block {(set $x 1)})}" },
	{ "BEGIN { $a == 1 ? print(1) : print(2); }", "begin {(? (== $a 1) (print 1) (print 2))}" },
	/* preamble */
	{ "config = { stack_mode=perf; max_map_keys = 2 }\nBEGIN {}", "begin {}" },
	{ "let @a = lruhash(100);\nBEGIN {}", "begin {}" },
	{ "struct S { int x; char *p, buf[16]; unsigned f : 3; }\nBEGIN {}", "begin {}" },
	{ "enum { A, B = 5, C };\nBEGIN { print(C) }", "begin {(print C)}" },
	{ "#include <linux/path.h>\n#define N 5 + 1\nBEGIN { print(N * 2) }", "begin {(print (* (+ 5 1) 2))}" },
	{ "#ifndef BPFTRACE_HAVE_BTF\n#include <x.h>\nstruct y\n#endif\nBEGIN {}", "begin {}" },
	{ "#ifdef FOO\nbad bad\n#else\nEND {}\n#endif\nBEGIN {}", "end {}\nbegin {}" },
};

static const struct row lines[] = {
	{ "main", "main" }, { "libc:malloc size if size > 1000000", "libc:malloc size /(> size 1000000)/" },
	{ "call:ngx_http_process_request duration", "call:ngx_http_process_request duration" },
	{ "u:libc:/^pthread_mutex_(lock|unlock)$/", "u:libc:/^pthread_mutex_(lock|unlock)$/" },
	{ "exe:readline%return $retval:string", "exe:readline%return (cast string $retval)" },
	{ "@foo.c:42 i buf:string if i > 3", "@foo.c:42 i (cast string buf) /(> i 3)/" },
	{ "exe:@foo.c:42 i", "exe:@foo.c:42 i" },
	{ "t=f a -b *c", "t=f a (- b) (* c)" }, { "f a-b a - b", "f (- a b) (- a b)" }, { "f a * b, ", NULL },
	{ "f x=a+1 y=b:char $params $regs $stack", "f x=(+ a 1) y=(cast char b) $params $regs $stack" },
	{ "f p->x[2] (a + b) str(p, 4)", "f (index (-> p)x 2) (+ a b) (str p 4)" },
	{ "f p [2]", NULL }, { "f (int)x *(char *)p", "f (cast int x) (* (cast char* p))" },
	{ "f a ? b : c:int", "f (cast int (? a b c))" }, { "f if a == 1 && b", "f /(&& (== a 1) b)/" },
	{ "ns::S::f(int, char) const this", "ns::S::f(int, char) const this" },
	{ "f v:unsigned long w", "f (cast unsigned long v) w" },
};

static void test_expressions(void **state)
{
	char text[256], expect[256];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(expressions); i++) {
		snprintf(text, sizeof(text), "BEGIN { %s }", expressions[i].text);
		snprintf(expect, sizeof(expect), "begin {%s}", expressions[i].expect);
		check(&(struct row){ text, expect }, false);
	}
}

static void test_scripts(void **state)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(scripts); i++)
		check(&scripts[i], false);
}

static void test_lines(void **state)
{
	struct script *s;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		if (lines[i].expect) {
			check(&lines[i], true);
			continue;
		}
		assert_int_equal(line_parse(lines[i].text, NULL, &s), -EINVAL);
		script_free(s);
	}
}

/* Several errors a run: each at its own place. */
static void test_goes_on(void **state)
{
	static const char text[] = "BEGIN { $x = ; $y = 1 +; }\nEND { foo( }\nprofile:hz:99 { }\nBEGIN { 'ab' }\n";
	struct script *s;
	size_t i, lines_seen = 0;

	assert_int_equal(script_parse("t", text, strlen(text), &s), -EINVAL);
	for (i = 0; i < s->diags.list.n; i++)
		lines_seen |= 1u << s->diags.list.v[i].line;
	assert_int_equal(lines_seen, 2 | 4 | 8 | 16);
	assert_true(s->diags.errors >= 5);
	script_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expressions), cmocka_unit_test(test_scripts), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_goes_on),
	};

	return cmocka_run_group_tests_name("lang_parse", tests, NULL, NULL);
}
