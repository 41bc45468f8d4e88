/* SPDX-License-Identifier: MIT */
/*
 * Targets for the tests that change text: children of the test that call small functions with known
 * windows and check every result; and a hand-made patch for each window.
 */
#ifndef TEXT_TARGET_H
#define TEXT_TARGET_H

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail	/* ours is another */
#include "base/clock.h"
#include "base/err.h"
#include "proc/arena/arena.h"
#include "proc/internal.h"

#define must(x) do { \
	if ((x) < 0) { \
		print_error("%s: %s\n", #x, err_text()); \
		_fail(__FILE__, __LINE__); \
	} \
} while (0)

/* "Try again", says a stop of a thread that did not get its turn for two seconds. */
#define patiently(call) ({ \
	uint64_t end_ = now_ns() + PATIENCE_NS; \
	int r_; \
	do \
		r_ = (call); \
	while (r_ == -EBUSY && now_ns() < end_); \
	r_; \
})

#pragma GCC diagnostic ignored "-Wunused-function"

/*
 * hot(x) = 2 * (x + 1): the window is the first two instructions, and the first one takes so long
 *	that threads are mostly found behind it.
 * slow(x, y) = x + *y: the second instruction of its window may fault.
 * ask(fd, buf, n) = read(): the window ends in `syscall`.
 * stay(): never leaves the second instruction of its window.
 * many: functions with windows of two instructions, six bytes, 256 bytes apart.
 */
#define READY 100	/* control.ready: all threads are there */
#define PATIENCE_NS 60000000000ull	/* on a busy machine a thread may wait long for its turn */
#ifndef MANY
#define MANY 16
#endif
#define STR(x) #x
#define XSTR(x) STR(x)
#define MANY_STEP 256
__asm__(".text\n"
	".balign 4096\n"
	"hot:	pause\n	mov %rdi, %rax\n	lea 2(%rax,%rax), %rax\n	ret\n"
	".balign 64\n"
	"slow:	mov %rdi, %rax\n	mov (%rsi), %rdx\n	add %rdx, %rax\n	ret\n"
	".balign 64\n"
	"ask:	mov $0, %eax\n	syscall\n	mov %rax, %rcx\n	mov %rcx, %rax\n	ret\n"
	".balign 64\n"
	"stay:	mov %rdi, %rax\n1:	jmp 1b\n	nop\n	ret\n"
	".balign 4096\n"
	"many:	.rept " XSTR(MANY) "\n	mov %rdi, %rax\n	inc %rax\n	ret\n	.balign 256\n	.endr\n"
	".balign 4096\n"
	"text_end: nop\n	.balign 4096\n");
extern long hot(long x) __asm__("hot");
extern long slow(long x, long *y) __asm__("slow");
extern long ask(long fd, void *buf, long n) __asm__("ask");
extern void stay(void) __asm__("stay");
extern char many[] __asm__("many"), text_end[] __asm__("text_end");
typedef long (*hot_fn)(long);

/* Shared between the test and its targets. */
struct control {
	volatile int ready, quit, wrong, gentle, handler, release, answered;
	volatile uint64_t done[16];
	volatile long answer;
};

static inline struct control *control_new(void)
{
	void *v = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(v != MAP_FAILED);
	return v;
}

static inline void spin_forever(struct control *c, int slot)
{
	long i;

	for (i = 0; !c->quit; i++) {
		if (hot(i) != 2 * (i + 1))
			c->wrong = 1;
		c->done[slot]++;
		if (c->gentle && i % 512 == 0)
			usleep(20);	/* leaves the CPU to the others, so that many rounds fit into a second */
	}
}

struct spinner { struct control *c; int slot; };

static inline void *spin_thread(void *arg)
{
	struct spinner *s = arg;

	__atomic_add_fetch(&s->c->ready, 1, __ATOMIC_SEQ_CST);
	spin_forever(s->c, s->slot);
	return NULL;
}

static inline void start_threads(struct control *c, int n)
{
	static struct spinner s[16];
	pthread_t t;
	int i;

	for (i = 1; i < n; i++) {
		s[i] = (struct spinner){ c, i };
		pthread_create(&t, NULL, spin_thread, &s[i]);
	}
	while (c->ready != n - 1)
		sched_yield();
}

static inline void body_spin1(struct control *c)
{
	c->ready = READY;
	spin_forever(c, 0);
}

static inline void body_spin4(struct control *c)
{
	start_threads(c, 4);
	c->ready = READY;
	spin_forever(c, 0);
}

static inline void body_spin8(struct control *c)
{
	start_threads(c, 8);
	c->ready = READY;
	spin_forever(c, 0);
}

/* The main thread sits in a system call for ever; another one works. */
static inline void body_blocked(struct control *c)
{
	int fd[2];
	char byte;

	start_threads(c, 2);
	if (pipe(fd) < 0)
		_exit(9);
	c->ready = READY;
	if (read(fd[0], &byte, 1) >= 0 || errno != EBADF)
		c->wrong = 1;
	_exit(9);
}

/* Forks when asked to; the child works in slot 1 and tells its pid as the answer. */
static inline void body_forker(struct control *c)
{
	pid_t parent = getpid();
	long i;

	signal(SIGCHLD, SIG_IGN);
	c->ready = READY;
	for (i = 0; !c->quit; i++) {
		if (hot(i) != 2 * (i + 1))
			c->wrong = 1;
		c->done[0]++;
		if (i % 512 == 0)
			usleep(20);
		if (!c->release)
			continue;
		c->release = 0;
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(0);
			c->answer = getpid();
			spin_forever(c, 1);
			_exit(0);
		}
	}
}

static inline void body_stay(struct control *c)
{
	c->ready = READY;
	stay();
}

static inline pid_t target_start(void (*body)(struct control *), struct control *c)
{
	pid_t pid, parent = getpid();

	memset((void *)c, 0, sizeof(*c));
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		if (getppid() != parent)
			_exit(0);
		body(c);
		_exit(0);
	}
	while (c->ready < READY)
		usleep(200);
	usleep(1000);
	return pid;
}

static inline void target_end(pid_t pid, struct control *c)
{
	int status;

	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);	/* it lives */
	assert_int_equal(c->wrong, 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* The target works: its count goes on, its results are right. */
static inline void assert_works(struct control *c, int slot)
{
	uint64_t before = c->done[slot], deadline = now_ns() + PATIENCE_NS;

	while (c->done[slot] < before + 100 && !c->wrong && now_ns() < deadline)
		usleep(50);
	assert_true(c->done[slot] >= before + 100);
	assert_int_equal(c->wrong, 0);
}

/* Where the only thread stands now. */
static inline uint64_t target_pc(pid_t pid)
{
	struct proc *p;
	uint64_t pc;

	must(proc_open(pid, &p));
	must(proc_stop(p));
	pc = p->threads.v[0].regs.cpu.pc;
	must(proc_resume(p));
	proc_close(p);
	return pc;
}

static inline void wait_for_pc(pid_t pid, const void *at)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;

	while (target_pc(pid) != (uintptr_t)at && now_ns() < deadline)
		usleep(100);
	assert_int_equal(target_pc(pid), (uintptr_t)at);
}

static inline char *slurp(const char *path)
{
	size_t n = 0, cap = 1 << 20;
	char *s = xcalloc(1, cap);
	int fd = open(path, O_RDONLY);
	ssize_t k;

	while (fd >= 0 && (k = read(fd, s + n, cap - 1 - n)) > 0)
		n += k;
	if (fd >= 0)
		close(fd);
	return s;
}

/* Everything of a target that must be as before. */
struct look { char *maps, *fds, *signals; uint8_t *text; };

static inline char *fd_names(pid_t pid)
{
	char path[300], link[256], *out = xcalloc(1, 65536);
	struct dirent *e;
	ssize_t n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n > 0)
			sprintf(out + strlen(out), "%s=%.*s\n", e->d_name, (int)n, link);
	}
	if (d)
		closedir(d);
	return out;
}

static size_t look_len = 4096;	/* bytes of text from hot on */

static inline struct look look_at(pid_t pid)
{
	size_t len = look_len;
	struct look l;
	char path[64], *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	l.maps = slurp(path);
	l.fds = fd_names(pid);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	l.signals = slurp(path);
	at = strstr(l.signals, "SigIgn:");
	memmove(l.signals, at, strlen(at) + 1);
	at = strstr(l.signals, "CapInh");
	if (at)
		*at = 0;
	l.text = xcalloc(1, len);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, l.text, len, (off_t)(uintptr_t)hot), len);
	close(fd);
	return l;
}

static inline void look_free(struct look *l)
{
	free(l->maps);
	free(l->fds);
	free(l->signals);
	free(l->text);
}

static inline bool is_same(pid_t pid, const struct look *before)
{
	struct look now = look_at(pid);
	bool same = strcmp(now.maps, before->maps) == 0 && strcmp(now.fds, before->fds) == 0 &&
		    memcmp(now.text, before->text, look_len) == 0;

	look_free(&now);
	return same;
}

static inline void assert_same(pid_t pid, const struct look *before)
{
	struct look now = look_at(pid);

	assert_string_equal(now.maps, before->maps);
	assert_string_equal(now.fds, before->fds);
	assert_string_equal(now.signals, before->signals);
	assert_memory_equal(now.text, before->text, look_len);
	look_free(&now);
}

/* A place for a piece in reach of the test's own text. */
static inline taddr place_near(struct proc *p, size_t len)
{
	uint64_t text = (uint64_t)(uintptr_t)hot;
	gap_list gaps = { 0 };
	taddr at = { 0 };
	size_t i;

	assert_int_equal(proc_gaps(p, &gaps), 0);
	for (i = 0; i < gaps.n && !at.v; i++) {
		uint64_t lo = MAX(gaps.v[i].lo, text - (1ull << 30));
		uint64_t hi = MIN(gaps.v[i].hi, text + (3ull << 29));

		if (lo < hi && hi - lo >= len)
			at.v = lo;
	}
	vec_free(&gaps);
	assert_true(at.v != 0);
	return at;
}

#define PAD_SIZE 64
#define CODE_LEN (MANY * PAD_SIZE + 4096 - MANY * PAD_SIZE % 4096)

struct rig {
	struct proc *p;
	struct piece pieces[5];		/* code, data with the counters behind it, a ring, the private page, a table */
	struct arena *a;
	struct text_patch patch;
	size_t pads;
};

static inline int rig_try(struct rig *r, pid_t pid, size_t max_edits)
{
	int e;

	memset(r, 0, sizeof(*r));
	e = proc_open(pid, &r->p);
	if (e < 0)
		return e;
	r->pieces[0] = (struct piece){ .at = place_near(r->p, CODE_LEN + 8192), .len = CODE_LEN, .kind = PIECE_CODE };
	r->pieces[1] = (struct piece){ .at = TADDR(r->pieces[0].at.v + CODE_LEN), .len = 8192 };
	r->pieces[2] = (struct piece){ .len = RING_HEAD_SIZE + RING_SIZE_MIN, .kind = PIECE_RING };
	r->pieces[3] = (struct piece){ .len = 12288, .kind = PIECE_PRIVATE };
	r->pieces[4] = (struct piece){ .len = 4096, .kind = PIECE_TABLE };
	e = arena_create(r->p, r->pieces, ARRAY_SIZE(r->pieces), max_edits, &r->a);
	if (e < 0) {
		proc_close(r->p);
		r->p = NULL;
	}
	return e;
}

static inline int rig_open(struct rig *r, pid_t pid, size_t max_edits)
{
	return patiently(rig_try(r, pid, max_edits));
}

static inline void rig_close(struct rig *r)
{
	arena_forget(r->a);
	proc_close(r->p);
	vec_free(&r->patch.edits);
	vec_free(&r->patch.moves_in);
	vec_free(&r->patch.moves_out);
}

static inline volatile uint64_t *rig_counter(struct rig *r, int i)
{
	return (uint64_t *)r->pieces[1].here + i;
}

/* The pad: count, the window's instructions, jump back. cut: where its second instruction begins. */
#define PAD_COPY 8
static inline void add_site(struct rig *r, const void *site, int len, int cut, int counter)
{
	uint64_t at = (uint64_t)(uintptr_t)site, pad = r->pieces[0].at.v + PAD_SIZE * r->pads;
	uint8_t *w = r->pieces[0].here + PAD_SIZE * r->pads++;
	struct edit *e = vec_add(&r->patch.edits);
	int32_t rel = (int32_t)(r->pieces[1].at.v + 8 * counter - (pad + 8));

	memcpy(w, "\xf0\x48\xff\x05", 4);
	memcpy(w + 4, &rel, 4);
	memcpy(w + PAD_COPY, site, len);
	w[PAD_COPY + len] = 0xe9;
	rel = (int32_t)(at + len - (pad + PAD_COPY + len + 5));
	memcpy(w + PAD_COPY + len + 1, &rel, 4);

	e->at = e->resume = TADDR(at);
	e->len = len;
	memcpy(e->old, site, len);
	memset(e->new, 0xcc, len);
	e->new[0] = 0xe9;
	rel = (int32_t)(pad - (at + 5));
	memcpy(e->new + 1, &rel, 4);
	*vec_add(&r->patch.moves_in) = (struct move){ TADDR(at + cut), TADDR(pad + PAD_COPY + cut) };
	*vec_add(&r->patch.moves_out) = (struct move){ TADDR(pad + PAD_COPY), TADDR(at) };
	*vec_add(&r->patch.moves_out) = (struct move){ TADDR(pad + PAD_COPY + cut), TADDR(at + cut) };
	*vec_add(&r->patch.moves_out) = (struct move){ TADDR(pad + PAD_COPY + len), TADDR(at + len) };
}

static inline void add_hot(struct rig *r)
{
	add_site(r, hot, 5, 2, 0);
}

/* A target, what it looked like, and a patch on it. */
struct scene {
	struct control *c;
	pid_t pid;
	struct look before;
	struct rig r;
	struct text_report rep;
};

static inline void scene_open(struct scene *s, void (*body)(struct control *))
{
	s->c = control_new();
	s->pid = target_start(body, s->c);
	s->before = look_at(s->pid);
	must(rig_open(&s->r, s->pid, 10));
}

static inline void scene_close(struct scene *s)
{
	rig_close(&s->r);
	assert_same(s->pid, &s->before);
	look_free(&s->before);
	target_end(s->pid, s->c);
}

static inline void remove_clean(struct scene *s)
{
	must(text_remove(s->r.p, s->r.a, &s->rep));
	assert_true(s->rep.verified);
	assert_false(s->rep.arena_left);
	assert_int_equal(s->rep.foreign, 0);
}

static inline void wait_for(volatile int *flag, int value)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;

	while (*flag != value && now_ns() < deadline)
		usleep(100);
	assert_int_equal(*flag, value);
}

static inline char main_state(pid_t pid)
{
	struct task_stat st = { 0 };

	task_stat(pid, pid, &st);
	return st.state;
}

/* Not before it sleeps, or whatever it will do next: it may be on its way. */
static inline void wait_for_state(pid_t pid, char state)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;

	while (main_state(pid) != state && now_ns() < deadline)
		usleep(100);
	assert_int_equal(main_state(pid), state);
}

static inline uint8_t text_byte(pid_t pid, const void *at)
{
	uint8_t b = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, &b, 1, (off_t)(uintptr_t)at), 1);
	close(fd);
	return b;
}

#endif
