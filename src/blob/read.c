/* SPDX-License-Identifier: MIT */
/*
 * Reads that can't fault: the kernel is asked to copy this process's own memory (process_vm_readv) and returns how
 * many bytes it copied. No signal is ever raised, whatever the address, even if another thread unmaps it meanwhile.
 *
 * Reads are collected as pieces and made in one call. No piece crosses a page, so each of them is copied completely
 * or not at all, and the number of bytes copied says which one failed.
 */
#include "blob/inside.h"

static uint32_t to_page_end(uint64_t addr)
{
	return PAGE - (addr & (PAGE - 1));
}

uint32_t pieces_put(struct bulk_context *ctx, uint32_t n, uint64_t to, uint64_t from, uint64_t len)
{
	while (len && n < BULK_PIECES) {
		uint64_t part = to_page_end(from);

		if (part > len)
			part = len;
		ctx->local[n] = (struct bulk_piece){ to, part };
		ctx->remote[n++] = (struct bulk_piece){ from, part };
		to += part;
		from += part;
		len -= part;
	}
	return n;
}

void pieces_add(struct work *w, uint32_t field, void *to, uint64_t from, uint32_t len)
{
	uint32_t n = w->npieces;

	if (!w->may_call) {
		mark_fault(w, field, true);
		return;
	}
	w->npieces = pieces_put(w->ctx, n, (uint64_t)to, from, len);
	while (n < w->npieces)
		w->ctx->piece_of[n++] = field;
}

static bool same_page(const struct bulk_piece *a, const struct bulk_piece *b)
{
	return !((a->addr ^ b->addr) & -(uint64_t)PAGE);
}

/*
 * Makes the collected reads. A field that fails is marked as faulted, with the following ones on the same page; the
 * reads after them are made with another call.
 */
void pieces_read(struct work *w)
{
	const struct bulk_context *ctx = w->ctx;
	uint32_t at = 0, n = w->npieces, bad;

	w->npieces = 0;
	while (at < n) {
		int64_t r = call_read(ctx->tid, ctx->local + at, ctx->remote + at, n - at);
		bool refused = r < 0 && r != -EFAULT;

		for (; at < n && r >= (int64_t)ctx->remote[at].len; at++)
			r -= ctx->remote[at].len;
		for (bad = at; at < n && (refused || same_page(&ctx->remote[at], &ctx->remote[bad])); at++)
			mark_fault(w, ctx->piece_of[at] % BULK_FIELDS_MAX, refused);
	}
}

/* In one call, so at most BULK_PIECES pages. */
int64_t blob_read(struct bulk_context *ctx, void *to, uint64_t from, uint64_t len)
{
	uint32_t n = pieces_put(ctx, 0, (uint64_t)to, from, len);
	int64_t r = call_read(ctx->tid, ctx->local, ctx->remote, n);

	return r == -EFAULT ? 0 : r;
}
