/* SPDX-License-Identifier: GPL-2.0 */
/* C declarations that the gcov exporter needs in addition to rust/sys/bindings.h. */
#ifndef _FERROTRACE_GCOV_BINDINGS_H
#define _FERROTRACE_GCOV_BINDINGS_H

#include "builtin/builtin.h"
#include "builtin/tree.h"

#endif /* _FERROTRACE_GCOV_BINDINGS_H */
