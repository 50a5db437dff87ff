/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the exporter of coverage needs of C, beside what rust/sys/bindings.h has.
 */
#ifndef _FERROTRACE_GCOV_BINDINGS_H
#define _FERROTRACE_GCOV_BINDINGS_H

#include "builtin/builtin.h"
#include "builtin/tree.h"

#endif /* _FERROTRACE_GCOV_BINDINGS_H */
