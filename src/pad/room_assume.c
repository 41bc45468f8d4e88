/* SPDX-License-Identifier: MIT */
/*
 * The address space that a file would have if it were loaded: for `jab check` without a process. A program at fixed
 * addresses is low, with its heap after it; a PIE also has its heap after it, and free space below; a library is
 * among others.
 */
#include "pad/room.h"

#include <elf.h>
#include <string.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define PIE_BASE 0x555555554000ull
#define LIB_BASE 0x7fd000000000ull	/* the kernel leaves many GiB between libraries and stack */
#define TOP (arch_host()->user_top - 4096)

enum layout { LAYOUT_FIXED, LAYOUT_PIE, LAYOUT_LIBRARY };

/* Whether DT_FLAGS_1 marks a PIE; for a file from an old linker layout_of() decides by its name. */
static bool says_pie(const struct module *m)
{
	const Elf64_Ehdr *eh = (const void *)m->image;
	const Elf64_Phdr *ph;

	if (!m->image || m->image_size < sizeof(*eh) || eh->e_phentsize != sizeof(*ph) ||
	    eh->e_phoff % 8 || eh->e_phoff > m->image_size ||
	    (m->image_size - eh->e_phoff) / sizeof(*ph) < eh->e_phnum)
		return false;
	ph = (const void *)(m->image + eh->e_phoff);
	for (int i = 0; i < eh->e_phnum; i++) {
		const Elf64_Dyn *d;

		if (ph[i].p_type != PT_DYNAMIC || ph[i].p_offset % 8 || ph[i].p_offset > m->image_size ||
		    ph[i].p_filesz > m->image_size - ph[i].p_offset)
			continue;
		d = (const void *)(m->image + ph[i].p_offset);
		for (size_t k = 0; k < ph[i].p_filesz / sizeof(*d) && d[k].d_tag != DT_NULL; k++)
			if (d[k].d_tag == DT_FLAGS_1)
				return d[k].d_un.d_val & DF_1_PIE;
	}
	return false;
}

static enum layout layout_of(const struct module *m)
{
	const char *slash = m->path ? strrchr(m->path, '/') : NULL;
	const char *name = slash ? slash + 1 : m->path ? m->path : "";

	if (m->is_exec)
		return LAYOUT_FIXED;
	return says_pie(m) || !strstr(name, ".so") ? LAYOUT_PIE : LAYOUT_LIBRARY;
}

uint64_t room_assume_bias(const struct module *m)
{
	static const uint64_t base[] = { [LAYOUT_PIE] = PIE_BASE, [LAYOUT_LIBRARY] = LIB_BASE };
	enum layout l = layout_of(m);

	return l == LAYOUT_FIXED ? 0 : base[l] - (m->lo & -4096ull);
}

static void add(gap_list *gaps, uint64_t lo, uint64_t hi)
{
	if (lo < hi && hi <= TOP)
		*vec_add(gaps) = (struct gap){ lo, hi };
}

void room_assume(const struct module *m, gap_list *ret_gaps)
{
	uint64_t bias = room_assume_bias(m), lo = m->lo + bias, hi = m->hi + bias;

	switch (layout_of(m)) {
	case LAYOUT_FIXED:
		add(ret_gaps, 64 << 10, MIN(4 * MIB, lo) - (64 << 10));
		add(ret_gaps, hi + GIB, TOP - GIB);
		break;
	case LAYOUT_PIE:
		add(ret_gaps, 64 << 10, lo - MIB);
		add(ret_gaps, hi + GIB, LIB_BASE - GIB);
		break;
	case LAYOUT_LIBRARY:
		add(ret_gaps, PIE_BASE + 64 * GIB, lo - MIN(256 * MIB, arch_host()->jumps->reach / 4));
		add(ret_gaps, hi + 64 * MIB, TOP - 64 * MIB);
		break;
	}
}
