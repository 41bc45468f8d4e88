/* SPDX-License-Identifier: MIT */
/*
 * The walker against an independent judge: running programs are stopped at moments of no choice, and the
 * stack of every thread is walked by us and by libdwfl. Where libdwfl itself comes to the outermost frame, we
 * must agree, address by address.
 */
#include "unwind_target.h"	/* base/err.h before cmocka.h, which makes fail() a macro */

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <dirent.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LIMIT UNWIND_FRAMES_MAX

struct stack { uint64_t v[LIMIT]; uint32_t n; };

struct subject {
	pid_t pid;
	Dwfl *dwfl;
	struct tables tables;
	bool bare_signals, no_judge;
	uint64_t stacks, judged, agreed, more, ended, likely;
	uint64_t frames, deepest;
	int shown;
};

static char dir[] = "/tmp/jab-unwind-XXXXXX";

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

static void begin(struct subject *s, pid_t pid)
{
	*s = (struct subject){ .pid = pid };
}

/* libdwfl keeps what it has read of memory: a fresh one each time costs a bit, but it's right. */
static void judge_open(struct subject *s)
{
	if (tables_update(&s->tables, s->pid) && s->dwfl) {
		dwfl_end(s->dwfl);
		s->dwfl = NULL;
	}
	if (s->dwfl)
		return;
	s->dwfl = dwfl_begin(&callbacks);
	dwfl_report_begin(s->dwfl);
	dwfl_linux_proc_report(s->dwfl, s->pid);
	dwfl_report_end(s->dwfl, NULL, NULL);
	dwfl_linux_proc_attach(s->dwfl, s->pid, true);
}

static int judge_frame(Dwfl_Frame *frame, void *arg)
{
	struct stack *st = arg;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL))
		return -1;
	if (st->n == LIMIT)
		return 1;
	st->v[st->n++] = pc;
	return 0;
}

static void show(struct subject *s, const char *who, const struct stack *st)
{
	char text[300];

	printf("  %s:\n", who);
	for (uint32_t i = 0; i < st->n; i++) {
		describe(&s->tables, st->v[i], text, sizeof(text));
		printf("    %s\n", text);
	}
}

/* Some programs don't tell of their signal frames; the judge then leaves out who was interrupted. */
static bool has_all(const struct stack *ours, const struct stack *theirs)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < ours->n && k < theirs->n; i++)
		k += ours->v[i] == theirs->v[k];
	return k == theirs->n;
}

/* Is it an address that a call returns to? */
static bool is_behind_call(pid_t pid, uint64_t addr)
{
	uint8_t b[8];

	if (read_other(&pid, addr - 8, b, 8) != 8)
		return false;
	return b[3] == 0xe8 || (b[6] == 0xff && (b[7] >> 3 & 7) == 2) || (b[5] == 0xff && (b[6] >> 3 & 7) == 2) ||
	       (b[4] == 0xff && (b[5] >> 3 & 7) == 2) || (b[2] == 0xff && (b[3] >> 3 & 7) == 2) ||
	       (b[1] == 0xff && (b[2] >> 3 & 7) == 2);
}

/* Without a judge: from the site to the outermost frame by way of work(), over calls only, or signals. */
static bool is_likely(struct subject *s, const struct stack *st)
{
	uint8_t next[9], sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	bool signal = false, work = false;
	char text[300];

	for (uint32_t i = 0; i < st->n; i++) {
		describe(&s->tables, st->v[i], text, sizeof(text));
		work |= strstr(text, ":work+") != NULL;
		if (i && !signal && !is_behind_call(s->pid, st->v[i])) {
			signal = read_other(&s->pid, st->v[i], next, 9) == 9 && memcmp(next, sigreturn, 9) == 0;
			if (!signal)
				return false;
		} else {
			signal = false;
		}
	}
	return work;
}

static void compare(struct subject *s, pid_t tid)
{
	struct stack ours = { 0 }, theirs = { 0 };
	enum unwind_end end;
	int r;

	ours.n = walk_thread(&s->tables, tid, ours.v, LIMIT, &end);
	r = dwfl_getthread_frames(s->dwfl, tid, judge_frame, &theirs);
	if (ours.n == 0)
		return;
	s->stacks++;
	s->frames += ours.n;
	s->ended += end == UNWIND_OUTERMOST;
	s->deepest = ours.n > s->deepest ? ours.n : s->deepest;
	if (s->no_judge) {
		if (end == UNWIND_OUTERMOST && is_likely(s, &ours)) {
			s->likely++;
		} else if (s->shown++ < 5) {
			printf("%d: ended by %d\n", tid, end);
			show(s, "ours", &ours);
		}
		return;
	}
	if (r < 0 || theirs.n == 0)
		return;
	s->judged++;
	if (ours.n == theirs.n && memcmp(ours.v, theirs.v, ours.n * sizeof(ours.v[0])) == 0) {
		s->agreed++;
	} else if (s->bare_signals && has_all(&ours, &theirs)) {
		s->agreed++;
		s->more++;
	} else if (s->shown++ < 3) {
		printf("%d: ended by %d\n", tid, end);
		show(s, "ours", &ours);
		show(s, "theirs", &theirs);
	}
}

static int threads_of(pid_t pid, pid_t *tids, int most)
{
	struct dirent *e;
	char path[40];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d)) && n < most)
		if (e->d_name[0] != '.')
			tids[n++] = atoi(e->d_name);
	if (d)
		closedir(d);
	return n;
}

/* Stopped, with no signal on its way into it? A signal that comes first is passed on. */
static bool stop_thread(pid_t tid)
{
	int status;

	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return false;
	for (;;) {
		if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
			return false;
		if (status >> 16 == PTRACE_EVENT_STOP)
			return true;
		ptrace(PTRACE_CONT, tid, NULL, WSTOPSIG(status));
	}
}

static void one_stop(struct subject *s)
{
	pid_t tids[16];
	bool stopped[16];
	int n = threads_of(s->pid, tids, 16), i;

	for (i = 0; i < n; i++) {
		ptrace(PTRACE_SEIZE, tids[i], NULL, NULL);
		stopped[i] = stop_thread(tids[i]);
	}
	judge_open(s);
	for (i = 0; i < n; i++)
		if (stopped[i])
			compare(s, tids[i]);
	for (i = 0; i < n; i++)
		if (stopped[i])
			ptrace(PTRACE_CONT, tids[i], NULL, NULL);
}

static bool is_alive(pid_t pid)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return access(path, F_OK) == 0;
}

static void watch(struct subject *s, int stops)
{
	uint64_t random = 1;

	for (int i = 0; i < stops && is_alive(s->pid); i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		usleep(200 + (random >> 40) % 4000);
		one_stop(s);
	}
}

static void close_subject(struct subject *s)
{
	kill(s->pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)	/* its threads are ours to bury, too */
		;
	if (s->dwfl)
		dwfl_end(s->dwfl);
	tables_close(&s->tables);
}

static void finish(struct subject *s, const char *name, double least)
{
	close_subject(s);
	printf("%-22s %5lu stacks, %5.1f frames, deepest %3lu; to the end: ours %5lu, judge %5lu, agreed %5lu: %.2f %%", name,
	       s->stacks, s->stacks ? (double)s->frames / s->stacks : 0, s->deepest, s->ended, s->judged, s->agreed,
	       s->judged ? 100.0 * s->agreed / s->judged : 0);
	if (s->bare_signals)
		printf(" (ours has more: %lu)", s->more);
	printf("\n");
	fflush(stdout);
	assert_true(s->judged > 20);
	assert_true(s->agreed >= least * s->judged);
	assert_true(s->more <= s->agreed / 4);
}

/* Runs it and waits for its first output, if there is one to wait for. */
static pid_t start(char *const *argv, bool wait)
{
	int out[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		dup2(open("/dev/null", O_RDWR), 2);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	if (wait)
		assert_int_equal(read(out[0], &c, 1), 1);
	else
		usleep(20000);
	close(out[0]);
	return pid;
}

static bool have(const char *program)
{
	char command[200];

	snprintf(command, sizeof(command), "command -v %s >/dev/null", program);
	return system(command) == 0;
}

/* Compile a program of tests/prog; its name below dir, or NULL without that compiler. */
static char *build(const char *compiler, const char *source, const char *flags)
{
	static char out[100];
	static int number;
	char command[1000];

	if (!have(compiler))
		return NULL;
	snprintf(out, sizeof(out), "%s/%d", dir, number++);
	snprintf(command, sizeof(command), "%s %s -o %s %s/%s -lpthread", compiler, flags, out, PROG_DIR, source);
	assert_int_equal(system(command), 0);
	return out;
}

static void watch_program(const char *name, const char *compiler, const char *source, const char *flags, double least)
{
	char *path = build(compiler, source, flags);
	char *const argv[] = { path, NULL };
	struct subject s;

	if (!path) {
		printf("%-22s no %s\n", name, compiler);
		return;
	}
	begin(&s, start(argv, true));
	watch(&s, 200);
	finish(&s, name, least);
}

/* Not all: the C library's long multiplication pushes registers and does not tell; nobody comes out of it but by luck. */
static void c_programs(void **state)
{
	watch_program("gcc -O2", "gcc", "unwind.c", "-O2 -fomit-frame-pointer", 0.99);
	watch_program("gcc -O2, lazy binding", "gcc", "unwind.c", "-O2 -fomit-frame-pointer -Wl,-z,lazy", 0.99);
	watch_program("gcc -O0", "gcc", "unwind.c", "-O0", 0.99);
	watch_program("gcc -O3 static", "gcc", "unwind.c", "-O3 -static", 0.99);
	watch_program("gcc AVX2", "gcc", "unwind.c", "-O3 -mavx2", 0.99);
	watch_program("clang", "clang", "unwind.c", "-O2", 0.99);
}

static void cxx_programs(void **state)
{
	watch_program("g++ -O2", "g++", "unwind_throw.cc", "-std=c++17 -O2", 0.99);
	watch_program("g++ -O2 static", "g++", "unwind_throw.cc", "-std=c++17 -O2 -static", 0.99);
}

static void watch_musl(const char *name, const char *flags)
{
	char *path = build("musl-gcc", "unwind.c", flags);
	char *const argv[] = { path, NULL };
	struct subject s;

	if (!path)
		return;
	begin(&s, start(argv, true));
	s.no_judge = true;
	watch(&s, 200);
	close_subject(&s);
	printf("%-22s %5lu stacks, %5.1f frames, deepest %3lu; to the end %5lu, likely %5lu: %.2f %%\n", name, s.stacks,
	       s.stacks ? (double)s.frames / s.stacks : 0, s.deepest, s.ended, s.likely, 100.0 * s.likely / s.stacks);
	assert_true(s.stacks > 100 && s.likely >= 0.95 * s.stacks);
}

/* This libc has no unwind tables, and no other unwinder comes through it. */
static void musl(void **state)
{
	watch_musl("musl", "-O2");
	watch_musl("musl, static", "-O2 -static");
}

static void watch_command(const char *name, char *const *argv, int stops, bool bare_signals)
{
	struct subject s;

	begin(&s, start(argv, false));
	s.bare_signals = bare_signals;
	watch(&s, stops);
	finish(&s, name, 0.99);
}

static void go(void **state)
{
	char path[100], command[600], *argv[] = { path, "1000000000", "4", NULL };

	snprintf(path, sizeof(path), "%s/go", dir);
	snprintf(command, sizeof(command), "GOCACHE=%s/cache GO111MODULE=off go build -o %s %s/hello.go", dir, path, PROG_DIR);
	if (!have("go") || system(command) != 0)
		skip();
	watch_command("go", argv, 200, true);
}

static void python(void **state)
{
	char *argv[] = { "python3", "-c",
		"import re, json, hashlib\n"
		"def f(n):\n"
		"    return n if n < 2 else f(n - 1) + f(n - 2)\n"
		"while True:\n"
		"    f(12); sorted(range(3000), key=lambda x: -x)\n"
		"    re.sub(r'(a+)b', lambda m: m.group(1), 'aaab' * 100)\n"
		"    json.loads(json.dumps({str(i): [i] * 5 for i in range(200)}))\n"
		"    hashlib.sha256(b'x' * 100000).hexdigest(); '%f' % 1.5\n", NULL };

	watch_command("python3", argv, 300, false);
}

static void shell(void **state)
{
	char *argv[] = { "bash", "-c", "f() { local x=$1; [[ $x =~ ^1(.*)2$ ]]; y=${x//a/b}; }; "
		"while :; do for i in {1..200}; do f \"1abca$i\"; done; done", NULL };

	watch_command("bash", argv, 300, false);
}

/* Something large to compile, made of the headers that are there anyway. */
static void compiler(void **state)
{
	static char cc1[300], in[100], out[100];
	char command[600], *argv[] = { cc1, "-quiet", "-O3", in, "-o", out, NULL };
	FILE *f = popen("gcc -print-prog-name=cc1", "r");

	assert_non_null(f);
	assert_non_null(fgets(cc1, sizeof(cc1), f));
	pclose(f);
	cc1[strcspn(cc1, "\n")] = 0;
	snprintf(in, sizeof(in), "%s/in.i", dir);
	snprintf(out, sizeof(out), "%s/out.s", dir);
	f = fopen(in, "w");
	for (int i = 0; i < 4000; i++)
		fprintf(f, "int f%d(int *v, int n) { int s = 0; for (int i = 0; i < n; i++) { if (v[i] > %d) s += v[i] * %d; "
			"else v[i] ^= s << (i & 7); } return s / (n + 1) + %d; }\n", i, i, i + 3, i);
	fclose(f);
	snprintf(command, sizeof(command), "test -x %s", cc1);
	if (system(command) != 0)
		skip();
	watch_command("cc1", argv, 300, false);
}

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* With an argument: only this test. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_programs),
		cmocka_unit_test(cxx_programs),
		cmocka_unit_test(musl),
		cmocka_unit_test(go),
		cmocka_unit_test(python),
		cmocka_unit_test(shell),
		cmocka_unit_test(compiler),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
