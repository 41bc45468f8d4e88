// SPDX-License-Identifier: MIT
/*
 * `cancel`: serves `run N`: N threads block in calls that are cancellation points, one sort after the
 * other, and are cancelled there. Each holds an object whose destructor must run: the unwinder starts
 * at the PC of the blocked call. `block` leaves threads blocked, `end` cancels those.
 */
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <atomic>
#include <vector>
#include "prog.h"

static std::atomic<long> made, gone;
static int pipes[2], pair[2];
static sem_t never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

struct held {
	held() { made++; }
	~held() { gone++; }
};

static void unlock(void *m)
{
	pthread_mutex_unlock(static_cast<pthread_mutex_t *>(m));
}

static void wait_for_cond()
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(1);
}

static void block(int how)
{
	struct timespec day = { 86400, 0 };
	struct pollfd p = { pipes[0], POLLIN, 0 };
	fd_set set;
	char c;

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	switch (how) {
	case 0: (void)!read(pipes[0], &c, 1); break;
	case 1: nanosleep(&day, nullptr); break;
	case 2: poll(&p, 1, -1); break;
	case 3: sem_wait(&never); break;
	case 4: recv(pair[0], &c, 1, 0); break;
	case 5: select(pipes[0] + 1, &set, nullptr, nullptr, nullptr); break;
	case 6: wait_for_cond(); break;
	default: pause(); break;
	}
}

noinline void work(int how)
{
	held h;

	for (;;)
		block(how);
}

static void *thread(void *how)
{
	work(static_cast<int>(reinterpret_cast<long>(how)));
	return nullptr;
}

static std::vector<pthread_t> blocked;

static void start(long i)
{
	pthread_t t;

	if (pthread_create(&t, nullptr, thread, reinterpret_cast<void *>(i % 8)))
		exit(4);
	blocked.push_back(t);
}

static void end_all()
{
	for (pthread_t t : blocked) {
		void *how;

		pthread_cancel(t);
		pthread_join(t, &how);
		if (how != PTHREAD_CANCELED)
			bad("a thread ended otherwise");
	}
	blocked.clear();
	if (made != gone)
		bad("%ld of %ld destructors", gone.load(), made.load());
}

static void run(long n)
{
	for (long i = 0; i < n; i++) {
		start(i);
		if (blocked.size() == 8)
			end_all();
	}
	end_all();
}

static int other(const char *line)
{
	if (!strcmp(line, "block")) {
		long want = made + 8;

		for (long i = 0; i < 8; i++)
			start(i);
		while (made < want)
			usleep(1000);
		usleep(20000);
	} else if (!strcmp(line, "end")) {
		end_all();
	} else {
		return -1;
	}
	say("%s", line);
	return 0;
}

int main()
{
	if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || sem_init(&never, 0, 0))
		return 4;
	serve(run, other);
	end_all();
	return verdict();
}
