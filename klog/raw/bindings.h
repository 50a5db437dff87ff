/* SPDX-License-Identifier: GPL-2.0 */
/* Kernel headers that klog needs, and the interface between its C and its Rust. */
#ifndef _FERROTRACE_KLOG_BINDINGS_H
#define _FERROTRACE_KLOG_BINDINGS_H

#include <linux/klog.h>

#include "context.h"

#endif /* _FERROTRACE_KLOG_BINDINGS_H */
