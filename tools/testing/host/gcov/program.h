/* SPDX-License-Identifier: GPL-2.0 */
#ifndef PROGRAM_H
#define PROGRAM_H

#define noinline __attribute__((__noinline__))

extern int (*calls[2])(int);

int never(int x);
int shared(int x);
int other(int x);

#endif
