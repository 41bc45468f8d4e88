/* SPDX-License-Identifier: MIT */
/*
 * Pointers to follow, through memory of every kind. look(n, p) is called for each of them; what p->next->next->value
 * is, or that it can't be read, the program finds out by asking the kernel.
 *
 *	chain all			all of them, a line each: "N NAME VALUE|fault plain|asked"; the last one is "told"
 *	chain serve [LIBRARY]		commands: prog.h; "all"; "door": a seccomp filter that allows everything; "shut",
 *					"open": takes the right to read from a page of its own data, gives it back;
 *					"threads": "all", in another one
 *
 * plain: the whole way is data of the program and of what it was linked with, or the stack of the first thread, so it
 * can be read without a call. LIBRARY is loaded at run time, and could be unloaded.
 */
#include "prog.h"
#include "chain.h"
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define PAGE 4096
#define MOST 64

struct node *chain_linked(void);
typedef struct node *give(void);

static const struct node last_const = { NULL, 1001 };
static struct node last_data = { NULL, 1002 };
static struct node data[3] = { { &data[1], 1003 }, { &data[2], 1004 }, { NULL, 1005 } };
static struct node bss[3];
static char bulk[3 * PAGE] __attribute__((aligned(PAGE)));
static struct node *late;
static int ends[2];
extern char _end[];

static struct { const char *name; struct node *p; bool plain; } cases[MOST];
static int ncases;
static struct node firsts[MOST], seconds[MOST];

noinline long look(long n, struct node *p)
{
	__asm__ volatile("" : "+r"(n), "+r"(p) : : "memory");
	return n * 3;
}

/* The kernel says whether it can be read, and what is there. */
static bool fetch(const void *from, void *to, size_t len)
{
	ssize_t n = write(ends[1], from, len);

	if (n > 0 && read(ends[0], to, (size_t)n) != n)
		exit(4);
	return n == (ssize_t)len;
}

static const char *walk(struct node *p)
{
	static char text[32];
	long value;

	for (int i = 0; i < 2; i++)
		if (!fetch(&p->next, &p, sizeof(p)))
			return "fault";
	if (!fetch(&p->value, &value, sizeof(value)))
		return "fault";
	snprintf(text, sizeof(text), "%ld", value);
	return text;
}

static void add(const char *name, struct node *p, bool plain)
{
	cases[ncases].name = name;
	cases[ncases].p = p;
	cases[ncases++].plain = plain;
}

/* The last step is there, the ones before are in the program's data. */
static void add_last(const char *name, const void *last, bool plain)
{
	int i = ncases;

	firsts[i] = (struct node){ &seconds[i], 1 };
	seconds[i] = (struct node){ (struct node *)(uintptr_t)last, 2 };
	add(name, &firsts[i], plain);
}

/* The same for the step in the middle. */
static void add_middle(const char *name, const void *middle, bool plain)
{
	int i = ncases;

	firsts[i] = (struct node){ (struct node *)(uintptr_t)middle, 1 };
	add(name, &firsts[i], plain);
}

static char *pages(size_t n, int prot)
{
	char *p = mmap(NULL, n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(4);
	return p;
}

static char *end_of_bss(void)
{
	return (char *)(((uintptr_t)_end + PAGE - 1) & -(uintptr_t)PAGE);
}

static void add_bad(void)
{
	static char *hole, *closed;

	if (!hole) {
		hole = pages(2, PROT_READ | PROT_WRITE);
		closed = pages(1, PROT_NONE);
		munmap(hole + PAGE, PAGE);
	}
	add("null", NULL, false);
	add("odd", (struct node *)0x1234567890abcdef, false);
	add("kernel", (struct node *)0xffffffff81000000, false);
	add_middle("middle null", NULL, false);
	add_last("last null", NULL, false);
	add_last("last odd", (void *)0x8000000000000000, false);
	add_last("last minus", (void *)-8, false);
	add_middle("middle closed", closed, false);
	add_last("last closed", closed, false);
	add_last("last gone", hole + PAGE, false);
	add_last("cut by a hole", hole + PAGE - 12, false);
	add_last("value behind a hole's edge", hole + PAGE - 8, false);
}

/* The last bytes of the data, and a little beyond. */
static void add_edges(void)
{
	char *end = end_of_bss();

	for (int k = 24; k >= 0; k -= 4)
		add_last("edge", end - k, k >= 16);
	add_last("in front of the edge", end - 48, true);
	add_last("page border", bulk + PAGE - 12, true);
}

static void add_all(struct node *on_stack, struct node *on_heap, struct node *of_thread)
{
	uintptr_t of_libc = (uintptr_t)&environ;

	ncases = 0;
	for (int i = 0; i < 3; i++)
		bss[i] = (struct node){ &bss[(i + 1) % 3], 2000 + i };
	last_data.value++;
	add("data", &data[0], true);
	add("bss", &bss[0], true);
	add_last("from data to data", &last_data, true);
	add_last("constant", &last_const, false);
	add_last("of libc", (void *)(of_libc - 8), true);
	add("of a library", chain_linked(), true);
	if (late)
		add("of a late library", late, false);
	add("stack", &on_stack[0], of_thread == NULL);
	add_last("end on the stack", &on_stack[2], of_thread == NULL);
	add("heap", &on_heap[0], false);
	add_last("end in the heap", &on_heap[2], false);
	if (of_thread)
		add("stack of a thread", of_thread, false);
	add_bad();
	add_edges();
}

static void tell(const char *who)
{
	for (int i = 0; i < ncases; i++) {
		look(i, cases[i].p);
		printf("%s%d %s %s %s\n", who, i, cases[i].name, walk(cases[i].p), cases[i].plain ? "plain" : "asked");
	}
}

/* All of it, with nodes on this stack. */
static noinline void all(struct node *of_thread)
{
	struct node on_stack[3] = { { &on_stack[1], 3001 }, { &on_stack[2], 3002 }, { NULL, 3003 } };
	struct node *on_heap = malloc(3 * sizeof(*on_heap));

	if (!on_heap)
		exit(4);
	for (int i = 0; i < 3; i++)
		on_heap[i] = (struct node){ &on_heap[(i + 1) % 3], 4000 + i };
	__asm__ volatile("" : : "r"(on_stack), "r"(on_heap) : "memory");
	add_all(on_stack, on_heap, of_thread);
	tell("");
	free(on_heap);
	say("told");
}

static void *on_thread(void *arg)
{
	struct node own[3] = { { &own[1], 6001 }, { &own[2], 6002 }, { NULL, 6003 } };

	__asm__ volatile("" : : "r"(own) : "memory");
	all(own);
	return NULL;
}

static bool close_door(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { 1, code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int other(const char *line)
{
	pthread_t t;

	if (!strcmp(line, "all")) {
		all(NULL);
	} else if (!strcmp(line, "threads")) {
		if (pthread_create(&t, NULL, on_thread, NULL) || pthread_join(t, NULL))
			exit(4);
	} else if (!strcmp(line, "door")) {
		say(close_door() ? "closed" : "open");
	} else if (!strcmp(line, "shut")) {
		say(mprotect(bulk + PAGE, PAGE, PROT_NONE) ? "open" : "shut");
	} else if (!strcmp(line, "shut2")) {	/* by the function that makes all calls */
		say(syscall(*(volatile long[]){ SYS_mprotect }, bulk + PAGE, PAGE, PROT_NONE) ? "open" : "shut");
	} else if (!strcmp(line, "open")) {
		say(mprotect(bulk + PAGE, PAGE, PROT_READ | PROT_WRITE) ? "shut" : "open");
	} else {
		return 1;
	}
	return 0;
}

static void run(long n)
{
	for (long i = 0; i < n; i++)
		look(i, &data[0]);
}

int main(int argc, char **argv)
{
	void *lib;
	give *f;

	if (pipe(ends))
		return 4;
	memset(bulk, 7, sizeof(bulk));
	if (argc > 2) {
		lib = dlopen(argv[2], RTLD_NOW);
		f = lib ? (give *)(uintptr_t)dlsym(lib, "chain_late") : NULL;
		if (!f)
			return 4;
		late = f();
	}
	if (argc > 1 && !strcmp(argv[1], "serve")) {
		for (int i = 0; i < MOST; i++)		/* every page of it has been written */
			firsts[i] = seconds[i] = bss[0];
		data[2].value++;
		chain_linked();
		serve(run, other);
		return verdict();
	}
	all(NULL);
	return 0;
}
