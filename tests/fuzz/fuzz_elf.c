/* SPDX-License-Identifier: MIT */
/* Damaged ELF files: each is opened from memory and from a descriptor, and everything is asked. */
#include "base/err.h"
#include "sym/sym.h"
#include "sym/unwind/unwind.h"

#include <sys/mman.h>
#include <unistd.h>

#include "mutate.h"

static volatile uint64_t sink;	/* what was read must not be optimised away */

static void look(void *arg, uint64_t addr)
{
	sink += addr;
}

static void ask_spec(struct module *m, const char *text)
{
	struct probe_spec *spec;
	func_list list = { 0 };

	if (spec_parse(text, &spec) < 0)
		abort();
	sink += spec_match(spec, m, &list);
	sink += spec_matches_object(spec, m->path, true);
	vec_free(&list);
	spec_free(spec);
}

static void ask_functions(struct module *m)
{
	size_t i, k;

	for (i = 0; i < m->funcs.n; i++) {
		const struct func *f = &m->funcs.v[i];
		const uint8_t *p = module_bytes(m, f->addr, f->size);

		/* what callers may rely on */
		if (!f->size || !p || f->addr + f->size <= f->addr || (i && f[-1].addr >= f->addr))
			abort();
		sink += p[0] + p[f->size - 1];
		for (k = 0; k < f->nalias; k++)
			if (m->names.v[f->alias + k].func != i)
				abort();
		sink += (uintptr_t)module_func_at(m, f->addr + f->size - 1);
		if (i % 16 == 0)
			sink += strlen(func_name(m, f));
	}
}

static void ask_ranges(struct module *m)
{
	const struct rseq_range *rseqs;
	const struct fde_range *fdes;
	const struct irel *irels;
	size_t n = module_fdes(m, &fdes), i;

	for (i = 0; i < n; i++)
		if (fdes[i].lo >= fdes[i].hi || (i && fdes[i - 1].lo > fdes[i].lo))
			abort();
	for (i = 0; i < n && i < 50; i++)
		module_landing_pads(m, fdes[i].lo, fdes[i].hi, look, NULL);
	module_landing_pads(m, 0, UINT64_MAX, look, NULL);
	module_text_pointers(m, look, NULL);
	for (i = module_irelative(m, &irels); i > 0; i--)
		sink += irels[i - 1].slot;
	for (i = module_rseqs(m, &rseqs); i > 0; i--)
		sink += rseqs[i - 1].start;
}

static void ask_everything(struct module *m)
{
	uint64_t lo, hi;
	char out[200];

	ask_functions(m);
	ask_ranges(m);
	sink += module_unwind(m, &lo, &hi) != NULL;
	ask_spec(m, "*");
	ask_spec(m, "ns::S::f(int)");
	ask_spec(m, "*read*");
	ask_spec(m, "/^m.*n$/");
	ask_spec(m, "0x401000");
	suggest_names(&m, 1, "mian", 5, out, sizeof(out));
	module_func_at(m, 0);
	module_func_at(m, UINT64_MAX);
	sink += module_bytes(m, m->lo, 1) != NULL;
}

static int fuzz_one(const uint8_t *p, size_t size)
{
	struct module *m;
	int r, fd;

	r = module_open_memory(p, size, "fuzz", &m);
	if (r < 0)
		return r;
	ask_everything(m);
	module_close(m);
	/* Once more through a file: mapped pages, and the search for debug files. */
	if (size % 16 == 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		if (fd < 0 || write(fd, p, size) != (ssize_t)size)
			abort();
		r = module_open_fd(fd, "", "/nowhere/fuzz", &m);
		if (r == 0)
			ask_everything(m);
		if (r == 0)
			module_close(m);
		close(fd);
	}
	return r;
}

#ifndef WITH_LIBFUZZER
static struct seed fuzz_seed(size_t i)
{
	static const char *const files[] = { "/proc/self/exe", "/bin/true", "/lib64/ld-linux-x86-64.so.2" };

	return i < ARRAY_SIZE(files) && access(files[i], R_OK) == 0 ? read_seed(files[i]) : (struct seed){ 0 };
}
#endif
