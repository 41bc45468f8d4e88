/* SPDX-License-Identifier: MIT */
#ifndef JAB_BASE_UTF8_H
#define JAB_BASE_UTF8_H

#include <stddef.h>

/* Length of the character at s, where n bytes are readable; 0: not UTF-8 (overlong forms and surrogates are not). */
static inline size_t utf8_len(const unsigned char *s, size_t n)
{
	size_t len = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;

	if (len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) || (*s == 0xf0 && s[1] < 0x90) ||
	    (*s == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

#endif
