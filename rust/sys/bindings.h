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

/*
 * Where the C compiler puts the fields that Rust code touches. rust/sys/layout.rs compares it with the
 * bindings: bindgen loses the alignment of empty structures, and with it the place of what follows them
 * (struct task_struct without CONFIG_SCHEDSTATS).
 */
#define FERRO_OFFSET(type, field) FERRO_OFFSET_##type##_##field = offsetof(struct type, field)
enum {
	FERRO_OFFSET(dentry, d_inode),
	FERRO_OFFSET(file, private_data),
	FERRO_OFFSET(file_operations, owner),
	FERRO_OFFSET(file_operations, read),
	FERRO_OFFSET(file_operations, write),
	FERRO_OFFSET(file_operations, poll),
	FERRO_OFFSET(file_operations, open),
	FERRO_OFFSET(file_operations, release),
	FERRO_OFFSET(file_operations, mmap_prepare),
	FERRO_OFFSET(inode, i_private),
	FERRO_OFFSET(rchan, private_data),
	FERRO_OFFSET(rchan, buf),
	FERRO_OFFSET(rchan, base_filename),
	FERRO_OFFSET(rchan_buf, wakeup_work),
	FERRO_OFFSET(rchan_buf, kref),
	FERRO_OFFSET(rchan_buf, padding),
	FERRO_OFFSET(rchan_buf, cpu),
	FERRO_OFFSET(tracepoint, name),
	FERRO_OFFSET(vm_area_desc, file),
	FERRO_OFFSET(vm_area_desc, pgoff),
	FERRO_OFFSET(vm_area_desc, vm_ops),
	FERRO_OFFSET(vm_area_desc, private_data),
	FERRO_OFFSET(vm_area_struct, vm_private_data),
	FERRO_OFFSET(vm_fault, page),
	FERRO_OFFSET(vm_operations_struct, fault),
};

enum {
	FERRO_SIZE_rchan = sizeof(struct rchan),
	FERRO_SIZE_rchan_buf = sizeof(struct rchan_buf),
};

#endif /* _FERROTRACE_BINDINGS_H */
