/* SPDX-License-Identifier: MIT */
/* Whether an object name matches a file: "libc" matches /usr/lib/x86_64-linux-gnu/libc.so.6. */
#include "sym/priv.h"

#include <ctype.h>
#include <limits.h>

/* What may follow a library's name: nothing, .so, .so.6, -2.36.so */
static bool is_version_tail(const char *object, const char *rest)
{
	if (!*rest)
		return true;
	if (strstr(object, ".so"))
		return rest[0] == '.' && isdigit((unsigned char)rest[1]);
	if (strncmp(rest, ".so", 3) == 0)
		return rest[3] == 0 || rest[3] == '.';
	return rest[0] == '-' && isdigit((unsigned char)rest[1]) && strstr(rest, ".so");
}

/* /lib and /usr/lib are the same directory on most systems; the target's maps have the real one. */
static bool same_path(const char *a, const char *b)
{
	if (strncmp(a, "/usr/", 5) == 0)
		a += 4;
	if (strncmp(b, "/usr/", 5) == 0)
		b += 4;
	return strcmp(a, b) == 0;
}

static bool path_matches(const char *object, const char *path)
{
	char real[PATH_MAX];

	return same_path(object, path) || (realpath(object, real) && same_path(real, path));
}

static bool matches(const char *object, const char *path)
{
	const char *base = strrchr(path, '/');
	size_t len = strlen(object);

	base = base ? base + 1 : path;
	if (strcmp(object, base) == 0)
		return true;
	if (strpbrk(object, "*?["))
		return strchr(object, '/') ? glob_match(object, path, strlen(path)) :
					     glob_match(object, base, strlen(base));
	if (strchr(object, '/'))
		return path_matches(object, path);
	if (*base == '[')		/* [vdso] */
		return strncmp(object, base + 1, len) == 0 && strcmp(base + 1 + len, "]") == 0;
	return strncmp(object, base, len) == 0 && is_version_tail(object, base + len);
}

bool spec_matches_object(const struct probe_spec *spec, const char *path, bool is_exe)
{
	static const char gone[] = " (deleted)";
	size_t len = strlen(path), cut = sizeof(gone) - 1;
	char *clean;
	bool yes;

	if (!spec->object || strcmp(spec->object, "*") == 0)
		return true;
	if (strcmp(spec->object, "exe") == 0)
		return is_exe;
	if (len <= cut || strcmp(path + len - cut, gone) != 0)
		return matches(spec->object, path);
	clean = xstrndup(path, len - cut);
	yes = clean && matches(spec->object, clean);
	free(clean);
	return yes;
}
