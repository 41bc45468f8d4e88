/* SPDX-License-Identifier: MIT */
/*
 * A live process, seen by its tracer: its threads, mappings and memory; stopping it, borrowing one of its
 * threads for a system call, sharing memory with it, and writing its text. "We" is the tracer. The laws of this
 * folder: a target that the tracer leaves, also by being killed at any instruction, goes on as if it had never been
 * traced; no system call of the target returns EINTR because of the tracer; nothing is computed while it is stopped.
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
	char *path;		/* "" for anonymous memory; "[stack]"...; without " (deleted)" */
	bool deleted;		/* the file has been unlinked */
};

typedef VEC(struct map) map_list;

struct thread {
	pid_t tid;
	pid_t pid;		/* its process; not proc.pid for a thread of another process that shares the memory */
	bool stopped;		/* in a ptrace stop now */
	bool held;		/* not stopped, but asleep in vfork until its child, which is stopped, goes on:
				   regs has only its call, sp and pc and can't be changed */
	bool gone;		/* it has ended, or does not share the memory any more */
	bool asleep;		/* in a group stop by a signal: SIGCONT alone lets it run */
	struct thread_regs regs;	/* valid while stopped */
	bool regs_changed;	/* regs is to be written to the thread before it goes on */
	bool seized;		/* this and all below: for this folder only */
	uint64_t seen;		/* when it was found */
	uint64_t deep_since;	/* when it was first seen in an uninterruptible sleep, in this stop; 0: it was not */
	uint8_t vfork_looks;	/* in how many polls in a row it was asleep in vfork */
	int64_t eintr_nr;	/* system call that returned EINTR because of the stop and was rewound; -1: none */
	uint64_t eintr_at;	/* address of its `syscall` instruction */
	uint64_t mask;		/* signal mask; valid if eintr_nr >= 0 */
	struct {		/* the call in which it slept before it was interrupted, where its registers don't tell; nr -1: none */
		int64_t nr;
		uint64_t arg0, sp, pc;
	} before;
};

/*
 * The restartable sequences of a process. usable: all registered threads have struct rseq at the same offset from the
 * thread pointer, and the same signature. all: every thread is registered. A thread that is not may be a new one: a C
 * library registers it first of all.
 */
struct rseq_conf { bool usable, all; int32_t offset; uint32_t signature; };

struct proc {
	pid_t pid;
	const struct arch *arch;
	int mem;		/* /proc/PID/task/TID/mem, read and write */
	bool started_by_us;	/* by proc_spawn() */
	bool gone;		/* it has ended or executed another program */
	map_list maps;		/* as of the last proc_read_maps() */
	VEC(struct thread) threads; /* as of the last proc_stop() */
	uint64_t start_time;	/* field 22 of stat: differs if the pid is reused by another process */
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
 * Open a process. Each reason to refuse has its own message: no such process, zombie, kernel thread,
 * 32-bit, another CPU, no permission (names the uid, capability or ptrace_scope that forbids it),
 * already traced (names the tracer), jab itself. Changes nothing in the target.
 */
int proc_open(pid_t pid, struct proc **ret_proc);
void proc_close(struct proc *p);	/* threads that are still held go on */
void proc_settle(void);		/* detaches from threads of closed targets that did not stop in time and have stopped since */

/* Pids of processes whose name (comm or basename of exe) is `name`. */
typedef VEC(pid_t) pid_list;
int proc_find(const char *name, pid_list *ret_pids);
int proc_find_users(const char *path, pid_list *ret_pids);	/* that map the file as code; the list may be empty */

/* The real uid of a process and the path of its program, from /proc. -ESRCH: it has ended. */
int proc_identity(pid_t pid, uid_t *ret_uid, char *exe, size_t room);

/*
 * Start a program and hold it when the loader has mapped and relocated the libraries, before the first constructor; at
 * the entry point if it has no loader, or one that does not show that moment. Until then the death of the tracer kills
 * it; afterwards never. It is left stopped (as by proc_stop()); proc_resume() lets it run. An error of execve has its
 * own message.
 */
int proc_spawn(char *const argv[], struct proc **ret_proc);
int proc_child_ended(struct proc *p, int *ret_status);	/* of proc_spawn(): 1 and the wait status, or 0: it has not ended */

int proc_path(struct proc *p, const char *name, char *buf, size_t len);	/* /proc/PID/task/TID/NAME of a thread that has not ended */
int proc_read_maps(struct proc *p);
const struct map *proc_map_at(const struct proc *p, uint64_t addr);
bool proc_alive(struct proc *p);	/* it runs, and still the same program */

bool proc_text_is_files(const struct proc *p, uint64_t lo, uint64_t hi);	/* known in this stop: no page there is a private copy */
bool proc_fills_pages(struct proc *p);	/* it has a userfaultfd: an access to its memory may have to wait for its threads */
int proc_read(struct proc *p, taddr at, void *to, size_t len);
int proc_write(struct proc *p, taddr at, const void *from, size_t len);	/* also into read-only text */

/*
 * Stop every thread, also those created meanwhile and those of every other process that shares the memory
 * (vfork children, CLONE_VM). Registers are read. A restartable sequence that a thread is in is
 * aborted only if the thread's registers get changed. -EBUSY with a message if a thread can't be stopped
 * within the deadline; then no thread stays stopped. While a thread is in an uninterruptible sleep, the others
 * are held for some milliseconds only and run until it wakes. Stops nest: the last proc_resume() lets the threads run.
 */
int proc_stop(struct proc *p);
int proc_stop_now(struct proc *p);	/* -EBUSY at once if a thread is in an uninterruptible sleep */
int proc_resume(struct proc *p);
bool proc_is_still(const struct proc *p);	/* all of its threads are held, and none is borrowed */

/* While stopped: make the target do a system call. Returns 0 and the call's raw result. */
int proc_syscall(struct proc *p, long nr, const uint64_t args[6], int64_t *ret_value);

/* True if it locks memory (mlock, mlockall): every page of a locked mapping takes memory at once, used or not. */
bool proc_locks_memory(struct proc *p);

/*
 * Places in the text that make a system call whose number is loaded right before it: rt_sigreturn, clone, vfork,
 * clone3, execve, execveat, those that change mappings, prctl, seccomp, and arch_prctl. FAR_ARCH_PRCTL: an arch_prctl with
 * other instructions in between (at most FAR_LEN bytes in all), or another instruction that can change a thread pointer.
 * ANY_CALL: glibc's syscall(), which makes calls of any number. OPEN_CALL: one whose number is not known, elsewhere than in the C library.
 * The list belongs to p and is valid until the next call.
 */
struct text_call {
	taddr at;		/* of an instruction at or shortly before the system call, mostly the one that loads the number */
	uint32_t nr;
	uint8_t len;		/* of this instruction; 0: there is no room for a jump */
	uint8_t bytes[7];
};
int proc_text_calls(struct proc *p, const struct text_call **ret_calls, size_t *ret_n);

/* While stopped: true if a thread has its system calls dispatched to the program, as in Wine (PR_SET_SYSCALL_USER_DISPATCH). */
bool proc_dispatches(struct proc *p);
/*
 * While stopped: true if the borrowed thread may not read the time stamp counter (PR_GET_TSC). word: address of a u32 in
 * the target for the result of the call.
 */
bool proc_is_timeless(struct proc *p, taddr word);

int proc_rseq(struct proc *p, struct rseq_conf *ret_conf);	/* while stopped */
int proc_rseq_unregister(struct proc *p, const struct rseq_conf *conf);	/* sets cpu_id to -1 for threads that are not registered */

/*
 * While stopped: the offset from the thread pointer at which every thread keeps its own tid (that of its own pid
 * namespace). -ENOENT: there is no such offset.
 */
int proc_tid_offset(struct proc *p, int32_t *ret_off);

/*
 * Memory shared with one target (see undo.h for its first pages), mapped in pieces.
 * All pieces are made in one stop; a target that is held already stays held. The undo record has
 * room for max_edits edits, over all text_apply() calls together. Afterwards every page of the data
 * and table pieces, except their spare parts, is allocated and charged to the tracer; for code, rings and spare parts
 * arena_touch() does that, for as much as is needed.
 *
 * A ring takes len + (len - RING_HEAD_SIZE) bytes of addresses, in the target and in the tracer: its head, its
 * data, and a second mapping of the same data. The private piece and the scratch piece are private memory of the target;
 * a forked child finds zeros in the private piece and a copy of the scratch piece. The tracer accesses both by proc_read()
 * and proc_write(). There is at most one of each.
 */
enum piece_kind {		/* protection in the target, and in the tracer */
	PIECE_DATA,		/* RW, RW */
	PIECE_CODE,		/* RX, RW; the caller gives the address */
	PIECE_TABLE,		/* R, RW: addresses and limits that pads use, and that the target must not change */
	PIECE_RING,		/* RW, RW; len = RING_HEAD_SIZE + size of the data */
	PIECE_SCRATCH,		/* RW, not mapped (here == NULL) */
	PIECE_PRIVATE,		/* RW, not mapped */
};

struct piece {
	taddr at;		/* page-aligned address in the target; v == 0: arena_create() chooses it and fills it in */
	size_t len;		/* page multiple */
	size_t spare;		/* of a data or table piece: how many bytes at its end are not used yet */
	enum piece_kind kind;
	uint8_t *here;		/* out: the tracer's mapping */
	uint64_t offset;	/* out: in its memfd */
};

struct gap { uint64_t lo, hi; };
typedef VEC(struct gap) gap_list;

struct arena;
int arena_create(struct proc *p, struct piece *pieces, size_t n, size_t max_edits, struct arena **ret_arena);
uint8_t *arena_view(struct arena *a, taddr at);	/* the tracer's mapping of a target address; NULL: not in a piece */
int arena_touch(struct arena *a, taddr at, size_t len);	/* allocate pages, before they are used */
/*
 * arena_touch() also fills the target's page tables, so that no event takes a page fault. For a program that may end soon
 * this is not worth its time: after arena_map_later() it is left out, until arena_map_rest() makes up for it.
 */
void arena_map_later(struct arena *a);
void arena_map_rest(struct arena *a);
const struct rseq_conf *arena_rseq(const struct arena *a);	/* as of the stop in which the arena was made */
bool arena_is_timeless(struct arena *a, taddr word);	/* as proc_is_timeless(); in the stop that made the arena without a system call */
int arena_tid(const struct arena *a, int32_t *ret_off);	/* proc_tid_offset(), as of the stop in which the arena was made */
/*
 * While stopped: true if no thread's program counter, and none saved in a signal frame, is in the pads or in these
 * ranges. False also if that is not known.
 */
bool arena_is_quiet(struct arena *a, const struct gap *ranges, size_t n);
bool arena_nobody_in(struct arena *a, const struct gap *ranges, size_t n);	/* likewise, but only in these ranges */
void arenas_held(struct arena *const *arenas, size_t n, bool *ret_held);	/* whether any process that may be a fork maps each arena */
int arena_destroy(struct arena *a);	/* if no text was changed, or all is restored: unmap it in the target and here; frees a */
void arena_forget(struct arena *a);	/* unmap it only here; counters stay readable until then; frees a, NULL is fine */

/*
 * Writes zeros to a part of the private or scratch piece that is not used yet, so that its pages are allocated now and not
 * by a probe. -ENOSPC: the target's memory cgroup has too little left, and the kernel would have killed the target.
 */
int proc_take_memory(struct proc *p, taddr at, size_t len);
bool proc_memory_is_limited(struct proc *p);

/*
 * Address ranges in which pieces may be mapped: gaps between mappings, without the heap's room above
 * the break, the stack's room below its limit, the first 64 KiB and what mmap_min_addr forbids.
 */
int proc_gaps(struct proc *p, gap_list *ret_gaps);

#endif
