/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _GCOV_FAKE_H
#define _GCOV_FAKE_H

/* Functions that compiled code calls, which no header of the kernel declares. */
struct gcov_info;

void __gcov_init(struct gcov_info *info);
void __gcov_merge_add(long *counters, unsigned int count);
void __gcov_merge_ior(long *counters, unsigned int count);
void __gcov_merge_time_profile(long *counters, unsigned int count);

#endif
