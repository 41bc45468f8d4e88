/* SPDX-License-Identifier: MIT */
/*
 * Opening processes and refusing to, each refusal in its own words; their mappings and memory;
 * telling whether they are still the same; finding and starting them.
 */
#include "proc_target.h"

#include <elf.h>
#include <sys/stat.h>

static void refused(pid_t pid, int want, const char *words, const char *more)
{
	struct proc *p = (void *)1;
	int r = proc_open(pid, &p);

	if (r != want)
		fail_msg("%s: %d, not %d (%s)", words, r, want, r < 0 ? err_text() : "opened");
	if (!strstr(err_text(), words) || (more && !strstr(err_text(), more)))
		fail_msg("\"%s\" does not say \"%s\" and \"%s\"", err_text(), words, more ? more : "");
	assert_ptr_equal(p, (void *)1);
}

static void *thread_id(void *arg)
{
	*(volatile pid_t *)arg = gettid();
	pause();
	return NULL;
}

static void sleeps(void *arg)
{
	sh->ready = 1;
	for (;;)
		pause();
}

static void no_such_process(void **state)
{
	refused(0, -ESRCH, "no process 0", NULL);
	refused(-5, -ESRCH, "no process -5", NULL);
	refused(4194304 + 7, -ESRCH, "no process", NULL);
}

static void ourselves(void **state)
{
	refused(getpid(), -EINVAL, "jab itself", NULL);
}

static void zombie(void **state)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	wait_state(pid, 'Z');
	refused(pid, -ESRCH, "zombie", NULL);
	waitpid(pid, NULL, 0);
}

static void kernel_thread(void **state)
{
	struct task_stat s;

	if (task_stat(2, 2, &s) < 0 || !(s.flags & 0x00200000))
		skip();		/* in a container pid 2 is something else */
	refused(2, -EINVAL, "kernel thread", NULL);
}

static void has_thread(void *arg)
{
	pthread_t t;

	pthread_create(&t, NULL, thread_id, (void *)&sh->value);
	sleeps(NULL);
}

static void thread_of_a_process(void **state)
{
	char number[32];
	pid_t pid;

	fresh_shared();
	pid = start_target(has_thread, NULL);
	assert_true(wait_until(&sh->value, 1));
	snprintf(number, sizeof(number), "thread of process %d", pid);
	refused((pid_t)sh->value, -EINVAL, number, NULL);
	end_target(pid);
}

static void tracer(void *arg)
{
	ptrace(PTRACE_SEIZE, *(pid_t *)arg, 0, 0);
	prctl(PR_SET_NAME, "othertracer");
	sh->value = 1;
	sleeps(NULL);
}

static void traced_already(void **state)
{
	char number[64];
	pid_t pid, other;

	fresh_shared();
	pid = start_target(sleeps, NULL);
	assert_true(wait_until(&sh->ready, 1));
	other = start_target(tracer, &pid);
	assert_true(wait_until(&sh->value, 1));
	snprintf(number, sizeof(number), "process %d (othertracer)", other);
	refused(pid, -EBUSY, "traced already", number);
	end_target(other);
	end_target(pid);
}

/* Run as nobody; the status says which check failed. */
static void as_nobody(int (*run)(pid_t), pid_t arg)
{
	pid_t pid;
	int status;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(99);
		prctl(PR_SET_DUMPABLE, 1);
		_exit(run(arg));
	}
	waitpid(pid, &status, 0);
	if (status)
		fail_msg("check %d failed: %s", WEXITSTATUS(status), (char *)sh->turns);
}

static int says(pid_t pid, int want, const char *a, const char *b)
{
	struct proc *p;
	int r = proc_open(pid, &p);

	snprintf((char *)sh->turns, sizeof(sh->turns), "%d: %s", r, r < 0 ? err_text() : "opened");
	return r == want && strstr(err_text(), a) && strstr(err_text(), b) ? 0 : 1;
}

static int try_other_user(pid_t pid)
{
	return says(pid, -EPERM, "belongs to user 0 and you are user 65534", "CAP_SYS_PTRACE");
}

static void other_user(void **state)
{
	pid_t pid;

	if (geteuid() != 0)
		skip();
	fresh_shared();
	pid = start_target(sleeps, NULL);
	assert_true(wait_until(&sh->ready, 1));
	as_nobody(try_other_user, pid);
	end_target(pid);
}

static int try_private(pid_t unused)
{
	pid_t pid = fork();
	int r;

	if (pid == 0) {
		prctl(PR_SET_DUMPABLE, 0);
		sleeps(NULL);
	}
	if (!wait_until(&sh->ready, 1))
		return 2;
	r = says(pid, -EPERM, "not dumpable", "CAP_SYS_PTRACE");
	kill(pid, SIGKILL);
	return r;
}

static void not_dumpable(void **state)
{
	fresh_shared();
	as_nobody(try_private, 0);
}

/* What one may ptrace, one may trace: no privilege is needed for one's own. */
static int try_own(pid_t unused)
{
	uint64_t args[6] = { 0 };
	int64_t value = 0;
	struct proc *p;
	pid_t pid = fork();
	int r = 0;

	if (pid == 0)
		sleeps(NULL);
	if (!wait_until(&sh->ready, 1))
		return 2;
	if (proc_open(pid, &p) < 0 || proc_stop(p) < 0 || proc_syscall(p, SYS_getpid, args, &value) < 0 ||
	    value != pid || proc_resume(p) < 0) {
		snprintf((char *)sh->turns, sizeof(sh->turns), "%s", err_text());
		r = 1;
	}
	kill(pid, SIGKILL);
	return r;
}

static void own_without_privilege(void **state)
{
	fresh_shared();
	as_nobody(try_own, 0);
}

/* The smallest 32-bit program: pause() for ever. */
static void write_elf32(const char *path)
{
	static const uint8_t code[] = { 0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7 };
	struct { Elf32_Ehdr e; Elf32_Phdr p; uint8_t code[sizeof(code)]; } f = {
		.e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
		       .e_type = ET_EXEC, .e_machine = EM_386, .e_version = EV_CURRENT,
		       .e_entry = 0x10000 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
		       .e_phoff = sizeof(Elf32_Ehdr), .e_ehsize = sizeof(Elf32_Ehdr),
		       .e_phentsize = sizeof(Elf32_Phdr), .e_phnum = 1 },
		.p = { .p_type = PT_LOAD, .p_vaddr = 0x10000, .p_paddr = 0x10000, .p_filesz = sizeof(f),
		       .p_memsz = sizeof(f), .p_flags = PF_R | PF_X, .p_align = 4096 },
	};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	memcpy(f.code, code, sizeof(code));
	fchmod(fd, 0700);
	assert_int_equal(write(fd, &f, sizeof(f)), sizeof(f));
	close(fd);
}

/* Until it is this program, or has ended because it can't be. */
static void wait_for_exec(pid_t pid, const char *program)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;
	char link[64], to[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	do {
		sleep_ns(100000);
		n = readlink(link, to, sizeof(to) - 1);
		to[MAX(n, 0)] = 0;
	} while (strcmp(to, program) != 0 && state_of(pid) != 'Z' && now_ns() < deadline);
}

static void thirty_two_bit(void **state)
{
	char path[] = "/tmp/jab-test-XXXXXX";
	pid_t pid;
	int status;

	close(mkstemp(path));
	write_elf32(path);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, NULL);
		_exit(77);
	}
	wait_for_exec(pid, path);
	unlink(path);
	if (waitpid(pid, &status, WNOHANG) == pid)
		skip();		/* this kernel runs no 32-bit programs */
	refused(pid, -ENOTSUP, "32-bit", "not supported yet");
	end_target(pid);
}

static void memory_and_maps(void **state)
{
	static volatile uint64_t cell = 0x1122334455667788;
	static const char constant[64] = "read-only";
	const struct map *m;
	uint64_t v = 0;
	struct proc *p;
	char buf[64];
	pid_t pid;
	size_t i;

	fresh_shared();
	pid = start_target(sleeps, NULL);
	assert_true(wait_until(&sh->ready, 1));
	p = opened(pid);
	assert_ok(proc_read(p, TADDR((uintptr_t)&cell), &v, sizeof(v)));
	assert_int_equal(v, cell);
	v = 5;
	assert_ok(proc_write(p, TADDR((uintptr_t)&cell), &v, sizeof(v)));
	v = 0;
	assert_ok(proc_read(p, TADDR((uintptr_t)&cell), &v, sizeof(v)));
	assert_int_equal(v, 5);
	assert_ok(proc_write(p, TADDR((uintptr_t)constant), "changed", 8));
	assert_ok(proc_read(p, TADDR((uintptr_t)constant), buf, 8));
	assert_string_equal(buf, "changed");
	assert_string_equal(constant, "read-only");
	assert_int_equal(proc_read(p, TADDR(16), &v, sizeof(v)), -EIO);
	assert_non_null(strstr(err_text(), "0x10"));
	for (i = 1; i < p->maps.n; i++)
		assert_true(p->maps.v[i - 1].end <= p->maps.v[i].start);
	m = proc_map_at(p, (uintptr_t)refused);
	assert_non_null(m);
	assert_int_equal(m->prot, PROT_READ | PROT_EXEC);
	assert_string_equal(m->path, p->exe);
	assert_false(m->shared || m->deleted);
	m = proc_map_at(p, (uintptr_t)sh);
	assert_true(m && m->shared);
	m = proc_map_at(p, (uintptr_t)&pid);
	assert_true(m && strcmp(m->path, "[stack]") == 0);
	assert_null(proc_map_at(p, 16));
	proc_close(p);
	end_target(pid);
}

/* A file whose name has a newline, mapped and then deleted; and a root of its own. */
/* A process that is about to end has no mappings, while it is still there: those that were read before stay known. */
static void maps_of_the_dead(void **state)
{
	struct proc *p;
	pid_t pid;
	size_t n;

	fresh_shared();
	pid = start_target(sleeps, NULL);
	p = opened(pid);
	assert_ok(proc_read_maps(p));
	n = p->maps.n;
	assert_true(n > 3);
	assert_ok(proc_stop(p));
	priv(p)->maps_text = strdup("");	/* as if it had been read now */
	assert_int_equal(proc_read_maps(p), -ESRCH);
	assert_int_equal(p->maps.n, n);
	assert_ok(proc_resume(p));
	proc_close(p);
	end_target(pid);
}

static void maps_odd(void *arg)
{
	const char *dir = arg;
	char path[128];
	int fd;

	if (geteuid() == 0 && (chroot(dir) || chdir("/")))
		sh->wrong = __LINE__;
	snprintf(path, sizeof(path), "%s/a\nb", geteuid() == 0 ? "" : dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (ftruncate(fd, 4096) < 0)
		sh->wrong = __LINE__;
	sh->value = (uintptr_t)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	unlink(path);
	sleeps(NULL);
}

static void odd_names(void **state)
{
	char dir[] = "/tmp/jab-test-XXXXXX", want[128];
	const struct map *m;
	struct proc *p;
	pid_t pid;

	fresh_shared();
	assert_non_null(mkdtemp(dir));
	pid = start_target(maps_odd, dir);
	assert_true(wait_until(&sh->ready, 1));
	assert_int_equal(sh->wrong, 0);
	p = opened(pid);
	m = proc_map_at(p, sh->value);
	snprintf(want, sizeof(want), "%s/a\nb", geteuid() == 0 ? "" : dir);
	assert_non_null(m);
	assert_string_equal(m->path, want);
	assert_true(m->deleted);
	proc_close(p);
	end_target(pid);
	rmdir(dir);
}

static char self[4096];

/* The same program once more, at the same addresses if the kernel does not shuffle them. */
static void exec_again(void *arg)
{
	sh->ready = 1;
	while (!sh->stop)
		sleep_ns(100000);
	execl(self, self, "--sleep", NULL);
}

/* It executes another program when it gets its turn. */
static void wait_for_end(struct proc *p)
{
	uint64_t deadline = now_ns() + PATIENCE_NS;

	while (proc_alive(p) && now_ns() < deadline)
		sleep_ns(100000);
	assert_false(proc_alive(p));
}

static void same_program_or_not(void **state)
{
	struct proc *p;
	pid_t pid;

	fresh_shared();
	pid = start_target(exec_again, NULL);
	assert_true(wait_until(&sh->ready, 1));
	p = opened(pid);
	assert_true(proc_alive(p) && proc_alive(p));
	sh->stop = 1;
	wait_for_end(p);
	assert_int_equal(proc_stop(p), -ESRCH);
	assert_int_equal(kill(pid, 0), 0);
	proc_close(p);
	p = opened(pid);
	assert_true(proc_alive(p));
	kill(pid, SIGKILL);
	wait_state(pid, 'Z');
	assert_false(proc_alive(p));
	proc_close(p);
	end_target(pid);
}

static void by_name(void **state)
{
	pid_list pids = { 0 };
	const char *base = strrchr(self, '/') + 1;
	size_t i, hits = 0;
	pid_t pid;

	fresh_shared();
	pid = start_target(sleeps, NULL);
	assert_true(wait_until(&sh->ready, 1));
	assert_ok(proc_find(base, &pids));
	for (i = 0; i < pids.n; i++) {
		assert_int_not_equal(pids.v[i], getpid());
		hits += pids.v[i] == pid;
	}
	assert_int_equal(hits, 1);
	vec_free(&pids);
	assert_int_equal(proc_find("no-such-name-at-all", &pids), -ESRCH);
	assert_non_null(strstr(err_text(), "no-such-name-at-all"));
	end_target(pid);
}

struct start { const char *name; const char *argv[4]; int status; };

/* Started, held at the entry, borrowed there, let go, and its exit status. */
static void starts(void **state)
{
	const struct start *s = *state;
	int status = -1;
	struct proc *p;

	assert_ok(proc_spawn((char *const *)s->argv, &p));
	assert_true(p->started_by_us && proc_alive(p));
	assert_int_equal(p->threads.n, 1);
	assert_true(p->threads.v[0].stopped);
	assert_int_equal(borrowed(p, SYS_getpid, 0, 0), p->pid);
	one_round(p);
	assert_ok(proc_resume(p));
	while (proc_child_ended(p, &status) == 0)
		sleep_ns(1000000);
	assert_int_equal(status, s->status);
	assert_false(proc_alive(p));
	proc_close(p);
}

static struct start start_rows[] = {
	{ "a program in PATH", { "true" }, 0 },
	{ "a program by its path", { "/bin/false" }, 1 << 8 },
	{ "arguments arrive", { "sh", "-c", "exit 7" }, 7 << 8 },
	{ "a death by signal is told", { "sh", "-c", "kill -9 $$" }, 9 },
	{ "signals are blocked and ignored as they were for us", { "sh", "-c",
	  /* of the grep: a shell that waits has its own signals blocked at times */
	  "grep -q \"$OUR_SigBlk\" /proc/self/status && grep -q \"$OUR_SigIgn\" /proc/self/status" }, 0 },
	{ "no descriptor of ours is left", { "sh", "-c",
	  "for n in 3 4 5 6 7 8 9; do test ! -e /proc/$$/fd/$n || exit $n; done" }, 0 },
};

static void not_started(const char *path, int want, const char *words)
{
	char *const argv[] = { (char *)path, NULL };
	struct proc *p = (void *)1;
	int r = proc_spawn(argv, &p);

	if (r != want || !strstr(err_text(), words))
		fail_msg("%s: %d, not %d: \"%s\" does not say \"%s\"", path, r, want, err_text(), words);
	assert_ptr_equal(p, (void *)1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);	/* nothing is left of it */
}

static void write_script(const char *path, const char *text, int mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	chmod(path, mode);
}

static void errors_of_exec(void **state)
{
	char path[] = "/tmp/jab-test-XXXXXX";

	close(mkstemp(path));
	not_started("no-such-program-at-all", -ENOENT, "no such program");
	not_started("./no-such-program-at-all", -ENOENT, "no such program");
	not_started("", -ENOENT, "no program");
	not_started("/tmp", -EACCES, "can't be executed");
	write_script(path, "#!/no/such/interpreter\n", 0700);
	not_started(path, -ENOENT, "interpreter");
	write_script(path, "neither\n", 0700);
	not_started(path, -ENOEXEC, "#!");
	unlink(path);
}

static void scripts_start(void **state)
{
	char path[] = "/tmp/jab-test-XXXXXX";
	struct start s = { "script", { path }, 5 << 8 };
	void *arg = &s;

	close(mkstemp(path));
	write_script(path, "#!/bin/sh\nexit 5\n", 0700);
	starts(&arg);
	unlink(path);
}

static int steps_to_go;

static void die_later(const char *step)
{
	if (--steps_to_go == 0)
		raise(SIGKILL);
}

/* Before the entry our death ends the child; from then on the child lives on. */
static void spawned_outlives_us(void **state)
{
	char *const argv[] = { "sh", "-c", "echo $$; exec sleep 5", NULL };
	char buf[32] = { 0 };
	int fds[2], i;
	pid_t pid;

	for (i = 1; i < 8; i++) {
		assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0) {
			struct proc *p;

			dup2(fds[1], 1);
			if (proc_spawn(argv, &p) < 0)
				_exit(1);
			steps_to_go = i;
			proc_step_hook = die_later;
			borrowed(p, SYS_getpid, 0, 0);
			raise(SIGKILL);
		}
		close(fds[1]);
		waitpid(pid, NULL, 0);
		memset(buf, 0, sizeof(buf));
		assert_true(read(fds[0], buf, sizeof(buf) - 1) > 0);
		assert_true(atoi(buf) > 1);
		assert_int_equal(kill(atoi(buf), SIGKILL), 0);
		close(fds[0]);
	}
}

/* For the shell: what our own status says. make, for one, ignores signals in what it starts. */
static void tell_signals(const char *name)
{
	char status[8192] = "", variable[32], *line;
	FILE *f = fopen("/proc/self/status", "re");

	assert_non_null(f);
	status[fread(status, 1, sizeof(status) - 1, f)] = 0;
	fclose(f);
	line = strstr(status, name);
	assert_non_null(line);
	line[strcspn(line, "\n")] = 0;
	snprintf(variable, sizeof(variable), "OUR_%s", name);
	setenv(variable, line, 1);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[32] = {
		cmocka_unit_test(no_such_process),
		cmocka_unit_test(ourselves),
		cmocka_unit_test(zombie),
		cmocka_unit_test(maps_of_the_dead),
		cmocka_unit_test(kernel_thread),
		cmocka_unit_test(thread_of_a_process),
		cmocka_unit_test(traced_already),
		cmocka_unit_test(other_user),
		cmocka_unit_test(not_dumpable),
		cmocka_unit_test(own_without_privilege),
		cmocka_unit_test(thirty_two_bit),
		cmocka_unit_test(memory_and_maps),
		cmocka_unit_test(odd_names),
		cmocka_unit_test(same_program_or_not),
		cmocka_unit_test(by_name),
		cmocka_unit_test(errors_of_exec),
		cmocka_unit_test(scripts_start),
		cmocka_unit_test(spawned_outlives_us),
	};
	size_t n = 17, i;

	if (argc > 1) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	close_range(3, ~0u, 0);		/* what the harness may have left us */
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	for (i = 0; i < ARRAY_SIZE(start_rows); i++)
		tests[n++] = (struct CMUnitTest){ start_rows[i].name, starts, NULL, NULL, &start_rows[i] };
	tell_signals("SigBlk");
	tell_signals("SigIgn");
	return _cmocka_run_group_tests("processes", tests, n, NULL, NULL);
}
