/* SPDX-License-Identifier: MIT */
/* Names for stripped files: debug files by build id and by link, below a root, and mini debug info. */
#include "base/err.h"	/* before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elfmake.h"
#include "sym/sym.h"

static char root[] = "/tmp/jab-test-sym-XXXXXX";

static void write_file(const char *path, const void *p, size_t n)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "mkdir -p $(dirname %s%s)", root, path);
	assert_int_equal(system(full), 0);
	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	fclose(f);
}

static size_t make_program(struct made *e, const char *id, const char *link, uint32_t crc)
{
	static const struct made_fde fdes[] = { { 0x1000, 0x40, 0, 0 } };
	char debuglink[12] = "";

	made_start(e);
	made_frames(e, fdes, 1);
	if (id)
		made_build_id(e, id);
	if (link) {
		strcpy(debuglink, link);	/* of 8 bytes with its end */
		memcpy(debuglink + 8, &crc, 4);
		made_data(e, ".gnu_debuglink", SHT_PROGBITS, debuglink, 12);
	}
	return made_finish(e, ET_DYN);
}

static size_t make_debug(struct made *e, const char *id, const char *name)
{
	struct made_symbol s = { name, 0x1000, 0x40, STT_FUNC, STB_LOCAL };

	made_start(e);
	made_symbols(e, SHT_SYMTAB, &s, 1);
	if (id)
		made_build_id(e, id);
	return made_finish(e, ET_DYN);
}

static void expect_function(const char *path, const char *name, int source)
{
	struct module *m;

	assert_int_equal(module_open(root, path, &m), 0);
	assert_string_equal(m->path, path);
	assert_int_equal(m->funcs.n, 1);
	assert_string_equal(func_name(m, &m->funcs.v[0]), name);
	assert_int_equal(m->funcs.v[0].source, source);
	module_close(m);
}

#define ID "abcdefghijklmnopqrst"
#define ID_FILE "/usr/lib/debug/.build-id/61/62636465666768696a6b6c6d6e6f7071727374.debug"

static void test_debug_files(void **state)
{
	static struct made prog, debug;
	size_t n, size = make_debug(&debug, ID, "by_id");
	char link[512];

	assert_non_null(mkdtemp(root));
	n = make_program(&prog, ID, NULL, 0);
	write_file("/bin/prog", prog.p, n);
	expect_function("/bin/prog", "func_0x1000", FROM_EH_FRAME);
	write_file(ID_FILE, debug.p, size);
	expect_function("/bin/prog", "by_id", FROM_DEBUG_FILE);

	/* An absolute link in a container leads to the container's file. */
	snprintf(link, sizeof(link), "%s/bin/link", root);
	assert_int_equal(symlink("/bin/prog", link), 0);
	expect_function("/bin/link", "by_id", FROM_DEBUG_FILE);

	/* The right place but another program's. */
	size = make_debug(&debug, "another build id....", "wrong");
	write_file(ID_FILE, debug.p, size);
	expect_function("/bin/prog", "func_0x1000", FROM_EH_FRAME);

	size = make_debug(&debug, NULL, "by_link");
	n = make_program(&prog, NULL, "p.debug", lzma_crc32(debug.p, size, 0));
	write_file("/bin/linked", prog.p, n);
	write_file("/bin/.debug/p.debug", debug.p, size);
	expect_function("/bin/linked", "by_link", FROM_DEBUG_FILE);
	debug.p[0x1800] ^= 1;
	write_file("/bin/.debug/p.debug", debug.p, size);
	expect_function("/bin/linked", "func_0x1000", FROM_EH_FRAME);
	snprintf(link, sizeof(link), "rm -r %s", root);
	assert_int_equal(system(link), 0);
}

static void test_mini_debug(void **state)
{
	static const struct made_fde fdes[] = { { 0x1000, 0x40, 0, 0 } };
	static struct made prog, debug;
	static uint8_t packed[8192];
	size_t size = make_debug(&debug, NULL, "mini"), n = 0;
	struct module *m;
	int damaged;

	assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, debug.p, size, packed, &n,
						 sizeof(packed)), LZMA_OK);
	for (damaged = 0; damaged < 2; damaged++) {
		packed[n / 2] ^= damaged;
		made_start(&prog);
		made_frames(&prog, fdes, 1);
		made_data(&prog, ".gnu_debugdata", SHT_PROGBITS, packed, n);
		assert_int_equal(module_open_memory(prog.p, made_finish(&prog, ET_DYN), "mini", &m), 0);
		assert_string_equal(func_name(m, &m->funcs.v[0]), damaged ? "func_0x1000" : "mini");
		module_close(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_debug_files), cmocka_unit_test(test_mini_debug),
	};

	return cmocka_run_group_tests_name("debugfile", tests, NULL, NULL);
}
