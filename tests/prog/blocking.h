/* SPDX-License-Identifier: MIT */
/* What the parts of the blocking target share: a row is one way to wait. */
#ifndef BLOCKING_H
#define BLOCKING_H

#include "prog.h"

#define HOUR 3600
#define SHORT_MS 40
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* What a row keeps between its preparation, its call and its end. */
struct row {
	const char *name;
	int (*prepare)(struct row *r);	/* non-zero: this kernel does not have it */
	long (*wait)(struct row *r);	/* the call: what it returned, -errno on failure */
	void (*end)(struct row *r);	/* makes it return */
	long want;			/* what it then returns */
	int fd[2];
	int id;
	int word;
	void *p;
	pthread_t thread;
	int absent, waiting, returned;
	long result;
};
#define ROW(n, p, w, e, v) { .name = n, .prepare = p, .wait = w, .end = e, .want = v }

extern struct row fd_rows[], wait_rows[], short_rows[];
extern const int n_fd_rows, n_wait_rows, n_short_rows;

static inline long err(long r)
{
	return r < 0 ? -errno : r;
}

char *in_dir(const char *name);		/* a path in our own directory; per thread */
void leave(struct row *r);		/* the end of a row that has no event: it is left waiting */

/* Shared by the tables. */
int make_pipe(struct row *r);
int make_epoll(struct row *r);
int make_pair(struct row *r);
int make_sem(struct row *r);
int make_msg(struct row *r);
int make_aio(struct row *r);
int nothing(struct row *r);
void write_byte(struct row *r);
long wait_recv(struct row *r);
long futex(int *word, int op, int val, const struct timespec *t);

#endif
