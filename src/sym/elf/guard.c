/* SPDX-License-Identifier: MIT */
/*
 * A read of a mapped file beyond its end raises SIGBUS, and a file can be truncated at any time. The handler maps
 * zeros over the rest of that mapping and records it; the read continues, parsers find a damaged file, and
 * content_check() reports why. The handler is installed only while a file is mapped. A SIGBUS of another cause is
 * passed to the previous handler.
 */
#include "arch/page.h"
#include "sym/priv.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define MOST_GUARDED 1024

/*
 * A slot with lo of 0 is free. lo is written last and cleared first, since the handler may run at any time: the
 * sequentially consistent store of lo in guard_add() pairs with the load in find(), so a slot with lo set has its
 * hi.
 */
static struct guarded {
	atomic_uintptr_t lo, hi;
	atomic_bool hit;
} slots[MOST_GUARDED];
static size_t used;
static bool installed;
static struct sigaction before;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct guarded *find(uintptr_t at)
{
	for (size_t i = 0; i < MOST_GUARDED; i++) {
		uintptr_t lo = atomic_load(&slots[i].lo);

		if (lo && at >= lo && at < atomic_load(&slots[i].hi))
			return &slots[i];
	}
	return NULL;
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(sig, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(sig);
	else
		signal(sig, SIG_DFL);	/* the instruction is executed again and ends the process */
}

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr & -PAGE;
	struct guarded *g = info->si_code == BUS_ADRERR ? find((uintptr_t)info->si_addr) : NULL;
	int err = errno;

	if (g && mmap((void *)at, atomic_load(&g->hi) - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	    MAP_FAILED)
		atomic_store(&g->hit, true);
	else
		pass_on(sig, info, context);
	errno = err;
}

static bool install(void)
{
	struct sigaction sa = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	if (!installed)
		installed = sigaction(SIGBUS, &sa, &before) == 0;
	return installed;
}

/* If another handler was installed meanwhile, which may call this one, both stay. */
static void uninstall(void)
{
	struct sigaction now;

	if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)
		installed = sigaction(SIGBUS, &before, NULL) != 0;
}

bool guard_add(const void *p, size_t size)
{
	bool added = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MOST_GUARDED && !added; i++) {
		if (atomic_load(&slots[i].lo))
			continue;
		if (!used && !install())
			break;
		used++;
		atomic_store(&slots[i].hi, (uintptr_t)p + size);
		atomic_store(&slots[i].hit, false);
		atomic_store(&slots[i].lo, (uintptr_t)p);
		added = true;
	}
	pthread_mutex_unlock(&lock);
	return added;
}

bool guard_hit(const void *p)
{
	const struct guarded *g = find((uintptr_t)p);

	return g && atomic_load(&g->hit);
}

void guard_remove(const void *p)
{
	struct guarded *g;

	pthread_mutex_lock(&lock);
	g = find((uintptr_t)p);
	if (g) {
		atomic_store(&g->lo, 0);
		if (!--used)
			uninstall();
	}
	pthread_mutex_unlock(&lock);
}
