// SPDX-License-Identifier: GPL-2.0

//! A lock with `try_lock()` only, which is usable in any context.
//!
//! Contexts: any, NMI included.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ops::DerefMut;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;

/// A value with one user at a time. A caller that finds it in use continues without it.
pub struct TryLock<T> {
    /// Taken with acquire, and released with release.
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: One user at a time has the value, on any thread: `try_lock()` gives it only to the caller
// that has set the flag.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Makes a value that is not in use.
    pub const fn new(value: T) -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value, until the guard is dropped; `None` if it is in use.
    #[inline]
    pub fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        if self.is_taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // INVARIANT: The flag was clear, so there is no other guard.
        Some(TryGuard(self))
    }
}

/// Guard of the value of a [`TryLock`].
///
/// # Invariants
///
/// A lock has at most one guard, and its flag is set as long.
pub struct TryGuard<'a, T>(&'a TryLock<T>);

impl<T> Deref for TryGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant only this guard gives access to the value, and it is
        // borrowed.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant only this guard gives access to the value, and it is
        // borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TryGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}
