/* SPDX-License-Identifier: MIT */
/* Calls what can be entered from two sides in cross.S, N times each, with its result checked; prints N. */
#include "prog.h"

long before_short(long), cross_a(long), after_short(long), far_away(long);

int main(int argc, char **argv)
{
	long i, n = argc > 1 ? atol(argv[1]) : 1000;

	for (i = 0; i < n; i++) {
		if (cross_a(i) != i + 3 || before_short(i) != i + 103 || after_short(2 * i) != 2 * i + 203 ||
		    far_away(i) != i + 303) {
			printf("bad: round %ld\n", i);
			return 3;
		}
	}
	printf("%ld\n", n);
	return 0;
}
