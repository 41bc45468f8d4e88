/* SPDX-License-Identifier: MIT */
/* Small structs by value: their members are parts of registers, floats in general ones and numbers in vector ones. */
#include <stdbool.h>
#include <stdio.h>

struct pair { float x, y; };
struct four { float a, b, c, d; };
struct mixed { int i; float f; };
struct flags { bool no, yes; signed char c; unsigned short s; float f; };
struct both { double d; float f; short s; };

volatile double sum;

__attribute__((noinline, noclone)) void take(struct pair p, struct four q, struct mixed m, struct flags g, struct both h)
{
	sum += p.x * p.y + q.a + q.b * q.c - q.d + m.i * m.f + g.no + 2 * g.yes + g.c * g.s + g.f + h.d * h.f + h.s;
}

int main(void)
{
	int i;

	for (i = 0; i < 3; i++)
		take((struct pair){ i + .5f, -i - .25f }, (struct four){ i, 2 * i, 3.5f * i, 1e10f }, (struct mixed){ -i, .125f * i },
		     (struct flags){ false, i & 1, -5 - i, 65535 - i, -i * 1.5f }, (struct both){ i / 3.0, i / 3.0f, -7 * i });
	printf("%g\n", sum);
	return 0;
}
