/* SPDX-License-Identifier: MIT */
/*
 * Limits that may forbid a memfd. Its size counts as the size of a file, limited by the tracer's RLIMIT_FSIZE; and it has a
 * descriptor in the target for a moment, below the target's RLIMIT_NOFILE. Both limits are raised meanwhile, if permitted.
 */
#include "proc/arena/arena.h"

#include "base/err.h"
#include "proc/internal.h"

#define MORE 4096u	/* descriptors: numbers above a limit may be in use, if it was lowered */

/* Up to the hard limit for all users; beyond it with CAP_SYS_RESOURCE. */
bool limit_lift(pid_t pid, int what, rlim_t need, struct rlimit *ret_old)
{
	struct rlimit old, new;

	if (prlimit(pid, what, NULL, &old) < 0)
		return false;
	new = (struct rlimit){ old.rlim_max, old.rlim_max };
	if (new.rlim_max < need)
		new.rlim_cur = new.rlim_max = need;
	if (old.rlim_cur >= need || prlimit(pid, what, &new, NULL) < 0)
		return false;
	*ret_old = old;
	return true;
}

void limit_restore(pid_t pid, int what, const struct rlimit *old)
{
	prlimit(pid, what, old, NULL);
}

/* While held: raise the limit of descriptors. If the tracer is killed before it is restored, it stays raised. */
bool limit_descriptors(pid_t pid, struct rlimit *ret_old)
{
	struct rlimit now;

	if (prlimit(pid, RLIMIT_NOFILE, NULL, &now) < 0)
		return false;
	return limit_lift(pid, RLIMIT_NOFILE, MAX(now.rlim_max, now.rlim_cur + MORE), ret_old) ||
	       limit_lift(pid, RLIMIT_NOFILE, now.rlim_max, ret_old);
}
