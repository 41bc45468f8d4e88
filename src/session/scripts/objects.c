/* SPDX-License-Identifier: MIT */
/* A script's probes name libraries as the loader knows them: without targets, their files say who is meant. */
#include <stdlib.h>
#include <string.h>
#include "session/scripts/units.h"

/* Libraries that are empty since libc has what was in them. */
static bool is_in_libc(struct jab *j, const struct probe_spec *spec, const char *path)
{
	static const char *const emptied[] = { "libpthread", "libdl", "librt", "libutil", "libanl" };
	struct module *m = NULL;
	func_list list = { 0 };
	bool has;

	for (size_t i = 0; i < ARRAY_SIZE(emptied); i++)
		if (!strncmp(spec->object, emptied[i], strlen(emptied[i])))
			m = file_on_disk(j, path);
	if (!m)
		return false;
	has = spec_match(spec, m, &list) > 0;
	vec_free(&list);
	return !has;
}

/* Without targets, the file that the loader has for a name is what the probe is about. */
void objects_find(struct jab *j)
{
	for (size_t i = 0; i < j->probes.n; i++) {
		struct probe_spec *spec = j->probes.v[i].spec;
		char *path = spec->object && !strchr(spec->object, '/') ? find_object_path(spec->object) : NULL;

		if (!path)
			continue;
		if (is_in_libc(j, spec, path)) {
			free(path);
			path = find_object_path("libc");
		}
		free(spec->object);
		spec->object = path;
	}
}
