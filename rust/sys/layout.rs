// SPDX-License-Identifier: GPL-2.0

//! Compile-time checks that the bindings have the fields that our crates use at the offsets of the
//! C compiler.
//!
//! Bindgen normally checks this in tests that the kernel leaves out, and sometimes gets a layout
//! wrong. It drops the alignment of an empty structure (`struct sched_statistics` without
//! `CONFIG_SCHEDSTATS`) unless the structure is opaque. That would move the rest of `struct
//! task_struct`, which clients read by `kernel::task::Task`.

use crate::bindings;
use kernel::prelude::*;

/// Checks the offsets of fields of structures in the bindings.
#[macro_export]
macro_rules! same_offset {
    ($($type:ident . $field:ident),* $(,)?) => { ::kernel::macros::paste! {
        $(::kernel::static_assert!(
            ::core::mem::offset_of!($crate::bindings::$type, $field)
                == $crate::bindings::[<FERRO_OFFSET_ $type _ $field>] as usize
        );)*
    } };
}

same_offset!(
    dentry.d_inode,
    file.private_data,
    file_operations.owner,
    file_operations.read,
    file_operations.write,
    file_operations.poll,
    file_operations.open,
    file_operations.release,
    file_operations.mmap_prepare,
    gkh_exit.count,
    gkh_record.id,
    gkhook.key,
    gkhook.count,
    inode.i_private,
    file_operations.llseek,
    file_operations.splice_read,
    task_struct.comm,
    task_struct.flags,
    task_struct.pid,
    task_struct.tgid,
    tracepoint.name,
    vm_area_desc.file,
    vm_area_desc.pgoff,
    vm_area_desc.vm_ops,
    vm_area_desc.private_data,
    vm_area_struct.vm_private_data,
    vm_fault.page,
    vm_operations_struct.fault,
);
static_assert!(size_of::<bindings::gkhook>() == bindings::FERRO_SIZE_gkhook as usize);
