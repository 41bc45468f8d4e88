/* SPDX-License-Identifier: MIT */
/* A small busy program to try jab on: four clerks serve customers until the time is up. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

long price_of(const char *what);
char *write_receipt(const char *what, long price);
void take_money(long price);
int sell(const char *what);

static pthread_mutex_t till = PTHREAD_MUTEX_INITIALIZER;
static long revenue;
static volatile int closed;

NOINLINE long price_of(const char *what)
{
	return 3 + strlen(what) * 2;
}

NOINLINE char *write_receipt(const char *what, long price)
{
	char *text = malloc(64);

	snprintf(text, 64, "%s: %ld", what, price);
	return text;
}

NOINLINE void take_money(long price)
{
	pthread_mutex_lock(&till);
	revenue += price;
	pthread_mutex_unlock(&till);
}

NOINLINE int sell(const char *what)
{
	long price = price_of(what);
	char *receipt;

	if (price > 20)
		return 0;	/* too dear: the customer leaves */
	receipt = write_receipt(what, price);
	take_money(price);
	free(receipt);
	return 1;
}

static void *clerk(void *arg)
{
	static const char *const goods[] = { "tea", "bread", "apples", "an espresso machine" };
	unsigned n = (unsigned)(size_t)arg;

	while (!closed) {
		sell(goods[n++ % 4]);
		if (n % 64 == 0)
			usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 10;
	pthread_t clerks[4];

	for (size_t i = 0; i < 4; i++)
		pthread_create(&clerks[i], NULL, clerk, (void *)i);
	sleep(seconds);
	closed = 1;
	for (size_t i = 0; i < 4; i++)
		pthread_join(clerks[i], NULL);
	printf("shop closed, revenue %ld\n", revenue);
	return 0;
}
