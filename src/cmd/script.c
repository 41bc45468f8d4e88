/* SPDX-License-Identifier: MIT */
/* jab -e SCRIPT, jab FILE.bt: bpftrace's language. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "cmd/capture.h"
#include "session/script.h"

static const char *expression, *dump, *trace_dir;
static bool list;

static const struct opt opts[] = {
	{ 'e', "execute", "SCRIPT", OPT_TEXT, &expression, "run this script; without it, the first word is a file with one" },
	RUN_TARGETS,
	{ 'l', "list", NULL, OPT_FLAG, &list, "list what the probe given would match; with -v its arguments" },
	{ 0, "dump", "WHAT", OPT_TEXT, &dump, "print ast, ir or asm instead of running" },
	{ 'o', "output", "FILE", OPT_TEXT, &run.output, "write our output there instead of stdout" },
	{ 0, "trace", "DIR", OPT_TEXT, &trace_dir, "write record() events to a trace there instead of printing them" },
	{ 0, "buffer-size", "SIZE", OPT_SIZE, &capture.buffer_size, "bytes per CPU, as 512k or 4M" },
	{ 0, "no-follow", NULL, OPT_FLAG, &capture.no_follow, "leave programs executed and libraries loaded later alone" },
	RUN_PLACING,
	{ 0 }
};

/* A script that runs. */
struct running {
	struct jab *j;
	struct script_run *s;
	FILE *to;
	uint64_t start;
};

static char *read_all(const char *path, size_t *ret_len)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char *text = NULL;
	size_t room = 0, n = 0, got;

	if (!f) {
		fail(-errno, "%s: %s", path, strerror(errno));
		return NULL;
	}
	do {
		room += 64 << 10;
		text = xrealloc(text, room + 1);
		got = fread(text + n, 1, room - n, f);
		n += got;
	} while (got && n < 16 << 20);
	if (f != stdin)
		fclose(f);
	text[n] = '\0';
	*ret_len = n;
	return text;
}

static void say_diags(struct script_run *s)
{
	char *text = script_errors(s);

	fputs(text, stderr);
	free(text);
}

/* Without -p and -c: everybody who has mapped a file that a probe names by its path. */
static int attach_users(struct running *x)
{
	const char *path;
	int r = 0, n = 0;

	for (size_t i = 0; r >= 0 && (path = script_object(x->s, i)); i++) {
		r = jab_attach_users(x->j, path);
		n += r > 0 ? r : 0;
	}
	if (r < 0)
		return r;
	if (!n)
		return fail(-ESRCH, "no running process uses a file that the script's probes name; start one with -c, or "
			    "choose one with -p");
	log_info("%d processes", n);
	return 0;
}

static int choose_targets(struct running *x, char **rest)
{
	if (run.pids.n || run.command || rest)
		return run_targets(x->j, rest);
	if (!script_has_sites(x->s))
		return 0;
	if (!script_object(x->s, 0))
		return fail(-EINVAL, "no target given (-p PID, -c CMD or -- CMD), and no probe of the script names a file by its path");
	return attach_users(x);
}

static int prepare(struct running *x)
{
	int r = jab_resolve(x->j);

	if (!r && dump)
		return script_dump_text(x->s, dump, x->to);
	if (!r)
		r = script_begin(x->s);
	return r;
}

static int tick(void *arg, int64_t drained)
{
	struct running *x = arg;
	int status, r = script_tick(x->s, &capture.wait_most);

	fflush(x->to);
	if (r < 0)
		return r;
	if (script_exited(x->s, &status))
		return -ECANCELED;
	return drained < 0 && drained != -ECANCELED ? drained : 0;
}

/* Only clauses of the tracer: nothing to attach to, nothing to wait for but time and signals. */
static void run_alone(struct running *x)
{
	int status;

	while (!run_interrupted && !script_exited(x->s, &status)) {
		uint64_t wait, left = UINT64_MAX;

		script_tick(x->s, &wait);
		fflush(x->to);
		if (run.duration >= 0) {
			uint64_t past = now_ns() - x->start, all = run.duration * 1e9;

			if (past >= all)
				break;
			left = all - past;
		}
		if (!script_exited(x->s, &status))
			sleep_ns(MIN(MIN(wait, left), 100000000ull));
	}
}

static int finish(struct running *x, int ended, int child_status)
{
	struct jab_report report = { .clean = true };
	struct events_totals t;
	int r = jab_remove(x->j, &report), status = 0, written;
	bool exited = script_exited(x->s, &status);

	if (!exited)
		events_drain(x->j, true);
	exited = script_exited(x->s, &status);
	written = script_end(x->s);
	script_say_errors(x->s);
	events_totals(x->j, &t);
	if (t.lost)
		log_warn("%" PRIu64 " events were lost; a larger --buffer-size may help", t.lost);
	if (t.damaged)
		log_warn("a buffer held what is no event, %" PRIu64 " times", t.damaged);
	if (run.json)
		run_json_summary(x->j, x->to, &report, false);
	run_say_times(x->j, &report);
	run_say_report(&report);
	if (r < 0)
		return run_still_in();
	if ((ended < 0 && ended != -ECANCELED) || written < 0)
		return complain();
	return exited ? status : run_child_status(x->j, ended > 0, child_status);
}

static int run_probes(struct running *x)
{
	int status = 0, r = run_insert(x->j), ended;

	if (r < 0)
		return complain();
	if (run.dry_run)
		return 0;
	ended = capture_loop(x->j, tick, x, &status);
	return finish(x, ended, status);
}

static int start(struct running *x, const struct script_options *o, char **rest)
{
	int r = capture_begin(x->j), status = 0;

	if (r == 0)
		r = script_load(x->j, o, &x->s);
	if (r == 0)
		r = choose_targets(x, rest);
	if (r == 0)
		r = prepare(x);
	if (x->s)
		say_diags(x->s);
	if (r < 0)
		return r == -EINVAL && x->s && script_has_errors(x->s) ? 1 : complain();
	if (dump)
		return 0;
	x->start = now_ns();
	if (script_has_sites(x->s) && !script_exited(x->s, &status))
		return run_probes(x);
	if (!run.dry_run)
		run_alone(x);
	script_exited(x->s, &status);
	script_end(x->s);
	return status;
}

static int run_text(const struct script_options *o, char **rest)
{
	struct running x = { .to = o->out };
	int r;

	run_catch_signals();
	jab_new(&x.j);
	r = start(&x, o, rest);
	script_free_run(x.s);
	jab_free(x.j);
	return r;
}

static int run_script(text_list *words, char **rest)
{
	struct script_options o = { .name = "command line", .text = expression, .out = stdout, .trace = trace_dir };
	size_t skip = expression ? 0 : 1;
	char *text = NULL;
	int r;

	if (!expression && !words->n) {
		fprintf(stderr, "jab: no script given (-e SCRIPT, or a file); try `jab --help`\n");
		return 2;
	}
	if (!expression) {
		o.name = words->v[0];
		o.text = text = read_all(o.name, &o.len);
		if (!text)
			return complain();
	} else {
		o.len = strlen(expression);
	}
	o.params = words->v + skip;
	o.nparams = words->n - skip;
	if (run.output && !(o.out = fopen(run.output, "we"))) {
		fail(-errno, "%s: %s", run.output, strerror(errno));
		free(text);
		return complain();
	}
	r = run_text(&o, rest);
	if (o.out != stdout) {
		if (output_done(o.out, run.output) < 0)
			r = complain();
		fclose(o.out);
	}
	free(text);
	return r;
}

const struct command cmd_script = {
	"-e", "SCRIPT | FILE.bt [-p PID|NAME | -c CMD] [OPTIONS] [PARAMETER...] [-- CMD ARGS]",
	"Run a script in bpftrace's language.", opts, run_script
};
