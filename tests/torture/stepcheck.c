/* SPDX-License-Identifier: MIT */
/*
 * Are the branch targets complete? Runs a program of its own one instruction at a time and compares
 * every arrival that is not "the next instruction" with what pad/code.h knows of that module.
 *
 *	stepcheck [-n STEPS] [-s SECONDS] [-m MODULE_SUBSTRING] -- CMD ARGS
 *
 * Without -m the program itself is checked. Prints each missed target once, then one line for
 * machines: steps=N arrivals=N missed=N missed_uncertain=N. Ends with 1 if a target was missed in a
 * function that we had no doubt about.
 *
 * An arrival is fine at a target, at the start of a function, or behind a call. Not judged: what
 * follows a system call (the trap flag skips a step there, and a signal's end may lead anywhere),
 * and code that no function holds (_init and the start files).
 */
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "pad/code.h"

struct range { uint64_t lo, hi; };

struct check {
	pid_t pid;
	const char *want;		/* part of the module's path; NULL: the program */
	struct module *m;
	struct code *code;
	uint64_t bias;
	VEC(struct range) text;		/* of the checked module, live */
	VEC(struct range) other;	/* all other executable mappings */
	VEC(uint64_t) told;		/* missed targets already printed */
	uint64_t prev;			/* live; 0: not in the module or not to be judged */
	uint64_t steps, in_module, arrivals, missed, missed_uncertain, indirect;
};

static bool within(const struct range *v, size_t n, uint64_t addr)
{
	for (size_t i = 0; i < n; i++)
		if (addr >= v[i].lo && addr < v[i].hi)
			return true;
	return false;
}

/* Opens the module when it is first seen; its first mapping gives the bias. */
static void meet_module(struct check *k, const char *path, uint64_t start)
{
	int r = module_open("", path, &k->m);

	if (r < 0 || (r = code_open(k->m, &k->code)) < 0) {
		fprintf(stderr, "stepcheck: %s\n", err_text());
		exit(2);
	}
	k->bias = k->m->is_exec ? 0 : start - (k->m->lo & ~0xfffull);
	code_window_hit_from_outside(k->code, NULL, 0, NULL);	/* learn of branches between functions */
	fprintf(stderr, "stepcheck: %s, %zu functions\n", path, k->m->funcs.n);
}

static void read_maps(struct check *k)
{
	char name[64], line[4500], exe[4096], path[4096];
	ssize_t len;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/exe", k->pid);
	len = readlink(name, exe, sizeof(exe) - 1);
	exe[len < 0 ? 0 : len] = 0;
	snprintf(name, sizeof(name), "/proc/%d/maps", k->pid);
	f = fopen(name, "r");
	k->text.n = k->other.n = 0;
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long lo, hi;
		char prot[8];

		path[0] = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %4095[^\n]", &lo, &hi, prot, path) < 3)
			continue;
		bool ours = path[0] == '/' && (k->want ? strstr(path, k->want) != NULL : !strcmp(path, exe));

		if (ours && !k->m)
			meet_module(k, path, lo);
		ours = ours && !strcmp(path, k->m->path);
		if (prot[2] == 'x' && ours)
			*vec_add(&k->text) = (struct range){ lo, hi };
		else if (prot[2] == 'x')
			*vec_add(&k->other) = (struct range){ lo, hi };
	}
	if (f)
		fclose(f);
}

/* The instruction that begins at addr, if a function holds it. */
static const struct insn *insn_at(const struct fcode *f, uint64_t addr)
{
	uint32_t i;

	if (!f || addr < f->lo || addr >= f->hi)
		return NULL;
	i = f->index[addr - f->lo];
	return i == UINT32_MAX ? NULL : &f->insns.v[i];
}

static bool is_behind_call(const struct fcode *f, uint64_t addr)
{
	for (uint64_t back = 2; back <= INSN_MAX && addr - back >= f->lo; back++) {
		const struct insn *in = insn_at(f, addr - back);

		if (in && in->len == back)
			return in->kind == INSN_CALL || in->kind == INSN_CALL_IND;
	}
	return false;
}

static bool was_told(struct check *k, uint64_t addr)
{
	for (size_t i = 0; i < k->told.n; i++)
		if (k->told.v[i] == addr)
			return true;
	*vec_add(&k->told) = addr;
	return false;
}

static void judge(struct check *k, const struct fcode *f, uint64_t addr, uint64_t from)
{
	bool start = insn_at(f, addr) != NULL;

	k->arrivals++;
	if (code_target(k->code, f, addr) != TARGET_NONE)
		return;
	if (start && (addr == f->func->addr || is_behind_call(f, addr)))
		return;
	if (was_told(k, addr))
		return;
	printf("missed 0x%llx in %s+0x%llx%s from 0x%llx%s\n", (unsigned long long)addr,
	       func_name(k->m, f->func), (unsigned long long)(addr - f->lo),
	       start ? "" : " (inside an instruction)", (unsigned long long)from,
	       f->uncertain ? " (uncertain)" : "");
	if (f->uncertain)
		k->missed_uncertain++;
	else
		k->missed++;
}

/* Is pc simply the next one after prev, or the same again (rep)? */
static bool is_sequence(const struct insn *in, uint64_t prev, uint64_t pc)
{
	return in && (pc == prev || pc == prev + in->len);
}

static void look(struct check *k, uint64_t pc)
{
	uint64_t addr = pc - k->bias, prev = k->prev - k->bias;
	const struct fcode *f, *pf;
	const struct insn *in = NULL;

	if (!within(k->text.v, k->text.n, pc)) {
		if (!within(k->other.v, k->other.n, pc))
			read_maps(k);
		if (!within(k->text.v, k->text.n, pc)) {
			k->prev = pc;
			return;
		}
		addr = pc - k->bias;
		prev = k->prev - k->bias;
	}
	k->in_module++;
	f = code_func(k->code, addr);
	pf = within(k->text.v, k->text.n, k->prev) ? code_func(k->code, prev) : NULL;
	in = insn_at(pf, prev);
	k->indirect += in && in->kind == INSN_JMP_IND;
	if (f && !f->broken && k->prev && !is_sequence(in, prev, addr) && !(in && in->kind == INSN_SYSCALL))
		judge(k, f, addr, prev);
	k->prev = pc;
}

static void start(struct check *k, char **argv)
{
	int status;

	k->pid = fork();
	if (!k->pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	if (k->pid < 0 || waitpid(k->pid, &status, 0) < 0 || !WIFSTOPPED(status)) {
		fprintf(stderr, "stepcheck: could not start %s\n", argv[0]);
		exit(2);
	}
	ptrace(PTRACE_SETOPTIONS, k->pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC);
}

static uint64_t entry_of(pid_t pid)
{
	uint64_t pair[2], entry = 0;
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/auxv", pid);
	f = fopen(name, "r");
	while (f && fread(pair, sizeof(pair), 1, f) == 1)
		if (pair[0] == AT_ENTRY)
			entry = pair[1];
	if (f)
		fclose(f);
	return entry;
}

/* The loader takes a million steps before the program begins: let it run. */
static void skip_loader(struct check *k)
{
	uint64_t entry = entry_of(k->pid);
	long word = ptrace(PTRACE_PEEKTEXT, k->pid, entry, 0);
	struct user_regs_struct regs;
	int status;

	if (!entry || ptrace(PTRACE_POKETEXT, k->pid, entry, (word & ~0xffl) | 0xcc) < 0)
		return;
	ptrace(PTRACE_CONT, k->pid, 0, 0);
	if (waitpid(k->pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
		return;
	ptrace(PTRACE_POKETEXT, k->pid, entry, word);
	ptrace(PTRACE_GETREGS, k->pid, 0, &regs);
	regs.rip = entry;
	ptrace(PTRACE_SETREGS, k->pid, 0, &regs);
}

/* One step. False when the program has ended. A signal breaks the line of instructions. */
static bool step(struct check *k)
{
	static int signal_to_give;
	int status;

	if (ptrace(PTRACE_SINGLESTEP, k->pid, 0, signal_to_give) < 0)
		return false;
	if (waitpid(k->pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
		return false;
	signal_to_give = 0;
	if (status >> 16) {		/* executed another program */
		k->prev = 0;
		k->text.n = k->other.n = 0;
	} else if (WSTOPSIG(status) != SIGTRAP) {
		signal_to_give = WSTOPSIG(status);
		k->prev = 0;
	}
	return true;
}

static void run(struct check *k, uint64_t most, double seconds)
{
	uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	struct user_regs_struct regs;

	if (!k->want || !strstr(k->want, "ld-"))
		skip_loader(k);
	read_maps(k);
	while (k->steps < most) {
		if ((k->steps & 0xff) == 0 && now_ns() > end)
			break;
		if (!step(k))
			return;
		k->steps++;
		if (ptrace(PTRACE_GETREGS, k->pid, 0, &regs) < 0)
			return;
		look(k, regs.rip);
		/* May be rt_sigreturn: where that leads to says nothing. */
		if (regs.rax == 15)
			k->prev = 0;
	}
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, __WALL);
}

static void usage(void)
{
	fprintf(stderr, "usage: stepcheck [-n STEPS] [-s SECONDS] [-m MODULE_SUBSTRING] -- CMD ARGS\n");
	exit(2);
}

int main(int argc, char **argv)
{
	struct check k = { 0 };
	uint64_t most = 2000000;
	double seconds = 60;
	int opt;

	while ((opt = getopt(argc, argv, "+n:s:m:")) != -1) {
		if (opt == 'n')
			most = strtoull(optarg, NULL, 0);
		else if (opt == 's')
			seconds = atof(optarg);
		else if (opt == 'm')
			k.want = optarg;
		else
			usage();
	}
	if (optind >= argc)
		usage();
	start(&k, argv + optind);
	run(&k, most, seconds);
	if (!k.m)
		fprintf(stderr, "stepcheck: no module %s was mapped\n", k.want ? k.want : "");
	fprintf(stderr, "stepcheck: %llu steps in the module, %llu indirect jumps\n",
		(unsigned long long)k.in_module, (unsigned long long)k.indirect);
	printf("steps=%llu arrivals=%llu missed=%llu missed_uncertain=%llu\n",
	       (unsigned long long)k.steps, (unsigned long long)k.arrivals,
	       (unsigned long long)k.missed, (unsigned long long)k.missed_uncertain);
	code_close(k.code);
	module_close(k.m);
	return !k.m ? 2 : k.missed != 0;
}
