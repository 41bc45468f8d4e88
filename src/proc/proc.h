/* SPDX-License-Identifier: MIT */
/*
 * A live process, from outside: its threads, mappings and memory; stopping it, borrowing one of its
 * threads for a system call, sharing memory with it, and writing its text. The laws of this folder:
 * a target that we leave, also by our own death at any instruction, goes on as if we had never been
 * there; no call of the target sees an EINTR because of us; nothing is computed while it is stopped.
 */
#ifndef JAB_PROC_H
#define JAB_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "arch/arch.h"
#include "base/addr.h"
#include "base/mem.h"

struct map {
	uint64_t start, end, offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t prot;		/* PROT_READ... */
	bool shared;
	char *path;		/* "" for anonymous; "[stack]"...; " (deleted)" is cut off and remembered */
	bool deleted;
};

typedef VEC(struct map) map_list;

struct thread {
	pid_t tid;
	pid_t pid;		/* differs from proc.pid for a process that shares the memory */
	bool stopped;		/* by us, now */
	bool held;		/* not stopped, but asleep in vfork until a child that we hold goes on:
				   regs has only its call, sp and pc and can't be changed */
	bool gone;
	bool asleep;		/* stopped by a signal before we came: SIGCONT alone lets it run */
	struct thread_regs regs;	/* valid while stopped */
	bool regs_changed;	/* written back when it is let go */
	bool seized;		/* the rest is threads.c's own */
	uint64_t seen;		/* when it was found */
	uint64_t deep_since;	/* when it was first seen in an uninterruptible sleep, in this stop; 0: not */
	uint8_t vfork_looks;	/* how often in a row it was seen asleep in vfork */
	int64_t eintr_nr;	/* call that we rewound so that it does not report EINTR; -1: none */
	uint64_t eintr_at;	/* its `syscall` instruction */
	uint64_t mask;		/* signal mask; valid if eintr_nr >= 0 */
	struct {		/* the call in which it slept before it was interrupted, where its registers don't tell; nr -1: none */
		int64_t nr;
		uint64_t arg0, sp, pc;
	} before;
};

/* What one process (all threads agree) uses for restartable sequences. */
/* all: every thread is registered. Those who are not may be new: C libraries do it first of all. */
struct rseq_conf { bool usable, all; int32_t offset; uint32_t signature; };

struct proc {
	pid_t pid;
	const struct arch *arch;
	int mem;		/* /proc/PID/task/TID/mem, read and write */
	bool started_by_us;
	bool gone;		/* died or executed another program */
	map_list maps;		/* as of the last proc_read_maps() */
	VEC(struct thread) threads; /* as of the last proc_stop() */
	uint64_t start_time;	/* field 22 of stat: tells a reused pid from ours */
	char exe[4096];		/* target of /proc/PID/exe, as seen in the target's root */
	char root[64];		/* /proc/PID/root */
	uint64_t stopped_at, pause_ns; /* longest pause so far, stop to resume */
	void *priv;
};

static inline uint64_t thread_sp(const struct proc *p, const struct thread *t)
{
	return regs_sp(p->arch, &t->regs);
}

/*
 * Open a process and refuse, each with its own sentence: no such process, zombie, kernel thread,
 * 32-bit, another CPU, no permission (names uid, capability or ptrace_scope, whichever it is),
 * traced already (names the tracer), ourselves. Touches nothing in the target.
 */
int proc_open(pid_t pid, struct proc **ret_proc);
void proc_close(struct proc *p);	/* lets go of everything still held */
void proc_settle(void);		/* of closed ones: lets go of threads that could not be stopped then, and have stopped since */

/* Pids of processes whose name (comm or basename of exe) is `name`. */
typedef VEC(pid_t) pid_list;
int proc_find(const char *name, pid_list *ret_pids);
int proc_find_users(const char *path, pid_list *ret_pids);	/* may be none */

/* Its user (the real one) and what it executes, as the kernel says. -ESRCH: it has ended. */
int proc_identity(pid_t pid, uid_t *ret_uid, char *exe, size_t room);

/*
 * Start a program and hold it at its first own instruction: the entry point, after the loader has
 * mapped and relocated the libraries. Until then our death ends it too; afterwards it never does.
 * It is left stopped (as by proc_stop); proc_resume() lets it run. Errors of execve are told as such.
 */
int proc_spawn(char *const argv[], struct proc **ret_proc);
int proc_child_ended(struct proc *p, int *ret_status);	/* of a child of ours: 1 and the wait status, or 0 */

int proc_path(struct proc *p, const char *name, char *buf, size_t len);	/* in /proc, of a live thread */
int proc_read_maps(struct proc *p);
const struct map *proc_map_at(const struct proc *p, uint64_t addr);
bool proc_alive(struct proc *p);	/* same process, same program */

bool proc_text_is_files(const struct proc *p, uint64_t lo, uint64_t hi);	/* known in this stop: no page there is its own copy */
bool proc_fills_pages(struct proc *p);	/* has a userfaultfd: an access of ours may have to wait for its threads */
int proc_read(struct proc *p, taddr at, void *to, size_t len);
int proc_write(struct proc *p, taddr at, const void *from, size_t len);	/* also into read-only text */

/*
 * Stop every thread, those born meanwhile and those of every other process that shares the memory
 * (vfork children, CLONE_VM). Registers are read. Restartable sequences in which a thread stands are
 * aborted only if its registers get changed. -EBUSY with a sentence if a thread can't be stopped
 * within the deadline; then nothing is stopped any more. While one is in an uninterruptible sleep, the others
 * are held for some milliseconds only and run until it wakes. Stops nest: the last proc_resume() lets go.
 */
int proc_stop(struct proc *p);
int proc_stop_now(struct proc *p);	/* -EBUSY at once if one is in an uninterruptible sleep: not waited for */
int proc_resume(struct proc *p);
bool proc_is_still(const struct proc *p);	/* all of its threads are held, and none is borrowed */

/* While stopped: make the target do a system call. Returns 0 and the call's raw result. */
int proc_syscall(struct proc *p, long nr, const uint64_t args[6], int64_t *ret_value);

/* Does it lock memory (mlockall): then every page that is mapped is there, wanted or not. */
bool proc_locks_memory(struct proc *p);

/*
 * System calls in the text with their number right in front, of some kinds: rt_sigreturn, clone, vfork,
 * clone3, execve and execveat, those that change mappings, and arch_prctl; FAR_ARCH_PRCTL if other instructions come in
 * between (at most FAR_LEN bytes in all), and for whatever else can change a thread pointer. And glibc's syscall(), which can make each of them: its
 * number is ANY_CALL. The list lives with p until the next call.
 */
struct text_call {
	taddr at;		/* of an instruction not far before the syscall, mostly that which loads the number */
	uint32_t nr;
	uint8_t len;		/* of this instruction; 0: there is no place for a jump */
	uint8_t bytes[7];
};
int proc_text_calls(struct proc *p, const struct text_call **ret_calls, size_t *ret_n);

/* While stopped: does one of its threads have system calls dispatched to the program itself (as Wine does)? */
bool proc_dispatches(struct proc *p);
/* While stopped: may a thread of it not read the time stamp counter? One is asked, by a call of its own; word: u32 there, for the answer. */
bool proc_is_timeless(struct proc *p, taddr word);

int proc_rseq(struct proc *p, struct rseq_conf *ret_conf);	/* while stopped; usable: those who are registered agree */
int proc_rseq_unregister(struct proc *p, const struct rseq_conf *conf);	/* those who are not find no CPU in their blocks */

/*
 * While stopped: where every thread keeps its own thread id, as its pid namespace knows it, as an
 * offset from the thread pointer. -ENOENT: there is no such place.
 */
int proc_tid_offset(struct proc *p, int32_t *ret_off);

/*
 * Shared memory, one object per target (see undo.h for its first pages), mapped in pieces.
 * All pieces are made in one stop; a target that is held already stays held. The undo record has
 * room for max_edits edits, over all text_apply() calls together. Afterwards every page of the data
 * and table pieces, but for what they have to spare, is there and charged to us; for code, rings and the rest arena_touch() does
 * that, as far as is needed.
 *
 * A ring is seen at addresses of len + (len - RING_HEAD_SIZE) bytes, there and here: its head, its
 * data, and the same data once more. The private piece and the scratch one are not shared, with us neither; a
 * fork finds zeros in the first, a copy in the other. We reach them by proc_read() and proc_write(). There is at
 * most one of each.
 */
enum piece_kind {
	PIECE_DATA,		/* RW there and here */
	PIECE_CODE,		/* RX there, RW here; the address must be given */
	PIECE_TABLE,		/* read-only there, RW here: what pads take as addresses and limits */
	PIECE_RING,		/* RW; len = RING_HEAD_SIZE + size of the data */
	PIECE_SCRATCH,		/* RW there, here == NULL */
	PIECE_PRIVATE,		/* the same */
};

struct piece {
	taddr at;		/* page-aligned address there; v == 0: chosen, and it is filled in */
	size_t len;		/* page multiple */
	size_t spare;		/* of a data or table piece: so much of its end is not used yet */
	enum piece_kind kind;
	uint8_t *here;		/* out: our own view */
	uint64_t offset;	/* out: in what is shared */
};

struct gap { uint64_t lo, hi; };
typedef VEC(struct gap) gap_list;

struct arena;
int arena_create(struct proc *p, struct piece *pieces, size_t n, size_t max_edits, struct arena **ret_arena);
uint8_t *arena_view(struct arena *a, taddr at);	/* our view of an address there; NULL: not in a piece */
int arena_touch(struct arena *a, taddr at, size_t len);	/* pages that will be used: before they are */
/*
 * What is touched is mapped there, too, so that no event takes a page fault. Of a program that may end at once it is not, until
 * arena_map_rest().
 */
void arena_map_later(struct arena *a);
void arena_map_rest(struct arena *a);
const struct rseq_conf *arena_rseq(const struct arena *a);	/* as of the stop in which it was made */
bool arena_is_timeless(struct arena *a, taddr word);	/* while stopped: proc_is_timeless(), or what is known since it was made in the same stop */
int arena_tid(const struct arena *a, int32_t *ret_off);	/* proc_tid_offset() as of the same stop */
/*
 * While stopped: is every thread, and whatever its signal handlers interrupted, outside of the pads and of
 * these ranges? False also where that can't be said.
 */
bool arena_is_quiet(struct arena *a, const struct gap *ranges, size_t n);
void arenas_held(struct arena *const *arenas, size_t n, bool *ret_held);	/* does any process still map it? Looks at all of them */
int arena_destroy(struct arena *a);	/* no text was changed, or it is back: unmap there and here; frees a */
void arena_forget(struct arena *a);	/* only our side; counters stay readable until then; frees a, NULL is fine */

/*
 * Of the private or the scratch piece, not yet used: zeros are written there, so that no probe has to take memory for it.
 * -ENOSPC: the target's memory cgroup has no room for so much, and the kernel would have killed it.
 */
int proc_take_memory(struct proc *p, taddr at, size_t len);
bool proc_memory_is_limited(struct proc *p);

/*
 * Address ranges in which pieces may be mapped: gaps between mappings, without the heap's room above
 * the break, the stack's room below its limit, the first 64 KiB and what mmap_min_addr forbids.
 */
int proc_gaps(struct proc *p, gap_list *ret_gaps);

#endif
