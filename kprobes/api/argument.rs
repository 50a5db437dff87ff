// SPDX-License-Identifier: GPL-2.0

//! Typed arguments of functions, from the registers that pass them.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use core::ptr::with_exposed_provenance;
use core::ptr::with_exposed_provenance_mut;

use kernel::uaccess::UserPtr;

/// Type of an argument that is passed in a register.
pub trait Argument: Copy {
    /// Returns the argument as the function sees it.
    fn from_register(register: usize) -> Self;
}

macro_rules! integer_arguments {
    ($($integer:ty)*) => { $(
        impl Argument for $integer {
            fn from_register(register: usize) -> Self {
                // The upper bits of the register are undefined.
                register as Self
            }
        }
    )* };
}

integer_arguments!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl Argument for bool {
    fn from_register(register: usize) -> Self {
        u8::from_register(register) != 0
    }
}

/// Pointer of a process, for a parameter like `const char __user *`.
impl Argument for UserPtr {
    fn from_register(register: usize) -> Self {
        Self::from_addr(register)
    }
}

impl<T> Argument for *const T {
    fn from_register(register: usize) -> Self {
        with_exposed_provenance(register)
    }
}

impl<T> Argument for *mut T {
    fn from_register(register: usize) -> Self {
        with_exposed_provenance_mut(register)
    }
}
