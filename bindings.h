/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C declarations that Ferrotrace needs, from the header of each part.
 * rust/bindings/bindings_helper.h includes this file, so that the kernel's `bindings` crate has
 * them.
 */
#ifndef _FERROTRACE_BINDINGS_H
#define _FERROTRACE_BINDINGS_H

#include "clients/ftrace_functions/raw/bindings.h"
#include "dprobes/raw/bindings.h"
#include "fast_relay/raw/bindings.h"
#include "ftrace_tramp/raw/bindings.h"
#include "gcov/raw/bindings.h"
#include "klog/raw/bindings.h"
#include "kprobes/api/raw/bindings.h"
#include "kprobes/raw/bindings.h"
#include "relay/api/raw/bindings.h"
#include "relay/raw/bindings.h"
#include "rust/sys/bindings.h"

#endif /* _FERROTRACE_BINDINGS_H */
