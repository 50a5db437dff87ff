/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FERROTRACE_FTRACE_TEST_TARGETS_H
#define _FERROTRACE_FTRACE_TEST_TARGETS_H

#include <linux/types.h>

int ftrace_api_next(int value);
int ftrace_api_twice(int value);
int ftrace_api_outer(int value);
long ftrace_api_eight(int a, u8 b, bool c, const char *d, s64 e, u16 f, long g, long h);
int ftrace_api_hidden(int value);
int ftrace_api_start_calling(void);
void ftrace_api_stop_calling(void);

#endif /* _FERROTRACE_FTRACE_TEST_TARGETS_H */
