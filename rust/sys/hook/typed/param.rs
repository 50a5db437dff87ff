// SPDX-License-Identifier: GPL-2.0

//! Parameters and return values of exits, in registers.

use kernel::ffi::c_long;
use kernel::ffi::c_ulong;

use super::sealed;

/// Type of a parameter of a dispatch with lifetime `'a`.
///
/// References have the lifetime of the dispatch and no other: with `&'static mut T`, each exit
/// could keep one to the same object.
///
/// # Safety
///
/// `from_raw()` is the inverse of `into_raw()`; `MODIFIABLE` is true for a mutable reference.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a hook",
    note = "parameters are numbers, `bool`, `*mut T`, and references of the lifetime that the \
        hook's type names"
)]
pub unsafe trait Param<'a>: Sized {
    /// True if exits can change it.
    const MODIFIABLE: bool = false;

    /// Converts the value to a register.
    fn into_raw(self) -> c_ulong;

    /// # Safety
    ///
    /// `raw` is from `into_raw()` of this type, or from a site in C that passes the same; its
    /// referent exists for this lifetime.
    unsafe fn from_raw(raw: c_ulong) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        // SAFETY: A register holds each of these, sign- or zero-extended, as C passes them; the
        // conversion back removes the extension. Clippy takes the comment for one of the
        // conversions, which are written with the same type.
        #[allow(clippy::unnecessary_safety_comment)]
        unsafe impl Param<'_> for $type {
            #[inline(always)]
            fn into_raw(self) -> c_ulong {
                self as c_ulong
            }

            #[inline(always)]
            unsafe fn from_raw(raw: c_ulong) -> Self {
                raw as $type
            }
        }
    };
}

number!(u8);
number!(u16);
number!(u32);
number!(u64);
number!(usize);
number!(i8);
number!(i16);
number!(i32);
number!(i64);
number!(isize);

// SAFETY: 0 or 1 in both directions.
unsafe impl Param<'_> for bool {
    #[inline(always)]
    fn into_raw(self) -> c_ulong {
        c_ulong::from(self)
    }

    #[inline(always)]
    unsafe fn from_raw(raw: c_ulong) -> Self {
        raw != 0
    }
}

// SAFETY: An address has the width of a register.
unsafe impl<T> Param<'_> for *mut T {
    #[inline(always)]
    fn into_raw(self) -> c_ulong {
        self.expose_provenance()
    }

    #[inline(always)]
    unsafe fn from_raw(raw: c_ulong) -> Self {
        core::ptr::with_exposed_provenance_mut(raw)
    }
}

// SAFETY: A reference is passed as its address and restored, for a lifetime within that of the
// call. Another CPU's thread may call the exit while this one is stopped, so it must be `Sync`.
unsafe impl<'a, T: Sync> Param<'a> for &'a T {
    #[inline(always)]
    fn into_raw(self) -> c_ulong {
        core::ptr::from_ref(self).expose_provenance()
    }

    #[inline(always)]
    unsafe fn from_raw(raw: c_ulong) -> Self {
        // SAFETY: By the rules of this function.
        unsafe { &*core::ptr::with_exposed_provenance(raw) }
    }
}

// SAFETY: The address is restored to the same reference, for a lifetime within that of the call:
// exits get it one after the other, and the site has lent it to them.
unsafe impl<'a, T: Send> Param<'a> for &'a mut T {
    const MODIFIABLE: bool = true;

    #[inline(always)]
    fn into_raw(self) -> c_ulong {
        core::ptr::from_mut(self).expose_provenance()
    }

    #[inline(always)]
    unsafe fn from_raw(raw: c_ulong) -> Self {
        // SAFETY: By the rules of this function.
        unsafe { &mut *core::ptr::with_exposed_provenance_mut(raw) }
    }
}

/// Type of the value that an exit can make the function of its hook return.
pub trait ReturnValue: sealed::Sealed + Sized {
    /// True if there is a value.
    const SOME: bool = true;

    /// Converts the value to a register.
    fn into_raw(self) -> c_long;

    /// Converts a register back.
    fn from_raw(raw: c_long) -> Self;
}

macro_rules! return_number {
    ($($type:ty)*) => { $(
        impl sealed::Sealed for $type {}

        impl ReturnValue for $type {
            fn into_raw(self) -> c_long {
                self as c_long
            }

            fn from_raw(raw: c_long) -> Self {
                raw as $type
            }
        }
    )* };
}

return_number!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl sealed::Sealed for bool {}

impl ReturnValue for bool {
    fn into_raw(self) -> c_long {
        c_long::from(self)
    }

    fn from_raw(raw: c_long) -> Self {
        raw != 0
    }
}

/// Type for hooks without a return value.
pub enum NoReturn {}

impl sealed::Sealed for NoReturn {}

impl ReturnValue for NoReturn {
    const SOME: bool = false;

    fn into_raw(self) -> c_long {
        match self {}
    }

    fn from_raw(_: c_long) -> Self {
        // Unreachable: see `Hook::dispatch()`.
        loop {
            core::hint::spin_loop();
        }
    }
}
