// SPDX-License-Identifier: GPL-2.0

//! Reference-counted objects to which C code has pointers.
//!
//! Contexts: taking a reference: any; dropping the last one: where the object's `Drop` may run.

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::sync::Refcount;

/// A type with an embedded reference count, for use with [`ARef`].
///
/// # Safety
///
/// - `count()` always returns the same [`Refcount`], which no other code decrements.
/// - Every instance was allocated as a `KBox<Self>`, is pinned, and starts with a count of 1.
pub unsafe trait Counted: Sized {
    /// Returns the count.
    fn count(&self) -> &Refcount;
}

/// Implements [`AlwaysRefCounted`] for a [`Counted`] type.
///
/// A blanket implementation is not possible: the trait belongs to the `kernel` crate.
#[macro_export]
macro_rules! impl_always_refcounted {
    ($type:ty) => {
        // SAFETY: `Counted` guarantees that the count belongs to the object and that every instance
        // has one.
        unsafe impl ::kernel::sync::aref::AlwaysRefCounted for $type {
            #[inline]
            fn inc_ref(&self) {
                $crate::sync::refcounted::Counted::count(self).inc();
            }

            #[inline]
            unsafe fn dec_ref(obj: ::core::ptr::NonNull<Self>) {
                // SAFETY: The caller gives up a reference that it owns.
                unsafe { $crate::sync::refcounted::put(obj) }
            }
        }
    };
}

/// Drops a reference, and frees the object with the last one.
///
/// # Safety
///
/// The caller owns a reference and does not use it afterwards.
pub unsafe fn put<T: Counted>(obj: NonNull<T>) {
    // SAFETY: The caller's reference keeps the object alive.
    if unsafe { obj.as_ref() }.count().dec_and_test() {
        // SAFETY: By the rules of `Counted` the object was a `KBox`, and no reference is
        // left.
        drop(unsafe { KBox::from_raw(obj.as_ptr()) });
    }
}

/// Makes the first reference of a new object.
pub fn first_ref<T: Counted + AlwaysRefCounted>(object: Pin<KBox<T>>) -> ARef<T> {
    // SAFETY: The object does not move, behind the `ARef`.
    let raw = KBox::into_raw(unsafe { Pin::into_inner_unchecked(object) });
    // SAFETY: The pointer of a box is not NULL; by the rules of `Counted` the count is 1, and it
    // now belongs to the `ARef`.
    unsafe { ARef::from_raw(NonNull::new_unchecked(raw)) }
}

/// A value with a reference count of its own.
#[pin_data]
pub struct Shared<T> {
    count: Refcount,
    #[pin]
    value: T,
}

// SAFETY: `Shared` can only be made by `Shared::new()`, in a box with a count of 1.
unsafe impl<T> Counted for Shared<T> {
    fn count(&self) -> &Refcount {
        &self.count
    }
}

// SAFETY: `Counted` guarantees that the count belongs to the object.
unsafe impl<T> AlwaysRefCounted for Shared<T> {
    fn inc_ref(&self) {
        self.count.inc();
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference that it owns.
        unsafe { put(obj) }
    }
}

impl<T> Shared<T> {
    /// Allocates a value with a reference count.
    ///
    /// Context: process. Errors: those of `init`, and -ENOMEM.
    pub fn new(init: impl PinInit<T, Error>) -> Result<ARef<Self>> {
        let object = KBox::try_pin_init(
            try_pin_init!(Self {
                count: Refcount::new(1),
                value <- init,
            }? Error),
            GFP_KERNEL,
        )?;
        Ok(first_ref(object))
    }
}

impl<T> core::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
