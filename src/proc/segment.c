/* SPDX-License-Identifier: MIT */
/*
 * Shared memory that a thread of the target can map by a number: a System V segment. A descriptor would
 * be seen by the target's other threads, which could fork with it or find it where they expected
 * another one; so they would have to wait. Here nobody sees anything but new mappings, and the record of how
 * to undo things is in the memory before the target has it.
 *
 * It is marked for removal as soon as we have it ourselves, so that nothing is left when its last user
 * ends, however that happens. The key is only for its name: mappings are called "/SYSV<key>".
 */
#include "proc/arena.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"

#define KEYS 256

static int get_key(key_t key, size_t size)
{
	return shmget(key, size, IPC_CREAT | IPC_EXCL | SHM_NORESERVE | 0700);
}

/* Whether nobody has it, nor is going to. */
static bool drop_key(key_t key)
{
	struct shmid_ds ds;
	int id = shmget(key, 0, 0);

	return id >= 0 && shmctl(id, IPC_STAT, &ds) == 0 && !ds.shm_nattch && kill(ds.shm_cpid, 0) < 0 &&
	       errno == ESRCH && shmctl(id, IPC_RMID, NULL) == 0;
}

/* A key is taken for microseconds only, unless somebody was killed just then. */
static int get_segment(size_t size)
{
	for (int i = 0; i < KEYS; i++) {
		key_t key = SEGMENT_KEY + (getpid() + i) % KEYS;
		int id = get_key(key, size);

		if (id < 0 && errno == EEXIST && drop_key(key))
			id = get_key(key, size);
		if (id >= 0 || errno != EEXIST)
			return id;
	}
	return -1;
}

/* The target's owner must be allowed to map it; whoever is not us has to be made its owner. */
static bool give_to(struct proc *p, int id)
{
	char path[64], status[4096], *line = NULL;
	struct shmid_ds ds;
	uid_t euid;

	if (proc_path(p, "status", path, sizeof(path)) == 0 && file_read(path, status, sizeof(status)) > 0)
		line = strstr(status, "\nUid:");
	if (!line || sscanf(line, "\nUid: %*u %u", &euid) != 1)
		return false;
	if (euid == geteuid())
		return true;
	if (shmctl(id, IPC_STAT, &ds) < 0)
		return false;
	ds.shm_perm.uid = euid;
	return shmctl(id, IPC_SET, &ds) == 0;
}

static bool make_here(struct arena *a)
{
	int id = get_segment(a->size);
	void *view;

	if (id < 0)
		return false;
	view = shmat(id, NULL, 0);
	if (view == (void *)-1 || !give_to(a->p, id)) {
		shmctl(id, IPC_RMID, NULL);
		if (view != (void *)-1)
			shmdt(view);
		return false;
	}
	shmctl(id, IPC_RMID, NULL);
	madvise(view, a->size, MADV_DONTFORK);	/* a child of ours would look like one of the target's */
	a->shm = id;
	a->head = view;
	return true;
}

/*
 * Numbers mean something within a namespace: the segment must be made in the target's. ret_back: -1, or
 * the way back to ours.
 */
static bool enter_ipc(struct proc *p, int *ret_back)
{
	struct stat ours, theirs;
	char path[64];
	int to;

	*ret_back = -1;
	if (proc_path(p, "ns/ipc", path, sizeof(path)) < 0 || stat(path, &theirs) < 0 ||
	    stat("/proc/thread-self/ns/ipc", &ours) < 0)
		return false;
	if (ours.st_ino == theirs.st_ino)
		return true;
	*ret_back = open("/proc/thread-self/ns/ipc", O_RDONLY | O_CLOEXEC);
	to = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_back < 0 || to < 0 || setns(to, CLONE_NEWIPC) < 0) {
		if (*ret_back >= 0)
			close(*ret_back);
		*ret_back = -1;
		if (to >= 0)
			close(to);
		return false;
	}
	close(to);
	return true;
}

bool segment_never;

bool segment_make(struct arena *a)
{
	int back;
	bool made;

	if (segment_never || !enter_ipc(a->p, &back))
		return false;
	made = make_here(a);
	if (back >= 0) {
		if (setns(back, CLONE_NEWIPC) < 0)
			log_warn("jab can't get back to its own IPC namespace: %s", strerror(errno));
		close(back);
	}
	return made;
}

void segment_drop(struct arena *a)
{
	if (a->shm < 0)
		return;
	munmap(a->head, a->size);
	a->head = NULL;
	a->shm = -1;
}

bool segment_map(const struct arena *a, uint8_t *at, size_t len, uint64_t offset)
{
	return mremap((uint8_t *)a->head + offset, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED;
}
