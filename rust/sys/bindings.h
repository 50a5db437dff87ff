/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What Ferrotrace needs of the kernel's headers: included by
 * rust/bindings/bindings_helper.h, so that the kernel's `bindings` crate has it.
 */
#ifndef _FERROTRACE_BINDINGS_H
#define _FERROTRACE_BINDINGS_H

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/percpu.h>
#include <linux/relay.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "helpers.h"

#endif /* _FERROTRACE_BINDINGS_H */
