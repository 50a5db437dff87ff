/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What timing functions needs of C.
 */
#ifndef _FERROTRACE_FTRACE_FUNCTIONS_BINDINGS_H
#define _FERROTRACE_FTRACE_FUNCTIONS_BINDINGS_H

#include <linux/fprobe.h>

#endif /* _FERROTRACE_FTRACE_FUNCTIONS_BINDINGS_H */
