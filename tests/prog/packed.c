/* SPDX-License-Identifier: MIT */
/*
 * Packed structs that end where their page ends, and nothing is behind it. Says what is in their bit-fields, each in its own
 * line, before it calls look().
 */
#include <stdio.h>
#include <sys/mman.h>

#define noinline __attribute__((noinline, noclone, noipa))

#pragma pack(push, 1)
struct three { unsigned char a; unsigned int b : 13; unsigned int c : 3; };
struct five { unsigned int a : 7; unsigned int b : 30; int c : 3; };
struct nine { unsigned long a : 3; unsigned long b : 63; long c : 6; };
#pragma pack(pop)

noinline long look(const struct three *t, const struct five *f, const struct nine *n)
{
	__asm__ volatile("" : : : "memory");
	return t->a + f->a + n->a;
}

static void *at_end(size_t size)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || munmap(p + 4096, 4096) < 0)
		return NULL;
	return p + 4096 - size;
}

int main(void)
{
	struct three *t = at_end(sizeof(*t));
	struct five *f = at_end(sizeof(*f));
	struct nine *n = at_end(sizeof(*n));

	if (!t || !f || !n)
		return 1;
	*t = (struct three){ 0x11, 0x1abc, 5 };
	*f = (struct five){ 0x55, 0x2abcdef1, -3 };
	*n = (struct nine){ 5, 0x5123456789abcdef, -7 };
	printf("%d %d %d\n", t->a, t->b, t->c);
	printf("%d %d %d\n", f->a, f->b, f->c);
	printf("%d %lu %d\n", (int)n->a, (unsigned long)n->b, (int)n->c);
	fflush(stdout);
	return look(t, f, n) != 0x11 + 0x55 + 5;
}
