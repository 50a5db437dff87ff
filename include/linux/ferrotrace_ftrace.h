/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Ferrotrace adds to ftrace. See Documentation/ftrace_tramp.rst of Ferrotrace.
 */
#ifndef _LINUX_FERROTRACE_FTRACE_H
#define _LINUX_FERROTRACE_FTRACE_H

/* For an engine that makes trampolines: kernel/trace/ftrace.c. */
int ftrace_renew_trampolines(void);

#endif /* _LINUX_FERROTRACE_FTRACE_H */
