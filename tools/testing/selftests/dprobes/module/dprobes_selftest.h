/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _DPROBES_SELFTEST_H
#define _DPROBES_SELFTEST_H

/* Loads a word; returns false if it faults. */
unsigned long dprobes_selftest_read(unsigned long address, unsigned long *word);

/* Are called with an object after it was made, and before it is freed. */
void dprobes_selftest_take(unsigned long *taken);
void dprobes_selftest_give(unsigned long *given);

#endif /* _DPROBES_SELFTEST_H */
