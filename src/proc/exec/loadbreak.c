/* SPDX-License-Identifier: MIT */
#include "proc/exec/loadbreak.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/err.h"
#include "proc/internal.h"

#define SIGNAL SIGURG		/* ignored by default */
#define HEAD 4096		/* bytes at the start of the loader that are read first: glibc's has its symbols there */
#define MOST_TABLES 65536	/* bytes of symbols and strings */
#define MOST_DYNAMIC 64		/* entries of the dynamic section */
#define MOST_SET 32		/* breakpoints at a time: each takes a descriptor */

static bool distrusted;		/* the signal of a breakpoint got lost: no further one is set */
static unsigned now_set;	/* how many breakpoints are set */

static bool read_at(pid_t pid, uint64_t at, void *buf, size_t len)
{
	struct iovec here = { buf, len }, there = { (void *)(uintptr_t)at, len };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

/* ---- its symbols ---- */

struct tables { uint64_t symbols, strings, size; };	/* from the loader's start */

/* Offset of an address in the dynamic section: a link address until the loader has relocated itself, a live one afterwards. */
static uint64_t from_start(uint64_t v, uint64_t base)
{
	return v >= base ? v - base : v;
}

static int find_tables(pid_t pid, uint64_t base, const uint8_t *head, struct tables *ret)
{
	const Elf64_Ehdr *eh = (const void *)head;
	const Elf64_Phdr *ph = (const void *)(head + sizeof(*eh));
	Elf64_Dyn dyn[MOST_DYNAMIC];
	size_t n = 0;

	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_phoff != sizeof(*eh) ||
	    eh->e_phnum > (HEAD - sizeof(*eh)) / sizeof(*ph))
		return -ENOEXEC;
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_DYNAMIC || ph[i].p_vaddr >= LOADER_MOST)
			continue;
		n = MIN(ph[i].p_memsz / sizeof(dyn[0]), (uint64_t)MOST_DYNAMIC);
		if (!read_at(pid, base + ph[i].p_vaddr, dyn, n * sizeof(dyn[0])))
			return -EFAULT;
		break;
	}
	*ret = (struct tables){ 0 };
	for (size_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
		if (dyn[i].d_tag == DT_SYMTAB)
			ret->symbols = from_start(dyn[i].d_un.d_ptr, base);
		if (dyn[i].d_tag == DT_STRTAB)
			ret->strings = from_start(dyn[i].d_un.d_ptr, base);
		if (dyn[i].d_tag == DT_STRSZ)
			ret->size = dyn[i].d_un.d_val;
	}
	/* Linkers put the strings after the symbols: that bounds the number of symbols. */
	if (!ret->symbols || ret->strings <= ret->symbols || ret->strings >= LOADER_MOST || ret->size >= MOST_TABLES ||
	    ret->strings + ret->size - ret->symbols > MOST_TABLES)
		return -ENOENT;
	return 0;
}

static uint64_t value_of(const uint8_t *symbols, const struct tables *t, const char *name)
{
	size_t n = (t->strings - t->symbols) / sizeof(Elf64_Sym), len = strlen(name) + 1;
	const uint8_t *strings = symbols + (t->strings - t->symbols);

	for (size_t i = 0; i < n; i++) {
		Elf64_Sym s;

		memcpy(&s, symbols + i * sizeof(s), sizeof(s));
		if (s.st_shndx != SHN_UNDEF && s.st_value < LOADER_MOST && s.st_name < t->size && t->size - s.st_name >= len &&
		    !memcmp(strings + s.st_name, name, len))
			return s.st_value;
	}
	return 0;
}

int load_break_find(pid_t pid, uint64_t base, uint64_t *ret_at, uint64_t *ret_debug)
{
	uint8_t head[HEAD] __attribute__((aligned(8))), *more = NULL;
	const uint8_t *symbols;
	uint64_t at, debug;
	struct tables t;
	size_t len;
	int r;

	if (!read_at(pid, base, head, sizeof(head)))
		return -EFAULT;
	r = find_tables(pid, base, head, &t);
	if (r < 0)
		return r;
	len = t.strings + t.size - t.symbols;
	symbols = head + t.symbols;
	if (t.symbols + len > HEAD) {
		symbols = more = xrealloc(NULL, len);
		if (!read_at(pid, base + t.symbols, more, len)) {
			free(more);
			return -EFAULT;
		}
	}
	at = value_of(symbols, &t, "_dl_debug_state");
	debug = value_of(symbols, &t, "_r_debug");
	free(more);
	if (!at || !debug)
		return -ENOENT;
	*ret_at = base + at;
	*ret_debug = base + debug;
	return 0;
}

/* ---- the breakpoint ---- */

static bool in_first_user_namespace(void)
{
	static int known;
	unsigned inside, outside, n;
	char text[128];
	ssize_t len;

	if (!known) {
		len = file_read("/proc/self/uid_map", text, sizeof(text));
		known = len > 0 && sscanf(text, "%u %u %u", &inside, &outside, &n) == 3 && !inside && !outside && n == UINT32_MAX ? 1 : -1;
	}
	return known > 0;
}

/* The same check as in the kernel's sigio_perm(), without which the signal would be dropped silently. */
static bool may_signal(pid_t tid)
{
	uint64_t uid;

	if (geteuid() == 0 && in_first_user_namespace())
		return true;
	uid = status_of(tid, "Uid");
	return uid == geteuid() || uid == getuid();
}

/* Whether the signal is not blocked: a blocked one would stay pending, and the program would see it. */
static bool signal_is_open(pid_t tid)
{
	uint64_t mask;

	return ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) == 0 && !(mask >> (SIGNAL - 1) & 1);
}

static int open_event(pid_t tid, uint64_t at)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_X, .bp_addr = at, .bp_len = sizeof(long),
		.sample_period = 1, .exclude_kernel = 1, .exclude_hv = 1,
	};
	struct f_owner_ex owner = { F_OWNER_TID, tid };
	int fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETSIG, SIGNAL) == 0 && fcntl(fd, F_SETFL, O_ASYNC) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int load_break_set(struct load_break *b, pid_t tid, uint64_t base)
{
	int r;

	*b = (struct load_break){ .base = base, .fd = -1 };
	if (distrusted || !signal_is_open(tid) || !may_signal(tid))
		r = -EPERM;
	else if (now_set >= MOST_SET)
		r = -EMFILE;
	else
		r = load_break_find(tid, base, &b->at, &b->debug);
	if (!r)
		b->fd = r = open_event(tid, b->at);
	b->set = b->fd >= 0;
	now_set += b->set;
	if (!b->set)
		log_info("process %d: no breakpoint can be set in its loader (%s); the loader is followed by its system calls", tid,
			 strerror(-r));
	return b->set ? 0 : r;
}

/* ---- hits ---- */

static bool is_ours(const struct load_break *b, const siginfo_t *info)
{
	return info->si_code == POLL_IN && info->si_fd == b->fd;
}

/*
 * Lets the function return, if it does nothing else: the pad that is to be put there would park the thread. If that is not
 * possible, the thread will park.
 */
static void step_over(const struct load_break *b, pid_t tid, struct thread_regs *regs)
{
	const struct arch *arch = arch_host();
	const struct code_bytes *nothing = arch->thread->nothing;
	uint64_t back, shadow, *sp = &regs->cpu.reg[arch->regs->sp];
	struct iovec io = { &shadow, sizeof(shadow) };
	uint8_t code[sizeof(nothing->bytes)];

	if (!read_at(tid, b->at, code, sizeof(code)) || !read_at(tid, *sp, &back, sizeof(back)) ||
	    (memcmp(code, nothing[0].bytes, nothing[0].len) && memcmp(code, nothing[1].bytes, nothing[1].len)))
		return;
	/* With a shadow stack, its pointer would have to be changed, too. */
	if (back - b->base >= LOADER_MOST || (arch->thread->shadow_set && ptrace(PTRACE_GETREGSET, tid, arch->thread->shadow_set, &io) == 0))
		return;
	regs->cpu.pc = back;
	*sp += sizeof(back);
	arch->thread->put(tid, regs);
}

enum loading_at load_break_look(struct load_break *b, pid_t tid, int *sig)
{
	struct thread_regs regs;
	siginfo_t info;
	int state;

	if (ptrace(PTRACE_GETSIGINFO, tid, 0, &info) < 0 || arch_host()->thread->get(tid, &regs) < 0)
		return LOADING_ON;	/* killed this moment */
	/* If the program has another SIGURG pending, the kernel may drop the breakpoint's. */
	if (!is_ours(b, &info))
		return regs.cpu.pc == b->at ? LOADING_UNSEEN : LOADING_ON;
	*sig = 0;
	b->hits++;
	if (regs.cpu.pc != b->at || !read_at(tid, b->debug + offsetof(struct r_debug, r_state), &state, sizeof(state)))
		return LOADING_UNSEEN;
	if (state == RT_ADD && b->adding)
		return LOADING_UNSEEN;	/* RT_ADD twice in a row: the state that it changes is in another struct r_debug */
	if (state == RT_ADD)
		b->adding = true;
	/* An auditing library has a list of its own, which is complete before the program's is begun. */
	if (state != RT_CONSISTENT || !b->adding)
		return LOADING_ON;
	step_over(b, tid, &regs);
	return LOADING_READY;
}

/* Two hits of the breakpoint: the loader has reported that it begins, and that it is ready. */
bool load_break_missed(struct load_break *b)
{
	uint64_t hits = 0;

	if (!b->set || read(b->fd, &hits, sizeof(hits)) != sizeof(hits) || hits < 2 || hits <= b->hits)
		return false;
	distrusted = true;
	return true;
}

void load_break_clear(struct load_break *b)
{
	if (!b->set)
		return;
	close(b->fd);
	b->set = false;
	now_set--;
}
