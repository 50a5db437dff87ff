/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _GCOV_SAME_H
#define _GCOV_SAME_H

/* Parts of gcov_one and gcov_two alike: calls that are counted. */
void same(unsigned int calls);
int same_run(const char *text, const struct kernel_param *param);

#endif
