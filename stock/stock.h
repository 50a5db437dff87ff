/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before all other lines of our C code on a kernel without our patches: the options that
 * stock/config.mk sets.
 */
#ifndef _FERROTRACE_STOCK_H
#define _FERROTRACE_STOCK_H

#define CONFIG_FERROTRACE 1
#define CONFIG_FERROTRACE_STOCK 1
#define CONFIG_KLOG_RUST 1

#include "kernel_functions.h"

/* A kernel older than 7.3 (stock.mk) has it only with lockdep. */
#if defined(FERRO_STOCK_OLDER) && !defined(CONFIG_DEBUG_LOCK_ALLOC)
#define __init_srcu_struct(ssp, name, key) init_srcu_struct(ssp)
#endif

#endif /* _FERROTRACE_STOCK_H */
