// SPDX-License-Identifier: GPL-2.0

//! Memory of the kernel that handlers look at.
//!
//! Contexts: any, NMI included.

use core::mem::MaybeUninit;
use core::ptr::without_provenance;

use kernel::bindings;
use kernel::prelude::*;

/// Reads memory of the kernel, if it is there.
#[inline]
pub(crate) fn read_kernel<T: FromBytes>(from: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: The function takes any address as its source; the destination is a local of this size.
    let failed = unsafe {
        bindings::copy_from_kernel_nofault(
            value.as_mut_ptr().cast(),
            without_provenance(from),
            size_of::<T>(),
        )
    };
    // SAFETY: The function has succeeded, so that all bytes are written, and by its trait any bytes are a `T`.
    (failed == 0).then(|| unsafe { value.assume_init() })
}
