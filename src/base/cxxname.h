/* SPDX-License-Identifier: MIT */
/*
 * Names of C++ and Rust as a reader wants them: "std::string" instead of std::__cxx11::basic_string<char,
 * std::char_traits<char>, std::allocator<char> >, and no template arguments that are the library's defaults; no hash at
 * the end of a Rust name. Different functions may get the same short name, so probes are written with the full ones.
 */
#ifndef JAB_BASE_CXXNAME_H
#define JAB_BASE_CXXNAME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes the short name, cut to fit, with a NUL, and returns its length. 0: the name is short already, or its brackets don't
 * match; nothing was written.
 */
size_t cxx_short_name(const char *name, size_t len, char *out, size_t room);

#endif
