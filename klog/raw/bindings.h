/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What klog needs of the kernel's headers, and what its C and its Rust share.
 */
#ifndef _FERROTRACE_KLOG_BINDINGS_H
#define _FERROTRACE_KLOG_BINDINGS_H

#include <linux/klog.h>

#include "context.h"

#endif /* _FERROTRACE_KLOG_BINDINGS_H */
