/* SPDX-License-Identifier: MIT */
/*
 * The reader of rings, against a writer in plain C that does what it should, and against one that
 * writes nonsense everywhere. The code that pads really run is in test_event.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "ring/ring.h"

#define SIZE RING_SIZE_MIN

static uint8_t *page;			/* head page, data, the same data, a page that faults */
static struct ring ring;

static struct ring_head *head(void)
{
	return (struct ring_head *)page;
}

static int set_up(void **state)
{
	int fd = memfd_create("ring", 0);
	uint8_t *at = mmap(NULL, RING_HEAD_SIZE + 2 * SIZE + 4096, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rw = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_FIXED;

	if (fd < 0 || ftruncate(fd, RING_HEAD_SIZE + SIZE) < 0)
		return -1;
	if (mmap(at, RING_HEAD_SIZE + SIZE, rw, how, fd, 0) == MAP_FAILED ||
	    mmap(at + RING_HEAD_SIZE + SIZE, SIZE, rw, how, fd, RING_HEAD_SIZE) == MAP_FAILED)
		return -1;
	close(fd);
	page = at;
	return 0;
}

static int reset(void **state)
{
	memset(page, 0, RING_HEAD_SIZE + SIZE);
	return ring_attach(&ring, page, page + RING_HEAD_SIZE, SIZE);
}

/* An event whose payload can be told from any other. */
static void put_payload(uint8_t *at, struct event_head e)
{
	uint64_t word = e.time;

	memcpy(at, &e, sizeof(e));
	for (uint32_t off = sizeof(e); off < e.len; off += 8) {
		word = word * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(at + off, &word, 8);
	}
}

static bool payload_is_good(const uint8_t *at)
{
	uint8_t want[EVENT_LEN_MAX];
	struct event_head e;

	memcpy(&e, at, sizeof(e));
	put_payload(want, e);
	return !memcmp(at, want, e.len);
}

/* As the pads do it: marks, then the event, then head. False: no room. */
static bool write_event(uint32_t id, uint64_t n, uint32_t len, bool overwrite)
{
	uint64_t h = head()->head, stretch = ring_stretch(SIZE);

	if (!overwrite && h + len - __atomic_load_n(&head()->tail, __ATOMIC_ACQUIRE) > SIZE)
		return false;
	if ((h ^ (h + len)) & -stretch)
		head()->marks[(h + len) / stretch % (SIZE / stretch)] = h + len;
	put_payload(page + RING_HEAD_SIZE + h % SIZE, (struct event_head){ id, len, n, 1, 2 });
	__atomic_store_n(&head()->head, h + len, __ATOMIC_RELEASE);
	return true;
}

/* Lengths 24, 32 ... 24 + 8 * 57, in turn. */
static uint32_t len_of(uint64_t n)
{
	return 24 + 8 * (n % 58);
}

static uint64_t check_span(const uint8_t *span, uint64_t len, uint64_t next)
{
	uint64_t off = 0, at = 0;
	struct event_head e;

	while (ring_next(&ring, span, len, &off, &e)) {
		assert_int_equal(e.time, next);
		assert_int_equal(e.len, len_of(next));
		assert_true(payload_is_good(span + at));
		at = off;
		next++;
	}
	assert_int_equal(off, len);
	return next;
}

/* ---- a good writer ------------------------------------------------------------------------ */

static void sizes_are_checked(void **state)
{
	static const uint64_t bad[] = { 0, 4096, 32768, 65536 + 4096, 3 << 16, 1ull << 31, -1ull };
	struct ring r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ring_attach(&r, page, page + RING_HEAD_SIZE, bad[i]), -EINVAL);
	assert_int_equal(ring_attach(&r, page, page + RING_HEAD_SIZE, 1 << 20), 0);
}

static void empty_ring_gives_nothing(void **state)
{
	const uint8_t *span;

	assert_int_equal(ring_peek(&ring, &span), 0);
	assert_int_equal(ring.damaged, 0);
}

static void every_event_comes_once_and_in_order(void **state)
{
	uint64_t written = 0, read = 0, len;
	const uint8_t *span;

	for (int turn = 0; turn < 500; turn++) {
		while (write_event(7, written, len_of(written), false))
			written++;
		len = ring_peek(&ring, &span);
		assert_true(len > SIZE - EVENT_LEN_MAX);
		assert_true(span < page + RING_HEAD_SIZE + SIZE);
		read = check_span(span, len, read);
		ring_consume(&ring, len);
		assert_int_equal(read, written);
	}
	assert_int_equal(ring.damaged, 0);
}

static void peek_again_gives_the_same(void **state)
{
	const uint8_t *a, *b;

	write_event(1, 0, 24, false);
	assert_int_equal(ring_peek(&ring, &a), 24);
	write_event(1, 1, 32, false);
	assert_int_equal(ring_peek(&ring, &b), 56);
	assert_ptr_equal(a, b);
	ring_consume(&ring, 24);
	assert_int_equal(head()->tail, 24);
	assert_int_equal(ring_peek(&ring, &b), 32);
}

static void reading_goes_on_where_another_stopped(void **state)
{
	const uint8_t *span;

	write_event(1, 0, 24, false);
	write_event(1, 1, 32, false);
	ring_peek(&ring, &span);
	ring_consume(&ring, 24);
	ring_attach(&ring, page, page + RING_HEAD_SIZE, SIZE);
	assert_int_equal(ring_peek(&ring, &span), 32);
}

#define STREAM 300000

static void *stream(void *arg)
{
	for (uint64_t n = 0; n < STREAM; )
		n += write_event(3, n, len_of(n), false);
	return NULL;
}

static void reader_and_writer_at_once(void **state)
{
	uint64_t read = 0, len;
	const uint8_t *span;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, stream, NULL), 0);
	while (read < STREAM) {
		len = ring_peek(&ring, &span);
		if (!len)
			continue;
		read = check_span(span, len, read);
		ring_consume(&ring, len);
	}
	pthread_join(thread, NULL);
	assert_int_equal(ring.damaged, 0);
}

/* ---- damage ------------------------------------------------------------------------------- */

static void bad_length_gives_up_to_head(void **state)
{
	static const uint32_t bad[] = { 0, 8, 16, 25, 28, EVENT_LEN_MAX + 8, 1u << 31, ~0u, 64 };
	const uint8_t *span;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reset(NULL);
		write_event(1, 0, 24, false);
		write_event(1, 1, 32, false);
		memcpy(page + RING_HEAD_SIZE + 24 + 4, &bad[i], 4);
		assert_int_equal(ring_peek(&ring, &span), 24);	/* what is good still comes */
		ring_consume(&ring, 24);
		assert_int_equal(ring_peek(&ring, &span), 0);
		assert_int_equal(ring.damaged, 1);
		assert_int_equal(ring.damaged_bytes, 32);
		write_event(1, 2, 40, false);
		assert_int_equal(ring_peek(&ring, &span), 40);	/* and what comes later */
	}
}

static void head_out_of_range_gives_up(void **state)
{
	static const uint64_t bad[] = { 1, 7, 23, SIZE + 8, 1ull << 63, -8ull, -1ull };
	const uint8_t *span;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reset(NULL);
		head()->head = bad[i];
		assert_int_equal(ring_peek(&ring, &span), 0);
		assert_int_equal(ring.damaged, 1);
		assert_int_equal(ring_peek(&ring, &span), 0);
		assert_int_equal(ring.damaged, 1);
		write_event(1, 2, 40, false);
		assert_int_equal(ring_peek(&ring, &span), 40);
	}
}

/* However good the events look, there are not more of them than the ring has room for. */
static void head_beyond_good_events_gives_up(void **state)
{
	const uint8_t *span;

	while (write_event(1, 0, 64, false))
		;
	head()->head += 64;
	assert_int_equal(ring_peek(&ring, &span), 0);
	assert_int_equal(ring.damaged, 1);
	assert_int_equal(ring.damaged_bytes, SIZE);
}

static void expected_ids_and_lengths(void **state)
{
	static const uint32_t lens[] = { 24, 32, 0, 0 };	/* the last one is not ours any more */
	const uint8_t *span;

	ring_expect(&ring, lens, 3);
	write_event(0, 0, 24, false);
	write_event(1, 1, 32, false);
	write_event(2, 2, 96, false);
	assert_int_equal(ring_peek(&ring, &span), 152);
	write_event(1, 3, 40, false);
	assert_int_equal(ring_peek(&ring, &span), 152);
	ring_consume(&ring, 152);
	assert_int_equal(ring_peek(&ring, &span), 0);
	write_event(3, 4, 24, false);
	assert_int_equal(ring_peek(&ring, &span), 0);
	assert_int_equal(ring.damaged, 2);
	write_event(1, 5, 24, false);
	assert_int_equal(ring_peek(&ring, &span), 0);
	assert_int_equal(ring.damaged, 3);
}

static uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* One word somewhere, or the head, or a length that looks right. */
static void scribble(void)
{
	uint64_t r = random_word();
	uint8_t *data = page + RING_HEAD_SIZE;

	switch (r % 6) {
	case 0:
		head()->head = random_word() >> r / 8 % 64;
		break;
	case 1:
		head()->head += (int64_t)(random_word() % 8192) - 4096;
		break;
	case 2:
		head()->marks[r / 8 % RING_MARKS] = head()->head - random_word() % SIZE;
		break;
	case 3:
		*(uint32_t *)(data + r / 8 % (SIZE / 4) * 4) = random_word() % 600;
		break;
	case 4:
		*(uint64_t *)(data + r / 8 % (SIZE / 8) * 8) = random_word();
		break;
	default:
		head()->tail = random_word();
	}
}

static volatile uint8_t sink;

static void look_at_all(const uint8_t *span, uint64_t len)
{
	uint64_t off = 0, at = 0;
	struct event_head e;

	while (ring_next(&ring, span, len, &off, &e)) {
		assert_true(off <= len && off - at == e.len);
		sink += span[at] + span[off - 1];	/* would fault outside */
		at = off;
	}
}

/* Nothing outside is read (there is a page that faults), nothing goes on for ever. */
static void hostile_ring_is_survived(void **state)
{
	static uint8_t buf[SIZE];
	uint64_t written = 0, end = now_ns() + 800000000ull, n = 0, seen = 0, len;
	const uint8_t *span;

	for (; now_ns() < end; n++) {
		for (int i = n % 50; i >= 0; i--)
			write_event(1, written, len_of(written + i), n % 2), written++;
		for (int i = random_word() % 4; i > 0; i--)
			scribble();
		len = ring_peek(&ring, &span);
		assert_true(len <= SIZE);
		look_at_all(span, len);
		ring_consume(&ring, n % 3 ? len : 0);
		seen += len > 0;
		if (n % 4)
			continue;
		int64_t part = ring_snapshot(&ring, buf, &span);

		if (part >= 0) {
			assert_true(span >= buf && span + part <= buf + SIZE);
			look_at_all(span, part);
		}
	}
	print_message("    %lu rounds, %lu with events, given up %lu times\n", n, seen, ring.damaged);
	assert_true(ring.damaged > 100 && seen > 100);
}

static atomic_bool stop;

static void *scribble_on(void *arg)
{
	while (!atomic_load(&stop))
		scribble();
	return NULL;
}

/* The same while it changes under our eyes. */
static void hostile_thread_is_survived(void **state)
{
	static uint8_t buf[SIZE];
	uint64_t end = now_ns() + 600000000ull, len;
	const uint8_t *span;
	pthread_t thread;

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, scribble_on, NULL), 0);
	while (now_ns() < end) {
		len = ring_peek(&ring, &span);
		assert_true(len <= SIZE);
		look_at_all(span, len);
		ring_consume(&ring, len);
		int64_t part = ring_snapshot(&ring, buf, &span);

		assert_true(part <= SIZE);
		if (part >= 0)
			look_at_all(span, part);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

/* ---- overwrite mode ----------------------------------------------------------------------- */

static uint8_t buf[SIZE];

static void snapshot_of_nothing(void **state)
{
	const uint8_t *span;

	assert_int_equal(ring_snapshot(&ring, buf, &span), 0);
}

/* After each event of three laps: all that must be there is, up to the newest. */
static void snapshot_has_the_newest(void **state)
{
	const uint8_t *span;
	int64_t len;

	for (uint64_t n = 0; n < 900; n++) {
		write_event(1, n, len_of(n), true);
		len = ring_snapshot(&ring, buf, &span);
		assert_true(len > 0);
		if (head()->head <= SIZE - EVENT_LEN_MAX)
			assert_int_equal(len, head()->head);
		else
			assert_true(len >= SIZE - EVENT_LEN_MAX - (int64_t)ring_stretch(SIZE) - 480);
		assert_int_equal(check_span(span, len, ((struct event_head *)span)->time), n + 1);
	}
}

/* The writer goes on while we copy, so that only a bit without a known beginning is left. */
static void snapshot_without_a_mark_is_late(void **state)
{
	const uint8_t *span;

	for (uint64_t n = 0; head()->head < 3 * SIZE; n++)
		write_event(1, n, 64, true);
	memset(head()->marks, 0, sizeof(head()->marks));
	assert_int_equal(ring_snapshot(&ring, buf, &span), -EAGAIN);
	assert_int_equal(ring.damaged, 0);
}

/* What an aborted writer leaves behind head does no harm. */
static void snapshot_without_the_torn_end(void **state)
{
	const uint8_t *span;
	int64_t len;

	for (uint64_t n = 0; n < 1000; n++) {
		write_event(1, n, len_of(n), true);
		memset(page + RING_HEAD_SIZE + head()->head % SIZE, 0xff, EVENT_LEN_MAX);
		len = ring_snapshot(&ring, buf, &span);
		assert_true(len > 0);
		assert_int_equal(check_span(span, len, ((struct event_head *)span)->time), n + 1);
	}
	assert_int_equal(ring.damaged, 0);
}

/* The worst torn event: of the length of the old one that it has begun to replace. */
static void snapshot_without_a_half_written_event(void **state)
{
	const uint8_t *span;
	int64_t len;

	for (uint64_t n = 0; n < 2200; n++) {
		write_event(1, n, 64, true);
		memset(page + RING_HEAD_SIZE + head()->head % SIZE + 32, 0xff, 32);
		len = ring_snapshot(&ring, buf, &span);
		assert_true(len > 0);
		for (int64_t off = 0; off < len; off += 64)
			assert_true(payload_is_good(span + off));
	}
}

static void *overwrite(void *arg)
{
	for (uint64_t n = 0; !atomic_load(&stop); n++)
		write_event(3, n, len_of(n), true);
	return NULL;
}

static void snapshots_of_a_running_writer(void **state)
{
	uint64_t end = now_ns() + 800000000ull;
	const uint8_t *span;
	pthread_t thread;
	int taken = 0, late = 0, broken = 0;
	int64_t len;

	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, overwrite, NULL), 0);
	while (now_ns() < end) {
		len = ring_snapshot(&ring, buf, &span);
		broken += len == -EBADMSG;
		late += len == -EAGAIN;
		if (len <= 0)
			continue;
		check_span(span, len, ((struct event_head *)span)->time);
		taken++;
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	print_message("    %d snapshots, %d too late\n", taken, late);
	assert_int_equal(broken, 0);
	assert_true(taken > 100);
}

static uint64_t written, write_up_to;

/* The copy has come to a page that can't be read yet: the writer goes on, then the copy does. */
static void write_meanwhile(int sig, siginfo_t *info, void *context)
{
	mprotect(page + RING_HEAD_SIZE, 2 * SIZE, PROT_READ | PROT_WRITE);
	while (head()->head < write_up_to)
		write_event(1, written++, 64, true);
}

/*
 * Before the first lap is full no mark is needed for position 0. What the writer has put there since is no older event, however
 * well its length fits.
 */
static void snapshot_while_the_writer_goes_round(void **state)
{
	struct sigaction sa = { .sa_sigaction = write_meanwhile, .sa_flags = SA_SIGINFO }, old;
	const uint8_t *span;
	int64_t len;

	sigaction(SIGSEGV, &sa, &old);
	for (uint64_t more = 64; more < SIZE; more += 64 * 37) {
		reset(NULL);
		for (written = 0; head()->head < SIZE - 2 * EVENT_LEN_MAX; )
			write_event(1, written++, 64, true);
		write_up_to = head()->head + more;
		mprotect(page + RING_HEAD_SIZE, 4096, PROT_NONE);
		len = ring_snapshot(&ring, buf, &span);
		assert_true(len > 0);
		assert_int_equal(head()->head, write_up_to);
		for (int64_t off = 64; off < len; off += 64)
			assert_int_equal(((struct event_head *)(span + off))->time, ((struct event_head *)(span + off - 64))->time + 1);
	}
	sigaction(SIGSEGV, &old, NULL);
	assert_int_equal(ring.damaged, 0);
}

static void damaged_snapshot_is_refused(void **state)
{
	const uint8_t *span;
	uint64_t n = 0;

	while (head()->head < 3 * SIZE) {
		write_event(1, n, len_of(n), true);
		n++;
	}
	memset(page + RING_HEAD_SIZE, 0xff, SIZE);
	assert_int_equal(ring_snapshot(&ring, buf, &span), -EBADMSG);
	assert_int_equal(ring.damaged, 1);
}

/* ---- locks -------------------------------------------------------------------------------- */

static void locks_of_the_dead_are_freed(void **state)
{
	head()->lock = 0xffffffffull << 32 | 77;
	assert_int_equal(ring_owner(&ring), 77);
	assert_false(ring_free(&ring, 76));
	assert_false(ring_free(&ring, 0));
	assert_int_equal(ring_owner(&ring), 77);
	assert_true(ring_free(&ring, 77));
	assert_int_equal(head()->lock, 0);
	assert_false(ring_free(&ring, 0));
	head()->lock |= 78;
	assert_true(ring_free(&ring, 78));
	assert_int_equal(head()->lock, 1ull << 32);	/* no two times look the same */
}

int main(void)
{
#define test(f) cmocka_unit_test_setup(f, reset)
	const struct CMUnitTest tests[] = {
		test(sizes_are_checked),
		test(empty_ring_gives_nothing),
		test(every_event_comes_once_and_in_order),
		test(peek_again_gives_the_same),
		test(reading_goes_on_where_another_stopped),
		test(reader_and_writer_at_once),
		test(bad_length_gives_up_to_head),
		test(head_out_of_range_gives_up),
		test(head_beyond_good_events_gives_up),
		test(expected_ids_and_lengths),
		test(hostile_ring_is_survived),
		test(hostile_thread_is_survived),
		test(snapshot_of_nothing),
		test(snapshot_has_the_newest),
		test(snapshot_without_a_mark_is_late),
		test(snapshot_without_the_torn_end),
		test(snapshot_without_a_half_written_event),
		test(snapshots_of_a_running_writer),
		test(snapshot_while_the_writer_goes_round),
		test(damaged_snapshot_is_refused),
		test(locks_of_the_dead_are_freed),
	};

	return cmocka_run_group_tests_name("ring", tests, set_up, NULL);
}
