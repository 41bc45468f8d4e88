/* SPDX-License-Identifier: MIT */
/* What the blob knows of the CPU that it is built for. */
#ifndef JAB_BLOB_CPU_H
#define JAB_BLOB_CPU_H

#if defined(__x86_64__)
#include "blob/x86/cpu.h"
#elif defined(__aarch64__)
#include "blob/aarch64/cpu.h"
#else
#error "there is no blob for this CPU"
#endif

#endif
