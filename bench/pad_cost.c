/* SPDX-License-Identifier: MIT */
/*
 * What a probe adds to a call: a site of five bytes jumps to a pad, the pad does its work and
 * jumps back. The figure is the best of many rounds minus the same calls with a nop at the site. Part of the work hides behind the latency of
 * the call itself, as it does in real programs; the second column shows it without that help.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"

#define CALLS 200000
#define ROUNDS 60
#define CODE_SIZE 65536
#define SITE_STEP 64
#define PAD_OFF 4096
#define PAD_STEP 512
#define MAX_CPUS 1024

static uint8_t *code;			/* read, write, execute: our own process only */
static uint64_t table_room[2 + MAX_CPUS];
static uint64_t counters[MAX_CPUS][8] __attribute__((aligned(64)));
static uint64_t shared __attribute__((aligned(64)));

static struct count_spec make_spec(bool has_rseq)
{
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		table_room[2 + cpu] = (uint64_t)counters[cpu];
	return (struct count_spec){
		.rseq_off = __rseq_offset,
		.rseq_sig = RSEQ_SIG,
		.has_rseq = has_rseq,
		.cpu_table = (uint64_t)(table_room + 2),
		.shared = (uint64_t)&shared,
		.index = 3,
	};
}

/* site: nop or jump, then ret. Returns the address to call. */
static uint8_t *make_site(int n, const uint8_t *body, int len)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	uint8_t *site = code + n * SITE_STEP;
	uint8_t *pad = code + PAD_OFF + n * PAD_STEP;

	memcpy(site, nop5, 5);
	site[5] = 0xc3;
	if (!body)
		return site;
	memcpy(pad, body, len);
	arch_x86_64.jump(pad + len, (uint64_t)pad + len, (uint64_t)site + 5);
	arch_x86_64.jump(site, (uint64_t)site, (uint64_t)pad);
	return site;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double ns_per_call(uint8_t *site)
{
	void (*call)(void) = (void (*)(void))site;
	double best = 1e9;

	for (int r = 0; r < ROUNDS; r++) {
		double start = now_ns();

		for (int i = 0; i < CALLS; i++)
			call();
		double ns = (now_ns() - start) / CALLS;

		if (ns < best)
			best = ns;
	}
	return best;
}

/* A pad with nothing but `times` copies of the work: what one more costs when nothing hides it. */
#define TIMES 16

static double ns_in_a_row(int *n, const struct count_spec *spec)
{
	uint8_t body[TIMES * COUNT_MAX];
	uint64_t pad = (uint64_t)code + PAD_OFF + *n * PAD_STEP;
	int len = 0;

	for (int i = 0; i < TIMES; i++)
		len += arch_x86_64.emit_count(body + len, pad + len, spec);

	double ns = ns_per_call(make_site(*n, body, len));

	*n += len / PAD_STEP + 1;
	return ns / TIMES;
}

static void report_count(const char *what, int *n, bool has_rseq, double base)
{
	struct count_spec spec = make_spec(has_rseq);
	uint8_t body[COUNT_MAX];
	int len = arch_x86_64.emit_count(body, (uint64_t)code + PAD_OFF + *n * PAD_STEP, &spec);
	double ns = ns_per_call(make_site((*n)++, body, len)) - base;

	printf("%-24s %6.2f ns   %6.2f ns   %d bytes\n", what, ns, ns_in_a_row(n, &spec), len);
}

int main(void)
{
	static const uint8_t rdtsc[] = { 0x50, 0x52, 0x0f, 0x31, 0x5a, 0x58 };
	double base;
	int n = 0;

	code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED)
		return perror("mmap"), 1;

	base = ns_per_call(make_site(n++, NULL, 0));
	printf("call of a nop and ret    %6.2f ns\n", base);
	printf("added by                  a pad     %d in a row, each\n", TIMES);
	printf("jump and back            %6.2f ns\n", ns_per_call(make_site(n++, rdtsc, 0)) - base);
	if (__rseq_size)
		report_count("count with rseq", &n, true, base);
	else
		puts("count with rseq: this thread is not registered");
	report_count("count with lock", &n, false, base);
	printf("push, rdtsc, pop         %6.2f ns\n",
	       ns_per_call(make_site(n++, rdtsc, sizeof(rdtsc))) - base);
	return 0;
}
