/* SPDX-License-Identifier: MIT */
/* The event of tracepoint.c for LTTng-UST; its macros read this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER jabbench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracepoint_event.h"

#if !defined(TRACEPOINT_EVENT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TRACEPOINT_EVENT_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(jabbench, text,
	LTTNG_UST_TP_ARGS(int, i, long, l, const char *, s),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, i, i) lttng_ust_field_integer(long, l, l) lttng_ust_field_string(s, s)))
#endif
#include <lttng/tracepoint-event.h>
