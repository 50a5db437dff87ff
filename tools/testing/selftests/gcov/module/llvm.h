/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _GCOV_LLVM_H
#define _GCOV_LLVM_H

/* The object that LLVM has compiled: so many calls are counted. */
unsigned int gcov_llvm(unsigned int calls);

#endif
