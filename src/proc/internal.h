/* SPDX-License-Identifier: MIT */
/*
 * What the files of this folder share with each other and with nobody else. All ptrace requests for
 * one process must come from one thread of ours: the kernel wants it so.
 */
#ifndef JAB_PROC_INTERNAL_H
#define JAB_PROC_INTERNAL_H

#include <sched.h>
#include <stdio.h>
#include "base/err.h"
#include "proc/proc.h"

/* Called at each step that our death could follow; the tests die there. NULL otherwise. */
extern void (*proc_step_hook)(const char *step);

static inline void proc_step(const char *step)
{
	if (proc_step_hook)
		proc_step_hook(step);
}

#define SCRATCH_LEN 512		/* bytes for arguments beside the emergency frame */

/* Where code of the target's own does rt_sigreturn for us; see borrow.c. */
struct gadget {
	uint64_t start;		/* PC that leads to rt_sigreturn */
	uint64_t pop, call;	/* take_number and call_insn of struct thread_abi, when there is no restorer */
};

struct borrow {
	pid_t tid;		/* 0: no thread is borrowed */
	uint64_t at;		/* what was written over, and its old bytes */
	size_t len;
	uint8_t *old;
	uint8_t *wide;		/* registers that calls discard (signal_abi.wide_set), */
	size_t wide_len;	/* if they are in use */
	uint64_t sp;		/* stack pointer that belongs to gadget.start */
	uint64_t scratch;
	uint64_t mask;		/* the thread's real signal mask */
	bool seccomp;		/* its filter is suspended */
	bool moved;		/* the registers are ours now */
	bool plain;		/* it stands in the kind of stop that proc_stop() makes */
	bool at_call;		/* it stands before rt_sigreturn, where a call can be exchanged */
};

struct searched { uint64_t start, end, inode; };

struct proc_priv {
	pid_t via;		/* a live thread; /proc/PID/... is empty when the main one has ended */
	int task;		/* /proc/PID/task */
	int pagemap;		/* while its text is searched: knowncalls.c */
	int depth;		/* proc_stop() calls not yet undone */
	bool early;		/* proc_stop_to_borrow(): see early.c */
	bool rival;		/* the last stop failed since another process traces one of the threads */
	uint32_t stops;		/* how often it was stopped, so far */
	char *chroot;		/* the target's root as we see it, "" if it is ours */
	uint8_t auxv[1024];	/* as of the open: differs after an exec */
	size_t auxv_len;
	uint64_t probe_at;	/* an address that stays readable as long as the memory lives */
	int loadavg;		/* /proc/loadavg: its last number is the newest pid */
	uint64_t newest_pid;	/* before the sharers were looked for */
	VEC(pid_t) sharers;	/* other processes with the same memory, as of the last stop */
	pid_list limbo;		/* seized, but could not be stopped when we let go */
	map_list maps;		/* borrow's own copy: p->maps belongs to the callers */
	char *maps_text, *status_text;	/* as read in this stop, see proc_is_still(); NULL: not read yet */
	bool maps_parsed, own_parsed;	/* p->maps and maps are of that text */
	bool maps_known;	/* since p->maps was read in this stop, only calls of ours have changed mappings */
	uint32_t born_in;	/* it is traced since its exec, and this was its first stop; 0: not so */
	uint64_t heap;		/* gaps.c: likewise; 0: not read yet */
	bool unlimited;		/* memgroup.c: likewise, its memory cgroup has no limit */
	VEC(struct gap) pristine;	/* knowncalls.c: likewise, text of which it has no page of its own */
	VEC(struct text_call) calls;	/* textcalls.c */
	VEC(struct searched) searched;
	gap_list free_before, restless;	/* gaps.c: as of the last look; where looks differed */
	struct gadget gadget;
	struct borrow borrow;
	struct reaper *reaper;
	uint64_t caught;	/* signals with a handler; valid for the current stop if known */
	bool caught_known;
	bool fills_pages;	/* filled.c: as of the last look */
	uint32_t fills_looked;	/* in this stop; 0: in none */
	int exit_status;
	bool exited;		/* our child was reaped; exit_status holds */
};

static inline struct proc_priv *priv(const struct proc *p)
{
	return p->priv;
}

/* open.c */
struct proc *proc_alloc(pid_t pid);
int proc_check_machine(struct proc *p);	/* refuses CPUs and sizes of pages that are not known */
int proc_open_task(struct proc *p);	/* /proc/PID/task, which stopping needs */
int proc_fill(struct proc *p);	/* everything proc_open() learns after it has been allowed */
bool proc_memory_lives(struct proc *p);

/* filled.c: of programs that fill pages themselves only what is there is touched */
bool pages_are_there(struct proc *p, uint64_t at, size_t len);	/* true of all other programs */
int stack_read(struct proc *p, uint64_t at, void *to, size_t len);	/* -EFAULT: not there */

/* status.c: files of /proc, read whole */
ssize_t file_read(const char *path, char *buf, size_t len);	/* NUL-terminated; -errno */
char *file_load(const char *path, size_t *ret_len);		/* any length; NULL + errno */
char *file_load_at(int dir, const char *path, size_t *ret_len);
struct task_stat { char state; pid_t ppid; uint64_t flags, start_time, start_brk; int cpu; };
int task_stat(pid_t pid, pid_t tid, struct task_stat *ret_stat);
int status_field(const char *status, const char *name, int base, uint64_t *ret_value);
void task_comm(pid_t pid, char buf[32]);

/* memgroup.c */
uint64_t proc_memory_room(struct proc *p);	/* bytes it may take before its memory cgroup is full */
int proc_memory_check(struct proc *p, uint64_t need);	/* -ENOSPC: it may not take so much, and would be killed */
int own_memory_check(uint64_t need);		/* the same of us; whoever is killed then */

/*
 * maps.c. A process that is still (proc_is_still()) changes nothing: what was read of it in a stop need not be read again.
 * proc_stirs() is called when a thread goes on.
 */
void proc_stirs(struct proc *p);
void proc_maps_stir(struct proc *p);	/* a borrowed thread makes calls of ours: these change its mappings and nothing else */
#define STATUS_MAX 4096
int proc_read_status(struct proc *p, char status[STATUS_MAX]);	/* /proc/PID/status of a live thread; -ESRCH: it is gone */
/* One mapping, by PROCMAP_QUERY of Linux 6.11, which older headers don't have. <0: not known */
struct map_query {
	uint64_t size, flags, at, start, end, its_flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
int map_query(pid_t pid, uint64_t at, struct map_query *ret, char *name, size_t room);
int proc_maps_text(struct proc *p, char **ret_text);	/* to be freed */
int proc_read_others_maps(struct proc *p);	/* as proc_read_maps(); what calls of ours have mapped in this stop may be missing */
int maps_load(struct proc *p, map_list *maps);
void maps_free(map_list *maps);
const struct map *maps_at(const map_list *maps, uint64_t addr);

/* threads.c */
void note_end(struct proc *p, pid_t tid, int status);	/* it was collected: how our own child ended is kept */
struct thread *thread_find(struct proc *p, pid_t tid);
struct thread *thread_add(struct proc *p, pid_t pid, pid_t tid);
int thread_seize(struct proc *p, struct thread *t);
bool thread_poll(struct proc *p, struct thread *t);	/* its next stop, if there is one; returns whether anything happened */
int proc_stop_to_borrow(struct proc *p);	/* as proc_stop(); a thread may be borrowed already */
int threads_step(struct proc *p, bool (*who)(void *arg, const struct thread *t), void *arg,
		 uint64_t ns);	/* while stopped; returns how many ran */
int hold_here(struct proc *p);	/* the only thread, seized and in any stop: as proc_stop() would hold it */
int hold_thread(struct proc *p, pid_t tid);	/* the same with any thread; the others are stopped with it */
int threads_adopt(struct proc *p, pid_t tid);	/* spawn: a thread seized and stopped already */

/* early.c: before the others are stopped */
int early_hold(struct proc *p);

/* seize.c */
int seize_soon(pid_t tid, unsigned long options);	/* PTRACE_SEIZE; -EAGAIN: it is in a part of an exec that locks us out */
uint64_t status_of(pid_t tid, const char *name);	/* a number of /proc/TID/status; 0: none */

/* exec.c */
int proc_adopt(pid_t pid, pid_t tid, struct proc **ret_proc);	/* a thread that is seized and stands in any stop: hold its process */

/* release.c */
void release_prepare(void);	/* what takes its time (the number of CPUs is read from a file), before the target is stopped */
void thread_let_go(struct proc *p, struct thread *t);
void threads_let_go(struct proc *p);

/*
 * While stopped: all threads go on but the one that will be borrowed, from now to proc_resume(). Returns
 * whether they do: if there are none, or not all is as it should be for that, nothing changes.
 */
bool threads_let_others_go(struct proc *p);
bool threads_can_let_others_go(struct proc *p);	/* whether it would */

/* burst.c: around a loop that wakes this many threads */
struct burst { int policy; struct sched_param param; };
void burst_begin(struct burst *b, size_t threads);
void burst_end(const struct burst *b);

/* awake.c: from before a stop in which somebody is borrowed to its end; -1: it can't be */
int awake_begin(void);
void awake_end(int fd);

/* limbo.c */
bool limbo_take(struct proc *p, pid_t tid);	/* whether it was in limbo; it is not any more */
void threads_settle(struct proc *p);	/* let go of those in limbo that stopped meanwhile */
void threads_settle_for(struct proc *p, uint64_t ns);
void limbo_leave(struct proc *p);	/* whoever is still in limbo when it is closed */
bool limbo_has(pid_t tid);	/* of a closed target, and it has not stopped yet */

/* reaper.c: around PTRACE_SEIZE, when there is more than one thread */
void reaper_arm(struct proc *p);
void reaper_disarm(struct proc *p);
void reaper_free(struct reaper *r);
bool reap_if_ended(pid_t tid);

/* sharers.c */
int sharers_find(struct proc *p);	/* fills priv->sharers; returns how many are new */
bool sharers_may_be_new(struct proc *p);	/* since then */
bool sharers_none_born(struct proc *p);	/* nor any other process since then */
bool in_vfork(const struct thread *t, struct thread_regs *ret_regs);
void call_look_before(struct thread *t);	/* fills t->before */
bool is_about_to_exec(const struct thread *t);	/* now, or so soon that it is better not seized */
bool child_is_held(struct proc *p, const struct thread *t);
bool still_shares(struct proc *p, const struct thread *t);

/* calls.c */
void call_rewind(struct proc *p, struct thread *t);	/* right after the stop */
void call_unwind(struct proc *p, struct thread *t);	/* right before it is let go */
void call_restart_regs(struct proc *p, struct thread_regs *regs);

/* frame.c */
void frame_prepare(void);	/* what takes its time, before the target is stopped */
int frame_write(struct proc *p, struct thread *t, uint64_t top, struct borrow *b);
size_t frame_room(void);

/* borrow.c */
int gadget_find(struct proc *p);
struct thread *borrow_candidate(struct proc *p);	/* that is borrowed, or would be; NULL: none is good */
bool borrow_has_own_stack(struct proc *p, const struct thread *t);
int borrow_early(struct proc *p);	/* the best of those that are stopped so far, up to where a call can be exchanged */
void borrow_end(struct proc *p);
int borrow_interrupt(struct proc *p, struct thread *t);	/* a borrowed one that runs: back to a plain stop */
void borrow_lost(struct proc *p);	/* it has restored itself: it is a thread like any other */

/*
 * Room in the target for the arguments of a call, beside the emergency frame: valid until
 * proc_resume() or thread_prepare_change(). And the thread that makes the calls: descriptors that
 * it makes are in its table (it is another process's if the target sits in vfork).
 */
int proc_scratch(struct proc *p, taddr *ret_at, size_t *ret_room);
pid_t proc_borrowed_tid(struct proc *p);	/* 0: none yet */

/* rseq.c */
uint64_t rseq_slot(const struct thread *t);	/* address of its rseq_cs; 0: not registered, or not stopped */
int rseq_abort(struct proc *p, struct thread *t);	/* if it stands inside a sequence */

/*
 * Make it right to change the registers of a stopped thread: a borrowed one gets its own back, a
 * restartable sequence in which it stands is aborted, an interrupted call is rewound. The registers
 * in t->regs may differ afterwards, and the kernel has them already.
 */
int thread_prepare_change(struct proc *p, struct thread *t);

/* Hand changed registers to the kernel now, not at proc_resume(): before text is written. */
int proc_put_regs(struct proc *p);

#endif
