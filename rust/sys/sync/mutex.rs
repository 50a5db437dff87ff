// SPDX-License-Identifier: GPL-2.0

//! Mutexes that are initialised before any code of their module runs.
//!
//! Rust's global locks need an initialising call, which is too late for code that the kernel calls
//! before initcalls. So the lock itself is defined in C, with `DEFINE_MUTEX()`.
//!
//! Contexts: process; sleeps.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ops::DerefMut;

use crate::bindings;
use kernel::types::NotThreadSafe;

// RUST-KERNEL: `kernel::sync::global_lock!` has to be initialised at run time; ours until a static
// one needs no call.
/// Data protected by a C mutex.
pub struct StaticMutex<T> {
    lock: *mut bindings::mutex,
    data: UnsafeCell<T>,
}

// SAFETY: The mutex lets one task at a time access the data.
unsafe impl<T: Send> Sync for StaticMutex<T> {}

impl<T> StaticMutex<T> {
    /// # Safety
    ///
    /// `lock` points to a mutex with static lifetime, initialised by `DEFINE_MUTEX()`. Use
    /// [`static_mutex!`](crate::static_mutex!) instead, which ensures that.
    pub const unsafe fn new(lock: *mut bindings::mutex, data: T) -> Self {
        Self {
            lock,
            data: UnsafeCell::new(data),
        }
    }

    /// Waits for the mutex.
    pub fn lock(&'static self) -> StaticGuard<T> {
        // SAFETY: By the rules of `new()` the mutex is initialised.
        unsafe { bindings::mutex_lock(self.lock) };
        StaticGuard {
            mutex: self,
            _not_send: NotThreadSafe,
        }
    }
}

/// Makes a [`StaticMutex`] of a C mutex, for a static: `static_mutex!(NAME, DATA)`, where the
/// kernel's bindings have `extern struct mutex NAME`. Each mutex is for one static: a second one
/// would share the mutex, and taking both would deadlock.
#[macro_export]
macro_rules! static_mutex {
    ($name:ident, $data:expr) => {
        match $data {
            // SAFETY: A C file defines the extern mutex with `DEFINE_MUTEX()`. If other code locks
            // it too, it still lets only one task at a time access this data.
            data => unsafe {
                $crate::sync::mutex::StaticMutex::new(&raw mut $crate::bindings::$name, data)
            },
        }
    };
}

/// The right to use the data of a [`StaticMutex`].
pub struct StaticGuard<T: 'static> {
    mutex: &'static StaticMutex<T>,
    _not_send: NotThreadSafe,
}

impl<T> Deref for StaticGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The guard holds the mutex.
        unsafe { &*self.mutex.data.get() }
    }
}

impl<T> DerefMut for StaticGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The guard holds the mutex and is borrowed mutably.
        unsafe { &mut *self.mutex.data.get() }
    }
}

impl<T> Drop for StaticGuard<T> {
    fn drop(&mut self) {
        // SAFETY: The guard holds the mutex, in this task, as it is not `Send`.
        unsafe { bindings::mutex_unlock(self.mutex.lock) };
    }
}
