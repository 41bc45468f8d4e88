/* SPDX-License-Identifier: MIT */
/*
 * What a backtrace costs, beside rdtsc: the walker that runs inside targets, with the tables of this very
 * process and its stack read by the kernel, at several depths. The parts are told apart by running the
 * same walk on a copy that is there already.
 *
 *	unwind_cost [DEPTH...]
 */
#include "../tests/unit/unwind_target.h"

#include "base/clock.h"

#define TURNS 200
#define ROUNDS 100
#define noinline __attribute__((noinline))

static struct tables tables;
static uint64_t frames[UNWIND_FRAMES_MAX];
static uint64_t copy[2048];
static pid_t self;
static volatile uint64_t sink;
static int kernel_reads;

static uint32_t read_self(void *arg, uint64_t from, void *to, uint32_t len)
{
	kernel_reads++;
	return read_other(&self, from, to, len);
}

enum start { FROM_KERNEL, FROM_PAGE, FROM_COPY };

static uint32_t one_walk(const uint64_t *regs, uint64_t ip, enum start start, uint32_t limit)
{
	struct unwind_state s = { .ip = ip };
	struct unwind_walk w = { .s = &s, .dir = tables.dir, .read = read_self, .copy = (uint8_t *)copy, .copy_room = sizeof(copy) };
	enum unwind_end end;

	memcpy(s.regs, regs, sizeof(s.regs));
	s.copy_len = start == FROM_COPY ? sizeof(copy) : 0;
	s.copy_at = regs[RSP];
	if (start == FROM_PAGE)
		unwind_copy_page(&w, regs[RSP], regs[RSP]);
	return unwind_walk(&w, frames, limit, &end);
}

static double per_turn(uint64_t a, uint64_t b)
{
	return (double)(b - a) / TURNS;
}

static double time_walks(const uint64_t *regs, uint64_t ip, enum start start, uint32_t limit)
{
	uint64_t t0 = now_ns();

	for (int i = 0; i < TURNS; i++)
		one_walk(regs, ip, start, limit);
	return per_turn(t0, now_ns());
}

static double time_rdtsc(void)
{
	uint64_t t0 = now_ns();

	for (int i = 0; i < TURNS; i++)
		sink += __builtin_ia32_rdtsc();
	return per_turn(t0, now_ns());
}

static void measure(const uint64_t *regs, uint64_t ip, uint32_t limit)
{
	double best[3] = { 1e9, 1e9, 1e9 }, tsc = 1e9;
	uint32_t n = 0, reads[3];

	for (int r = 0; r < ROUNDS; r++) {
		tsc = MIN(tsc, time_rdtsc());
		for (int start = FROM_KERNEL; start <= FROM_COPY; start++) {
			read_other(&self, regs[RSP], copy, sizeof(copy));
			kernel_reads = 0;
			n = one_walk(regs, ip, start, limit);
			reads[start] = kernel_reads;
			best[start] = MIN(best[start], time_walks(regs, ip, start, limit));
		}
	}
	printf("%4u frames: %6.0f ns = %4.0f x rdtsc (%u reads); the page of rsp plainly: %6.0f ns = %4.0f x (%u reads); "
	       "the steps alone %6.0f ns, %.0f a frame\n", n, best[0], best[0] / tsc, reads[0], best[1], best[1] / tsc,
	       reads[1], best[2], best[2] / n);
}

static noinline void bottom(uint32_t limit)
{
	uint64_t regs[16] = { 0 }, ip;

	__asm__ volatile("mov %%rbx,24(%1); mov %%rsp,32(%1); mov %%rbp,40(%1); lea 1f(%%rip),%0; 1:"
			 : "=&r"(ip) : "r"(regs) : "memory");
	measure(regs, ip, limit);
}

/* 80 bytes of stack a frame: what bash, python3 and cc1 have on average is 100 to 200 */
static noinline uint64_t deep(uint32_t n, uint32_t limit)
{
	volatile uint64_t locals[6] = { n };

	if (n > 2)
		deep(n - 1, limit);
	else
		bottom(limit);
	return locals[n % 6];
}

int main(int argc, char **argv)
{
	static const uint32_t usual[] = { 1, 5, 10, 20, 30, 60, 120 };

	self = getpid();
	tables_update(&tables, self);
	for (size_t i = 0; i < ARRAY_SIZE(usual) && argc < 2; i++)
		deep(usual[i], usual[i]);
	for (int i = 1; i < argc; i++)
		deep(atoi(argv[i]), atoi(argv[i]));
	tables_close(&tables);
	return 0;
}
