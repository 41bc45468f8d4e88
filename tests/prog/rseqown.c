/* SPDX-License-Identifier: MIT */
/*
 * `rseqown`: a restartable sequence of the program's own, whose descriptor is made at run time and is in no
 * section of that name. `run N` counts N times, per CPU, by several threads; a sum that differs shows
 * that the sequence was broken.
 */
#include <sys/rseq.h>
#include "prog.h"

enum { THREADS = 4, CPUS = 1024 };

struct descriptor { uint32_t version, flags; uint64_t start, length, abort; } __attribute__((aligned(32)));

extern const char bump_start[], bump_end[], bump_abort[];
int bump(struct rseq *area, const struct descriptor *d, void *counters);

static struct descriptor descriptor;
static struct { volatile long n; long pad[15]; } counters[CPUS] __attribute__((aligned(128)));
static long quota, total;

__asm__(".text\n.globl bump\n.type bump, @function\nbump:\n"
	"	mov %rsi, 8(%rdi)\n"
	"bump_start:\n"
	"	mov 4(%rdi), %eax\n"
	"	shl $7, %rax\n"
	"	add %rdx, %rax\n"
	"	mov (%rax), %rcx\n"
	"	mov $100, %r8d\n"
	"1:	dec %r8d\n"
	"	jnz 1b\n"
	"	inc %rcx\n"
	"	mov %rcx, (%rax)\n"
	"bump_end:\n"
	"	movq $0, 8(%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	"	.byte 0x0f, 0xb9, 0x3d\n"
	"	.long 0x53053053\n"
	"bump_abort:\n"
	"	mov $1, %eax\n"
	"	ret\n"
	".size bump, .-bump\n");

static void *loop(void *arg)
{
	struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	for (long i = 0; i < quota; i++)
		while (bump(area, &descriptor, counters))
			;
	return NULL;
}

static void run(long n)
{
	pthread_t t[THREADS];

	quota = n / THREADS;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, loop, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	total += quota * THREADS;
}

int main(void)
{
	long sum = 0;

	descriptor = (struct descriptor){ 0, 0, (uint64_t)bump_start, (uint64_t)(bump_end - bump_start), (uint64_t)bump_abort };
	serve(run, NULL);
	for (int i = 0; i < CPUS; i++)
		sum += counters[i].n;
	if (sum != total)
		bad("%ld counted of %ld", sum, total);
	return verdict();
}
