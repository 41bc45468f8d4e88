/* SPDX-License-Identifier: MIT */
/* A library whose constructor calls a function that somebody probes. */
long late_count;

__attribute__((noinline)) void late_hit(int who)
{
	__asm__ volatile("" : : "r"(who) : "memory");
	late_count++;
}

__attribute__((constructor)) static void begin(void)
{
	late_hit(-1);
}

void late_call(int n)
{
	late_hit(n);
	late_hit(n);
}
