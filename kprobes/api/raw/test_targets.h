/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FERROTRACE_KPROBE_TARGETS_H
#define _FERROTRACE_KPROBE_TARGETS_H

#include <linux/types.h>

int kprobe_api_next(int value);
long kprobe_api_eight(int a, u8 b, bool c, const char *d, s64 e, u16 f, long g, long h);
int kprobe_api_depth(int depth);
int kprobe_api_start_calling(void);
void kprobe_api_stop_calling(void);

#endif /* _FERROTRACE_KPROBE_TARGETS_H */
