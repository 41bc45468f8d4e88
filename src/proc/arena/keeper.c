/* SPDX-License-Identifier: MIT */
/*
 * A word in shared memory that the kernel changes when the tracer dies: a futex in the robust list of the tracer's
 * thread. The list entries must not be where the target could write them, and all entries have the same
 * distance to their futexes; so the page with the word is mapped a second time, right after a private
 * page that holds the entry. The word itself is in memory that the target reads only; the kernel changes it if it holds the
 * tid of the tracer's thread:
 *
 *	| private: entry at offset x | the shared page: word at offset x |
 */
#include "arch/page.h"
#include "proc/arena/keeper.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/arena/arena.h"


struct keeper {
	uint8_t *pages;
	struct robust_list *entry;
};

static __thread struct robust_list_head list;

static int register_list(void)
{
	if (list.list.next)
		return 0;
	list.list.next = &list.list;
	list.futex_offset = PAGE;
	if (syscall(SYS_set_robust_list, &list, sizeof(list)) < 0)
		return fail(-errno, "no list of robust futexes");
	return 0;
}

int keeper_open(struct arena *a, taddr word, struct keeper **ret_keeper)
{
	uint8_t *view = arena_view(a, word);
	uint64_t off = word.v & (PAGE - 1);
	struct keeper *k;
	int r = register_list();

	if (r < 0)
		return r;
	if (!view)
		return fail(-EFAULT, "a robust futex outside of the arena");
	k = xcalloc(1, sizeof(*k));
	k->pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Old size 0: mremap() makes a second mapping of the shared page, and the first one stays. */
	if (k->pages == MAP_FAILED ||
	    mremap(view - off, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, k->pages + PAGE) == MAP_FAILED) {
		if (k->pages != MAP_FAILED)
			munmap(k->pages, 2 * PAGE);
		free(k);
		return fail(-errno, "no memory for a robust futex");
	}
	k->entry = (struct robust_list *)(k->pages + off);
	__atomic_store_n((uint32_t *)(k->pages + PAGE + off), syscall(SYS_gettid), __ATOMIC_RELEASE);
	k->entry->next = list.list.next;
	list.list.next = k->entry;
	*ret_keeper = k;
	return 0;
}

void keeper_close(struct keeper *k)
{
	if (!k)
		return;
	for (struct robust_list *e = &list.list; e->next && e->next != &list.list; e = e->next)
		if (e->next == k->entry) {
			e->next = k->entry->next;
			break;
		}
	munmap(k->pages, 2 * PAGE);
	free(k);
}
