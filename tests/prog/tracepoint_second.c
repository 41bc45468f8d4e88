/* SPDX-License-Identifier: MIT */
/* A second file with tracepoints of the first. */
#include "tracepoint.h"

#ifdef __cplusplus
int second_file(int i);
#endif
int second_file(int i)
{
	JAB_TRACEPOINT(every, nothing);
	if (JAB_TRACEPOINT_ENABLED(every, guarded))
		i++;
	return from_header(i) - 1;
}
