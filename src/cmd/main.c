/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <jab/jab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cmd/common.h"
#include "cmd/tool.h"

static const struct command *const commands[] = {
	&cmd_trace, &cmd_record, &cmd_count, &cmd_list, &cmd_check, &cmd_view, &cmd_recover,
};

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

/*
 * If jab is started with one of the first three descriptors closed, the next file that it opens (such as a target's memory)
 * would get that number, and messages would be written to it. So unusable descriptors are opened there; they are closed again
 * in a program that jab starts.
 */
static void keep_standard_files(void)
{
	int fd;

	while ((fd = open("/dev/null", O_PATH | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd >= 0)
		close(fd);
}

/*
 * Whether the first word belongs to a script: an option (`jab -e '...'`) or a file (`jab FILE.bt`, or #! in a script). A word
 * with a dot or slash counts as a file even if the file does not exist: then the message says so.
 */
static bool is_script(const char *word)
{
	return word[0] == '-' || (!find(word) && (strpbrk(word, "./") || access(word, F_OK) == 0));
}

/* `jab -e --help`: -e takes a value, but --help is no script. */
static bool asks_help(int argc, char **argv)
{
	return argc == 3 && !strcmp(argv[1], "-e") && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"));
}

/* The exit status: r, or 1 if the output could not be written. */
static int finish(int r)
{
	return r ? r : output_status(stdout, "the output", 0);
}

/* `jab leaks ...`: the script of that name. */
static int run_tool(struct tool *t, int argc, char **argv)
{
	text_list given = { 0 }, words = { 0 };
	char **rest;
	int r = tool_words(t, argc, argv, &given, &tool_named);

	tool_name = argv[-1];
	if (!r)
		r = opts_parse(&cmd_script, given.n, given.v, &words, &rest);
	if (!r)
		r = cmd_script.run(&words, rest);
	else if (r == 1)
		r = 0;
	for (size_t i = 0; i < tool_named.n; i++)
		free(tool_named.v[i]);
	vec_free(&tool_named);
	vec_free(&given);
	vec_free(&words);
	tool_free(t);
	return r;
}

/* A command whose name differs by a letter, for "did you mean"; or NULL. */
static const char *near_command(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (is_near(word, commands[i]->name))
			return commands[i]->name;
	return NULL;
}

static int no_command(const char *word)
{
	const char *near = near_command(word);

	fprintf(stderr, "jab: there is no command and no script '%s'%s%s%s `jab --help`\n", word,
		near ? "; did you mean " : "", near ? near : "", near ? "? Try" : "; try");
	return 2;
}

static int usage(FILE *to)
{
	fprintf(to, "usage: jab COMMAND [OPTIONS] [PROBE...]\n       jab [OPTIONS] -e SCRIPT | FILE.bt\n\n"
		"jab puts tracepoints into running programs by jumping to generated code and back.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(to, "  jab %-8s %s\n", commands[i]->name, commands[i]->about);
	fprintf(to, "\n  jab -e SCRIPT [PARAMETER...]\n  jab FILE.bt [PARAMETER...]\n"
		"               %s\n"
		"  jab -l PROBE, jab -l FILE.bt\n"
		"               List what the probes of scripts match; -lv with types.\n", cmd_script.about);
	fprintf(to, "\nReady tools, which are scripts (man jab-tools):\n\n");
	tools_list(to);
	fprintf(to, "\n`jab COMMAND --help` and `jab -e --help` list options, `jab --version` prints the version; more: man jab.\n");
	return to == stdout ? 0 : 2;
}

/* `jab help`, `jab help count`, `jab help script`. */
static int help(const char *about)
{
	const struct command *c = about ? find(about) : NULL;
	struct tool *t;

	if (!about)
		return usage(stdout);
	if (!c && (!strcmp(about, "-e") || !strcmp(about, "script")))
		c = &cmd_script;
	if (!c && (t = tool_find(about))) {
		tool_help(t);
		tool_free(t);
		return 0;
	}
	if (!c)
		return no_command(about);
	opts_help(c);
	return 0;
}

int main(int argc, char **argv)
{
	const struct command *c;
	text_list words = { 0 };
	struct tool *t;
	char **rest;
	int r;

	keep_standard_files();
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return finish(help(argv[2]));
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("jab %s\n", jab_version());
		return finish(0);
	}
	if (asks_help(argc, argv)) {
		opts_help(&cmd_script);
		return finish(0);
	}
	c = is_script(argv[1]) ? &cmd_script : find(argv[1]);
	if (!c && (t = tool_find(argv[1])))
		return finish(run_tool(t, argc - 2, argv + 2));
	if (!c)
		return no_command(argv[1]);
	r = c == &cmd_script ? opts_parse(c, argc - 1, argv + 1, &words, &rest) :
	    opts_parse(c, argc - 2, argv + 2, &words, &rest);
	if (!r)
		r = c->run(&words, rest);
	else if (r == 1)
		r = 0;
	vec_free(&words);
	return finish(r);
}
