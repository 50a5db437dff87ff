// SPDX-License-Identifier: GPL-2.0

//! A lock that is only tried, never waited for, so that it may be tried anywhere.
//!
//! Contexts: any, NMI included.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ops::DerefMut;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;

/// A value that has one user at a time. A caller that finds it in use does without.
pub struct TryLock<T> {
    /// Taken with acquire, and given back with release.
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: One user at a time has the value, of whatever thread: `try_lock()` gives it only to the one that has set the flag.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// A value that nobody uses.
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
        // INVARIANT: The flag was not set, so that there is no other guard.
        Some(TryGuard(self))
    }
}

/// The use of the value of a [`TryLock`].
///
/// # Invariants
///
/// There is one for a lock, and as long its flag is set.
pub struct TryGuard<'a, T>(&'a TryLock<T>);

impl<T> Deref for TryGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant only this guard leads to the value, and it is borrowed.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant only this guard leads to the value, and it is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TryGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}
