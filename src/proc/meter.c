/* SPDX-License-Identifier: MIT */
#include "proc/meter.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include "base/err.h"

#define PERIOD 1000000		/* ns of running */
#define DATA (64u << 10)	/* bytes of a buffer: samples of about a tenth of a second */
#define REG_SP 7		/* as the kernel numbers them: <asm/perf_regs.h> */
#define REG_IP 8

/* One buffer per CPU, for all threads. */
struct buffer {
	int fd;				/* the event that owns it, of the first thread; -1: none yet */
	struct perf_event_mmap_page *page;
	const uint8_t *data;
};

struct meter {
	unsigned int ncpus;
	struct buffer *buffers;
	VEC(int) fds;
	uint8_t record[DATA];
};

static int open_event(pid_t tid, int cpu)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(a), .config = PERF_COUNT_SW_TASK_CLOCK, .sample_period = PERIOD,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = 1ull << REG_SP | 1ull << REG_IP, .sample_stack_user = METER_STACK,
		.inherit = 1, .exclude_hv = 1, .exclude_guest = 1,
	};

	return syscall(SYS_perf_event_open, &a, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int map_buffer(struct buffer *b, int fd)
{
	size_t page = sysconf(_SC_PAGESIZE);
	void *at = mmap(NULL, page + DATA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	b->fd = fd;
	b->page = at;
	b->data = (uint8_t *)at + page;
	return 0;
}

/* One thread on one CPU. A thread that has ended meanwhile is no error. */
static int watch(struct meter *m, pid_t tid, unsigned int cpu)
{
	struct buffer *b = &m->buffers[cpu];
	int fd = open_event(tid, cpu), r = 0;

	if (fd < 0)
		return errno == ESRCH || errno == ENODEV ? 0 : -errno;
	if (b->fd < 0)
		r = map_buffer(b, fd);
	else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, b->fd) < 0)
		r = -errno;
	if (r < 0)
		close(fd);
	else
		*vec_add(&m->fds) = fd;
	return r;
}

int meter_new(struct proc *p, struct meter **ret_meter)
{
	struct meter *m = xcalloc(1, sizeof(*m));
	int r = 0;

	m->ncpus = get_nprocs_conf();
	m->buffers = xcalloc(m->ncpus, sizeof(*m->buffers));
	for (unsigned int cpu = 0; cpu < m->ncpus; cpu++)
		m->buffers[cpu].fd = -1;
	for (size_t i = 0; !r && i < p->threads.n; i++)
		for (unsigned int cpu = 0; !r && cpu < m->ncpus; cpu++)
			r = watch(m, p->threads.v[i].tid, cpu);
	if (r < 0) {
		meter_free(m);
		return fail(r, "process %d: the time that probes take can't be measured: %s (perf_event_open; try as root, or "
			    "kernel.perf_event_paranoid=1)", p->pid, strerror(-r));
	}
	*ret_meter = m;
	return 0;
}

void meter_free(struct meter *m)
{
	if (!m)
		return;
	for (unsigned int cpu = 0; cpu < m->ncpus; cpu++)
		if (m->buffers[cpu].page)
			munmap(m->buffers[cpu].page, sysconf(_SC_PAGESIZE) + DATA);
	for (size_t i = 0; i < m->fds.n; i++)
		close(m->fds.v[i]);
	vec_free(&m->fds);
	free(m->buffers);
	free(m);
}

/* Layout: header, u32 pid, tid; u64 abi, sp, ip (if abi is not 0); u64 size, bytes of the stack, u64 used */
static bool take_sample(const uint8_t *at, size_t len, struct meter_sample *s)
{
	uint64_t abi, size, used;
	size_t off = sizeof(struct perf_event_header);

	if (len < off + 8 + 8 + 16 + 8)
		return false;
	memcpy(&s->pid, at + off, 4);
	memcpy(&s->tid, at + off + 4, 4);
	memcpy(&abi, at + off + 8, 8);
	if (!abi)
		return false;
	memcpy(&s->ip, at + off + 24, 8);
	memcpy(&size, at + off + 32, 8);
	off += 40;
	s->stack = (const uint64_t *)(at + off);
	s->nstack = 0;
	if (!size || size > len - off || len - off - size < 8)
		return true;
	memcpy(&used, at + off + size, 8);
	s->nstack = MIN(used, size) / 8;
	return true;
}

static void read_buffer(struct meter *m, struct buffer *b, void (*each)(void *arg, const struct meter_sample *s), void *arg)
{
	uint64_t head = __atomic_load_n(&b->page->data_head, __ATOMIC_ACQUIRE), tail = b->page->data_tail;

	while (head - tail >= sizeof(struct perf_event_header)) {
		struct perf_event_header h;
		struct meter_sample s;

		for (size_t i = 0; i < sizeof(h); i++)
			((uint8_t *)&h)[i] = b->data[(tail + i) % DATA];
		if (h.size < sizeof(h) || h.size > head - tail)
			break;
		for (size_t i = 0; i < h.size; i++)
			m->record[i] = b->data[(tail + i) % DATA];
		tail += h.size;
		if (h.type == PERF_RECORD_SAMPLE && take_sample(m->record, h.size, &s))
			each(arg, &s);
	}
	__atomic_store_n(&b->page->data_tail, head, __ATOMIC_RELEASE);
}

void meter_read(struct meter *m, void (*each)(void *arg, const struct meter_sample *s), void *arg)
{
	for (unsigned int cpu = 0; cpu < m->ncpus; cpu++)
		if (m->buffers[cpu].page)
			read_buffer(m, &m->buffers[cpu], each, arg);
}
