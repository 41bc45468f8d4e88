/* SPDX-License-Identifier: MIT */
/*
 * A word in shared memory that the kernel changes when we die: an entry of our thread's list of robust
 * futexes. The list itself must not stand where a target could write, and all entries have the same
 * distance to their words; so the page with the word is mapped once more, right behind a private
 * page that holds the entry:
 *
 *	| private: entry at offset x | the shared page: word at offset x |
 */
#include "proc/keeper.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/arena.h"

#define PAGE 4096ul

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

/* Our view of a piece tells where in the file it stands. */
static int64_t file_offset(const struct arena *a, taddr at)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->pieces[i].here && at.v >= a->pieces[i].at.v && at.v - a->pieces[i].at.v < a->pieces[i].len)
			return a->pieces[i].offset + (at.v - a->pieces[i].at.v);
	return -1;
}

int keeper_open(struct arena *a, taddr word, struct keeper **ret_keeper)
{
	int64_t off = file_offset(a, word);
	struct keeper *k;
	int r = register_list();

	if (r < 0)
		return r;
	if (off < 0)
		return fail(-EFAULT, "a robust futex outside of the arena");
	k = xcalloc(1, sizeof(*k));
	k->pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (k->pages == MAP_FAILED ||
	    mmap(k->pages + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd,
		 off & ~(PAGE - 1)) == MAP_FAILED) {
		free(k);
		return fail(-errno, "no memory for a robust futex");
	}
	k->entry = (struct robust_list *)(k->pages + (off & (PAGE - 1)));
	__atomic_store_n((uint32_t *)(k->pages + PAGE + (off & (PAGE - 1))), syscall(SYS_gettid), __ATOMIC_RELEASE);
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
