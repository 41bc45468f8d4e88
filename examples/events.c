/* SPDX-License-Identifier: MIT */
/*
 * Starts a command and prints the events of a probe, with the values that its fields have:
 *
 *	cc -o events events.c $(pkg-config --cflags --libs jab)
 *	./events 'exe:work n if n > 3' ./program arguments...
 *
 * The main loop is poll(), as in a program that waits for other descriptors, too.
 */
#include <inttypes.h>
#include <jab/event.h>
#include <poll.h>
#include <stdio.h>

static void print_value(const struct jab_value *v)
{
	printf(" %s=", v->name);
	if (v->fault != JAB_READ_WELL)
		printf("<unreadable>");
	else if (v->is_array || v->kind == JAB_BYTES || v->kind == JAB_ADDRESSES)
		printf("<%" PRIu32 " elements>", v->len);
	else if (v->kind == JAB_SIGNED)
		printf("%" PRId64, v->i);
	else if (v->kind == JAB_UNSIGNED)
		printf("%" PRIu64, v->u);
	else if (v->kind == JAB_POINTER)
		printf("%#" PRIx64, v->u);
	else if (v->kind == JAB_FLOAT)
		printf("%g", v->f);
	else
		printf("\"%.*s\"%s", (int)v->len, (const char *)v->bytes, v->cut ? "..." : "");
}

static int print_event(void *arg, const struct jab_event *ev)
{
	unsigned long *n = arg;

	printf("%" PRIu32 " %s %s:", ev->tid, jab_event_comm(ev), ev->name);
	for (size_t i = 0; i < ev->nfields; i++)
		print_value(jab_event_value(ev, i));
	putchar('\n');
	++*n;
	return 0;
}

static void print_log(void *arg, enum jab_log_level level, const char *text)
{
	(void)arg;
	fprintf(stderr, "events: %s%s\n", level == JAB_LOG_WARNING ? "warning: " : "", text);
}

static int run(struct jab *j)
{
	int r = jab_insert(j), status;
	struct pollfd p = { .fd = r < 0 ? -1 : jab_fd(j), .events = POLLIN };

	while (r == 0 && jab_child_ended(j, &status) == 0) {
		poll(&p, 1, -1);
		r = jab_dispatch(j) < 0 ? -1 : 0;
	}
	if (r == 0)
		r = jab_remove(j);
	if (r == 0)		/* the last events */
		r = jab_dispatch(j) < 0 ? -1 : 0;
	return r;
}

int main(int argc, char **argv)
{
	struct jab_options options = { .size = sizeof(options), .events = true, .log = print_log };
	unsigned long n = 0;
	struct jab *j;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: events PROBE COMMAND...\n");
		return 2;
	}
	if (jab_new(&options, &j) < 0) {
		fprintf(stderr, "events: %s\n", jab_error(NULL));
		return 1;
	}
	r = jab_on_event(j, print_event, &n);
	if (r == 0)
		r = jab_spawn(j, argv + 2);
	if (r == 0)
		r = jab_add_probe(j, argv[1], NULL);
	if (r == 0)
		r = run(j);
	if (r < 0)
		fprintf(stderr, "events: %s\n", jab_error(j));
	else
		printf("%lu events, %" PRIu64 " lost\n", n, jab_get_totals(j)->lost);
	jab_free(j);
	return r < 0;
}
