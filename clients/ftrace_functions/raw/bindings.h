/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations for timing functions. */
#ifndef _FERROTRACE_FTRACE_FUNCTIONS_BINDINGS_H
#define _FERROTRACE_FTRACE_FUNCTIONS_BINDINGS_H

#include <linux/fprobe.h>

#endif /* _FERROTRACE_FTRACE_FUNCTIONS_BINDINGS_H */
