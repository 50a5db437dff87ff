/* SPDX-License-Identifier: GPL-2.0 */
/* Parts of the image that the gcov exporter calls. */
#ifndef _FERROTRACE_GCOV_BINDINGS_H
#define _FERROTRACE_GCOV_BINDINGS_H

#include "../builtin/builtin.h"
#include "../builtin/tree.h"

#endif /* _FERROTRACE_GCOV_BINDINGS_H */
