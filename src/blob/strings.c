/* SPDX-License-Identifier: MIT */
/*
 * Strings in an event: u32 len, then the bytes, which therefore begin 4 bytes after an 8-aligned address. All loads
 * here are aligned: the traced program may have switched on alignment checks (x86-64 has a flag for that).
 */
#include "blob/inside.h"

static void set_len(uint8_t *place, uint32_t len)
{
	*(uint32_t *)place = len;
}

/* How many bytes may be read without crossing a page. */
uint32_t string_first_part(uint64_t from, uint32_t limit)
{
	uint32_t part = PAGE - (from & (PAGE - 1));

	return part < limit ? part : limit;
}

/* Sets the top bit of the first byte that is 0, and perhaps of later bytes. */
static uint64_t zero_bytes(uint64_t word)
{
	return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

/* The length up to and including the NUL, or n if there is none among the n bytes. */
static uint32_t len_with_nul(const uint8_t *place, uint32_t n)
{
	uint64_t zero = zero_bytes(*(const uint64_t *)place | 0xffffffffull);

	for (uint32_t at = 0; at < n + 4; ) {
		if (zero) {
			uint32_t len = at + __builtin_ctzll(zero) / 8 + 1 - 4;

			return len < n ? len : n;
		}
		at += 8;
		if (at < n + 4)
			zero = zero_bytes(*(const uint64_t *)(place + at));
	}
	return n;
}

/*
 * Sets the length when `read` bytes of at most `limit` were read. If they have no NUL and more may follow, the
 * string stays open (false).
 */
bool string_close(uint8_t *place, uint32_t read, uint32_t limit)
{
	uint32_t len = len_with_nul(place, read);

	if (len == read && read < limit && place[4 + len - 1])
		len = 0;
	set_len(place, len);
	return len;
}

bool string_is_open(const uint8_t *place)
{
	return !*(const uint32_t *)place;
}

/* Copies a string from memory that is known to be mapped up to its NUL. */
void string_copy(uint8_t *place, const uint8_t *from, uint32_t limit)
{
	uint32_t len = 0;

	while (len < limit) {
		place[4 + len] = from[len];
		if (!from[len++])
			break;
	}
	set_len(place, len);
}

void string_fault(uint8_t *place, uint64_t addr, bool refused)
{
	static const char fault[] = "<fault>", unreadable[] = "<unreadable>";
	uint32_t size = refused ? sizeof(unreadable) : sizeof(fault);

	memcpy(place + 4, refused ? unreadable : fault, size);
	memcpy(place + 4 + size, &addr, sizeof(addr));
	set_len(place, size + sizeof(addr));
}
