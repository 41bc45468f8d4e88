/* SPDX-License-Identifier: MIT */
/*
 * main() of a stripped program. It is in no symbol table, but the program's first instructions pass its address to
 * the C library, and in glibc they have been these for many years:
 *
 *	31 ed  49 89 d1  5e  48 89 e2  48 83 e4 f0  50  54	xor %ebp,%ebp; mov %rdx,%r9; pop %rsi; mov %rsp,%rdx; ...
 *	...							other arguments: two or three instructions
 *	48 8d 3d rel32  or  48 c7 c7 imm32			lea main(%rip),%rdi  or  mov $main,%rdi
 *	ff 15 rel32  or  [67] e8 rel32				call __libc_start_main
 *
 * Only an exact match counts, and only if the unwind tables have a function at that address.
 */
#include "sym/priv.h"

static const uint8_t head[] = { 0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e, 0x48, 0x89, 0xe2, 0x48, 0x83, 0xe4, 0xf0, 0x50, 0x54 };

#define MOST_BETWEEN 24
#define LOOK (4 + sizeof(head) + MOST_BETWEEN + 7 + 2)

static bool is_call(const uint8_t *p)
{
	return (p[0] == 0xff && p[1] == 0x15) || p[0] == 0xe8 || (p[0] == 0x67 && p[1] == 0xe8);
}

/* The value of %rdi right before the call; 0 if the code does not match. */
static uint64_t handed_over(const struct module *m)
{
	const uint8_t *start = module_bytes(m, m->entry, LOOK), *p = start;
	int i;

	if (!p)
		return 0;
	if (memcmp(p, "\xf3\x0f\x1e\xfa", 4) == 0)
		p += 4;
	if (memcmp(p, head, sizeof(head)) != 0)
		return 0;
	p += sizeof(head);
	for (i = 0; i <= MOST_BETWEEN; i++, p++) {
		if (!is_call(p + 7))
			continue;
		if (memcmp(p, "\x48\x8d\x3d", 3) == 0)
			return m->entry + (p - start) + 7 + (int64_t)(int32_t)get32(p + 3);
		if (memcmp(p, "\x48\xc7\xc7", 3) == 0)
			return get32(p + 3);
	}
	return 0;
}

static const struct fde_range *fde_that_begins(struct module *m, uint64_t addr)
{
	size_t i;

	for (i = 0; i < priv(m)->fdes.n; i++)
		if (priv(m)->fdes.v[i].lo == addr)
			return &priv(m)->fdes.v[i];
	return NULL;
}

void main_collect(struct module *m, raw_list *list)
{
	uint64_t addr = handed_over(m);
	const struct fde_range *fde = addr ? fde_that_begins(m, addr) : NULL;
	size_t i;

	if (!fde || !in_text(m, addr))
		return;
	for (i = 0; i < list->n; i++)
		if (list->v[i].addr == addr || strcmp(list->v[i].name, "main") == 0)
			return;
	raw_add(list, (struct raw_symbol){
		.addr = addr, .size = fde->hi - fde->lo, .name = "main", .source = FROM_EH_FRAME, .type = STT_FUNC,
	}, strlen("main"));
}
