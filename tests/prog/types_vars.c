/* SPDX-License-Identifier: MIT */
/* Variables in blocks, loops and inlined functions: for locations inside of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item { int key; double weight; struct item *next; };

static struct item *list;
static int total;
int shared[4] = { 1, 2, 3, 4 };

static inline __attribute__((always_inline)) int scaled(int base, const struct item *it)
{
	int half = base / 2;

	total += half;
	return half * it->key + shared[base & 3];
}

__attribute__((noinline)) static struct item *push(int key, double weight)
{
	struct item *it = malloc(sizeof(*it));

	it->key = key;
	it->weight = weight;
	it->next = list;
	list = it;
	return it;
}

__attribute__((noinline)) long work(int count, const char *text, float factor)
{
	struct item *it;
	long sum = 0;
	int i;

	for (i = 0; i < count; i++) {
		int doubled = i * 2;
		char letter = text[i % strlen(text)];

		if (doubled > 4) {
			unsigned int deep = doubled + letter;

			sum += deep;
			push(deep, factor * i);
		} else {
			int i = letter;		/* hides the other one */

			sum += i;
			push(i, factor);
		}
	}
	for (it = list; it; it = it->next) {
		sum += scaled(it->key, it);
		total++;
	}
	for (it = list; it; it = it->next)
		sum += scaled(count, it) * (long)it->weight;
	return sum;
}

int main(int argc, char **argv)
{
	long r = work(5 + argc, "words", 1.5f + argc);

	printf("%ld %d\n", r, total);
	return argc > 5 ? !!argv[1] : 0;
}
