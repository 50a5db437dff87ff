/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel headers that the layer of all engines needs, and declarations that its C and its Rust
 * share.
 */
#ifndef _FERROTRACE_SYS_BINDINGS_H
#define _FERROTRACE_SYS_BINDINGS_H

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/extable.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/fs.h>
#include <linux/ftrace.h>
#include <linux/gkhi.h>
#include <linux/gkhi_points.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/memory.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/text-patching.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "code/ftrace.h"
#include "code/helpers.h"
#include "code/text.h"
#include "cpu/helpers.h"
#include "fs/debugfs.h"
#include "fs/ferrotracefs.h"
#include "fs/helpers.h"
#include "hook/hook.h"
#include "mm/helpers.h"
#include "sync/helpers.h"
#include "trace/helpers.h"

/*
 * Offsets, by the C compiler, of the fields that Rust code uses. rust/sys/layout.rs compares them
 * with the bindings. Bindgen loses the alignment of empty structures, and so the offsets of the
 * fields after them (struct task_struct without CONFIG_SCHEDSTATS).
 */
enum {
	FERRO_OFFSET_dentry_d_inode = offsetof(struct dentry, d_inode),
	FERRO_OFFSET_file_private_data = offsetof(struct file, private_data),
	FERRO_OFFSET_file_operations_owner = offsetof(struct file_operations, owner),
	FERRO_OFFSET_file_operations_read = offsetof(struct file_operations, read),
	FERRO_OFFSET_file_operations_write = offsetof(struct file_operations, write),
	FERRO_OFFSET_file_operations_poll = offsetof(struct file_operations, poll),
	FERRO_OFFSET_file_operations_open = offsetof(struct file_operations, open),
	FERRO_OFFSET_file_operations_release = offsetof(struct file_operations, release),
	FERRO_OFFSET_file_operations_mmap_prepare = offsetof(struct file_operations, mmap_prepare),
	FERRO_OFFSET_gkh_exit_count = offsetof(struct gkh_exit, count),
	FERRO_OFFSET_gkh_record_id = offsetof(struct gkh_record, id),
	FERRO_OFFSET_gkhook_key = offsetof(struct gkhook, key),
	FERRO_OFFSET_gkhook_count = offsetof(struct gkhook, count),
	FERRO_OFFSET_inode_i_private = offsetof(struct inode, i_private),
	FERRO_OFFSET_file_operations_llseek = offsetof(struct file_operations, llseek),
	FERRO_OFFSET_file_operations_splice_read = offsetof(struct file_operations, splice_read),
	FERRO_OFFSET_task_struct_comm = offsetof(struct task_struct, comm),
	FERRO_OFFSET_task_struct_flags = offsetof(struct task_struct, flags),
	FERRO_OFFSET_task_struct_pid = offsetof(struct task_struct, pid),
	FERRO_OFFSET_task_struct_tgid = offsetof(struct task_struct, tgid),
	FERRO_OFFSET_tracepoint_name = offsetof(struct tracepoint, name),
	FERRO_OFFSET_vm_area_desc_file = offsetof(struct vm_area_desc, file),
	FERRO_OFFSET_vm_area_desc_pgoff = offsetof(struct vm_area_desc, pgoff),
	FERRO_OFFSET_vm_area_desc_vm_ops = offsetof(struct vm_area_desc, vm_ops),
	FERRO_OFFSET_vm_area_desc_private_data = offsetof(struct vm_area_desc, private_data),
	FERRO_OFFSET_vm_area_struct_vm_private_data = offsetof(struct vm_area_struct, vm_private_data),
	FERRO_OFFSET_vm_fault_page = offsetof(struct vm_fault, page),
	FERRO_OFFSET_vm_operations_struct_fault = offsetof(struct vm_operations_struct, fault),
};

enum {
	FERRO_MODULE_NAME_LEN = MODULE_NAME_LEN,
};

enum {
	FERRO_SIZE_gkhook = sizeof(struct gkhook),
};

#endif /* _FERROTRACE_SYS_BINDINGS_H */
