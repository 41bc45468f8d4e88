/* SPDX-License-Identifier: MIT */
/*
 * System calls that stand in a target's text with their number right in front: the code that ends a
 * signal handler (we borrow it, and it marks signal frames), the calls that make children, and those that
 * change mappings. And two that C libraries write by hand, with the number further away. The text is read once, a megabyte at a time, with the target running; mappings already searched are
 * not read again, nor those of a file that was searched in another process (knowncalls.c).
 */
#include "arch/arch.h"
#include "proc/internal.h"
#include "proc/knowncalls.h"
#include "proc/undo.h"

#include <emmintrin.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define CHUNK (1u << 20)
#define OVERLAP 32	/* what is looked for is shorter */
#define USER_TOP (1ull << 47)

static const uint8_t mov_rax[] = { 0x48, 0xc7, 0xc0 };	/* mov $imm32,%rax */
static const uint8_t mov_eax[] = { 0xb8 };		/* mov $imm32,%eax */

/*
 * glibc's syscall(), which makes any call: the sixth argument is loaded last of all. And musl's clone(): behind the load
 * of the fourth one only the new stack is made ready. Both loads have five bytes.
 */
static const uint8_t any_call[] = { 0x4c, 0x8b, 0x4c, 0x24, 0x08 };	/* mov 8(%rsp),%r9 */
static const uint8_t musl_clone[] = { 0x4c, 0x8b, 0x54, 0x24, 0x08,	/* mov 8(%rsp),%r10 */
				      0x4d, 0x89, 0xd9,			/* mov %r11,%r9 */
				      0x48, 0x83, 0xe6, 0xf0,		/* and $-16,%rsi */
				      0x48, 0x83, 0xee, 0x08,		/* sub $8,%rsi */
				      0x48, 0x89, 0x0e };		/* mov %rcx,(%rsi) */
#define LOAD_LEN 5

static bool is_mov(const uint8_t *bytes, size_t at, const uint8_t *op, size_t len)
{
	return at >= len + 4 && memcmp(bytes + at - len - 4, op, len) == 0;
}

static bool look_for(const uint8_t *bytes, size_t at, const uint8_t *form, size_t len)
{
	return at >= len && memcmp(bytes + at - len, form, len) == 0;
}

/*
 * Other instructions may stand between the number of arch_prctl and the call, first of all those that load its arguments. If they
 * lead there in a straight line, the load of the number is an instruction.
 */
#define FAR 24

static bool leads_to(const uint8_t *bytes, size_t from, size_t to)
{
	struct insn insn;

	for (; from < to; from += insn.len)
		if (arch_x86_64.decode(bytes + from, to + 2 - from, from, &insn) < 0 || (insn.kind != INSN_PLAIN && insn.kind != INSN_NOP))
			return false;
	return from == to;
}

static void look_far(const uint8_t *bytes, size_t at, call_found found, void *arg)
{
	static const uint8_t load[] = { 0xb8, SYS_arch_prctl, 0, 0, 0 }, wide[] = { 0x48, 0xc7, 0xc0, SYS_arch_prctl, 0, 0, 0 };

	for (size_t back = sizeof(load) + 1; back <= FAR && back <= at; back++) {
		const uint8_t *p = bytes + at - back;
		bool prefix = back < at && p[-1] >> 4 == 4;	/* it may load another register */

		if (!memcmp(p, load, sizeof(load)))
			found(arg, at - back, !prefix && leads_to(bytes, at - back, at) ? sizeof(load) : 0, FAR_ARCH_PRCTL);
		else if (back > sizeof(wide) && !memcmp(p, wide, sizeof(wide)))
			found(arg, at - back, 0, FAR_ARCH_PRCTL);
	}
}

/* A `syscall` stands at `at`: which number is put into rax right before it? */
static void look_before(const uint8_t *bytes, size_t at, call_found found, void *arg)
{
	size_t len = is_mov(bytes, at, mov_rax, sizeof(mov_rax)) ? 7 : is_mov(bytes, at, mov_eax, sizeof(mov_eax)) ? 5 : 0;
	uint32_t nr;

	if (len) {
		memcpy(&nr, bytes + at - 4, sizeof(nr));
		found(arg, at - len, len, nr);
	} else if (look_for(bytes, at, any_call, sizeof(any_call))) {
		found(arg, at - sizeof(any_call), LOAD_LEN, ANY_CALL);
	} else if (look_for(bytes, at, musl_clone, sizeof(musl_clone))) {
		found(arg, at - sizeof(musl_clone), LOAD_LEN, SYS_clone);
	} else {
		look_far(bytes, at, found, arg);
	}
}

/*
 * wrfsbase, which gives a thread another thread pointer without asking the kernel: f3, mostly a REX prefix, 0f ae, and a
 * register. `at` is that of the 0f.
 */
static void look_around(const uint8_t *bytes, size_t n, size_t at, call_found found, void *arg)
{
	size_t rex = at && bytes[at - 1] >> 4 == 4;

	if (at + 3 <= n && at > rex && bytes[at - 1 - rex] == 0xf3 && bytes[at + 2] >> 3 == 0xd0 >> 3)
		found(arg, at, 0, FAR_ARCH_PRCTL);
}

static void look(const uint8_t *bytes, size_t n, size_t at, call_found found, void *arg)
{
	if (bytes[at + 1] == 0x05)
		look_before(bytes, at, found, arg);
	else
		look_around(bytes, n, at, found, arg);
}

/* Two bytes that are rare side by side, looked for sixteen at a time. */
void calls_in(const uint8_t *bytes, size_t n, call_found found, void *arg)
{
	const __m128i first = _mm_set1_epi8(0x0f), call = _mm_set1_epi8(0x05), base = _mm_set1_epi8((char)0xae);
	size_t i = 0;

	for (; i + 17 <= n; i += 16) {
		__m128i a = _mm_loadu_si128((const __m128i *)(bytes + i));
		__m128i b = _mm_loadu_si128((const __m128i *)(bytes + i + 1));
		int hits = _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first),
							   _mm_or_si128(_mm_cmpeq_epi8(b, call), _mm_cmpeq_epi8(b, base))));

		for (; hits; hits &= hits - 1)
			look(bytes, n, i + __builtin_ctz(hits), found, arg);
	}
	for (; i + 2 <= n; i++)
		if (bytes[i] == 0x0f && (bytes[i + 1] == 0x05 || bytes[i + 1] == 0xae))
			look(bytes, n, i, found, arg);
}

struct search { struct proc *p; uint64_t base; const uint8_t *bytes; bool loader; };

/* It gives the first thread its pointer before any other code runs, and no thread another one. musl's is the C library, too. */
static bool is_loader(const struct map *m)
{
	const char *slash = strrchr(m->path, '/');

	return slash && !strncmp(slash + 1, "ld-linux", strlen("ld-linux"));
}

static bool is_wanted(uint32_t nr)
{
	switch (nr) {
	case SYS_rt_sigreturn: case SYS_clone: case SYS_vfork: case SYS_clone3: case SYS_execve: case SYS_execveat:
	case ANY_CALL: case SYS_mmap: case SYS_mprotect: case SYS_munmap: case SYS_mremap: case SYS_madvise: case SYS_pkey_mprotect:
	case SYS_prctl: case SYS_seccomp: case SYS_arch_prctl: case FAR_ARCH_PRCTL:
		return true;
	}
	return false;
}

static void note_call(void *arg, const struct text_call *c)
{
	struct proc_priv *v = priv(arg);

	for (size_t i = 0; i < v->calls.n; i++)
		if (v->calls.v[i].at.v == c->at.v)
			return;
	*vec_add(&v->calls) = *c;
}

static void add_call(void *arg, size_t offset, size_t len, uint32_t nr)
{
	struct search *s = arg;
	struct text_call c = { .at = TADDR(s->base + offset), .nr = nr, .len = len };

	if (!is_wanted(nr) || ((nr == SYS_arch_prctl || nr == FAR_ARCH_PRCTL) && s->loader))
		return;
	memcpy(c.bytes, s->bytes + offset, len);
	note_call(s->p, &c);
}

/* In overlapping chunks, so that nothing is lost at a border. Unreadable parts are skipped. Returns whether all was read. */
static bool read_map(struct proc *p, const struct map *m, uint8_t *buf)
{
	bool all = true;

	for (uint64_t at = m->start; at < m->end; at += CHUNK - OVERLAP) {
		size_t n = MIN(m->end - at, (uint64_t)CHUNK);
		struct search s = { p, at, buf, is_loader(m) };

		if (proc_read(p, TADDR(at), buf, n) == 0)
			calls_in(buf, n, add_call, &s);
		else
			all = false;
		if (n < CHUNK)
			break;
	}
	return all;
}

static bool has_call_in(const struct proc_priv *v, const struct map *m)
{
	for (size_t i = 0; i < v->calls.n; i++)
		if (v->calls.v[i].at.v >= m->start && v->calls.v[i].at.v < m->end)
			return true;
	return false;
}

static void search_map(struct proc *p, const struct map *m, uint8_t **buf)
{
	struct proc_priv *v = priv(p);
	bool is_new = !has_call_in(v, m);	/* else what is found twice is not all of this file */
	size_t before = v->calls.n;
	struct file_id id;

	if (is_new && known_calls_take(p, m, is_loader(m), note_call, p))
		return;
	is_new = is_new && proc_file_id(p, m, &id);
	if (!*buf)
		*buf = xrealloc(NULL, CHUNK);
	if (read_map(p, m, *buf) && is_new)
		known_calls_keep(p, m, is_loader(m), &id, v->calls.v + before, v->calls.n - before);
}

static bool was_searched(const struct proc_priv *v, const struct map *m)
{
	for (size_t i = 0; i < v->searched.n; i++)
		if (v->searched.v[i].start == m->start && v->searched.v[i].end == m->end &&
		    v->searched.v[i].inode == m->inode)
			return true;
	return false;
}

/* Not the vDSO, which is the kernel's, and not what we mapped ourselves and will unmap. */
static bool is_worth_it(const struct map *m)
{
	return (m->prot & PROT_EXEC) && (m->prot & PROT_READ) && m->start < USER_TOP && m->path[0] != '[' &&
	       !is_arena_path(m->path);
}

int proc_text_calls(struct proc *p, const struct text_call **ret_calls, size_t *ret_n)
{
	struct proc_priv *v = priv(p);
	uint8_t *buf = NULL;
	int r = maps_load(p, &v->maps);

	if (r < 0)
		return r;
	for (size_t i = 0; i < v->maps.n; i++) {
		const struct map *m = &v->maps.v[i];

		if (!is_worth_it(m) || was_searched(v, m))
			continue;
		search_map(p, m, &buf);
		*vec_add(&v->searched) = (struct searched){ m->start, m->end, m->inode };
	}
	free(buf);
	*ret_calls = v->calls.v;
	*ret_n = v->calls.n;
	return 0;
}
