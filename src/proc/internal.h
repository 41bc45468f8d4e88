/* SPDX-License-Identifier: MIT */
/*
 * What only the files of this folder share with each other. All ptrace requests for one target must come
 * from the thread that seized it: the kernel refuses other threads of the tracer.
 */
#ifndef JAB_PROC_INTERNAL_H
#define JAB_PROC_INTERNAL_H

#include <sched.h>
#include <stdio.h>
#include "base/err.h"
#include "proc/proc.h"

/* Called after each step at which a test may kill the tracer; NULL but in tests. */
extern void (*proc_step_hook)(const char *step);

static inline void proc_step(const char *step)
{
	if (proc_step_hook)
		proc_step_hook(step);
}

#define SCRATCH_LEN 512		/* bytes for arguments of borrowed calls, next to the emergency frame */

/* Code of the target that makes an rt_sigreturn; see borrow.c. */
struct gadget {
	uint64_t start;		/* PC that leads to rt_sigreturn */
	uint64_t pop, call;	/* take_number and call_insn of struct thread_abi, when there is no restorer */
};

struct borrow {
	pid_t tid;		/* 0: no thread is borrowed */
	uint64_t at;		/* stack memory that holds the emergency frame now, and its old bytes */
	size_t len;
	uint8_t *old;
	uint8_t *wide;		/* registers that calls discard (signal_abi.wide_set), */
	size_t wide_len;	/* if they are in use */
	uint64_t sp;		/* stack pointer that belongs to gadget.start */
	uint64_t scratch;	/* address of the SCRATCH_LEN bytes */
	uint64_t mask;		/* the thread's real signal mask */
	bool seccomp;		/* its filter is suspended */
	bool moved;		/* the thread's registers have been replaced */
	bool plain;		/* it is in the kind of stop that proc_stop() makes */
	bool at_call;		/* it is in the stop before rt_sigreturn, where another call can be put in its place */
};

struct searched { uint64_t start, end, inode; };

struct proc_priv {
	pid_t parent;		/* its parent, as of proc_open() */
	uint64_t opened;	/* wall_ns() at proc_open() */
	pid_t via;		/* a live thread; /proc/PID/... is empty when the main thread has ended */
	int task;		/* descriptor of /proc/PID/task */
	int pagemap;		/* descriptor, while the text is searched: knowncalls.c */
	int depth;		/* proc_stop() calls not yet undone */
	bool early;		/* proc_stop_to_borrow(): see early.c */
	bool rival;		/* the last stop failed since another process traces one of the threads */
	uint32_t stops;		/* how often it was stopped, so far: the number of the current stop */
	char *chroot;		/* the target's root directory in the tracer's view, "" if both have the same */
	uint8_t auxv[1024];	/* as of proc_open(): differs after an exec */
	size_t auxv_len;
	uint64_t probe_at;	/* an address that stays readable as long as the address space exists */
	int loadavg;		/* descriptor of /proc/loadavg: its last number is the newest pid */
	uint64_t newest_pid;	/* as of before the last search for sharers */
	VEC(pid_t) sharers;	/* other processes with the same memory, as of the last stop */
	pid_list limbo;		/* threads that were seized and had not stopped when the others were let go */
	map_list maps;		/* private to borrow.c and its helpers: p->maps belongs to the callers */
	char *maps_text, *status_text;	/* as read in this stop, see proc_is_still(); NULL: not read yet */
	bool maps_parsed, own_parsed;	/* p->maps and maps were parsed from maps_text */
	bool maps_known;	/* since p->maps was read in this stop, only borrowed calls have changed mappings */
	uint32_t born_in;	/* traced since its exec: the number of its first stop; 0: not traced since then */
	uint64_t heap;		/* gaps.c: start of the heap, as of this stop; 0: not read yet */
	bool unlimited;		/* memgroup.c: as of this stop, no memory cgroup limits it */
	VEC(struct gap) pristine;	/* knowncalls.c: as of this stop, text without private copies of pages */
	VEC(struct text_call) calls;	/* textcalls.c */
	VEC(struct searched) searched;	/* textcalls.c: mappings whose calls are in the list */
	gap_list free_before, restless;	/* gaps.c: free addresses when last read; ranges that changed between two reads */
	struct gadget gadget;
	struct borrow borrow;
	struct reaper *reaper;
	uint64_t caught;	/* signals with a handler; valid for the current stop if caught_known */
	bool caught_known;
	bool fills_pages;	/* filled.c: it has a userfaultfd, when last checked */
	uint32_t fills_looked;	/* the stop in which that was checked; 0: in none */
	int exit_status;
	bool exited;		/* the child of proc_spawn() was reaped; exit_status is valid */
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

/* filled.c: in programs with a userfaultfd, only pages that are present or swapped out are accessed */
bool pages_are_there(struct proc *p, uint64_t at, size_t len);	/* always true for programs without a userfaultfd */
int stack_read(struct proc *p, uint64_t at, void *to, size_t len);	/* -EFAULT: a page is not there */

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
int proc_memory_check(struct proc *p, uint64_t need);	/* -ENOSPC: so much does not fit in its cgroup, and the kernel would kill it */
int own_memory_check(uint64_t need);		/* -ENOSPC: so much does not fit in the tracer's cgroup or the machine */

/*
 * maps.c. A process that is still (proc_is_still()) changes nothing: what was read from /proc in a stop is kept and need not
 * be read again. proc_stirs() forgets it, when a thread goes on.
 */
void proc_stirs(struct proc *p);
void proc_maps_stir(struct proc *p);	/* forgets the mappings: a borrowed thread makes calls, which change nothing else */
#define STATUS_MAX 4096
int proc_read_status(struct proc *p, char status[STATUS_MAX]);	/* /proc/PID/status of a live thread; -ESRCH: none is left */
/* One mapping, by PROCMAP_QUERY of Linux 6.11, which older headers don't have. <0: not known */
struct map_query {
	uint64_t size, flags, at, start, end, its_flags, page_size, offset, inode;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)
int map_query(pid_t pid, uint64_t at, struct map_query *ret, char *name, size_t room);
int proc_maps_text(struct proc *p, char **ret_text);	/* to be freed */
int proc_read_others_maps(struct proc *p);	/* as proc_read_maps(); mappings that borrowed calls made in this stop may be missing */
int maps_load(struct proc *p, map_list *maps);
void maps_free(map_list *maps);
const struct map *maps_at(const map_list *maps, uint64_t addr);

/* threads.c */
void note_end(struct proc *p, pid_t tid, int status);	/* a thread was reaped: the status of the child of proc_spawn() is kept */
struct thread *thread_find(struct proc *p, pid_t tid);
struct thread *thread_add(struct proc *p, pid_t pid, pid_t tid);
int thread_seize(struct proc *p, struct thread *t);
bool thread_poll(struct proc *p, struct thread *t);	/* handles its next wait status; false: there is none yet */
int proc_stop_to_borrow(struct proc *p);	/* as proc_stop(); a thread may be borrowed before the others stop (early.c) */
int threads_step(struct proc *p, bool (*who)(void *arg, const struct thread *t), void *arg,
		 uint64_t ns);	/* while stopped: the chosen threads run for ns; returns how many did */
int hold_here(struct proc *p);	/* the only thread is seized and in any stop: hold it as proc_stop() does */
int hold_thread(struct proc *p, pid_t tid);	/* the same for one thread of several; the others are stopped, too */
int threads_adopt(struct proc *p, pid_t tid);	/* hold a process one of whose threads is seized and in a plain stop already */

/* early.c: borrows a sleeping thread before the others are stopped */
int early_hold(struct proc *p);

/* seize.c */
int seize_soon(pid_t tid, unsigned long options);	/* PTRACE_SEIZE; -EAGAIN: a thread in execve holds the lock that it needs */
uint64_t status_of(pid_t tid, const char *name);	/* a number of /proc/TID/status; 0: it can't be read */

/* exec.c */
int proc_adopt(pid_t pid, pid_t tid, struct proc **ret_proc);	/* open and hold a process whose thread tid is seized and in any stop */

/* release.c */
void release_prepare(void);	/* reads the number of CPUs from a file: slow, so before the target is stopped */
void thread_let_go(struct proc *p, struct thread *t);
void threads_let_go(struct proc *p);

/*
 * While stopped: all threads but the borrowed one (or the one that will be borrowed) go on now, before proc_resume().
 * false: nothing was changed, because there is no other thread, or the thread can't be borrowed while others run.
 */
bool threads_let_others_go(struct proc *p);
bool threads_can_let_others_go(struct proc *p);	/* whether threads_let_others_go() would */

/* burst.c: a higher priority for the tracer, around a loop that wakes this many threads */
struct burst { int policy; struct sched_param param; };
void burst_begin(struct burst *b, size_t threads);
void burst_end(const struct burst *b);

/* awake.c: keeps idle CPUs from deep sleep, for a stop in which a thread is borrowed; -1: not permitted */
int awake_begin(void);
void awake_end(int fd);

/* limbo.c: threads that were seized and have not stopped yet */
bool limbo_take(struct proc *p, pid_t tid);	/* removes it from the list; false: it was not in it */
void threads_settle(struct proc *p);	/* detach from those that have stopped meanwhile */
void threads_settle_for(struct proc *p, uint64_t ns);	/* the same, waiting for them up to ns */
void limbo_leave(struct proc *p);	/* p is closed: keep those that are left in a list of this thread of the tracer */
bool limbo_has(pid_t tid);	/* it was a thread of a closed target, and has not stopped yet */

/* reaper.c: around PTRACE_SEIZE, when there is more than one thread */
void reaper_arm(struct proc *p);
void reaper_disarm(struct proc *p);
void reaper_free(struct reaper *r);
bool reap_if_ended(pid_t tid);

/* sharers.c */
int sharers_find(struct proc *p);	/* fills priv->sharers; returns how many are new */
bool sharers_may_be_new(struct proc *p);	/* there may be one that sharers_find() has not seen */
bool sharers_none_born(struct proc *p);	/* no process at all was created since sharers_find() */
bool in_vfork(const struct thread *t, struct thread_regs *ret_regs);
void call_look_before(struct thread *t);	/* fills t->before */
bool is_about_to_exec(const struct thread *t);	/* now, or so soon that it is better not seized */
bool child_is_held(struct proc *p, const struct thread *t);
bool still_shares(struct proc *p, const struct thread *t);

/* calls.c */
void call_rewind(struct proc *p, struct thread *t);	/* right after the stop */
void call_unwind(struct proc *p, struct thread *t);	/* right before the thread goes on */
void call_restart_regs(struct proc *p, struct thread_regs *regs);

/* frame.c */
void frame_prepare(void);	/* the slow part, before the target is stopped */
int frame_write(struct proc *p, struct thread *t, uint64_t top, struct borrow *b);
size_t frame_room(void);

/* borrow.c */
int gadget_find(struct proc *p);
struct thread *borrow_candidate(struct proc *p);	/* the thread that is borrowed, or would be; NULL: none is suitable */
bool borrow_has_own_stack(struct proc *p, const struct thread *t);
int borrow_early(struct proc *p);	/* borrows the best thread stopped so far and runs it to its system-call stop */
void borrow_end(struct proc *p);
int borrow_interrupt(struct proc *p, struct thread *t);	/* brings a borrowed thread that runs to a plain stop */
void borrow_lost(struct proc *p);	/* the borrowed thread has its own registers back: it is a thread like any other */

/*
 * proc_scratch(): memory in the target for the arguments of a call, next to the emergency frame; valid until
 * proc_resume() or thread_prepare_change(). proc_borrowed_tid(): the thread that makes the calls. Descriptors that
 * it opens are in its own table: that of another process, if the target waits in vfork.
 */
int proc_scratch(struct proc *p, taddr *ret_at, size_t *ret_room);
pid_t proc_borrowed_tid(struct proc *p);	/* 0: none yet */

/* rseq.c */
uint64_t rseq_slot(const struct thread *t);	/* address of its rseq_cs; 0: not registered, or not stopped */
int rseq_abort(struct proc *p, struct thread *t);	/* if the PC is inside a sequence */

/*
 * Prepare a stopped thread for a change of its registers: a borrowed thread gets its own back, a
 * restartable sequence that it is in is aborted, an interrupted call is rewound. t->regs may differ
 * afterwards; the kernel has the new values already, or gets them by regs_changed.
 */
int thread_prepare_change(struct proc *p, struct thread *t);

/* Hand changed registers to the kernel now, not at proc_resume(): before text is written. */
int proc_put_regs(struct proc *p);

#endif
