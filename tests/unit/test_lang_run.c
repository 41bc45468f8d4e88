/* SPDX-License-Identifier: MIT */
/*
 * Whole scripts: tests/lang/ok/NAME.bt must print NAME.out, and tests/lang/err/NAME.bt must be refused
 * with the text of NAME.msg. With a file's name instead of a folder, prints what it gives.
 */
#include <dirent.h>
#include <errno.h>

#include "lang_run.h"

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct bytes b = { 0 };
	char buf[4096];
	size_t n;

	if (!f)
		return NULL;
	while ((n = fread(buf, 1, sizeof(buf), f)))
		bytes_add(&b, buf, n);
	bytes_add(&b, "", 1);
	fclose(f);
	return (char *)b.p;
}

static int check_one(const char *dir, const char *file, const char *suffix)
{
	char *path = xasprintf("%s/%s", dir, file), *expected_path, *text, *expect, *got;
	int bad;

	expected_path = xasprintf("%.*s%s", (int)strlen(path) - 3, path, suffix);
	text = read_all(path);
	expect = read_all(expected_path);
	got = text ? run_script(file, text, false) : xstrdup("");
	bad = !expect || strcmp(got, expect) != 0;
	if (bad)
		printf("not ok %s\n--- expected\n%s--- got\n%s---\n", file, expect ? expect : "(no file)\n", got);
	free(path);
	free(expected_path);
	free(text);
	free(expect);
	free(got);
	return bad;
}

static int only_scripts(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 3 && strcmp(d->d_name + n - 3, ".bt") == 0;
}

static int check_dir(const char *root, const char *sub, const char *suffix)
{
	char *dir = xasprintf("%s/%s", root, sub);
	struct dirent **names;
	int n = scandir(dir, &names, only_scripts, alphasort), i, bad = 0;

	for (i = 0; i < n; i++) {
		bad += check_one(dir, names[i]->d_name, suffix);
		free(names[i]);
	}
	printf("%s: %d scripts, %d bad\n", sub, n, bad);
	if (n > 0)
		free(names);
	free(dir);
	return bad || n <= 0;
}

int main(int argc, char **argv)
{
	char *text, *out;
	size_t n = argc > 1 ? strlen(argv[1]) : 0;

	if (argc < 2)
		return 2;
	if (n > 3 && strcmp(argv[1] + n - 3, ".bt") == 0) {
		text = read_all(argv[1]);
		if (!text)
			return 2;
		out = run_script(strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1], text, false);
		fputs(out, stdout);
		free(out);
		free(text);
		return 0;
	}
	return check_dir(argv[1], "ok", ".out") + check_dir(argv[1], "err", ".msg");
}
